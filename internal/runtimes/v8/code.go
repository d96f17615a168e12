package v8

import (
	"encoding/binary"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

const (
	// maxCode is how far back the start of generated code is looked for.
	maxCode = 512 << 10
	// maxInlined bounds the calls that are inlined into each other.
	maxInlined = 64
)

// code is a Code object.
type code struct {
	at          uint64
	start, size uint64
	kind        codeKind
}

// findCode finds the generated code that an address lies in: code begins at round addresses, and behind an object's header. nil if there
// is none.
func (h *heap) findCode(pc uint64) *code {
	l, t := h.n.image.layout, &h.n.image.types
	typ := t.code
	if l.stream {
		typ = t.stream
	}
	for start := pc &^ (l.align - 1); pc-start < maxCode && h.err == nil && start > l.align; start -= l.align {
		m := h.word(start - uint64(l.header))
		if h.err != nil {
			h.err = nil // nothing is mapped there: the code would have begun behind it
			return nil
		}
		if m&3 != 1 {
			continue
		}
		if m != h.n.codeMap && h.quietQuarter(m-1+mapInstanceType) != typ {
			continue
		}
		c := h.code(start-uint64(l.header), start)
		if c == nil || pc >= c.start+c.size {
			continue
		}
		if h.n.codeMap == 0 {
			h.n.codeMap = m
		}
		return c
	}
	return nil
}

// quietQuarter reads what may not be there.
func (h *heap) quietQuarter(at uint64) int {
	v := h.quarter(at)
	if h.err != nil {
		h.err = nil
		return noType
	}
	return int(v)
}

// code reads the Code object of the instructions at start, whose object is at o; nil if it is not that.
func (h *heap) code(o, start uint64) *code {
	l := h.n.image.layout
	c := &code{at: o, start: start}
	if l.stream {
		var typ int
		if c.at, typ = h.typed(h.field(o, 8)); typ != h.n.image.types.code || h.field(c.at, l.code.start) != start {
			h.err = nil
			return nil
		}
	}
	c.size = uint64(h.half(c.at + uint64(l.code.size)))
	c.kind = l.kinds[h.half(c.at+uint64(l.code.flags))>>l.kindShift&l.kindMask]
	if h.err != nil || c.size > 1<<28 {
		h.err = nil
		return nil
	}
	return c
}

// inlined appends the lines of optimized code at an offset, the innermost function first: SourcePosition::InliningStack of
// src/codegen/source-position.cc. outer is the function that was optimized.
func (h *heap) inlined(dst []unwind.Line, c *code, offset int) (_ []unwind.Line, outer uint64) {
	l := h.n.image.layout
	elements, n := h.array(h.field(c.at, l.code.deopt), "deoptimization data")
	if h.err != nil || n <= l.deopt.positions {
		h.stale("deoptimization data", c.at)
		return dst, 0
	}
	element := func(i int) uint64 { return h.word(elements + 8*uint64(i)) }
	outer = h.unwrapped(element(l.deopt.shared))
	f := h.function(outer)
	if h.err != nil {
		return dst, 0
	}
	table := h.field(c.at, l.code.positions)
	if _, typ := h.typed(table); !contains(h.n.image.types.bytes, typ) {
		return append(dst, f.line(-1)), outer
	}
	p, ok := l.findPosition(h.bytes(table, "positions"), offset, int(c.size))
	if !ok || p.external() {
		return append(dst, f.line(-1)), outer
	}
	before := len(dst)
	var calls []byte
	var literals uint64
	var count int
	for len(dst)-before < maxInlined && h.err == nil {
		i := p.inlined()
		if i < 0 {
			return append(dst, f.line(p.script())), outer
		}
		if calls == nil {
			calls = h.bytes(element(l.deopt.positions), "inlined calls")
			literals, count = h.array(element(l.deopt.literals), "literals")
		}
		if 16*i+16 > len(calls) {
			h.stale("inlined call", c.at)
			break
		}
		g := f
		if id := int(int32(binary.LittleEndian.Uint32(calls[16*i+8:]))); id >= count {
			h.stale("inlined function", c.at)
			break
		} else if id >= 0 {
			g = h.function(h.unwrapped(h.word(literals + 8*uint64(id))))
		}
		if h.err != nil {
			break
		}
		dst = append(dst, g.line(p.script()))
		p = position(binary.LittleEndian.Uint64(calls[16*i:]))
		if p < 0 || p.external() {
			return append(dst, f.line(-1)), outer
		}
	}
	h.stale("end of inlined calls", c.at)
	return dst[:before], outer
}

// unwrapped is the SharedFunctionInfo that a word leads to: references are weak, and from 13 on may go by a SharedFunctionInfoWrapper.
func (h *heap) unwrapped(v uint64) uint64 {
	if o, typ := h.typed(v); typ != noType && typ == h.n.image.types.wrapper {
		return h.field(o, 8)
	}
	return v
}
