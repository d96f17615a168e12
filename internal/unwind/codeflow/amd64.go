package codeflow

import (
	"bytes"
	"encoding/binary"

	"golang.org/x/arch/x86/x86asm"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

type amd64 struct{}

func (amd64) entry() state {
	return state{base: unwind.AMD64RSP, cfa: 8, ra: slot{onStack, 8}}
}

func (amd64) step(s *state, b []byte, at unwind.FileAddr) (size int, f flow, target unwind.FileAddr, known bool) {
	if bytes.HasPrefix(b, []byte{0xf3, 0x0f, 0x1e, 0xfa}) { // endbr64
		return 4, flowNext, 0, true
	}
	if n := longNop(b); n > 0 { // the decoder does not know those with several prefixes
		return n, flowNext, 0, true
	}
	if len(b) == 0 || len(b) > 1 && b[0] == 0 && b[1] == 0 { // padding, not "add %al,(%rax)"
		return 0, flowEnd, 0, false
	}
	in, err := x86asm.Decode(b[:min(len(b), 15)], 64)
	if err != nil || in.Len == 0 || in.Len > len(b) {
		return 0, flowEnd, 0, false
	}
	switch in.Op {
	case x86asm.RET:
		return in.Len, flowReturn, 0, true
	case x86asm.LRET, x86asm.IRET, x86asm.IRETD, x86asm.IRETQ, x86asm.UD2, x86asm.HLT:
		return in.Len, flowEnd, 0, true
	case x86asm.JMP:
		if rel, ok := in.Args[0].(x86asm.Rel); ok {
			return in.Len, flowJump, relative(at, in.Len, rel), true
		}
		if m, ok := in.Args[0].(x86asm.Mem); ok && s.callers(m) {
			return in.Len, flowForeign, 0, true
		}
		return in.Len, flowIndirect, 0, true
	case x86asm.CALL:
		if s.ra.kind == inRegister {
			s.ra.kind = lost
		}
		if rel, ok := in.Args[0].(x86asm.Rel); ok {
			return in.Len, flowCall, relative(at, in.Len, rel), true
		}
		return in.Len, flowCall, 0, true
	case x86asm.CMP, x86asm.TEST, x86asm.NOP, x86asm.SYSCALL:
		return in.Len, flowNext, 0, true
	}
	if rel, ok := in.Args[0].(x86asm.Rel); ok { // conditional jumps, loop
		return in.Len, flowBranch, relative(at, in.Len, rel), true
	}
	return in.Len, flowNext, 0, amd64Effect(s, &in)
}

// callers tells whether an operand of a jump lies where a register points to that is to be the caller's there, as the stack pointer is:
// no function with a return address on the stack goes on there. Those of GHC do: *(%rbp) is their return, *(%rbx) evaluates a
// closure, and *-16(%r13) is in the runtime (rts/include/stg/MachRegs.h of GHC 9.0).
func (s *state) callers(m x86asm.Mem) bool {
	if m.Index != 0 || m.Segment != 0 || s.base != unwind.AMD64RSP || s.cfa != 8 {
		return false
	}
	switch m.Base {
	case x86asm.RBP:
		return !s.framed && s.fpSaved.kind != onStack
	case x86asm.RBX:
		return s.bxSaved.kind != onStack
	case x86asm.R12, x86asm.R13, x86asm.R14, x86asm.R15:
		return true
	}
	return false
}

func relative(at unwind.FileAddr, size int, rel x86asm.Rel) unwind.FileAddr {
	return at + unwind.FileAddr(size) + unwind.FileAddr(int64(rel))
}

// amd64Effect is what an instruction does to the stack pointer, the frame pointer and rbx; known is false if nothing
// tells any more where the CFA is.
func amd64Effect(s *state, in *x86asm.Inst) (known bool) {
	switch in.Op {
	case x86asm.PUSH:
		return push(s, in)
	case x86asm.PUSHFQ, x86asm.PUSHF:
		return s.move(-8)
	case x86asm.POP:
		if s.base == unwind.AMD64RSP && s.cfa == 8 {
			return popRA(s, in)
		}
		if r, ok := in.Args[0].(x86asm.Reg); ok {
			restored(s, r)
			return r != x86asm.RSP && s.move(8)
		}
		return s.move(8)
	case x86asm.POPFQ, x86asm.POPF:
		return s.move(8)
	case x86asm.LEAVE:
		if !s.framed {
			return false
		}
		s.base, s.cfa = unwind.AMD64RSP, s.fp
		restored(s, x86asm.RBP)
		return s.move(8)
	case x86asm.ENTER:
		return false
	case x86asm.XCHG, x86asm.XADD:
		return amd64Exchange(s, in) && amd64Written(s, in)
	}
	return amd64Written(s, in)
}

// amd64Exchange is what an instruction that writes its second operand, too, does to that one.
func amd64Exchange(s *state, in *x86asm.Inst) (known bool) {
	second := *in
	second.Args = x86asm.Args{in.Args[1], in.Args[0]}
	if _, ok := second.Args[0].(x86asm.Reg); !ok {
		return true
	}
	return amd64Written(s, &second)
}

// amd64Written is what an instruction that writes its first operand does.
func amd64Written(s *state, in *x86asm.Inst) (known bool) {
	switch r, _ := in.Args[0].(x86asm.Reg); r {
	case x86asm.RSP, x86asm.ESP, x86asm.SP, x86asm.SPB:
		return writeSP(s, in)
	case x86asm.RBP, x86asm.EBP, x86asm.BP, x86asm.BPB:
		return writeFP(s, in)
	case x86asm.RBX, x86asm.EBX, x86asm.BX, x86asm.BL, x86asm.BH:
		if s.bxSaved.kind == inRegister {
			s.bxSaved.kind = lost
		}
		if m, ok := in.Args[1].(x86asm.Mem); ok && in.Op == x86asm.MOV && s.isSlot(m, s.bxSaved) {
			s.bxSaved = slot{}
		}
		return true
	}
	if r, ok := in.Args[0].(x86asm.Reg); ok && s.ra.kind == inRegister {
		if n, ok := dwarf(r); ok && n == s.ra.at {
			s.ra.kind = lost
		}
	}
	if m, ok := in.Args[0].(x86asm.Mem); ok && in.Op == x86asm.MOV { // a register saved by a store
		if at, ok := s.address(m); ok {
			switch r, _ := in.Args[1].(x86asm.Reg); {
			case r == x86asm.RBX && s.bxSaved.kind == inRegister:
				s.bxSaved = slot{onStack, at}
			case r == x86asm.RBP && s.fpSaved.kind == inRegister && !s.framed:
				s.fpSaved = slot{onStack, at}
			}
		}
	}
	return true
}

// dwarf gives the DWARF numbers of the registers up to rdi, in the order of their encoding.
func dwarf(r x86asm.Reg) (int32, bool) {
	switch {
	case r >= x86asm.RAX && r <= x86asm.RDI:
		return int32([8]uint8{unwind.AMD64RAX, unwind.AMD64RCX, unwind.AMD64RDX, unwind.AMD64RBX, unwind.AMD64RSP,
			unwind.AMD64RBP, unwind.AMD64RSI, unwind.AMD64RDI}[r-x86asm.RAX]), true
	case r >= x86asm.R8 && r <= x86asm.R15:
		return int32(r-x86asm.R8) + unwind.AMD64R8, true
	}
	return 0, false
}

// popRA follows a function that takes its own return address off the stack: vfork, which pushes it again from its
// register, and setjmp and longjmp, which keep it elsewhere.
func popRA(s *state, in *x86asm.Inst) bool {
	s.ra = slot{kind: lost}
	if r, ok := in.Args[0].(x86asm.Reg); ok {
		if n, ok := dwarf(r); ok && r != x86asm.RSP && r != x86asm.RBP && r != x86asm.RBX {
			s.ra = slot{inRegister, n}
		}
	}
	return s.move(8)
}

// move changes the stack pointer by n.
func (s *state) move(n int32) bool {
	if s.base == unwind.AMD64RSP {
		s.cfa -= n
	}
	if s.base == unwind.AMD64RSP && s.cfa < 8 && s.ra.kind == onStack {
		s.ra.kind = lost // what lies below the stack pointer may be overwritten
	}
	return s.cfa > -1<<30 && s.cfa < 1<<30
}

// address is how far below the CFA an operand on the stack lies.
func (s *state) address(m x86asm.Mem) (at int32, ok bool) {
	if m.Index != 0 || m.Disp != int64(int32(m.Disp)) {
		return 0, false
	}
	switch {
	case m.Base == x86asm.RSP && s.base == unwind.AMD64RSP:
		return s.cfa - int32(m.Disp), true
	case m.Base == x86asm.RBP && s.framed:
		return s.fp - int32(m.Disp), true
	}
	return 0, false
}

func (s *state) isSlot(m x86asm.Mem, x slot) bool {
	at, ok := s.address(m)
	return ok && x.kind == onStack && x.at == at
}

func push(s *state, in *x86asm.Inst) bool {
	n := int32(-8)
	if in.DataSize == 16 {
		n = -2
	}
	if !s.move(n) {
		return false
	}
	if s.base != unwind.AMD64RSP {
		return true
	}
	if r, ok := in.Args[0].(x86asm.Reg); ok && s.ra.kind == inRegister && s.cfa == 8 {
		if n, ok := dwarf(r); ok && n == s.ra.at {
			s.ra = slot{onStack, 8}
			return true
		}
	}
	switch in.Args[0] {
	case x86asm.RBP:
		if s.fpSaved.kind == inRegister && !s.framed {
			s.fpSaved = slot{onStack, s.cfa}
		}
	case x86asm.RBX:
		if s.bxSaved.kind == inRegister {
			s.bxSaved = slot{onStack, s.cfa}
		}
	}
	return true
}

// restored notes that a register was popped: it has the caller's value if it came from where that was saved.
func restored(s *state, r x86asm.Reg) {
	switch r {
	case x86asm.RBP:
		s.framed = false
		if s.base == unwind.AMD64RSP && s.fpSaved == (slot{onStack, s.cfa}) {
			s.fpSaved = slot{}
		} else if s.fpSaved.kind == inRegister {
			s.fpSaved.kind = lost
		}
	case x86asm.RBX:
		if s.base == unwind.AMD64RSP && s.bxSaved == (slot{onStack, s.cfa}) {
			s.bxSaved = slot{}
		} else if s.bxSaved.kind == inRegister {
			s.bxSaved.kind = lost
		}
	}
}

// writeSP follows sub, add, lea and mov; after anything else the frame pointer must tell the CFA.
func writeSP(s *state, in *x86asm.Inst) (known bool) {
	imm, isImm := in.Args[1].(x86asm.Imm)
	wide := in.Args[0] == x86asm.RSP
	switch {
	case wide && isImm && imm == x86asm.Imm(int32(imm)) && in.Op == x86asm.SUB:
		return s.move(-int32(imm))
	case wide && isImm && imm == x86asm.Imm(int32(imm)) && in.Op == x86asm.ADD:
		return s.move(int32(imm))
	case wide && in.Op == x86asm.MOV && in.Args[1] == x86asm.RBP && s.framed:
		s.base, s.cfa = unwind.AMD64RSP, s.fp
		return true
	case wide && in.Op == x86asm.LEA:
		if m, ok := in.Args[1].(x86asm.Mem); ok {
			if at, ok := s.address(m); ok {
				s.base, s.cfa = unwind.AMD64RSP, at
				return true
			}
		}
	}
	if !s.framed {
		return false
	}
	s.base, s.cfa = unwind.AMD64RBP, s.fp
	return true
}

// writeFP follows how a frame pointer is set up; any other value leaves only the stack pointer.
func writeFP(s *state, in *x86asm.Inst) (known bool) {
	if s.fpSaved.kind == inRegister {
		s.fpSaved.kind = lost
	}
	if in.Args[0] == x86asm.RBP && s.base == unwind.AMD64RSP {
		m, isMem := in.Args[1].(x86asm.Mem)
		switch {
		case in.Op == x86asm.MOV && in.Args[1] == x86asm.RSP:
			s.framed, s.fp = true, s.cfa
			return true
		case in.Op == x86asm.LEA && isMem:
			if at, ok := s.address(m); ok {
				s.framed, s.fp = true, at
				return true
			}
		case in.Op == x86asm.MOV && isMem && s.isSlot(m, s.fpSaved):
			s.framed, s.fpSaved = false, slot{}
			return true
		}
	}
	s.framed = false
	return s.base == unwind.AMD64RSP
}

func (amd64) calls(b []byte, at unwind.FileAddr, yield func(target, behind unwind.FileAddr, called bool)) {
	for i := 0; i+5 <= len(b); i++ {
		behind := at + unwind.FileAddr(i)
		switch {
		case b[i] == 0xe8:
			behind += 5
			yield(behind+unwind.FileAddr(int64(int32(binary.LittleEndian.Uint32(b[i+1:])))), behind, true)
		case b[i] == 0xc7 && i+6 <= len(b) && b[i+1] == 0xc7: // mov $f,%rdi: main's address in _start
			yield(unwind.FileAddr(binary.LittleEndian.Uint32(b[i+2:])), behind+6, false)
		case b[i] == 0x8d && i+6 <= len(b) && b[i+1]&0xc7 == 5: // lea f(%rip): an address
			behind += 6
			yield(behind+unwind.FileAddr(int64(int32(binary.LittleEndian.Uint32(b[i+2:])))), behind, false)
		}
	}
}

// padding: nops of all lengths, int3, zeros.
func (amd64) padding(b []byte) int {
	n := 0
	for n < len(b) && (b[n] == 0x90 || b[n] == 0xcc || b[n] == 0) {
		n++
	}
	if n > 0 {
		return n
	}
	return longNop(b)
}

// longNop is the length of the nop that b begins with: operand size and segment prefixes, then 90 or 0f 1f /0.
func longNop(b []byte) int {
	n := 0
	for n < len(b) && n < 12 && (b[n] == 0x66 || b[n] == 0x2e) {
		n++
	}
	switch rest := b[n:]; {
	case len(rest) > 0 && rest[0] == 0x90:
		return n + 1
	case len(rest) < 3 || rest[0] != 0x0f || rest[1] != 0x1f:
		return 0
	default:
		modrm := rest[2]
		size := n + 3
		if modrm>>6 != 3 && modrm&7 == 4 {
			size++
		}
		switch {
		case modrm>>6 == 1:
			size++
		case modrm>>6 == 2 || modrm>>6 == 0 && modrm&7 == 5:
			size += 4
		}
		if size > len(b) {
			return 0
		}
		return size
	}
}

// boundary: behind a return, a jump, a call (that may not return), a trap or padding.
func (amd64) boundary(b []byte, _ unwind.FileAddr) bool {
	n := len(b)
	if n < 2 {
		return false
	}
	switch last, before := b[n-1], b[n-2]; {
	case last == 0xc3 || last == 0xcc || last == 0xf4 || last == 0x90:
		return true
	case before == 0xeb, before == 0x0f && last == 0x0b, before == 0xff && last&0xf8 == 0xe0, before == 0xff && last&0xf8 == 0xd0:
		return true
	case last == 0 && before == 0, last == 0 && bytes.Contains(b[max(0, n-10):], []byte{0x0f, 0x1f}):
		return true
	}
	return n >= 5 && (b[n-5] == 0xe8 || b[n-5] == 0xe9)
}

func (amd64) rule(s state) unwind.Rule {
	r := unwind.Rule{CFA: unwind.CFAReg, Reg: s.base, Offset: s.cfa, RAOffset: -1}
	if s.hasRecord() && s.fp == 16 {
		r.Reg, r.Offset = unwind.AMD64RBP, s.fp
	}
	switch s.ra.kind {
	case inRegister:
		r.RA, r.RAOffset = unwind.RAReg, int16(s.ra.at)
	case lost:
		return unwind.Rule{}
	}
	r.FP, r.FPOffset = s.fpSaved.save()
	r.BX, r.BXOffset = s.bxSaved.save()
	return r
}

// hasRecord tells whether the frame pointer points to where the caller's was saved. Such code is walked by the frame
// pointer, which stays right where functions are called that take their arguments off the stack (V8's built-in ones).
func (s *state) hasRecord() bool {
	return s.framed && s.fpSaved == slot{onStack, s.fp}
}

// save expresses a slot.
func (x slot) save() (unwind.SaveKind, int16) {
	switch {
	case x.kind == inRegister:
		return unwind.SaveSame, 0
	case x.kind == onStack && x.at%8 == 0 && -x.at/8 == int32(int16(-x.at/8)):
		return unwind.SaveAtCFA, int16(-x.at / 8)
	}
	return unwind.SaveUndefined, 0
}
