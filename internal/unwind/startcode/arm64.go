package startcode

import (
	"encoding/binary"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

const (
	armNop          = 0xd503201f
	armSvc          = 0xd4000001 // svc #0
	armSigreturn    = 0xd2801168 // mov x8, #139: rt_sigreturn
	armSigreturnW   = 0x52801168 // mov w8, #139
	armExit         = 0xd2800ba8 // mov x8, #93: exit
	armExitW        = 0x52800ba8
	armSignExtendX0 = 0x93407c00 // sxtw x0, w0
	armRet          = 0xd65f03c0

	// How Boost.Context's make_fcontext ends, and the code behind it begins, a mov and a call of _exit, which it has noted as what a fiber
	// returns to (Boost 1.74 and 1.90, src/asm/make_arm64_aapcs_elf_gas.S).
	armNoteReturn = 0xf9004c01 // str x1, [x0, #0x98]
	armZeroX0     = 0xd2800000 // mov x0, #0
)

func isBLR(w uint32) bool { return w&0xfffffc1f == 0xd63f0000 }
func isBL(w uint32) bool  { return w>>26 == 0x25 }
func isB(w uint32) bool   { return w>>26 == 0x05 }

func (s *scanner) scanARM64(b []byte, at unwind.FileAddr, from, to int) {
	aligned := from + int(-(uint64(at)+uint64(from))&3)
	word := func(i int) uint32 {
		if i < 0 || i+4 > len(b) {
			return 0
		}
		return binary.LittleEndian.Uint32(b[i:])
	}
	for i := aligned; i < to; i += 4 {
		w, here := word(i), at+unwind.FileAddr(i)
		switch {
		case w == armSvc:
			switch before := word(i - 4); {
			case before == armSigreturn || before == armSigreturnW:
				s.foundTrampoline(here-4, here+4)
			case (before == armExit || before == armExitW) && isBLR(word(i-8)):
				s.foundStart(here-8, here+4)
			}
		case isStubEnd(w):
			s.stubARM64(word, i, at)
		case isBL(w) && word(i-4) == armZeroX0 && word(i-8) == armRet && word(i-12) == armNoteReturn:
			s.foundContext(here-4, here+4)
		case isBL(w):
			first := i - 4
			if word(first) == armSignExtendX0 {
				first -= 4
			}
			target := here + unwind.FileAddr(int64(int32(w<<6)>>6)*4)
			if !isBLR(word(first)) || !s.executable(target) {
				continue
			}
			next := word(i + 4)
			s.foundCandidate(candidate{
				span:   span{start: at + unwind.FileAddr(first), end: here + 4},
				target: target,
				padded: i+8 <= len(b) && (next == armNop || next == 0),
			})
		}
	}
}

// firstBranchARM64 is where the first branch in b that may be a call ends, or b's length.
func firstBranchARM64(b []byte) int {
	for i := 0; i+4 <= len(b); i += 4 {
		if w := binary.LittleEndian.Uint32(b[i:]); isB(w) || isBL(w) || isBLR(w) {
			return i + 4
		}
	}
	return len(b)
}
