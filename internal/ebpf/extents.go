package ebpf

import (
	"slices"
	"time"
)

// gracePeriod is how long something that BPF may still be reading is left alone after it was unlinked. A walk takes
// microseconds; this is generous because nothing is gained by less.
const gracePeriod = time.Second

// extents allocates runs of elements out of a fixed array, first fit. A freed run is reused after gracePeriod.
type extents struct {
	free   []extent // sorted by at, never adjacent
	limbo  []extent // in the order of their time
	used   int
	length int
}

type extent struct {
	at, n int
	since time.Time // in limbo only
}

func newExtents(n int) *extents { return &extents{free: []extent{{at: 0, n: n}}, length: n} }

// alloc returns the first element of a free run of n, or false.
func (e *extents) alloc(n int, now time.Time) (int, bool) {
	e.reclaim(now)
	for i := range e.free {
		f := &e.free[i]
		if f.n < n {
			continue
		}
		at := f.at
		f.at += n
		f.n -= n
		if f.n == 0 {
			e.free = slices.Delete(e.free, i, i+1)
		}
		e.used += n
		return at, true
	}
	return 0, false
}

// release gives a run back; it is reused after the grace period.
func (e *extents) release(at, n int, now time.Time) {
	if n > 0 {
		e.limbo = append(e.limbo, extent{at, n, now})
	}
}

// unused tells whether nothing is allocated, in limbo included.
func (e *extents) unused() bool { return e.used == 0 }

func (e *extents) reclaim(now time.Time) {
	i := 0
	for ; i < len(e.limbo) && now.Sub(e.limbo[i].since) >= gracePeriod; i++ {
		e.insert(e.limbo[i])
	}
	e.limbo = slices.Delete(e.limbo, 0, i)
}

func (e *extents) insert(x extent) {
	e.used -= x.n
	i, _ := slices.BinarySearchFunc(e.free, x.at, func(f extent, at int) int { return f.at - at })
	if i > 0 && e.free[i-1].at+e.free[i-1].n == x.at {
		i--
		e.free[i].n += x.n
	} else {
		e.free = slices.Insert(e.free, i, extent{at: x.at, n: x.n})
	}
	if i+1 < len(e.free) && e.free[i].at+e.free[i].n == e.free[i+1].at {
		e.free[i].n += e.free[i+1].n
		e.free = slices.Delete(e.free, i+1, i+2)
	}
}
