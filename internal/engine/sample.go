package engine

import (
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/hostprofiles/hostprofiles/internal/ebpf"
	"github.com/hostprofiles/hostprofiles/internal/process"
	"github.com/hostprofiles/hostprofiles/internal/profile"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
	"github.com/hostprofiles/hostprofiles/internal/unwind/reference"
)

// pidElsewhere marks, in the process table, pids of the initial namespace that the collector's own does not show.
const pidElsewhere = 1 << 31

// stack is a sample on its way: what BPF found, and what it takes to go on from there.
type stack struct {
	state  *processState
	time   uint64 // CLOCK_MONOTONIC, ns
	tid    uint32
	comm   string
	kernel []unwind.RawFrame
	user   []unwind.RawFrame
	stop   unwind.StopReason
	line   uint16 // of the C code that stopped the walk; 0 once user space went on

	failed     unwind.Runtime // a runtime whose frames are missing; native if none's are
	failedLine uint16         // of the C code that found that out

	// resumable: user space may be able to walk on, from regs (the frame after the last of user) over the copied memory.
	resumable bool
	full      bool // there was no room for a copy
	regs      unwind.Registers
	pending   unwind.FrameFlags // of regs.PC
	memory    reference.StackCopy
	walked    bool // user space has begun, and stands at:
	at        reference.State

	mappings []process.MappedFile // the process's when the sample was taken; nil if they were not known
	version  uint64               // of these
	asMemory []place              // what BPF guessed its way through as memory: that goes before mappings

	since time.Time // when it began to wait
	late  bool      // it waits no more for files that are only looked at again
	waits any       // for what: a *process.Process, whose mappings are read, a *process.File, or a *managed
}

// waitsFor is complete's answer.
func (k *stack) waitsFor(what any) bool {
	k.waits = what
	return false
}

// takeSample decodes one record and delivers it, or holds it until what it needs is known.
func (e *Engine) takeSample(b []byte) {
	s := &e.in.sample
	if err := s.Decode(b); err != nil {
		e.count.Lost[LostMalformed]++
		e.log.Error("decoding a sample", zap.Error(err))
		return
	}
	pid := s.PID
	if pid == 0 {
		pid = s.ID.PID | pidElsewhere
	}
	arrived := e.table.SampleArrived
	if s.Stop == unwind.StopGone {
		arrived = e.table.ExitingSampleArrived
	}
	p := arrived(pid, s.Time, s.ID.StartTime, s.ID.ExecID)
	st := e.stateOf(p, s)
	k := &e.current
	*k = stack{
		state: st, time: s.Time, tid: s.NSTID, comm: e.comm(s.Comm()),
		kernel: s.Kernel(k.kernel[:0]), user: s.User(k.user[:0]),
		stop: s.Stop, line: s.StopLine, failed: s.FailedRuntime, failedLine: s.FailedLine, resumable: s.HasCopy && pid&pidElsewhere == 0, full: s.CopyFull,
	}
	if s.HasCopy {
		k.regs = s.Registers
		k.memory.At, k.memory.Chunks, k.memory.Bytes = s.Stack()
		if s.PendingReturn {
			k.pending |= unwind.FrameReturn
		}
		if s.PendingGuess {
			k.pending |= unwind.FrameGuessed
		}
	}
	if k.stop == unwind.StopNoMapping && !s.PendingGuess {
		e.table.Suspect(p)
	}
	e.mapsReady(st) // starts a read if one is due; only walks that need it wait
	k.remember()
	e.checkWalk(k)
	if e.complete(k) {
		e.deliver(k)
	} else {
		e.held.add(e, k)
	}
}

// comm makes a string of a thread's name, the same one for the same name.
func (e *Engine) comm(b []byte) string {
	if s, ok := e.comms[string(b)]; ok {
		return s
	}
	if len(e.comms) >= 4096 {
		clear(e.comms)
	}
	s := string(b)
	e.comms[s] = s
	return s
}

// complete walks on as far as possible and tells whether the stack can be delivered. If not, what it needs is on its way.
func (e *Engine) complete(k *stack) bool {
	unnamed := e.nameManaged(k) // at once: a process may be gone by the time that a table is there
	for k.resumable {
		if !e.mapsReady(k.state) {
			if k.state.p.LostEvents() {
				k.mappings = nil // what is read now knows better
			}
			return k.waitsFor(k.state.p)
		}
		needs := e.walkOn(k)
		if needs == nil {
			break
		}
		if e.requestExecutable(needs) {
			return k.waitsFor(needs.File)
		}
		if s := needs.State(); s == process.Unopened || s == process.Opening {
			k.giveUp() // it can't be read, and nobody tries
		}
	}
	if unnamed != nil {
		return k.waitsFor(unnamed)
	}
	for _, f := range k.user {
		if f.Managed() {
			continue
		}
		if m, ok := k.find(f.LookupAddr()); ok {
			if x := e.executables.Of(m.File); x != nil && e.requestExecutable(x) {
				return k.waitsFor(m.File)
			}
		}
	}
	return true
}

// deliver puts a stack into the profile.
func (e *Engine) deliver(k *stack) {
	e.count.Stops[k.stop]++
	locations := e.locations[:0]
	for _, f := range k.kernel {
		locations = append(locations, e.kernelLocation(uint64(f.LookupAddr())))
	}
	for _, f := range k.user {
		if !f.Managed() {
			if !k.state.hides(f.LookupAddr()) {
				locations = append(locations, e.nativeLocation(k, f))
			}
		} else if l, shown := e.managedLocation(k, f); shown {
			locations = append(locations, l)
		}
	}
	e.locations = locations
	for _, f := range k.kernel {
		e.frames[f.Runtime%maxRuntimes]++
	}
	for _, f := range k.user {
		e.frames[f.Runtime%maxRuntimes]++
	}
	s := profile.Sample{
		Resource: k.state.resource, ThreadID: int(k.tid), ThreadName: k.comm,
		Time: e.clock.wall(k.time), Stack: locations,
	}
	if !k.stop.Complete() {
		s.StopReason = k.stop.String()
		e.count.UnwindErrors[UnwindError{frameType(k.stoppedIn()), k.stop.String(), int(k.line)}]++
	}
	if k.failed != unwind.RuntimeNative {
		e.count.UnwindErrors[UnwindError{frameType(k.failed), unwind.StopRuntime.String(), int(k.failedLine)}]++
	}
	if !e.builder.Add(e.origin, &s) {
		e.count.Lost[LostMemory]++
	}
}

// stoppedIn is the runtime whose frame is the last of a stack.
func (k *stack) stoppedIn() unwind.Runtime {
	if len(k.user) == 0 {
		return unwind.RuntimeNative
	}
	return k.user[len(k.user)-1].Runtime
}

// nativeLocation is where a native frame lies in its file.
func (e *Engine) nativeLocation(k *stack, f unwind.RawFrame) profile.Location {
	st := k.state
	addr := f.LookupAddr()
	l := profile.Location{
		Type: profile.FrameNative, Address: uint64(addr), Guessed: f.Flags&unwind.FrameGuessed != 0,
	}
	m, list, ok := k.findIn(addr)
	if !ok {
		return l
	}
	if m.File == nil {
		return e.jitLocation(st, m, addr, l)
	}
	x := e.executables.Of(m.File)
	if x.State() == process.Ready {
		mapping := m.Mapping
		if x.Payload.setBias(&mapping, st, list, m.File) {
			e.executables.Use(x)
			file := mapping.FileAddr(addr)
			l.Mapping, l.Address = x.Payload.mapping(file), uint64(file)
			e.symbols.want(e, x, file)
			return l
		}
	}
	if errors.Is(x.Err(), elffile.ErrNotELF) {
		return e.jitLocation(st, m, addr, l) // memory that a program has written code to, through a file
	}
	l.Mapping = e.unreadable(m.File)
	l.Address = uint64(addr-m.Start) + uint64(m.Offset)
	return l
}

// processState is what the engine keeps for an incarnation of a process while it is sampled.
type processState struct {
	p        *process.Process
	id       ebpf.ProcessID
	resource *profile.Resource

	uses        []*executable // whose tables BPF was told of
	told        [2]snapshot   // what BPF was told, now and before
	unsteady    []unsteady    // where files take each other's place
	biases      biases        // of files whose segments share pages
	ownTexts    []*ownText    // memory that may be a file's code, and was looked at
	retryPoll   uint64        // no try to tell BPF of it before
	cgroup      uint64        // its id, when it was sampled first
	jit         *jitCode      // code of no ELF file; nil if none was sampled
	runtimes    []*managed    // that its executables hold
	elsewhere   bool          // not visible in the collector's pid namespace
	kernel      bool          // a kernel thread
	sampledTick uint64        // of the last sample

	identifyTries int    // how often it was tried to identify the process
	identifyAgain bool   // the last try failed, and the process was there
	identifying   int    // jobs that find out who the process is
	identified    uint64 // when that was read which it is named by, CLOCK_MONOTONIC, ns; 0 if nothing was
}

func (e *Engine) stateOf(p *process.Process, s *ebpf.Sample) *processState {
	st, ok := p.Attachment.(*processState)
	if !ok {
		st = &processState{p: p, elsewhere: p.PID&pidElsewhere != 0, kernel: s.KernelThread}
		p.Attachment = st
		e.states[p] = st
		st.id, st.cgroup = s.ID, s.Cgroup
		st.resource = &profile.Resource{
			PID: int(p.PID &^ pidElsewhere), CreationTime: e.clock.started(s.ID.StartTime),
		}
		if st.kernel {
			st.resource.ExecutableName = string(s.Comm())
		}
		e.identify(st)
		e.markDirty(st)
	}
	st.id = s.ID
	st.sampledTick = e.ticks
	if e.published[s.ID.PID] != st && e.polls >= st.retryPoll && !st.kernel && !st.elsewhere {
		e.markDirty(st)
	}
	return st
}
