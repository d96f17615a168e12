//go:build amd64

package hostbpf_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/hostbpf/tape"
)

// tracee is a program under ptrace; everything happens on the thread that started it.
type tracee struct {
	t       testing.TB
	pid     int
	tid     int // the thread that stopped last
	stopped []int
	mem     *os.File
	images  images
	symbols map[string]string // of stripped files
	plain   bool              // tables are made of .eh_frame alone
	code    tape.Code
	loaded  mapped
	regs    unix.PtraceRegs
	ended   bool
}

func start(t testing.TB, im images, path string, args ...string) *tracee {
	t.Helper()
	cmd := exec.Command(path, args...)
	cmd.Env = []string{"LC_ALL=C", "GOMAXPROCS=1", "GODEBUG=asyncpreemptoff=1", "GOGC=off"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Pdeathsig: syscall.SIGKILL}
	err := cmd.Start()
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		t.Skipf("not supported: tracing a child: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	p := &tracee{t: t, pid: cmd.Process.Pid, tid: cmd.Process.Pid, images: im, symbols: map[string]string{}}
	t.Cleanup(func() {
		p.kill()
		_ = cmd.Process.Release()
	})
	var ws unix.WaitStatus
	if _, err := unix.Wait4(p.pid, &ws, unix.WALL, nil); err != nil || !ws.Stopped() {
		t.Fatalf("waiting for %s: %v, %#x", path, err, ws)
	}
	if err := unix.PtraceSetOptions(p.pid, unix.PTRACE_O_EXITKILL|unix.PTRACE_O_TRACECLONE); err != nil {
		t.Fatal(err)
	}
	if p.mem, err = os.OpenFile(fmt.Sprintf("/proc/%d/mem", p.pid), os.O_RDWR, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.mem.Close() })
	return p
}

// wait returns what happened to a thread. Nothing else of this process's children ends while a program is traced.
func (p *tracee) wait() (tid int, ws unix.WaitStatus) {
	p.t.Helper()
	tid, err := unix.Wait4(-1, &ws, unix.WALL, nil)
	if err != nil {
		p.t.Fatalf("waiting: %v", err)
	}
	p.ended = p.ended || tid == p.pid && (ws.Exited() || ws.Signaled())
	return tid, ws
}

func (p *tracee) kill() {
	if p.ended {
		return
	}
	if err := unix.Kill(p.pid, unix.SIGKILL); err != nil {
		p.t.Errorf("killing the program: %v", err)
		return
	}
	for !p.ended {
		p.wait()
	}
}

// Read implements unwind.Memory.
func (p *tracee) Read(a unwind.Addr, b []byte) error {
	if int64(a) < 0 {
		return fmt.Errorf("reading %#x: not an address of user space", a)
	}
	if _, err := p.mem.ReadAt(b, int64(a)); err != nil {
		return fmt.Errorf("reading %d bytes at %#x: %w", len(b), a, err)
	}
	return nil
}

// run lets all threads go on until one hits a breakpoint.
func (p *tracee) run() {
	p.t.Helper()
	p.resume(p.tid, 0)
	for _, tid := range p.stopped {
		p.resume(tid, 0)
	}
	p.stopped = nil
	for {
		tid, ws := p.wait()
		switch {
		case ws.Exited() || ws.Signaled():
			if p.ended {
				p.t.Fatalf("the program ended (%#x) before its breakpoint", ws)
			}
		case ws.StopSignal() == unix.SIGTRAP && ws.TrapCause() <= 0:
			p.tid = tid
			p.getRegs()
			p.readMaps()
			return
		case ws.TrapCause() > 0 || ws.StopSignal() == unix.SIGSTOP: // a thread is born
			p.resume(tid, 0)
		default:
			p.resume(tid, int(ws.StopSignal()))
		}
	}
}

func (p *tracee) resume(tid, signal int) {
	if err := unix.PtraceCont(tid, signal); err != nil {
		p.t.Fatalf("continuing: %v", err)
	}
}

func (p *tracee) step() (ended bool) { return p.stepWith(0) }

// stepWith executes one instruction of the thread that stopped, delivering a signal first if there is one.
func (p *tracee) stepWith(signal int) (ended bool) {
	p.t.Helper()
	// The request itself: the wrapper takes no signal.
	if _, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SINGLESTEP, uintptr(p.tid), 0, uintptr(signal), 0, 0); errno != 0 {
		p.t.Fatalf("stepping: %v", errno)
	}
	for {
		tid, ws := p.wait()
		switch {
		case ws.Exited() || ws.Signaled():
			if tid == p.tid {
				return true
			}
		case tid != p.tid:
			p.stopped = append(p.stopped, tid)
		case ws.TrapCause() > 0:
			return p.stepWith(0)
		case ws.StopSignal() != unix.SIGTRAP:
			return p.stepWith(int(ws.StopSignal()))
		default:
			p.getRegs()
			return false
		}
	}
}

func (p *tracee) getRegs() {
	if err := unix.PtraceGetRegs(p.tid, &p.regs); err != nil {
		p.t.Fatalf("reading registers: %v", err)
	}
}

func (p *tracee) registers() unwind.Registers {
	r := &p.regs
	return unwind.Registers{PC: unwind.Addr(r.Rip), Known: 0xffff, Reg: [32]uint64{r.Rax, r.Rdx, r.Rcx, r.Rbx, r.Rsi, r.Rdi,
		r.Rbp, r.Rsp, r.R8, r.R9, r.R10, r.R11, r.R12, r.R13, r.R14, r.R15}}
}

func (p *tracee) pc() unwind.Addr { return unwind.Addr(p.regs.Rip) }

// breakAt stops the program where a function begins.
func (p *tracee) breakAt(function string) {
	p.t.Helper()
	for i, m := range p.code {
		if p.loaded[i] == nil {
			continue
		}
		for _, s := range p.loaded[i].functions {
			at := m.Addr(unwind.FileAddr(s.Value))
			if s.Name != function || !m.Contains(at) {
				continue
			}
			old := make([]byte, 1)
			if err := p.Read(at, old); err != nil {
				p.t.Fatal(err)
			}
			p.write(at, []byte{0xcc})
			p.run()
			p.write(at, old)
			if p.regs.Rip != uint64(at)+1 {
				p.t.Fatalf("stopped at %#x, not in %s", p.regs.Rip, function)
			}
			p.regs.Rip--
			if err := unix.PtraceSetRegs(p.tid, &p.regs); err != nil {
				p.t.Fatal(err)
			}
			return
		}
	}
	p.t.Fatalf("no function %s", function)
}

func (p *tracee) write(at unwind.Addr, b []byte) {
	p.t.Helper()
	if _, err := p.mem.WriteAt(b, int64(at)); err != nil {
		p.t.Fatal(err)
	}
}

// readMaps reads the executable mappings, with tables.
func (p *tracee) readMaps() {
	p.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", p.pid))
	if err != nil {
		p.t.Fatal(err)
	}
	p.code, p.loaded = nil, nil
	for line := range strings.Lines(string(text)) {
		var lo, hi, off, inode uint64
		var perm, dev, path string
		n, _ := fmt.Sscanf(line, "%x-%x %s %x %s %d %s", &lo, &hi, &perm, &off, &dev, &inode, &path)
		if n < 6 || !strings.Contains(perm, "x") || path == "[vsyscall]" {
			continue
		}
		m := tape.Mapping{
			Mapping: unwind.Mapping{Start: unwind.Addr(lo), End: unwind.Addr(hi), Offset: unwind.FileOffset(off)},
			Name:    "anonymous", NoTable: true,
		}
		var i *image
		switch {
		case path == "[vdso]":
			b := make([]byte, hi-lo)
			if err := p.Read(m.Start, b); err != nil {
				p.t.Fatal(err)
			}
			i = p.images.parse(p.t, path, b, p.plain)
		case strings.HasPrefix(path, "/"):
			i = p.images.load(p.t, path, p.symbols[path], p.plain)
		}
		if i != nil {
			if !m.SetBias(i.segments, 4096) {
				p.t.Fatalf("%s: no segment for %s", path, line)
			}
			m.Name, m.NoTable, m.Table, m.Go = i.name, false, i.table, i.golang
		}
		p.code, p.loaded = append(p.code, m), append(p.loaded, i)
	}
}

func (p *tracee) name(a uint64) string { return p.loaded.name(p.code, a) }

// tape takes the thread as it is, with all of its process's tables and without memory.
func (p *tracee) tape() *tape.Tape {
	if m := p.code.At(unwind.Addr(p.regs.Rip)); m == nil {
		p.readMaps()
	}
	return &tape.Tape{
		Arch: unwind.ArchAMD64, Registers: p.registers(), ThreadPointer: unwind.Addr(p.regs.Fs_base), MaxFrames: 1024,
		Mappings: p.code,
	}
}
