// Package tape keeps walks for later: a tape is a thread's registers, what is mapped, and just those rows of unwind tables
// and those bytes of memory that walkers looked at, taken from a live process. Any walker can be run over it again.
package tape

import (
	"slices"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/gopclntab"
	"github.com/hostprofiles/hostprofiles/internal/unwind/reference"
)

// Tape is one thread at one moment, and what its stack is.
type Tape struct {
	About         string // one line: what runs there
	Arch          unwind.Arch
	Registers     unwind.Registers
	ThreadPointer unwind.Addr
	MaxFrames     int
	Mappings      []Mapping // sorted, not overlapping
	Memory        Memory

	// What walkers must find.
	Frames []Frame
	Stop   unwind.StopReason
}

// Frame is a frame and its function's name, which is for people only.
type Frame struct {
	unwind.RawFrame
	Name string
}

// Mapping is an executable mapping of a process.
type Mapping struct {
	unwind.Mapping
	Name string // for people
	// Table may be shared by mappings; nil: there is none yet, or none at all with NoTable.
	Table *unwind.Table
	// Go is for a Go program's stack switches.
	Go      *gopclntab.Offsets
	NoTable bool
	// Runtime owns the code; native if none does. Part is which of its code that is.
	Runtime unwind.Runtime
	Part    uint8
}

// RawFrames are the frames that walkers must find.
func (t *Tape) RawFrames() []unwind.RawFrame {
	raw := make([]unwind.RawFrame, 0, len(t.Frames))
	for _, f := range t.Frames {
		raw = append(raw, f.RawFrame)
	}
	return raw
}

// Code finds rules by mappings, as reference.Lookup asks for them.
type Code []Mapping

// At returns the mapping that holds a; nil if there is none.
func (c Code) At(a unwind.Addr) *Mapping {
	i, found := slices.BinarySearchFunc(c, a, func(m Mapping, a unwind.Addr) int {
		switch {
		case m.Start > a:
			return 1
		case m.End <= a:
			return -1
		}
		return 0
	})
	if !found {
		return nil
	}
	return &c[i]
}

// Find implements reference.Lookup.
func (c Code) Find(a unwind.Addr) (reference.Code, unwind.StopReason, bool) {
	m := c.At(a)
	switch {
	case m == nil:
		return reference.Code{}, unwind.StopNoMapping, false
	case m.Table != nil:
		return reference.Code{Mapping: m.Mapping, Table: m.Table, NoTable: len(m.Table.Rows) == 0}, 0, true
	case m.NoTable:
		return reference.Code{Mapping: m.Mapping, Table: &unwind.Table{}, NoTable: true}, 0, true
	}
	return reference.Code{Mapping: m.Mapping}, unwind.StopNoTable, false
}

// Walker returns a reference walker for a thread that runs the code and has these registers, the leaf's.
func (c Code) Walker(arch unwind.Arch, leaf *unwind.Registers, threadPointer unwind.Addr, mem unwind.Memory) *reference.Walker {
	g := &goCode{code: c}
	g.switcher = gopclntab.Switcher{Arch: arch, Memory: mem, Leaf: *leaf, ThreadPointer: threadPointer}
	return &reference.Walker{Go: g}
}

// goCode finds goroutines wherever a mapping's program has them.
type goCode struct {
	code     Code
	switcher gopclntab.Switcher
}

// GoSwitch implements reference.GoSwitcher.
func (g *goCode) GoSwitch(m unwind.Mapping, r unwind.Rule, at *unwind.Registers) (
	next unwind.Registers, isReturn bool, stop unwind.StopReason, ok bool) {
	in := g.code.At(m.Start)
	if in == nil || in.Go == nil {
		return next, false, unwind.StopRuntime, false
	}
	g.switcher.Offsets = *in.Go
	return g.switcher.GoSwitch(m, r, at)
}

// Walk walks with the reference walker; mem is &t.Memory, or what that is to be recorded from.
func (t *Tape) Walk(mem unwind.Memory) ([]unwind.RawFrame, unwind.StopReason) {
	code := Code(t.Mappings)
	w := code.Walker(t.Arch, &t.Registers, t.ThreadPointer, mem)
	return w.Walk(&t.Registers, t.Arch, mem, code, nil, t.MaxFrames)
}

// Near returns a table with only the rows around the given addresses: rows before and behind each, and no rules in between.
func Near(t *unwind.Table, at []unwind.FileAddr, rows int) *unwind.Table {
	keep := make([]bool, len(t.Rows))
	for _, a := range at {
		i, found := slices.BinarySearchFunc(t.Rows, a, func(r unwind.Row, a unwind.FileAddr) int {
			switch {
			case r.Start > a:
				return 1
			case r.Start < a:
				return -1
			}
			return 0
		})
		if !found {
			i-- // the row that holds a
		}
		for j := max(0, i-rows); j <= min(i+rows, len(t.Rows)-1); j++ {
			keep[j] = true
		}
	}
	out := &unwind.Table{Rules: []unwind.Rule{{}}}
	numbers := map[unwind.Rule]uint32{{}: 0}
	add := func(start unwind.FileAddr, r unwind.Rule) {
		n, ok := numbers[r]
		if !ok {
			n = uint32(len(out.Rules))
			numbers[r] = n
			out.Rules = append(out.Rules, r)
		}
		if last := len(out.Rows) - 1; last < 0 && n != 0 || last >= 0 && out.Rows[last].Rule != n {
			out.Rows = append(out.Rows, unwind.Row{Start: start, Rule: n})
		}
	}
	for i, k := range keep {
		switch {
		case k:
			add(t.Rows[i].Start, t.Rules[t.Rows[i].Rule])
		case i > 0 && keep[i-1]:
			add(t.Rows[i].Start, unwind.Rule{})
		}
	}
	return out
}
