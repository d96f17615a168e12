package engine

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/hostprofiles/hostprofiles/internal/ebpf"
	"github.com/hostprofiles/hostprofiles/internal/process"
)

func (e *Engine) markDirty(st *processState) { e.dirty[st] = struct{}{} }

// publish tells BPF of the mappings that changed. Only processes that were sampled are in BPF: cost follows what runs.
func (e *Engine) publish() {
	for _, p := range e.table.TakeChanged() {
		if st, ok := p.Attachment.(*processState); ok {
			e.markDirty(st)
		}
	}
	e.polls++
	e.publishDirty()
	e.freeTables()
}

func (e *Engine) publishDirty() {
	for st := range e.dirty {
		delete(e.dirty, st)
		e.publishProcess(st)
	}
	e.startTextJobs(time.Now())
}

// retryPolls is how many polls pass before a process that BPF had no room for is tried again: longer than what was freed
// for it takes to become usable.
const retryPolls = 20

// publishProcess tells BPF of a process's mappings as they are now; false if what BPF knows of it, if anything, was not
// touched.
func (e *Engine) publishProcess(st *processState) bool {
	p := st.p
	if st.kernel || st.elsewhere || p.Maps() != process.MapsKnown || p.State() != process.Live {
		return false
	}
	if current, ok := e.table.Current(p.PID); !ok || current != p {
		return false
	}
	st.dropUses()
	mappings := e.mapped[:0]
	now := snapshot{mappings: p.Mappings(), version: p.Version}
	st.noteUnsteady(now.mappings, e.ticks)
	e.findOwnText(st, now.mappings)
	for i := range now.mappings {
		mappings = append(mappings, e.mappedTable(st, now.mappings, i))
	}
	e.mapped = mappings
	e.findRuntimes(st, now.mappings)
	if before := e.published[st.id.PID]; before != nil && before != st {
		before.dropUses() // an earlier incarnation, whose entry this one takes
	}
	now.from = e.clock.monotonic()
	err := e.kernel.Processes.Put(st.id, e.owners(st, mappings))
	now.sure = e.clock.monotonic()
	if err == nil {
		e.published[st.id.PID] = st
		st.tell(now)
		return true
	}
	st.tell(snapshot{from: now.from, sure: now.sure})
	delete(e.published, st.id.PID) // Put has removed what there was
	st.dropUses()
	st.retryPoll = e.polls + retryPolls
	// one process that takes more than its share does not drive out the others
	if errors.Is(err, ebpf.ErrNoRoom) && len(mappings) <= e.kernel.Processes.Capacity()/8 {
		e.unpublishOldest(len(mappings))
	}
	e.log.Debug("telling BPF of a process", zap.Uint32("pid", p.PID), zap.Error(err))
	return true
}

// dropUses takes the process out of the users of the executables that BPF was told it maps.
func (st *processState) dropUses() {
	for _, x := range st.uses {
		delete(x.users, st)
	}
	st.uses = st.uses[:0]
}

// mappedTable is what BPF needs to know of mapping number i.
func (e *Engine) mappedTable(st *processState, mappings []process.MappedFile, i int) ebpf.MappedTable {
	m := &mappings[i]
	out := ebpf.MappedTable{Mapping: m.Mapping}
	x := e.executables.Of(m.File)
	if x == nil {
		out.NoTable = true // anonymous memory
		return out
	}
	out.Executable = uint32(x.Serial)
	if x.State() == process.Ready && e.executables.StartOpening(x) {
		e.load(x) // nothing mapped it for a while: is it the same file?
	}
	switch x.State() {
	case process.Failed:
		out.NoTable = true
	case process.Ready:
		if st.isUnsteady(m) {
			break // without a table the walk stops there, and goes on in user space
		}
		if _, known := x.Payload.users[st]; !known {
			x.Payload.users[st] = struct{}{}
			st.uses = append(st.uses, x.Payload)
		}
		if x.Payload.setBias(&out.Mapping, st, mappings, m.File) && x.Payload.table.Valid() {
			out.Table = x.Payload.table
		} else {
			out.NoTable = true
		}
	}
	return out
}

// unpublishOldest makes room in the kernel for a process with so many mappings, and a little more: BPF forgets what was not
// sampled for longest. What was sampled in this tick stays: if all of it runs, forgetting one for another would only cost
// both their tables' use, and who has no room is walked in user space.
func (e *Engine) unpublishOldest(mappings int) {
	need := mappings + e.kernel.Processes.Capacity()/32
	idle := slices.DeleteFunc(slices.Collect(maps.Values(e.published)), func(st *processState) bool {
		return st.sampledTick >= e.ticks
	})
	slices.SortFunc(idle, func(a, b *processState) int { return cmp.Compare(a.sampledTick, b.sampledTick) })
	for _, st := range idle {
		if need <= 0 {
			return
		}
		need -= max(1, len(st.p.Mappings()))
		e.unpublish(st)
		e.count.Evictions++
	}
}

// unpublish makes BPF forget a process, if it is this incarnation that it knows.
func (e *Engine) unpublish(st *processState) {
	st.dropUses()
	if e.published[st.id.PID] != st {
		return
	}
	delete(e.published, st.id.PID)
	st.retryPoll = e.polls + retryPolls
	from := e.clock.monotonic()
	defer func() { st.tell(snapshot{from: from, sure: e.clock.monotonic()}) }()
	if err := e.kernel.Processes.Delete(st.id.PID); err != nil {
		e.log.Debug("making BPF forget a process", zap.Error(err))
	}
}

// forgetRemoved drops what the engine has of processes that left the table.
func (e *Engine) forgetRemoved() {
	now := time.Now()
	for _, p := range e.table.TakeRemoved() {
		st, ok := p.Attachment.(*processState)
		if !ok {
			continue
		}
		e.unpublish(st)
		st.fallBack()
		e.forgetJIT(st, now)
		e.forgetManaged(st)
		delete(e.states, p)
		delete(e.dirty, st)
	}
}

// freeTables frees evicted tables, after BPF was told of their absence in every process that it knows to map them.
func (e *Engine) freeTables() {
	now := time.Now()
	for _, v := range e.executables.TakeEvicted() {
		if v.Payload == nil {
			continue
		}
		e.count.Evictions++
		e.forgetSymbols(v.Payload, now)
		for st := range maps.Clone(v.Payload.users) {
			if e.published[st.id.PID] == st && !e.publishProcess(st) {
				e.unpublish(st)
			}
		}
		e.release(v.Payload)
	}
}
