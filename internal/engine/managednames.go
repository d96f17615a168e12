package engine

import (
	"reflect"
	"slices"
	"time"
	"unsafe"

	"go.uber.org/zap"

	"github.com/hostprofiles/hostprofiles/internal/profile"
	"github.com/hostprofiles/hostprofiles/internal/runtimes"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// nameManaged asks for the names of all frames of runtimes in a stack, and returns a runtime of which some are still to come; nil if none
// are.
func (e *Engine) nameManaged(k *stack) (waits *managed) {
	for _, f := range k.user {
		if !f.Managed() {
			continue
		}
		if m := k.state.runtime(f.Runtime); !e.named(m, f) {
			waits = m
		}
	}
	return waits
}

// named tells whether everything is known of a frame that will be. If not, it is being found out.
func (e *Engine) named(m *managed, f unwind.RawFrame) bool {
	if !e.cfg.Symbolize || m == nil {
		return true
	}
	key := managedKey{f.A, f.B}
	n, ok := m.known.Get(key)
	switch {
	case ok && n.state == managedAsked:
		return m.gone
	case ok && (n.state == managedFound || n.state == managedHidden || m.gone || time.Since(n.looked) < staleFor):
		e.count.SymbolHits++
		return true
	case m.gone || len(m.wanted) >= managedFrames:
		return true
	}
	e.count.SymbolMisses++
	m.known.Add(key, &managedName{})
	m.wanted = append(m.wanted, f)
	e.managed.enqueue(m)
	return false
}

// managedLocation is where a frame of a runtime is, if it is to be shown.
func (e *Engine) managedLocation(k *stack, f unwind.RawFrame) (l profile.Location, shown bool) {
	l = profile.Location{Address: f.A & managedAddress, Type: profile.FrameType(frameType(f.Runtime))}
	m := k.state.runtime(f.Runtime)
	if m == nil {
		return l, true
	}
	n, ok := m.known.Peek(managedKey{f.A, f.B})
	switch {
	case ok && n.state == managedHidden:
		return l, false
	case ok && n.state == managedFound:
		l.Symbol, l.Address = &n.symbol, 0
	}
	return l, true
}

// hides tells whether an address is in code whose frames a runtime wants hidden.
func (st *processState) hides(a unwind.Addr) bool {
	return slices.ContainsFunc(st.runtimes, func(m *managed) bool { return among(m.plan.Hidden, a) })
}

// missed is a runtime that has native frames in its code, which stand for frames of its own; native if there is none.
func (st *processState) missed(frames []unwind.RawFrame) unwind.Runtime {
	for _, m := range st.runtimes {
		if slices.ContainsFunc(frames, func(f unwind.RawFrame) bool { return !f.Managed() && among(m.plan.Ranges, f.LookupAddr()) }) {
			return m.entry.ID
		}
	}
	return unwind.RuntimeNative
}

// among tells whether an address is in one of sorted ranges.
func among(sorted []runtimes.Range, a unwind.Addr) bool {
	_, found := slices.BinarySearchFunc(sorted, a, func(r runtimes.Range, a unwind.Addr) int {
		switch {
		case r.Start > a:
			return 1
		case r.End <= a:
			return -1
		}
		return 0
	})
	return found
}

func (e *Engine) managedMissing(m *managed, f unwind.RawFrame, now time.Time) {
	e.count.SymbolErrors++
	if n, ok := m.known.Peek(managedKey{f.A, f.B}); ok && n.state != managedFound {
		n.state, n.looked = managedMissing, now
	}
}

// replanner is an instance whose plan may change by what was found out of frames.
type replanner interface{ Outdated() bool }

// managedFound takes the names of frames.
func (e *Engine) managedFound(m *managed, j *managedJob) {
	now := time.Now()
	if rest := j.frames[len(j.found):]; len(rest) > 0 {
		m.wanted = append(rest, m.wanted...)
	}
	for i, f := range j.frames[:len(j.found)] {
		if !j.found[i].ok {
			e.managedMissing(m, f, now)
			continue
		}
		n := &managedName{symbol: profile.Symbol{Lines: j.found[i].lines}, state: managedFound, looked: now}
		if len(n.symbol.Lines) == 0 {
			n.state = managedHidden
		}
		key := managedKey{f.A, f.B}
		m.known.Remove(key) // with what it has counted for
		m.known.Add(key, n)
		m.lines += textBytes(n.symbol.Lines)
	}
	if j.err != nil {
		e.log.Debug("naming frames of a language runtime", zap.Uint32("pid", j.pid), zap.String("runtime", m.entry.FrameType), zap.Error(j.err))
	}
	if len(m.wanted) > 0 {
		e.managed.enqueue(m)
	}
	if r, ok := m.instance.(replanner); ok && r.Outdated() {
		m.planned = 0
		e.managed.enqueue(m)
	}
	m.kept = m.instance.Bytes()
	if m.dropped {
		m.known.Purge()
		e.said.account(m)
	} else {
		e.keepSaid(m)
	}
}

// forget implements speaker.
func (m *managed) forget(*Engine) {
	waiting := m.wanted
	m.known.Purge()
	for _, f := range waiting {
		m.known.Add(managedKey{f.A, f.B}, &managedName{})
	}
	if !m.running {
		m.instance, m.kept, m.planned = nil, 0, 0
	}
}

// managedPlanned takes a plan, which was made for a version of the process's mappings. BPF is told if it says anything else than the one
// before.
func (e *Engine) managedPlanned(m *managed, plan runtimes.Plan, version uint64) {
	if !reflect.DeepEqual(plan.Proc, m.plan.Proc) || !slices.Equal(plan.Ranges, m.plan.Ranges) || version != m.planned {
		e.markDirty(m.st)
	}
	m.plan, m.planned, m.again = plan, version, time.Time{}
	if plan.Again > 0 && !plan.Fixed {
		m.again = time.Now().Add(plan.Again)
	}
}

// rests tells whether a runtime in the queue has nothing to do now: what waits for its time does so while the process runs.
func (e *Engine) rests(m *managed, now time.Time) bool {
	asleep := m.st.sampledTick+1 < e.ticks
	switch {
	case m.running || now.Before(m.after):
		return true
	case m.instance == nil:
		return m.tries > 0 && asleep
	case len(m.wanted) > 0 || m.planned != m.st.p.Version:
		return false
	}
	return !m.again.IsZero() && (asleep || now.Before(m.again))
}

// outdated tells whether the plan may be another one by now.
func (m *managed) outdated() bool {
	return !m.plan.Fixed && (m.planned != m.st.p.Version || !m.again.IsZero() && !time.Now().Before(m.again))
}

// size implements speaker.
func (m *managed) size() int {
	if m.dropped {
		return 0
	}
	return managedStateBytes + m.known.Len()*entryBytes + cap(m.wanted)*int(unsafe.Sizeof(unwind.RawFrame{})) +
		(cap(m.plan.Ranges)+cap(m.plan.Hidden))*int(unsafe.Sizeof(runtimes.Range{})) + m.lines + m.kept
}
