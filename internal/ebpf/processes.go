package ebpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"

	"github.com/hostprofiles/hostprofiles/internal/ebpf/abi"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// ProcessID names one incarnation of a process as the kernel's records do.
type ProcessID struct {
	PID       uint32 // in the initial pid namespace
	StartTime uint64 // the group leader's start_boottime, ns
	ExecID    uint32 // task_struct.self_exec_id
}

// MappedTable is a mapping with what BPF needs to step out of code in it.
type MappedTable struct {
	unwind.Mapping
	Table TableRef
	// NoTable: there is no table and there will be none; callers are guessed. Without it and without a Table, the
	// walk stops and user space finishes it.
	NoTable    bool
	Runtime    unwind.Runtime // that owns this code; native if none does
	Part       uint8          // which of its code that is: the runtime's unwinder says what there is
	Executable uint32         // for debugging
}

// Processes tells BPF which mappings processes have. It is used by one goroutine.
type Processes struct {
	m          *ebpf.Map
	mem        []mapping
	extents    *extents
	generation uint64
	known      map[uint32]extent
	runtimes   map[string]*ebpf.Map                   // by the name in bpf/runtimes.h
	walked     []string                               // those whose unwinders are there
	runs       map[string]map[uint32]runtimeOfProcess // by runtime, what BPF knows of it by pid
}

// runtimeOfProcess is what BPF was told of a language runtime.
type runtimeOfProcess struct {
	id   ProcessID
	proc any // not to be changed
}

func newProcesses(m, mappings *ebpf.Map, runtimes map[string]*ebpf.Map) (*Processes, error) {
	mem, err := arrayMemory[mapping](mappings)
	if err != nil {
		return nil, err
	}
	p := &Processes{
		m: m, mem: mem, extents: newExtents(len(mem)), known: map[uint32]extent{}, runtimes: runtimes,
		runs: map[string]map[uint32]runtimeOfProcess{},
	}
	for name := range runtimes {
		p.runs[name] = map[uint32]runtimeOfProcess{}
	}
	return p, nil
}

// Put replaces what BPF knows of a process; the mappings are sorted by Start and don't overlap. ErrNoRoom if there are
// too many mappings or processes; the process is then unknown to BPF.
func (p *Processes) Put(id ProcessID, mappings []MappedTable) error {
	at, ok := 0, true
	if len(mappings) > 0 {
		at, ok = p.extents.alloc(len(mappings), time.Now())
	}
	if !ok {
		return errors.Join(fmt.Errorf("%w: %d mappings", ErrNoRoom, len(mappings)), p.Delete(id.PID))
	}
	for i, m := range mappings {
		p.mem[at+i] = encodeMapping(m)
	}
	p.generation++
	value := process{
		Generation: p.generation, StartTime: id.StartTime, ExecId: id.ExecID,
		Base: uint32(at), Count: uint32(len(mappings)), Pid: id.PID,
	}
	if err := p.m.Put(id.PID, value); err != nil {
		p.extents.release(at, len(mappings), time.Now())
		if errors.Is(err, ebpf.ErrKeyNotExist) || errors.Is(err, errTooBig) {
			err = ErrNoRoom
		}
		return errors.Join(fmt.Errorf("telling BPF of process %d: %w", id.PID, err), p.Delete(id.PID))
	}
	old := p.known[id.PID]
	p.extents.release(old.at, old.n, time.Now())
	p.known[id.PID] = extent{at: at, n: len(mappings)}
	return nil
}

// Delete makes BPF forget a process.
func (p *Processes) Delete(pid uint32) error {
	for name, runs := range p.runs {
		if _, ok := runs[pid]; ok {
			delete(runs, pid)
			_ = p.runtimes[name].Delete(pid) // at worst it stays there, and is of no process
		}
	}
	old, ok := p.known[pid]
	if !ok {
		return nil
	}
	delete(p.known, pid)
	p.extents.release(old.at, old.n, time.Now())
	if err := p.m.Delete(pid); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("making BPF forget process %d: %w", pid, err)
	}
	return nil
}

// PutRuntime tells BPF of a language runtime in a process, by its name in bpf/runtimes.h: proc is that one's struct of bpf/abi.h as
// package abi has it, and must not change afterwards. It counts once the process's mappings say which code is the runtime's.
// ErrNoRoom if there are too many processes.
func (p *Processes) PutRuntime(id ProcessID, runtime string, proc any) error {
	m, ok := p.runtimes[runtime]
	if !ok || !p.Walks(runtime) {
		return fmt.Errorf("telling BPF of %s: %w", runtime, errors.ErrUnsupported)
	}
	if p.runs[runtime][id.PID] == (runtimeOfProcess{id, proc}) {
		return nil
	}
	owner := abi.LoopRuntimeOwner{StartTime: id.StartTime, ExecId: id.ExecID}
	value, err := binary.Append(nil, binary.NativeEndian, &owner)
	if err == nil {
		value, err = binary.Append(value, binary.NativeEndian, proc)
	}
	if err == nil {
		err = m.Put(id.PID, value)
	}
	if errors.Is(err, ebpf.ErrKeyNotExist) || errors.Is(err, errTooBig) {
		err = ErrNoRoom
	}
	if err != nil {
		return fmt.Errorf("telling BPF of %s in process %d: %w", runtime, id.PID, err)
	}
	p.runs[runtime][id.PID] = runtimeOfProcess{id, proc}
	return nil
}

// Capacity is how many mappings there is room for in all.
func (p *Processes) Capacity() int { return len(p.mem) }

func (p *Processes) close() {
	unmapArray(p.mem)
	p.mem = nil
}

func encodeMapping(m MappedTable) mapping {
	e := mapping{Start: uint64(m.Start), End: uint64(m.End), Bias: m.Bias, Executable: m.Executable, Runtime: uint8(m.Runtime), Part: m.Part}
	switch {
	case m.Table.Valid():
		e.Flags = uint16(abi.LoopMappingFlagMAPPING_TABLE)
		e.Slab, e.Block, e.Page0, e.Pages = m.Table.slab, m.Table.block, m.Table.page0, m.Table.pages
	case m.NoTable:
		e.Flags = uint16(abi.LoopMappingFlagMAPPING_NO_TABLE)
	}
	return e
}
