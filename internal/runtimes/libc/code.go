package libc

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"golang.org/x/arch/x86/x86asm"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

// musl keeps the values of a thread's keys in one array, which a word of struct pthread points to: src/thread/pthread_getspecific.c of
// musl 1.2.3. Where the word is has changed with versions, so that the function's code tells:
//
//	thread pointer -> load at an offset -> load indexed by the argument, 8 bytes each -> return
const (
	codeBytes        = 64
	codeInstructions = 12
)

// fromCode is an ErrUnknown, wrapped, if the functions' code is not of that shape.
func fromCode(f *elffile.File, get, self elffile.Symbol) (*Threads, error) {
	t := &Threads{BlockBits: 31, Stride: 8, ModuleStride: 8}
	code, ok := readCode(f, get), false
	if f.Arch == unwind.ArchARM64 {
		// the table of modules is the last word of struct pthread, which ends at the thread pointer: arch/aarch64/pthread_arch.h
		t.Modules = -8
		if t.Table, ok = arm64Table(code); ok {
			t.Self, ok = arm64Self(readCode(f, self))
		}
	} else {
		t.Modules = 8 // the second word of struct pthread: src/internal/pthread_impl.h
		t.Table, ok = amd64Table(code)
	}
	if !ok {
		return nil, fmt.Errorf("pthread_getspecific has code of a kind that is not known: %w", ErrUnknown)
	}
	return t, nil
}

// readCode reads the beginning of a function, as much as there is.
func readCode(f *elffile.File, s elffile.Symbol) []byte {
	code := make([]byte, codeBytes)
	for len(code) > 0 && f.ReadAddr(code, s.Value) != nil {
		code = code[:len(code)-4]
	}
	return code
}

// arm64Self decodes pthread_self: the thread pointer less the size of struct pthread.
func arm64Self(code []byte) (offset int64, ok bool) {
	known := false
	for range codeInstructions {
		if len(code) < 4 {
			break
		}
		v := binary.LittleEndian.Uint32(code)
		code = code[4:]
		switch {
		case v == 0xd53bd040: // mrs x0, tpidr_el0
			known, offset = true, 0
		case v>>22 == 0xd1000000>>22 && v&31 == 0 && v>>5&31 == 0 && known: // sub x0, x0, #imm12
			offset -= int64(v >> 10 & 0xfff)
		case v == 0xd65f03c0: // ret
			return offset, known
		case v == 0xd503245f || v == 0xd503233f || v == 0xd50323bf || v == 0xd503201f: // bti c, paciasp, autiasp, nop
		default:
			return 0, false
		}
	}
	return 0, false
}

// What a register holds.
type held uint8

const (
	heldNothing held = iota
	heldThread       // the thread pointer, plus offset
	heldTable        // the word at that offset
	heldValue        // its element
)

func amd64Table(code []byte) (offset int64, ok bool) {
	var holds [16]held
	number := func(r x86asm.Arg) int {
		switch r, _ := r.(x86asm.Reg); {
		case r >= x86asm.RAX && r <= x86asm.R15:
			return int(r - x86asm.RAX)
		case r >= x86asm.EAX && r <= x86asm.R15L:
			return int(r - x86asm.EAX)
		}
		return -1
	}
	code = bytes.TrimPrefix(code, []byte{0xf3, 0x0f, 0x1e, 0xfa}) // endbr64
	for range codeInstructions {
		ins, err := x86asm.Decode(code, 64)
		if err != nil {
			return 0, false
		}
		code = code[ins.Len:]
		switch ins.Op {
		case x86asm.RET:
			return offset, holds[0] == heldValue
		case x86asm.MOV:
			to, from := number(ins.Args[0]), number(ins.Args[1])
			if to < 0 {
				return 0, false
			}
			if m, isMem := ins.Args[1].(x86asm.Mem); isMem {
				base, index := number(m.Base), number(m.Index)
				switch {
				case m.Segment == x86asm.FS && base < 0 && index < 0 && m.Disp == 0:
					holds[to] = heldThread
				case base >= 0 && index < 0 && holds[base] == heldThread:
					holds[to], offset = heldTable, m.Disp
				case base >= 0 && holds[base] == heldTable && index == number(x86asm.RDI) && m.Scale == 8 && m.Disp == 0:
					holds[to] = heldValue
				default:
					return 0, false
				}
			} else if from >= 0 {
				holds[to] = holds[from] // also the zero extension of the argument
			} else {
				return 0, false
			}
		case x86asm.NOP:
		default:
			return 0, false
		}
	}
	return 0, false
}

// Encodings: Arm ARM (DDI 0487), C4.1 and C6.2.
func arm64Table(code []byte) (offset int64, ok bool) {
	var holds [32]held
	var plus [32]int64
	for range codeInstructions {
		if len(code) < 4 {
			return 0, false
		}
		v := binary.LittleEndian.Uint32(code)
		code = code[4:]
		d, n, m := v&31, v>>5&31, v>>16&31
		switch {
		case v&^31 == 0xd53bd040: // mrs d, tpidr_el0
			holds[d], plus[d] = heldThread, 0
		case v>>22 == 0xd1000000>>22 && holds[n] == heldThread: // sub d, n, #imm12
			holds[d], plus[d] = heldThread, plus[n]-int64(v>>10&0xfff)
		case v>>21 == 0xf8400000>>21 && v>>10&3 == 0 && holds[n] == heldThread: // ldur d, [n, #imm9]
			offset = plus[n] + int64(int32(v<<11)>>23)
			holds[d] = heldTable
		case v>>22 == 0xf9400000>>22 && holds[n] == heldThread: // ldr d, [n, #8 * imm12]
			offset = plus[n] + 8*int64(v>>10&0xfff)
			holds[d] = heldTable
		case (v>>10 == 0xf8605800>>10|m<<6 || v>>10 == 0xf8607800>>10|m<<6) && holds[n] == heldTable && m == 0: // ldr d, [n, w0 or x0, #3]
			holds[d] = heldValue
		case v == 0xd65f03c0: // ret
			return offset, holds[0] == heldValue
		case v == 0xd503245f || v == 0xd503233f || v == 0xd50323bf || v == 0xd503201f: // bti c, paciasp, autiasp, nop
		case v == 0x2a0003e0 || v>>10 == 0xd3407c00>>10: // mov w0, w0; uxtw
		default:
			return 0, false
		}
	}
	return 0, false
}
