package hostbpf_test

import (
	"slices"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/ebpf/abi"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/hostbpf"
)

// Where a process that runs V8 has things. Its code at codeAt is native, builtins, handlers and generated, in this order.
const (
	builtinAt   = codeAt + 0x400
	handlerAt   = codeAt + 0x800
	generatedAt = codeAt + 0xc00
	v8StackAt   = 0x7ffd00002000
	v8Array     = heapAt + 0x5001 // tagged
	v8Map       = heapAt + 0x6001
)

// engine is such a process.
type engine struct {
	*world
	proc abi.LoopV8Proc
	fp   uint64 // of the frame that is made next
	sp   uint64
}

func newEngine(arch unwind.Arch) *engine {
	e := &engine{world: newWorld(arch, rootRule)}
	whole := e.Mappings[0]
	e.Mappings = nil
	for _, cut := range []struct {
		to      unwind.Addr
		runtime unwind.Runtime
		part    abi.LoopV8Part
	}{
		{builtinAt, 0, 0}, {handlerAt, unwind.RuntimeV8, abi.LoopV8PartV8BUILTIN}, {generatedAt, unwind.RuntimeV8, abi.LoopV8PartV8HANDLER},
		{codeAt + 0x1000, unwind.RuntimeV8, abi.LoopV8PartV8GENERATED},
	} {
		m := whole
		if len(e.Mappings) > 0 {
			m.Start = e.Mappings[len(e.Mappings)-1].End
		}
		m.End, m.Runtime, m.Part = cut.to, cut.runtime, uint8(cut.part)
		e.Mappings = append(e.Mappings, m)
	}
	e.fp, e.sp = v8StackAt+0x100, v8StackAt
	e.proc = abi.LoopV8Proc{
		InterpreterReturn: uint64(builtinAt+0x40) - whole.Bias, FunctionShared: 24, SharedNames: 16, ArraySlot: 1, OffsetSlot: 0, CodeHeader: 32, CodeAlign: 6,
	}
	e.Registers.Reg[stackPointer(arch)] = e.sp
	e.Registers.Reg[framePointer(arch)] = e.fp
	for a := uint64(codeAt); a < codeAt+0x1000; a += 8 {
		e.word(a, a*0x0101010101) // anything
	}
	return e
}

func framePointer(arch unwind.Arch) uint8 {
	if arch == unwind.ArchARM64 {
		return unwind.ARM64FP
	}
	return unwind.AMD64RBP
}

// frame makes the next frame outwards: its slots from the marker or context downwards, and where it returns to.
func (e *engine) frame(returns uint64, below ...uint64) {
	next := e.fp + 0x100
	e.word(e.fp, next)
	e.word(e.fp+8, returns)
	for i := range 5 {
		w := uint64(0)
		if i < len(below) {
			w = below[i]
		}
		e.word(e.fp-8*uint64(i+1), w)
	}
	e.fp = next
}

// function makes one, and returns it tagged.
func (e *engine) function(n uint64) uint64 {
	function, shared := uint64(heapAt+0x1000+0x100*n), e.shared(n)
	e.word(function+24, shared|1)
	for i := range uint64(3) {
		e.word(shared+16+8*i, 1000*n+i)
	}
	return function | 1
}

func (e *engine) shared(n uint64) uint64 { return heapAt + 0x3000 + 0x100*n }

// v8Check is v8_check.
func v8Check(before uint32, a, b uint64) uint32 {
	const multiplier = 0x9e3779b97f4a7c15
	x := (a ^ uint64(before)) * multiplier
	x = (x ^ x>>29 ^ b) * multiplier
	return uint32(x >> 32)
}

func (e *engine) check(n uint64) uint32 { return v8Check(0, 1000*n, 1000*n+2) }

func (e *engine) codeCheck(before uint32, pc uint64) uint32 {
	if pc < generatedAt {
		return before
	}
	return v8Check(before, e.codeWord(pc-16), e.codeWord(pc-8))
}

// codeWord is what newEngine has put there, at an address that need not be round.
func (e *engine) codeWord(a uint64) uint64 {
	var b [8]byte
	if err := e.Memory.Read(unwind.Addr(a), b[:]); err != nil {
		panic(err)
	}
	var w uint64
	for i := range 8 {
		w |= uint64(b[i]) << (8 * i)
	}
	return w
}

func raw(kind abi.LoopV8Frame, exact bool, a, b uint64) unwind.RawFrame {
	f := unwind.RawFrame{Runtime: unwind.RuntimeV8, Flags: unwind.FrameReturn, B: b}
	if exact {
		kind += abi.LoopV8FrameV8FRAME_EXACT
		f.Flags = 0
	}
	f.A = uint64(kind)<<abi.LoopV8FrameV8FRAME_SHIFT | a
	return f
}

func (e *engine) interpreted(exact bool, n uint64, offset uint32) unwind.RawFrame {
	return raw(abi.LoopV8FrameV8FRAME_INTERPRETED, exact, e.shared(n)|1, uint64(e.check(n))<<32|uint64(offset))
}

func (e *engine) compiled(exact bool, n, pc uint64) unwind.RawFrame {
	return raw(abi.LoopV8FrameV8FRAME_FUNCTION, exact, e.shared(n)|1, uint64(e.codeCheck(e.check(n), lookup(pc, exact)))<<48|pc)
}

func (e *engine) code(exact bool, pc uint64, marker uint32) unwind.RawFrame {
	return raw(abi.LoopV8FrameV8FRAME_CODE, exact, pc, uint64(e.codeCheck(0, pc))<<32|uint64(marker))
}

// lookup keeps pc: what is checked is the code before it.
func lookup(pc uint64, _ bool) uint64 { return pc }

// run compares what both variants say.
func (e *engine) run(t *testing.T, h hosts, what string, stop unwind.StopReason, want ...unwind.RawFrame) {
	t.Helper()
	load(t, h, e.Mappings)
	for v, host := range h {
		if err := host.V8(&e.proc); err != nil {
			t.Fatal(err)
		}
		if err := host.Constant("max_frames", uint32(e.MaxFrames)); err != nil {
			t.Fatal(err)
		}
		r, err := host.Take(&hostbpf.Sample{Registers: e.Registers}, &e.Memory)
		if err != nil {
			t.Fatalf("%s: %v", v, err)
		}
		if r.StopReason() != stop || !slices.Equal(r.Frames, want) {
			t.Errorf("%s, %s: %v, not %v; found\n%x\nwant\n%x", what, v, r.StopReason(), stop, r.Frames, want)
		}
	}
}

const context = heapAt + 0x7001

// TestV8Frames has frames of all kinds, down to where C++ has entered.
func TestV8Frames(t *testing.T) {
	eachArch(t, func(t *testing.T, arch unwind.Arch, h hosts) {
		e := newEngine(arch)
		back := uint64(builtinAt + 0x40)
		e.Registers.PC = generatedAt + 0x100
		e.frame(back, context, e.function(1))                                  // compiled, the leaf
		e.frame(generatedAt+0x200, context, e.function(2), 3, v8Array, 77<<32) // interpreted
		e.frame(builtinAt+0x80, context, e.function(3))                        // compiled
		e.frame(builtinAt+0x90, 2*13)                                          // a stub
		e.frame(builtinAt+0x10, context, e.function(4))                        // a builtin function
		e.frame(at(0), 2)                                                      // the entry
		e.run(t, h, "all kinds", unwind.StopRoot,
			e.compiled(true, 1, generatedAt+0x100), e.interpreted(false, 2, 77), e.compiled(false, 3, generatedAt+0x200),
			e.code(false, builtinAt+0x80, 26), e.compiled(false, 4, builtinAt+0x90), e.code(false, builtinAt+0x10, 2), native(0, 6))
	})
}

// TestV8Handler is a leaf in a handler: the interpreter is where its register says, if that may be. What its frame says is of its last
// call: a wrong line.
func TestV8Handler(t *testing.T) {
	eachArch(t, func(t *testing.T, arch unwind.Arch, h hosts) {
		array, old, offset, _ := v8Registers(arch)
		for _, tt := range []struct {
			array, offset uint64
			want          uint32
		}{{v8Array, 99, 99}, {v8Array + 8, 99, 0}, {v8Array, 3, 0}, {v8Array, 1 << 40, 0}} {
			e := newEngine(arch)
			e.Registers.PC = handlerAt + 0x20
			for _, register := range []int{array, old} {
				saved := e.Registers
				e.Registers.Reg[register], e.Registers.Reg[offset] = tt.array, tt.offset
				e.fp = v8StackAt + 0x100
				e.frame(at(0), context, e.function(2), 3, v8Array, 77<<32)
				e.run(t, h, "a handler", unwind.StopRoot, e.interpreted(true, 2, tt.want), native(0, 1))
				e.Registers = saved
			}
		}
	})
}

// v8Registers are those of the interpreter: the array's, that of V8 7.8 and 8.4, the offset's, that of the table of handlers.
func v8Registers(arch unwind.Arch) (array, old, offset, dispatch int) {
	if arch == unwind.ArchARM64 {
		return 20, 20, 19, 21
	}
	return 12, 14, 9, 15
}

// TestV8WideHandler is a leaf in the handler of a bytecode with wide operands, while the array's register is in use for something else.
func TestV8WideHandler(t *testing.T) {
	eachArch(t, func(t *testing.T, arch unwind.Arch, h hosts) {
		_, _, offset, dispatch := v8Registers(arch)
		for _, tt := range []struct {
			before uint64 // the byte before the bytecode
			index  uint64 // where the table has the handler
			want   uint32
		}{{0, 256 + 7, 90}, {1, 512 + 7, 90}, {2, 7, 90}, {2, 256 + 7, 0}, {1, 256 + 7, 0}, {1, 7, 90}} {
			e := newEngine(arch)
			e.Registers.PC = handlerAt + 0x20
			e.Registers.Reg[offset], e.Registers.Reg[dispatch] = 90, heapAt+0x9000
			e.word(v8Array+90-2, 7<<16|tt.before<<8)
			for _, wide := range []uint64{0, 256, 512} {
				e.word(heapAt+0x9000+8*(wide+7), handlerAt+0x200)
			}
			e.word(heapAt+0x9000+8*tt.index, handlerAt)
			e.frame(at(0), context, e.function(2), 3, v8Array, 77<<32)
			e.run(t, h, "a wide handler", unwind.StopRoot, e.interpreted(true, 2, tt.want), native(0, 1))
		}
	})
}

// TestV8Dispatch is a leaf in the entry trampoline, between two handlers: right behind a handler the frame says where the interpreter
// is, then the registers do. Elsewhere it is a builtin as any other.
func TestV8Dispatch(t *testing.T) {
	eachArch(t, func(t *testing.T, arch unwind.Arch, h hosts) {
		array, old, offset, _ := v8Registers(arch)
		const back = builtinAt + 0x40
		for _, register := range []int{array, old, offset} {
			for pc, want := range map[uint64]uint32{back - 32: 99, back - 4: 99, back: 77, back + 8: 77, back + 12: 99, back + 95: 99} {
				e := newEngine(arch)
				e.Registers.PC = unwind.Addr(pc)
				e.Registers.Reg[register], e.Registers.Reg[offset] = v8Array, 99
				if register == offset && want == 99 { // none of the array's
					want = 0
				}
				e.frame(at(0), context, e.function(2), 3, v8Array, 77<<32)
				e.run(t, h, "between handlers", unwind.StopRoot, e.interpreted(true, 2, want), native(0, 1))
			}
		}
		for _, pc := range []uint64{back - 33, back + 96} {
			e := newEngine(arch)
			e.Registers.PC = unwind.Addr(pc)
			e.frame(at(0), context, e.function(2), 3, v8Array, 77<<32)
			e.run(t, h, "elsewhere", unwind.StopRoot, e.compiled(true, 2, pc), native(0, 1))
		}
	})
}

// TestV8HandlerWithFrame is a leaf in a handler that has a frame of its own: where the interpreter is was spilled.
func TestV8HandlerWithFrame(t *testing.T) {
	eachArch(t, func(t *testing.T, arch unwind.Arch, h hosts) {
		_, _, _, dispatch := v8Registers(arch)
		for _, tt := range []struct {
			handler uint64
			want    uint32
		}{{handlerAt, 90}, {handlerAt + 0x100, 77}} {
			e := newEngine(arch)
			e.Registers.PC = handlerAt + 0x20
			e.Registers.Reg[dispatch] = heapAt + 0x9000
			for i := uint64(6); i <= uint64(abi.LoopV8LimitsV8SPILLS); i++ {
				e.word(e.fp-8*i, 0)
			}
			e.frame(builtinAt+0x40, 26, heapAt+0x9000, 90)
			e.word(v8Array+90-2, 7<<16) // the bytecode there is 7: the word's third byte
			e.word(heapAt+0x9000+8*7, tt.handler)
			e.frame(at(0), context, e.function(2), 3, v8Array, 77<<32)
			e.run(t, h, "a handler with a frame", unwind.StopRoot, e.code(true, handlerAt+0x20, 26), e.interpreted(false, 2, tt.want), native(0, 2))
		}
	})
}

// TestV8Without has what leads to no function: the frames are there by their addresses.
func TestV8Without(t *testing.T) {
	eachArch(t, func(t *testing.T, arch unwind.Arch, h hosts) {
		for what, function := range map[string]uint64{"no object": heapAt, "not there": heapAt + 0xf00001, "a small integer": 5 << 32} {
			e := newEngine(arch)
			e.Registers.PC = generatedAt + 0x100
			e.frame(at(0), context, function)
			e.run(t, h, what, unwind.StopRoot, e.code(true, generatedAt+0x100, 0), native(0, 1))
		}
		e := newEngine(arch)
		e.Registers.PC = generatedAt + 0x100
		e.frame(at(0), 0x1000) // no type has such a number
		e.run(t, h, "no type", unwind.StopRoot, e.code(true, generatedAt+0x100, 0), native(0, 1))
	})
}

// TestV8Prologue is a leaf before and after its frame is there, and in the middle of code that has one.
func TestV8Prologue(t *testing.T) {
	eachArch(t, func(t *testing.T, arch unwind.Arch, h hosts) {
		if arch != unwind.ArchAMD64 {
			return
		}
		const start = generatedAt + 0x100
		code := make([]byte, 0x80)
		copy(code[0x20:], []byte{0x55, 0x48, 0x89, 0xe5}) // push rbp; mov rbp, rsp
		code[0x60] = 0xc3
		for offset, depth := range map[uint64]uint64{0: 1, 0x18: 1, 0x20: 1, 0x21: 2, 0x24: 0, 0x40: 0, 0x60: 1} {
			for _, known := range []bool{true, false} {
				e := newEngine(arch)
				e.word(start-32, v8Map)
				e.Memory.Add(start, code)
				if known {
					e.proc.CodeMap = v8Map
				}
				e.Registers.PC = unwind.Addr(start + offset)
				e.word(generatedAt+0x300-8, 0xe8<<24) // a call
				if depth > 0 {
					e.word(e.sp, e.fp)
					e.word(e.sp+8, e.fp)
					e.word(e.sp+8*(depth-1), generatedAt+0x300)
				}
				e.frame(at(0), context, e.function(1))
				if depth == 0 || !known && offset < 0x20 {
					e.run(t, h, "with a frame", unwind.StopRoot, e.compiled(true, 1, start+offset), native(0, 1))
				} else {
					e.run(t, h, "without a frame", unwind.StopRoot, e.code(true, start+offset, 0), e.compiled(false, 1, generatedAt+0x300), native(0, 2))
				}
			}
		}
	})
}

// TestV8BuiltinWithoutFrame is a leaf in a builtin that has pushed a few registers: the frame is its caller's.
func TestV8BuiltinWithoutFrame(t *testing.T) {
	eachArch(t, func(t *testing.T, arch unwind.Arch, h hosts) {
		if arch != unwind.ArchAMD64 {
			return
		}
		for _, data := range []uint64{heapAt + 0x8001, 77 << 32} { // bytecode, and the number of a builtin
			for pushed := range uint64(3) {
				e := newEngine(arch)
				e.Registers.PC = builtinAt + 0x190
				for i := range uint64(8) {
					e.word(e.sp+8*i, heapAt+0x8001)
				}
				e.word(e.sp+8*pushed, generatedAt+0x300)
				e.word(generatedAt+0x300-8, 0xd0ff<<48) // a call
				e.frame(at(0), context, e.function(1))
				e.word(e.shared(1)+8, data)
				if data&1 != 0 {
					e.run(t, h, "in a function's frame", unwind.StopRoot, e.code(true, builtinAt+0x190, 0), e.compiled(false, 1, generatedAt+0x300), native(0, 2))
				} else {
					e.run(t, h, "with its own", unwind.StopRoot, e.compiled(true, 1, builtinAt+0x190), native(0, 1))
				}
			}
		}
	})
}

// TestV8Cycle: a chain of frames that does not lead outwards ends.
func TestV8Cycle(t *testing.T) {
	eachArch(t, func(t *testing.T, arch unwind.Arch, h hosts) {
		e := newEngine(arch)
		e.Registers.PC = generatedAt + 0x100
		e.frame(generatedAt+0x100, context, e.function(1))
		e.word(e.fp-0x100, e.fp-0x100)
		load(t, h, e.Mappings)
		for v, host := range h {
			if err := host.V8(&e.proc); err != nil {
				t.Fatal(err)
			}
			r, err := host.Take(&hostbpf.Sample{Registers: e.Registers}, &e.Memory)
			if err != nil || len(r.Frames) > 4 {
				t.Errorf("%s: %v, %d frames", v, err, len(r.Frames))
			}
		}
	})
}
