package runtimes

import (
	"errors"
	"slices"
	"time"

	"github.com/hostprofiles/hostprofiles/internal/runtimes/libc"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

var (
	// ErrNotThis: the file does not hold the runtime.
	ErrNotThis = errors.New("not this runtime")
	// ErrUnsupported: the file holds the runtime, but nothing is known of this version of it.
	ErrUnsupported = errors.New("unsupported version")
	// ErrNotReady: the process has not come so far that its runtime can be told anything of; later it may have.
	ErrNotReady = errors.New("not ready yet")
	// ErrStale: what a frame refers to is something else by now, or never was what it should be.
	ErrStale = errors.New("not there any more")
)

// Runtime recognises a language runtime in executables, by what is in them. It has no state.
type Runtime interface {
	ID() unwind.Runtime
	// Detect returns ErrNotThis, wrapped or not, if the runtime is not in the file, ErrUnsupported, wrapped, if it is one
	// that frames cannot be had of, and the file's errors.
	Detect(f *elffile.File) (Image, error)
}

// Image is a runtime in an executable: what is the same in every process. It never changes, and goroutines share it.
type Image interface {
	// Version is the runtime's, for logs.
	Version() string
	// Bytes is about the memory that it holds.
	Bytes() int
	// Attach looks at a process that has the executable mapped. It returns ErrNotReady, wrapped, if it is too early.
	Attach(p *Process) (Instance, error)
}

// Process is what an Image is told of a process.
type Process struct {
	Arch   unwind.Arch
	Memory unwind.Memory
	// Image is an executable mapping of the Image's file: its Bias is the file's.
	Image unwind.Mapping
	// Threads tells where the process's C library keeps what belongs to a thread; nil if that is not known, and then ThreadsUnknown says
	// why it will not be, or is nil if it may be later.
	Threads        *libc.Threads
	ThreadsUnknown error
}

// Instance is a runtime in a process. One goroutine at a time uses it, which may block: it reads the process's memory.
type Instance interface {
	// Plan returns what BPF has to know, as it should be now. Unless that is Fixed it is asked again when the process's mappings have
	// changed, and when the time has come that the plan says.
	Plan(mem unwind.Memory, mappings []Mapping) (Plan, error)
	// Symbolize appends the lines of a frame that the runtime's unwinder has pushed, the innermost first; nothing, without an
	// error, for a frame that is not to be shown. ErrStale if the memory does not hold it any more.
	Symbolize(mem unwind.Memory, dst []unwind.Line, f unwind.RawFrame) ([]unwind.Line, error)
	// Bytes is about the memory that it holds.
	Bytes() int
}

// Mapping is an executable mapping of a process.
type Mapping struct {
	unwind.Mapping
	Anonymous bool // it is of no file: what is there was written by the process, a JIT compiler's code as a rule
	Image     bool // it is of the Image's file, and its Bias is known; a file may be mapped more than once
}

// Plan is what BPF has to know of a runtime in a process.
type Plan struct {
	Proc   any           // the runtime's struct of bpf/abi.h, as package abi has it
	Ranges []Range       // code whose frames are the runtime's unwinder's: sorted, disjoint
	Hidden []Range       // code that only leads to the runtime's: its native frames are not shown; sorted, disjoint
	Fixed  bool          // it stays as it is whatever else the process maps
	Again  time.Duration // not Fixed: after so long it is to be made again, even if the process maps nothing else; 0: no need
}

// Range is a range of addresses.
type Range struct {
	Start, End unwind.Addr
	Part       uint8 // which of the runtime's code that is: its unwinder says what there is
	// Bias is what to subtract from an address to get that of the runtime's file, for a copy of the file's code; 0: as the mapping says.
	Bias uint64
}

// Piece is a part of a mapping that lies in one range, or in none.
type Piece struct {
	unwind.Mapping
	Part  uint8
	Owned bool // by the runtime
}

// Cut cuts a mapping where ranges, which are sorted and disjoint, begin and end.
//
//	m       |.......a.......|
//	ranges      |...r...|
//	result  |.a.|..a,r..|.a.|
func Cut(m unwind.Mapping, ranges []Range) (out []Piece) {
	n, _ := slices.BinarySearchFunc(ranges, m.Start, func(r Range, a unwind.Addr) int {
		if r.End <= a {
			return -1
		}
		return 1
	})
	for _, r := range ranges[n:] {
		if r.Start >= m.End {
			break
		}
		if r.Start > m.Start {
			before := m
			before.End = r.Start
			out = append(out, Piece{Mapping: before})
			m.Start = r.Start
		}
		inside := Piece{Mapping: m, Part: r.Part, Owned: true}
		inside.End = min(m.End, r.End)
		if r.Bias != 0 {
			inside.Bias = r.Bias
		}
		out = append(out, inside)
		m.Start = inside.End
	}
	if m.Start < m.End {
		out = append(out, Piece{Mapping: m})
	}
	return out
}
