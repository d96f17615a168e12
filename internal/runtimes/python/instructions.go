package python

import (
	"bytes"
	"iter"

	"golang.org/x/arch/x86/x86asm"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// decode decodes an instruction; what is not known has one byte, but for endbr64.
func decode(code []byte) (ins x86asm.Inst, ok bool) {
	if bytes.HasPrefix(code, []byte{0xf3, 0x0f, 0x1e, 0xfa}) {
		return x86asm.Inst{Len: 4}, false
	}
	ins, err := x86asm.Decode(code, 64)
	if err != nil || ins.Op == 0 {
		return x86asm.Inst{Len: 1}, false
	}
	return ins, true
}

// amd64Instructions goes through those that are known, each with where the next one begins. What it does not know it may not know the
// length of, either: it is back in step soon.
func amd64Instructions(code []byte) iter.Seq2[int, x86asm.Inst] {
	return func(yield func(int, x86asm.Inst) bool) {
		for i := 0; i < len(code); {
			ins, ok := decode(code[i:])
			if i += ins.Len; ok && !yield(i, ins) {
				return
			}
		}
	}
}

// adrp is the page whose address the instruction w at pc puts into its register: Arm ARM (DDI 0487), C6.2.
func adrp(w uint32, pc unwind.FileAddr) (page unwind.FileAddr, ok bool) {
	return pc&^0xfff + unwind.FileAddr(int64(int32(w<<8)>>13<<2|int32(w>>29&3))<<12), w&0x9f000000 == 0x90000000
}
