package mix

import (
	"bufio"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
)

// TestDescribed compares which code is described with what readelf says.
func TestDescribed(t *testing.T) {
	unwindtest.Need(t, "readelf")
	for _, path := range []string{"/bin/bash", "/usr/bin/perl", "/lib/x86_64-linux-gnu/libc.so.6", "/lib/aarch64-linux-gnu/libc.so.6", "/usr/aarch64-linux-gnu/lib/libc.so.6"} {
		f, err := readFile(path)
		if err != nil {
			t.Log(err) // another architecture's, or not installed
			continue
		}
		want := fromReadelf(t, path)
		got := slices.Clone(f.ranges)
		slices.SortFunc(got, bySpan)
		slices.SortFunc(want, bySpan)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %d ranges, readelf has %d", path, len(got), len(want))
		}
		if len(want) < 100 {
			t.Errorf("%s: only %d ranges", path, len(want))
		}
		files := Files{}
		if where := files.Where(path, want[0].from); where != Described {
			t.Errorf("%s: the code at %#x is of kind %d", path, want[0].from, where)
		}
		if where := files.Where(path, 1); where != Bare {
			t.Errorf("%s: what is no code is of kind %d", path, where)
		}
	}
	if where := (Files{}).Where("[jit]", 1); where != Made {
		t.Errorf("code of no file is of kind %d", where)
	}
}

func bySpan(a, b span) int {
	if a.from != b.from {
		return int(int64(a.from - b.from))
	}
	return int(int64(a.to - b.to))
}

// fromReadelf reads lines as "00000018 0000000000000014 0000001c FDE cie=00000000 pc=0000000000030c30..0000000000030c52".
func fromReadelf(t *testing.T, path string) (ranges []span) {
	t.Helper()
	cmd := exec.Command("readelf", "-wNf", path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		_, pc, ok := strings.Cut(lines.Text(), " pc=")
		if !ok {
			continue
		}
		var s span
		if _, err := fmt.Sscanf(pc, "%x..%x", &s.from, &s.to); err != nil {
			t.Fatal(err)
		}
		ranges = append(ranges, s)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	return ranges
}
