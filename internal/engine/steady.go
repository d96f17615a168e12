package engine

import (
	"slices"
	"unsafe"

	"github.com/hostprofiles/hostprofiles/internal/process"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// snapshot is what BPF was told of a process's mappings. Times are CLOCK_MONOTONIC, ns.
type snapshot struct {
	mappings []process.MappedFile
	version  uint64 // of these; 0 if it was made to forget them
	from     uint64 // it may have known them from then on
	sure     uint64 // and surely did from then on
}

// place is a mapping, and the list that it is of.
type place struct {
	mapping *process.MappedFile
	list    []process.MappedFile
}

// unsteady is a range of a process's memory where one file took another one's place.
type unsteady struct {
	start, end unwind.Addr
	tick       uint64 // when that was seen last
}

const (
	// unsteadyTicks is how long BPF is not asked to walk through such a range: a place that files take turns in is walked
	// in user space, which knows what was there at the time.
	unsteadyTicks = 4
	// toldFor is how long it is remembered what BPF was told before, in ns: samples that were taken by then have arrived.
	toldFor = 10e9
	// maxUnsteady bounds the ranges of a process; the one that was steady for longest goes first.
	maxUnsteady = 64
)

// remember notes the mappings as they are at the time of the sample: if it has to wait, others may be in their place by then.
func (k *stack) remember() {
	if p := k.state.p; p.Maps() == process.MapsKnown {
		k.mappings, k.version = p.Mappings(), p.Version
	}
}

// find returns the mapping that contained a when the sample was taken.
func (k *stack) find(a unwind.Addr) (*process.MappedFile, bool) {
	m, _, ok := k.findIn(a)
	return m, ok
}

// findIn is find, and returns the list that the mapping is of.
func (k *stack) findIn(a unwind.Addr) (m *process.MappedFile, list []process.MappedFile, ok bool) {
	for _, p := range k.asMemory {
		if p.mapping.Start <= a && a < p.mapping.End {
			return p.mapping, p.list, true
		}
	}
	if k.mappings != nil && k.version != k.state.p.Version {
		if m, ok := process.FindMapping(k.mappings, a); ok {
			return m, k.mappings, true
		}
	}
	list = k.state.p.Mappings()
	m, ok = process.FindMapping(list, a)
	return m, list, ok
}

// checkWalk looks at a walk that BPF made with mappings that were not those at the time of the sample: behind the first frame in
// a place that held something else by then, it went by the rules of another file. It ends there, and says so. What it guessed its way
// through as memory, because it had not been told yet that the memory is a file's text, stays memory in this stack: a guess may leave a
// call out.
func (e *Engine) checkWalk(k *stack) {
	if len(k.user) == 0 || k.mappings == nil {
		return
	}
	stale, n := (*process.MappedFile)(nil), len(k.user)
	for _, told := range k.state.walkedBy(k.time) {
		if told.version == k.version {
			continue
		}
		for i, f := range k.user[:n] {
			if f.Managed() {
				continue
			}
			was, ok := process.FindMapping(told.mappings, f.LookupAddr())
			if !ok {
				continue
			}
			is, ok := k.find(f.LookupAddr())
			if !ok || is.SamePlace(was) {
				continue
			}
			if was.File != nil {
				stale, n = is, i+1
				break
			}
			if k.guessedBehind(i) {
				k.asMemory = append(k.asMemory, place{was, told.mappings})
			}
		}
	}
	if stale != nil {
		k.state.addUnsteady(stale, e.ticks)
		e.markDirty(k.state)
		k.user, k.stop, k.line, k.resumable = k.user[:n], unwind.StopStale, 0, false
	}
}

// guessedBehind tells whether the step from frame i was a guess, or none was found.
func (k *stack) guessedBehind(i int) bool {
	if i+1 == len(k.user) {
		return !k.resumable
	}
	return k.user[i+1].Flags&unwind.FrameGuessed != 0
}

// walkedBy returns what BPF may have walked by at a time: both, while it was being told. It is nothing if that was before what is
// remembered.
func (st *processState) walkedBy(time uint64) []snapshot {
	now, before := &st.told[0], &st.told[1]
	switch {
	case time >= now.sure:
		return st.told[:1]
	case time >= now.from:
		return st.told[:]
	case time >= before.sure:
		return st.told[1:]
	}
	return nil
}

// tell notes what BPF was told. To tell the same again changes nothing.
func (st *processState) tell(now snapshot) {
	if st.told[0].version != now.version {
		st.told = [2]snapshot{now, st.told[0]}
	}
}

// toldBytes is what lists of mappings take that are kept although the processes have others by now, and what was counted in them.
func (e *Engine) toldBytes() (n uint64) {
	var seen map[*process.MappedFile]bool // processes share lists
	add := func(list []process.MappedFile) {
		if seen == nil {
			seen = map[*process.MappedFile]bool{}
		}
		if at := unsafe.SliceData(list); !seen[at] {
			seen[at] = true
			n += listBytes(list)
		}
	}
	for _, st := range e.states {
		for _, told := range st.told {
			if len(told.mappings) > 0 && told.version != st.p.Version {
				add(told.mappings)
			}
		}
		if b := &st.biases; len(b.list) > 0 && !sameList(b.list, st.told[0].mappings) {
			add(b.list)
		}
		n += uint64(st.biases.count) * biasBytes
	}
	return n
}

// listBytes is what a list of mappings takes.
func listBytes(list []process.MappedFile) uint64 {
	return uint64(cap(list)) * uint64(unsafe.Sizeof(process.MappedFile{}))
}

// noteUnsteady notes where the mappings that BPF is about to be told of have other files than those that it knows.
func (st *processState) noteUnsteady(mappings []process.MappedFile, tick uint64) {
	old := st.told[0].mappings
	if len(old) == 0 || len(mappings) > 0 && &old[0] == &mappings[0] {
		return
	}
	for i := range mappings {
		m := &mappings[i]
		for _, at := range [...]unwind.Addr{m.Start, m.End - 1} {
			if was, ok := process.FindMapping(old, at); ok && was.File != nil && !m.SamePlace(was) {
				st.addUnsteady(m, tick)
				break
			}
		}
	}
}

func (st *processState) addUnsteady(m *process.MappedFile, tick uint64) {
	if m.File == nil {
		return // memory has no table
	}
	st.unsteady = slices.DeleteFunc(st.unsteady, func(u unsteady) bool { return m.Start <= u.start && u.end <= m.End })
	if len(st.unsteady) >= maxUnsteady {
		st.unsteady = slices.Delete(st.unsteady, 0, 1)
	}
	st.unsteady = append(st.unsteady, unsteady{m.Start, m.End, tick})
}

func (st *processState) isUnsteady(m *process.MappedFile) bool {
	for _, u := range st.unsteady {
		if m.Start < u.end && u.start < m.End {
			return true
		}
	}
	return false
}

// steady forgets ranges in which nothing was replaced for a while, and what BPF was told long ago, at a tick's end.
func (e *Engine) steady() {
	now := e.clock.monotonic()
	for _, st := range e.states {
		if st.told[0].sure+toldFor < now {
			st.told[1] = snapshot{from: st.told[0].from, sure: st.told[0].from}
		}
		if !sameList(st.biases.list, st.told[0].mappings) {
			st.biases = biases{}
		}
		n := len(st.unsteady)
		if n == 0 {
			continue
		}
		st.unsteady = slices.DeleteFunc(st.unsteady, func(u unsteady) bool { return u.tick+unsteadyTicks < e.ticks })
		if len(st.unsteady) < n {
			e.markDirty(st)
		}
	}
}
