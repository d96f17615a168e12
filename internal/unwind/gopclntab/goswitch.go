package gopclntab

import (
	"encoding/binary"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// Switcher finds the goroutine that a thread's system stack works for. It is made for one walk.
type Switcher struct {
	Offsets Offsets
	Arch    unwind.Arch
	Memory  unwind.Memory
	// Leaf are the registers with which the walk began.
	Leaf unwind.Registers
	// ThreadPointer is the thread's (amd64: fs base, arm64: tpidr_el0); 0 if it is not known.
	ThreadPointer unwind.Addr

	switched bool // to the goroutine: once is enough, there is no other
}

// GoSwitch returns the registers with which the goroutine goes on, at g.m.curg.sched. Its pc is exact: morestack's
// caller there has a jump behind the call, and systemstack_switch stands for its own first instruction. (From arm64's
// runtime.asmcgocall it returns the caller's registers, whose pc is a return address.) If ok is false
// the walk ends with stop: StopRoot if the system stack works for no goroutine, StopRuntime if no g was found.
func (s *Switcher) GoSwitch(in unwind.Mapping, r unwind.Rule, at *unwind.Registers) (
	next unwind.Registers, isReturn bool, stop unwind.StopReason, ok bool) {
	if s.Arch == unwind.ArchARM64 && r.Reg == unwind.ARM64SP {
		next, stop, ok = s.cgocall(r, at)
		return next, true, stop, ok
	}
	o := &s.Offsets
	m, ok := s.machine(in)
	if !ok || s.switched {
		return next, false, unwind.StopRuntime, false
	}
	curg, ok := s.word(m + unwind.Addr(o.MCurg))
	if !ok {
		return next, false, unwind.StopRuntime, false
	}
	if curg == 0 {
		return next, false, unwind.StopRoot, false
	}
	g := unwind.Addr(curg)
	sp, ok1 := s.word(g + unwind.Addr(o.GSchedSP))
	pc, ok2 := s.word(g + unwind.Addr(o.GSchedPC))
	fp, ok3 := s.word(g + unwind.Addr(o.GSchedBP))
	lr, ok4 := s.word(g + unwind.Addr(o.GSchedLR))
	if !ok1 || !ok2 || !ok3 || !ok4 || sp == 0 || pc == 0 {
		return next, false, unwind.StopRuntime, false
	}
	set := func(reg uint8, v uint64) {
		next.Reg[reg] = v
		next.Known |= 1 << reg
	}
	s.switched = true
	next.PC = unwind.Addr(pc)
	if s.Arch == unwind.ArchAMD64 {
		set(unwind.AMD64RSP, sp)
		set(unwind.AMD64RBP, fp)
	} else {
		set(unwind.ARM64SP, sp)
		set(unwind.ARM64FP, fp)
		set(unwind.ARM64LR, lr) // morestack's caller has no frame yet
	}
	return next, false, 0, true
}

// cgocall steps from runtime.asmcgocall, which calls C on the system stack, to its caller on the goroutine's stack; see
// cgocallARM64.
func (s *Switcher) cgocall(r unwind.Rule, at *unwind.Registers) (
	next unwind.Registers, stop unwind.StopReason, ok bool) {
	if at.Known&(1<<unwind.ARM64SP) == 0 {
		return next, unwind.StopRegister, false
	}
	sp := unwind.Addr(at.Reg[unwind.ARM64SP])
	g, ok1 := s.word(sp + unwind.Addr(r.Offset))
	saved, ok2 := s.word(sp + unwind.Addr(r.Offset2))
	if !ok1 || !ok2 {
		return next, unwind.StopMemory, false
	}
	if g != 0 {
		hi, ok := s.word(unwind.Addr(g) + unwind.Addr(s.Offsets.GStackHi))
		if !ok {
			return next, unwind.StopRuntime, false
		}
		saved = hi - saved
	}
	cfa := unwind.Addr(saved - uint64(int64(r.RAOffset)*8))
	ra, ok1 := s.word(cfa + unwind.Addr(int64(r.RAOffset)*8))
	fp, ok2 := s.word(cfa + unwind.Addr(int64(r.FPOffset)*8))
	if !ok1 || !ok2 {
		return next, unwind.StopMemory, false
	}
	next.PC = s.Arch.CodeAddr(ra)
	next.Reg[unwind.ARM64SP], next.Reg[unwind.ARM64FP] = uint64(cfa), fp
	next.Known = 1<<unwind.ARM64SP | 1<<unwind.ARM64FP
	return next, 0, true
}

// machine finds the thread's m: through a g that is m's g0, as it must be on the system stack, or its gsignal, if a
// signal came there.
func (s *Switcher) machine(in unwind.Mapping) (unwind.Addr, bool) {
	for _, g := range s.candidates(in) {
		m, ok := s.word(g + unwind.Addr(s.Offsets.GM))
		if !ok {
			continue
		}
		for _, off := range []uint32{s.Offsets.MG0, s.Offsets.MGSignal} {
			if own, ok := s.word(unwind.Addr(m) + unwind.Addr(off)); ok && unwind.Addr(own) == g {
				return unwind.Addr(m), true
			}
		}
	}
	return 0, false
}

// candidates are the places where the current g may be.
func (s *Switcher) candidates(in unwind.Mapping) (gs []unwind.Addr) {
	o := &s.Offsets
	offset := unwind.Addr(o.TLSG)
	if o.TLSGot != 0 {
		v, _ := s.word(in.Addr(o.TLSGot))
		offset = unwind.Addr(v)
	}
	if s.ThreadPointer != 0 && offset != 0 {
		if g, ok := s.word(s.ThreadPointer + offset); ok && g != 0 {
			gs = append(gs, unwind.Addr(g))
		}
	}
	if s.Leaf.Known&(1<<o.GReg) != 0 {
		gs = append(gs, unwind.Addr(s.Leaf.Reg[o.GReg]))
	}
	return gs
}

func (s *Switcher) word(a unwind.Addr) (uint64, bool) {
	var b [8]byte
	if s.Memory.Read(a, b[:]) != nil {
		return 0, false
	}
	return binary.LittleEndian.Uint64(b[:]), true
}
