package hostbpf_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/gopclntab"
	"github.com/hostprofiles/hostprofiles/internal/unwind/hostbpf/tape"
)

// world is a process for tests of single steps: function n, 16 bytes long, is at codeAt + 16*n and has its own rule.
type world struct {
	tape.Tape
	rules []unwind.Rule
}

func newWorld(arch unwind.Arch, rules ...unwind.Rule) *world {
	w := &world{rules: rules}
	w.Arch, w.MaxFrames = arch, 20
	w.Registers.Known = 0xffff
	if arch == unwind.ArchARM64 {
		w.Registers.Known = 0xffffffff
	}
	t := &unwind.Table{Rules: append([]unwind.Rule{{}}, rules...)}
	for i := range rules {
		t.Rows = append(t.Rows, unwind.Row{Start: unwind.FileAddr(0x1000 + 16*i), Rule: uint32(i + 1)})
	}
	t.Rows = append(t.Rows, unwind.Row{Start: unwind.FileAddr(0x1000 + 16*len(rules))})
	w.Mappings = []tape.Mapping{{Mapping: unwind.Mapping{Start: codeAt, End: codeAt + 0x1000, Bias: codeAt - 0x1000}, Table: t}}
	w.Registers.PC = codeAt
	return w
}

// at is an address in the middle of function n.
func at(n int) uint64 { return codeAt + 16*uint64(n) + 8 }

func (w *world) word(a, v uint64) {
	w.Memory.Add(unwind.Addr(a), binary.LittleEndian.AppendUint64(nil, v))
}

// walk compares all walkers with what is expected.
func (w *world) walk(t *testing.T, h hosts, what string, stop unwind.StopReason, pcs ...uint64) {
	t.Helper()
	load(t, h, w.Mappings)
	frames, got := compare(t, h, &w.Tape, &w.Memory)
	var found []uint64
	for _, f := range frames {
		found = append(found, f.A)
	}
	if got != stop || !slices.Equal(found, pcs) {
		t.Errorf("%s: %v, not %v; found\n%s", what, got, stop, show(w.Mappings, frames, got))
	}
}

func eachArch(t *testing.T, f func(t *testing.T, arch unwind.Arch, h hosts)) {
	for _, arch := range []unwind.Arch{unwind.ArchAMD64, unwind.ArchARM64} {
		t.Run(fmt.Sprint(arch), func(t *testing.T) { f(t, arch, startHosts(t, arch)) })
	}
}

var rootRule = unwind.Rule{CFA: unwind.CFARoot}

// based is a rule that finds the frame by a register.
func based(reg uint8) unwind.Rule {
	return unwind.Rule{CFA: unwind.CFAReg, Reg: reg, Offset: 16, RAOffset: -1}
}

// TestSignalRegisters: what a signal interrupted has each of its registers.
func TestSignalRegisters(t *testing.T) {
	eachArch(t, func(t *testing.T, arch unwind.Arch, h hosts) {
		// Where each register is, from the stack pointer in the trampoline on, and the pc: struct rt_sigframe of
		// arch/{x86/include/asm/sigframe.h,arm64/kernel/signal.c}, Linux 6.12.
		places, pc := map[uint8]uint64{}, uint64(40+16*8)
		for i, n := range []uint8{8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7} {
			places[n] = 40 + 8*uint64(i)
		}
		if arch == unwind.ArchARM64 {
			pc = 128 + 176 + 8 + 8*32
			clear(places)
			for n := range uint8(32) {
				places[n] = 128 + 176 + 8 + 8*uint64(n)
			}
		}
		for reg := range places {
			w := newWorld(arch, unwind.Rule{CFA: unwind.CFASignal}, based(reg), rootRule)
			sp := stackPointer(arch)
			w.Registers.Reg[sp] = stackAt
			for n, place := range places {
				value := stackAt + 0x1000 + 0x100*uint64(n)
				if n == sp {
					value = stackAt + 0x800 // below all others
				}
				w.word(stackAt+place, value)
				w.word(value+8, 1) // no address of code, unless it is the right one
			}
			value := stackAt + 0x1000 + 0x100*uint64(reg)
			if reg == sp {
				value = stackAt + 0x800
			}
			w.word(value+8, at(2))
			w.word(stackAt+pc, at(1))
			w.walk(t, h, fmt.Sprintf("register %d", reg), unwind.StopRoot, codeAt, at(1), at(2))
		}
	})
}

// goWorld has a thread on its system stack, a goroutine and its thread's m.
func goWorld(arch unwind.Arch, rules ...unwind.Rule) (w *world, g0, gsignal uint64) {
	const m, curg = stackAt + 0x2000, stackAt + 0x3000
	g0, gsignal = stackAt+0x4000, stackAt+0x5000
	w = newWorld(arch, rules...)
	o := &gopclntab.Offsets{
		GReg: 14, TLSG: -8, GStackHi: 8, GM: 48, GSchedSP: 56, GSchedPC: 64, GSchedBP: 96, GSchedLR: 88, MCurg: 24, MG0: 8, MGSignal: 16,
	}
	if arch == unwind.ArchARM64 {
		o.GReg = 28
	}
	w.Mappings[0].Go = o
	w.word(g0+48, m)
	w.word(gsignal+48, m)
	w.word(m+8, g0)
	w.word(m+16, gsignal)
	w.word(m+24, curg)
	w.word(curg+56, stackAt+0x6000) // sp
	w.word(curg+64, at(1))          // pc
	w.word(curg+96, stackAt+0x6100) // fp
	w.word(curg+88, at(4))          // lr
	w.word(stackAt+0x6008, at(2))
	w.word(stackAt+0x6108, at(3))
	w.Registers.Reg[stackPointer(arch)] = stackAt
	return w, g0, gsignal
}

// TestGoSwitch: from the system stack to the goroutine, by whichever way there is.
func TestGoSwitch(t *testing.T) {
	eachArch(t, func(t *testing.T, arch unwind.Arch, h hosts) {
		gosw := unwind.Rule{CFA: unwind.CFAGoSwitch}
		sp, fp, g := stackPointer(arch), uint8(unwind.AMD64RBP), 14
		if arch == unwind.ArchARM64 {
			fp, g = unwind.ARM64FP, 28
		}
		for name, byRegister := range map[string]bool{"by register": true, "by thread-local storage": false} {
			for _, onSignalStack := range []bool{false, true} {
				for reg, want := range map[uint8]uint64{sp: at(2), fp: at(3)} {
					w, g0, gsignal := goWorld(arch, gosw, based(reg), rootRule, rootRule, rootRule)
					if onSignalStack {
						g0 = gsignal
					}
					if byRegister {
						w.Registers.Reg[g] = g0
					} else {
						w.ThreadPointer = stackAt + 0x7000
						w.word(stackAt+0x7000-8, g0)
					}
					w.walk(t, h, fmt.Sprintf("%s, signal stack: %v, then by register %d", name, onSignalStack, reg),
						unwind.StopRoot, codeAt, at(1), want)
				}
			}
		}
		w, g0, _ := goWorld(arch, gosw, rootRule)
		w.walk(t, h, "no g", unwind.StopRuntime, codeAt)
		w.Registers.Reg[g] = g0
		w.word(stackAt+0x2000+24, 0)
		w.walk(t, h, "no goroutine", unwind.StopRoot, codeAt)
		w.Registers.Reg[g] = stackAt + 0x3000
		w.walk(t, h, "a g that is not the system stack's", unwind.StopRuntime, codeAt)
		w, g0, _ = goWorld(arch, gosw, gosw)
		w.Registers.Reg[g] = g0
		w.walk(t, h, "twice", unwind.StopRuntime, codeAt, at(1))
		w.Mappings[0].Go = nil
		w.walk(t, h, "no Go program", unwind.StopRuntime, codeAt)
		if arch == unwind.ArchARM64 {
			lr := unwind.Rule{CFA: unwind.CFAReg, Reg: sp, RA: unwind.RAReg, RAOffset: unwind.ARM64LR}
			w, g0, _ = goWorld(arch, gosw, lr, rootRule, rootRule, rootRule)
			w.Registers.Reg[g] = g0
			w.walk(t, h, "then by the link register", unwind.StopRoot, codeAt, at(1), at(4))
		}
	})
}

// TestGoCgocall: arm64's runtime.asmcgocall has left the goroutine and the depth of its stack on the system stack.
func TestGoCgocall(t *testing.T) {
	h := startHosts(t, unwind.ArchARM64)
	call := unwind.Rule{CFA: unwind.CFAGoSwitch, Reg: unwind.ARM64SP, Offset: 0, Offset2: 8, RAOffset: -4, FP: unwind.SaveAtCFA, FPOffset: -5}
	const g, hi = stackAt + 0x1000, stackAt + 0x8000
	for _, withG := range []bool{true, false} {
		w := newWorld(unwind.ArchARM64, call, based(unwind.ARM64FP), rootRule)
		w.Mappings[0].Go = &gopclntab.Offsets{GReg: 28, GStackHi: 8, GM: 48}
		w.Registers.Reg[unwind.ARM64SP] = stackAt
		saved := uint64(hi - 0x200)
		if withG {
			w.word(stackAt, g)
			w.word(stackAt+8, hi-saved)
			w.word(g+8, hi)
		} else {
			w.word(stackAt, 0)
			w.word(stackAt+8, saved)
		}
		w.word(saved, at(1))        // the return address at CFA - 32
		w.word(saved-8, saved+0x40) // the frame pointer
		w.word(saved+0x40+8, at(2))
		w.walk(t, h, fmt.Sprintf("with a g: %v", withG), unwind.StopRoot, codeAt, at(1), at(2))
	}
}

// TestInterruptedAMD64: the instruction that is to be next is behind a return, which belongs to where the frame is gone already.
func TestInterruptedAMD64(t *testing.T) {
	h := startHosts(t, unwind.ArchAMD64)
	const sp = unwind.AMD64RSP
	rule := func(offset int32, note unwind.CFANote) unwind.Rule {
		return unwind.Rule{CFA: unwind.CFAReg, Reg: sp, Offset: offset, Offset2: int16(note), RAOffset: -1}
	}
	w := newWorld(unwind.ArchAMD64, rule(24, unwind.CFANoteInterrupted), rule(8, 0), rule(32, 0), rootRule)
	w.Registers.Reg[sp] = stackAt
	w.word(stackAt+16, codeAt+32) // the first instruction of what has the third rule
	w.word(stackAt+24+24, at(3))
	w.walk(t, h, "behind a return", unwind.StopRoot, codeAt, codeAt+32, at(3))
}

// TestInterrupted: a leaf and a function with a frame that arm64's runtime.asyncPreempt was pushed upon.
func TestInterrupted(t *testing.T) {
	h := startHosts(t, unwind.ArchARM64)
	const sp = unwind.ARM64SP
	leaf := unwind.Rule{CFA: unwind.CFAReg, Reg: sp, RA: unwind.RAReg, RAOffset: unwind.ARM64LR}
	before := leaf
	before.Offset, before.Offset2 = 16, int16(unwind.CFANoteInterrupted)
	after := unwind.Rule{CFA: unwind.CFAReg, Reg: sp, Offset: 48, Offset2: int16(unwind.CFANoteInterrupted), RAOffset: -6}
	frame := unwind.Rule{CFA: unwind.CFAReg, Reg: sp, Offset: 32, RAOffset: -4}
	w := newWorld(unwind.ArchARM64, before, leaf, rootRule)
	w.Registers.Reg[sp], w.Registers.Reg[unwind.ARM64LR] = stackAt, codeAt+16 // not at(1): its first instruction
	w.word(stackAt, at(2))
	w.walk(t, h, "a leaf, before the prologue", unwind.StopRoot, codeAt, codeAt+16, at(2))
	w = newWorld(unwind.ArchARM64, after, leaf, leaf)
	w.Registers.Reg[sp] = stackAt
	w.word(stackAt, codeAt+16)
	w.word(stackAt+32, at(2))
	w.walk(t, h, "a leaf, after the prologue, and no second link register", unwind.StopNoProgress, codeAt, codeAt+16, at(2))
	w = newWorld(unwind.ArchARM64, after, frame, rootRule)
	w.Registers.Reg[sp] = stackAt
	w.word(stackAt, codeAt+16)
	w.word(stackAt+48, at(2))
	w.walk(t, h, "a frame", unwind.StopRoot, codeAt, codeAt+16, at(2))
}
