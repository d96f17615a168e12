package tables

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/ehframe"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
	"github.com/hostprofiles/hostprofiles/internal/unwind/tablebuild"
	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
)

func build(t testing.TB, source, name, compiler string, args ...string) string {
	t.Helper()
	dir := t.TempDir()
	src, out := filepath.Join(dir, name), filepath.Join(dir, "a.out")
	if err := os.WriteFile(src, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	if b, err := exec.Command(compiler, append(args, "-o", out, src)...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", compiler, args, err, b)
	}
	return out
}

const (
	cSource  = "#include <stdio.h>\nint main(void) { return puts(\"x\") < 0; }\n"
	goSource = "package main\nimport \"os\"\nfunc main() { os.Stdout.WriteString(\"x\") }\n"
)

// check checks what Table promises.
func check(t *testing.T, tab *unwind.Table) {
	t.Helper()
	for i, r := range tab.Rows {
		if int(r.Rule) >= len(tab.Rules) || i > 0 && (r.Start <= tab.Rows[i-1].Start || r.Rule == tab.Rows[i-1].Rule) {
			t.Fatalf("row %d: %+v", i, r)
		}
	}
	if n := len(tab.Rows); n > 0 && tab.Rules[tab.Rows[n-1].Rule].CFA != unwind.CFANone {
		t.Error("the last row is not CFANone")
	}
}

// TestSources looks at which sources are used for which kind of program.
func TestSources(t *testing.T) {
	for _, c := range []struct {
		name, path string
		goProgram  bool
		eh, debug  bool
		start      bool
		cfi        bool
	}{
		{"glibc", build(t, cSource, "a.c", "gcc", "-O2"), false, true, false, false, true},
		{"musl static", build(t, cSource, "a.c", "musl-gcc", "-O2", "-static"), false, true, true, true, true},
		{"debug_frame only", "../../../testdata/elf/dwarf5_amd64.elf", false, false, true, false, true},
		{"sectionless", "../../../testdata/elf/sectionless_amd64.elf", false, true, false, false, true},
		{"Go", build(t, goSource, "a.go", "go", "build"), true, false, false, false, true},
		{"nothing", build(t, cSource, "a.c", "gcc", "-O2", "-fno-asynchronous-unwind-tables", "-shared", "-nostdlib"), false,
			false, false, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			tab, info, err := Build(unwindtest.Open(t, c.path))
			if err != nil {
				t.Fatal(err)
			}
			check(t, tab)
			if (info.Go != nil) != c.goProgram || (info.EHFrame.FDEs > 0) != c.eh || (info.DebugFrame.FDEs > 0) != c.debug ||
				(info.Start.Starts > 0) != c.start || info.HasCFI != c.cfi || info.Rows != len(tab.Rows) {
				t.Errorf("%+v %+v", info, info.Go)
			}
			if g := info.Go; g != nil && (g.Version == "" || g.Rows == 0 || g.TextEnd <= g.TextStart || g.TableUnsupported) {
				t.Errorf("%+v", g)
			}
		})
	}
}

// TestBroken leaves out a source that cannot be read and keeps the others.
func TestBroken(t *testing.T) {
	path := build(t, cSource, "a.c", "musl-gcc", "-O2", "-static")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := elffile.New(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	f.Section(".eh_frame").Size = ehframe.MaxSection + 1
	tab, info, err := Build(f)
	if err == nil || info.Start.Starts == 0 || len(tab.Rows) == 0 {
		t.Errorf("%v, %+v", err, info)
	}
	check(t, tab)
}

// TestMerge compares merged tables with what the two say at every address.
func TestMerge(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	random := func() *unwind.Table {
		var b tablebuild.Builder
		at := unwind.FileAddr(r.IntN(20))
		for range r.IntN(12) {
			rule := unwind.Rule{}
			if n := r.IntN(5); n > 0 {
				rule = unwind.Rule{CFA: unwind.CFAReg, Offset: int32(n)}
			}
			if err := b.Add(at, rule); err != nil {
				t.Fatal(err)
			}
			at += unwind.FileAddr(1 + r.IntN(8))
		}
		return b.Table(at)
	}
	for i := range 5000 {
		p, s := random(), random()
		if i%2 == 0 { // no room behind the rows
			p.Rows = slices.Clip(p.Rows)
		}
		before := unwind.Table{Rows: slices.Clone(p.Rows), Rules: p.Rules}
		m, err := Merge(nil, p, s)
		if err != nil {
			t.Fatal(err)
		}
		p = &before
		check(t, m)
		for a := range unwind.FileAddr(140) {
			want := p.Lookup(a)
			if want.CFA == unwind.CFANone {
				want = s.Lookup(a)
			}
			if got := m.Lookup(a); got != want {
				t.Fatalf("%d at %d: %v, want %v", i, a, got, want)
			}
		}
	}
}

func FuzzBuild(f *testing.F) {
	files, err := filepath.Glob("../../../testdata/elf/*.elf")
	if err != nil || len(files) == 0 {
		f.Fatal(err)
	}
	for _, path := range files {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := elffile.New(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		for _, bytes := range []uint64{64 << 20, 1 << 20, 100 << 10} {
			budget := elffile.NewBudget("file", bytes)
			tab, _, _ := Build(file.Within(budget))
			check(t, tab)
			if budget.Used() != tablebuild.Bytes(tab) {
				t.Fatalf("%d bytes in use, the table has %d", budget.Used(), tablebuild.Bytes(tab))
			}
		}
	})
}
