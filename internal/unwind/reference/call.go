package reference

import (
	"encoding/binary"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// callKind is what the code before an address is.
type callKind uint8

const (
	callNone       callKind = iota
	callUnreadable          // nobody knows
	callIndirect
	callDirect // to a known target
)

// callBefore looks whether a call instruction ends at ra, in a mapping that begins at start. A direct one may be a piece of
// something else: its target tells.
func (w *Walker) callBefore(start, ra unwind.Addr) (kind callKind, target unwind.Addr) {
	if w.NoCode {
		return callUnreadable, 0
	}
	if w.arch == unwind.ArchARM64 {
		return w.branchBefore(start, ra)
	}
	var code [16]byte // what ends at ra
	room := ra - start
	switch {
	case room >= 16 && w.mem.Read(ra-16, code[:]) == nil:
	case room >= 8:
		clear(code[:])
		if w.mem.Read(ra-8, code[8:]) != nil {
			return callUnreadable, 0
		}
	default:
		var b [8]byte
		if w.mem.Read(start, b[:]) != nil {
			return callUnreadable, 0
		}
		copy(code[16-room:], b[:room])
	}
	if indirectCall(code[:]) {
		if t := loadedTarget(code); t != 0 {
			return callDirect, t
		}
		return callIndirect, 0
	}
	if code[11] == 0xe8 {
		return callDirect, ra + unwind.Addr(int64(int32(binary.LittleEndian.Uint32(code[12:]))))
	}
	return callNone, 0
}

// indirectCall tells whether FF /2 ends where code does; how long it is its ModRM and SIB bytes tell (Intel SDM, volume 2,
// tables 2-2 and 2-3). Prefixes before it don't matter.
func indirectCall(code []byte) bool {
	for _, n := range []int{2, 3, 4, 6, 7} {
		if at := len(code) - n; code[at] == 0xff && code[at+1]>>3&7 == 2 && modRMLength(code[at+1:])+1 == n {
			return true
		}
	}
	return false
}

// modRMLength is the length of an operand from its ModRM byte on.
func modRMLength(b []byte) int {
	mod, rm := b[0]>>6, b[0]&7
	n := 1
	switch {
	case mod == 3:
		return n
	case rm == 4 && mod == 0:
		n++
		if len(b) > 1 && b[1]&7 == 5 {
			return n + 4
		}
	case rm == 4:
		n++
	case rm == 5 && mod == 0:
		return n + 4
	}
	return n + [3]int{0, 1, 4}[mod]
}

// loadedTarget is where movabs $target, %r; call *%r goes; 0 if that is not what code ends with.
func loadedTarget(code [16]byte) unwind.Addr {
	if code[14] != 0xff || code[15]&0xf8 != 0xd0 {
		return 0
	}
	reg := code[15] & 7
	switch {
	case code[13] == 0x41 && code[3] == 0x49 && code[4] == 0xb8|reg:
		return unwind.Addr(binary.LittleEndian.Uint64(code[5:]))
	case code[4] == 0x48 && code[5] == 0xb8|reg:
		return unwind.Addr(binary.LittleEndian.Uint64(code[6:]))
	}
	return 0
}

// branchBefore looks for BL, and BLR and its forms that authenticate (Arm ARM, C4.1.66: unconditional branch (register)).
func (w *Walker) branchBefore(start, ra unwind.Addr) (kind callKind, target unwind.Addr) {
	if ra%4 != 0 || ra-start < 4 {
		return callNone, 0
	}
	v, ok := w.instruction(ra - 4)
	switch {
	case !ok:
		return callUnreadable, 0
	case v>>26 == 0x25:
		return callDirect, ra - 4 + unwind.Addr(int64(int32(v<<6))>>4)
	case v&0xfffffc1f == 0xd63f0000, v&0xfffff81f == 0xd63f081f, v&0xfffff800 == 0xd73f0800:
		return callIndirect, 0
	}
	return callNone, 0
}

// jumpsOn tells whether the code at a only jumps on to where data says, as the entries of procedure linkage tables do (x86-64
// psABI 1.0, 5.2, with endbr64 and, from older binutils, bnd; on arm64 [bti c,] adrp x16, ldr x17, [x16, #n],
// AAPCS64's ELF supplement): nobody knows what was called.
func (w *Walker) jumpsOn(a unwind.Addr) bool {
	var b [12]byte
	if w.arch == unwind.ArchARM64 {
		if w.mem.Read(a, b[:]) != nil {
			return false
		}
		v := b[:]
		if binary.LittleEndian.Uint32(v) == 0xd503245f { // bti c
			v = v[4:]
		}
		return binary.LittleEndian.Uint32(v)&0x9f00001f == 0x90000010 && binary.LittleEndian.Uint32(v[4:])&0xffc003ff == 0xf9400211
	}
	if w.mem.Read(a, b[:8]) != nil {
		return false
	}
	v := binary.LittleEndian.Uint64(b[:8])
	if uint32(v) == endbr64 {
		v >>= 32
	}
	if v&0xff == 0xf2 { // bnd
		v >>= 8
	}
	return v&0xffff == 0x25ff
}

// instruction reads four bytes of code.
func (w *Walker) instruction(a unwind.Addr) (v uint32, ok bool) {
	var b [4]byte
	if w.NoCode || w.mem.Read(a, b[:]) != nil {
		return 0, false
	}
	return binary.LittleEndian.Uint32(b[:]), true
}
