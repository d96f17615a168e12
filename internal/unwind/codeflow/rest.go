package codeflow

import (
	"slices"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// rest follows what nothing led to: the blocks that jump tables lead to, with the state at a jump of the same function
// that fits, and functions that are called by pointer only. What it finds may lead to more.
func (a *analyzer) rest(r *region) {
	for range maxPasses {
		if !a.pass(r, a.jumps(r)) {
			return
		}
	}
}

// jumps are the states at the indirect jumps of each function, by the offset where it starts.
func (a *analyzer) jumps(r *region) map[int][]state {
	jumps := map[int][]state{}
	function := 0
	var s state // one for all instructions: it escapes
	for off := 0; off < len(r.code); {
		n := r.state[off]
		if r.start[off] {
			function = off
		}
		if n == 0 {
			off++
			continue
		}
		s = a.states[n]
		_, f, _, _ := a.m.step(&s, r.code[off:], r.at+unwind.FileAddr(off))
		if list := jumps[function]; f == flowIndirect && len(list) < maxJumps && !slices.Contains(list, s) &&
			(list != nil || len(jumps) < maxJumpTables) {
			jumps[function] = append(list, s)
		}
		off += int(r.size[off])
	}
	return jumps
}

// pass goes through a region once and tells whether it found anything.
func (a *analyzer) pass(r *region, jumps map[int][]state) (found bool) {
	// What lies before went somewhere else, and only padding came since. A region may begin inside a function.
	ended := (r.at+unwind.FileAddr(a.m.padding(r.code)))%16 == 0
	function := 0
	var s state
	for off := 0; off < len(r.code); {
		if r.start[off] {
			function = off
		}
		if n := r.state[off]; n != 0 {
			s = a.states[n]
			_, f, _, _ := a.m.step(&s, r.code[off:], r.at+unwind.FileAddr(off))
			off += int(r.size[off])
			ended = f == flowEnd || f == flowReturn || f == flowJump || f == flowIndirect || f == flowForeign ||
				f == flowCall && a.ends[r.at+unwind.FileAddr(off)]
			continue
		}
		if n := a.m.padding(r.code[off:]); n > 0 {
			off += n
			continue
		}
		if ended {
			found = a.block(r, off, function, jumps[function]) || found
		}
		if r.state[off] == 0 {
			off++
			ended = false
		}
	}
	return found
}

// block follows a block behind the start of a function that nothing led to, if one of the states makes sense there, or the one of a function's start.
func (a *analyzer) block(r *region, off, function int, states []state) bool {
	for _, s := range slices.Backward(states) {
		w := a.newTrial(r, nil)
		w.brief = true
		wrong := w.run(off, s)
		w.done()
		if wrong == nothingWrong && !w.broken && !w.foreign && w.fits {
			if s == a.m.entry() {
				function = unknownOwner // it may as well be another function
			}
			a.follow(r, off, s, function)
			return true
		}
	}
	if a.plausible(r, off, maxDepth) != trialFunction {
		return false
	}
	r.start[off] = true
	a.function(r, off)
	return true
}
