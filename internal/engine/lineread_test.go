package engine

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/hostprofiles/hostprofiles/internal/process/procfs"
	"github.com/hostprofiles/hostprofiles/internal/symbolize"
	"github.com/hostprofiles/hostprofiles/internal/symbolize/debugfile"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
)

func newLineReader(t *testing.T, path string, memory uint64) *lineReader {
	t.Helper()
	return &lineReader{
		limits: newDebugLimits(memory), proc: procfs.New("/proc"), spills: newSpills(), elf: unwindtest.Open(t, path), path: path,
		strings: &symbolize.Strings{},
	}
}

// hotAddresses are those of the program's hot code.
func hotAddresses(t *testing.T, bin string) (batch []unwind.FileAddr) {
	t.Helper()
	for _, s := range unwindtest.Symbols(t, bin) {
		if s.Name == "main" {
			for a := range s.Size {
				batch = append(batch, unwind.FileAddr(s.Value+a))
			}
		}
	}
	return append(batch, 1) // nothing is there
}

// TestLineReader looks a batch up, then another one in what it left open.
func TestLineReader(t *testing.T) {
	bin := compileInlined(t)
	l := newLineReader(t, bin, 256<<20)
	batch := hotAddresses(t, bin)
	for round := range 2 {
		began := time.Now()
		r, err := l.read(t.Context(), batch)
		if err != nil || r.failed != nil {
			t.Fatal(err, r.failed)
		}
		if r.opened != (round == 0) || r.opened && r.source != debugfile.SourceFile || r.absent || r.open == nil {
			t.Errorf("round %d: %+v", round, r)
		}
		deepest := 0
		for i, f := range r.found {
			if !f.asked {
				t.Errorf("%#x was not asked for", batch[i])
			}
			deepest = max(deepest, len(f.lines))
		}
		if deepest != 3 || len(r.found[len(batch)-1].lines) != 0 {
			t.Errorf("%d calls at most; at 1: %v", deepest, r.found[len(batch)-1].lines)
		}
		if took := l.cpu.soFar(); r.open.bytes <= 0 || took <= 0 || took > time.Since(began) {
			t.Errorf("%d bytes open, %v of CPU time", r.open.bytes, took)
		}
	}
	if err := l.close(); err != nil {
		t.Error(err)
	}
}

// TestLineReaderEnds has no time, no debug information, and no room to keep any.
func TestLineReaderEnds(t *testing.T) {
	bin := compileInlined(t)
	batch := hotAddresses(t, bin)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l := newLineReader(t, bin, 256<<20)
	if r, err := l.read(ctx, batch); !errors.Is(err, context.Canceled) || r != nil || l.open != nil {
		t.Errorf("%+v, %v", r, err)
	}
	small := newLineReader(t, bin, 256<<20)
	small.limits.kept = 1
	r, err := small.read(t.Context(), batch)
	if err != nil || r.open != nil || small.open != nil || !slices.ContainsFunc(r.found, func(f foundLine) bool { return len(f.lines) == 3 }) {
		t.Errorf("%+v, %v", r, err)
	}
	if out, err := exec.Command("strip", bin).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	knowing := newLineReader(t, bin, 256<<20)
	knowing.noData = true
	for _, l := range []*lineReader{newLineReader(t, bin, 256<<20), knowing} {
		r, err = l.read(t.Context(), batch)
		if err != nil || !r.absent || !r.noData || r.open != nil || !errors.Is(r.failed, debugfile.ErrNotFound) || someAsked(r.found) || len(r.wanted) != 1 {
			t.Errorf("%+v, %v", r, err)
		}
	}
}

// TestFoundLines puts lines in the place of names, and keeps names where debug information has none.
func TestFoundLines(t *testing.T) {
	xs := newExecutableSymbols()
	symbol := []unwind.Line{{Function: unwind.Function{Name: "memcpy", SystemName: "memcpy@@V"}}}
	batch := []unwind.FileAddr{1, 2, 3, 4, 5}
	for _, a := range batch[:4] {
		xs.lru.Add(a, &symbolized{lines: symbol, kind: symbolize.KindNative, progress: linesAsked})
		xs.bytes += symbolize.LineBytes(symbol)
	}
	file := unwind.Function{File: "memcpy.S"}
	xs.foundLines(batch, []foundLine{
		{asked: true, lines: []unwind.Line{{Function: unwind.Function{Name: "inner"}, Line: 1}, {Function: file}, {Function: file, Line: 7}}},
		{asked: true},
		{},
		{asked: true, lines: []unwind.Line{{Function: unwind.Function{Name: "memcpy_impl", File: "m.c", StartLine: 2}, Line: 3}}},
		{asked: true},
	})
	first, _ := xs.lru.Peek(1)
	if len(first.lines) != 2 || first.lines[0].Function.Name != "inner" || first.lines[1].Function != (unwind.Function{Name: "memcpy", SystemName: "memcpy@@V", File: "memcpy.S"}) ||
		first.lines[1].Line != 7 || first.progress != linesKnown {
		t.Errorf("%+v", first)
	}
	for a, want := range map[unwind.FileAddr]progress{2: linesKnown, 3: named} {
		if s, _ := xs.lru.Peek(a); s.progress != want || len(s.lines) != 1 || s.lines[0] != symbol[0] {
			t.Errorf("%d: %+v", a, s)
		}
	}
	if s, _ := xs.lru.Peek(4); s.lines[0] != (unwind.Line{Function: unwind.Function{Name: "memcpy", SystemName: "memcpy@@V", File: "m.c", StartLine: 2}, Line: 3}) {
		t.Errorf("%+v", s)
	}
	want := 0
	for _, a := range batch[:4] {
		s, _ := xs.lru.Peek(a)
		want += symbolize.LineBytes(s.lines)
	}
	if xs.bytes != want {
		t.Errorf("%d bytes, want %d", xs.bytes, want)
	}
	if lines := withName([]unwind.Line{{Function: file, Line: 7}}, nil); lines != nil {
		t.Errorf("without any name: %v", lines)
	}
	if kind := kindOf(&symbolized{}, []unwind.Line{{Function: unwind.Function{SystemName: "_RNvC1a1b"}}}); kind != symbolize.KindRust {
		t.Errorf("kind %s", kind)
	}
}

// panicking is a place for debug information that has a defect.
type panicking struct{ rootOpener }

func (panicking) OpenRoot(uint32) (*procfs.Root, error) { panic("a defect") }

// TestLineReaderPanics leaves nothing open when a defect ends a batch.
func TestLineReaderPanics(t *testing.T) {
	bin := compileInlined(t)
	l := newLineReader(t, bin, 256<<20)
	batch := hotAddresses(t, bin)
	r, err := l.read(t.Context(), batch)
	if err != nil || r.open == nil {
		t.Fatal(r, err)
	}
	l.open.data = nil // what uses it panics
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		_, _ = l.read(t.Context(), batch)
	}()
	if l.open != nil {
		t.Error("what was open is still")
	}
	l = newLineReader(t, bin, 256<<20)
	l.proc, l.pids = panicking{l.proc}, []uint32{1}
	defer func() {
		if recover() == nil || l.open != nil || l.cpu.soFar() <= 0 {
			t.Errorf("%v open, %v used", l.open, l.cpu.soFar())
		}
	}()
	_, _ = l.read(t.Context(), batch)
}

// TestFiguresElsewhere pins what tests elsewhere, which cannot know this package, count on: workingBytes of
// internal/symbolize/kernelfile, and moduleRest of test/kernels/guest.
func TestFiguresElsewhere(t *testing.T) {
	if n := newDebugLimits(256 << 20).working; n != 32<<20 {
		t.Errorf("with the default budget a batch may take %d bytes", n)
	}
	if kernelReload != 30*time.Second {
		t.Errorf("the kernel's symbols are read every %v at most", kernelReload)
	}
}
