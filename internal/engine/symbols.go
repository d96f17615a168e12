package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/hostprofiles/hostprofiles/internal/process"
	"github.com/hostprofiles/hostprofiles/internal/profile"
	"github.com/hostprofiles/hostprofiles/internal/symbolize"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

const (
	// symbolTimeout bounds one batch of look-ups, reading the symbol table the first time included.
	symbolTimeout = 10 * time.Second
	// linesPerExecutable bounds the cache of one executable.
	linesPerExecutable = 1 << 17
	// entryBytes is about what one entry of it takes beside its lines.
	entryBytes = 160
)

// symbolizer looks native frames up: (executable, address) is stable, so each is looked up once, on a worker, when it is first
// seen, and kept.
type symbolizer struct {
	queue     []wanting // with addresses that no job has yet
	byMapping map[*profile.Mapping]*executableSymbols
	questions

	gone      []*goneSymbols // in the order of time
	goneBytes int            // of those
}

func newSymbolizer() symbolizer {
	return symbolizer{byMapping: map[*profile.Mapping]*executableSymbols{}}
}

// wanting is an executable with addresses to look up.
type wanting struct {
	x       *process.Executable[*executable]
	payload *executable // of x, unless it was evicted since
}

// executableSymbols is an executable's share.
type executableSymbols struct {
	lru     *simplelru.LRU[unwind.FileAddr, *symbolized]
	wanted  []unwind.FileAddr // for the next job
	asked   question          // about these
	running bool
	queued  bool
	names   *symbolize.Symbolizer // used by one job at a time
	kept    int                   // bytes of those when the last job ended
	bytes   int                   // of the lines in lru
	evicted bool
	gone    *goneSymbols // what is kept of it then; nil if nothing is

	beginnings beginnings
}

// symbolized is what is known of an address; there are no lines while it is looked up, nor if it has no symbol. Then function
// is where the function around it begins, 0 if that is not known.
type symbolized struct {
	lines    []unwind.Line
	function unwind.FileAddr
	kind     profile.FrameType
	progress progress
	final    bool // no debug information tells more
}

// progress is how far an address was looked up.
type progress uint8

const (
	nameAsked  progress = iota
	named               // as far as symbols tell
	linesAsked          // in debug information
	linesKnown          // as far as they can be
)

// busy tells whether symbols or functions are being read, or symbols are going to be.
func (xs *executableSymbols) busy() bool {
	return xs.running || xs.beginnings.listing || len(xs.wanted) > 0
}

func newExecutableSymbols() *executableSymbols {
	xs := &executableSymbols{}
	xs.lru = newLRU(linesPerExecutable, func(_ unwind.FileAddr, s *symbolized) { xs.bytes -= symbolize.LineBytes(s.lines) })
	return xs
}

// want has an address looked up unless it was.
func (s *symbolizer) want(e *Engine, x *process.Executable[*executable], a unwind.FileAddr) {
	if !e.cfg.Symbolize {
		return
	}
	xs := x.Payload.symbols
	if known, ok := xs.lru.Get(a); ok {
		e.count.SymbolHits++
		if known.progress == named && e.cfg.SourceLines {
			e.wantLines(wanting{x, x.Payload}, a, known)
		}
		return
	}
	e.count.SymbolMisses++
	xs.lru.Add(a, &symbolized{})
	for _, m := range x.Payload.mappings {
		if m != nil {
			s.byMapping[m] = xs
		}
	}
	if len(xs.wanted) == 0 {
		xs.asked = s.ask()
	}
	xs.wanted = append(xs.wanted, a)
	if !xs.queued {
		xs.queued = true
		s.queue = append(s.queue, wanting{x, x.Payload})
	}
}

// resolve is the Builder's view of the cache.
func (s *symbolizer) resolve(dst []unwind.Line, l *profile.Location) []unwind.Line {
	xs := s.byMapping[l.Mapping]
	if xs == nil {
		return dst
	}
	found, ok := xs.lru.Peek(unwind.FileAddr(l.Address))
	if !ok {
		return dst
	}
	if len(found.lines) == 0 {
		if found.function != 0 {
			l.InFunction, l.Into = true, uint32(l.Address-uint64(found.function))
		}
		return dst
	}
	l.Type = found.kind
	return append(dst, found.lines...)
}

// bytes is what an executable takes beside its table.
func (x *executable) bytes() int {
	n := x.symbols.size() + x.symbols.kept + x.debug.bytes()
	for _, r := range x.runtimes {
		n += r.image.Bytes()
	}
	return n
}

// drop gives up what is wanted of an executable; it may be asked for again.
func (s *symbolizer) drop(xs *executableSymbols) {
	for _, a := range xs.wanted {
		xs.lru.Remove(a)
	}
	if len(xs.wanted) > 0 {
		s.answer(xs.asked)
	}
	xs.wanted = nil
}

// startSymbolJobs gives what is wanted to the workers, one job an executable.
func (e *Engine) startSymbolJobs() {
	queue := e.symbols.queue
	e.symbols.queue = nil
	for _, w := range queue {
		e.startSymbolJob(w)
	}
}

func (e *Engine) startSymbolJob(w wanting) {
	xs := w.payload.symbols
	xs.queued = false
	if xs.running || len(xs.wanted) == 0 {
		return
	}
	if !w.payload.file.open() { // nothing mapped it for a while; the job starts when it is open again
		e.reopen(w)
		if xs.evicted || !w.x.Checking() {
			e.symbols.drop(xs) // it can't be opened, or not yet: whoever sees these addresses again asks again
		}
		return
	}
	batch, of := xs.wanted, xs.asked
	xs.wanted = nil
	xs.running = true
	elf, names, path, builds := w.payload.elf, xs.names, w.x.File.Path, e.builds
	starts := !xs.beginnings.taken() // else another job has them
	e.jobs.submit(aboutFile(w.payload.serial, w.x.File, "symbols"), symbolTimeout,
		func(ctx context.Context) (any, error) {
			var degraded error
			if names == nil {
				names, degraded = builds.symbols(ctx, path, elf)
			}
			return lookUp(ctx, names, degraded, starts, batch)
		},
		func(v any, err error) {
			xs.running = false
			e.symbols.answer(of)
			if err != nil {
				// Too much to do, or the file hangs: whoever sees these addresses again asks again.
				e.count.SymbolErrors++
				for _, a := range batch {
					xs.lru.Remove(a)
				}
				e.symbols.drop(xs)
				e.keepGone(xs)
				e.log.Debug("reading symbols", zapFile(w.x), zapError(err))
				return
			}
			e.symbolsFound(w, batch, v.(symbolResult))
		})
}

// reopen has an executable's file opened again that was let go.
func (e *Engine) reopen(w wanting) {
	if !w.payload.symbols.evicted && !w.x.Checking() {
		e.executables.Reopen(w.x)
		if e.executables.StartOpening(w.x) {
			e.load(w.x)
		}
	}
}

// symbolsFound puts what a job found into the cache.
func (e *Engine) symbolsFound(w wanting, batch []unwind.FileAddr, r symbolResult) {
	xs := w.payload.symbols
	xs.names = r.names
	xs.account()
	if r.degraded != nil {
		e.count.SymbolErrors++
		e.log.Warn("some symbols are missing", zapFile(w.x), zapError(r.degraded))
	}
	if r.failed != nil {
		e.count.SymbolErrors++
		e.log.Debug("looking symbols up", zapFile(w.x), zapError(r.failed))
	}
	xs.found(batch, r.found)
	if xs.evicted {
		e.keepGone(xs)
		return
	}
	xs.beginnings.want(r.nameless)
	for _, a := range batch {
		if s, ok := xs.lru.Peek(a); ok && s.progress == named && e.cfg.SourceLines {
			e.wantLines(w, a, s)
		}
	}
	e.setBytes(w)
	e.listFunctions(w)
	if len(xs.wanted) > 0 {
		e.startSymbolJob(w)
	}
}

// found fills in what a batch of addresses stands for.
func (xs *executableSymbols) found(batch []unwind.FileAddr, found []symbolized) {
	for i, a := range batch {
		if s, ok := xs.lru.Peek(a); ok {
			xs.bytes += symbolize.LineBytes(found[i].lines) - symbolize.LineBytes(s.lines)
			*s = found[i]
		}
	}
}

// size is what the cache takes; the names in it are the Symbolizer's.
func (xs *executableSymbols) size() int { return xs.bytes + entryBytes*xs.lru.Len() }

// symbolResult is a job's.
type symbolResult struct {
	names    *symbolize.Symbolizer
	degraded error // sources of symbols that could not be read
	failed   error // why an address could not be looked up, the last of those that could not
	found    []symbolized
	nameless []unwind.FileAddr // whose functions a list may tell
}

// lookUp runs on a worker, at most until ctx ends. With starts it looks for the functions around addresses without a symbol, too.
func lookUp(ctx context.Context, names *symbolize.Symbolizer, degraded error, starts bool, batch []unwind.FileAddr) (any, error) {
	r := symbolResult{names: names, degraded: degraded, found: make([]symbolized, len(batch))}
	for i, a := range batch {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("looking up %d addresses, %d of them done: %w", len(batch), i, err)
		}
		lines, err := r.names.Lookup(nil, a)
		if err != nil {
			r.failed = err
			r.found[i].progress = named
			continue // this one stays unnamed
		}
		r.found[i] = symbolized{lines: lines, kind: profile.FrameType(r.names.FrameKind(a)), progress: named}
		if r.found[i].kind == symbolize.KindGo {
			r.found[i].progress, r.found[i].final = linesKnown, true
		}
		if len(lines) > 0 {
			continue
		}
		if !starts {
			r.nameless = append(r.nameless, a)
			continue
		}
		start, ok, err := startOf(r.names, a)
		if err != nil {
			r.failed = err
		} else if r.found[i].function = start; !ok && !r.names.FunctionsListed() {
			r.nameless = append(r.nameless, a)
		}
	}
	return r, nil
}
