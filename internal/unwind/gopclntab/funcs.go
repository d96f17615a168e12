package gopclntab

import (
	"bytes"
	"encoding/binary"
	"strings"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

const (
	pcdataInlTree   = 2 // PCDATA_InlTreeIndex
	funcdataInlTree = 3 // FUNCDATA_InlTree

	flagTopFrame = 1 << 0
	flagSPWrite  = 1 << 1
	flagAsm      = 1 << 2

	maxName = 8 << 10 // bytes of a name that are read; instantiated generic functions have long ones
)

// function is a _func record.
type function struct {
	entry     uint32 // offset from text
	end       uint32 // the next function's entry
	name      uint32
	pcsp      uint32
	pcfile    uint32
	pcline    uint32
	cu        uint32
	startLine int32 // 0 before Go 1.20
	flags     uint8

	inlPC   uint32 // pc-value table of indices into the inline tree; 0 if there is none
	inlTree uint32 // the inline tree's offset from gofunc; noFuncdata if there is none
}

const noFuncdata = ^uint32(0)

// recordSize is the fixed part of a _func.
func (t *Table) recordSize() uint64 {
	if t.old {
		return 40
	}
	return 44
}

// decode takes the fixed part of a record; npcdata and nfuncdata count the words that follow it.
func (t *Table) decode(b []byte) (fn function, npcdata, nfuncdata uint32) {
	u := binary.LittleEndian.Uint32
	fn = function{
		entry: u(b), name: u(b[4:]), pcsp: u(b[16:]), pcfile: u(b[20:]), pcline: u(b[24:]), cu: u(b[32:]),
		inlTree: noFuncdata,
	}
	tail := b[36:]
	if !t.old {
		fn.startLine = int32(u(tail))
		tail = tail[4:]
	}
	fn.flags = tail[1] // behind funcID, whose numbers change between versions
	return fn, u(b[28:]), uint32(tail[3])
}

// entryOff is the offset from text of function i's entry; that of the last function's end for nfunc.
func (t *Table) entryOff(i int) (uint32, bool) {
	a, ok := t.funcs.at(uint64(i)*8, 4)
	if !ok {
		return 0, false
	}
	return t.mem.u32(a)
}

// record reads the fixed part of function i's record, which lies at off; npcdata and nfuncdata count the words that
// follow it.
func (t *Table) record(i int) (fn function, off uint64, npcdata, nfuncdata uint32, ok bool) {
	a, ok := t.funcs.at(uint64(i)*8, 12)
	if !ok {
		return fn, 0, 0, 0, false
	}
	b := t.mem.bytes(a, 12)
	if b == nil {
		return fn, 0, 0, 0, false
	}
	entry := binary.LittleEndian.Uint32(b)
	off = uint64(binary.LittleEndian.Uint32(b[4:]))
	end := binary.LittleEndian.Uint32(b[8:])
	size := t.recordSize()
	if a, ok = t.funcs.at(off, size); !ok {
		return fn, 0, 0, 0, false
	}
	if b = t.mem.bytes(a, int(size)); b == nil {
		return fn, 0, 0, 0, false
	}
	fn, npcdata, nfuncdata = t.decode(b)
	fn.end = end
	return fn, off, npcdata, nfuncdata, fn.entry == entry
}

// function reads the record of function i, and where its inlined calls are.
func (t *Table) function(i int) (fn function, ok bool) {
	fn, off, npcdata, nfuncdata, ok := t.record(i)
	if !ok || npcdata > 64 {
		return fn, false
	}
	size := t.recordSize()
	if npcdata > pcdataInlTree && nfuncdata > funcdataInlTree {
		words := size + 4*uint64(npcdata)
		a, ok := t.funcs.at(off+size, words-size+4*uint64(nfuncdata))
		if !ok {
			return fn, false
		}
		fn.inlPC, _ = t.mem.u32(a + 4*pcdataInlTree)
		tree, ok := t.mem.u32(a + unwind.FileAddr(4*npcdata+4*funcdataInlTree))
		if ok {
			fn.inlTree = tree
		}
	}
	return fn, true
}

// name reads a function's name.
func (t *Table) name(off uint32) (string, bool) { return t.cString(t.names, off) }

// cString reads a NUL-terminated string inside p, maxName bytes of it if it is longer.
func (t *Table) cString(p part, off uint32) (string, bool) {
	a, ok := p.at(uint64(off), 1)
	if !ok {
		return "", false
	}
	left := min(p.size-uint64(off), maxName)
	var sb strings.Builder
	for left > 0 {
		v := t.mem.view(a)
		if v == nil {
			return "", false
		}
		v = v[:min(uint64(len(v)), left)]
		if i := bytes.IndexByte(v, 0); i >= 0 {
			if sb.Len() == 0 {
				return string(v[:i]), true
			}
			sb.Write(v[:i])
			return sb.String(), true
		}
		sb.Write(v)
		a, left = a+unwind.FileAddr(len(v)), left-uint64(len(v))
	}
	return sb.String(), sb.Len() == maxName
}

// steps decodes a pc-value table: pairs of varints, the value's change (zigzag) and the pc's in units of the smallest
// instruction; it begins with the value -1 at the function's entry and ends with a value's change of 0 (but the first
// may be 0). runtime/symtab.go, step.
type steps struct {
	value int32
	pc    uint64 // offset from the entry where value ends to hold
	first bool
	unit  uint64
}

func (t *Table) newSteps() steps {
	s := steps{value: -1, first: true, unit: 1}
	if t.arch == unwind.ArchARM64 {
		s.unit = 4
	}
	return s
}

// take takes a pair. Every pair covers code, so their number is bounded by the code's size.
func (s *steps) take(value, pc uint32) (ok bool) {
	if value == 0 && !s.first || pc == 0 {
		return false
	}
	s.first = false
	s.value += int32(value>>1) ^ -int32(value&1)
	s.pc += uint64(pc) * s.unit
	return true
}

// next decodes a pair from b and returns what follows; nil at the end.
func (s *steps) next(b []byte) []byte {
	value, n := varint(b)
	if n == 0 {
		return nil
	}
	pc, m := varint(b[n:])
	if m == 0 || !s.take(value, pc) {
		return nil
	}
	return b[n+m:]
}

// varint decodes at most five bytes; n is 0 if they do not end.
func varint(b []byte) (v uint32, n int) {
	for i := 0; i < len(b) && i < 5; i++ {
		v |= uint32(b[i]&0x7f) << (7 * i)
		if b[i] < 0x80 {
			return v, i + 1
		}
	}
	return 0, 0
}

// value looks pc, an offset from the function's entry, up in the pc-value table at off of pctab; ok is false if the
// table does not reach that far.
func (t *Table) value(off uint32, pc uint64) (_ int32, ok bool) {
	const (
		pairSize = 10      // bytes that a pair has at most
		maxPairs = 1 << 20 // far more than the largest functions have
	)
	if off == 0 || uint64(off) >= t.pctab.size {
		return 0, false
	}
	a, left := t.pctab.addr+unwind.FileAddr(off), t.pctab.size-uint64(off)
	s := t.newSteps()
	var v []byte
	for range maxPairs {
		if len(v) < pairSize {
			v = t.mem.view(a)
			if len(v) < pairSize && uint64(len(v)) < left {
				v = t.mem.bytes(a, int(min(pairSize, left)))
			}
			v = v[:min(uint64(len(v)), left)]
		}
		after := s.next(v)
		if after == nil {
			return 0, false
		}
		if pc < s.pc {
			return s.value, true
		}
		n := len(v) - len(after)
		a, left, v = a+unwind.FileAddr(n), left-uint64(n), after
	}
	return 0, false
}
