package codeflow

import (
	"encoding/binary"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// arm64 decodes by hand the few instructions that matter. Encodings: Arm Architecture Reference Manual for A-profile,
// DDI 0487 K.a, C4.1.
type arm64 struct{}

func (arm64) entry() state { return state{base: unwind.ARM64SP} }

const (
	armFP = unwind.ARM64FP
	armLR = unwind.ARM64LR
	armSP = unwind.ARM64SP
)

func (arm64) step(s *state, b []byte, at unwind.FileAddr) (size int, f flow, target unwind.FileAddr, known bool) {
	if len(b) < 4 || at&3 != 0 {
		return 0, flowEnd, 0, false
	}
	w := binary.LittleEndian.Uint32(b)
	branch := func(bits uint, shift uint) unwind.FileAddr {
		return at + unwind.FileAddr(int64(int32(w<<(32-bits-shift))>>(32-bits))*4)
	}
	switch {
	case w == 0 || w&0xffe0001f == 0xd4200000: // udf, brk
		return 4, flowEnd, 0, true
	case w>>26 == 0x05: // b
		return 4, flowJump, branch(26, 0), true
	case w&0xff000010 == 0x54000000, w&0x7e000000 == 0x34000000: // b.cond, cbz, cbnz
		return 4, flowBranch, branch(19, 5), true
	case w&0x7e000000 == 0x36000000: // tbz, tbnz
		return 4, flowBranch, branch(14, 5), true
	case w>>26 == 0x25, w&0xfffffc1f == 0xd63f0000: // bl, blr
		if s.ra.kind == inRegister {
			s.ra.kind = lost
		}
		if w>>26 == 0x25 {
			return 4, flowCall, branch(0, 26), true
		}
		return 4, flowCall, 0, true
	case w&0xfffffc1f == 0xd61f0000: // br
		return 4, flowIndirect, 0, true
	case w&0xfffffc1f == 0xd65f0000, w == 0xd65f0bff, w == 0xd65f0fff: // ret, retaa, retab
		return 4, flowReturn, 0, true
	}
	return 4, flowNext, 0, armEffect(s, w)
}

// armEffect is what an instruction does to the stack and frame pointers and where it saves them and the link register.
func armEffect(s *state, w uint32) (known bool) {
	rd, rn := uint8(w&31), uint8(w>>5&31)
	switch {
	case w&0x7f800000 == 0x11000000 || w&0x7f800000 == 0x51000000: // add, sub immediate
		return armAdd(s, w, rd, rn)
	case rd == armSP && (w&0x3fe00000 == 0x0b200000 || w&0x1f800000 == 0x12000000 && w&0x60000000 != 0x60000000):
		return armLostSP(s) // add, sub of a register; and, orr, eor of an immediate
	case w&0xffa0f000 == 0x04205000: // addvl, addpl, addsvl, addspl: multiples of a vector's length
		if rd == armSP {
			return armLostSP(s)
		}
		armWritten(s, rd)
	case w&0xbe800000 == 0x0c800000: // load, store vectors, post-indexed
		return armVectors(s, w, rn)
	case w&0x3a000000 == 0x28000000: // load, store pair
		return armPair(s, w)
	case w&0x3b200c00 == 0x38000400 || w&0x3b200c00 == 0x38000c00: // load, store register, post- or pre-indexed
		imm := int32(w<<11) >> 23
		if rn == armSP {
			pre, store := w&0x800 != 0, w>>22&3 == 0
			at := s.cfa
			if pre {
				at -= imm
			}
			armAccess(s, w, rd, at, store)
			return armMove(s, -imm)
		}
		armWritten(s, rn)
		if w>>22&3 != 0 && w&0x04000000 == 0 {
			armWritten(s, rd)
		}
	case w&0xff800000 == 0xf9000000: // str, ldr of 64 bits, unsigned offset
		imm := int32(w>>10&0xfff) * 8
		store := w>>22&1 == 0
		if at, ok := armAddress(s, rn, imm); ok {
			armAccess(s, w, rd, at, store)
		} else if !store {
			armWritten(s, rd)
		}
	case w&0xffe0ffff == 0xaa0003fd: // mov x29, register
		armWritten(s, armFP)
	case w&0x1f == armFP && isDataProcessing(w):
		armWritten(s, armFP)
	}
	return s.base == armSP || s.framed
}

// isDataProcessing tells whether the instruction computes into a general register.
func isDataProcessing(w uint32) bool { return w>>26&7 == 4 || w>>25&7 == 5 }

func armMove(s *state, n int32) bool {
	if s.base == armSP {
		s.cfa += n
	}
	return (s.base == armSP || s.framed) && s.cfa > -1<<30 && s.cfa < 1<<30
}

// armAdd follows add and sub of an immediate, to which mov to and from sp belongs.
func armAdd(s *state, w uint32, rd, rn uint8) bool {
	imm := int32(w >> 10 & 0xfff)
	if w&(1<<22) != 0 {
		imm <<= 12
	}
	if w&(1<<30) != 0 {
		imm = -imm
	}
	wide := w>>31 == 1
	from, ok := int32(0), false
	switch {
	case rn == armSP && s.base == armSP:
		from, ok = s.cfa-imm, wide
	case rn == armFP && s.framed:
		from, ok = s.fp-imm, wide
	}
	switch {
	case rd == armSP && ok:
		s.base, s.cfa = armSP, from
	case rd == armSP:
		return armLostSP(s)
	case rd == armFP && ok && rn == armSP:
		if s.fpSaved.kind == inRegister {
			s.fpSaved.kind = lost
		}
		s.framed, s.fp = true, from
	case rd == armFP:
		armWritten(s, armFP)
	}
	return s.base == armSP || s.framed
}

// armLostSP goes over to the frame pointer.
func armLostSP(s *state) bool {
	if s.framed {
		s.base, s.cfa = armFP, s.fp
	}
	return s.framed
}

// armWritten notes that a register was overwritten.
func armWritten(s *state, r uint8) {
	switch r {
	case armFP:
		if s.fpSaved.kind == inRegister {
			s.fpSaved.kind = lost
		}
		s.framed = false
	case armLR:
		if s.ra.kind == inRegister {
			s.ra.kind = lost
		}
	}
}

// armAddress is how far below the CFA register + imm is.
func armAddress(s *state, rn uint8, imm int32) (int32, bool) {
	switch {
	case rn == armSP && s.base == armSP:
		return s.cfa - imm, true
	case rn == armFP && s.framed:
		return s.fp - imm, true
	}
	return 0, false
}

// armAccess notes a load or store of a register at CFA-at.
func armAccess(s *state, w uint32, r uint8, at int32, store bool) {
	if w&0x04000000 != 0 { // vector registers
		return
	}
	x := &s.ra
	switch r {
	case armFP:
		x = &s.fpSaved
	case armLR:
	default:
		return
	}
	switch {
	case store && x.kind == inRegister && !(r == armFP && s.framed):
		*x = slot{onStack, at}
	case !store && *x == slot{onStack, at}:
		*x = slot{}
	case !store:
		armWritten(s, r)
	}
	if !store && r == armFP {
		s.framed = false
	}
}

// armPair follows ldp and stp; the registers are 64 bits wide if they are to be the caller's.
func armPair(s *state, w uint32) bool {
	r1, rn, r2 := uint8(w&31), uint8(w>>5&31), uint8(w>>10&31)
	scale := int32(4) << (w >> 31)
	if w&0x04000000 != 0 {
		scale = 4 << (w >> 30)
	}
	imm := (int32(w<<10) >> 25) * scale
	store := w&(1<<22) == 0
	mode := w >> 23 & 3 // 1: post-indexed, 2: offset, 3: pre-indexed
	offset := imm
	if mode == 1 {
		offset = 0
	}
	if at, ok := armAddress(s, rn, offset); ok && scale == 8 {
		armAccess(s, w, r1, at, store)
		armAccess(s, w, r2, at-8, store)
	} else if !store && w&0x04000000 == 0 {
		armWritten(s, r1)
		armWritten(s, r2)
	}
	if mode != 1 && mode != 3 {
		return s.base == armSP || s.framed
	}
	if rn == armSP {
		return armMove(s, -imm)
	}
	armWritten(s, rn)
	return s.base == armSP || s.framed
}

// armVectors follows the loads and stores of one to four vectors, or of an element of each, that change their base: by
// their size if they name no register for it.
func armVectors(s *state, w uint32, rn uint8) bool {
	if rn != armSP {
		armWritten(s, rn)
		return s.base == armSP || s.framed
	}
	if w>>16&31 != 31 {
		return armLostSP(s)
	}
	var bytes int32
	if w&(1<<24) == 0 { // whole vectors, by opcode
		bytes = [16]int32{0: 4, 2: 4, 4: 3, 6: 3, 7: 1, 8: 2, 10: 2}[w>>12&15] * 8 << (w >> 30 & 1)
	} else {
		size := w >> 14 & 3 // log2 of the bytes
		switch size {
		case 2:
			size += w >> 10 & 1
		case 3: // one element to all places
			size = w >> 10 & 3
		}
		bytes = int32((w>>12&2|w>>21&1)+1) << size
	}
	if bytes == 0 {
		return armLostSP(s) // not allocated
	}
	return armMove(s, -bytes)
}

func (arm64) calls(b []byte, at unwind.FileAddr, yield func(target, behind unwind.FileAddr, called bool)) {
	for i := int(-at & 3); i+4 <= len(b); i += 4 {
		if w := binary.LittleEndian.Uint32(b[i:]); w>>26 == 0x25 {
			at := at + unwind.FileAddr(i)
			yield(at+unwind.FileAddr(int64(int32(w<<6)>>6)*4), at+4, true)
		}
	}
}

func (arm64) padding(b []byte) int {
	n := 0
	for ; n+4 <= len(b); n += 4 {
		if w := binary.LittleEndian.Uint32(b[n:]); w != 0 && w != 0xd503201f {
			break
		}
	}
	return n
}

// boundary: behind a return, an unconditional branch, a call (that may not return), a trap or padding.
func (arm64) boundary(b []byte, at unwind.FileAddr) bool {
	if len(b) < 4 || at&3 != 0 {
		return false
	}
	w := binary.LittleEndian.Uint32(b[len(b)-4:])
	return w == 0 || w == 0xd503201f || w>>26 == 0x05 || w>>26 == 0x25 || w&0xfffffc1f == 0xd65f0000 ||
		w&0xfffffc1f == 0xd61f0000 || w&0xffe0001f == 0xd4200000
}

func (arm64) rule(s state) unwind.Rule {
	r := unwind.Rule{CFA: unwind.CFAReg, Reg: s.base, Offset: s.cfa, RA: unwind.RAReg, RAOffset: armLR}
	if s.hasRecord() {
		r.Reg, r.Offset = armFP, s.fp
	}
	switch s.ra.kind {
	case onStack:
		k, off := s.ra.save()
		if k != unwind.SaveAtCFA {
			return unwind.Rule{}
		}
		r.RA, r.RAOffset = unwind.RAAtCFA, off
	case lost:
		return unwind.Rule{}
	}
	r.FP, r.FPOffset = s.fpSaved.save()
	return r
}
