package hotspot

import (
	"encoding/binary"

	"golang.org/x/arch/x86/x86asm"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// maxLoopBytes bounds the code that is looked at behind a place.
const maxLoopBytes = 1024

// inLoop tells whether a place in the code, an offset, is in a loop with a described place before it, and not with the next one, where end is:
// whether the code jumps back from there. What a loop does behind its only safepoint is not described otherwise, and the next
// description is that of another loop: of another method, if both were inlined.
func (m *nmethod) inLoop(offset, before, end int32) bool {
	n := min(end-offset, maxLoopBytes)
	if n <= 0 {
		return false
	}
	code := make([]byte, n)
	if err := m.mem.Read(unwind.Addr(m.code+uint64(offset)), code); err != nil {
		return false
	}
	for at := int32(0); at < n; {
		size, target, next := step(m.arch, code[at:])
		if size == 0 {
			return false
		}
		if target != 0 && offset+at+target <= before {
			return true
		}
		if !next {
			return false
		}
		at += size
	}
	return false
}

// step is an instruction: its size, 0 if it is none, what a jump to a fixed place adds to its address, 0 if it is no such jump, and whether
// the next one may follow.
func step(arch unwind.Arch, code []byte) (size, target int32, next bool) {
	if arch == unwind.ArchARM64 {
		return stepARM64(code)
	}
	in, err := x86asm.Decode(code[:min(len(code), 15)], 64)
	if err != nil {
		return 0, 0, false
	}
	size = int32(in.Len)
	rel, ok := in.Args[0].(x86asm.Rel)
	if ok && in.Op != x86asm.CALL {
		target = size + int32(rel)
	}
	return size, target, in.Op != x86asm.JMP && in.Op != x86asm.RET
}

// stepARM64 knows B, B.cond, CBZ, CBNZ, TBZ, TBNZ, BR and RET: Arm's Architecture Reference Manual, C4.1.
func stepARM64(code []byte) (size, target int32, next bool) {
	if len(code) < 4 {
		return 0, 0, false
	}
	in := binary.LittleEndian.Uint32(code)
	// signed is a number of so many bits from a bit on, in words
	signed := func(bit, bits int) int32 { return int32(in<<(32-bit-bits)) >> (32 - bits) * 4 }
	switch {
	case in>>26 == 0b000101:
		return 4, signed(0, 26), false
	case in>>24 == 0b01010100, in>>25&0b111111 == 0b011010:
		return 4, signed(5, 19), true
	case in>>25&0b111111 == 0b011011:
		return 4, signed(5, 14), true
	case in&0xfffffc1f == 0xd61f0000, in&0xfffffc1f == 0xd65f0000:
		return 4, 0, false
	}
	return 4, 0, true
}
