package engine

import (
	"errors"

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
	for st := range e.dirty {
		delete(e.dirty, st)
		e.publishProcess(st)
	}
	e.freeTables()
}

func (e *Engine) publishProcess(st *processState) {
	p := st.p
	if st.kernel || st.elsewhere || p.Maps() != process.MapsKnown || p.State() != process.Live {
		return
	}
	if current, ok := e.table.Current(p.PID); !ok || current != p {
		return
	}
	mappings := e.mapped[:0]
	for _, m := range p.Mappings() {
		mappings = append(mappings, e.mappedTable(st, &m))
	}
	e.mapped = mappings
	err := e.kernel.Processes.Put(st.id, mappings)
	if errors.Is(err, ebpf.ErrNoRoom) && e.unpublishOldest(st) {
		err = e.kernel.Processes.Put(st.id, mappings)
	}
	st.published = err == nil
	if err != nil {
		e.log.Debug("telling BPF of a process", zap.Uint32("pid", p.PID), zap.Error(err))
	}
}

// mappedTable is what BPF needs to know of a mapping.
func (e *Engine) mappedTable(st *processState, m *process.MappedFile) ebpf.MappedTable {
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
		x.Payload.users[st] = struct{}{}
		if out.SetBias(x.Payload.segments, uint64(pageSize)) && x.Payload.table.Valid() {
			out.Table = x.Payload.table
		} else {
			out.NoTable = true
		}
	}
	return out
}

// unpublishOldest makes room in the kernel: the half of the processes that was not sampled for longest becomes unknown to BPF.
func (e *Engine) unpublishOldest(keep *processState) bool {
	var ticks []uint64
	for _, st := range e.states {
		if st.published && st != keep {
			ticks = append(ticks, st.sampledTick)
		}
	}
	if len(ticks) == 0 {
		return false
	}
	limit := median(ticks)
	some := false
	for _, st := range e.states {
		if st.published && st != keep && st.sampledTick <= limit {
			e.unpublish(st)
			e.count.Evictions++
			some = true
		}
	}
	return some
}

func (e *Engine) unpublish(st *processState) {
	if !st.published {
		return
	}
	st.published = false
	if err := e.kernel.Processes.Delete(st.id.PID); err != nil {
		e.log.Debug("making BPF forget a process", zap.Error(err))
	}
}

// forgetRemoved drops what the engine has of processes that left the table.
func (e *Engine) forgetRemoved() {
	for _, p := range e.table.TakeRemoved() {
		st, ok := p.Attachment.(*processState)
		if !ok {
			continue
		}
		if current, ok := e.table.Current(p.PID); !ok || !current.Sampled() {
			e.unpublish(st)
		}
		delete(e.states, p)
		delete(e.dirty, st)
	}
}

// freeTables frees evicted tables: first the processes that refer to them are told of their absence.
func (e *Engine) freeTables() {
	for _, v := range e.executables.TakeEvicted() {
		if v.Payload == nil {
			continue
		}
		e.count.Evictions++
		e.symbols.forget(v.Payload)
		for st := range v.Payload.users {
			if st.published {
				e.publishProcess(st)
			}
		}
		e.release(v.Payload)
	}
}
