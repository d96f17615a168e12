package engine

import (
	"time"

	"github.com/hostprofiles/hostprofiles/internal/profile"
	"github.com/hostprofiles/hostprofiles/internal/symbolize"
)

// goneShare of the memory budget is what names of executables take at most that are no more what they were.
const goneShare = 1.0 / 32

// goneEntryBytes is about what one of them takes beside its addresses and names.
const goneEntryBytes = 1024

// goneSymbols is what was found of an executable whose file was rewritten since, or that was forgotten: reports may be about it that
// are still to come.
type goneSymbols struct {
	symbols  *executableSymbols
	mappings []*profile.Mapping
	since    time.Time
	bytes    int
}

// forgetSymbols has nothing more looked up in an evicted executable. What was found stays for the reports that are about it.
func (e *Engine) forgetSymbols(x *executable, now time.Time) {
	s, xs := &e.symbols, x.symbols
	xs.evicted = true
	s.drop(xs)
	if xs.lru.Len() == 0 { // nothing was found, if any sample was in it
		s.unresolve(x.mappings)
		return
	}
	xs.gone = &goneSymbols{symbols: xs, mappings: x.mappings, since: now}
	s.gone = append(s.gone, xs.gone)
	e.keepGone(xs)
}

// keepGone accounts for what is kept of an evicted executable, after more was found, and drops what is gone for longest.
func (e *Engine) keepGone(xs *executableSymbols) {
	g, s := xs.gone, &e.symbols
	if g == nil {
		return
	}
	n := xs.detach()
	s.goneBytes += n - g.bytes
	g.bytes = n
	for s.goneBytes > int(float64(e.cfg.MemoryBytes)*goneShare) {
		e.count.Evictions++
		s.dropGone()
	}
}

// detach makes names that were found their own, so that symbols and debug information are let go which they are a part of. It returns
// what all takes.
func (xs *executableSymbols) detach() int {
	var own symbolize.Strings
	for _, s := range xs.lru.Values() {
		if own.Keep(s.lines) != nil {
			xs.bytes -= symbolize.LineBytes(s.lines)
			s.lines = nil // there are too many
		}
	}
	if !xs.running && !xs.beginnings.taken() {
		xs.names, xs.kept = nil, 0
	}
	return goneEntryBytes + xs.size() + own.Bytes()
}

// forgetGone forgets names when no report is about them any more.
func (s *symbolizer) forgetGone(now time.Time, after time.Duration) {
	for len(s.gone) > 0 && now.Sub(s.gone[0].since) > after {
		s.dropGone()
	}
}

// dropGone drops what is gone for longest.
func (s *symbolizer) dropGone() {
	g := s.gone[0]
	s.gone[0] = nil
	s.gone = s.gone[1:]
	s.unresolve(g.mappings)
	s.goneBytes -= g.bytes
	g.symbols.gone = nil
	g.symbols.lru.Purge()
}

// unresolve has nothing found any more for mappings.
func (s *symbolizer) unresolve(mappings []*profile.Mapping) {
	for _, m := range mappings {
		delete(s.byMapping, m)
	}
}
