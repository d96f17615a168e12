package codeflow

import (
	"slices"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// follow follows all ways from an instruction on, within its region and up to other functions. When a way ends in a
// return with a stack that is not a caller's, it went on behind a call that does not return, into another function: if
// one can be found it is made a function's start, and everything is done again. The function begins at owner, or is not known
// if that is negative.
func (a *analyzer) follow(r *region, off int, s state, owner int) {
	for range maxRetries {
		w := walk{a: a, r: r, owner: owner, log: a.log[:0]}
		wrong := w.run(off, s)
		a.log = w.log
		if w.foreign {
			for _, o := range w.log {
				r.state[o] = 0
			}
			w.done()
			return
		}
		if wrong < 0 {
			a.stats.Lost += w.lost
			w.done()
			return
		}
		noted := a.noted[:0]
		for _, o := range w.log { // trials look at what was found before
			noted = append(noted, r.state[o])
			r.state[o] = 0
		}
		a.noted = noted
		cut := w.cut(wrong, maxDepth)
		if cut < 0 || len(a.ends) >= maxEnds {
			for i, o := range w.log {
				r.state[o] = noted[i]
			}
			a.stats.Lost += w.lost
			w.done()
			return
		}
		end := w.chain[cut].off
		w.done()
		a.ends[r.at+unwind.FileAddr(end)] = true
		end += a.m.padding(r.code[end:])
		r.start[end] = true
		a.found = append(a.found, found{r, end})
	}
}

// trialResult says what code would be as a function.
type trialResult uint8

const (
	trialUnknown trialResult = iota
	trialNone                // none: it returns with a stack that is not a caller's, or is not code
	trialEndless             // it may be one, but nothing that was followed returns
	trialFunction
)

// plausible tells whether the code at off behaves as a function does: every way that is found returns with the caller's
// stack, or does not return at all. depth bounds the functions behind it that must be judged before.
func (a *analyzer) plausible(r *region, off, depth int) trialResult {
	if r.trial[off] != trialUnknown || depth == 0 {
		return r.trial[off]
	}
	r.trial[off] = trialNone // while it is being judged
	result := trialNone
	var ends cuts
	for range maxCuts {
		w := a.newTrial(r, &ends)
		wrong := w.run(off, a.m.entry())
		if wrong == nothingWrong && !w.broken && !w.foreign {
			if result = trialEndless; w.returned {
				result = trialFunction
			}
		}
		if wrong < 0 {
			w.done()
			break
		}
		cut := w.cut(wrong, depth-1)
		if cut < 0 {
			w.done()
			break
		}
		ends.add(w.chain[cut].off)
		w.done()
	}
	r.trial[off] = result
	return result
}

// cuts are the ends of calls that a trial takes for such as do not return.
type cuts struct {
	at [maxCuts]int
	n  int
}

func (c *cuts) add(off int) {
	c.at[c.n] = off
	c.n++
}

func (c *cuts) has(off int) bool { return c != nil && slices.Contains(c.at[:c.n], off) }

// walk follows ways from one instruction on.
type walk struct {
	a      *analyzer
	r      *region
	trial  int   // the number of a trial, which notes no states; 0 for others
	length int   // of a trial, in instructions
	owner  int   // where the function begins; unused in a trial
	ends   *cuts // in a trial: calls that do not return

	log      []int     // where states were noted
	chain    []callEnd // calls that were passed
	returned bool      // some way came to its end as it should
	broken   bool      // some way came to what is no instruction
	foreign  bool      // some way leaves as no function does whose return address is on the stack
	lost     int       // instructions behind which the stack pointer was not known
	// brief: the first way that fits is enough: to a return with a caller's stack, or to what was followed before.
	brief bool
	fits  bool
}

func (a *analyzer) newTrial(r *region, ends *cuts) walk {
	a.trials++
	return walk{a: a, r: r, trial: a.trials, ends: ends}
}

// done lets another walk have the buffer of this one, which has run.
func (w *walk) done() { w.a.chains = append(w.a.chains, w.chain) }

// callEnd is where a call ends, and what was passed before it.
type callEnd struct{ off, before int }

// place is an instruction that is to be followed; call is the last call passed, -1 if none.
type place struct {
	off  int
	s    state
	call int
}

const (
	nothingWrong = -1
	noCall       = -1
	// brokenAtOnce: something is wrong without any call before it.
	brokenAtOnce = -2
)

// run follows everything that is reached from off. It returns nothingWrong, or the last call passed on a way that cannot
// be, or brokenAtOnce. Behind calls it goes on last, since not all of them return.
func (w *walk) run(off int, s state) (wrong int) {
	strong, weak := append(w.a.strong[:0], place{off, s, noCall}), w.a.weak[:0]
	defer func() { w.a.strong, w.a.weak = strong, weak }()
	if n := len(w.a.chains); n > 0 {
		w.chain, w.a.chains = w.a.chains[n-1][:0], w.a.chains[:n-1]
	}
	p := &w.a.current
	for {
		switch {
		case len(strong) > 0:
			*p, strong = strong[len(strong)-1], strong[:len(strong)-1]
		case len(weak) > 0:
			*p, weak = weak[len(weak)-1], weak[:len(weak)-1]
		default:
			return nothingWrong
		}
		for !w.brief || !w.fits {
			if p.off >= len(w.r.code) || p.off != off && w.r.start[p.off] {
				break
			}
			if w.conflict(*p) {
				if p.call == noCall {
					return brokenAtOnce
				}
				return p.call
			}
			if !w.visit(*p) {
				break
			}
			at := w.r.at + unwind.FileAddr(p.off)
			size, f, target, known := w.a.m.step(&p.s, w.r.code[p.off:], at)
			if slices.Contains(w.r.start[p.off+min(size, 1):p.off+size], true) {
				size = 0 // no instruction contains a function's start
			}
			w.note(p.off, size)
			if size == 0 {
				w.broken = w.broken || p.call == noCall
				break
			}
			if !known {
				w.lost++
				break
			}
			w.foreign = w.foreign || f == flowForeign
			if w.isWrong(p.s, f, target) {
				switch {
				case p.call != noCall:
					return p.call
				case w.trial != 0:
					return brokenAtOnce
				}
				break // no other function can be behind a call before; V8's leave arguments for the one they jump to
			}
			if f == flowJump {
				w.gone(&p.s, target)
			}
			if d := target - w.r.at; (f == flowBranch || f == flowJump) && target >= w.r.at &&
				d < unwind.FileAddr(len(w.r.code)) && !w.r.start[d] && len(strong) < maxPending &&
				!w.leaves(f, &p.s, p.off+size, int(d)) {
				strong = append(strong, place{int(d), p.s, p.call})
			}
			p.off += size
			if f == flowCall && !w.ends.has(p.off) && !w.a.ends[at+unwind.FileAddr(size)] && len(weak) < maxPending {
				w.chain = append(w.chain, callEnd{p.off, p.call})
				w.called(p.off, target)
				weak = append(weak, place{p.off, p.s, len(w.chain) - 1})
			}
			if f != flowNext && f != flowBranch {
				break
			}
		}
	}
}

// conflict tells whether a trial came to what was followed before, with another stack.
func (w *walk) conflict(p place) bool {
	n := w.r.state[p.off]
	if w.trial == 0 || n == 0 {
		return false
	}
	s := w.a.states[n]
	if s.base == p.s.base && s.cfa == p.s.cfa {
		w.fits = true
		return false
	}
	return true
}

// visit tells whether the instruction is new, and notes the state before it.
func (w *walk) visit(p place) bool {
	if w.a.budget--; w.a.budget < 0 {
		return false
	}
	if w.trial != 0 {
		if w.r.state[p.off] != 0 || w.r.visited[p.off] == uint32(w.trial) || w.length >= maxTrial {
			return false
		}
		w.r.visited[p.off] = uint32(w.trial)
		w.length++
		return true
	}
	n := w.a.number(p.s)
	if w.r.state[p.off] != 0 || n == 0 || len(w.log) >= maxLog {
		return false
	}
	w.r.state[p.off] = n
	w.log = append(w.log, p.off)
	return true
}

// note notes the size of an instruction; what is none gets no state.
func (w *walk) note(off, size int) {
	switch {
	case w.trial != 0:
	case size == 0:
		w.r.state[off] = 0
		w.log = w.log[:len(w.log)-1]
	default:
		w.r.size[off] = uint8(size)
		w.own(off)
	}
}

// isWrong tells whether control leaves the function without the caller's stack.
func (w *walk) isWrong(s state, f flow, target unwind.FileAddr) bool {
	entry := w.a.m.entry()
	leaves := f == flowReturn
	if f == flowJump {
		r := w.a.region(target)
		leaves = r != w.r || r.start[target-r.at]
	}
	if !leaves {
		// An indirect jump is no such end: the handlers of threaded interpreters would be functions by that.
		w.returned = w.returned || f == flowEnd
		return false
	}
	w.returned = true
	wrong := s.base != entry.base || s.cfa != entry.cfa
	if !wrong {
		w.left()
	}
	w.fits = w.fits || !wrong
	return wrong
}

// cut finds the call, among those passed up to one, behind which another function begins: -1 if there is none.
func (w *walk) cut(call, depth int) int {
	for ; call >= 0; call = w.chain[call].before {
		off := w.chain[call].off
		off += w.a.m.padding(w.r.code[off:])
		if off < len(w.r.code) && (w.r.start[off] || w.a.plausible(w.r, off, depth) == trialFunction) {
			return call
		}
	}
	return noCall
}
