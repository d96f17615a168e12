package v8

import (
	"encoding/binary"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// function is what a SharedFunctionInfo says.
type function struct {
	name    string
	script  *script // nil: V8's own
	start   int     // in the script; -1 if that is not known
	data    uint64  // what it runs
	dataTyp int
}

// unnamed is a function without a name, as V8's own tools call it.
const unnamed = "(anonymous)"

// line is a place in the function; -1 stands for an unknown one.
func (f *function) line(at int) unwind.Line {
	l := unwind.Line{Function: unwind.Function{Name: f.name}}
	if f.script == nil {
		return l
	}
	l.Function.File = f.script.name
	l.Function.StartLine, _ = f.script.line(f.start)
	l.Line, l.Column = f.script.line(at)
	return l
}

// sharedCheck reads the words of a SharedFunctionInfo that tell it from others, and returns v8_check of bpf/unwind/v8.h.
func (h *heap) sharedCheck(shared uint64) uint32 {
	at := shared + uint64(h.n.image.layout.shared.name)
	return check(0, h.word(at), h.word(at+16))
}

// check is v8_check of bpf/unwind/v8.h.
func check(before uint32, a, b uint64) uint32 {
	const multiplier = 0x9e3779b97f4a7c15
	x := (a ^ uint64(before)) * multiplier
	x = (x ^ x>>29 ^ b) * multiplier
	return uint32(x >> 32)
}

// codeCheck is v8_check_code of bpf/unwind/v8.h.
func (h *heap) codeCheck(before uint32, pc uint64) uint32 {
	var b [16]byte
	if !h.read(pc-16, b[:]) {
		return before
	}
	return check(before, binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint64(b[8:]))
}

// function reads a SharedFunctionInfo.
func (h *heap) function(v uint64) *function {
	l, t := h.n.image.layout, &h.n.image.types
	o := h.object(v, "function", t.shared)
	if h.err != nil {
		return nil
	}
	f := &function{start: -1}
	f.data, f.dataTyp = h.typed(h.field(o, l.shared.data))
	token := int(h.quarter(o + uint64(l.shared.token)))

	names := h.field(o, l.shared.name)
	switch n, typ := h.typed(names); {
	case h.isString(typ):
		f.name = h.text(names)
	case typ == t.scopeInfo:
		f.name, f.start = h.scope(n)
	case names != 0: // it has none where that is 0
		h.stale("name", names)
	}
	if contains(t.uncompiled, f.dataTyp) {
		if inferred := h.field(f.data, 8); f.name == "" && inferred != 0 {
			f.name = h.maybeText(inferred)
		}
		f.start = int(int32(h.half(f.data + 16)))
	}
	if f.start >= token && token != 0xffff { // where its keyword is
		f.start -= token
	}

	where := h.field(o, l.shared.script)
	s, typ := h.typed(where)
	if typ == t.debugInfo && typ != noType { // up to 11.3
		where = h.field(s, debugInfoScript)
		_, typ = h.typed(where)
	}
	if typ == t.script {
		f.script = h.script(where)
	}
	if f.name == "" {
		f.name = unnamed
	}
	if h.err != nil {
		return nil
	}
	return f
}

// debugInfoScript is where a DebugInfo has the script that it has taken the place of: src/objects/debug-objects.tq, 10.2.
const debugInfoScript = 24

func contains(list []int, v int) bool {
	for _, x := range list {
		if x == v {
			return true
		}
	}
	return false
}

// maybeText is text where there need not be one.
func (h *heap) maybeText(v uint64) string {
	if _, typ := h.typed(v); h.isString(typ) {
		return h.text(v)
	}
	return ""
}

// maxLocals bounds the variables of a scope.
const maxLocals = 1 << 16

// scope reads a function's name, or the one that V8 has made up from where it was assigned to, and where it starts:
// src/objects/scope-info.tq, and scope-info.cc before.
func (h *heap) scope(o uint64) (name string, start int) {
	l := &h.n.image.layout.scope
	word := func(i int) uint64 { return h.field(o, l.first+8*i) }
	flags := smi(word(0))
	if !isSmi(word(0)) { // an integer with padding, from 15.0 on
		flags = int(uint32(word(0)))
	}
	locals, kind, at := smi(word(2)), flags&15, 3
	if locals < 0 || locals > maxLocals {
		h.stale("scope", o)
		return "", -1
	}
	start = -1
	if l.positions {
		start, at = smi(word(3)), 5
	}
	if l.modules && kind == l.module {
		at++
	}
	if l.hash && locals >= 75 { // kScopeInfoMaxInlinedLocalNamesSize of src/common/globals.h
		at++
	} else {
		at += locals
	}
	at += locals
	if l.class && flags>>10&1 != 0 {
		at++
	}
	if r := flags >> 7 & 3; l.receiver && (r == 1 || r == 2) {
		at++
	}
	if flags>>l.variable&3 != 0 {
		name = h.maybeText(word(at))
		at += 2
	}
	if flags>>(l.variable+2)&1 != 0 {
		if name == "" {
			name = h.maybeText(word(at))
		}
		at++
	}
	if !l.positions && l.types[kind] {
		start = smi(word(at))
	}
	if start < -1 || start > 1<<30 {
		start = -1
	}
	return name, start
}

// bytecode returns a function's bytecode array, by what it runs: src/objects/shared-function-info.h. 0 if it has none any more.
func (h *heap) bytecode(v uint64, depth int) uint64 {
	t := &h.n.image.types
	o, typ := h.typed(v)
	switch {
	case typ == noType || depth > 3:
	case typ == t.bytecodeArray:
		return o
	case typ == t.interpreterData:
		return h.bytecode(h.field(o, 8), depth+1)
	case typ == t.baselineData:
		return h.bytecode(h.field(o, 16), depth+1)
	case typ == t.code:
		return h.bytecode(h.field(o, h.n.image.layout.code.deopt), depth+1)
	}
	return 0
}

// bytecodePosition is where in the script a bytecode is from; -1 if that is not known.
func (h *heap) bytecodePosition(array uint64, offset int) int {
	l := h.n.image.layout
	length := smi(h.field(array, 8))
	if h.err != nil || offset >= length {
		h.stale("place in bytecode", array)
		return -1
	}
	table := h.field(array, l.bytecode.positions)
	if _, typ := h.typed(table); !contains(h.n.image.types.bytes, typ) {
		return -1 // it was not made, as with --enable-lazy-source-positions, or was dropped
	}
	p, ok := l.findPosition(h.bytes(table, "positions"), offset, length)
	if !ok || p.external() {
		return -1
	}
	return p.script()
}
