package reference

import (
	"encoding/binary"
	"errors"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// step finds the caller of the current frame by the rule for its pc. If ok is false, stop says why there is none.
func (w *Walker) step(c Code, r unwind.Rule) (_ frame, stop unwind.StopReason, ok bool) {
	switch r.CFA {
	case unwind.CFANone:
		return w.guess(c, 0)
	case unwind.CFARoot:
		return frame{}, unwind.StopRoot, false
	case unwind.CFAFramePointer:
		return w.framePointer()
	case unwind.CFASignal:
		return w.signal()
	case unwind.CFAGoSwitch:
		return w.goSwitch(c.Mapping, r)
	case unwind.CFAReg, unwind.CFAMem, unwind.CFAPLT:
		if r.Reg == w.sp() && w.arch == unwind.ArchARM64 && w.regs.Known&(1<<unwind.ARM64SP) == 0 {
			// The frame was guessed, so that its stack pointer is not known.
			return w.alongChain()
		}
		if _, stop, ok := w.reg(r.Reg); !ok && stop == unwind.StopRegister {
			return w.guess(c, stop)
		}
		return w.byRule(r)
	}
	return frame{}, unwind.StopNoRule, false
}

// byRule is a step by call frame information.
func (w *Walker) byRule(r unwind.Rule) (next frame, stop unwind.StopReason, ok bool) {
	cfa, stop, ok := w.cfa(r)
	if !ok {
		return frame{}, stop, false
	}
	if (cfa < w.low || cfa == w.low && !w.exact) && !w.mayLeave(r) {
		return frame{}, unwind.StopNoProgress, false
	}
	ra, stop, ok := w.returnAddress(r, cfa)
	if !ok {
		return frame{}, stop, false
	}
	next = frame{flags: unwind.FrameReturn, low: cfa}
	next.regs.PC = ra
	set(&next.regs, w.sp(), uint64(cfa))
	w.restore(&next, w.fp(), r.FP, r.FPOffset, cfa)
	if w.arch == unwind.ArchAMD64 {
		w.restore(&next, unwind.AMD64RBX, r.BX, r.BXOffset, cfa)
	}
	if r.CFA == unwind.CFAReg && unwind.CFANote(r.Offset2) == unwind.CFANoteInterrupted {
		next.flags, next.exact = 0, true
		if w.arch == unwind.ArchARM64 {
			w.restore(&next, unwind.ARM64LR, unwind.SaveAtCFA, -2, cfa)
		}
	}
	return next, 0, true
}

// mayLeave tells whether the rule's CFA may be on another stack: if it says so, or if the CFA was saved anywhere but below the frame
// pointer, where functions that realign their stack save it.
func (w *Walker) mayLeave(r unwind.Rule) bool {
	return r.CFA == unwind.CFAReg && unwind.CFANote(r.Offset2) == unwind.CFANoteOtherStack || r.CFA == unwind.CFAMem && r.Reg != w.fp()
}

func set(r *unwind.Registers, n uint8, v uint64) {
	r.Reg[n] = v
	r.Known |= 1 << n
}

// cfa computes the canonical frame address.
func (w *Walker) cfa(r unwind.Rule) (cfa unwind.Addr, stop unwind.StopReason, ok bool) {
	v, stop, ok := w.reg(r.Reg)
	if !ok {
		return 0, stop, false
	}
	a := unwind.Addr(v + uint64(int64(r.Offset)))
	switch r.CFA {
	case unwind.CFAMem:
		v, stop, ok := w.word(a)
		return unwind.Addr(v + uint64(int64(r.Offset2))), stop, ok
	case unwind.CFAPLT:
		if int64(w.regs.PC&15) >= int64(r.Offset2) {
			a += 8
		}
	}
	return a, 0, true
}

func (w *Walker) returnAddress(r unwind.Rule, cfa unwind.Addr) (ra unwind.Addr, stop unwind.StopReason, ok bool) {
	var v uint64
	if r.RA == unwind.RAReg {
		if v, stop, ok = w.reg(uint8(r.RAOffset)); !ok {
			return 0, stop, false
		}
	} else if v, stop, ok = w.word(cfa + unwind.Addr(8*int64(r.RAOffset))); !ok {
		return 0, stop, false
	}
	return w.arch.CodeAddr(v), 0, true
}

// restore sets a register of the caller, if its value can be found; otherwise it is lost, which matters only when a rule
// needs it.
func (w *Walker) restore(next *frame, n uint8, k unwind.SaveKind, off int16, cfa unwind.Addr) {
	var v uint64
	stop, ok := unwind.StopRegister, false
	switch k {
	case unwind.SaveSame:
		v, stop, ok = w.reg(n)
	case unwind.SaveAtCFA:
		v, stop, ok = w.word(cfa + unwind.Addr(8*int64(off)))
	case unwind.SaveAtFP:
		if v, _, ok = w.reg(w.fp()); ok {
			v, stop, ok = w.word(unwind.Addr(v) + unwind.Addr(8*int64(off)))
		}
	}
	if ok {
		set(&next.regs, n, v)
	} else {
		next.lost[n] = stop
	}
}

// word reads eight bytes.
func (w *Walker) word(a unwind.Addr) (v uint64, stop unwind.StopReason, ok bool) {
	var b [8]byte
	if err := w.mem.Read(a, b[:]); err != nil {
		return 0, memoryStop(err), false
	}
	return binary.LittleEndian.Uint64(b[:]), 0, true
}

func memoryStop(err error) unwind.StopReason {
	if errors.Is(err, ErrCopyEnd) {
		return unwind.StopCopyEnd
	}
	return unwind.StopMemory
}

// goSwitch goes on with the goroutine on whose behalf the system stack is in use; its stack may be anywhere.
func (w *Walker) goSwitch(m unwind.Mapping, r unwind.Rule) (next frame, stop unwind.StopReason, ok bool) {
	if w.Go == nil {
		return frame{}, unwind.StopRuntime, false
	}
	regs, isReturn, stop, ok := w.Go.GoSwitch(m, r, &w.regs)
	if !ok {
		return frame{}, stop, false
	}
	next = frame{regs: regs, low: unwind.Addr(regs.Reg[w.sp()]), exact: !isReturn}
	if isReturn {
		next.flags = unwind.FrameReturn
	}
	return next, 0, true
}
