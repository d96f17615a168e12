package jitcode

import (
	"slices"
	"sort"
)

// span is a range of addresses of one record: [start, start+size).
type span struct {
	start uint64
	size  uint32
	id    uint32
}

func (s span) end() uint64 { return s.start + uint64(s.size) }

const (
	chunkSpans = 256 // 4 KiB
	spanBytes  = 16
)

// ranges are spans that do not overlap, ordered by address, in chunks of at most chunkSpans: a new one moves the spans of
// one chunk, never all. Compilers allocate upward, so a chunk that is full is not halved if the new span belongs behind
// its last one; most chunks are full then.
type ranges struct {
	chunks [][]span // none is empty
	first  []uint64 // where each chunk begins
	n      int
}

// find returns the span that covers a.
func (r *ranges) find(a uint64) (span, bool) {
	c := r.chunkOf(a)
	if c < 0 {
		return span{}, false
	}
	spans := r.chunks[c]
	i := sort.Search(len(spans), func(i int) bool { return spans[i].start > a }) - 1
	if i < 0 || a-spans[i].start >= uint64(spans[i].size) {
		return span{}, false
	}
	return spans[i], true
}

// chunkOf returns the last chunk that begins at a or before; -1 if there is none.
func (r *ranges) chunkOf(a uint64) int {
	return sort.Search(len(r.first), func(i int) bool { return r.first[i] > a }) - 1
}

// set makes s cover its range. What it covers of others is cut away, so that another may lose its range, become shorter
// or be split in two. changed is told of each record by how many spans it has more or fewer.
func (r *ranges) set(s span, changed func(id uint32, delta int)) {
	changed(s.id, 1)
	c, i := r.cut(s, changed)
	r.insert(c, i, s)
}

// cut makes room for s and returns where it belongs: before the span i of chunk c.
func (r *ranges) cut(s span, changed func(id uint32, delta int)) (c, i int) {
	if len(r.chunks) == 0 {
		return 0, 0
	}
	c = max(r.chunkOf(s.start), 0)
	spans := r.chunks[c]
	i = sort.Search(len(spans), func(i int) bool { return spans[i].start >= s.start })
	if i > 0 && spans[i-1].end() > s.start {
		left := &spans[i-1]
		rest := span{s.end(), 0, left.id}
		if left.end() > s.end() {
			rest.size = uint32(left.end() - s.end())
		}
		left.size = uint32(s.start - left.start)
		if rest.size > 0 { // nothing else can lie below s
			changed(rest.id, 1)
			r.insert(c, i, rest)
			return r.place(s.start)
		}
	}
	r.clear(c, i, s.end(), changed)
	return r.place(s.start)
}

// place returns where a span that begins at a belongs.
func (r *ranges) place(a uint64) (c, i int) {
	if len(r.chunks) == 0 {
		return 0, 0
	}
	c = max(r.chunkOf(a), 0)
	spans := r.chunks[c]
	return c, sort.Search(len(spans), func(i int) bool { return spans[i].start >= a })
}

// clear takes away what lies below end from the span i of chunk c on.
func (r *ranges) clear(c, i int, end uint64, changed func(id uint32, delta int)) {
	from := c
	for ; c < len(r.chunks); c, i = c+1, 0 {
		spans := r.chunks[c]
		j := i
		for ; j < len(spans) && spans[j].end() <= end; j++ {
			changed(spans[j].id, -1)
		}
		if j < len(spans) && spans[j].start < end {
			spans[j].size = uint32(spans[j].end() - end)
			spans[j].start = end
		}
		more := j == len(spans)
		r.n -= j - i
		r.chunks[c] = slices.Delete(spans, i, j)
		if len(r.chunks[c]) > 0 {
			r.first[c] = r.chunks[c][0].start
		}
		if !more {
			break
		}
	}
	// All chunks between the first and the last of them are empty now, and those two may be.
	upTo := min(c+1, len(r.chunks))
	for from < upTo && len(r.chunks[from]) > 0 {
		from++
	}
	empty := from
	for empty < upTo && len(r.chunks[empty]) == 0 {
		empty++
	}
	r.chunks = slices.Delete(r.chunks, from, empty)
	r.first = slices.Delete(r.first, from, empty)
}

// insert puts s before the span i of chunk c, where it overlaps nothing.
func (r *ranges) insert(c, i int, s span) {
	r.n++
	if len(r.chunks) == 0 {
		r.addChunk(0, s)
		return
	}
	spans := r.chunks[c]
	if len(spans) < chunkSpans {
		r.chunks[c] = slices.Insert(spans, i, s)
		r.first[c] = r.chunks[c][0].start
		return
	}
	if i == chunkSpans {
		if c+1 < len(r.chunks) && len(r.chunks[c+1]) < chunkSpans {
			r.chunks[c+1] = slices.Insert(r.chunks[c+1], 0, s)
			r.first[c+1] = s.start
			return
		}
		r.addChunk(c+1, s)
		return
	}
	const half = chunkSpans / 2
	r.addChunk(c+1, spans[half:]...)
	r.chunks[c] = spans[:half]
	if i > half {
		c, i = c+1, i-half
	}
	r.chunks[c] = slices.Insert(r.chunks[c], i, s)
	r.first[c] = r.chunks[c][0].start
}

func (r *ranges) addChunk(c int, spans ...span) {
	chunk := append(make([]span, 0, chunkSpans), spans...)
	r.chunks = slices.Insert(r.chunks, c, chunk)
	r.first = slices.Insert(r.first, c, spans[0].start)
}

// renumber gives each span the id that to returns for its record, or takes it away, and fills the chunks up. It needs no
// memory beside, since what is written never overtakes what is read.
func (r *ranges) renumber(to func(id uint32) (uint32, bool)) {
	r.n = 0
	out, fill := 0, 0
	for _, spans := range r.chunks {
		for _, s := range spans {
			id, keep := to(s.id)
			if !keep {
				continue
			}
			s.id = id
			if fill == chunkSpans {
				out, fill = out+1, 0
			}
			r.chunks[out] = r.chunks[out][:max(len(r.chunks[out]), fill+1)]
			r.chunks[out][fill] = s
			if fill == 0 {
				r.first[out] = s.start
			}
			fill++
			r.n++
		}
	}
	used := 0
	if fill > 0 {
		r.chunks[out] = r.chunks[out][:fill]
		used = out + 1
	}
	r.chunks = slices.Clone(r.chunks[:used])
	r.first = slices.Clone(r.first[:used])
}

func (r *ranges) each(f func(span)) {
	for _, spans := range r.chunks {
		for _, s := range spans {
			f(s)
		}
	}
}

func (r *ranges) bytes() int {
	return len(r.chunks)*chunkSpans*spanBytes + cap(r.chunks)*indexChunks + cap(r.first)*indexFirst
}

// What a chunk takes in the two indexes, in bytes.
const (
	indexChunks = 24
	indexFirst  = 8
)

// indexGrowth is by how much bytes grows at most for one or two chunks more, but for those: append doubles at most.
func (r *ranges) indexGrowth() int {
	n := 0
	if len(r.chunks)+2 > cap(r.chunks) {
		n += max(cap(r.chunks), 8) * indexChunks
	}
	if len(r.first)+2 > cap(r.first) {
		n += max(cap(r.first), 8) * indexFirst
	}
	return n
}
