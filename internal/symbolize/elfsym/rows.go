package elfsym

import (
	"cmp"
	"slices"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// row is one symbol. There are millions of them, so it is packed:
//
//	meta  | bind 31..30 | plt 29 | source 28..27 | size 26..0 |
type row struct {
	addr uint64
	ref  uint32 // offset of the name in the source's string table, or index of a resolver
	meta uint32
}

const (
	sizeBits = 27
	maxSize  = 1<<sizeBits - 1 // this much or more: up to the end of the section

	sourceSymtab    = 0
	sourceDynsym    = 1
	sourceDebugData = 2
	sourceResolver  = 3

	bindLocal  = 0
	bindWeak   = 1
	bindGlobal = 2

	pltBit = 1 << 29
)

func newRow(addr uint64, ref uint32, size uint64, source, bind uint32) row {
	return row{addr, ref, uint32(min(size, maxSize)) | source<<sizeBits | bind<<30}
}

func (r row) size() uint32   { return r.meta & maxSize }
func (r row) source() uint32 { return r.meta >> sizeBits & 3 }
func (r row) plt() bool      { return r.meta&pltBit != 0 }
func (r row) bind() uint32   { return r.meta >> 30 }

// end is where the symbol's code ends, at the latest with its section c.
func (r row) end(c unwind.Extent) uint64 {
	end := uint64(c.End)
	if n := uint64(r.size()); n != maxSize && n < end-r.addr {
		return r.addr + n
	}
	return end
}

// resume says that from addr on the symbols that start with row go on, after others inside their range have ended.
type resume struct {
	addr uint64
	row  uint32
}

// compareRows puts the symbols of an address in an order in which later ones are of use only if they are longer.
func compareRows(a, b row) int {
	if c := cmp.Compare(a.addr, b.addr); c != 0 {
		return c
	}
	if x, y := a.rank(), b.rank(); x != y {
		return y - x
	}
	return cmp.Compare(b.size(), a.size())
}

func (r row) rank() int {
	rank := 0
	if r.size() != 0 {
		rank += 2
	}
	if r.bind() != bindLocal {
		rank++
	}
	return rank
}

// build sorts the symbols and settles what covers what, in place.
//
//	symbols   [foo                         )      [baz )  [qux (no size)
//	               [bar      )   [label (no size)
//	covering   foo | bar     | foo         | none | baz |-| qux ... next symbol or end of section
//	                         ^ resume
func (t *Table) build(rows []row) {
	slices.SortFunc(rows, compareRows)
	b := builder{t: t, out: rows[:0]}
	for i := 0; i < len(rows); {
		j := i + 1
		for j < len(rows) && rows[j].addr == rows[i].addr {
			j++
		}
		next := uint64(1<<64 - 1)
		if j < len(rows) {
			next = rows[j].addr
		}
		b.group(rows[i:j], next)
		i = j
	}
	b.closeUntil(1<<64 - 1)
	t.rows = b.out
	if cap(t.rows)-len(t.rows) > len(t.rows)/8 {
		t.rows = slices.Clone(t.rows)
	}
	t.resumes = slices.Clip(b.resumes)
}

// builder is the state of build: the symbols around the current address, outermost first.
type builder struct {
	t       *Table
	out     []row
	resumes []resume
	open    []openGroup
}

type openGroup struct {
	end uint64
	row uint32 // first of the group in out
}

// group takes the symbols of one address, best first. It writes no more than it has read, so out may share memory with g.
func (b *builder) group(g []row, next uint64) {
	addr := g[0].addr
	c, ok := b.t.codeAt(addr)
	if !ok {
		return
	}
	b.closeUntil(addr)
	sized := g[0].size() != 0
	if !sized && len(b.open) > 0 {
		return // a label inside a function
	}
	first := len(b.out)
	var end, globalEnd uint64
	for _, r := range g {
		if len(b.out)-first == maxAliases || sized && r.size() == 0 {
			break
		}
		if !sized {
			r.meta |= uint32(min(next-addr, maxSize))
		}
		e := r.end(c)
		if r.bind() != bindLocal {
			globalEnd = max(globalEnd, e)
		} else if e <= globalEnd {
			continue
		}
		end = max(end, e)
		b.out = append(b.out, r)
	}
	b.open = append(b.open, openGroup{end, uint32(first)})
}

// closeUntil ends the open symbols that do not reach addr, and notes where those around them go on.
func (b *builder) closeUntil(addr uint64) {
	for n := len(b.open); n > 0 && b.open[n-1].end <= addr; n = len(b.open) {
		end := b.open[n-1].end
		b.open = b.open[:n-1]
		for len(b.open) > 0 && b.open[len(b.open)-1].end <= end {
			b.open = b.open[:len(b.open)-1]
		}
		if n = len(b.open); n > 0 {
			b.resumes = append(b.resumes, resume{end, b.open[n-1].row})
		}
	}
}
