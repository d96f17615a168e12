package reference

import "github.com/hostprofiles/hostprofiles/internal/unwind"

// alongChain steps, on arm64, from a frame that was guessed, so that its stack pointer is not known, along the chain of frame
// pointers.
func (w *Walker) alongChain() (next frame, stop unwind.StopReason, ok bool) {
	fp, stop, ok := w.reg(w.fp())
	if !ok {
		return frame{}, guessStop(stop), false
	}
	if fp == 0 { // what start code leaves behind
		return frame{}, unwind.StopRoot, false
	}
	if fp%8 != 0 || unwind.Addr(fp) < w.low || fp > ^uint64(0)-16 {
		return frame{}, unwind.StopNoRule, false
	}
	callerFP, ra, stop, ok := w.record(unwind.Addr(fp))
	if !ok {
		return frame{}, guessStop(stop), false
	}
	if ra == 0 {
		return frame{}, unwind.StopRoot, false
	}
	if _, missing, ok := w.find(ra, unwind.FrameReturn); !ok && missing != unwind.StopNoTable {
		return frame{}, unwind.StopNoRule, false
	}
	next = frame{flags: unwind.FrameReturn | unwind.FrameGuessed, low: unwind.Addr(fp + 16)}
	next.regs.PC = ra
	set(&next.regs, w.fp(), callerFP)
	return next, 0, true
}

// guessStop is the reason to stop where a guess fails: that there is no rule, unless the missing memory is somewhere else.
func guessStop(cause unwind.StopReason) unwind.StopReason {
	if cause == unwind.StopCopyEnd {
		return cause
	}
	return unwind.StopNoRule
}

// framePointer steps through code of which it is known that it keeps the chain and that nothing lies between the record
// and the caller's frame.
func (w *Walker) framePointer() (next frame, stop unwind.StopReason, ok bool) {
	fp, stop, ok := w.reg(w.fp())
	switch {
	case !ok:
		return frame{}, stop, false
	case fp == 0:
		return frame{}, unwind.StopRoot, false
	case fp%8 != 0 || unwind.Addr(fp) < w.low || fp > ^uint64(0)-16:
		return frame{}, unwind.StopNoRule, false
	}
	callerFP, ra, stop, ok := w.record(unwind.Addr(fp))
	if !ok {
		return frame{}, stop, false
	}
	if ra == 0 {
		return frame{}, unwind.StopRoot, false
	}
	next = frame{flags: unwind.FrameReturn, low: unwind.Addr(fp + 16)}
	next.regs.PC = ra
	set(&next.regs, w.fp(), callerFP)
	set(&next.regs, w.sp(), fp+16)
	return next, 0, true
}

// record reads the pair that the frame pointer points to.
func (w *Walker) record(fp unwind.Addr) (callerFP uint64, ra unwind.Addr, stop unwind.StopReason, ok bool) {
	callerFP, stop, ok = w.word(fp)
	if !ok {
		return 0, 0, stop, false
	}
	v, stop, ok := w.word(fp + 8)
	return callerFP, w.arch.CodeAddr(v), stop, ok
}
