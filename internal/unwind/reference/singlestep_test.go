//go:build amd64

package reference

import (
	"debug/elf"
	"flag"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// call is an entry of a shadow stack: a return address and where it was pushed.
type call struct {
	slot, ra uint64
	// For a signal handler's frame: what it interrupted.
	signal  bool
	pc, sp  uint64
	pushing bool
}

// task is one thread of a traced program with the truth about its stack: the calls that it has executed.
type task struct {
	tid     int
	proc    *process
	shadow  []call
	regs    unix.PtraceRegs
	last    unix.PtraceRegs // before the current step
	started bool
	sig     int      // signal to deliver with the next step
	pending bool     // a signal is being delivered
	next    [16]byte // the instruction about to be stepped
	birth   uint64   // the stack pointer of what made the task
	newborn int      // in a new thread: steps until it has left what it shares with its parent's return from clone
	held    *call    // popped from the stack into a register
	taken   *call    // popped into memory
	before  []call   // what was ever popped so
}

// expected is what a walk must find, leaf first.
func (k *task) expected() []unwind.RawFrame {
	out := []unwind.RawFrame{{A: k.regs.Rip}}
	if k.held != nil {
		out = append(out, unwind.RawFrame{A: k.held.ra, Flags: unwind.FrameReturn})
	}
	for _, c := range slices.Backward(k.shadow) {
		out = append(out, unwind.RawFrame{A: c.ra, Flags: unwind.FrameReturn})
		if c.signal {
			out = append(out, unwind.RawFrame{A: c.pc})
		}
	}
	return out
}

// isCall tells whether the instruction is a call: e8, or ff /2 behind prefixes.
func isCall(b []byte) bool {
	for len(b) > 2 {
		switch c := b[0]; {
		case c == 0xe8:
			return true
		case c == 0xff:
			return b[1]>>3&7 == 2
		case c&0xf0 == 0x40, c == 0xf2, c == 0xf3, c == 0x3e, c == 0x66, c == 0x67, c == 0x2e:
			b = b[1:]
		default:
			return false
		}
	}
	return false
}

// update follows what the last step did to the stack.
func (k *task) update() {
	sp := k.regs.Rsp
	if k.pending {
		k.pending = false
		if ra := k.proc.word(sp); k.regs.Rip != k.last.Rip {
			k.shadow = append(k.shadow, call{slot: sp, ra: ra, signal: true, pc: k.last.Rip, sp: k.last.Rsp})
			return
		}
	}
	if i := k.signalFrame(); i >= 0 && k.regs.Rip == k.shadow[i].pc && sp == k.shadow[i].sp {
		k.shadow = k.shadow[:i] // sigreturn
	}
	if i := k.signalFrame(); i >= 0 && sp > k.shadow[i].sp {
		k.shadow = k.shadow[:i] // longjmp out of the handler
	}
	base := k.signalFrame() + 1
	if n := len(k.shadow); n > base && k.shadow[n-1].slot == sp-8 && (k.next[0] == 0x5f || k.next[0] == 0x5a) {
		// vfork begins with pop %rdi or, in musl, %rdx: it keeps its return address there.
		k.held = &call{slot: sp - 8, ra: k.shadow[n-1].ra}
	}
	if n := len(k.shadow); n > base && k.shadow[n-1].slot == sp-8 && k.next[0] == 0x8f {
		k.taken = &call{slot: sp - 8, ra: k.shadow[n-1].ra} // sigsetjmp pops its return address into the jmp_buf
		k.before = append(k.before, *k.taken)
	} else if c := (call{slot: sp, ra: k.proc.word(sp)}); k.next[0] == 0xff && slices.Contains(k.before, c) {
		k.shadow, k.taken = append(k.shadow, c), nil // back again, perhaps by longjmp
	}
	if k.held != nil && sp != k.held.slot+8 {
		if sp == k.held.slot && k.proc.word(sp) == k.held.ra {
			k.shadow = append(k.shadow, *k.held)
		}
		k.held = nil
	}
	for len(k.shadow) > base && k.shadow[len(k.shadow)-1].slot < sp {
		k.shadow = k.shadow[:len(k.shadow)-1]
	}
	// The handler has returned to the trampoline: its frame is gone, the interrupted one is not yet back.
	if n := len(k.shadow); n > 0 && n == base && !k.shadow[n-1].pushing && k.shadow[n-1].slot < sp && k.regs.Rip == k.shadow[n-1].ra {
		k.shadow[n-1].pushing = true
	}
	if sp == k.last.Rsp-8 && isCall(k.next[:]) {
		if ra := k.proc.word(sp); ra > k.last.Rip && ra <= k.last.Rip+9 {
			k.shadow = append(k.shadow, call{slot: sp, ra: ra})
		}
	}
}

// signalFrame is the index of the innermost signal frame, -1 without one.
func (k *task) signalFrame() int {
	for i, c := range slices.Backward(k.shadow) {
		if c.signal {
			return i
		}
	}
	return -1
}

// stepper single-steps a program and walks the stack at every instruction.
type stepper struct {
	t     *testing.T
	tasks map[int]*task
	im    images

	steps, walked, skipped, guessed, trampoline int
	missed, show                                int // wrong guesses, and how many of them to show
	errors, places                              map[string]int
	tolerated                                   int
	symbols                                     map[string][]elf.Symbol
	fromStart                                   bool // step through the dynamic linker too
}

func (s *stepper) registers(k *task) *unwind.Registers {
	r := &k.regs
	return &unwind.Registers{PC: unwind.Addr(r.Rip), Known: 0xffff, Reg: [32]uint64{r.Rax, r.Rdx, r.Rcx, r.Rbx, r.Rsi, r.Rdi,
		r.Rbp, r.Rsp, r.R8, r.R9, r.R10, r.R11, r.R12, r.R13, r.R14, r.R15}}
}

func (s *stepper) check(k *task) {
	if k.proc.find(unwind.Addr(k.regs.Rip)) == nil {
		k.proc.readMaps()
	}
	want := k.expected()
	if n := len(k.shadow); n > 0 && k.shadow[n-1].pushing {
		// In the trampoline.
		want = slices.Delete(want, 1, 2)
		s.trampoline++
	}
	k.proc.cacheStack(k.regs.Rsp)
	k.newborn--
	var w Walker
	got, stop := w.Walk(s.registers(k), unwind.ArchAMD64, k.proc, k.proc, nil, 1000)
	s.walked++
	if stop == unwind.StopRoot && (slices.Equal(got, want) || s.short(k, got, want)) {
		return
	}
	if s.uncovered(k, want) {
		if s.skipped++; slices.EqualFunc(got, want, func(a, b unwind.RawFrame) bool { return a.A == b.A }) {
			s.guessed++
		} else if s.missed++; s.missed <= s.show {
			s.t.Log(s.differ("guessed wrong", k, got, want, stop))
		}
		return
	}
	if k.newborn > 0 || k.taken != nil || s.rewriting(k, want) {
		s.tolerated++
		return
	}
	kind := fmt.Sprintf("%v at %s", stop, k.proc.where(k.regs.Rip))
	if s.errors[kind]++; s.errors[kind] > 1 || len(s.errors) > 10 {
		return
	}
	s.t.Error(s.differ(kind, k, got, want, stop))
}

// differ writes what was found beside the truth.
func (s *stepper) differ(kind string, k *task, got, want []unwind.RawFrame, stop unwind.StopReason) string {
	var b strings.Builder
	for i := range max(len(got), len(want)) {
		var g, e string
		if i < len(got) {
			g = fmt.Sprint(k.proc.where(got[i].A), " ", got[i].Flags)
		}
		if i < len(want) {
			e = fmt.Sprint(k.proc.where(want[i].A), " ", want[i].Flags)
		}
		fmt.Fprintf(&b, "   %-70s   %s\n", g, e)
	}
	code := make([]byte, 8)
	_ = k.proc.Read(unwind.Addr(k.regs.Rip), code)
	return fmt.Sprintf("%s: step %d tid %d: stopped: %v; code % x; got and want:\n%s", kind, s.steps, k.tid, stop, code, b.String())
}

// rewriting tells whether an exception may be about to land: libgcc overwrites the registers that its own frames saved
// with those of the frame that catches, before it returns there.
func (s *stepper) rewriting(k *task, frames []unwind.RawFrame) bool {
	return slices.ContainsFunc(frames, func(f unwind.RawFrame) bool {
		name := s.symbol(k, uint64(f.LookupAddr()))
		return strings.HasPrefix(name, "_Unwind_Resume") || name == "_Unwind_RaiseException" || name == "_Unwind_ForcedUnwind"
	})
}

// short tells whether got is want but for the frames of start code beyond one that is known to be a root.
func (s *stepper) short(k *task, got, want []unwind.RawFrame) bool {
	n := len(got)
	if n >= len(want) || len(want) > n+3 || !slices.Equal(got, want[:n]) {
		return false
	}
	for _, f := range want[n-1:] {
		c, _, ok := k.proc.Find(f.LookupAddr())
		if !ok || c.Table.Lookup(c.Mapping.FileAddr(f.LookupAddr())).CFA != unwind.CFARoot {
			return false
		}
	}
	return true
}

// symbol names the function at an address of a program or library that has symbols.
func (s *stepper) symbol(k *task, at uint64) string {
	m := k.proc.find(unwind.Addr(at))
	if m == nil || m.img == nil || !strings.HasPrefix(m.img.path, "/") {
		return ""
	}
	if s.symbols == nil {
		s.symbols = map[string][]elf.Symbol{}
	}
	list, ok := s.symbols[m.img.path]
	if !ok {
		f, err := elf.Open(m.img.path)
		if err != nil {
			s.t.Fatal(err)
		}
		defer f.Close()
		list, _ = f.Symbols()
		dynamic, _ := f.DynamicSymbols()
		list = append(list, dynamic...)
		s.symbols[m.img.path] = list
	}
	a := uint64(m.m.FileAddr(unwind.Addr(at)))
	for _, y := range list {
		if elf.ST_TYPE(y.Info) == elf.STT_FUNC && a >= y.Value && a < y.Value+y.Size {
			return y.Name
		}
	}
	return ""
}

// uncovered tells whether any of the frames lies in code without rules.
func (s *stepper) uncovered(k *task, frames []unwind.RawFrame) bool {
	for _, f := range frames {
		c, _, ok := k.proc.Find(f.LookupAddr())
		if !ok || c.Table.Lookup(c.Mapping.FileAddr(f.LookupAddr())).CFA == unwind.CFANone {
			s.places[strings.Fields(k.proc.where(f.A))[1]]++
			return true
		}
	}
	return false
}

// run steps through a program until it ends or the time is over.
func (s *stepper) run(path, symbols string, limit time.Duration) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s.errors, s.places = map[string]int{}, map[string]int{}
	s.im = images{}
	s.tasks = map[int]*task{}
	pid := start(s.t, path)
	defer unix.Kill(pid, unix.SIGKILL)
	s.tasks[pid] = &task{tid: pid, proc: newProcess(s.t, pid, s.im), started: true}
	if !s.fromStart {
		s.toMain(s.tasks[pid], path, symbols)
	}
	s.stopped(s.tasks[pid])
	status := -1
	for end := time.Now().Add(limit); len(s.tasks) > 0 && len(s.errors) < 5; s.steps++ {
		if s.steps%256 == 0 && time.Now().After(end) {
			break
		}
		var ws unix.WaitStatus
		tid, err := unix.Wait4(-1, &ws, unix.WALL, nil)
		if err != nil {
			s.t.Fatalf("wait: %v", err)
		}
		k := s.tasks[tid]
		if ws.Exited() || ws.Signaled() {
			if tid == pid {
				status = int(ws)
			}
			delete(s.tasks, tid)
			continue
		}
		if k == nil { // its parent's event comes later
			k = &task{tid: tid}
			s.tasks[tid] = k
		}
		s.event(k, ws)
	}
	for tid := range s.tasks {
		_ = unix.Kill(tid, unix.SIGKILL)
	}
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
		var ws unix.WaitStatus
		if _, err := unix.Wait4(-1, &ws, unix.WALL|unix.WNOHANG, nil); err != nil {
			break
		}
	}
	if status > 0 {
		s.t.Errorf("the program ended with status %#x", status)
	}
	s.t.Logf("%d steps, %d walks, %d in code without rules (%d right), %d in trampolines, %d forgiven, finished: %v", s.steps, s.walked, s.skipped,
		s.guessed, s.trampoline, s.tolerated, status == 0)
	if s.tolerated*100 > s.walked {
		s.t.Errorf("%d walks were forgiven", s.tolerated)
	}
}

var stepTime = flag.Duration("steptime", 3*time.Second, "how long each program may be single-stepped; 15s is enough for all to end")

// TestEveryInstruction single-steps programs and compares the walk at each instruction with the calls that were made.
func TestEveryInstruction(t *testing.T) {
	noCFI := []string{"-fno-asynchronous-unwind-tables", "-fno-unwind-tables"}
	for _, c := range []struct {
		name, compiler, source string
		args                   []string
		fromStart, strip       bool
		// uncovered is how many steps may have a frame in code without rules: longjmp for the most part, and without call
		// frame information functions that realign the stack.
		uncovered int
	}{
		{"sample", "gcc", "sample.c", []string{"-O2", "-fomit-frame-pointer", "-Wl,-z,lazy"}, true, false, 40},
		{"sampleO0", "gcc", "sample.c", []string{"-O0", "-Wl,-z,now"}, false, false, 40},
		{"sampleOs", "gcc", "sample.c", []string{"-Os", "-fno-pie", "-no-pie", "-Wl,-z,lazy"}, false, false, 40},
		{"sampleIBT", "gcc", "sample.c", []string{"-O3", "-fcf-protection=full", "-Wl,-z,ibtplt", "-Wl,-z,lazy"}, false, false, 40},
		{"sampleClang", "clang", "sample.c", []string{"-O2"}, false, false, 40},
		{"sampleLLD", "gcc", "sample.c", []string{"-O2", "-B/usr/lib/llvm-19/bin", "-fuse-ld=lld", "-Wl,-z,lazy"}, false, false, 40},
		{"sampleLLDIBT", "gcc", "sample.c", []string{"-O2", "-B/usr/lib/llvm-19/bin", "-fuse-ld=lld", "-Wl,-z,lazy", "-fcf-protection=full", "-Wl,-z,force-ibt"}, false, false, 40},
		{"sampleMold", "gcc", "sample.c", []string{"-O2", "-fuse-ld=mold", "-Wl,-z,lazy"}, false, false, 40},
		{"sampleMusl", "musl-gcc", "sample.c", []string{"-O2", "-static"}, false, false, 40},
		{"sampleMuslStripped", "musl-gcc", "sample.c", []string{"-O2", "-static"}, false, true, 40},
		{"sampleMuslDynamic", "musl-gcc", "sample.c", []string{"-O2"}, false, false, 40},
		{"sampleNoCFI", "gcc", "sample.c", append([]string{"-O2"}, noCFI...), false, false, 1000},
		{"sampleNoCFIO0", "gcc", "sample.c", append([]string{"-O0"}, noCFI...), false, true, 300},
		{"sampleNoCFIOs", "gcc", "sample.c", append([]string{"-Os", "-static"}, noCFI...), false, true, 300},
		{"sampleNoCFIClang", "clang", "sample.c", append([]string{"-O3"}, noCFI...), false, true, 300},
		{"signals", "gcc", "signals.c", []string{"-O2"}, false, false, 40},
		{"signalsMusl", "musl-gcc", "signals.c", []string{"-O2", "-static"}, false, false, 40},
		{"signalsMuslStripped", "musl-gcc", "signals.c", []string{"-O2", "-static"}, false, true, 60},
		{"childrenMusl", "musl-gcc", "children.c", []string{"-O2", "-static"}, false, true, 40},
		{"threads", "gcc", "threads.c", []string{"-O2"}, false, false, 40},
		{"threadsMusl", "musl-gcc", "threads.c", []string{"-O2", "-static"}, false, false, 40},
		{"children", "gcc", "children.c", []string{"-O2"}, false, false, 40},
		{"exceptions", "g++", "exceptions.cc", []string{"-O2"}, false, false, 40},
		{"exceptionsStatic", "g++", "exceptions.cc", []string{"-O1", "-static-pie"}, false, false, 40},
		{"dlopen", "gcc", "dlopen.c", []string{"-O2"}, false, false, 40},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := stepper{t: t, fromStart: c.fromStart}
			path := build(t, c.compiler, c.source, c.args...)
			run := path
			if c.strip {
				run += ".stripped"
				if b, err := exec.Command("strip", "-o", run, path).CombinedOutput(); err != nil {
					t.Fatalf("strip: %v\n%s", err, b)
				}
			}
			s.run(run, path, *stepTime)
			if s.skipped > c.uncovered {
				t.Errorf("%d of %d walks met code without rules: %v", s.skipped, s.walked, s.places)
			}
			if s.walked-s.skipped < 100 {
				t.Errorf("only %d of %d walks were compared", s.walked-s.skipped, s.walked)
			}
		})
	}
}
