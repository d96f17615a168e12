package jitdump

import (
	"bytes"
	"encoding/binary"
	"sort"

	"github.com/hostprofiles/hostprofiles/internal/symbolize/jitname"
	"github.com/hostprofiles/hostprofiles/internal/symbolize/names"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// The records. Those of unwinding information (4) are skipped, like unknown ones and what marks the end (3).
const (
	codeLoad      = 0
	codeMove      = 1
	codeDebugInfo = 2
)

// Sizes in bytes, with the 16 that each record begins with.
const (
	recordBytes = 16
	loadBytes   = recordBytes + 40
	moveBytes   = recordBytes + 48
	debugBytes  = recordBytes + 16
	maxDebug    = 1 << 20 // that are looked at
)

// wanted is how many bytes of a record are looked at.
func wanted(id uint32) int64 {
	switch id {
	case codeLoad:
		return loadBytes + names.MaxName
	case codeMove:
		return moveBytes
	case codeDebugInfo:
		return maxDebug
	}
	return recordBytes
}

// record takes the part of a record that is wanted.
func (d *Dump) record(id uint32, b []byte) {
	ok := true
	switch id {
	case codeLoad:
		ok = d.load(b)
	case codeMove:
		ok = d.move(b)
	case codeDebugInfo:
		// It comes before its function.
		d.pending = lineTable{}
		if d.pending, ok = parseLines(d.order, b); !ok {
			d.stats.NoLines++
		}
		return
	}
	if !ok {
		d.stats.Malformed++
	}
}

func (d *Dump) load(b []byte) bool {
	if len(b) < loadBytes {
		return false
	}
	o := d.order
	start, size, index := o.Uint64(b[32:]), o.Uint64(b[40:]), o.Uint64(b[48:])
	name := b[loadBytes:]
	if end := bytes.IndexByte(name, 0); end >= 0 {
		name = name[:end]
	}
	lines := d.pending
	if lines.start == start {
		d.pending = lineTable{}
	} else {
		lines = lineTable{}
	}
	c := newCode(start, size, index, name)
	if lines.encoded != nil && !c.setLines(lines) {
		d.stats.NoLines++
	}
	if _, ok := d.table.Add(start, size, c); !ok {
		return false
	}
	d.unordered = d.unordered || index <= d.lastIndex && d.stats.Loads > 0
	d.lastIndex = index
	d.stats.Loads++
	return true
}

func (d *Dump) move(b []byte) bool {
	if len(b) < moveBytes {
		return false
	}
	o := d.order
	from, to, index := o.Uint64(b[32:]), o.Uint64(b[40:]), o.Uint64(b[56:])
	d.table.Room(0)
	id, ok := d.find(from, index)
	if !ok {
		return false
	}
	c := code(d.table.Record(id))
	if !d.table.Move(id, to, uint64(c.size())) {
		return false
	}
	c.setStart(to)
	d.stats.Moves++
	return true
}

// find returns the function with an index: the one that is at the address, or else, since another one may have been moved
// there already, by the index. That is possible as long as indexes ascend, as those of all known runtimes do.
func (d *Dump) find(a, index uint64) (id int, ok bool) {
	if id, b, ok := d.table.Find(a); ok && code(b).index() == index {
		return id, true
	}
	if d.unordered {
		return 0, false
	}
	n := d.table.Len()
	id = sort.Search(n, func(i int) bool { return code(d.table.Record(i)).index() >= index })
	return id, id < n && code(d.table.Record(id)).index() == index
}

// code is what is kept of a function: where it is now, its size and index, the length of its name, by how much the
// addresses of its lines are too large, its name and its lines.
type code []byte

const codeBytes = 8 + 8 + 4 + 2 + 1

func newCode(start, size, index uint64, name []byte) code {
	name = name[:min(len(name), names.MaxName)]
	c := make(code, 0, codeBytes+len(name))
	c = binary.LittleEndian.AppendUint64(c, start)
	c = binary.LittleEndian.AppendUint64(c, index)
	c = binary.LittleEndian.AppendUint32(c, uint32(min(size, 1<<32-1))) // no Table takes more
	c = binary.LittleEndian.AppendUint16(c, uint16(len(name)))
	c = append(c, 0)
	return append(c, name...)
}

func (c code) start() uint64         { return binary.LittleEndian.Uint64(c) }
func (c code) setStart(start uint64) { binary.LittleEndian.PutUint64(c, start) }
func (c code) index() uint64         { return binary.LittleEndian.Uint64(c[8:]) }
func (c code) size() uint32          { return binary.LittleEndian.Uint32(c[16:]) }
func (c code) nameEnd() int          { return codeBytes + int(binary.LittleEndian.Uint16(c[20:])) }
func (c code) name() string          { return string(c[codeBytes:c.nameEnd()]) }
func (c code) lines() []byte         { return c[c.nameEnd():] }

// elfHeader is what V8 adds to the addresses of lines, in the belief that perf will have put a file's header before the
// code (src/diagnostics/perf-jit.cc of V8 11.3; seen with Node 20.20).
const elfHeader = 0x40

// setLines appends a table of lines. It returns false, and does nothing, if some are not the function's: Node 20.20 writes
// freed memory in place of names for functions that its baseline compiler made, which puts the rest out of step.
func (c *code) setLines(t lineTable) bool {
	size := uint64(c.size())
	shift := uint64(0)
	if _, kind := jitname.Parse(c.name()); kind == jitname.KindV8 && t.first >= elfHeader {
		shift = elfHeader
	}
	if t.last > size+shift { // a table may end behind the code
		return false
	}
	(*c)[codeBytes-1] = byte(shift)
	*c = append(*c, t.encoded...)
	return true
}

// at returns the place in the source of the code at a.
func (c code) at(a uint64) (unwind.Line, string) {
	f, kind := jitname.Parse(c.name())
	line := unwind.Line{Function: f}
	offset := a - c.start()
	if offset >= uint64(c.size()) {
		return line, kind // it was there before it was moved
	}
	l, ok := findLine(c.lines(), offset+uint64(c[codeBytes-1]))
	if !ok {
		return line, kind
	}
	file := names.Clip(l.file)
	if f.File == "" {
		line.Function.File = file
	} else if f.File != file {
		return line, kind // of an inlined call
	}
	line.Line = l.line
	if kind == jitname.KindV8 {
		line.Column = l.column // LLVM's is a discriminator
	}
	return line, kind
}
