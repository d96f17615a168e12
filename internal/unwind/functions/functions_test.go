package functions

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/codeflow"
	"github.com/hostprofiles/hostprofiles/internal/unwind/ehframe"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
)

const source = `
#include <stdio.h>
#include <stdlib.h>
__attribute__((noinline)) int f(int a) { return a * 3 + rand(); }
int main(int c, char **v) { printf("%d\n", f(c)); return f(c); }
`

// build compiles the program with and without symbols.
func build(t *testing.T, compiler ...string) (stripped, whole string) {
	t.Helper()
	dir := t.TempDir()
	src := filepath.Join(dir, "program.c")
	stripped, whole = filepath.Join(dir, "program"), filepath.Join(dir, "program.whole")
	if err := os.WriteFile(src, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	unwindtest.Need(t, compiler[0])
	for out, more := range map[string]string{stripped: "-s", whole: "-O2"} {
		cmd := exec.Command(compiler[0], append(compiler[1:], "-O2", more, "-o", out, src)...)
		if b, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", cmd.Args, err, b)
		}
	}
	return stripped, whole
}

// TestStripped has stripped programs without a search table, or with one that lacks most of them: what is found is what the
// lost symbols say. Where that is not known, nothing is said.
func TestStripped(t *testing.T) {
	for _, c := range []struct {
		compiler []string
		share    float64 // of the functions' bytes that have to be found
	}{
		{[]string{"gcc", "-static"}, 0.97},
		{[]string{"musl-gcc", "-static"}, 0.85},
		{[]string{"musl-gcc"}, 0.9},
		{[]string{"aarch64-linux-gnu-gcc", "-static"}, 0.97},
		{[]string{"aarch64-linux-gnu-gcc"}, 0.9},
	} {
		stripped, whole := build(t, c.compiler...)
		f := unwindtest.Open(t, stripped)
		d, err := New(f)
		if err != nil {
			t.Fatal(err)
		}
		budget := elffile.NewBudget(stripped, 32<<20)
		if err := d.List(f.Within(budget)); err != nil {
			t.Fatal(err)
		}
		if budget.Used() != 0 {
			t.Errorf("%v: %d bytes of the budget were kept", c.compiler, budget.Used())
		}
		starts := map[uint64]bool{}
		symbols := unwindtest.Symbols(t, whole)
		for _, s := range symbols {
			starts[s.Value] = true
		}
		var all, right, wrong uint64
		for _, s := range symbols {
			if elf.ST_TYPE(s.Info) != elf.STT_FUNC || s.Size == 0 {
				continue
			}
			for a := s.Value; a < s.Value+s.Size; a++ {
				got, ok, err := d.Find(unwind.FileAddr(a))
				if err != nil {
					t.Fatal(err)
				}
				all++
				switch {
				case ok && uint64(got) == s.Value:
					right++
				case ok && !starts[uint64(got)]: // an alias, or one within the other, is no mistake
					if wrong++; wrong < 5 {
						t.Logf("%v: %#x of %s at %#x: %#x", c.compiler, a, s.Name, s.Value, uint64(got))
					}
				}
			}
		}
		t.Logf("%v: %d functions, %d bytes of code, %d right, %d wrong", c.compiler, len(d.list), all, right, wrong)
		if float64(right) < c.share*float64(all) || wrong*500 > all {
			t.Errorf("%v: %d bytes of code, %d right, %d wrong", c.compiler, all, right, wrong)
		}
	}
}

// TestCodeAgainstFrames has the code tell where functions begin, without a look at the FDEs and symbols of files that have them.
func TestCodeAgainstFrames(t *testing.T) {
	var paths []string
	for _, pattern := range []string{"/bin/bash", "/usr/bin/readelf", "/usr/bin/find", "/lib/*-linux-gnu/libm.so.6",
		"/usr/lib/*-linux-gnu/libstdc++.so.6", "/usr/*-linux-gnu/lib/libc.so.6", "/usr/*-linux-gnu/lib/libstdc++.so.6"} {
		m, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, m...)
	}
	if len(paths) < 4 {
		t.Fatalf("only %v found", paths)
	}
	right, wrong := 0, 0
	for _, path := range paths {
		f := unwindtest.Open(t, path)
		for i := range f.Sections {
			if s := &f.Sections[i]; s.Type == elf.SHT_SYMTAB || s.Type == elf.SHT_DYNSYM {
				s.Type = elf.SHT_PROGBITS
			}
		}
		frames, err := ehframe.Extents(f)
		if err != nil {
			t.Fatal(err)
		}
		found, err := codeflow.Functions(f, &unwind.Table{})
		if err != nil {
			t.Fatal(err)
		}
		truth := Finder{table: &ehframe.Functions{}, list: frames}
		for _, x := range found {
			if name := section(f, x.Start); name != ".text" {
				continue // all stubs of a .plt have one FDE
			}
			for _, a := range []unwind.FileAddr{x.Start, x.Start + (x.End-x.Start)/2, x.End - 1} {
				switch start, ok, _ := truth.Find(a); {
				case !ok:
				case start == x.Start:
					right++
				default:
					if wrong++; wrong < 50 {
						t.Logf("%#x, of %#x, is said to be of %#x", uint64(a), uint64(start), uint64(x.Start))
					}
				}
			}
		}
		t.Logf("%s: %d of %d functions", path, len(found), len(frames))
	}
	t.Logf("%d right, %d wrong", right, wrong)
	if right < 10000 || wrong*500 > right {
		t.Errorf("%d right, %d wrong", right, wrong)
	}
}

func section(f *elffile.File, a unwind.FileAddr) string {
	for _, s := range f.Sections {
		if a >= s.Addr && uint64(a-s.Addr) < s.Size {
			return s.Name
		}
	}
	return ""
}

// TestBudget lists within any budget: what there is no room for is missing, with an error.
func TestBudget(t *testing.T) {
	stripped, _ := build(t, "gcc", "-static")
	f := unwindtest.Open(t, stripped)
	for bytes := uint64(1); bytes < 64<<20; bytes *= 4 {
		d, err := New(f)
		if err != nil {
			t.Fatal(err)
		}
		budget := elffile.NewBudget(stripped, bytes)
		err = d.List(f.Within(budget))
		if budget.Used() != 0 || (err != nil) != (bytes < 1<<18) {
			t.Errorf("%d bytes: %d kept, %d functions, %v", bytes, budget.Used(), len(d.list), err)
		}
	}
}

func FuzzList(f *testing.F) {
	for _, b := range unwindtest.Seeds(f, "../../..", "gcc_amd64", "gcc_arm64", "cfi_amd64", "sectionless_amd64") {
		f.Add(b, uint64(0x1139))
	}
	f.Fuzz(func(t *testing.T, b []byte, a uint64) {
		file, err := elffile.New(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		d, err := New(file)
		if err != nil {
			return
		}
		budget := elffile.NewBudget("fuzz", 8<<20)
		_ = d.List(file.Within(budget)) // what is there is good all the same
		for i, x := range d.list {
			if x.End <= x.Start || i > 0 && x.Start <= d.list[i-1].Start {
				t.Fatalf("%d: %+v of %+v", i, x, d.list)
			}
		}
		if start, ok, err := d.Find(unwind.FileAddr(a)); ok && (err != nil || start > unwind.FileAddr(a)) {
			t.Errorf("%#x is in a function at %#x: %v", a, start, err)
		}
		if budget.Used() != 0 {
			t.Errorf("%d bytes were kept", budget.Used())
		}
	})
}
