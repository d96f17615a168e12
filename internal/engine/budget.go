package engine

import (
	"maps"
	"time"

	"go.uber.org/zap"

	"github.com/hostprofiles/hostprofiles/internal/process"
	"github.com/hostprofiles/hostprofiles/internal/process/procfs"
	"github.com/hostprofiles/hostprofiles/internal/profile"
	"github.com/hostprofiles/hostprofiles/internal/runtimes"
)

// ringWindow is how long the highest fill of the ring is remembered at least: longer than most collections of metrics are
// apart.
const ringWindow = time.Minute

// stateBytes is about what the engine keeps of a process that was sampled.
const stateBytes = 640

// pdataFactor is about how much larger a payload is in memory than marshalled.
const pdataFactor = 3

// heapBytes estimates what the engine's caches hold.
func (e *Engine) heapBytes() uint64 {
	n := e.table.Bytes() + e.executables.Bytes() + uint64(e.builder.Bytes()) + uint64(e.held.bytes) +
		uint64(cap(e.in.arena)+cap(e.in.spare)) + uint64(len(e.states))*stateBytes
	n += uint64(e.symbols.goneBytes) + uint64(e.said.bytes+e.said.replaced) + e.toldBytes()
	for _, r := range e.reports {
		n += uint64(r.builder.Bytes() + r.names)
	}
	if e.spare != nil {
		n += uint64(e.spare.Bytes())
	}
	if e.out != nil {
		n += pdataFactor * uint64(e.out.bytes)
	}
	if e.kallsyms != nil {
		n += uint64(e.kallsyms.Bytes())
	}
	n += e.kernelBytes()
	return n
}

// keepBudget drops what was used least until caches and kernel maps fit the budget: half of it is for the Go heap.
func (e *Engine) keepBudget() {
	budget := e.cfg.MemoryBytes / 2
	over := func() bool { return e.heapBytes() > budget }
	if have := e.heapBytes(); have > budget { // which takes long to count
		for least := e.symbols.goneBytes - int(have-budget); len(e.symbols.gone) > 0 && e.symbols.goneBytes > least; {
			e.symbols.dropGone()
			e.count.Evictions++
		}
	}
	if over() {
		e.executables.Evict(e.executables.Bytes() - min(e.executables.Bytes(), e.heapBytes()-budget))
	}
	if over() {
		e.table.Shrink(e.table.Bytes() / 2) // it counts its evictions itself
		e.forgetRemoved()
	}
	if over() {
		e.dropKernelLines()
	}
	if over() { // what waits for symbols goes out without them
		for _, r := range e.reports {
			e.flush(r)
		}
		e.reports = nil
	}
	e.freeTables()
}

// overspent tells whether there is no memory for another payload.
func (e *Engine) overspent(p profile.Payload) bool {
	return e.heapBytes()+pdataFactor*uint64(p.Bytes) > e.cfg.MemoryBytes/2
}

// explainNamespaces decides how pids are translated.
func (e *Engine) explainNamespaces(ns procfs.Namespaces) error {
	if ns.SelfInitial {
		return nil
	}
	inode, err := e.proc.PIDNamespaceInode()
	if err != nil {
		return err
	}
	e.pidNamespace = inode
	e.log.Warn("The collector runs in a pid namespace of its own: samples of processes outside of it have neither names nor user" +
		" stacks. Run it in the host's (hostPID: true) to see all.")
	if !ns.ProcOwn {
		e.log.Warn("/proc is that of another pid namespace: nothing can be read of processes. Mount the collector's own.")
	}
	return nil
}

// reportStatus tells of an error once, and when it is over.
func (e *Engine) reportStatus(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text == e.lastStatus {
		return
	}
	e.lastStatus = text
	if err != nil {
		e.log.Warn("sampling is impaired", zap.Error(err))
	}
	e.status(err)
}

func newStats() Stats {
	return Stats{UnwindErrors: map[UnwindError]uint64{}}
}

// publishStats makes a snapshot for other goroutines.
func (e *Engine) publishStats() {
	s := e.count
	s.Frames, s.UnwindErrors = map[string]uint64{}, maps.Clone(s.UnwindErrors)
	for _, r := range runtimes.All() {
		s.Frames[r.FrameType] = e.frames[r.ID]
	}
	s.Taken, s.Lost[LostRingFull] = e.kernel.Counts()
	s.MapBytes = uint64(e.kernel.MapBytes() + e.sideband.Bytes())
	s.RingBytes = uint64(e.kernel.RingBytes())
	s.HeapBytes = e.heapBytes()
	s.Processes, s.Executables = uint64(e.table.Len()), uint64(e.executables.Len())
	e.jobs.count(&s)
	s.FilesUnclosed = e.closer.look()
	e.fetches.count(&s)
	s.Evictions += e.table.Stats().Evicted
	s.RingUsedBytes = max(s.RingUsedBytes, e.ringBefore)
	if now := time.Now(); now.Sub(e.ringSince) > ringWindow {
		e.ringBefore, e.ringSince, e.count.RingUsedBytes = e.count.RingUsedBytes, now, 0
	}
	e.stats.Store(&s)
}

func zapFile(x *process.Executable[*executable]) zap.Field { return zap.String("file", x.File.Path) }

func zapError(err error) zap.Field { return zap.Error(err) }
