package hotspot

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/hostprofiles/hostprofiles/internal/ebpf/abi"
	"github.com/hostprofiles/hostprofiles/internal/runtimes"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

const (
	maxHeaps           = int(abi.LoopHotspotLimitsHOTSPOT_HEAPS) // JDK 26 has three at most
	maxList            = 8                                       // heaps that are looked at
	minShift, maxShift = 5, 12                                   // of a segment's size
	maxBlocks          = 1 << 12                                 // that are looked at for a stub
	headBytes          = 8*int(abi.LoopHotspotLimitsHOTSPOT_HEAD_WORDS) - 1
	maxInterpreter     = 16 << 20
	maxEntry           = 1 << 10 // bytes
)

// codeCache is what a process has.
type codeCache struct {
	heaps                   []codeHeap
	interpreter             [2]uint64
	callReturn              uint64
	barrierLow, barrierHigh uint64 // 0 if it is not there
}

// codeHeap is one heap: what is reserved for it, and the segment map.
type codeHeap struct {
	low, high unwind.Addr
	segmap    uint64
	shift     uint32
}

// peek reads values until one cannot be read.
type peek struct {
	mem unwind.Memory
	err error
}

func (p *peek) bytes(a uint64, n int) uint64 {
	var b [8]byte
	if p.err == nil {
		p.err = p.mem.Read(unwind.Addr(a), b[:n])
	}
	if p.err != nil {
		return 0
	}
	return binary.LittleEndian.Uint64(b[:])
}

func (p *peek) word(a uint64) uint64 { return p.bytes(a, 8) }
func (p *peek) int(a uint64) int     { return int(int32(p.bytes(a, 4))) }

// notReady is what has not been made yet, unless it could not be read.
func (p *peek) notReady(what string) error {
	return cmp.Or(p.err, fmt.Errorf("%s: %w", what, runtimes.ErrNotReady))
}

// readCache reads where the code cache is. ErrNotReady if the virtual machine has not made it yet.
func (l *layout) readCache(mem unwind.Memory) (*codeCache, error) {
	p := &peek{mem: mem}
	c := &codeCache{}
	for _, a := range l.heapAddresses(p) {
		if h, ok := l.readHeap(p, a); ok {
			c.heaps = append(c.heaps, h)
		}
	}
	if len(c.heaps) == 0 || p.err != nil {
		return nil, p.notReady("there is no code cache")
	}
	slices.SortFunc(c.heaps, func(a, b codeHeap) int { return cmp.Compare(a.low, b.low) })
	for i := 1; i < len(c.heaps); i++ {
		if c.heaps[i].low < c.heaps[i-1].high {
			return nil, fmt.Errorf("code heaps overlap: %w", runtimes.ErrUnsupported)
		}
	}
	if len(c.heaps) > maxHeaps {
		return nil, fmt.Errorf("%d code heaps: %w", len(c.heaps), runtimes.ErrUnsupported)
	}
	queue := p.word(l.interpreter)
	if queue == 0 || p.err != nil {
		return nil, p.notReady("there is no interpreter")
	}
	start, size := p.word(queue+uint64(l.queueStart)), p.int(queue+uint64(l.queueSize))
	c.callReturn = p.word(l.callReturn)
	if p.err != nil || start == 0 || size <= 0 || c.callReturn == 0 {
		return nil, p.notReady("the interpreter is being made")
	}
	c.interpreter = [2]uint64{start, start + uint64(size)}
	if size > maxInterpreter || c.heapOf(start) == nil || c.heapOf(c.callReturn) == nil {
		return nil, fmt.Errorf("the interpreter is not in the code cache: %w", runtimes.ErrUnsupported)
	}
	if l.barrier != 0 {
		c.barrierLow = p.word(l.barrier)
		if c.barrierLow != 0 {
			c.barrierHigh = c.barrierLow + 1
		}
	} else if l.virtualThreads {
		c.barrierLow, c.barrierHigh = l.findStub(mem, c.heapOf(c.callReturn), "ontinuation")
	}
	return c, p.err
}

// heapAddresses are those of the CodeHeaps.
func (l *layout) heapAddresses(p *peek) (all []uint64) {
	if l.heap != 0 {
		return []uint64{p.word(l.heap)}
	}
	list := p.word(l.heaps)
	if list == 0 {
		return nil
	}
	n, data := p.int(list+uint64(l.listLength)), p.word(list+uint64(l.listData))
	for i := range min(max(n, 0), maxList) {
		all = append(all, p.word(data+8*uint64(i)))
	}
	return all
}

// readHeap reads a CodeHeap; ok is false if it is none that has a segment map.
func (l *layout) readHeap(p *peek, a uint64) (h codeHeap, ok bool) {
	if a == 0 || p.err != nil {
		return h, false
	}
	memory, segmap := a+uint64(l.heapMemory), a+uint64(l.heapMap)
	low := p.word(memory + uint64(l.spaceLow))
	h = codeHeap{
		low: unwind.Addr(p.word(memory + uint64(l.spaceStart))), high: unwind.Addr(p.word(memory + uint64(l.spaceEnd))),
		segmap: p.word(segmap + uint64(l.spaceLow)),
		shift:  uint32(p.int(a + uint64(l.heapShift))),
	}
	ok = p.err == nil && h.low != 0 && h.low < h.high && uint64(h.low) == low && h.segmap != 0 && h.shift >= minShift && h.shift <= maxShift
	return h, ok
}

func (c *codeCache) heapOf(a uint64) *codeHeap {
	for i := range c.heaps {
		if h := &c.heaps[i]; a >= uint64(h.low) && a < uint64(h.high) {
			return h
		}
	}
	return nil
}

// findStub returns where the blob is whose name contains a text, zeros if there is none. It goes from block to block, as
// CodeHeap::next_used does (share/memory/heap.cpp).
func (l *layout) findStub(mem unwind.Memory, h *codeHeap, text string) (low, high uint64) {
	p := &peek{mem: mem}
	known := map[uint64]bool{} // whether a name is it, by its address
	at := uint64(h.low)
	for range maxBlocks {
		if at < uint64(h.low) || at >= uint64(h.high) {
			break
		}
		segments, used := p.bytes(at+uint64(l.blockLength), 4), p.bytes(at+uint64(l.blockUsed), 1)
		blob := at + uint64(l.blockSize)
		if p.err != nil || segments == 0 {
			break
		}
		if used != 0 {
			name := p.word(blob + uint64(l.blob.name))
			is, ok := known[name]
			if !ok {
				s, err := readName(mem, unwind.Addr(name))
				is = err == nil && strings.Contains(s, text)
				known[name] = is
			}
			if is {
				return blob, blob + uint64(p.int(blob+uint64(l.blob.size)))
			}
		}
		at += segments << h.shift
	}
	return 0, 0
}

// plan is what BPF has to know.
func (l *layout) plan(c *codeCache, arch unwind.Arch) (*abi.LoopHotspotProc, error) {
	block := l.blockSize
	b, n := &l.blob, &l.nmethod
	proc := &abi.LoopHotspotProc{
		Low: uint64(c.heaps[0].low), High: uint64(c.heaps[len(c.heaps)-1].high),
		InterpreterLow: c.interpreter[0], InterpreterHigh: c.interpreter[1], CallReturn: c.callReturn,
		BarrierLow: c.barrierLow, BarrierHigh: c.barrierHigh, EntryBytes: l.entryBytes,
		BlockBytes: uint16(block), Used: uint16(l.blockUsed), Name: uint16(block + b.name), Kind: uint16(block + b.kind), Size: uint16(block + b.size),
		FrameSize: uint16(block + b.frameSize), FrameComplete: uint16(block + b.frameComplete.at), Code: uint16(block + b.code.at),
		Method: uint16(block + n.method), CompileId: uint16(block + n.id), OrigPc: uint16(block + n.origPC),
		Deopt: uint16(block + n.deopt.at), DeoptMh: uint16(block + n.deoptMH.at),
		MethodConst: uint16(l.method.constMethod), ConstBytes: uint16(l.method.constBytes), NmethodKind: uint8(b.nmethodKind),
	}
	for i, h := range c.heaps {
		proc.Heap[i] = abi.LoopHotspotHeap{Low: uint64(h.low), High: uint64(h.high), Segmap: h.segmap, Shift: h.shift}
	}
	head := uint16(0)
	for _, end := range []uint16{
		proc.Used, proc.Name, proc.Kind, proc.Size, proc.FrameSize, proc.FrameComplete, proc.Code, proc.Method, proc.CompileId, proc.OrigPc, proc.Deopt, proc.DeoptMh,
	} {
		head = max(head, end&^7+8)
	}
	if int(head) > headBytes {
		return nil, fmt.Errorf("HotSpot %s: blobs are too large: %w", l.release, runtimes.ErrUnsupported)
	}
	proc.HeadBytes = head
	for _, f := range []struct {
		is   bool
		flag abi.LoopHotspotFlag
	}{
		{b.kinds, abi.LoopHotspotFlagHOTSPOT_KINDS}, {b.code.bytes == 8, abi.LoopHotspotFlagHOTSPOT_CODE_POINTER},
		{n.deopt.bytes == 8, abi.LoopHotspotFlagHOTSPOT_DEOPT_POINTER}, {b.frameComplete.bytes == 2, abi.LoopHotspotFlagHOTSPOT_SHORT_COMPLETE},
		{l.major == 8, abi.LoopHotspotFlagHOTSPOT_BCI}, {n.deoptMH.bytes != 0, abi.LoopHotspotFlagHOTSPOT_DEOPT_MH},
	} {
		if f.is {
			proc.Flags |= uint8(f.flag)
		}
	}
	proc.Bcp, proc.FrameWords = l.interpreted(arch)
	return proc, nil
}

// interpreted returns where in an interpreted frame the address of the bytecode is, and how large the frame is at least, in words below the
// frame pointer. Nothing says it at run time: frame_x86.hpp and frame_aarch64.hpp of JDK 8, 11 and 26; on amd64 as 17, 21, 25 and 27
// have it, too.
func (l *layout) interpreted(arch unwind.Arch) (bcp, words uint8) {
	switch {
	case l.major == 8:
		return 7, 8
	case arch == unwind.ArchARM64:
		return 9, 10
	}
	return 8, 9
}
