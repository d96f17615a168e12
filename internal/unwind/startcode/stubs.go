package startcode

import (
	"bytes"
	"encoding/binary"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// Stubs are the jumps to imported functions. GNU ld describes them for amd64, but not for arm64, and other linkers do
// not at all.

// addStub adds a span behind those that were found before, or makes the last one longer.
func (s *scanner) addStub(x span) {
	n := len(s.stubs)
	if n > 0 && x.start < s.stubs[n-1].end {
		return
	}
	if n > 0 && s.stubs[n-1].end == x.start && s.stubs[n-1].rule == x.rule {
		s.stubs[n-1].end = x.end
		s.stats.Stubs++
		return
	}
	if n >= maxStubs || s.refused != nil {
		return
	}
	if s.refused = s.f.Budget().Take(stubBytes, "stubs"); s.refused == nil {
		s.stubs = append(s.stubs, x)
		s.stats.Stubs++
	}
}

// data tells whether a lies in a segment that is not executable, as the addresses of imported functions do.
func (s *scanner) data(a unwind.FileAddr) bool {
	for _, g := range s.f.Segments[:min(len(s.f.Segments), 64)] {
		if !g.Exec && a >= g.VAddr && uint64(a-g.VAddr) < g.MemSize {
			return true
		}
	}
	return false
}

func returnAt(off int32) unwind.Rule {
	return unwind.Rule{CFA: unwind.CFAReg, Reg: unwind.AMD64RSP, Offset: off, RAOffset: -1}
}

// armLeaf is the rule of code that leaves the stack and the link register alone.
func armLeaf() unwind.Rule {
	return unwind.Rule{CFA: unwind.CFAReg, Reg: unwind.ARM64SP, RA: unwind.RAReg, RAOffset: unwind.ARM64LR}
}

const (
	endbr64 = "\xf3\x0f\x1e\xfa"
	movR11d = "\x41\xbb"
	pushR11 = "\x41\x53"
)

// stubAMD64 looks at a jmp *address(%rip) at b[i].
//
//	lld                                 lld, mold: IBT                     any, not lazy
//	jmp *f@GOT  (6 bytes)               endbr64                            [endbr64]
//	push $n     (5)                     [mov $n,%r11d]                     jmp *f@GOT
//	jmp first                           jmp *f@GOT
//
//	first: push GOT+8, jmp *GOT+16; in mold's, endbr64 and push %r11 come before
func (s *scanner) stubAMD64(b []byte, i int, at unwind.FileAddr) {
	if i+6 > len(b) || !s.data(at+unwind.FileAddr(i+6)+unwind.FileAddr(int64(int32(binary.LittleEndian.Uint32(b[i+2:]))))) {
		return
	}
	start, end := i, i+6
	if i >= 6 && b[i-6] == 0xff && b[i-5] == 0x35 { // the first entry, to which the others jump after their push
		if from := i - 8; from >= 0 && string(b[from:from+2]) == pushR11 {
			if bytes.HasSuffix(b[:from], []byte(endbr64)) {
				from -= 4
			}
			s.addStub(span{at + unwind.FileAddr(from), at + unwind.FileAddr(i-6), returnAt(8)})
		}
		s.addStub(span{at + unwind.FileAddr(i-6), at + unwind.FileAddr(i), returnAt(16)})
		s.addStub(span{at + unwind.FileAddr(i), at + unwind.FileAddr(end), returnAt(24)})
		return
	}
	if start > 0 && b[start-1] == 0xf2 { // bnd
		start--
	}
	if start >= 6 && string(b[start-6:start-4]) == movR11d {
		start -= 6
	}
	if bytes.HasSuffix(b[:start], []byte(endbr64)) {
		start -= 4
	}
	entry := at + unwind.FileAddr(start)
	if start == i && entry%16 == 0 && i+16 <= len(b) && b[i+6] == 0x68 && b[i+11] == 0xe9 {
		r := returnAt(8)
		r.CFA, r.Offset2 = unwind.CFAPLT, 11
		s.addStub(span{entry, entry + 16, r})
		return
	}
	s.addStub(span{entry, at + unwind.FileAddr(end), returnAt(8)})
}

// lazyAMD64 looks at a push at b[i] between endbr64 and jmp: lld's lazy entries with IBT, which jump to the first one.
func (s *scanner) lazyAMD64(b []byte, i int, at unwind.FileAddr) {
	entry := at + unwind.FileAddr(i-4)
	if i < 4 || i+12 > len(b) || b[i+5] != 0xe9 || entry%16 != 0 || string(b[i-4:i]) != endbr64 {
		return
	}
	r := returnAt(8)
	r.CFA, r.Offset2 = unwind.CFAPLT, 9
	s.addStub(span{entry, entry + 16, r})
}

const (
	armBRX16     = 0xd61f0200
	armBRX17     = 0xd61f0220
	armBTIC      = 0xd503245f
	armAutia1716 = 0xd503219f
	armPushLR    = 0xa9bf7bf0 // stp x16, x30, [sp, #-16]!
)

func isADRPX16(w uint32) bool   { return w&0x9f00001f == 0x90000010 }
func isLDRX17(w uint32) bool    { return w&0xffc003ff == 0xf9400211 } // ldr x17, [x16, #imm]
func isADDX16(w uint32) bool    { return w&0xffc003ff == 0x91000210 } // add x16, x16, #imm
func isStubEnd(w uint32) bool   { return w == armBRX16 || w == armBRX17 }
func isVeneer(w, v uint32) bool { return isADDX16(w) && isADRPX16(v) }

// stubARM64 looks at a branch to x16 or x17 at b[i].
//
//	entry                               first                              veneer (a branch that is too far)
//	[bti c]                             [bti c]                            adrp x16, f
//	adrp x16, GOT+n                     stp  x16, x30, [sp, #-16]!         add  x16, x16, #:lo12:f
//	ldr  x17, [x16, #n]                 adrp, ldr, add, br as there        br   x16
//	add  x16, x16, #n
//	[autia1716]
//	br   x17
func (s *scanner) stubARM64(word func(int) uint32, i int, at unwind.FileAddr) {
	end := at + unwind.FileAddr(i+4)
	if word(i) == armBRX16 {
		if isVeneer(word(i-4), word(i-8)) {
			s.addStub(span{end - 12, end, armLeaf()})
		}
		return
	}
	j := i - 4
	if word(j) == armAutia1716 {
		j -= 4
	}
	if !isADDX16(word(j)) || !isLDRX17(word(j-4)) || !isADRPX16(word(j-8)) {
		return
	}
	j -= 8
	if word(j-4) == armPushLR {
		from := j - 4
		if word(from-4) == armBTIC {
			from -= 4
		}
		s.addStub(span{at + unwind.FileAddr(from), at + unwind.FileAddr(j), armLeaf()})
		s.addStub(span{at + unwind.FileAddr(j), end, unwind.Rule{CFA: unwind.CFAReg, Reg: unwind.ARM64SP, Offset: 16, RAOffset: -1}})
		return
	}
	if word(j-4) == armBTIC {
		j -= 4
	}
	s.addStub(span{at + unwind.FileAddr(j), end, armLeaf()})
}
