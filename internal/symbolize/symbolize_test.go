package symbolize

import (
	"bytes"
	"debug/elf"
	"debug/gosym"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/symbolize/names"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
)

const goSource = `package main

import (
	"fmt"
	"os"
)

type pair[T any] struct{ a, b T }

//go:noinline
func (p *pair[T]) swap() { p.a, p.b = p.b, p.a }

func inlined(n int) int { return n*n + len(os.Args) }

//go:noinline
func outer(n int) int { return inlined(n) + 1 }

func main() {
	p := pair[int]{1, 2}
	p.swap()
	fmt.Println(p, outer(3))
}
`

const cgoSource = `package main

// static int __attribute__((noinline)) c_static(int n) { return n * 3; }
// int c_global(int n) { return c_static(n) + 1; }
import "C"

func main() { println(C.c_global(3)) }
`

const rustSource = `
#[inline(never)] fn square(n: usize) -> usize { std::hint::black_box(n * n) }
fn main() { println!("{}", square(std::env::args().count())); }
`

func build(t testing.TB, file, source, compiler string, args ...string) string {
	t.Helper()
	unwindtest.Need(t, compiler)
	dir := t.TempDir()
	src, out := filepath.Join(dir, file), filepath.Join(dir, "out")
	if err := os.WriteFile(src, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(compiler, append(args, "-o", out, src)...)
	cmd.Dir = dir
	if msg, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", compiler, err, msg)
	}
	return out
}

func open(t testing.TB, path string) *Symbolizer {
	t.Helper()
	s, err := New(unwindtest.Open(t, path))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// symbolsOf are the symbols of a file's .symtab by name.
func symbolsOf(t testing.TB, path string) map[string]elf.Symbol {
	t.Helper()
	out := map[string]elf.Symbol{}
	for _, s := range unwindtest.Symbols(t, path) {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Section != elf.SHN_UNDEF {
			out[s.Name] = s
		}
	}
	return out
}

func check(t *testing.T, s *Symbolizer, a uint64, kind, name string) []unwind.Line {
	t.Helper()
	if got := s.FrameKind(unwind.FileAddr(a)); got != kind {
		t.Errorf("%s at %#x: kind %q, want %q", name, a, got, kind)
	}
	lines, err := s.Lookup(nil, unwind.FileAddr(a))
	if err != nil || len(lines) == 0 {
		t.Errorf("%s at %#x: %v, %v", name, a, lines, err)
		return nil
	}
	if f := lines[len(lines)-1].Function; f.Name != name {
		t.Errorf("%#x: %+v, want %s", a, f, name)
	}
	if got := s.FrameKind(unwind.FileAddr(a)); got != kind {
		t.Errorf("%s at %#x: kind %q after Lookup, want %q", name, a, got, kind)
	}
	return lines
}

func TestGo(t *testing.T) {
	whole := build(t, "main.go", goSource, "go", "build")
	stripped := build(t, "main.go", goSource, "go", "build", "-ldflags=-s -w")
	syms := symbolsOf(t, whole)
	at := syms["main.outer"].Value
	for _, path := range []string{whole, stripped} {
		s := open(t, path)
		if !s.HasSymbols() || s.Bytes() < 1000 {
			t.Errorf("%v, %d bytes", s.HasSymbols(), s.Bytes())
		}
		lines := check(t, s, at, KindGo, "main.outer")
		if lines == nil {
			continue
		}
		if l := lines[len(lines)-1]; !strings.HasSuffix(l.Function.File, "main.go") || l.Line != 16 || l.Function.StartLine != 16 {
			t.Errorf("%+v", l)
		}
		if !slices.ContainsFunc(inlinedAt(t, s, at, syms["main.outer"].Size), func(l []unwind.Line) bool {
			return len(l) == 2 && l[0].Function.Name == "main.inlined" && l[0].Line == 13 && l[1].Line == 16
		}) {
			t.Error("no inlined call")
		}
	}
}

func inlinedAt(t *testing.T, s *Symbolizer, a, size uint64) (out [][]unwind.Line) {
	for i := range size {
		lines, err := s.Lookup(nil, unwind.FileAddr(a+i))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, lines)
	}
	return out
}

// TestGoAgainstDebugGosym compares all functions with the standard library's reading of the same table.
func TestGoAgainstDebugGosym(t *testing.T) {
	path := build(t, "main.go", goSource, "go", "build")
	s := open(t, path)
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	data, err := f.Section(".gopclntab").Data()
	if err != nil {
		t.Fatal(err)
	}
	syms := symbolsOf(t, path)
	tab, err := gosym.NewTable(nil, gosym.NewLineTable(data, syms["runtime.text"].Value))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for name, sym := range syms {
		fn := tab.PCToFunc(sym.Value)
		if fn == nil || fn.Name != name || sym.Size == 0 {
			continue
		}
		lines, err := s.Lookup(nil, unwind.FileAddr(sym.Value))
		if err != nil || len(lines) == 0 {
			t.Fatalf("%s: %v", name, err)
		}
		got := lines[len(lines)-1]
		if got.Function.Name != name && got.Function.SystemName != name {
			t.Errorf("%+v, want %s", got.Function, name)
		}
		file, line, _ := tab.PCToLine(sym.Value)
		if l := lines[0]; l.Function.File != file || l.Line != max(line, 0) {
			t.Errorf("%s: %s:%d, want %s:%d", name, l.Function.File, l.Line, file, line)
		}
		n++
	}
	if n < 500 {
		t.Errorf("%d functions only", n)
	}
}

func TestCgo(t *testing.T) {
	unwindtest.Need(t, "gcc")
	t.Setenv("CGO_ENABLED", "1")
	for _, mode := range []string{"internal", "external"} {
		path := build(t, "main.go", cgoSource, "go", "build", "-ldflags=-linkmode="+mode)
		s := open(t, path)
		syms := symbolsOf(t, path)
		for name, kind := range map[string]string{"main.main": KindGo, "c_global": KindNative, "c_static": KindNative} {
			sym, ok := syms[name]
			if !ok {
				continue // inlined by the C compiler
			}
			check(t, s, sym.Value, kind, name)
			check(t, s, sym.Value+sym.Size-1, kind, name)
		}
		if _, ok := syms["c_global"]; !ok {
			t.Errorf("%s: no c_global", mode)
		}
	}
}

// TestGoLinkedNames: the race detector is C++ that the Go linker linked itself, so that Go's table has its functions.
func TestGoLinkedNames(t *testing.T) {
	unwindtest.Need(t, "gcc")
	t.Setenv("CGO_ENABLED", "1")
	path := build(t, "main.go", cgoSource, "go", "build", "-race", "-ldflags=-linkmode=internal")
	s := open(t, path)
	if s.golang == nil {
		t.Fatal("no table of Go's")
	}
	checked := 0
	for name, sym := range symbolsOf(t, path) {
		if !strings.HasPrefix(name, "_ZN6__tsan") || sym.Size == 0 {
			continue
		}
		if a := unwind.FileAddr(sym.Value); a < s.goFrom || a >= s.goUpTo {
			t.Fatalf("%s at %#x is not in Go's text", name, a)
		}
		want := names.Function(name).Name
		lines := check(t, s, sym.Value, KindNative, want)
		// Constructors and destructors have two symbols.
		if len(lines) != 1 || !strings.HasPrefix(lines[0].Function.SystemName, "_ZN6__tsan") || !strings.Contains(want, "__tsan::") {
			t.Errorf("%s: %+v", name, lines)
		}
		checked++
	}
	if checked < 100 {
		t.Errorf("%d functions only", checked)
	}
}

func TestRust(t *testing.T) {
	for _, mangling := range []string{"legacy", "v0"} {
		args := []string{"-O"}
		if mangling == "v0" {
			args = append(args, "-Csymbol-mangling-version=v0")
		}
		path := build(t, "main.rs", rustSource, "rustc", args...)
		s := open(t, path)
		syms := symbolsOf(t, path)
		found := false
		for name, sym := range syms {
			if strings.Contains(name, "square") && strings.HasPrefix(name, "_") {
				found = true
				lines := check(t, s, sym.Value, KindRust, "main::square")
				if lines != nil && lines[0].Function.SystemName != name {
					t.Errorf("%+v, want system name %s", lines[0].Function, name)
				}
			}
		}
		if !found {
			t.Errorf("%s: no square", mangling)
		}
		check(t, s, syms["main"].Value, KindNative, "main")
		check(t, s, syms["_start"].Value, KindNative, "_start")
	}
}

// failing fails reads once it is told to.
type failing struct {
	io.ReaderAt
	err error
}

func (f *failing) ReadAt(b []byte, off int64) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	return f.ReaderAt.ReadAt(b, off)
}

func TestReadErrors(t *testing.T) {
	path := build(t, "main.c", "int main(void) { return 0; }", "gcc")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r := &failing{ReaderAt: bytes.NewReader(b)}
	f, err := elffile.New(r, int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(f)
	if err != nil {
		t.Fatal(err)
	}
	r.err = errors.New("stale file handle")
	main := unwind.FileAddr(symbolsOf(t, path)["main"].Value)
	if lines, err := s.Lookup(nil, main); !errors.Is(err, r.err) || len(lines) != 0 {
		t.Errorf("%v, %v", lines, err)
	}
	if k := s.FrameKind(main); k != KindNative {
		t.Error(k)
	}
	s, err = New(f)
	if !errors.Is(err, r.err) || s == nil || s.HasSymbols() {
		t.Errorf("%+v, %v", s, err)
	}
}

func BenchmarkLookup(b *testing.B) {
	path := build(b, "main.go", goSource, "go", "build")
	s := open(b, path)
	a := unwind.FileAddr(symbolsOf(b, path)["fmt.Fprintln"].Value)
	var dst []unwind.Line
	b.ReportAllocs()
	for b.Loop() {
		dst, _ = s.Lookup(dst[:0], a)
	}
}
