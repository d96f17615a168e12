package engine

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"go.uber.org/zap"

	"github.com/hostprofiles/hostprofiles/internal/profile"
	"github.com/hostprofiles/hostprofiles/internal/symbolize"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

const (
	// linesTimeout bounds one batch of look-ups in debug information, opening it the first time included: the index of 2 GiB
	// takes some seconds.
	linesTimeout = 2 * time.Minute
	// linesPause is how long an executable waits between two batches: what comes meanwhile shares the units of one.
	linesPause = 2 * time.Second
	// linesRetryTicks is after how many ticks an executable is tried again whose debug information could not be read.
	linesRetryTicks = 30
	// maxRetryDoublings is how often that is doubled for one that hangs each time.
	maxRetryDoublings = 6
	// linesAbsentTicks is after how many ticks an executable is tried again that has no debug information: someone may have
	// installed it.
	linesAbsentTicks = 120
)

// debugInfo is what is known of an executable's debug information.
type debugInfo struct {
	wanted  []unwind.FileAddr // for the next job
	queued  bool
	running bool
	after   time.Time          // no job before
	retry   uint64             // nor anything wanted before this tick
	strings *symbolize.Strings // names in the executable's lines; a running job's meanwhile
	kept    int                // bytes of those when the last job ended
	open    *openDebug         // nil if it is not open, or a running job's
	stale   bool               // what the running job has open is not all that there is any more
	failed  int                // jobs in a row that came to no end
	noData  bool               // .gnu_debugdata was looked at: there is no debug information in it
}

func newDebugInfo() *debugInfo { return &debugInfo{strings: &symbolize.Strings{}} }

func (d *debugInfo) bytes() int {
	n := d.kept
	if d.open != nil {
		n += d.open.bytes
	}
	return n
}

// Of a core's time lines take no more than this part, beyond what the start and the first look at a program take.
const (
	lineShare  = 0.0075
	lineCredit = 10 * time.Second // CPU time that may be used at once
	lineDebt   = 2 * time.Second  // that one batch may leave behind, at most
)

// lineFinder looks source lines and inlined calls up, in the background: names are there before.
type lineFinder struct {
	queue []wanting
	open  *simplelru.LRU[*openDebug, *debugInfo] // that no job uses
	bytes int                                    // of those

	cpu allowance
	now *lineReader // of the batch that is being looked up; nil if there is none
}

func newLineFinder() lineFinder {
	return lineFinder{open: newLRU[*openDebug, *debugInfo](math.MaxInt32, nil), cpu: newAllowance(lineShare, lineCredit, lineDebt)}
}

// admits tells whether another batch may begin: one at a time, as it may take the memory that there is for all of them. Those of
// other files do not wait for one whose file hangs.
func (l *lineFinder) admits(now time.Time) bool {
	return l.cpu.some(now) && (l.now == nil || l.now.hangs(now))
}

// ended is the end of a batch, or of the wait for it.
func (l *lineFinder) ended(r *lineReader) {
	if l.now == r {
		l.now = nil
	}
	l.cpu.spend(r.cpu.soFar())
}

// wantLines has the lines of an address looked up whose name is known.
func (e *Engine) wantLines(w wanting, a unwind.FileAddr, s *symbolized) {
	d := w.payload.debug
	if e.ticks < d.retry || !w.payload.hasSource() || len(d.wanted) >= linesPerExecutable {
		return
	}
	s.progress = linesAsked
	d.wanted = append(d.wanted, a)
	if !d.queued {
		d.queued = true
		e.lines.queue = append(e.lines.queue, w)
	}
}

// startLineJobs gives what is wanted to the workers, one job an executable.
func (e *Engine) startLineJobs(now time.Time) {
	waiting := e.lines.queue[:0]
	for _, w := range e.lines.queue {
		d := w.payload.debug
		if len(d.wanted) > 0 && !w.payload.symbols.evicted && (d.running || now.Before(d.after) || !e.lines.admits(now)) {
			waiting = append(waiting, w)
			continue
		}
		d.queued = false
		if len(d.wanted) > 0 {
			e.startLineJob(w)
		}
	}
	clear(e.lines.queue[len(waiting):])
	e.lines.queue = waiting
}

func (e *Engine) startLineJob(w wanting) {
	d := w.payload.debug
	batch := d.wanted
	d.wanted = nil
	if w.payload.symbols.evicted || !w.payload.file.open() {
		w.payload.symbols.linesLater(batch)
		e.reopen(w) // whoever sees the addresses again asks again
		return
	}
	open := d.open
	if open != nil {
		e.lines.take(open)
		d.open = nil
	}
	d.running = true
	r := &lineReader{
		limits: e.debugLimits, proc: e.proc, fetcher: e.fetches.cached, spills: e.spills, elf: w.payload.elf, kernel: w.payload.kernel,
		path: w.x.File.Path, open: open, strings: d.strings,
		noData: d.noData,
	}
	e.lines.now = r
	for _, c := range w.x.File.Candidates() {
		r.pids = append(r.pids, c.PID)
	}
	about := aboutLines(w.payload.serial, w.x.File)
	if open != nil {
		about.unbegun = func() { e.closeDebug(open) }
	}
	e.jobs.submit(about, linesTimeout,
		func(ctx context.Context) (any, error) { return r.read(ctx, batch) },
		func(v any, err error) {
			d.running = false
			// What takes long shares more, and the others' turn comes.
			d.after = time.Now().Add(max(linesPause, 4*r.cpu.soFar()))
			e.lines.ended(r)
			if err != nil {
				e.linesFailed(w, batch, err)
				return
			}
			e.linesFound(w, batch, v.(*lineResult))
		})
}

// linesFailed is the end of a job that hangs, took too long, or never ran.
func (e *Engine) linesFailed(w wanting, batch []unwind.FileAddr, err error) {
	d, xs := w.payload.debug, w.payload.symbols
	// Its names may still be written to: they are left to it.
	d.strings, d.kept = &symbolize.Strings{}, 0
	d.retry = e.ticks + linesRetryTicks<<min(d.failed, maxRetryDoublings)
	d.failed++
	e.count.DebugErrors++
	xs.linesLater(batch)
	xs.linesLater(d.wanted)
	d.wanted = nil
	d.freshen(xs)
	e.log.Debug("reading debug information", zapFile(w.x), zapError(err))
}

// freshen has lines looked up again, without delay, if there is more debug information than the job had that has ended; it tells
// whether there is.
func (d *debugInfo) freshen(xs *executableSymbols) bool {
	if !d.stale {
		return false
	}
	d.stale, d.retry = false, 0
	xs.askAgain()
	return true
}

// linesFound puts what a job found into the cache.
func (e *Engine) linesFound(w wanting, batch []unwind.FileAddr, r *lineResult) {
	d, xs := w.payload.debug, w.payload.symbols
	d.failed, d.kept = 0, d.strings.Bytes()
	xs.foundLines(batch, r.found)
	if r.opened {
		d.noData = r.noData
		e.count.DebugInfo[r.source]++
		e.log.Debug("looking for debug information", zapFile(w.x), zap.String("found", r.files))
	}
	switch {
	case r.absent:
		d.retry = e.ticks + linesAbsentTicks
	case r.failed != nil:
		e.count.DebugErrors++
	}
	if r.failed != nil {
		e.log.Debug("reading debug information", zapFile(w.x), zapError(r.failed))
	}
	useless := !r.absent && !someAsked(r.found) // it is there, and cannot be read
	if useless {
		d.retry = e.ticks + linesRetryTicks
	}
	useless = d.freshen(xs) || useless
	if e.ticks < d.retry {
		xs.linesLater(d.wanted)
		d.wanted = nil
	}
	e.fetch(w, r.wanted)
	e.giver.made(r.read)
	if r.open != nil {
		if xs.evicted || useless || !w.payload.file.open() {
			e.closeDebug(r.open)
		} else {
			d.open = r.open
			e.keepDebug(d)
		}
	}
	e.setBytes(w)
	e.keepGone(xs)
}

// someAsked tells whether a batch got anywhere.
func someAsked(found []foundLine) bool {
	return slices.ContainsFunc(found, func(f foundLine) bool { return f.asked })
}

// setBytes tells the executables' owner what one takes.
func (e *Engine) setBytes(w wanting) {
	if !w.payload.symbols.evicted && w.x.Payload == w.payload && w.payload.kernel == nil {
		e.executables.SetBytes(w.x, uint64(executableBytes+w.payload.bytes()))
	}
}

// keepDebug keeps debug information open, in place of what was used least.
func (e *Engine) keepDebug(d *debugInfo) {
	e.lines.open.Add(d.open, d)
	e.lines.bytes += d.open.bytes
	for e.lines.bytes > int(e.debugLimits.kept) || e.lines.open.Len() > maxOpenDebug {
		open, of, ok := e.lines.open.GetOldest()
		if !ok {
			return
		}
		e.lines.take(open)
		of.open = nil
		e.closeDebug(open)
	}
}

// maxOpenDebug bounds the files of debug information that are open while nobody reads them.
const maxOpenDebug = 32

// take takes what is open out of what is kept.
func (l *lineFinder) take(open *openDebug) {
	if l.open.Remove(open) {
		l.bytes -= open.bytes
	}
}

// forgetDebug closes what is open of an executable whose file is closed, or which is forgotten.
func (e *Engine) forgetDebug(x *executable) {
	d := x.debug
	e.closeOpened(d)
	x.symbols.linesLater(d.wanted)
	d.wanted = nil
}

func (e *Engine) closeOpened(d *debugInfo) {
	if d.open != nil {
		e.lines.take(d.open)
		e.closeDebug(d.open)
		d.open = nil
	}
}

// debugDevice stands for all files of debug information, wherever they are, when they are closed.
func debugDevice() device { return device{math.MaxUint32, math.MaxUint32} }

func (e *Engine) closeDebug(d *openDebug) { e.closer.close(debugDevice(), d) }

// linesLater gives addresses up whose lines were wanted; they may be asked for again.
func (xs *executableSymbols) linesLater(batch []unwind.FileAddr) {
	for _, a := range batch {
		if s, ok := xs.lru.Peek(a); ok && s.progress == linesAsked {
			s.progress = named
		}
	}
}

// foundLines puts lines in the place of names.
func (xs *executableSymbols) foundLines(batch []unwind.FileAddr, found []foundLine) {
	for i, a := range batch {
		s, ok := xs.lru.Peek(a)
		switch {
		case !ok:
		case !found[i].asked:
			s.progress = named
		default:
			s.progress = linesKnown
			if lines := withName(found[i].lines, s.lines); len(lines) > 0 {
				xs.bytes += symbolize.LineBytes(lines) - symbolize.LineBytes(s.lines)
				s.kind, s.lines = kindOf(s, lines), lines
			}
		}
	}
}

// withName gives the function around all calls the name of its symbol if there is one: that is its name in the report before
// the lines were known, and on hosts without debug information. (glibc's __libc_start_main is __libc_start_main_impl to DWARF.)
// Calls of functions without any name, as in assembly, are left out: there is nothing to show.
func withName(lines, symbol []unwind.Line) []unwind.Line {
	if len(lines) == 0 {
		return nil
	}
	outer := &lines[len(lines)-1].Function
	if len(symbol) > 0 {
		f := symbol[len(symbol)-1].Function
		outer.Name, outer.SystemName = f.Name, f.SystemName
	}
	if outer.Name == "" {
		return nil
	}
	return slices.DeleteFunc(lines, func(l unwind.Line) bool { return l.Function.Name == "" })
}

// kindOf is the kind of a frame with lines: without a symbol its name tells.
func kindOf(s *symbolized, lines []unwind.Line) profile.FrameType {
	if len(s.lines) > 0 {
		return s.kind
	}
	return profile.FrameType(symbolize.KindOf(lines[len(lines)-1].Function))
}
