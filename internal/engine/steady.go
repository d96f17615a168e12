package engine

import (
	"slices"

	"github.com/hostprofiles/hostprofiles/internal/process"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// snapshot is what BPF knows of a process's mappings, from a time on (CLOCK_MONOTONIC, ns).
type snapshot struct {
	mappings []process.MappedFile
	version  uint64
	from     uint64
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
// a place that held something else by then, it went by the rules of another file. It ends there, and says so.
func (e *Engine) checkWalk(k *stack) {
	if len(k.user) == 0 || k.mappings == nil {
		return
	}
	told := &k.state.told[0]
	if k.time < told.from {
		told = &k.state.told[1]
	}
	if told.version == k.version {
		return
	}
	for i, f := range k.user {
		was, ok := process.FindMapping(told.mappings, f.LookupAddr())
		if !ok || was.File == nil {
			continue // memory has no rules that could be wrong; what was guessed says so
		}
		is, ok := k.find(f.LookupAddr())
		if !ok || is.SamePlace(was) {
			continue
		}
		k.state.addUnsteady(is, e.ticks)
		e.markDirty(k.state)
		k.user, k.stop, k.line, k.resumable = k.user[:i+1], unwind.StopStale, 0, false
		return
	}
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

// steady forgets ranges in which nothing was replaced for a while, at a tick's end.
func (e *Engine) steady() {
	for _, st := range e.states {
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
