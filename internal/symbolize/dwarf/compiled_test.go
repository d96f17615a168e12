package dwarf

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/symbolize/symbolizertest"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
)

// program is a way to build the sources in testdata.
type program struct {
	name     string
	compiler string
	sources  []string
	args     []string
	after    [][]string // commands on the file, whose name takes the place of FILE; run where it is
	options  func(t testing.TB, dir string) Options
	symArgs  []string // of llvm-symbolizer
	other    string   // what llvm-symbolizer is asked about instead
	inlined  bool     // there are inlined calls
}

func run(t testing.TB, dir, name string, args ...string) string {
	t.Helper()
	unwindtest.Need(t, name)
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// build compiles the program and returns its path.
func (p program) build(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for _, s := range sourceFiles(t) {
		b, err := os.ReadFile(s)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(s)), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run(t, dir, p.compiler, append(append(slices.Clone(p.args), "-o", "prog"), p.sources...)...)
	for _, step := range p.after {
		run(t, dir, step[0], step[1:]...)
	}
	return filepath.Join(dir, "prog")
}

func sourceFiles(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/src/*")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	return files
}

// openDebug opens a file that may be relocatable.
func openDebug(t testing.TB, path string) *elffile.File {
	t.Helper()
	f, closer, err := openFile(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closer.Close() })
	return f
}

func openFile(path string) (*elffile.File, io.Closer, error) {
	r, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	st, err := r.Stat()
	if err != nil {
		r.Close()
		return nil, nil, err
	}
	f, err := elffile.NewDebug(r, st.Size())
	if err != nil {
		r.Close()
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, r, nil
}

// splitFiles opens .dwo files where the compiler left them.
func splitFiles(name, compDir string, _ uint64) (*elffile.File, io.Closer, error) {
	if !filepath.IsAbs(name) {
		name = filepath.Join(compDir, name)
	}
	return openFile(name)
}

func TestCompiled(t *testing.T) {
	unwindtest.Need(t, symbolizertest.Tool)
	for _, p := range programs() {
		t.Run(p.name, func(t *testing.T) {
			path := p.build(t)
			var o Options
			if p.options != nil {
				o = p.options(t, filepath.Dir(path))
			}
			budget := elffile.NewBudget(path, 64<<20)
			f := openDebug(t, path)
			d, err := Open(f.Within(budget), o)
			if err != nil {
				t.Fatal(err)
			}
			addrs := instructions(t, path)
			reference := path
			if p.other != "" {
				reference = filepath.Join(filepath.Dir(path), p.other)
			}
			counts := compare(t, d, reference, addrs, p.symArgs...)
			t.Logf("%d addresses: %v; %d bytes, %+v", len(addrs), counts, d.Bytes(), d.Stats())
			if err := d.Problems(); err != nil {
				t.Error(err)
			}
			if p.inlined {
				checkInlined(t, d, addrs)
			}
			if uint64(d.Bytes()) != budget.Used() {
				t.Errorf("%d bytes, %d of the budget", d.Bytes(), budget.Used())
			}
			d.Close()
			if budget.Used() != 0 {
				t.Errorf("%d bytes left in the budget", budget.Used())
			}
		})
	}
}

// checkInlined: a comparison is worth little if there was nothing inlined.
func checkInlined(t testing.TB, d *Data, addrs []unwind.FileAddr) {
	t.Helper()
	deepest := 0
	var lines []unwind.Line
	for _, a := range addrs {
		lines, _ = d.Lookup(lines[:0], a)
		deepest = max(deepest, len(lines))
	}
	if deepest < 3 {
		t.Errorf("chains of %d at most", deepest)
	}
}
