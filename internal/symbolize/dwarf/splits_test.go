package dwarf

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
)

// splitUnits is how many .dwo files manySplits makes.
const splitUnits = 5

// manySplits builds a program of several units with .dwo files, and returns where one function of each is.
func manySplits(t *testing.T, flags ...string) (path string, addrs []unwind.FileAddr) {
	t.Helper()
	dir := t.TempDir()
	args := append([]string{"-g", "-O1", "-gsplit-dwarf", "-o", "prog"}, flags...)
	for n := range splitUnits {
		var s strings.Builder
		for k := range 50 {
			fmt.Fprintf(&s, "int unit%d_function%d(int first, int second) { return first * %d + second; }\n", n, k, k+3)
		}
		if n == 0 {
			s.WriteString("int main(int argc, char **argv) { return unit0_function0(argc, 1); }\n")
		}
		name := fmt.Sprintf("unit%d.c", n)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(s.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, name)
	}
	run(t, dir, "gcc", args...)
	path = filepath.Join(dir, "prog")
	for _, s := range unwindtest.Symbols(t, path) {
		if strings.HasSuffix(s.Name, "_function7") {
			addrs = append(addrs, unwind.FileAddr(s.Value))
		}
	}
	if len(addrs) != splitUnits {
		t.Fatalf("%d functions", len(addrs))
	}
	return path, addrs
}

type closeFunc func() error

func (f closeFunc) Close() error { return f() }

// TestSplitsAreClosed: only so many split files are open, those that went since the last lookup included, and all are closed
// in the end. So are the sections of theirs that were decompressed to disk, with them.
func TestSplitsAreClosed(t *testing.T) {
	for _, flags := range [][]string{nil, {"-gz=zlib"}} {
		path, addrs := manySplits(t, flags...)
		files, filesOpen, most := 0, 0, 0
		spills, spillsOpen := 0, 0
		o := Options{
			OpenSplit: func(name, dir string, id uint64) (*elffile.File, io.Closer, error) {
				f, closer, err := splitFiles(name, dir, id)
				files, filesOpen = files+1, filesOpen+1
				most = max(most, filesOpen)
				return f, closeFunc(func() error { filesOpen--; return closer.Close() }), err
			},
			Spill: func(uint64) (Spill, error) {
				f, err := os.CreateTemp(t.TempDir(), "spill")
				spills, spillsOpen = spills+1, spillsOpen+1
				return closedSpill{f, func() { spillsOpen-- }}, err
			},
			SpillSize: 1,
		}
		budget := elffile.NewBudget(path, 64<<20)
		d, err := Open(openDebug(t, path).Within(budget), o)
		if err != nil {
			t.Fatal(err)
		}
		d.splits.Resize(1)
		for range 2 {
			for _, a := range addrs {
				lines, err := d.Lookup(nil, a)
				if err != nil || len(lines) != 1 || !strings.HasSuffix(lines[0].Function.Name, "_function7") || lines[0].Line != 8 {
					t.Fatal(lines, err)
				}
				d.forget(0) // or the files are not opened again
			}
		}
		if most != 2 || files != 2*splitUnits {
			t.Errorf("%v: %d split files were open at a time, %d in all", flags, most, files)
		}
		d.begin()
		want := spillsOf(d.main)
		for _, o := range d.splits.Values() {
			if flags != nil && spillsOf(o) == 0 {
				t.Errorf("nothing of a split file is compressed")
			}
			want += spillsOf(o)
		}
		if filesOpen != 1 || spillsOpen != want || flags != nil && spills < want+2*splitUnits-1 {
			t.Errorf("%v: %d split files and %d sections on disk are open, not %d; of %d", flags, filesOpen, spillsOpen, want, spills)
		}
		if d.Close(); filesOpen != 0 || spillsOpen != 0 || budget.Used() != 0 || d.Problems() != nil {
			t.Errorf("%v: %d split files and %d sections are left open, %d bytes, %v", flags, filesOpen, spillsOpen, budget.Used(), d.Problems())
		}
	}
}

func spillsOf(o *object) (n int) {
	for _, s := range o.secs {
		if s != nil && s.spill != nil {
			n++
		}
	}
	return n
}
