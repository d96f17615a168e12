package reference

import "github.com/hostprofiles/hostprofiles/internal/unwind"

// Instructions with which functions begin and end, as they lie in memory.
const (
	endbr64 = 0xfa1e0ff3
	pushRBP = 0x55
	// probeStack are the first bytes of mov %eax, -n(%rsp). HotSpot's functions begin with it, and save rbp even where they keep no
	// frame pointer (MacroAssembler::verified_entry in cpu/x86/macroAssembler_x86.cpp, JDK 17).
	probeStack = 0x248489

	armMovFP = 0x910003fd // mov x29, sp
)

// returnSlot says how far above the stack pointer the return address is, by the instruction at pc.
func (w *Walker) returnSlot(g *guessed) (offset unwind.Addr, told bool) {
	pc := w.regs.PC
	v, ok := w.instruction(pc)
	if !ok {
		var b [1]byte
		if w.NoCode || w.mem.Read(pc, b[:]) != nil {
			return 0, false
		}
		v = uint32(b[0])
	}
	switch {
	case v&0xff == pushRBP, v == endbr64:
		return 0, true
	case v&0xff == 0xc3, v&0xff == 0xc2, v&0xffff == 0xc3f3: // ret
		return 0, true
	case (v&0xffffff == 0xe58948 || v&0xffffff == 0xec8b48) && pc > g.own.Mapping.Start: // mov %rsp, %rbp
		var b [1]byte
		if w.mem.Read(pc-1, b[:]) == nil && b[0] == pushRBP {
			return 8, true
		}
	}
	return 0, false
}

// byInstructionARM64 steps from an exact frame by what the instruction at its pc tells: where a function begins or ends, its
// return address has a known place.
func (w *Walker) byInstructionARM64(g *guessed) (next frame, ok bool) {
	if w.flags&unwind.FrameReturn != 0 {
		return frame{}, false
	}
	v, ok := w.instruction(w.regs.PC)
	switch {
	case !ok:
		return frame{}, false
	case linkIsThere(v):
		lr, _, ok := w.reg(unwind.ARM64LR)
		if !ok {
			return frame{}, false
		}
		ra := w.arch.CodeAddr(lr)
		g.exactSP = true
		if w.grade(g, w.low-8, ra, uint64(g.fp), false) == gradeNone {
			g.exactSP = false
			return frame{}, false
		}
		next := w.to(g, w.low-8, ra)
		set(&next.regs, w.sp(), uint64(w.low))
		return next, true
	case v != armMovFP || w.regs.PC <= g.own.Mapping.Start:
		return frame{}, false
	}
	if v, ok := w.instruction(w.regs.PC - 4); !ok || v&0xffc07fff != 0xa9807bfd {
		return frame{}, false
	}
	record := *g
	record.fp = w.low
	if !w.readRecord(&record) || w.grade(g, w.low+8, record.ra, record.callerFP, true) == gradeNone {
		return frame{}, false
	}
	return w.to(g, w.low+8, record.ra), true
}

// linkIsThere tells whether the return address is in the link register before an instruction: stp x29, x30, [sp, #-n]!, ret
// and its forms that authenticate, paciasp, pacibsp, bti c.
func linkIsThere(v uint32) bool {
	if v&0xffc07fff == 0xa9807bfd {
		return true
	}
	switch v {
	case 0xd65f03c0, 0xd65f0bff, 0xd65f0fff, 0xd503233f, 0xd503237f, 0xd503245f:
		return true
	}
	return false
}
