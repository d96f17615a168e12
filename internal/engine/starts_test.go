package engine

import (
	"context"
	"debug/elf"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/hostprofiles/hostprofiles/internal/process"
	"github.com/hostprofiles/hostprofiles/internal/process/worker"
	"github.com/hostprofiles/hostprofiles/internal/profile"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
)

// nameless is an engine without BPF, and a program whose functions only a list tells: it has neither symbols nor a search table.
func nameless(t *testing.T) (e *Engine, w wanting, functions map[string]elf.Symbol) {
	t.Helper()
	whole := compile(t, burner)
	stripped := filepath.Join(t.TempDir(), "stripped")
	if out, err := exec.Command("objcopy", "--strip-all", "--remove-section", ".eh_frame_hdr", whole, stripped).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	functions = map[string]elf.Symbol{}
	for _, s := range unwindtest.Symbols(t, whole) {
		functions[s.Name] = s
	}
	log := zaptest.NewLogger(t, zaptest.Level(zap.WarnLevel))
	e = &Engine{cfg: testConfig(), log: log}
	e.cfg.SourceLines = false
	e.closer = newCloser(log)
	e.jobs = newJobs(log, e.closer)
	t.Cleanup(e.jobs.close)
	e.builds, e.symbols, e.count = newBuilds(e.cfg.MemoryBytes), newSymbolizer(), newStats()
	e.executables = process.NewExecutables[*executable](process.ExecutablesOptions{})
	f := unwindtest.Open(t, stripped)
	x := &executable{serial: 1, elf: f, segments: f.Segments, symbols: newExecutableSymbols(), debug: newDebugInfo()}
	x.mappings = []*profile.Mapping{{File: stripped}}
	return e, wanting{&process.Executable[*executable]{Serial: 1, File: &process.File{Path: stripped}, Payload: x}, x}, functions
}

// within is where the function around an address begins, as a report has it.
func within(e *Engine, w wanting, a uint64) (start uint64, ok bool) {
	l := profile.Location{Mapping: w.payload.mappings[0], Address: a}
	e.symbols.resolve(nil, &l)
	return a - uint64(l.Into), l.InFunction
}

// TestNamesDoNotWaitForFunctions keeps the listing of functions from being done: names of the same file are found meanwhile, the
// file is not let go, and once it is done all addresses have their functions, those that were asked for meanwhile, too.
func TestNamesDoNotWaitForFunctions(t *testing.T) {
	e, w, functions := nameless(t)
	xs := w.payload.symbols
	e.jobs.lines.pool.Close(t.Context())
	e.jobs.lines.pool = worker.New[jobKey, jobGroup, any](worker.Options{Workers: 2, Patience: time.Hour}) // who waits keeps his worker
	hold := make(chan struct{})
	for i := range uint64(2) { // all workers that list
		about := aboutSelf(giveBackSerial-10-i, "test")
		about.lines = true
		e.jobs.submit(about, time.Minute, func(context.Context) (any, error) { <-hold; return nil, nil }, func(any, error) {})
	}
	eventually(t, "they have begun", func() bool { return e.jobs.lines.pool.Stats().Running == 2 })
	ask := func(name string) uint64 {
		a := functions[name].Value + functions[name].Size/2
		e.symbols.want(e, w.x, unwind.FileAddr(a))
		e.startSymbolJobs()
		return a
	}
	first := ask("hot")
	eventually(t, "the functions are being listed", func() bool { e.jobs.drain(); return xs.beginnings.listing })
	second := ask("middle")
	if !xs.running {
		t.Error("names wait for the list")
	}
	eventually(t, "names are found meanwhile", func() bool { e.jobs.drain(); return !xs.running })
	if s, ok := xs.lru.Peek(unwind.FileAddr(second)); !ok || s.progress != named || s.function != 0 {
		t.Errorf("%+v, %v", s, ok)
	}
	if !w.payload.busy() {
		t.Error("the file could be closed while functions are listed")
	}
	if e.symbols.idle() {
		t.Error("a report would not wait for the list")
	}
	close(hold)
	eventually(t, "all is done", func() bool { e.jobs.drain(); return e.jobs.idle() })
	for name, a := range map[string]uint64{"hot": first, "middle": second} {
		if start, ok := within(e, w, a); !ok || start != functions[name].Value {
			t.Errorf("%s is at %#x: %#x, %v", name, functions[name].Value, start, ok)
		}
	}
	if w.payload.busy() || !e.symbols.idle() || xs.kept != xs.names.Bytes() || xs.kept == 0 {
		t.Errorf("busy %v, idle %v, %d bytes of %d", w.payload.busy(), e.symbols.idle(), xs.kept, xs.names.Bytes())
	}
	third := ask("outer")
	eventually(t, "the third is found", func() bool { e.jobs.drain(); return e.jobs.idle() })
	if start, ok := within(e, w, third); !ok || start != functions["outer"].Value {
		t.Errorf("outer: %#x, %v", start, ok)
	}
}

// gate holds reads up while it is closed.
type gate struct {
	io.ReaderAt
	closed, held atomic.Bool
	open         chan struct{}
}

func (g *gate) ReadAt(b []byte, off int64) (int, error) {
	if g.closed.Load() {
		g.held.Store(true)
		<-g.open
	}
	return g.ReaderAt.ReadAt(b, off)
}

// TestFailedLists has the listing refused: it is tried again. Then it hangs and is given up: nothing else lists or asks while it may
// go on, and names are found as before.
func TestFailedLists(t *testing.T) {
	e, w, functions := nameless(t)
	e.log = zap.NewNop()
	xs := w.payload.symbols
	file, err := os.Open(w.x.File.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{ReaderAt: file, open: make(chan struct{})}
	reopen := sync.OnceFunc(func() { close(g.open) })
	defer reopen()
	if w.payload.elf, err = elffile.New(g, info.Size()); err != nil {
		t.Fatal(err)
	}
	ask := func(name string) uint64 {
		a := functions[name].Value
		e.symbols.want(e, w.x, unwind.FileAddr(a))
		e.startSymbolJobs()
		eventually(t, "names are found", func() bool { e.jobs.drain(); return xs.names != nil && !xs.running })
		return a
	}
	pool := func(jobs int) *worker.Pool[jobKey, jobGroup, any] {
		p := worker.New[jobKey, jobGroup, any](worker.Options{Jobs: jobs})
		t.Cleanup(func() { p.Close(context.Background()) })
		return p
	}

	e.jobs.lines.pool = pool(1)
	if _, err := e.jobs.lines.pool.Submit(worker.Job[jobKey, jobGroup, any]{
		Timeout: time.Minute, Run: func(context.Context) (any, error) { <-g.open; return nil, nil },
	}); err != nil {
		t.Fatal(err)
	}
	ask("hot")
	if b := xs.beginnings; b.taken() || len(b.nameless) != 1 || e.count.SymbolErrors != 1 {
		t.Fatalf("refused: %+v, %d errors", b, e.count.SymbolErrors)
	}

	hangs := pool(0)
	e.jobs.lines.pool = hangs
	g.closed.Store(true)
	ask("middle")
	eventually(t, "the file is being read", g.held.Load)
	if b := xs.beginnings; !b.listing || len(b.nameless) != 0 {
		t.Fatalf("tried again: %+v", b)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	hangs.Close(over) // gives up as if the time were over
	for r := range hangs.Results() {
		e.jobs.finish(e.jobs.lines, r)
	}
	if b := xs.beginnings; !b.taken() || b.listing || e.count.SymbolErrors != 2 {
		t.Fatalf("given up: %+v, %d errors", b, e.count.SymbolErrors)
	}

	e.jobs.lines.pool = pool(0)
	kept := xs.kept
	a := ask("outer")
	if _, ok := within(e, w, a); ok || xs.beginnings.listing || xs.kept != kept || !e.symbols.idle() {
		t.Errorf("in function %v, %+v, %d bytes", ok, xs.beginnings, xs.kept)
	}

	// What was given up comes to its end after all: its list serves, and counts.
	g.closed.Store(false)
	reopen()
	eventually(t, "it has ended", func() bool { return !xs.beginnings.taken() })
	last := ask("main")
	eventually(t, "all is done", func() bool { e.jobs.drain(); return e.jobs.idle() })
	for name, a := range map[string]uint64{"outer": a, "main": last, "middle": functions["middle"].Value} {
		if start, ok := within(e, w, a); !ok || start != functions[name].Value {
			t.Errorf("%s is at %#x: %#x, %v", name, functions[name].Value, start, ok)
		}
	}
	if xs.kept != xs.names.Bytes() {
		t.Errorf("%d bytes of %d are counted", xs.kept, xs.names.Bytes())
	}
}
