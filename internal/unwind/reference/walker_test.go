package reference

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// memory is words by address; behind end it is a copy that has ended.
type memory struct {
	words map[unwind.Addr]uint64
	end   unwind.Addr
}

func (m memory) Read(a unwind.Addr, b []byte) error {
	for i := 0; i < len(b); i += 8 {
		at := a + unwind.Addr(i)
		if m.end != 0 && at >= m.end {
			return ErrCopyEnd
		}
		v, ok := m.words[at]
		if !ok {
			return errors.New("fault")
		}
		binary.LittleEndian.PutUint64(b[i:], v)
	}
	return nil
}

// code maps [0x1000, 0x2000) with rules by address; functions begin every 0x10. Without a rule: CFANone.
type code map[unwind.Addr]unwind.Rule

func (c code) Find(a unwind.Addr) (Code, unwind.StopReason, bool) {
	if a < 0x1000 || a >= 0x2000 {
		return Code{}, unwind.StopNoMapping, false
	}
	r, ok := c[a&^15]
	if ok && r.CFA == 99 {
		return Code{}, unwind.StopNoTable, false
	}
	return Code{Table: &unwind.Table{Rows: []unwind.Row{{Rule: 0}}, Rules: []unwind.Rule{r}}}, 0, true
}

var (
	root   = unwind.Rule{CFA: unwind.CFARoot}
	signal = unwind.Rule{CFA: unwind.CFASignal}
	gorule = unwind.Rule{CFA: unwind.CFAGoSwitch}
	chain  = unwind.Rule{CFA: unwind.CFAFramePointer}
	later  = unwind.Rule{CFA: 99}
)

func amd64Reg(reg uint8, off int32) unwind.Rule {
	return unwind.Rule{CFA: unwind.CFAReg, Reg: reg, Offset: off, RAOffset: -1}
}

func regs(pc unwind.Addr, values map[int]uint64) *unwind.Registers {
	r := unwind.Registers{PC: pc}
	for n, v := range values {
		set(&r, uint8(n), v)
	}
	return &r
}

const (
	rsp = unwind.AMD64RSP
	rbp = unwind.AMD64RBP
	rbx = unwind.AMD64RBX
	ret = unwind.FrameReturn
	gue = unwind.FrameReturn | unwind.FrameGuessed
)

func frames(v ...uint64) (out []unwind.RawFrame) {
	for i := 0; i < len(v); i += 2 {
		out = append(out, unwind.RawFrame{A: v[i], Flags: unwind.FrameFlags(v[i+1])})
	}
	return out
}

func TestWalk(t *testing.T) {
	saved := amd64Reg(rsp, 24)
	saved.FP, saved.FPOffset, saved.BX, saved.BXOffset = unwind.SaveAtCFA, -2, unwind.SaveAtCFA, -3
	realigned := unwind.Rule{CFA: unwind.CFAMem, Reg: rbp, Offset: -8, RAOffset: -1, FP: unwind.SaveAtFP}
	lost := amd64Reg(rsp, 8)
	lost.FP = unwind.SaveUndefined
	inRDI := amd64Reg(rsp, 0)
	inRDI.RA, inRDI.RAOffset = unwind.RAReg, unwind.AMD64RDI
	plt := unwind.Rule{CFA: unwind.CFAPLT, Reg: rsp, Offset: 8, Offset2: 11, RAOffset: -1}
	other := amd64Reg(rbp, 16)
	other.Offset2 = int16(unwind.CFANoteOtherStack)
	type words = map[unwind.Addr]uint64
	for _, c := range []struct {
		name string
		code code
		mem  words
		regs *unwind.Registers
		want []unwind.RawFrame
		stop unwind.StopReason
	}{
		{"root at the leaf", code{0x1000: root}, nil, regs(0x1004, map[int]uint64{rsp: 0x8000}), frames(0x1004, 0), unwind.StopRoot},
		{"return addresses are looked up before", code{0x1000: amd64Reg(rsp, 8), 0x1010: root},
			words{0x8000: 0x1020}, regs(0x1000, map[int]uint64{rsp: 0x8000}), frames(0x1000, 0, 0x1020, uint64(ret)), unwind.StopRoot},
		{"saved registers", code{0x1000: saved, 0x1010: amd64Reg(rbx, 32), 0x1020: amd64Reg(rbp, 16), 0x1030: root},
			words{0x8000: 0x8020, 0x8008: 0x8100, 0x8010: 0x1014, 0x8038: 0x1024, 0x8108: 0x1034},
			regs(0x1000, map[int]uint64{rsp: 0x8000}),
			frames(0x1000, 0, 0x1014, uint64(ret), 0x1024, uint64(ret), 0x1034, uint64(ret)), unwind.StopRoot},
		{"realigned stack", code{0x1000: realigned, 0x1010: amd64Reg(rbp, 16), 0x1020: root},
			words{0x8000: 0x8200, 0x7ff8: 0x8100, 0x80f8: 0x1014, 0x8208: 0x1024},
			regs(0x1000, map[int]uint64{rsp: 0x7000, rbp: 0x8000}), frames(0x1000, 0, 0x1014, uint64(ret), 0x1024, uint64(ret)), unwind.StopRoot},
		{"register lost", code{0x1000: lost, 0x1010: amd64Reg(rbp, 16)}, words{0x8000: 0x1014},
			regs(0x1000, map[int]uint64{rsp: 0x8000, rbp: 0x8100}), frames(0x1000, 0, 0x1014, uint64(ret)), unwind.StopRegister},
		{"only followed registers survive", code{0x1000: amd64Reg(rsp, 8), 0x1010: amd64Reg(12, 16)}, words{0x8000: 0x1014},
			regs(0x1000, map[int]uint64{rsp: 0x8000, 12: 0x8100}), frames(0x1000, 0, 0x1014, uint64(ret)), unwind.StopRegister},
		{"return address in a register", code{0x1000: inRDI, 0x1010: root}, nil,
			regs(0x1000, map[int]uint64{rsp: 0x8000, unwind.AMD64RDI: 0x1018}), frames(0x1000, 0, 0x1018, uint64(ret)), unwind.StopRoot},
		{"no progress beyond the leaf", code{0x1000: amd64Reg(rsp, 8), 0x1010: inRDI}, words{0x8000: 0x1014},
			regs(0x1000, map[int]uint64{rsp: 0x8000, unwind.AMD64RDI: 1}), frames(0x1000, 0, 0x1014, uint64(ret)), unwind.StopNoProgress},
		{"downwards", code{0x1000: amd64Reg(rbp, 16)}, nil, regs(0x1000, map[int]uint64{rsp: 0x8000, rbp: 0x7000}),
			frames(0x1000, 0), unwind.StopNoProgress},
		{"other stack", code{0x1000: other, 0x1010: root}, words{0x7000: 0, 0x7008: 0x1014},
			regs(0x1000, map[int]uint64{rsp: 0x8000, rbp: 0x7000}), frames(0x1000, 0, 0x1014, uint64(ret)), unwind.StopRoot},
		{"PLT before its push", code{0x1000: plt, 0x1010: root}, words{0x8000: 0x1014}, regs(0x100a, map[int]uint64{rsp: 0x8000}),
			frames(0x100a, 0, 0x1014, uint64(ret)), unwind.StopRoot},
		{"PLT after its push", code{0x1000: plt, 0x1010: root}, words{0x8008: 0x1014}, regs(0x100b, map[int]uint64{rsp: 0x8000}),
			frames(0x100b, 0, 0x1014, uint64(ret)), unwind.StopRoot},
		{"unmapped leaf", code{}, nil, regs(0x10, map[int]uint64{rsp: 0x8000}), frames(0x10, 0), unwind.StopNoMapping},
		{"unmapped caller", code{0x1000: amd64Reg(rsp, 8)}, words{0x8000: 0x5000}, regs(0x1000, map[int]uint64{rsp: 0x8000}),
			frames(0x1000, 0), unwind.StopNoMapping},
		{"no caller", code{0x1000: amd64Reg(rsp, 8)}, words{0x8000: 0}, regs(0x1000, map[int]uint64{rsp: 0x8000}),
			frames(0x1000, 0), unwind.StopRoot},
		{"saved on another stack", code{0x1000: {CFA: unwind.CFAMem, Reg: rsp, Offset: 8, Offset2: 8, RAOffset: -1}, 0x1010: root},
			words{0x9008: 0x7000, 0x7000: 0x1014}, regs(0x1000, map[int]uint64{rsp: 0x9000}), frames(0x1000, 0, 0x1014, uint64(ret)),
			unwind.StopRoot},
		{"saved below the frame pointer, downwards", code{0x1000: {CFA: unwind.CFAMem, Reg: rbp, Offset: -8, RAOffset: -1}},
			words{0x9ff8: 0x7000}, regs(0x1000, map[int]uint64{rsp: 0x9000, rbp: 0xa000}), frames(0x1000, 0), unwind.StopNoProgress},
		{"fault", code{0x1000: amd64Reg(rsp, 8)}, nil, regs(0x1000, map[int]uint64{rsp: 0x8000}), frames(0x1000, 0), unwind.StopMemory},
		{"no stack pointer", code{0x1000: amd64Reg(rsp, 8)}, nil, regs(0x1000, nil), frames(0x1000, 0), unwind.StopRegister},
		{"guess", code{0x1010: amd64Reg(rsp, 8), 0x1020: root}, words{0x8000: 7, 0x8008: 0x1014, 0x8010: 0x1024},
			regs(0x1000, map[int]uint64{rsp: 0x7000, rbp: 0x8000}), frames(0x1000, 0, 0x1014, uint64(gue), 0x1024, uint64(ret)), unwind.StopRoot},
		{"guess: zero", code{}, nil, regs(0x1000, map[int]uint64{rsp: 0x7000, rbp: 0}), frames(0x1000, 0), unwind.StopRoot},
		{"guess: no caller", code{}, words{0x8000: 1, 0x8008: 0}, regs(0x1000, map[int]uint64{rsp: 0x7000, rbp: 0x8000}),
			frames(0x1000, 0), unwind.StopRoot},
		{"guess: not aligned", code{}, nil, regs(0x1000, map[int]uint64{rsp: 0x7000, rbp: 0x8004}), frames(0x1000, 0), unwind.StopNoRule},
		{"guess: below the stack", code{}, nil, regs(0x1000, map[int]uint64{rsp: 0x9000, rbp: 0x8000}), frames(0x1000, 0), unwind.StopNoRule},
		{"guess: at the end of memory", code{}, nil, regs(0x1000, map[int]uint64{rsp: 0x9000, rbp: ^uint64(7)}), frames(0x1000, 0), unwind.StopNoRule},
		{"guess: not code", code{}, words{0x8000: 1, 0x8008: 0x5000}, regs(0x1000, map[int]uint64{rsp: 0x7000, rbp: 0x8000}),
			frames(0x1000, 0), unwind.StopNoRule},
		{"guess: fault", code{}, nil, regs(0x1000, map[int]uint64{rsp: 0x7000, rbp: 0x8000}), frames(0x1000, 0), unwind.StopNoRule},
		{"saved register at a fault", code{0x1000: saved, 0x1010: amd64Reg(rbp, 16)}, words{0x8010: 0x1014},
			regs(0x1000, map[int]uint64{rsp: 0x8000}), frames(0x1000, 0, 0x1014, uint64(ret)), unwind.StopMemory},
		{"guess: register lost", code{0x1000: lost}, words{0x8000: 0x1014}, regs(0x1000, map[int]uint64{rsp: 0x8000}),
			frames(0x1000, 0, 0x1014, uint64(ret)), unwind.StopNoRule},
		{"chain", code{0x1000: chain, 0x1010: root}, words{0x8000: 7, 0x8008: 0x1014}, regs(0x1000, map[int]uint64{rsp: 0x7000, rbp: 0x8000}),
			frames(0x1000, 0, 0x1014, uint64(ret)), unwind.StopRoot},
		{"chain downwards", code{0x1000: chain}, nil, regs(0x1000, map[int]uint64{rsp: 0x9000, rbp: 0x8000}),
			frames(0x1000, 0), unwind.StopNoRule},
		{"chain: fault", code{0x1000: chain}, nil, regs(0x1000, map[int]uint64{rsp: 0x7000, rbp: 0x8000}), frames(0x1000, 0), unwind.StopMemory},
		{"Go without a switcher", code{0x1000: gorule}, nil, regs(0x1000, map[int]uint64{rsp: 0x7000}), frames(0x1000, 0), unwind.StopRuntime},
	} {
		var w Walker
		got, stop := w.Walk(c.regs, unwind.ArchAMD64, memory{words: c.mem}, c.code, nil, 100)
		if !slices.Equal(got, c.want) || stop != c.stop {
			t.Errorf("%s: %v, %x; want %v, %x", c.name, stop, got, c.stop, c.want)
		}
	}
}

// TestARM64 has what differs there: the link register, signed return addresses, and frames whose stack pointer a guess
// does not tell.
func TestARM64(t *testing.T) {
	const sp, fp, lr = unwind.ARM64SP, unwind.ARM64FP, unwind.ARM64LR
	leaf := unwind.Rule{CFA: unwind.CFAReg, Reg: sp, RA: unwind.RAReg, RAOffset: lr}
	frame := unwind.Rule{CFA: unwind.CFAReg, Reg: sp, Offset: 32, RAOffset: -3, FP: unwind.SaveAtCFA, FPOffset: -4}
	byFP := frame
	byFP.Reg = fp
	mem := memory{words: map[unwind.Addr]uint64{
		0x8000: 0x8020, 0x8008: 0x1018 | 0x35<<55 | 0x7f<<48,
		0x8020: 0x8040, 0x8028: 0x1028,
		0x8040: 0x8060, 0x8048: 0x1038,
		0x8060: 0, 0x8068: 0,
	}}
	for _, c := range []struct {
		name string
		code code
		want []unwind.RawFrame
		stop unwind.StopReason
	}{
		{"leaf, signed", code{0x1000: leaf, 0x1010: frame, 0x1020: frame, 0x1030: root},
			frames(0x1004, 0, 0x1014, uint64(ret), 0x1018, uint64(ret), 0x1028, uint64(ret), 0x1038, uint64(ret)), unwind.StopRoot},
		{"guess, then by stack pointer", code{0x1000: {}, 0x1010: frame, 0x1020: byFP, 0x1030: frame},
			frames(0x1004, 0, 0x1018, uint64(gue), 0x1028, uint64(gue), 0x1038, uint64(ret)), unwind.StopRoot},
		{"link register of a caller", code{0x1000: leaf, 0x1010: leaf}, frames(0x1004, 0, 0x1014, uint64(ret)), unwind.StopNoProgress},
		{"chain", code{0x1000: chain, 0x1010: byFP, 0x1020: root},
			frames(0x1004, 0, 0x1018, uint64(ret), 0x1028, uint64(ret)), unwind.StopRoot},
	} {
		var w Walker
		got, stop := w.Walk(regs(0x1004, map[int]uint64{sp: 0x8000, fp: 0x8000, lr: 0x1014}), unwind.ArchARM64, mem, c.code, nil, 100)
		if !slices.Equal(got, c.want) || stop != c.stop {
			t.Errorf("%s: %v, %x; want %v, %x", c.name, stop, got, c.stop, c.want)
		}
	}
}

// TestInterrupted comes from code that Go's signal handler made two functions call: one with a frame, whose last executed
// instruction is a function's last, and a leaf, whose return address is the link register that the handler pushed.
func TestInterrupted(t *testing.T) {
	const sp, fp, lr = unwind.ARM64SP, unwind.ARM64FP, unwind.ARM64LR
	leaf := unwind.Rule{CFA: unwind.CFAReg, Reg: sp, RA: unwind.RAReg, RAOffset: lr}
	frame := unwind.Rule{CFA: unwind.CFAReg, Reg: sp, Offset: 32, RAOffset: -4, FP: unwind.SaveAtCFA, FPOffset: -5}
	before := leaf // the call's prologue
	before.Offset, before.Offset2 = 16, int16(unwind.CFANoteInterrupted)
	after := unwind.Rule{CFA: unwind.CFAReg, Reg: sp, Offset: 48, Offset2: int16(unwind.CFANoteInterrupted), RAOffset: -6,
		FP: unwind.SaveAtCFA, FPOffset: -7}
	mem := memory{words: map[unwind.Addr]uint64{
		0x7ff8: 0x7777, 0x8000: 0x1010, 0x8020: 0x1024, // after its prologue: return address, the link register
		0x8030: 0x1034, 0x8028: 0x8888, // what the function with a frame saved
	}}
	for _, c := range []struct {
		name string
		code code
		lr   uint64
		sp   uint64
		want []unwind.RawFrame
		stop unwind.StopReason
	}{
		{"a leaf, before the prologue", code{0x1000: before, 0x1010: leaf, 0x1020: root}, 0x1010, 0x8020,
			frames(0x1000, 0, 0x1010, 0, 0x1024, uint64(ret)), unwind.StopRoot},
		{"a leaf, after the prologue", code{0x1000: after, 0x1010: leaf, 0x1020: root}, 1, 0x8000,
			frames(0x1000, 0, 0x1010, 0, 0x1024, uint64(ret)), unwind.StopRoot},
		{"a frame", code{0x1000: after, 0x1010: frame, 0x1030: root}, 1, 0x8000,
			frames(0x1000, 0, 0x1010, 0, 0x1034, uint64(ret)), unwind.StopRoot},
		{"the link register is not followed further", code{0x1000: before, 0x1010: leaf, 0x1020: leaf}, 0x1010, 0x8020,
			frames(0x1000, 0, 0x1010, 0, 0x1024, uint64(ret)), unwind.StopNoProgress},
	} {
		var w Walker
		got, stop := w.Walk(regs(0x1000, map[int]uint64{sp: c.sp, fp: 0x9000, lr: c.lr}), unwind.ArchARM64, mem, c.code, nil, 100)
		if !slices.Equal(got, c.want) || stop != c.stop {
			t.Errorf("%s: %v, %x; want %v, %x", c.name, stop, got, c.stop, c.want)
		}
	}
}

// TestSignalARM64 restores every register from a signal frame, on another stack.
func TestSignalARM64(t *testing.T) {
	const frame = 0x20000
	mem := memory{words: map[unwind.Addr]uint64{}}
	for i := range uint64(31) {
		mem.words[unwind.Addr(frame+312+8*i)] = 0x100 + i
	}
	mem.words[frame+312+8*30] = 0x1024 // x30
	mem.words[frame+560] = 0x8000      // sp
	mem.words[frame+568] = 0x1010      // pc
	leaf := unwind.Rule{CFA: unwind.CFAReg, Reg: unwind.ARM64SP, RA: unwind.RAReg, RAOffset: unwind.ARM64LR}
	c := code{0x1000: signal, 0x1010: leaf, 0x1020: root}
	var w Walker
	got, stop := w.Walk(regs(0x1000, map[int]uint64{unwind.ARM64SP: frame}), unwind.ArchARM64, mem, c, nil, 100)
	if want := frames(0x1000, 0, 0x1010, 0, 0x1024, uint64(ret)); !slices.Equal(got, want) || stop != unwind.StopRoot {
		t.Errorf("%v, %x", stop, got)
	}
}

// TestResume stops for each thing that can be missing, gets it, and goes on.
func TestResume(t *testing.T) {
	c := code{0x1000: amd64Reg(rsp, 8), 0x1010: later, 0x1030: root}
	mem := &memory{words: map[unwind.Addr]uint64{0x8000: 0x1014, 0x8008: 0x1024, 0x8010: 0x1034}, end: 0x8008}
	var w Walker
	got, stop := w.Walk(regs(0x1000, map[int]uint64{rsp: 0x8000}), unwind.ArchAMD64, mem, c, nil, 3)
	if stop != unwind.StopNoTable || len(got) != 2 {
		t.Fatalf("%v, %x", stop, got)
	}
	c[0x1010] = amd64Reg(rsp, 8)
	if got, stop = w.Resume(got, 3); stop != unwind.StopCopyEnd || len(got) != 2 {
		t.Fatalf("%v, %x", stop, got)
	}
	mem.end = 0
	c[0x1020] = amd64Reg(rsp, 8)
	if got, stop = w.Resume(got, 3); stop != unwind.StopMaxFrames || len(got) != 3 {
		t.Fatalf("%v, %x", stop, got)
	}
	if got, stop = w.Resume(got, 4); stop != unwind.StopRoot ||
		!slices.Equal(got, frames(0x1000, 0, 0x1014, uint64(ret), 0x1024, uint64(ret), 0x1034, uint64(ret))) {
		t.Fatalf("%v, %x", stop, got)
	}
}

// goroutine is a GoSwitcher that knows one goroutine.
type goroutine struct {
	regs     unwind.Registers
	isReturn bool
	stop     unwind.StopReason
	ok       bool
}

func (g goroutine) GoSwitch(unwind.Mapping, unwind.Rule, *unwind.Registers) (unwind.Registers, bool, unwind.StopReason, bool) {
	return g.regs, g.isReturn, g.stop, g.ok
}

// TestReturnToNothing: a return address of 0 that a rule has found is above a coroutine's first function.
func TestReturnToNothing(t *testing.T) {
	c := code{0x1000: amd64Reg(rsp, 8), 0x1010: amd64Reg(rsp, 8)}
	var w Walker
	got, stop := w.Walk(regs(0x1004, map[int]uint64{rsp: 0x8000}), unwind.ArchAMD64,
		&memory{words: map[unwind.Addr]uint64{0x8000: 0x1014, 0x8008: 0}}, c, nil, 10)
	if !slices.Equal(got, frames(0x1004, 0, 0x1014, uint64(ret))) || stop != unwind.StopRoot {
		t.Errorf("%v, %v", got, stop)
	}
	// A call to address 0 has a caller.
	if got, stop = w.Walk(regs(0, map[int]uint64{rsp: 0x8000}), unwind.ArchAMD64, &memory{}, c, nil, 10); len(got) > 1 || stop != unwind.StopNoMapping {
		t.Errorf("pc 0: %v, %v", got, stop)
	}
}

func TestGoSwitch(t *testing.T) {
	c := code{0x1000: gorule, 0x1010: amd64Reg(rsp, 8), 0x1020: root}
	mem := memory{words: map[unwind.Addr]uint64{0x4000: 0x1024}}
	w := Walker{Go: goroutine{regs: *regs(0x1014, map[int]uint64{rsp: 0x4000}), isReturn: true, ok: true}}
	got, stop := w.Walk(regs(0x1000, map[int]uint64{rsp: 0x8000}), unwind.ArchAMD64, mem, c, nil, 10)
	if !slices.Equal(got, frames(0x1000, 0, 0x1014, uint64(ret), 0x1024, uint64(ret))) || stop != unwind.StopRoot {
		t.Errorf("%v, %x", stop, got)
	}
	w.Go = goroutine{stop: unwind.StopRoot}
	got, stop = w.Walk(regs(0x1000, map[int]uint64{rsp: 0x8000}), unwind.ArchAMD64, mem, c, nil, 10)
	if len(got) != 1 || stop != unwind.StopRoot {
		t.Errorf("%v, %x", stop, got)
	}
}

// TestLoop ends at the limit when hostile memory leads in circles: a signal frame that restores itself.
func TestLoop(t *testing.T) {
	mem := memory{words: map[unwind.Addr]uint64{}}
	for i := range uint64(17) {
		mem.words[unwind.Addr(0x8000+40+8*i)] = 0x8000
	}
	mem.words[0x8000+168] = 0x1000
	var w Walker
	got, stop := w.Walk(regs(0x1000, map[int]uint64{rsp: 0x8000}), unwind.ArchAMD64, mem, code{0x1000: signal}, nil, 64)
	if len(got) != 64 || stop != unwind.StopMaxFrames {
		t.Errorf("%v, %d frames", stop, len(got))
	}
}

func FuzzWalk(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, uint64(0x8000), true)
	f.Fuzz(func(t *testing.T, b []byte, sp uint64, arm bool) {
		c, mem := code{}, memory{words: map[unwind.Addr]uint64{}}
		next := func() byte {
			if len(b) == 0 {
				return 0
			}
			v := b[0]
			b = b[1:]
			return v
		}
		for i := range unwind.Addr(16) {
			c[0x1000+16*i] = unwind.Rule{CFA: unwind.CFAKind(next() % 9), Reg: next(), Offset: int32(int8(next())), RA: unwind.RAKind(next() % 2),
				RAOffset: int16(int8(next())), FP: unwind.SaveKind(next() % 5), FPOffset: int16(int8(next())), Offset2: int16(next() % 16)}
		}
		for i := range unwind.Addr(64) {
			mem.words[unwind.Addr(sp&^7)+8*i-128] = 0x1000 + uint64(next())
		}
		r := unwind.Registers{PC: 0x1000 + unwind.Addr(next()), Known: ^uint32(0)}
		for i := range r.Reg {
			r.Reg[i] = sp + uint64(next())
		}
		arch := unwind.ArchAMD64
		if arm {
			arch = unwind.ArchARM64
		}
		var w Walker
		if got, _ := w.Walk(&r, arch, mem, c, nil, 50); len(got) == 0 || len(got) > 50 {
			t.Fatalf("%d frames", len(got))
		}
	})
}
