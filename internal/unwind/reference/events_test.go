//go:build amd64

package reference

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// toMain lets the program run up to main, which symbols has, and takes the calls up to there from a walk.
func (s *stepper) toMain(k *task, path, symbols string) {
	main := unwind.FileAddr(symbolValue(s.t, symbols, "main"))
	var at uint64
	for _, c := range k.proc.code {
		if c.img != nil && c.img.path == path {
			at = uint64(c.m.Addr(main))
		}
	}
	old := make([]byte, 1)
	var ws unix.WaitStatus
	check := func(what string, err error) {
		if err != nil {
			s.t.Fatalf("%s: %v", what, err)
		}
	}
	_, err := unix.PtracePeekText(k.tid, uintptr(at), old)
	check("reading main", err)
	_, err = unix.PtracePokeText(k.tid, uintptr(at), []byte{0xcc})
	check("setting a breakpoint", err)
	check("continuing", unix.PtraceCont(k.tid, 0))
	_, err = unix.Wait4(k.tid, &ws, unix.WALL, nil)
	check("waiting for main", err)
	_, err = unix.PtracePokeText(k.tid, uintptr(at), old)
	check("taking back the breakpoint", err)
	check("reading registers", unix.PtraceGetRegs(k.tid, &k.regs))
	if k.regs.Rip != at+1 {
		s.t.Fatalf("stopped at %#x, not in main: %#x", k.regs.Rip, ws)
	}
	k.regs.Rip = at
	check("setting registers", unix.PtraceSetRegs(k.tid, &k.regs))
	k.last = k.regs
	k.proc.readMaps()

	var w Walker
	frames, stop := w.Walk(s.registers(k), unwind.ArchAMD64, k.proc, k.proc, nil, 100)
	if stop != unwind.StopRoot {
		s.t.Logf("the walk from main stops: %v", stop)
	}
	slot := k.regs.Rsp
	for _, f := range frames[1:] {
		for ; k.proc.word(slot) != f.A; slot += 8 {
			if slot > k.regs.Rsp+1<<16 {
				s.t.Fatalf("return address %#x is not on the stack", f.A)
			}
		}
		k.shadow = append([]call{{slot: slot, ra: f.A}}, k.shadow...)
		slot += 8
	}
}

// event handles a stop of a task and lets it go on.
func (s *stepper) event(k *task, ws unix.WaitStatus) {
	switch ws.TrapCause() {
	case unix.PTRACE_EVENT_CLONE, unix.PTRACE_EVENT_FORK, unix.PTRACE_EVENT_VFORK:
		msg, err := unix.PtraceGetEventMsg(k.tid)
		if err != nil {
			s.t.Fatal(err)
		}
		s.born(k, int(msg), ws.TrapCause())
		s.resume(k)
		return
	case unix.PTRACE_EVENT_EXEC:
		_ = unix.PtraceDetach(k.tid)
		delete(s.tasks, k.tid)
		return
	}
	if k.proc == nil { // wait for the parent's event
		return
	}
	if !k.started { // a new task's first stop
		k.started = true
		s.stopped(k)
		return
	}
	if sig := ws.StopSignal(); sig != unix.SIGTRAP {
		k.sig, k.pending = int(sig), sig != unix.SIGSTOP && sig != unix.SIGCHLD
		_ = unix.PtraceGetRegs(k.tid, &k.regs)
		s.resume(k)
		return
	}
	s.stopped(k)
}

// born sets up a new thread or process. A thread's stack is empty, a process has a copy of its parent's.
func (s *stepper) born(parent *task, tid, cause int) {
	k := s.tasks[tid]
	early := k != nil // it has stopped already and waits
	if !early {
		k = &task{tid: tid}
		s.tasks[tid] = k
	}
	k.proc, k.birth = parent.proc, parent.regs.Rsp
	if cause != unix.PTRACE_EVENT_CLONE {
		k.proc = newProcess(s.t, tid, s.im)
		k.shadow, k.held = slices.Clone(parent.shadow), parent.held
	}
	if early {
		k.started = true
		s.stopped(k)
	}
}

// stopped looks at a task after a step and makes the next one.
func (s *stepper) stopped(k *task) {
	if err := unix.PtraceGetRegs(k.tid, &k.regs); err != nil {
		return // killed
	}
	if cap(k.proc.stack) > 0 {
		k.proc.stack = k.proc.stack[:0]
	}
	if k.last.Rip == 0 { // the first stop
		k.last = k.regs
		if k.regs.Rsp != k.birth { // on a new stack there are no calls
			k.shadow, k.newborn = nil, 8
		}
	}
	k.update()
	s.check(k)
	s.resume(k)
}

func (s *stepper) resume(k *task) {
	k.last = k.regs
	_, _ = k.proc.mem.ReadAt(k.next[:], int64(k.regs.Rip))
	sig := k.sig
	k.sig = 0
	if _, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SINGLESTEP, uintptr(k.tid), 0, uintptr(sig), 0, 0); errno != 0 && errno != unix.ESRCH {
		s.t.Fatalf("single-stepping: %v", errno)
	}
}
