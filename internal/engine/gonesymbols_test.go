package engine

import (
	"testing"
	"time"

	"github.com/hostprofiles/hostprofiles/internal/ebpf"
	"github.com/hostprofiles/hostprofiles/internal/process"
	"github.com/hostprofiles/hostprofiles/internal/profile"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// sampledFile is an engine without BPF and an executable, with an address that has a name.
func sampledFile(t *testing.T, name string) (e *Engine, x *process.Executable[*executable], l profile.Location) {
	t.Helper()
	e, x = newFileEngine(t)
	e.kernel = &ebpf.Kernel{}
	x.Payload.mappings = []*profile.Mapping{nil, {File: "/bin/program", Limit: 0x1000}}
	l = profile.Location{Mapping: x.Payload.mappings[1], Address: 0x10}
	e.symbols.want(e, x, 0x10)
	foundName(x.Payload.symbols, name)
	return e, x, l
}

// foundName ends a look-up, for which a symbol table was read.
func foundName(xs *executableSymbols, name string) {
	lines := []unwind.Line{{Function: unwind.Function{Name: name}}}
	xs.wanted, xs.kept = nil, 1<<30
	xs.found([]unwind.FileAddr{0x10}, []symbolized{{lines: lines, progress: named}})
}

func (e *Engine) nameOf(l profile.Location) string {
	lines := e.resolve(nil, &l)
	if len(lines) == 0 {
		return ""
	}
	return lines[0].Function.Name
}

// TestRewrittenFile is sampled, and rewritten before the report is made: the report has the names that it had.
func TestRewrittenFile(t *testing.T) {
	e, x, l := sampledFile(t, "work")
	old := x.Payload.symbols
	n := e.executables.Opened(x, process.Identity{Size: 2})
	if n == x {
		t.Fatal("it was not replaced")
	}
	e.freeTables()
	if got := e.nameOf(l); got != "work" {
		t.Errorf("%q", got)
	}
	if n := e.symbols.goneBytes; n < old.size()+len("work") || n > 4096 || old.kept != 0 {
		t.Errorf("%d bytes are counted, and %d of the symbol table", n, old.kept)
	}
	// A job that was under way has found more.
	before := e.symbols.goneBytes
	foundName(old, "work after all")
	if e.keepGone(old); e.nameOf(l) != "work after all" || e.symbols.goneBytes <= before {
		t.Errorf("%q, %d bytes", e.nameOf(l), e.symbols.goneBytes)
	}
	now := time.Now()
	e.symbols.forgetGone(now, e.untilReported())
	if e.nameOf(l) == "" {
		t.Error("forgotten too soon")
	}
	e.symbols.forgetGone(now.Add(time.Hour), e.untilReported())
	if got := e.nameOf(l); got != "" || e.symbols.goneBytes != 0 || len(e.symbols.byMapping) != 0 || old.bytes != 0 {
		t.Errorf("%q is kept: %d bytes", got, e.symbols.goneBytes)
	}
	foundName(old, "late")
	if e.keepGone(old); e.symbols.goneBytes != 0 || old.bytes != 0 {
		t.Errorf("%d bytes were found late", e.symbols.goneBytes)
	}
}

// TestGoneSymbolsAreBounded by a share of the budget, and first to go.
func TestGoneSymbolsAreBounded(t *testing.T) {
	e, x, l := sampledFile(t, "work")
	e.cfg.MemoryBytes = 1 << 20
	first := x.Payload
	e.forgetSymbols(first, time.Now())
	size := e.symbols.goneBytes
	most := int(float64(e.cfg.MemoryBytes)*goneShare) / size
	for range 2 * most {
		p := &executable{symbols: newExecutableSymbols(), mappings: []*profile.Mapping{{}}}
		p.symbols.lru.Add(0x10, &symbolized{})
		foundName(p.symbols, "work")
		e.symbols.byMapping[p.mappings[0]] = p.symbols
		e.forgetSymbols(p, time.Now())
	}
	if n := len(e.symbols.gone); n != most || n*size != e.symbols.goneBytes || len(e.symbols.byMapping) != n || e.count.Evictions == 0 {
		t.Errorf("%d executables, %d bytes, %d mappings", n, e.symbols.goneBytes, len(e.symbols.byMapping))
	}
	if e.nameOf(l) != "" {
		t.Error("the oldest is kept")
	}
	nothing := &executable{symbols: newExecutableSymbols(), mappings: []*profile.Mapping{{}}}
	e.symbols.byMapping[nothing.mappings[0]] = nothing.symbols
	e.forgetSymbols(nothing, time.Now())
	if n := len(e.symbols.gone); n != most || e.symbols.byMapping[nothing.mappings[0]] != nil {
		t.Error("one of which nothing was found is kept")
	}
}
