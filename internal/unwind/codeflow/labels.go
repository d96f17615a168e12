package codeflow

import (
	"cmp"
	"slices"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

const (
	// labelBytes and labelSteps bound how far behind the instruction that takes it a label is looked for: V8 notes the address
	// behind a call, or the one of the next instruction, some 20 bytes before the call.
	labelBytes = 64
	labelSteps = 16
)

// leadsTo tells whether code goes straight on from an address to a target not far behind it. Then the target is a label, such as
// V8's of what a call of C returns to, and no function's start. Behind a direct call this holds only for targets that are not
// aligned as functions are, since what is called may not return; behind padding it does not hold.
func (a *analyzer) leadsTo(r *region, from, to unwind.FileAddr) bool {
	if from == to {
		return true
	}
	if from < r.at || from > to || to-from > labelBytes {
		return false
	}
	s := a.m.entry()
	for range labelSteps {
		b := r.code[from-r.at:]
		a.budget--
		size, f, callee, _ := a.m.step(&s, b, from)
		next := f == flowNext || f == flowBranch || f == flowCall && (callee == 0 || to%functionAlign != 0)
		if size == 0 || !next || a.budget < 0 || a.m.padding(b[:size]) > 0 {
			return false
		}
		if from += unwind.FileAddr(size); from >= to {
			return from == to
		}
	}
	return false
}

// fallen notes the targets that an instruction before them goes on to, which is reached from a function that is known: what looks
// like an end of code before such a target is part of that instruction. Functions are known by symbols and by several calls. Behind
// a call, and behind padding, another function may begin. sorted are the keys of seen.
func (a *analyzer) fallen(seen map[unwind.FileAddr]target, sorted []unwind.FileAddr) {
	a.trials++
	for _, r := range a.regions {
		for off := range r.start {
			if r.start[off] {
				a.fallFrom(r, off, seen)
			}
		}
	}
	for _, at := range sorted {
		if seen[at].calls < 2 {
			continue
		}
		if r := a.region(at); at == r.at || a.m.boundary(r.code[:at-r.at], at) {
			a.fallFrom(r, int(at-r.at), seen)
		}
	}
}

// fallFrom does so for everything that is reached from one instruction within its region.
func (a *analyzer) fallFrom(r *region, off int, seen map[unwind.FileAddr]target) {
	ways, mark := append(a.log[:0], off), uint32(a.trials)
	defer func() { a.log = ways }()
	var s state // one for all instructions: it escapes
	for len(ways) > 0 {
		off, ways = ways[len(ways)-1], ways[:len(ways)-1]
		for off < len(r.code) && r.visited[off] != mark {
			if a.budget--; a.budget < 0 {
				return
			}
			r.visited[off] = mark
			s = a.m.entry()
			size, f, to, _ := a.m.step(&s, r.code[off:], r.at+unwind.FileAddr(off))
			if size == 0 {
				break
			}
			jumps := f == flowBranch || f == flowJump || f == flowCall
			if d := to - r.at; jumps && to >= r.at && d < unwind.FileAddr(len(r.code)) && len(ways) < maxPending {
				ways = append(ways, int(d))
			}
			b := r.code[off : off+size]
			off += size
			if f == flowNext || f == flowBranch {
				at := r.at + unwind.FileAddr(off)
				if x, ok := seen[at]; ok && !x.label && a.m.padding(b) == 0 {
					x.label = true
					seen[at] = x
				}
			} else if f != flowCall {
				break
			}
		}
	}
}

// inside tells whether an address lies in a function that has a symbol with a size, behind its start. Of several the nearest counts.
func (a *analyzer) inside(at unwind.FileAddr) bool {
	n, found := slices.BinarySearchFunc(a.extents, at, func(x unwind.Extent, at unwind.FileAddr) int { return cmp.Compare(x.Start, at) })
	return !found && n > 0 && at < a.extents[n-1].End
}
