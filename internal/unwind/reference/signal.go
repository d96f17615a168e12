package reference

import (
	"encoding/binary"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// What the kernel pushed before it called a signal handler, from the stack pointer in the trampoline on.
//
// amd64 (Linux 6.12, arch/x86/include/asm/sigframe.h, uapi/asm/sigcontext.h): the handler's return has popped pretcode,
// so the stack pointer is at struct ucontext: uc_flags, uc_link, uc_stack (8+8+24 bytes), then struct sigcontext.
//
// arm64 (Linux 6.12, arch/arm64/kernel/signal.c, uapi/asm/{ucontext,sigcontext}.h): struct rt_sigframe: siginfo (128),
// then ucontext with uc_mcontext at 176: fault_address, x0 to x30, sp, pc.
const (
	amd64Gregs = 40
	arm64Regs  = 128 + 176 + 8
)

// amd64GregOrder gives the DWARF numbers of struct sigcontext's registers, in its order; rip comes next.
var amd64GregOrder = [16]uint8{8, 9, 10, 11, 12, 13, 14, 15, unwind.AMD64RDI, unwind.AMD64RSI, unwind.AMD64RBP,
	unwind.AMD64RBX, unwind.AMD64RDX, unwind.AMD64RAX, unwind.AMD64RCX, unwind.AMD64RSP}

// signal steps from the trampoline to what the signal interrupted. All registers are known there, the pc is exact, and
// the stack may be another one.
func (w *Walker) signal() (next frame, stop unwind.StopReason, ok bool) {
	sp, stop, ok := w.reg(w.sp())
	if !ok {
		return frame{}, stop, false
	}
	next.exact = true
	if w.arch == unwind.ArchARM64 {
		var b [33 * 8]byte
		if err := w.mem.Read(unwind.Addr(sp+arm64Regs), b[:]); err != nil {
			return frame{}, memoryStop(err), false
		}
		for i := range next.regs.Reg {
			set(&next.regs, uint8(i), binary.LittleEndian.Uint64(b[8*i:]))
		}
		next.regs.PC = unwind.Addr(binary.LittleEndian.Uint64(b[32*8:]))
	} else {
		var b [17 * 8]byte
		if err := w.mem.Read(unwind.Addr(sp+amd64Gregs), b[:]); err != nil {
			return frame{}, memoryStop(err), false
		}
		for i, n := range amd64GregOrder {
			set(&next.regs, n, binary.LittleEndian.Uint64(b[8*i:]))
		}
		next.regs.PC = unwind.Addr(binary.LittleEndian.Uint64(b[16*8:]))
	}
	next.low = unwind.Addr(next.regs.Reg[w.sp()])
	return next, 0, true
}
