package process

import (
	"cmp"
	"slices"
	"sort"
	"unsafe"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// MappedFile is one executable range of a process. Bias is left for whoever knows the file's segments.
type MappedFile struct {
	unwind.Mapping
	File *File  // nil for anonymous memory (JIT code)
	Name string // of anonymous memory that has one, such as "[anon:v8]"
	Time uint64 // of the event or the read of /proc that told of it, CLOCK_MONOTONIC ns
}

// copiedText is the Name of anonymous memory that holds what its File has there, see Table.HoldsCode. Other files have none.
const copiedText = "[copied text]"

// memory tells whether it is anonymous memory, though it may hold a file's code.
func (m *MappedFile) memory() bool { return m.File == nil || m.Name == copiedText }

const mappedFileBytes = uint64(unsafe.Sizeof(MappedFile{}))

// part returns the piece of m from start to end.
//
//	m        |......[Start ..... s ..... e ..... End)
//	offset          Offset       Offset+(s-Start)
func (m *MappedFile) part(start, end unwind.Addr) MappedFile {
	p := *m
	p.Start, p.End = start, end
	if m.File != nil {
		p.Offset += unwind.FileOffset(start - m.Start)
	}
	return p
}

// continues tells whether b goes on where a ends, in memory and in the file.
func (m *MappedFile) continues(b *MappedFile) bool {
	return m.End == b.Start && m.File == b.File && m.Name == b.Name &&
		(m.File == nil || m.Offset+unwind.FileOffset(m.End-m.Start) == b.Offset)
}

// SamePlace tells whether both are of the same part of the same file, where they overlap, or both anonymous.
func (m *MappedFile) SamePlace(o *MappedFile) bool {
	if m.File == nil || o.File == nil {
		return m.File == o.File
	}
	return m.File == o.File && uint64(m.Start)-uint64(m.Offset) == uint64(o.Start)-uint64(o.Offset)
}

// mapList is a sorted, disjoint list of mappings, immutable once built and shared by forked processes.
type mapList struct {
	m    []MappedFile
	refs int // incarnations that hold it
}

// find returns the mapping that contains a.
func (l *mapList) find(a unwind.Addr) (*MappedFile, bool) { return FindMapping(l.m, a) }

// FindMapping returns the mapping of a sorted, disjoint list, as Mappings returns it, that contains a.
func FindMapping(m []MappedFile, a unwind.Addr) (*MappedFile, bool) {
	lo, hi := 0, len(m)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if m[mid].End <= a {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == len(m) || m[lo].Start > a {
		return nil, false
	}
	return &m[lo], true
}

// layer is a mapping with its place in the order of arrival, which decides between equal times.
type layer struct {
	*MappedFile
	seq int
}

func (a layer) above(b layer) bool {
	if a.Time != b.Time {
		return a.Time > b.Time
	}
	return a.seq > b.seq
}

// layers is a heap with the uppermost layer first.
type layers []layer

func (h *layers) push(l layer) {
	*h = append(*h, l)
	s := *h
	for i := len(s) - 1; i > 0; {
		up := (i - 1) / 2
		if !s[i].above(s[up]) {
			return
		}
		s[i], s[up] = s[up], s[i]
		i = up
	}
}

func (h *layers) pop() {
	s := *h
	last := len(s) - 1
	s[0] = s[last]
	s = s[:last]
	*h = s
	for i := 0; ; {
		top := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(s); c++ {
			if s[c].above(s[top]) {
				top = c
			}
		}
		if top == i {
			return
		}
		s[i], s[top] = s[top], s[i]
		i = top
	}
}

// painter lays mappings over each other as the kernel did: at every address the latest one shows.
type painter struct {
	out        []MappedFile
	join       bool // join neighbours although their times differ
	heap       layers
	head, tail int // how many of the base stand unchanged at the beginning and the end of out
}

// paint returns base with add laid over it. base is sorted and disjoint, add is in order of arrival; both stay as they
// are. Neighbours that continue each other are joined if join is set or their times are equal: a later comparison with
// the time of a read needs the times apart.
func paint(base, add []MappedFile, join bool) []MappedFile {
	out, _, _ := paintOver(base, add, join)
	return out
}

// paintOver is paint, and tells how many elements at the beginning and at the end of the result are those of base.
func paintOver(base, add []MappedFile, join bool) (out []MappedFile, head, tail int) {
	order := make([]layer, len(add))
	for i := range add {
		order[i] = layer{&add[i], i}
	}
	slices.SortStableFunc(order, func(a, b layer) int { return cmp.Compare(a.Start, b.Start) })

	p := painter{out: make([]MappedFile, 0, len(base)+min(len(add), 1<<12)), join: join}
	pos := unwind.Addr(0)
	for {
		for len(p.heap) > 0 && p.heap[0].End <= pos {
			p.heap.pop()
		}
		if len(p.heap) == 0 {
			base = p.copyBefore(base, order)
		}
		next, ok := peek(base, order)
		if len(p.heap) == 0 {
			if !ok {
				return fit(p.out), p.head, p.tail
			}
			pos = next.Start
		} else if top := p.heap[0]; !ok || next.Start >= top.End {
			p.emit(top.MappedFile, pos, top.End)
			pos = top.End
			continue
		} else if next.above(top) {
			p.emit(top.MappedFile, pos, next.Start)
			pos = next.Start
		}
		p.heap.push(next)
		if next.seq < 0 {
			base = base[1:]
		} else {
			order = order[1:]
		}
	}
}

// fit returns m without much unused capacity: lists are kept, and joining may have left few of many.
func fit(m []MappedFile) []MappedFile {
	if cap(m)-len(m) > len(m)/4+8 {
		return slices.Clone(m)
	}
	return m
}

// peek returns the layer that starts first. Layers of the base came before all others.
func peek(base []MappedFile, order []layer) (layer, bool) {
	switch {
	case len(base) > 0 && (len(order) == 0 || base[0].Start <= order[0].Start):
		return layer{&base[0], -1}, true
	case len(order) > 0:
		return order[0], true
	}
	return layer{}, false
}

// copyBefore emits the part of the base that ends before anything is laid over it, which is nearly all of it when one
// mapping is added to many.
func (p *painter) copyBefore(base []MappedFile, order []layer) []MappedFile {
	n := len(base)
	if len(order) > 0 {
		n = sort.Search(len(base), func(i int) bool { return base[i].End > order[0].Start })
	}
	if n == 0 {
		return base
	}
	if len(p.out) == 0 {
		p.head = n - 1 // the last one may yet be joined
	}
	if len(order) == 0 {
		p.tail = n - 1
	}
	p.emit(&base[0], base[0].Start, base[0].End)
	p.out = append(p.out, base[1:n]...)
	return base[n:]
}

// emit appends the piece of m from start to end.
func (p *painter) emit(m *MappedFile, start, end unwind.Addr) {
	if start >= end {
		return
	}
	piece := m.part(start, end)
	if n := len(p.out); n > 0 {
		last := &p.out[n-1]
		if last.continues(&piece) && (p.join || last.Time == piece.Time) {
			last.End, last.Time = piece.End, max(last.Time, piece.Time)
			return
		}
	}
	p.out = append(p.out, piece)
}

// newest returns the n mappings of m with the latest times, in m's order.
func newest(m []MappedFile, n int) []MappedFile {
	times := make([]uint64, len(m))
	for i := range m {
		times[i] = m[i].Time
	}
	slices.Sort(times)
	limit := times[len(times)-n]
	out := make([]MappedFile, 0, n)
	for i := range m {
		if m[i].Time >= limit && len(out) < n {
			out = append(out, m[i])
		}
	}
	return out
}
