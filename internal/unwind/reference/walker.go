// Package reference walks stacks by unwind tables in plain Go. It says what a walk means: the BPF programs do the same
// step by step, and tests compare the two. It also finishes walks that BPF could not, from a copy of the stack.
//
// Words: a frame is exact if its registers are those that the CPU had there: the leaf, and what a signal interrupted.
// All others were found by returning; their pc is a return address and of their registers only the stack pointer, the
// frame pointer and rbx are followed.
package reference

import (
	"errors"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// ErrCopyEnd is wrapped by a Memory that is a copy of part of a stack when asked for what lies behind its end, or in a hole. The walk
// then stops with StopCopyEnd instead of StopMemory.
var ErrCopyEnd = errors.New("not in the copied memory")

// Code is what is known about the code at an address.
type Code struct {
	Mapping unwind.Mapping
	Table   Rules
	NoTable bool // there is none: anonymous memory, a file that can't be read
}

// Rules finds the rule for an instruction, CFANone's zero Rule if there is none; *unwind.Table is one.
type Rules interface {
	Lookup(a unwind.FileAddr) unwind.Rule
}

// Lookup finds code.
type Lookup interface {
	// Find returns the executable mapping that holds a and the table of what is mapped. If ok is false, stop says what
	// is missing: StopNoProcess, StopNoMapping or StopStale, or StopNoTable if just the table is not there; then c has the
	// mapping.
	Find(a unwind.Addr) (c Code, stop unwind.StopReason, ok bool)
}

// GoSwitcher knows Go's stacks.
type GoSwitcher interface {
	// GoSwitch returns the registers with which the thread's goroutine goes on below a frame of the system stack, and
	// whether its pc is a return address. The frame's code is in m and has the rule r, a CFAGoSwitch. If ok is false the
	// walk ends with stop: StopRoot if there is no goroutine.
	GoSwitch(m unwind.Mapping, r unwind.Rule, at *unwind.Registers) (
		next unwind.Registers, isReturn bool, stop unwind.StopReason, ok bool)
}

// Walker walks one stack at a time. The zero value is ready for use.
type Walker struct {
	// Go finds goroutines; without it a walk ends where one is needed, with StopRuntime.
	Go GoSwitcher
	// NoCode: the memory holds no code. Return addresses are then told from other words by tables alone.
	NoCode bool
	// Old: guesses search as far as BPF does on kernels without bpf_loop.
	Old bool
	// Plain: guesses are made by the frame pointer's record alone, as by BPF on kernels whose verifier refuses the rest.
	Plain bool

	arch   unwind.Arch
	mem    unwind.Memory
	lookup Lookup

	regs   unwind.Registers // of the current frame
	flags  unwind.FrameFlags
	low    unwind.Addr // the current frame's stack pointer, or a lower bound of it
	exact  bool
	leaf   bool
	pushed bool // the current frame is in the result
	lost   lost

	searches int // of the stack, for callers of code without unwind information
}

// lost says of registers why their values could not be restored; zero where nothing is known but that they are lost.
type lost [32]unwind.StopReason

// Walk appends the frames from the leaf, whose registers are regs, to the root. max bounds len of the result. The
// frames are valid whatever the reason is why it stopped; a caller in no executable mapping is not among them. After any
// reason other than StopRoot Resume may be called once the cause is gone.
func (w *Walker) Walk(regs *unwind.Registers, arch unwind.Arch, mem unwind.Memory, lookup Lookup,
	dst []unwind.RawFrame, max int) ([]unwind.RawFrame, unwind.StopReason) {
	w.arch, w.mem, w.lookup = arch, mem, lookup
	w.regs, w.flags, w.exact, w.leaf, w.pushed = *regs, 0, true, true, false
	w.low, w.lost, w.searches = unwind.Addr(regs.Reg[w.sp()]), lost{}, 0
	return w.Resume(dst, max)
}

// Resume goes on where the last walk stopped: the frame that it stopped at is tried again.
func (w *Walker) Resume(dst []unwind.RawFrame, max int) ([]unwind.RawFrame, unwind.StopReason) {
	for {
		code, missing, ok := w.find(w.regs.PC, w.flags)
		if !w.pushed && (ok || w.leaf || missing == unwind.StopNoTable) {
			if len(dst) >= max {
				return dst, unwind.StopMaxFrames
			}
			dst = append(dst, unwind.RawFrame{A: uint64(w.regs.PC), Runtime: unwind.RuntimeNative, Flags: w.flags})
			w.pushed = true
		}
		if !ok {
			return dst, missing
		}
		at := unwind.LookupAddr(w.regs.PC, w.flags&unwind.FrameReturn != 0)
		next, stop, ok := w.step(code, code.Table.Lookup(code.Mapping.FileAddr(at)))
		if !ok {
			return dst, stop
		}
		w.regs, w.flags, w.low, w.exact, w.lost = next.regs, next.flags, next.low, next.exact, next.lost
		w.leaf, w.pushed = false, false
	}
}

// frame is a caller as a step found it.
type frame struct {
	regs  unwind.Registers
	flags unwind.FrameFlags
	low   unwind.Addr
	exact bool
	lost  lost
}

func (w *Walker) find(pc unwind.Addr, flags unwind.FrameFlags) (Code, unwind.StopReason, bool) {
	if pc == 0 { // as bpf/unwind/native.h has it
		if flags&(unwind.FrameReturn|unwind.FrameGuessed) == unwind.FrameReturn {
			return Code{}, unwind.StopRoot, false
		}
		return Code{}, unwind.StopNoMapping, false
	}
	return w.lookup.Find(unwind.LookupAddr(pc, flags&unwind.FrameReturn != 0))
}

// sp, fp and bx are the registers that are followed from frame to frame; bx is none (32) on arm64.
func (w *Walker) sp() uint8 {
	if w.arch == unwind.ArchARM64 {
		return unwind.ARM64SP
	}
	return unwind.AMD64RSP
}

func (w *Walker) fp() uint8 {
	if w.arch == unwind.ArchARM64 {
		return unwind.ARM64FP
	}
	return unwind.AMD64RBP
}

// reg returns a register's value if it is known, and otherwise the reason to stop where it is needed.
func (w *Walker) reg(n uint8) (v uint64, stop unwind.StopReason, ok bool) {
	switch {
	case n < 32 && w.regs.Known&(1<<n) != 0:
		return w.regs.Reg[n], 0, true
	case n < 32 && w.lost[n] != 0:
		return 0, w.lost[n], false
	}
	return 0, unwind.StopRegister, false
}
