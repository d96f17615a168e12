package hostbpf_test

import (
	"slices"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/ebpf/abi"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/hostbpf"
)

// Functions of a process that runs CPython: the loop's frames have 64 bytes, the others' 16.
const (
	cFunction = iota
	loopFunction
	partFunction // of the loop
	rootFunction
)

const (
	threadAt  = 0x7f0000001000
	heapAt    = 0x7e0000000000
	pyStackAt = 0x7ffd00001000
)

// snake is a process that runs CPython.
type snake struct {
	*world
	proc  abi.LoopPythonProc
	sp    uint64
	loops []uint64 // stack pointers of the loop's frames, the innermost first
}

// newSnake has these functions on its stack, the leaf first.
func newSnake(arch unwind.Arch, functions ...int) *snake {
	stackPointer := uint8(7)
	if arch == unwind.ArchARM64 {
		stackPointer = 31
	}
	small := unwind.Rule{CFA: unwind.CFAReg, Reg: stackPointer, Offset: 16, RAOffset: -1}
	large := small
	large.Offset = 64
	s := &snake{world: newWorld(arch, small, large, large, rootRule), sp: pyStackAt}
	whole := s.Mappings[0]
	s.Mappings = nil
	for _, cut := range []struct {
		to      unwind.Addr
		runtime unwind.Runtime
		part    uint8
	}{{codeAt + 16, 0, 0}, {codeAt + 32, unwind.RuntimePython, 0}, {codeAt + 48, unwind.RuntimePython, 1}, {codeAt + 0x1000, 0, 0}} {
		m := whole
		if len(s.Mappings) > 0 {
			m.Start = s.Mappings[len(s.Mappings)-1].End
		}
		m.End, m.Runtime, m.Part = cut.to, cut.runtime, cut.part
		s.Mappings = append(s.Mappings, m)
	}
	s.Registers.PC = unwind.Addr(at(functions[0]))
	s.Registers.Reg[stackPointer] = s.sp
	sp := s.sp
	for i, f := range functions[:len(functions)-1] {
		size := uint64(16)
		if f == loopFunction || f == partFunction {
			size = 64
			s.loops = append(s.loops, sp)
		}
		s.word(sp+size-8, at(functions[i+1]))
		sp += size
	}
	s.proc = abi.LoopPythonProc{
		Thread: uint8(abi.LoopPythonThreadPYTHON_THREAD_TLS), ThreadOffset: 16, StateSelf: 8, StateFrame: 24, StateWords: 4,
		CodeNames: 112, CodeBytes: 192, FrameBytes: 80, FrameAt: 56, FramePrevious: 8, FrameOwner: 70,
		Flags: uint8(abi.LoopPythonFlagPYTHON_SHIM), Shim: 3,
	}
	return s
}

// frame makes a frame at an address; caller is the next one. It returns what BPF has to say of it.
func (s *snake) frame(a, code, caller uint64, offset uint32, owner uint8) unwind.RawFrame {
	p := &s.proc
	words := make([]uint64, 16)
	words[p.FrameCode/8] = code | uint64(p.CodeTag)
	words[p.FramePrevious/8] = caller
	if p.Flags&uint8(abi.LoopPythonFlagPYTHON_LINKED) != 0 {
		words[p.FrameAt/8] = uint64(offset) | 0xabcd<<32
	} else {
		words[p.FrameAt/8] = code + uint64(p.CodeBytes) + uint64(offset)
		words[p.FrameOwner/8] |= uint64(owner) << (8 * (p.FrameOwner % 8))
	}
	for i, w := range words[:p.FrameBytes/8] {
		s.word(a+8*uint64(i), w)
	}
	var h uint64
	for i := range uint64(4) {
		name := code + 1000 + i
		s.word(code+uint64(p.CodeNames)+8*i, name)
		if h ^= name; i > 0 {
			h *= 0x9e3779b97f4a7c15
			if i < 3 {
				h ^= h >> 29
			}
		}
	}
	return unwind.RawFrame{Runtime: unwind.RuntimePython, A: code, B: uint64(offset)<<32 | h>>32}
}

// thread makes the thread's state lead to a frame.
func (s *snake) thread(self, frame uint64) {
	const state = heapAt + 0x100
	s.word(threadAt+16, state)
	s.word(state+0, 0)
	s.word(state+8, self)
	s.word(state+16, 0)
	s.word(state+24, frame)
}

func native(function, n int) unwind.RawFrame {
	f := unwind.RawFrame{A: at(function), Flags: unwind.FrameReturn}
	if n == 0 {
		f.Flags = 0
	}
	return f
}

// take compares what both variants say.
func (s *snake) take(t *testing.T, h hosts, stop unwind.StopReason, failed bool, want ...unwind.RawFrame) {
	t.Helper()
	load(t, h, s.Mappings)
	for v, host := range h {
		if err := host.Python(&s.proc); err != nil {
			t.Fatal(err)
		}
		if err := host.Constant("max_frames", uint32(s.MaxFrames)); err != nil {
			t.Fatal(err)
		}
		r, err := host.Take(&hostbpf.Sample{Registers: s.Registers, ThreadPointer: threadAt}, &s.Memory)
		if err != nil {
			t.Fatalf("%s: %v", v, err)
		}
		if r.StopReason() != stop || !slices.Equal(r.Frames, want) {
			t.Errorf("%s: %v, not %v; found\n%swant\n%s", v, r.StopReason(), stop, show(s.Mappings, r.Frames, r.StopReason()), show(s.Mappings, want, stop))
		}
		if got := r.FailedRuntime == uint8(unwind.RuntimePython); got != failed {
			t.Errorf("%s: frames are missing: %v, at line %d", v, got, r.FailedLine)
		}
	}
}

// shim makes one in the stack of the n-th of the loop's frames, the innermost being the first. It returns its address.
func (s *snake) shim(n int, caller uint64) uint64 {
	a := s.loops[n] + 8
	words := [6]uint64{0: heapAt, 1: caller, 5: uint64(s.proc.Shim) << 16}
	for i, w := range words {
		s.word(a+8*uint64(i), w)
	}
	return a
}

// shimmed has frames as short as stacks are here.
func shimmed(arch unwind.Arch, functions ...int) *snake {
	s := newSnake(arch, functions...)
	s.proc.FrameBytes, s.proc.FrameAt, s.proc.FrameOwner = 48, 32, 42
	s.proc.Flags, s.proc.Shim = uint8(abi.LoopPythonFlagPYTHON_SHIM), 3
	return s
}

// TestPythonShims is CPython from 3.12 on: what a native frame evaluates ends with a frame on its own stack.
func TestPythonShims(t *testing.T) {
	eachArch(t, func(t *testing.T, arch unwind.Arch, h hosts) {
		s := shimmed(arch, cFunction, loopFunction, cFunction, loopFunction, rootFunction)
		inner := s.frame(heapAt+0x1000, heapAt+0x8000, heapAt+0x2000, 6, 0)
		generator := s.frame(heapAt+0x2000, heapAt+0x9000, s.shim(0, heapAt+0x3000), 8, 1)
		outer := s.frame(heapAt+0x3000, heapAt+0xa000, s.shim(1, 0), 10, 2)
		s.thread(threadAt, heapAt+0x1000)
		s.take(t, h, unwind.StopRoot, false, native(cFunction, 0), inner, generator, native(cFunction, 2), outer, native(rootFunction, 4))
	})
}

// TestPythonPrologue falls into the loop before it has linked its frame: what is linked is the caller's.
func TestPythonPrologue(t *testing.T) {
	eachArch(t, func(t *testing.T, arch unwind.Arch, h hosts) {
		s := shimmed(arch, loopFunction, cFunction, loopFunction, rootFunction)
		caller := s.frame(heapAt+0x3000, heapAt+0xa000, s.shim(1, 0), 10, 0)
		s.thread(threadAt, heapAt+0x3000)
		s.take(t, h, unwind.StopRoot, false, native(loopFunction, 0), native(cFunction, 1), caller, native(rootFunction, 3))
	})
}

// TestPythonSkipped: frames of a loop that the walk has passed over, because the code that it called was guessed wrongly, stand with those
// of the next.
func TestPythonSkipped(t *testing.T) {
	eachArch(t, func(t *testing.T, arch unwind.Arch, h hosts) {
		s := shimmed(arch, cFunction, loopFunction, rootFunction)
		s.loops = append(s.loops, s.sp-0x100)
		skipped := s.frame(heapAt+0x1000, heapAt+0x8000, s.shim(1, heapAt+0x3000), 6, 0)
		f := s.frame(heapAt+0x3000, heapAt+0xa000, s.shim(0, 0), 10, 0)
		s.thread(threadAt, heapAt+0x1000)
		s.take(t, h, unwind.StopRoot, false, native(cFunction, 0), skipped, f, native(rootFunction, 2))
	})
}

// TestPythonResumed: where user space will finish a walk that has to stop in the loop, it begins with the loop's own frame, and that frames
// are missing is counted.
func TestPythonResumed(t *testing.T) {
	eachArch(t, func(t *testing.T, arch unwind.Arch, h hosts) {
		s := shimmed(arch, cFunction, loopFunction, rootFunction)
		s.frame(heapAt+0x3000, heapAt+0xa000, s.shim(0, 0), 10, 0)
		s.thread(threadAt, heapAt+0x3000)
		s.Mappings[1].Table = nil // not there yet
		s.take(t, h, unwind.StopNoTable, true, native(cFunction, 0))
	})
}

// TestPythonTail is an interpreter of functions that jump to each other. What calls the first of them has the frame that ends Python's on its
// stack, and is not shown.
func TestPythonTail(t *testing.T) {
	eachArch(t, func(t *testing.T, arch unwind.Arch, h hosts) {
		s := shimmed(arch, cFunction, loopFunction, partFunction, cFunction, loopFunction, partFunction, rootFunction)
		s.proc.Flags |= uint8(abi.LoopPythonFlagPYTHON_TAIL)
		inner := s.frame(heapAt+0x1000, heapAt+0x8000, s.shim(1, heapAt+0x3000), 6, 0)
		outer := s.frame(heapAt+0x3000, heapAt+0xa000, s.shim(3, 0), 10, 0)
		s.thread(threadAt, heapAt+0x1000)
		s.take(t, h, unwind.StopRoot, false, native(cFunction, 0), inner, native(cFunction, 3), outer, native(rootFunction, 6))
	})
}

// TestPythonLinked is CPython up to 3.10: each native frame of the loop evaluates one frame.
func TestPythonLinked(t *testing.T) {
	eachArch(t, func(t *testing.T, arch unwind.Arch, h hosts) {
		s := newSnake(arch, loopFunction, cFunction, loopFunction, loopFunction, rootFunction)
		s.proc.Flags, s.proc.FrameAt, s.proc.FrameCode, s.proc.FramePrevious, s.proc.FrameBytes = uint8(abi.LoopPythonFlagPYTHON_LINKED), 104, 32, 24, 112
		a := s.frame(heapAt+0x1000, heapAt+0x8000, heapAt+0x2000, 6, 0)
		b := s.frame(heapAt+0x2000, heapAt+0x9000, heapAt+0x3000, ^uint32(0), 0)
		c := s.frame(heapAt+0x3000, heapAt+0xa000, 0, 10, 0)
		s.thread(threadAt, heapAt+0x1000)
		s.take(t, h, unwind.StopRoot, false, a, native(cFunction, 1), b, c, native(rootFunction, 4))
	})
}

// TestPythonEntries is CPython 3.11: the frame is marked with which a native one was entered.
func TestPythonEntries(t *testing.T) {
	eachArch(t, func(t *testing.T, arch unwind.Arch, h hosts) {
		s := shimmed(arch, cFunction, loopFunction, loopFunction, rootFunction)
		s.proc.Flags = uint8(abi.LoopPythonFlagPYTHON_ENTRY | abi.LoopPythonFlagPYTHON_CFRAME)
		s.proc.CframeFrame, s.proc.CframePrevious = 8, 16
		cframes := []uint64{s.loops[0] + 8, s.loops[1] + 8}
		s.word(cframes[0]+8, heapAt+0x1000)
		s.word(cframes[0]+16, cframes[1])
		s.word(cframes[1]+16, 0)
		a := s.frame(heapAt+0x1000, heapAt+0x8000, heapAt+0x2000, 6, 0)
		b := s.frame(heapAt+0x2000, heapAt+0x9000, heapAt+0x3000, 8, 1)
		c := s.frame(heapAt+0x3000, heapAt+0xa000, 0, 10, 1)
		s.thread(threadAt, cframes[0])
		s.take(t, h, unwind.StopRoot, false, native(cFunction, 0), a, b, c, native(rootFunction, 3))

		s.thread(threadAt, cframes[1]) // the innermost has no frame yet
		s.word(cframes[1]+8, heapAt+0x3000)
		s.take(t, h, unwind.StopRoot, false, native(cFunction, 0), native(loopFunction, 1), c, native(rootFunction, 3))
	})
}

// TestPythonWithout: what leads to no frames leaves the native ones, and is counted if there should be some.
func TestPythonWithout(t *testing.T) {
	eachArch(t, func(t *testing.T, arch unwind.Arch, h hosts) {
		bare := []unwind.RawFrame{native(cFunction, 0), native(loopFunction, 1), native(rootFunction, 2)}
		fresh := func() *snake { return shimmed(arch, cFunction, loopFunction, rootFunction) }
		s := fresh()
		s.take(t, h, unwind.StopRoot, true, bare...) // nothing can be read
		s = fresh()
		s.word(threadAt+16, 0)
		s.take(t, h, unwind.StopRoot, false, bare...) // the thread has never run Python
		s = fresh()
		s.thread(threadAt+1, heapAt+0x1000)
		s.take(t, h, unwind.StopRoot, true, bare...) // it is another thread's
		s = fresh()
		s.thread(threadAt, heapAt+0x1000)
		s.take(t, h, unwind.StopRoot, true, bare...) // the frame is not there
		s = fresh()
		s.thread(threadAt, 0)
		s.take(t, h, unwind.StopRoot, false, bare...) // it runs none now
	})
}

// TestPythonCycle: frames that lead in a circle end with the frames that a sample may have.
func TestPythonCycle(t *testing.T) {
	eachArch(t, func(t *testing.T, arch unwind.Arch, h hosts) {
		s := shimmed(arch, cFunction, loopFunction, rootFunction)
		f := s.frame(heapAt+0x1000, heapAt+0x8000, heapAt+0x1000, 6, 0)
		s.thread(threadAt, heapAt+0x1000)
		want := []unwind.RawFrame{native(cFunction, 0)}
		for len(want) < s.MaxFrames {
			want = append(want, f)
		}
		s.take(t, h, unwind.StopMaxFrames, false, want...)
	})
}
