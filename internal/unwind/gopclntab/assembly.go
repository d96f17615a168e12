package gopclntab

import (
	"bytes"
	"encoding/binary"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// maxCode is how much of an assembly function is looked at; the runtime's that matter have some hundred bytes.
const maxCode = 1024

// assembly makes the rows of a function with flags: written in assembly, outermost on its stack, or one that changes
// stacks. The assembler tells frame sizes as the compiler does, but not what the function saved where, so its first
// instructions are read.
func (t *Table) assembly(rows []row, fn *function, spans []span) []row {
	name, _ := t.name(fn.name)
	if rule, ok := t.wholeRule(name, fn.flags); ok {
		return append(rows, row{0, rule})
	}
	size := min(fn.end-fn.entry, maxCode)
	code := t.mem.bytes(t.text+unwind.FileAddr(fn.entry), int(size))
	var a asmFunc
	preempt := name == "runtime.asyncPreempt"
	if t.arch == unwind.ArchAMD64 {
		a = amd64Func(code, spans)
		a.byHandler = preempt
		if name == "crosscall2" { // C called it
			a.findSave(code, spans, unwind.AMD64RBX, 3)
		}
	} else {
		a = arm64Func(code, spans)
		if preempt { // stores the link register below the stack pointer, then lowers it
			first, ok := firstFrame(spans)
			a = asmFunc{arch: t.arch, framed: ok, frame: first.delta, byHandler: true, injected: 16}
		}
	}
	for i, s := range spans {
		end := uint64(fn.end - fn.entry)
		if i+1 < len(spans) {
			end = spans[i+1].start
		}
		rows = a.add(rows, s, end)
	}
	return t.switches(rows, name, fn.flags, code, &a)
}

// asmFunc is what an assembly function's beginning tells.
type asmFunc struct {
	arch  unwind.Arch
	frame int32 // bytes of the frame that the assembler's prologue makes; 0 if there is none
	// framed: that prologue saves the frame pointer (amd64), or the link register and the frame pointer (arm64), and
	// sets up its own.
	framed bool
	// own is where the frame pointer begins to be the function's own.
	own uint64
	// saves are registers that the function stored itself.
	saves []save
	// linked: it calls nothing, so that the link register keeps the return address though the prologue saves that too
	// (arm64). internal/chacha8rand.block of Go 1.22 to 1.26 stores its counter over what was saved.
	linked bool
	// byHandler: a signal handler made the interrupted code call this function, see unwind.CFANoteInterrupted.
	byHandler bool
	// injected: bytes that it put on the stack before that (arm64: where the link register went).
	injected int32
}

// save is a store of a register at CFA-at, done before the instruction at start.
type save struct {
	reg   uint8
	start uint64
	at    int32
}

func (a *asmFunc) saved(reg uint8, at uint64) (save, bool) {
	for _, s := range a.saves {
		if s.reg == reg && s.start <= at {
			return s, true
		}
	}
	return save{}, false
}

// add adds the rows for a run of one frame size, split where a register gets saved in it.
func (a *asmFunc) add(rows []row, s span, end uint64) []row {
	rows = append(rows, row{s.start, a.rule(s.start, s.delta)})
	for _, v := range a.saves { // in ascending order
		if v.start > s.start && v.start < end {
			rows = append(rows, row{v.start, a.rule(v.start, s.delta)})
		}
	}
	return rows
}

func (a *asmFunc) rule(at uint64, delta int32) unwind.Rule {
	if delta == noDelta {
		return unwind.Rule{}
	}
	if a.arch == unwind.ArchARM64 {
		return a.ruleARM64(at, delta)
	}
	r := unwind.Rule{
		CFA: unwind.CFAReg, Reg: unwind.AMD64RSP, Offset: delta + 8, RAOffset: -1, BX: unwind.SaveUndefined,
	}
	r = a.interrupted(r)
	if a.framed && delta > 0 {
		r.FP, r.FPOffset = unwind.SaveAtCFA, -2
	}
	if delta == 0 {
		return r
	}
	if s, ok := a.saved(unwind.AMD64RBP, at); ok {
		r.FP, r.FPOffset = unwind.SaveAtCFA, int16(-s.at/8)
	}
	if s, ok := a.saved(unwind.AMD64RBX, at); ok {
		r.BX, r.BXOffset = unwind.SaveAtCFA, int16(-s.at/8)
	}
	return r
}

func (a *asmFunc) ruleARM64(at uint64, delta int32) unwind.Rule {
	if a.framed && delta > 0 {
		r := savedLinkRule(delta+a.injected, a.frame+a.injected)
		if a.linked {
			r.RA, r.RAOffset = unwind.RAReg, unwind.ARM64LR
		}
		return a.interrupted(r)
	}
	r := a.interrupted(linkRule(delta + a.injected))
	if delta == 0 {
		return r
	}
	if s, ok := a.saved(unwind.ARM64LR, at); ok {
		r.RA, r.RAOffset = unwind.RAAtCFA, int16(-s.at/8)
	}
	if s, ok := a.saved(unwind.ARM64FP, at); ok {
		r.FP, r.FPOffset = unwind.SaveAtCFA, int16(-s.at/8)
	}
	return r
}

// interrupted marks a rule of a function that interrupted code was made to call.
func (a *asmFunc) interrupted(r unwind.Rule) unwind.Rule {
	if a.byHandler && r.CFA == unwind.CFAReg {
		r.Offset2 = int16(unwind.CFANoteInterrupted)
	}
	return r
}

// firstFrame is the first run with a frame.
func firstFrame(spans []span) (span, bool) {
	for _, s := range spans {
		if s.delta > 0 {
			return s, true
		}
	}
	return span{}, false
}

// deltaAt is the frame size at an offset.
func deltaAt(spans []span, at uint64) int32 {
	delta := int32(0)
	for _, s := range spans {
		if s.start > at {
			break
		}
		delta = s.delta
	}
	return delta
}

// amd64Func reads the start of an amd64 function. The assembler's prologue is "push rbp; mov rbp, rsp" from Go 1.21
// on and before "sub rsp, frame; mov [rsp+frame-8], rbp; lea rbp, [rsp+frame-8]".
func amd64Func(code []byte, spans []span) asmFunc {
	a := asmFunc{arch: unwind.ArchAMD64}
	first, ok := firstFrame(spans)
	if !ok || first.start == 0 || first.start >= uint64(len(code)) {
		return a
	}
	rest := code[first.start:]
	switch {
	case first.delta == 8 && code[first.start-1] == 0x55 && bytes.HasPrefix(rest, []byte{0x48, 0x89, 0xe5}):
		a.framed, a.own = true, first.start+3
	default:
		at, n := storeRSP(rest, 5)
		a.framed, a.own = n > 0 && at == first.delta-8, first.start+2*n
	}
	if a.framed {
		a.frame = first.delta
		return a
	}
	a.findSave(code, spans, unwind.AMD64RBP, 5)
	return a
}

// findSave finds where the function stores one of C's callee-saved registers, as PUSH_REGS_HOST_TO_ABI0 does
// (runtime/cgo/abi_amd64.h).
func (a *asmFunc) findSave(code []byte, spans []span, dwarf, number uint8) {
	first, ok := firstFrame(spans)
	for i := first.start; ok && i < uint64(len(code)); i++ {
		at, n := storeRSP(code[i:], number)
		if n == 0 {
			continue
		}
		if d := deltaAt(spans, i) + 8 - at; d > 0 && d%8 == 0 && d < 1<<15 {
			a.saves = append(a.saves, save{dwarf, i + n, d})
		}
		return
	}
}

// storeRSP decodes "mov [rsp+at], reg" with a register number below 8; n is its length, 0 if it is something else.
func storeRSP(b []byte, reg byte) (at int32, n uint64) {
	if len(b) < 5 || b[0] != 0x48 || b[1] != 0x89 || b[3] != 0x24 {
		return 0, 0
	}
	switch b[2] {
	case 0x04 | reg<<3:
		return 0, 4
	case 0x44 | reg<<3:
		return int32(int8(b[4])), 5
	case 0x84 | reg<<3:
		if len(b) >= 8 {
			return int32(binary.LittleEndian.Uint32(b[4:])), 8
		}
	}
	return 0, 0
}

// arm64 instructions. Arm Architecture Reference Manual for A-profile (DDI 0487), chapter C6.
const (
	strLRPre   = 0xf8000c00 | 31<<5 | 30 // str x30, [sp, #imm9]!
	strLR      = 0xf9000000 | 31<<5 | 30 // str x30, [sp, #8*imm12]
	stpFPLR    = 0xa9000000 | 30<<10 | 31<<5 | 29
	imm9Mask   = 0x1ff << 12
	imm12Mask  = 0xfff << 10
	imm7Mask   = 0x7f << 15
	movToSP    = 0x91000000 | 31 // mov sp, xN
	movRegMask = 31 << 5
	blMask     = 0xfc000000
	blARM64    = 0x94000000
	blrMask    = 0xfffffc1f
	blrARM64   = 0xd63f0000
)

func arm64Ins(code []byte, at uint64) uint32 {
	if at+4 > uint64(len(code)) {
		return 0
	}
	return binary.LittleEndian.Uint32(code[at:])
}

// arm64Func reads the start of an arm64 function. The assembler's prologue is "str x30, [sp, #-frame]!; stur x29,
// [sp, #-8]; sub x29, sp, #8", or for large frames one that stores through another register and then sets sp.
func arm64Func(code []byte, spans []span) asmFunc {
	a := asmFunc{arch: unwind.ArchARM64}
	first, ok := firstFrame(spans)
	if !ok || first.start < 4 || first.start > uint64(len(code)) {
		return a
	}
	prev := arm64Ins(code, first.start-4)
	a.framed = prev&^imm9Mask == strLRPre || prev&^movRegMask == movToSP
	if a.framed {
		a.frame, a.own = first.delta, first.start+8
		a.linked = len(code) < maxCode && !callsARM64(code)
		return a
	}
	for i := first.start; i+4 <= uint64(len(code)); i += 4 {
		ins, delta := arm64Ins(code, i), deltaAt(spans, i)
		switch {
		case ins&^imm7Mask == stpFPLR:
			at := delta - 8*(int32(ins<<10)>>25)
			a.saves = append(a.saves, save{unwind.ARM64FP, i + 4, at}, save{unwind.ARM64LR, i + 4, at - 8})
			return a
		case ins&^imm12Mask == strLR:
			a.saves = append(a.saves, save{unwind.ARM64LR, i + 4, delta - 8*int32(ins>>10&0xfff)})
			return a
		}
	}
	return a
}

// callsARM64 tells whether there is a call, which changes the link register.
func callsARM64(code []byte) bool {
	for at := uint64(0); at+4 <= uint64(len(code)); at += 4 {
		ins := arm64Ins(code, at)
		if ins&blMask == blARM64 || ins&blrMask == blrARM64 {
			return true
		}
	}
	return false
}
