package ehframe

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
)

// TestFunctions compares with the FDEs as they are read one after the other: their first and last bytes, and those around.
func TestFunctions(t *testing.T) {
	for _, path := range []string{
		"/proc/self/exe", "/bin/bash", "/usr/bin/gcc", "../../../testdata/elf/gcc_amd64.elf", "../../../testdata/elf/gcc_arm64.elf",
	} {
		f := unwindtest.Open(t, path)
		s, err := findEHFrame(f)
		if err != nil {
			t.Fatal(err)
		}
		fs, err := NewFunctions(f)
		if err != nil {
			t.Fatal(err)
		}
		if s == nil {
			continue
		}
		_, fdes, err := s.entries(f, &Stats{})
		if err != nil {
			t.Fatal(err)
		}
		covers := map[unwind.FileAddr]int{}
		for _, fde := range fdes {
			covers[unwind.FileAddr(fde.start)]++
			covers[unwind.FileAddr(fde.end)]-- // of a neighbour, or of none
		}
		wrong := 0
		for _, fde := range fdes {
			for _, a := range []uint64{fde.start, fde.start + (fde.end-fde.start)/2, fde.end - 1} {
				got, ok, err := fs.Find(unwind.FileAddr(a))
				if err != nil || fs.count > 0 && (!ok || uint64(got) != fde.start) {
					if wrong++; wrong < 5 {
						t.Errorf("%s: %#x is in the function at %#x, %v, %v; want %#x", path, a, got, ok, err, fde.start)
					}
				}
			}
			a := unwind.FileAddr(fde.end)
			if n, known := covers[a]; known && n < 0 { // nothing begins there
				if got, ok, err := fs.Find(a); ok || err != nil {
					t.Errorf("%s: %#x behind a function: %#x, %v", path, a, got, err)
				}
			}
		}
		if uint64(len(fdes)) < fs.count {
			t.Errorf("%s: %d FDEs, %d in the table", path, len(fdes), fs.count)
		}
		t.Logf("%s: %d functions", path, fs.count)
		if _, ok, err := fs.Find(0); ok || err != nil {
			t.Errorf("%s: a function at 0: %v", path, err)
		}
		if _, ok, err := fs.Find(1 << 63); ok || err != nil {
			t.Errorf("%s: a function far away: %v", path, err)
		}
	}
}

// TestFunctionsStripped has a stripped program: its functions are found all the same, in files without section headers too.
func TestFunctionsStripped(t *testing.T) {
	unwindtest.Need(t, "gcc", "strip")
	bin := filepath.Join(t.TempDir(), "program")
	cmd := exec.Command("sh", "-ec", `
		echo 'int f(int a) { return a * 3; } int main(int c, char **v) { return f(c); }' | gcc -O1 -fno-inline -x c -o "$0" -
		strip --strip-section-headers "$0" 2>/dev/null || strip "$0"`, bin)
	whole := exec.Command("sh", "-ec", `
		echo 'int f(int a) { return a * 3; } int main(int c, char **v) { return f(c); }' | gcc -O1 -fno-inline -x c -o "$0.whole" -`, bin)
	for _, c := range []*exec.Cmd{cmd, whole} {
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	fs, err := NewFunctions(unwindtest.Open(t, bin))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, s := range unwindtest.Symbols(t, bin+".whole") {
		if s.Name == "f" || s.Name == "main" {
			for a := s.Value; a < s.Value+s.Size; a++ {
				if got, ok, err := fs.Find(unwind.FileAddr(a)); err != nil || !ok || uint64(got) != s.Value {
					t.Errorf("%#x of %s at %#x: %#x, %v, %v", a, s.Name, s.Value, got, ok, err)
				}
			}
			found++
		}
	}
	if found != 2 {
		t.Errorf("%d symbols", found)
	}
}

func FuzzFunctions(f *testing.F) {
	for _, b := range unwindtest.Seeds(f, "../../..", "gcc_amd64", "gcc_arm64") {
		f.Add(b, uint64(0x1139))
	}
	f.Fuzz(func(t *testing.T, b []byte, a uint64) {
		file, err := elffile.New(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		fs, err := NewFunctions(file)
		if err != nil {
			return
		}
		for _, at := range []unwind.FileAddr{unwind.FileAddr(a), file.Entry} {
			if start, ok, err := fs.Find(at); ok && (err != nil || start > at) {
				t.Errorf("%#x is in a function at %#x: %v", at, start, err)
			}
		}
	})
}
