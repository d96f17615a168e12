package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"go.uber.org/zap"

	"github.com/hostprofiles/hostprofiles/internal/process"
	"github.com/hostprofiles/hostprofiles/internal/profile"
	"github.com/hostprofiles/hostprofiles/internal/symbolize"
	"github.com/hostprofiles/hostprofiles/internal/symbolize/jitdump"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

const (
	// jitPause is how long a process is left alone between two looks at what it says of its code, and jitPatience how long at
	// most if there was nothing.
	jitPause, jitPatience = time.Second, 30 * time.Second
	// jitFlushPause is how long a process is left alone whose code was seen since, when a report is made.
	jitFlushPause = 250 * time.Millisecond
	// jitTimeout bounds one look.
	jitTimeout = 10 * time.Second
	// jitAddresses bounds the addresses that are known of one process.
	jitAddresses = 1 << 15
	// jitMappings bounds the names of memory of one process; a process may make up as many as it likes.
	jitMappings = 64
	// jitStateBytes is about what a process takes before anything is known.
	jitStateBytes = 4096
)

// jitCode is what is known of code of a process that lies in no ELF file: addresses mean something in this process only, and
// for as long as it does not write other code there.
type jitCode struct {
	saidSum
	st       *processState
	mappings map[memory]*profile.Mapping              // what profiles refer to
	known    *simplelru.LRU[unwind.Addr, *jitAddress] // addresses that were seen
	names    *jitNames                                // what it said; nil if nothing yet, or while a job has it
	wanted   []unwind.Addr                            // not looked up yet
	queued   bool
	running  bool
	looked   time.Time // when the last job ended
	pause    time.Duration
	failed   string    // what was wrong at the last look
	lines    int       // bytes of lines in known
	gone     time.Time // when its process left the table
	dropped  bool      // nothing is kept any more
}

func (c *jitCode) isGone() bool { return !c.gone.IsZero() }

// jitName is what a process says of an address. Samples refer to it: it never changes.
type jitName struct {
	symbol profile.Symbol
	kind   profile.FrameType
	used   bool // by samples
}

// bytes is what a name takes; there may be none.
func (n *jitName) bytes() int {
	if n == nil {
		return 0
	}
	return textBytes(n.symbol.Lines)
}

// same tells whether two names, or none, say the same.
func (n *jitName) same(o *jitName) bool {
	if n == nil || o == nil {
		return n == o
	}
	return n.kind == o.kind && slices.Equal(n.symbol.Lines, o.symbol.Lines)
}

// jitAddress is an address that was seen. Its place may be used for other code than before: what was sampled while a name was known
// keeps that name, and what was sampled earlier has the first one.
type jitAddress struct {
	now, first *jitName // nil if the process says nothing of it, or was not asked yet
}

func (s *jitAddress) bytes() int {
	n := s.now.bytes()
	if s.first != s.now {
		n += s.first.bytes()
	}
	return n
}

// said takes what the process says of an address now.
func (c *jitCode) said(s *jitAddress, n *jitName) {
	if n.same(s.now) {
		return
	}
	c.lines -= s.bytes()
	now, first := s.now, s.first
	if s.now = n; first == nil || n == nil {
		s.first = n
	}
	if now != s.first {
		c.letGo(now)
	}
	if first != now && first != s.first {
		c.letGo(first)
	}
	c.lines += s.bytes()
}

// letGo counts a name that nothing here refers to any more, but samples may.
func (c *jitCode) letGo(n *jitName) {
	if n != nil && n.used {
		c.replaced += n.bytes()
	}
}

// jitter is all processes' code outside of files.
type jitter struct {
	queue     []*jitCode
	byMapping map[*profile.Mapping]*jitCode
}

func newJitter() jitter { return jitter{byMapping: map[*profile.Mapping]*jitCode{}} }

func newJITCode(st *processState) *jitCode {
	c := &jitCode{saidSum: newSaidSum(), st: st, mappings: map[memory]*profile.Mapping{}}
	c.known = newLRU(jitAddresses, func(_ unwind.Addr, s *jitAddress) {
		c.lines -= s.bytes()
		c.letGo(s.now)
		if s.first != s.now {
			c.letGo(s.first)
		}
	})
	return c
}

// textBytes is what lines take whose names nobody else has.
func textBytes(lines []unwind.Line) int {
	n := symbolize.LineBytes(lines)
	for i := range lines {
		f := &lines[i].Function
		n += len(f.Name) + len(f.SystemName) + len(f.File)
	}
	return n
}

// size is what is known of the process.
func (c *jitCode) size() int {
	if c.dropped {
		return 0
	}
	n := jitStateBytes + c.known.Len()*entryBytes + c.lines
	if c.names != nil {
		n += c.names.bytes()
	}
	return n
}

// memory is what tells mappings of no ELF file apart: their file's path, or the name that the process has given them.
type memory struct{ path, name string }

func memoryOf(m *process.MappedFile) memory {
	if m.File != nil {
		return memory{path: m.File.Path}
	}
	return memory{name: m.Name}
}

// unnamed stands for memory without a name, and for all whose names would be too many.
const unnamed = "[jit]"

// String is what stands for the mapping in profiles.
func (m memory) String() string {
	if m.path == "" {
		return cmp.Or(m.name, unnamed)
	}
	name := process.Undeleted(m.path)
	if memfd, ok := strings.CutPrefix(name, "/memfd:"); ok {
		return "memfd:" + memfd
	}
	return name
}

// jitLocation is where a frame lies in code of no ELF file.
func (e *Engine) jitLocation(st *processState, m *process.MappedFile, addr unwind.Addr, l profile.Location) profile.Location {
	c := st.jit
	if c == nil {
		c = newJITCode(st)
		if st.p != nil && st.p.State() == process.Removed { // of a sample that waited: nothing else will tell of its end
			c.st, c.gone = nil, time.Now()
		}
		st.jit = c
		e.said.account(c)
	}
	in := memoryOf(m)
	l.Mapping = c.mappings[in]
	if l.Mapping == nil {
		if len(c.mappings) >= jitMappings {
			in = memory{}
		}
		if l.Mapping = c.mappings[in]; l.Mapping == nil {
			l.Mapping = &profile.Mapping{File: in.String()}
			c.mappings[in] = l.Mapping
			e.jit.byMapping[l.Mapping] = c
		}
	}
	l.Address = uint64(addr)
	if e.cfg.Symbolize && !st.elsewhere {
		if n := e.wantJIT(c, addr).now; n != nil {
			n.used = true
			l.Symbol, l.Type = &n.symbol, n.kind
		}
	}
	return l
}

// wantJIT has an address looked up. What is known already is looked up again from time to time: it may be other code by now.
func (e *Engine) wantJIT(c *jitCode, a unwind.Addr) *jitAddress {
	e.jit.enqueue(c)
	s, ok := c.known.Get(a)
	if ok {
		e.count.SymbolHits++
		return s
	}
	e.count.SymbolMisses++
	s = &jitAddress{}
	if len(c.wanted) < jitAddresses {
		c.known.Add(a, s)
		c.wanted = append(c.wanted, a)
	}
	return s
}

func (j *jitter) enqueue(c *jitCode) {
	if !c.queued && !c.running && !c.isGone() {
		c.queued = true
		j.queue = append(j.queue, c)
	}
}

// startJITJobs has processes looked at whose code was sampled. For a report that is about to be made, what was seen last is
// looked up too, though the last look is not long ago.
func (e *Engine) startJITJobs(now time.Time, report bool) {
	waiting := e.jit.queue[:0]
	for _, c := range e.jit.queue {
		switch {
		case c.isGone():
			c.queued = false
		case !c.due(now, report) || !e.said.some(c, now):
			waiting = append(waiting, c)
		default:
			c.queued = false
			e.startJITJob(c)
		}
	}
	clear(e.jit.queue[len(waiting):])
	e.jit.queue = waiting
}

// due tells whether it is time to look again.
func (c *jitCode) due(now time.Time, report bool) bool {
	pause := c.pause
	if report && pause <= jitPause && len(c.wanted) > 0 {
		pause = jitFlushPause
	}
	return now.Sub(c.looked) >= pause
}

func (e *Engine) startJITJob(c *jitCode) {
	r := &jitReader{
		proc: e.proc, pid: c.st.p.PID, names: c.names, limit: int(float64(e.debugLimits.said) * jitFileShare), wanted: c.wanted, all: c.known.Keys(),
	}
	for _, m := range c.st.p.Mappings() {
		if m.File == nil {
			continue
		}
		if _, ok := jitdump.PIDOf(m.File.Path); ok {
			r.dump = process.MmapInfo{
				Start: m.Start, End: m.End, Offset: m.Offset, File: m.File.ID, Path: m.File.Path, Exec: true,
			}
		}
	}
	c.wanted, c.names, c.running = nil, nil, true
	of := e.symbols.ask()
	about := aboutProcess(r.pid, "names of JIT code")
	about.lines = true
	e.jobs.submit(about, jitTimeout, func(ctx context.Context) (any, error) { return r.read(ctx) },
		func(v any, err error) {
			c.running, c.looked = false, time.Now()
			e.said.spend(c, r.cpu.soFar())
			e.symbols.answer(of)
			if len(c.wanted) > 0 {
				e.jit.enqueue(c)
			}
			if err != nil {
				// Whoever sees the addresses again asks again.
				for _, a := range r.wanted {
					c.known.Remove(a)
				}
				c.again(false)
				e.jitFailed(c, r.pid, err)
				e.keepJIT(c)
				return
			}
			e.jitFound(c, r.pid, v.(*jitResult))
		})
}

// again sets the pause before the next look: longer and longer if there is nothing.
func (c *jitCode) again(some bool) {
	if some {
		c.pause = jitPause
	} else {
		c.pause = min(max(2*c.pause, jitPause), jitPatience)
	}
}

// jitFailed tells what was wrong with a process's files, if it is not what was told last.
func (e *Engine) jitFailed(c *jitCode, pid uint32, err error) {
	if err == nil {
		c.failed = ""
	} else if text := err.Error(); text != c.failed {
		c.failed = text
		e.count.SymbolErrors++
		e.log.Debug("reading names of JIT code", zap.Uint32("pid", pid), zapError(err))
	}
}

// jitFound puts into the cache what a process says of its code.
func (e *Engine) jitFound(c *jitCode, pid uint32, r *jitResult) {
	c.again(r.names.some())
	e.jitFailed(c, pid, errors.Join(r.failed...))
	for i, a := range r.addresses {
		if s, ok := c.known.Peek(a); ok {
			c.said(s, r.found[i])
		}
	}
	if r.names.some() && !c.isGone() {
		c.names = r.names
	}
	e.keepJIT(c)
}

// keepJIT accounts for what is known of a process.
func (e *Engine) keepJIT(c *jitCode) {
	if c.dropped {
		e.said.account(c)
	} else {
		e.keepSaid(c)
	}
}

// forget implements speaker.
func (c *jitCode) forget(e *Engine) {
	if c.isGone() {
		e.dropJIT(c)
		return
	}
	c.names, c.pause = nil, jitPatience
	c.known.Purge()
}

// forgetJIT has a process's code looked at no more. What it said stays for the reports that are about it.
func (e *Engine) forgetJIT(st *processState, now time.Time) {
	c := st.jit
	if c == nil {
		return
	}
	c.gone, c.names, c.wanted = now, nil, nil
	c.st, st.jit = nil, nil
	if c.lines == 0 && !c.running {
		e.dropJIT(c) // it said nothing
		return
	}
	e.keepJIT(c)
}

// forgetGoneJIT forgets what processes said that are gone, when no report is about them any more.
func (e *Engine) forgetGoneJIT(now time.Time) {
	for _, c := range e.jit.byMapping {
		if c.isGone() && now.Sub(c.gone) > e.untilReported() {
			e.dropJIT(c)
		}
	}
}

func (e *Engine) dropJIT(c *jitCode) {
	c.dropped = true
	for _, m := range c.mappings {
		delete(e.jit.byMapping, m)
	}
	c.known.Purge()
	e.said.drop(c)
}

// resolve is the Builder's view of what was sampled before its name was known.
func (c *jitCode) resolve(dst []unwind.Line, l *profile.Location) []unwind.Line {
	s, ok := c.known.Peek(unwind.Addr(l.Address))
	if !ok || s.first == nil {
		return dst
	}
	l.Type = s.first.kind
	return append(dst, s.first.symbol.Lines...)
}
