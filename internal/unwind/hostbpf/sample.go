package hostbpf

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/hostprofiles/hostprofiles/internal/ebpf/abi"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/hostbpf/tape"
	"github.com/hostprofiles/hostprofiles/internal/unwind/layout"
)

// place is where a table lies.
type place struct {
	slab, block uint32
	layout.Table
}

// process identifies the only process; what the numbers are does not matter.
const (
	processPID  = 4711
	processTID  = 4712
	processTime = 123456789
	processExec = 7
)

// Load makes the process's mappings, sorted by Start, and their tables known to BPF, in place of those before.
func (h *Host) Load(mappings []tape.Mapping) error {
	if err := h.send("clear", 0, nil); err != nil {
		return err
	}
	h.taken, h.lost = 0, 0
	places, err := h.loadTables(mappings)
	if err != nil {
		return err
	}
	// A process's mappings lie anywhere among those of others.
	encoded := make([]abi.LoopMapping, 0, len(mappings)+2)
	encoded = append(encoded, abi.LoopMapping{Start: ^uint64(0)})
	for _, m := range mappings {
		e := abi.LoopMapping{Start: uint64(m.Start), End: uint64(m.End), Bias: m.Bias, Runtime: uint8(m.Runtime), Part: m.Part}
		switch p, ok := places[m.Table]; {
		case ok:
			e.Flags = uint16(abi.LoopMappingFlagMAPPING_TABLE)
			e.Slab, e.Block, e.Page0, e.Pages = p.slab, p.block, p.Page0, p.Pages
		case m.NoTable || m.Table != nil: // a table without rows
			e.Flags = uint16(abi.LoopMappingFlagMAPPING_NO_TABLE)
		}
		encoded = append(encoded, e)
	}
	encoded = append(encoded, abi.LoopMapping{})
	if err := h.send("mappings", 0, encoded); err != nil {
		return err
	}
	return h.send("processes", 0, &abi.LoopProcess{Generation: 1, StartTime: processTime, ExecId: processExec, Base: 1,
		Count: uint32(len(mappings)), Pid: processPID})
}

// loadTables puts the tables into two slabs, by turns.
func (h *Host) loadTables(mappings []tape.Mapping) (map[*unwind.Table]place, error) {
	rules := []layout.Rule{{}}
	numbers := map[unwind.Rule]uint32{{}: 0}
	number := func(r unwind.Rule) (uint32, error) {
		n, ok := numbers[r]
		if !ok {
			n = uint32(len(rules))
			numbers[r] = n
			rules = append(rules, layout.EncodeRule(r))
		}
		return n, nil
	}
	var slabs [2][]layout.Block
	places := map[*unwind.Table]place{}
	for _, m := range mappings {
		if _, done := places[m.Table]; done || m.Table == nil {
			continue
		}
		t, err := layout.Encode(m.Table, m.Go, number)
		if errors.Is(err, layout.ErrEmpty) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("laying a table out: %w", err)
		}
		slab := len(places) % len(slabs)
		places[m.Table] = place{uint32(slab), uint32(len(slabs[slab])), t}
		slabs[slab] = append(slabs[slab], t.Blocks...)
	}
	if len(rules) > int(abi.LoopLimitsMAX_RULES) {
		return nil, fmt.Errorf("%d distinct rules", len(rules))
	}
	for i, blocks := range slabs {
		if err := h.send("slab", uint64(i), blocks); err != nil {
			return nil, err
		}
	}
	return places, h.send("rules", 0, rules)
}

// Sample is an event, and the state of the thread that it falls into.
type Sample struct {
	Registers     unwind.Registers // of user space; Known does not count, the kernel has all
	ThreadPointer unwind.Addr
	Kernel        []uint64 // kernel frames; with any, the event is in kernel mode
	Unknown       bool     // BPF does not know the process
	Compat        bool     // a 32-bit process
	NoMM          bool     // exiting: its address space is gone
	InExec        bool
	RingFull      bool
	RingFill      uint64 // bytes of the ring in use
	TaskFlags     uint32 // task_struct.flags
	NSLevel       uint32 // pid namespaces that the process is in below the initial one
	NSInode       uint32 // of the last
	NSPID, NSTID  uint32 // in the last
}

// Record is what BPF says of a sample.
type Record struct {
	abi.LoopSample
	Kernel []uint64
	Frames []unwind.RawFrame
	// With HasCopy, Registers are those of the frame that the walk stopped before, PendingFlags its pc's, and Stack is a copy of
	// memory from the stack pointer, rounded down to 8, on: the chunks that Copied says.
	HasCopy      bool
	Registers    unwind.Registers
	PendingFlags unwind.FrameFlags
	Stack        []byte

	Raw        []byte // as it lies in the ring
	old, plain bool
}

// StopReason says why the walk ended.
func (r *Record) StopReason() unwind.StopReason { return unwind.StopReason(r.Stop) }

// Take takes a sample of the process, which has this memory. Without an error the record is nil only if the ring is full.
func (h *Host) Take(s *Sample, mem unwind.Memory) (*Record, error) {
	m := sampleMessage{
		PC: uint64(s.Registers.PC), Reg: s.Registers.Reg,
		ThreadPointer: uint64(s.ThreadPointer), StartTime: processTime, Time: 1, RingFill: s.RingFill,
		PID: processPID, TID: processTID, NSPID: s.NSPID, NSTID: s.NSTID, NSLevel: s.NSLevel, NSInode: s.NSInode,
		ExecID: processExec, CPU: 1, TaskFlags: s.TaskFlags, KernelFrames: uint32(len(s.Kernel)),
		KernelMode: len(s.Kernel) > 0, Compat: s.Compat, NoMM: s.NoMM, InExec: s.InExec, RingFull: s.RingFull,
	}
	if s.Unknown {
		m.ExecID++
	}
	raw, err := h.take(&m, s.Kernel, mem)
	if err != nil || raw == nil {
		return nil, err
	}
	r := &Record{Raw: raw, old: h.old, plain: h.plain}
	return r, r.decode()
}

// decode follows struct sample of bpf/abi.h to the letter: every byte of the record has to be accounted for.
func (r *Record) decode() error {
	rest := r.Raw
	take := func(v any) error {
		n, err := binary.Decode(rest, binary.NativeEndian, v)
		if err != nil {
			return fmt.Errorf("decoding a record of %d bytes: %w", len(r.Raw), err)
		}
		rest = rest[n:]
		return nil
	}
	if err := take(&r.LoopSample); err != nil {
		return err
	}
	r.Kernel = make([]uint64, r.KernelWords)
	words := make([]uint64, r.UserWords)
	if err := errors.Join(take(r.Kernel), take(words)); err != nil {
		return err
	}
	for len(words) > 0 {
		f := frame(words[0])
		if words = words[1:]; f.Runtime.Words() > 1 {
			if len(words) == 0 {
				return fmt.Errorf("a record whose last frame lacks a word")
			}
			f.B, words = words[0], words[1:]
		}
		r.Frames = append(r.Frames, f)
	}
	if len(r.Frames) != int(r.UserFrames) {
		return fmt.Errorf("%d frames in a record that says it has %d", len(r.Frames), r.UserFrames)
	}
	if r.Flags&uint8(abi.LoopSampleFlagSAMPLE_COPY) != 0 && len(rest) > 0 {
		var regs abi.LoopRegisters
		r.Stack = make([]byte, r.CopyBytes)
		if err := errors.Join(take(&regs), take(r.Stack)); err != nil {
			return err
		}
		r.HasCopy = true
		r.Registers = unwind.Registers{PC: unwind.Addr(regs.Pc), Reg: regs.Reg, Known: regs.Known}
		r.PendingFlags = unwind.FrameFlags(regs.Flags)
	}
	if len(rest) != 0 {
		return fmt.Errorf("%d bytes behind the end of a record", len(rest))
	}
	return nil
}

func frame(w uint64) unwind.RawFrame {
	const addrBits, flagBits = uint(abi.LoopFrameWordFRAME_ADDR_BITS), uint(abi.LoopFrameWordFRAME_FLAG_BITS)
	return unwind.RawFrame{
		A:       w & (1<<addrBits - 1),
		Runtime: unwind.Runtime(w >> (addrBits + flagBits)),
		Flags:   unwind.FrameFlags(w >> addrBits & (1<<flagBits - 1)),
	}
}

// Python makes CPython in the process known to BPF; nil: there is none. Load forgets it.
func (h *Host) Python(proc *abi.LoopPythonProc) error {
	if proc == nil {
		return h.send("python_procs", 0, nil)
	}
	return h.send("python_procs", 0, &struct {
		Owner abi.LoopRuntimeOwner
		Proc  abi.LoopPythonProc
	}{abi.LoopRuntimeOwner{StartTime: processTime, ExecId: processExec}, *proc})
}

// Hotspot makes HotSpot in the process known to BPF; nil: there is none. Load forgets it.
func (h *Host) Hotspot(proc *abi.LoopHotspotProc) error {
	if proc == nil {
		return h.send("hotspot_procs", 0, nil)
	}
	return h.send("hotspot_procs", 0, &struct {
		Owner abi.LoopRuntimeOwner
		Proc  abi.LoopHotspotProc
	}{abi.LoopRuntimeOwner{StartTime: processTime, ExecId: processExec}, *proc})
}

// V8 makes V8 in the process known to BPF; nil: there is none. Load forgets it.
func (h *Host) V8(proc *abi.LoopV8Proc) error {
	if proc == nil {
		return h.send("v8_procs", 0, nil)
	}
	return h.send("v8_procs", 0, &struct {
		Owner abi.LoopRuntimeOwner
		Proc  abi.LoopV8Proc
	}{abi.LoopRuntimeOwner{StartTime: processTime, ExecId: processExec}, *proc})
}
