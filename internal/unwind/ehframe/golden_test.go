package ehframe

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
)

var update = flag.Bool("update", false, "write the golden tables anew")

// TestGolden compares the tables of the committed ELF files with those that were looked through when they were
// committed. testdata/elf/regenerate.sh makes both.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("../../../testdata/elf/*.elf")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, path := range files {
		f := unwindtest.Open(t, path)
		var s strings.Builder
		eh, st, err := EHFrame(f)
		fmt.Fprintf(&s, ".eh_frame %+v %v\n%s", st, err, dump(eh))
		debug, st, err := DebugFrame(f)
		fmt.Fprintf(&s, ".debug_frame %+v %v\n%s", st, err, dump(debug))
		checkTable(t, eh)
		checkTable(t, debug)
		golden := filepath.Join("testdata", strings.TrimSuffix(filepath.Base(path), ".elf")+".golden")
		if *update {
			if err := os.WriteFile(golden, []byte(s.String()), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if s.String() != string(want) {
			t.Errorf("%s:\n%swant\n%s", path, s.String(), want)
		}
	}
}

func dump(t *unwind.Table) string {
	var s strings.Builder
	for _, r := range t.Rows {
		fmt.Fprintf(&s, "%#x %v\n", uint64(r.Start), t.Rules[r.Rule])
	}
	return s.String()
}

// TestSectionless finds the same table with and without section headers.
func TestSectionless(t *testing.T) {
	with, _, err := EHFrame(unwindtest.Open(t, "../../../testdata/elf/gcc_amd64.elf"))
	if err != nil {
		t.Fatal(err)
	}
	f := unwindtest.Open(t, "../../../testdata/elf/sectionless_amd64.elf")
	without, st, err := EHFrame(f)
	if err != nil || len(f.Sections) != 0 || st.Malformed != 0 || dump(with) != dump(without) || len(with.Rows) == 0 {
		t.Errorf("%d sections, %+v, %v\n%swant\n%s", len(f.Sections), st, err, dump(without), dump(with))
	}
}
