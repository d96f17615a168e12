package codeflow

import (
	"errors"
	"slices"
	"unsafe"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

// ownership says what is known of the function that an instruction is part of.
type ownership struct {
	from uint32 // 1 + the offset of the function's start, from which the instruction was followed; 0 if that is not known
	// behind is, where another function may begin behind a call, 1 + the offset of the function that is called: what follows is part of the
	// caller only if that function returns.
	behind  uint32
	sure    bool // a function begins here, as far as anything can tell
	doubt   bool // one may begin here, though other code led to this place
	returns bool // the function that begins here returns, or jumps to another one
}

const (
	ownedBytes = uint64(unsafe.Sizeof(ownership{}))
	// unknownOwner stands for a function of which only a part was found.
	unknownOwner = -1
	// functionAlign is what compilers align functions to, if they do. An address that is taken and aligned is a function's; one
	// that is not may be a label's.
	functionAlign = 16
)

// Functions returns where functions begin, and how far each goes at least, of the code that t has no rule for, in ascending
// order. It returns those only that it is sure of: what is called, the entry point, what is aligned and has its address taken,
// unless it is a label; and of these the code that was followed from there, without a gap in which another function may begin: a
// function may go on behind that, or elsewhere. Errors are as Find's.
// The result counts in f's Budget.
func Functions(f *elffile.File, t *unwind.Table) ([]unwind.Extent, error) {
	a := newAnalyzer(f)
	a.owners = true
	if ok, err := a.run(t); !ok {
		return nil, err
	}
	var all []unwind.Extent
	for _, r := range a.regions {
		for off := range r.owned {
			if !r.owned[off].sure || r.state[off] == 0 || int(r.owned[off].from) != off+1 {
				continue
			}
			if len(all) == cap(all) { // it grows to no more than twice of what it has
				n := max(64, 2*uint64(len(all)))
				if !a.take(n*unwind.ExtentBytes, "functions") {
					break
				}
				a.f.Budget().Give(uint64(cap(all)) * unwind.ExtentBytes)
				all = append(make([]unwind.Extent, 0, n), all...)
			}
			at := r.at + unwind.FileAddr(off)
			all = append(all, unwind.Extent{Start: at, End: r.at + unwind.FileAddr(a.reach(r, off))})
		}
	}
	return all, errors.Join(a.refused)
}

// reach is how far a function goes for sure: to the first instruction that it does not lead to, or that may be another's.
func (a *analyzer) reach(r *region, start int) (end int) {
	for off := start; off < len(r.code); {
		o := r.owned[off]
		switch {
		case off > start && (r.start[off] || o.doubt):
			return end
		case off > start && o.behind > 0 && !r.owned[o.behind-1].returns:
			return end
		case r.state[off] == 0:
			n := a.m.padding(r.code[off:])
			if n == 0 {
				return end
			}
			off += n
		case int(o.from) != start+1:
			return end
		default:
			off += int(r.size[off])
			end = off
		}
	}
	return end
}

// gone notes the start of the function in another region that a jump in a state leads to, across code that has rules.
func (w *walk) gone(s *state, target unwind.FileAddr) {
	if w.trial != 0 || w.r.owned == nil || target%functionAlign != 0 {
		return
	}
	entry := w.a.m.entry()
	r := w.a.region(target)
	if r == nil || r == w.r || s.base != entry.base || s.cfa != entry.cfa {
		return
	}
	off := int(target - r.at)
	if off == 0 || w.a.m.boundary(r.code[:off], target) {
		w.a.begins(r, off)
	}
}

// begins makes a function's start known, for sure.
func (a *analyzer) begins(r *region, off int) {
	r.owned[off].sure = true
	if !r.start[off] {
		r.start[off] = true
		a.found = append(a.found, found{r, off})
	}
}

// sort makes the list of the starts that are sure.
func (r *region) sort() {
	for off := range r.owned {
		if r.owned[off].sure {
			r.sure = append(r.sure, off)
		}
	}
}

// sure notes that a function begins at an address.
func (a *analyzer) sure(at unwind.FileAddr) {
	if r := a.region(at); r != nil && r.owned != nil {
		r.owned[at-r.at].sure = true
	}
}

// own notes which function an instruction is of.
func (w *walk) own(off int) {
	if w.r.owned != nil {
		w.r.owned[off].from = uint32(w.owner + 1)
	}
}

// leaves tells whether a jump in a state, behind which the code at next begins, is to another function for sure, and makes that
// one's start known: then a function begins between the two, and at the target something may begin. Where that is all, the
// target is in doubt.
func (w *walk) leaves(f flow, s *state, next, target int) bool {
	if w.trial != 0 || w.r.owned == nil || f != flowJump {
		return false
	}
	entry := w.a.m.entry()
	if target == next || s.base != entry.base || s.cfa != entry.cfa ||
		!w.a.m.boundary(w.r.code[:target], w.r.at+unwind.FileAddr(target)) {
		return false
	}
	if w.owner >= 0 && w.r.owned[w.owner].sure && (target+int(w.r.at))%functionAlign == 0 {
		i, _ := slices.BinarySearch(w.r.sure, w.owner+1)
		if target < w.owner || i < len(w.r.sure) && w.r.sure[i] < target {
			w.left()
			w.a.begins(w.r, target)
			return true
		}
	}
	w.r.owned[target].doubt = true
	return false
}

// called notes that what comes at an offset, behind a call, may be another function, if it is aligned or padding comes first, and
// the call does not return.
func (w *walk) called(off int, target unwind.FileAddr) {
	if w.trial != 0 || w.r.owned == nil {
		return
	}
	if r := w.a.region(target); r != nil && r.start[target-r.at] {
		r.owned[target-r.at].sure = true
	}
	if off >= len(w.r.code) || (uint64(w.r.at)+uint64(off))%functionAlign != 0 && w.a.m.padding(w.r.code[off:]) == 0 {
		return
	}
	if d := target - w.r.at; target >= w.r.at && d < unwind.FileAddr(len(w.r.code)) {
		w.r.owned[off].behind = uint32(d) + 1
	} else {
		w.r.owned[off].doubt = true
	}
}

// left notes that a function returns.
func (w *walk) left() {
	if w.trial == 0 && w.r.owned != nil && w.owner >= 0 {
		w.r.owned[w.owner].returns = true
	}
}
