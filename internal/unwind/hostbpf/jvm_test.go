package hostbpf_test

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/ebpf/abi"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/hostbpf"
	"github.com/hostprofiles/hostprofiles/internal/unwind/hostbpf/tape"
)

const (
	cacheAt    = 0x7f5500000000 // the code heap
	cacheBytes = 0x10000
	cacheShift = 7
	segmapAt   = 0x7f5600000000
	namesAt    = 0x7f5700000000
	metaAt     = 0x7f5800000000
	jvmStackAt = 0x7ffd00001000
	jvmStack   = 0x1000
	blobCode   = 0x180 // from the blob to its code
	blobBytes  = 0x400
	bytecodes  = 56 // in a ConstMethod

	// places of blobs
	interpreterBlob = 0
	callBlob        = 0x1000
	stubBlob        = 0x1800
	vtableBlob      = 0x2000
	barrierBlob     = 0x2800
	wrapperBlob     = 0x4000
	innerBlob       = 0x5000
	outerBlob       = 0x6000

	callReturn = cacheAt + callBlob + 0x200
	barrier    = cacheAt + barrierBlob + 0x200
	inside     = cacheAt + interpreterBlob + 0x400 // the interpreter
)

// jvm is a process with HotSpot: a code heap, a stack, and two native functions: the root, and one whose frames have 16 bytes.
type jvm struct {
	*world
	proc   abi.LoopHotspotProc
	cache  []byte
	segmap []byte
	stack  []byte
}

// newJVM has blobs as JDK 25 has them, or as JDK 17 does.
func newJVM(arch unwind.Arch, recent bool) *jvm {
	small := unwind.Rule{CFA: unwind.CFAReg, Reg: stackPointer(arch), Offset: 16, RAOffset: -1}
	j := &jvm{world: newWorld(arch, small, rootRule), cache: make([]byte, cacheBytes), stack: make([]byte, jvmStack)}
	j.segmap = slices.Repeat([]byte{0xff}, cacheBytes>>cacheShift)
	j.Mappings = append(j.Mappings, tape.Mapping{
		Mapping: unwind.Mapping{Start: cacheAt, End: cacheAt + cacheBytes}, NoTable: true, Runtime: unwind.RuntimeHotspot,
	})
	slices.SortFunc(j.Mappings, func(a, b tape.Mapping) int { return int(int64(a.Start) - int64(b.Start)) })
	j.proc = abi.LoopHotspotProc{
		Low: cacheAt, High: cacheAt + cacheBytes, InterpreterLow: cacheAt + interpreterBlob + 0x200, InterpreterHigh: cacheAt + interpreterBlob + 0x800,
		CallReturn: callReturn, BarrierLow: cacheAt + barrierBlob, BarrierHigh: cacheAt + barrierBlob + blobBytes,
		HeadBytes: 328, BlockBytes: 16, Used: 8, Name: 112, Size: 28, FrameSize: 44, FrameComplete: 36, Code: 48, CompileId: 320, OrigPc: 316,
		Deopt: 144, DeoptMh: 152, MethodConst: 8, ConstBytes: bytecodes, Bcp: 8, FrameWords: 9,
		Flags: uint8(abi.LoopHotspotFlagHOTSPOT_CODE_POINTER | abi.LoopHotspotFlagHOTSPOT_DEOPT_POINTER | abi.LoopHotspotFlagHOTSPOT_DEOPT_MH),
	}
	if recent {
		p := &j.proc
		p.HeadBytes, p.BlockBytes, p.Used, p.Name, p.Size, p.FrameSize, p.FrameComplete, p.Code = 224, 8, 4, 16, 32, 52, 62, 44
		p.Kind, p.NmethodKind, p.CompileId, p.OrigPc, p.Deopt, p.DeoptMh = 64, 1, 220, 216, 184, 188
		p.Flags = uint8(abi.LoopHotspotFlagHOTSPOT_KINDS | abi.LoopHotspotFlagHOTSPOT_SHORT_COMPLETE | abi.LoopHotspotFlagHOTSPOT_DEOPT_MH)
	}
	if arch == unwind.ArchARM64 {
		j.proc.Bcp, j.proc.FrameWords = 9, 10
	}
	j.proc.Heap[1] = abi.LoopHotspotHeap{Low: cacheAt, High: cacheAt + cacheBytes, Segmap: segmapAt, Shift: cacheShift}
	j.blob(interpreterBlob, "Interpreter", 0x1000, 0, -1)
	j.blob(callBlob, "StubRoutines (1)", 0x800, 0, -1)
	j.blob(stubBlob, "StubRoutines (2)", 0x800, 0, -1)
	j.blob(vtableBlob, "vtable chunks", 0x800, 0, -1)
	j.blob(barrierBlob, "continuation", 0x800, 0, -1)
	j.blob(wrapperBlob, "native nmethod", 0x800, 6, 16)
	j.blob(innerBlob, "nmethod", 0x800, 8, 32)
	j.blob(outerBlob, "nmethod", 0x800, 4, 32)
	j.Registers.Reg[stackPointer(arch)] = jvmStackAt
	return j
}

func (j *jvm) put4(at int, v uint32) { binary.LittleEndian.PutUint32(j.cache[at:], v) }
func (j *jvm) put8(at int, v uint64) { binary.LittleEndian.PutUint64(j.cache[at:], v) }

// push puts a word on the stack, at so many words from its beginning.
func (j *jvm) push(word int, v uint64) { binary.LittleEndian.PutUint64(j.stack[8*word:], v) }

func stackWord(word int) uint64 { return jvmStackAt + 8*uint64(word) }

// blob makes one in a block of its own. Its number of the compilation is that of its place.
func (j *jvm) blob(block int, name string, size int, frame, complete int32) {
	p := &j.proc
	for i := range size >> cacheShift {
		j.segmap[block>>cacheShift+i] = byte(min(i, 254)) // never more here
	}
	j.cache[block+int(p.Used)] = 1
	blob := block + int(p.BlockBytes)
	j.put8(block+int(p.Name), namesAt+uint64(block))
	j.Memory.Add(unwind.Addr(namesAt+block), append([]byte(name), make([]byte, 16)...))
	j.put4(block+int(p.Size), uint32(size)-uint32(p.BlockBytes))
	j.put4(block+int(p.FrameSize), uint32(frame))
	nmethod := name == "nmethod" || name == "native nmethod"
	if p.Flags&uint8(abi.LoopHotspotFlagHOTSPOT_KINDS) != 0 {
		binary.LittleEndian.PutUint16(j.cache[block+int(p.FrameComplete):], uint16(complete))
		j.put4(block+int(p.Code), blobCode)
		j.cache[block+int(p.Kind)] = 2
		if nmethod {
			j.cache[block+int(p.Kind)] = 1
		}
	} else {
		j.put4(block+int(p.FrameComplete), uint32(complete))
		j.put8(block+int(p.Code), cacheAt+uint64(blob)+blobCode)
	}
	if !nmethod {
		return
	}
	j.put4(block+int(p.CompileId), uint32(block))
	j.put4(block+int(p.OrigPc), 16)
	if p.Flags&uint8(abi.LoopHotspotFlagHOTSPOT_DEOPT_POINTER) != 0 {
		j.put8(block+int(p.Deopt), cacheAt+uint64(blob)+0x380)
		j.put8(block+int(p.DeoptMh), cacheAt+uint64(blob)+0x390)
	} else {
		j.put4(block+int(p.Deopt), 0x380)
		j.put4(block+int(p.DeoptMh), 0x390)
	}
}

// code is an address in a blob's code.
func (j *jvm) code(block int, offset uint64) uint64 {
	return cacheAt + uint64(block) + uint64(j.proc.BlockBytes) + blobCode + offset
}

// calls puts a call before a place in a blob's code.
func (j *jvm) calls(block int, offset uint64) uint64 {
	at := j.code(block, offset)
	if j.Arch == unwind.ArchARM64 {
		j.put4(int(at-4-cacheAt), 0xd63f0000) // blr x0
	} else {
		copy(j.cache[at-5-cacheAt:], []byte{0xe8, 0, 0, 0, 0})
	}
	return at
}

// compiled is what BPF says of a place in a blob's code.
func (j *jvm) compiled(block int, offset uint64, flags unwind.FrameFlags) unwind.RawFrame {
	f := unwind.RawFrame{
		Runtime: unwind.RuntimeHotspot, Flags: flags, A: cacheAt + uint64(block) + uint64(j.proc.BlockBytes), B: uint64(block)<<32 | offset,
	}
	if flags&unwind.FrameReturn == 0 {
		f.A |= 4 << 52
	}
	return f
}

func (j *jvm) stub(block int, flags unwind.FrameFlags) unwind.RawFrame {
	f := j.compiled(block, 0, flags)
	f.A |= 2 << 52
	f.B = namesAt + uint64(block)
	return f
}

// method makes the n-th one, and returns its address and that of its ConstMethod.
func (j *jvm) method(n uint64) (method, constMethod uint64) {
	method = metaAt + 0x1000*n
	constMethod = method + 0x800
	j.word(method+8, constMethod)
	return method, constMethod
}

func interpreted(n, bci uint64, flags unwind.FrameFlags) unwind.RawFrame {
	f := unwind.RawFrame{Runtime: unwind.RuntimeHotspot, Flags: flags, A: metaAt + 0x1000*n | 1<<52, B: bci<<48 | (metaAt + 0x1000*n + 0x800)}
	if flags&unwind.FrameReturn == 0 {
		f.A |= 4 << 52
	}
	return f
}

// frameOf puts an interpreted frame of the n-th method on the stack, whose frame pointer is at a word.
func (j *jvm) frameOf(n uint64, fp int, bci, sender, callerFP, ra uint64) {
	method, cm := j.method(n)
	j.push(fp+1, ra)
	j.push(fp, callerFP)
	j.push(fp-1, sender)
	j.push(fp-3, method)
	j.push(fp-int(j.proc.Bcp), cm+bytecodes+bci)
}

// bottom is the frame of the stub that calls Java, at a word, and the root behind it.
func (j *jvm) bottom(fp int) uint64 {
	j.push(fp, 0)
	j.push(fp+1, at(1))
	return stackWord(fp)
}

func (j *jvm) fp() int {
	if j.Arch == unwind.ArchARM64 {
		return unwind.ARM64FP
	}
	return unwind.AMD64RBP
}

// take compares what both variants say.
func (j *jvm) take(t *testing.T, h hosts, what string, stop unwind.StopReason, want ...unwind.RawFrame) {
	t.Helper()
	var memory tape.Memory
	for _, r := range j.Memory.Ranges() {
		memory.Add(r.Addr, r.Bytes)
	}
	memory.Add(cacheAt, j.cache)
	memory.Add(segmapAt, j.segmap)
	memory.Add(jvmStackAt, j.stack)
	load(t, h, j.Mappings)
	for v, host := range h {
		if err := host.Hotspot(&j.proc); err != nil {
			t.Fatal(err)
		}
		if err := host.Constant("max_frames", uint32(j.MaxFrames)); err != nil {
			t.Fatal(err)
		}
		r, err := host.Take(&hostbpf.Sample{Registers: j.Registers}, &memory)
		if err != nil {
			t.Fatalf("%s: %v", v, err)
		}
		if r.StopReason() != stop || !slices.Equal(r.Frames, want) {
			t.Errorf("%s, %s: %v at line %d, not %v; found\n%swant\n%s", what, v, r.StopReason(), max(r.StopLine, r.FailedLine), stop,
				show(j.Mappings, r.Frames, r.StopReason()), show(j.Mappings, want, stop))
		}
		if calls := host.Calls(); calls > 2000 {
			t.Errorf("%s, %s: %d lookups and reads", what, v, calls)
		}
	}
}

// eachJVM runs a test for both architectures and both layouts.
func eachJVM(t *testing.T, f func(t *testing.T, h hosts, fresh func() *jvm)) {
	t.Helper()
	eachArch(t, func(t *testing.T, arch unwind.Arch, h hosts) {
		for _, recent := range []bool{false, true} {
			f(t, h, func() *jvm { return newJVM(arch, recent) })
		}
	})
}

// TestJavaFrames goes from native code through a native method's wrapper, compiled and interpreted methods to native code.
func TestJavaFrames(t *testing.T) {
	const r = unwind.FrameReturn
	eachJVM(t, func(t *testing.T, h hosts, fresh func() *jvm) {
		j := fresh()
		j.Registers.PC = unwind.Addr(at(0))
		j.push(1, j.code(wrapperBlob, 0x40)) // of native code: two words
		j.push(2+5, j.code(innerBlob, 0x80)) // of the wrapper: six
		j.push(8+6, stackWord(30))           // of a compiled method: eight
		j.push(8+7, inside)
		j.frameOf(1, 30, 7, stackWord(36), 12345, j.code(outerBlob, 0x60))
		j.push(36+2, j.bottom(60)) // of another: four
		j.push(36+3, callReturn)
		j.take(t, h, "all kinds", unwind.StopRoot, native(0, 0), j.compiled(wrapperBlob, 0x40, r), j.compiled(innerBlob, 0x80, r), interpreted(1, 7, r),
			j.compiled(outerBlob, 0x60, r), native(1, 1))

		deopt := cacheAt + innerBlob + uint64(j.proc.BlockBytes)
		for name, handler := range map[string]uint64{"deoptimized": deopt + 0x380, "deoptimized in a call of a method handle": deopt + 0x390} {
			j.push(2+5, handler)
			j.push(8+2, j.code(innerBlob, 0x84)) // at 16 bytes in its frame
			j.take(t, h, name, unwind.StopRoot, native(0, 0), j.compiled(wrapperBlob, 0x40, r), j.compiled(innerBlob, 0x84, r), interpreted(1, 7, r),
				j.compiled(outerBlob, 0x60, r), native(1, 1))
		}
	})
}

// TestVirtualThread: what called a virtual thread's frames may not be on the stack; its carrier's is.
func TestVirtualThread(t *testing.T) {
	const r = unwind.FrameReturn
	eachJVM(t, func(t *testing.T, h hosts, fresh func() *jvm) {
		j := fresh()
		j.Registers.PC = unwind.Addr(at(0))
		j.push(1, j.code(innerBlob, 0x80))
		j.push(2+6, stackWord(20))
		j.push(2+7, barrier)
		j.push(20, stackWord(60))
		j.push(21, j.code(outerBlob, 0x60)) // Continuation.run
		j.push(22+2, j.bottom(60))
		j.push(22+3, callReturn)
		j.take(t, h, "a virtual thread", unwind.StopRoot, native(0, 0), j.compiled(innerBlob, 0x80, r), j.compiled(outerBlob, 0x60, r), native(1, 1))

		j.proc.EntryBytes = 64 // the stack pointer is not at the entry
		j.take(t, h, "with arguments on the stack", unwind.StopRoot, native(0, 0), j.compiled(innerBlob, 0x80, r), j.compiled(outerBlob, 0x60, r), native(1, 1))

		// A method that uses the frame pointer's register for something else: the carrier's frame is behind the ContinuationEntry.
		for name, other := range map[string]uint64{"another number": 7, "an address elsewhere": 0xdead0000, "a place on the stack": stackWord(40)} {
			j := fresh()
			j.proc.EntryBytes = 64
			j.Registers.PC = unwind.Addr(at(0))
			j.push(1, j.code(innerBlob, 0x80))
			j.push(2+6, other)
			j.push(2+7, barrier)
			j.push(10+8, stackWord(60))
			j.push(10+9, j.code(outerBlob, 0x60))
			j.push(20+2, j.bottom(60))
			j.push(20+3, callReturn)
			j.take(t, h, name, unwind.StopRoot, native(0, 0), j.compiled(innerBlob, 0x80, r), j.compiled(outerBlob, 0x60, r), native(1, 1))
		}
	})
}

// TestJavaLeaves falls into compiled code anywhere: before there is a frame, in it, and when it is gone.
func TestJavaLeaves(t *testing.T) {
	const r = unwind.FrameReturn
	insns := func(v ...uint32) (b []byte) {
		for _, i := range v {
			b = binary.LittleEndian.AppendUint32(b, i)
		}
		return b
	}
	type leaf struct {
		name         string
		before, code []byte // around pc
		offset       uint64
		slot         int // where the return address is, in words above the stack pointer; -1: in the link register
		saved        int // where the caller's frame pointer is; -1: in its register
		sp           int // the caller's
	}
	leaves := map[unwind.Arch][]leaf{
		unwind.ArchAMD64: {
			{"the first instruction", nil, []byte{0x89, 0x84, 0x24}, 0, 0, -1, 1},
			{"behind push %rbp", []byte{0x55}, []byte{0x48, 0x83, 0xec, 0x30}, 8, 1, 0, 2},
			{"behind sub", []byte{0x55, 0x48, 0x83, 0xec, 0x30}, []byte{0x41, 0x81, 0x7f, 0x20}, 16, 7, 6, 8},
			{"behind a long sub", []byte{0x55, 0x48, 0x81, 0xec, 0x30, 0, 0, 0}, []byte{0x41, 0x81, 0x7f, 0x20}, 16, 7, 6, 8},
			{"before mov %rbp, 0x30(%rsp)", []byte{0x48, 0x83, 0xec, 0x38}, []byte{0x48, 0x89, 0x6c, 0x24, 0x30}, 16, 7, -1, 8},
			{"in the entry barrier", []byte{0x48, 0x83, 0xec, 0x30, 0x41, 0x81, 0x7f, 0x20, 1, 0, 0, 0}, []byte{0x0f, 0x85}, 24, 7, 6, 8},
			{"the body", nil, []byte{0x90, 0x90}, 0x100, 7, 6, 8},
			{"where a word is pushed", nil, []byte{0x90, 0x90}, 0x100, 8, 7, 9},
			{"pop %rbp", nil, []byte{0x5d, 0x49, 0x3b, 0xa7}, 0x100, 1, 0, 2},
			{"the poll of JDK 17", nil, []byte{0x49, 0x3b, 0xa7}, 0x100, 0, -1, 1},
			{"that of JDK 11", nil, []byte{0x4d, 0x8b, 0x97}, 0x100, 0, -1, 1},
			{"that of JDK 8", nil, []byte{0x85, 0x05}, 0x100, 0, -1, 1},
			{"ret", nil, []byte{0xc3}, 0x100, 0, -1, 1},
		},
		unwind.ArchARM64: {
			{"the first instruction", nil, insns(0xd503201f), 0, -1, -1, 0},
			{"before stp", insns(0xd10103ff), insns(0xa9037bfd), 8, -1, -1, 8},
			{"behind stp", insns(0xd10103ff, 0xa9037bfd), insns(0xd503201f), 12, 7, 6, 8},
			{"behind a stp that pushes", insns(0xa9bf7bfd), insns(0xd100c3ff), 12, 1, 0, 2},
			{"the body", nil, insns(0xd503201f), 0x100, 7, 6, 8},
			{"behind ldp", insns(0xa9437bfd), insns(0x910103ff, 0xd65f03c0), 0x100, -1, -1, 8},
			{"behind add", insns(0xa9437bfd, 0x910103ff), insns(0xd65f03c0), 0x100, -1, -1, 0},
		},
	}
	eachJVM(t, func(t *testing.T, h hosts, fresh func() *jvm) {
		for _, tt := range leaves[fresh().Arch] {
			j := fresh()
			pc := j.code(innerBlob, tt.offset)
			j.Registers.PC = unwind.Addr(pc)
			copy(j.cache[pc-cacheAt-uint64(len(tt.before)):], tt.before)
			copy(j.cache[pc-cacheAt:], tt.code)
			ra := j.calls(outerBlob, 0x60)
			for i := range 20 { // nothing else looks like a return address
				j.push(i, uint64(i))
			}
			j.Registers.Reg[j.fp()] = 4711
			if tt.saved < 0 {
				j.Registers.Reg[j.fp()] = stackWord(40) // of the interpreted method, behind one that leaves it alone
			} else {
				j.push(tt.saved, stackWord(40))
			}
			if j.Arch == unwind.ArchARM64 {
				j.Registers.Reg[unwind.ARM64LR] = 4712
			}
			if tt.slot < 0 {
				j.Registers.Reg[unwind.ARM64LR] = ra
			} else {
				j.push(tt.slot, ra)
			}
			// the caller has four words; where it saved the frame pointer is what it found
			j.push(tt.sp+2, stackWord(40))
			j.push(tt.sp+3, inside)
			j.frameOf(1, 40, 7, stackWord(44), j.bottom(60), callReturn)
			j.take(t, h, tt.name, unwind.StopRoot, j.compiled(innerBlob, tt.offset, 0), j.compiled(outerBlob, 0x60, r), interpreted(1, 7, r), native(1, 1))
		}
	})
}

// TestJavaStubs falls into code that is no method's.
func TestJavaStubs(t *testing.T) {
	const r = unwind.FrameReturn
	eachJVM(t, func(t *testing.T, h hosts, fresh func() *jvm) {
		for name, tt := range map[string]struct {
			block, slot int
			byFP        bool
		}{"a table's stub": {vtableBlob, 0, false}, "a stub that pushed": {stubBlob, 3, false}, "one with a frame pointer": {stubBlob, 5, true}} {
			j := fresh()
			j.Registers.PC = unwind.Addr(j.code(tt.block, 0x40))
			ra := j.calls(outerBlob, 0x60)
			if j.Arch == unwind.ArchARM64 && !tt.byFP {
				tt.slot = -1
				j.Registers.Reg[unwind.ARM64LR] = ra
			} else {
				j.push(tt.slot, ra)
			}
			j.Registers.Reg[j.fp()] = 4711
			if tt.byFP {
				j.push(0, j.calls(innerBlob, 0x70)) // it would be the caller of a stub without a frame
				if j.Arch == unwind.ArchARM64 {
					j.push(0, 0)
				}
				j.push(4, 4711)
				j.Registers.Reg[j.fp()] = stackWord(4)
			}
			j.push(tt.slot+1+2, j.bottom(60))
			j.push(tt.slot+1+3, callReturn)
			j.take(t, h, name, unwind.StopRoot, j.stub(tt.block, 0), j.compiled(outerBlob, 0x60, r), native(1, 1))
		}
	})
}

// TestSubtypeCheckStub falls into C1's check of a subtype: its caller has pushed two arguments.
func TestSubtypeCheckStub(t *testing.T) {
	const r = unwind.FrameReturn
	eachJVM(t, func(t *testing.T, h hosts, fresh func() *jvm) {
		for _, name := range []string{"slow_subtype_check Runtime1 stub", "C1 Runtime slow_subtype_check_blob"} {
			for offset, pushed := range map[uint64]int{0: 0, 0x40: 4, 0x80: 8} {
				j := fresh()
				j.blob(vtableBlob, name, 0x800, 0, -1)
				j.Registers.PC = unwind.Addr(j.code(vtableBlob, offset))
				j.Registers.Reg[j.fp()] = stackWord(40) // that of a frame further out
				j.push(40, j.bottom(60))
				j.push(41, j.calls(innerBlob, 0x70))
				if j.Arch == unwind.ArchARM64 {
					pushed = min(pushed, 4)
				}
				word, ra := pushed, j.calls(outerBlob, 0x60)
				if j.Arch == unwind.ArchARM64 {
					j.Registers.Reg[unwind.ARM64LR] = ra
				} else {
					j.push(word, ra)
					word++
				}
				j.push(word+2+2, j.bottom(60)) // behind two arguments, a frame of four words
				j.push(word+2+3, callReturn)
				j.take(t, h, name, unwind.StopRoot, j.stub(vtableBlob, 0), j.compiled(outerBlob, 0x60, r), native(1, 1))
			}
		}
	})
}

// TestOtherC1Stub: no other stub of C1's without a frame has been pushed arguments for.
func TestOtherC1Stub(t *testing.T) {
	const r = unwind.FrameReturn
	eachJVM(t, func(t *testing.T, h hosts, fresh func() *jvm) {
		j := fresh()
		j.blob(vtableBlob, "C1 Runtime is_instance_of_blob", 0x800, 0, -1)
		j.Registers.PC = unwind.Addr(j.code(vtableBlob, 0x40))
		j.Registers.Reg[j.fp()] = 4711
		word, ra := 0, j.calls(outerBlob, 0x60)
		if j.Arch == unwind.ArchARM64 {
			j.Registers.Reg[unwind.ARM64LR] = ra
		} else {
			j.push(word, ra)
			word++
		}
		j.push(word+2, j.bottom(60))
		j.push(word+3, callReturn)
		j.take(t, h, "a stub", unwind.StopRoot, j.stub(vtableBlob, 0), j.compiled(outerBlob, 0x60, r), native(1, 1))
	})
}

// TestFlushStub falls into the stub that C++ calls.
func TestFlushStub(t *testing.T) {
	eachJVM(t, func(t *testing.T, h hosts, fresh func() *jvm) {
		j := fresh()
		if j.Arch != unwind.ArchAMD64 {
			return
		}
		j.blob(vtableBlob, "flush_icache_stub", 0x800, 0, -1)
		j.Registers.PC = unwind.Addr(j.code(vtableBlob, 0x10))
		j.push(0, at(0))                    // a native function with a frame of 16 bytes
		j.push(2, at(1))                    // its caller: the root
		j.push(3, j.calls(outerBlob, 0x60)) // nothing to do with it
		j.take(t, h, "flush_icache_stub", unwind.StopRoot, j.stub(vtableBlob, 0), native(0, 1), native(1, 2))
	})
}

// TestInterpreterLeaves falls into the interpreter.
func TestInterpreterLeaves(t *testing.T) {
	const r = unwind.FrameReturn
	eachJVM(t, func(t *testing.T, h hosts, fresh func() *jvm) {
		bcp, methodReg := 13, 3
		if fresh().Arch == unwind.ArchARM64 {
			bcp, methodReg = 22, 12
		}
		j := fresh()
		j.Registers.PC = inside
		j.Registers.Reg[j.fp()] = stackWord(20)
		j.frameOf(1, 20, 7, stackWord(30), 4711, j.code(outerBlob, 0x60))
		j.push(30+2, j.bottom(60))
		j.push(30+3, callReturn)
		_, cm := j.method(1)
		j.Registers.Reg[bcp] = cm + bytecodes + 9
		j.take(t, h, "by register", unwind.StopRoot, interpreted(1, 9, 0), j.compiled(outerBlob, 0x60, r), native(1, 1))
		j.Registers.Reg[bcp] = 12
		j.take(t, h, "by the frame", unwind.StopRoot, interpreted(1, 7, 0), j.compiled(outerBlob, 0x60, r), native(1, 1))

		if j.Arch == unwind.ArchARM64 { // on a part of its caller's expression stack
			j := fresh()
			j.Registers.PC = inside
			j.Registers.Reg[j.fp()] = stackWord(20)
			j.frameOf(1, 20, 7, stackWord(18), stackWord(40), inside)
			j.frameOf(2, 40, 8, stackWord(50), 4711, j.code(outerBlob, 0x60))
			j.push(50+2, j.bottom(60))
			j.push(50+3, callReturn)
			j.take(t, h, "overlapping", unwind.StopRoot, interpreted(1, 7, 0), interpreted(2, 8, r), j.compiled(outerBlob, 0x60, r), native(1, 1))

			// at its entry, called by compiled code: what is at the frame pointer is another's
			j = fresh()
			j.Registers.PC = inside
			j.Registers.Reg[stackPointer(j.Arch)] = stackWord(18)
			j.Registers.Reg[j.fp()] = stackWord(24)
			j.push(23, 0)
			j.push(25, inside)
			j.Registers.Reg[methodReg], _ = j.method(2)
			j.Registers.Reg[unwind.ARM64LR] = j.calls(outerBlob, 0x60)
			j.push(18+2, j.bottom(60))
			j.push(18+3, callReturn)
			j.take(t, h, "an entry below compiled code", unwind.StopRoot, interpreted(2, 0, 0), j.compiled(outerBlob, 0x60, r), native(1, 1))
		}

		// the frame pointer is set, the method not stored yet
		j.Registers.Reg[stackPointer(j.Arch)] = stackWord(18)
		j.Registers.Reg[methodReg], _ = j.method(2)
		j.push(20-3, 99)
		j.take(t, h, "being made", unwind.StopRoot, interpreted(2, 0xffff, 0), j.compiled(outerBlob, 0x60, r), native(1, 1))

		// there is no frame yet
		j = fresh()
		j.Registers.PC = inside
		j.Registers.Reg[j.fp()] = 4711
		j.Registers.Reg[methodReg], _ = j.method(2)
		sp := 1
		if j.Arch == unwind.ArchARM64 {
			j.Registers.Reg[unwind.ARM64LR] = j.calls(outerBlob, 0x60)
			sp = 0
		} else {
			j.push(0, j.calls(outerBlob, 0x60))
		}
		j.push(sp+2, j.bottom(60))
		j.push(sp+3, callReturn)
		j.take(t, h, "an entry", unwind.StopRoot, interpreted(2, 0, 0), j.compiled(outerBlob, 0x60, r), native(1, 1))
	})
}

// TestJavaWithout: what leads nowhere ends, with what was found, and without reading for long.
func TestJavaWithout(t *testing.T) {
	eachJVM(t, func(t *testing.T, h hosts, fresh func() *jvm) {
		leaf := func(j *jvm) *jvm {
			j.Registers.PC = unwind.Addr(j.code(innerBlob, 0x100))
			return j
		}
		bare := unwind.RawFrame{A: fresh().code(innerBlob, 0x100)}
		j := leaf(fresh())
		j.take(t, h, "an empty stack", unwind.StopNoUnwindInfo, j.compiled(innerBlob, 0x100, 0))
		for name, change := range map[string]func(j *jvm){
			"no segment map":            func(j *jvm) { j.segmap = j.segmap[:4] },
			"a free segment":            func(j *jvm) { j.segmap = slices.Repeat([]byte{0xff}, len(j.segmap)) },
			"hops without an end":       func(j *jvm) { j.segmap = slices.Repeat([]byte{1}, len(j.segmap)) },
			"a hop out of it":           func(j *jvm) { j.segmap = slices.Repeat([]byte{200}, len(j.segmap)) },
			"a free block":              func(j *jvm) { j.cache[innerBlob+int(j.proc.Used)] = 0 },
			"a blob that is too small":  func(j *jvm) { j.put4(innerBlob+int(j.proc.Size), 0x100) },
			"a frame that is too large": func(j *jvm) { j.put4(innerBlob+int(j.proc.FrameSize), 1<<20) },
			"heaps that are elsewhere":  func(j *jvm) { j.proc.Low++; j.proc.High = j.proc.Low },
		} {
			j := leaf(fresh())
			change(j)
			j.take(t, h, name, unwind.StopNoUnwindInfo, bare)
		}
	})
}

// TestJavaRecursion ends with as many frames as a sample may have.
func TestJavaRecursion(t *testing.T) {
	eachJVM(t, func(t *testing.T, h hosts, fresh func() *jvm) {
		j := fresh()
		j.Registers.PC = unwind.Addr(at(0))
		want := []unwind.RawFrame{native(0, 0)}
		j.push(1, j.code(outerBlob, 0x60))
		for i := 2; i+4 < jvmStack/8; i += 4 {
			j.push(i+3, j.code(outerBlob, 0x60))
		}
		for len(want) < j.MaxFrames {
			want = append(want, j.compiled(outerBlob, 0x60, unwind.FrameReturn))
		}
		j.take(t, h, "recursion", unwind.StopMaxFrames, want...)
	})
}
