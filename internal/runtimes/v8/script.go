package v8

import (
	"encoding/binary"
	"slices"

	"github.com/hostprofiles/hostprofiles/internal/runtimes/cache"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

const (
	// maxScripts and maxScriptBytes bound what is kept of scripts in one process; they are read again when they are needed.
	maxScripts, maxScriptBytes = 512, 4 << 20
	// maxSource bounds what is read of sources and tables of lines to name one frame, in bytes, and maxLines how many a script may have.
	maxSource, maxLines = 64 << 20, 1 << 20
	// sourceAtOnce is how much of it is read at a time.
	sourceAtOnce = 64 << 10
)

// Where a Script has things: src/objects/script.tq. The same in 7.8 to 15.0, but for the URL, which a comment in the source gives.
const (
	scriptSource = 8
	scriptName   = 16
	scriptLine   = 24
	scriptColumn = 32
	scriptEnds   = 56
	scriptID     = 64
)

// script is a source text.
type script struct {
	name         string
	line0, col0  int     // of its first character
	ends         []int32 // where its lines end, ascending
	unknownLines bool
}

// line is the line and column of a place, which count from 1; 0 if it is not known.
func (s *script) line(at int) (line, column int) {
	if at < 0 || s.unknownLines {
		return 0, 0
	}
	i, _ := slices.BinarySearch(s.ends, int32(min(at, 1<<31-1)))
	column = at + 1
	if i > 0 {
		column = at - int(s.ends[i-1])
	} else {
		column += s.col0
	}
	return s.line0 + i + 1, column
}

// scriptKey tells scripts apart: an address may be used again.
type scriptKey struct {
	at, source, name uint64
	id               int
}

// scripts keeps scripts.
type scripts = cache.Cache[scriptKey, *script]

func newScripts() *scripts { return cache.New[scriptKey](maxScripts, maxScriptBytes, (*script).size) }

func (s *script) size() int { return 200 + len(s.name) + 4*len(s.ends) }

// script reads a Script.
func (h *heap) script(v uint64) *script {
	o := h.object(v, "script", h.n.image.types.script)
	key := scriptKey{o, h.field(o, scriptSource), h.field(o, scriptName), smi(h.field(o, scriptID))}
	if h.err != nil {
		return nil
	}
	if s, ok := h.n.scripts.Get(key); ok {
		return s
	}
	s := &script{name: h.maybeText(key.name), line0: smi(h.field(o, scriptLine)), col0: smi(h.field(o, scriptColumn))}
	if s.line0 < 0 || s.line0 > 1<<30 {
		s.line0 = 0
	}
	if s.col0 < 0 || s.col0 > 1<<30 {
		s.col0 = 0
	}
	whole := h.lines(s, h.field(o, scriptEnds), key.source)
	if h.err != nil {
		return nil
	}
	if whole {
		h.n.scripts.Add(key, s)
	}
	return s
}

// spend takes off what may be read for one frame; false if it is too much.
func (h *heap) spend(bytes int) bool {
	h.sources += bytes
	return h.sources <= maxSource
}

// lines finds where a script's lines end: V8 may have counted them already. It is false if too much was read for this frame already:
// there may be room for it in another look.
func (h *heap) lines(s *script, ends, source uint64) (whole bool) {
	if _, typ := h.typed(ends); contains(h.n.image.types.arrays, typ) {
		if at, n := h.array(ends, "lines"); n > 0 && n <= maxLines {
			if !h.spend(8 * n) {
				s.unknownLines = true
				return false
			}
			b := make([]byte, 8*n)
			if err := h.mem.Read(unwind.Addr(at), b); err != nil {
				h.fail(err)
				return false
			}
			for i := range n {
				s.ends = append(s.ends, int32(smi(binary.LittleEndian.Uint64(b[8*i:]))))
			}
			if slices.IsSorted(s.ends) {
				return true
			}
			s.ends = nil
		}
	}
	if _, typ := h.typed(source); !h.isString(typ) {
		s.unknownLines = true
		return true
	}
	pieces, whole := h.pieces(source, maxSource)
	bytes := 0
	for _, p := range pieces {
		bytes += p.bytes()
	}
	if bytes > maxSource {
		s.unknownLines = true
		return true
	}
	if !h.spend(bytes) {
		s.unknownLines = true
		return false
	}
	c := lineCounter{}
	for _, p := range pieces {
		if !h.count(&c, p) {
			return false
		}
	}
	c.end()
	if s.unknownLines = !whole || len(c.ends) >= maxLines; !s.unknownLines {
		s.ends = c.ends
	}
	return true
}

// count reads a piece of a source.
func (h *heap) count(c *lineCounter, p piece) bool {
	size := p.charBytes()
	b := make([]byte, min(sourceAtOnce, p.bytes()))
	for done := 0; done < p.bytes() && h.err == nil; {
		part := b[:min(len(b), p.bytes()-done)]
		if err := h.mem.Read(unwind.Addr(p.at+uint64(done)), part); err != nil {
			h.fail(err)
			return false
		}
		for i := 0; i < len(part); i += size {
			if p.wide {
				c.next(binary.LittleEndian.Uint16(part[i:]))
			} else {
				c.next(uint16(part[i]))
			}
		}
		done += len(part)
	}
	return h.err == nil
}

// lineCounter finds the ends of lines as V8 does: IsLineTerminatorSequence of src/strings/char-predicates.h.
type lineCounter struct {
	ends   []int32
	at     int32
	before uint16
}

func (c *lineCounter) next(u uint16) {
	if c.before == '\r' && u != '\n' {
		c.add(c.at - 1)
	}
	if u == '\n' || u == 0x2028 || u == 0x2029 {
		c.add(c.at)
	}
	c.before = u
	c.at++
}

func (c *lineCounter) add(at int32) {
	if len(c.ends) < maxLines {
		c.ends = append(c.ends, at)
	}
}

// end ends the last line, which the source's end does.
func (c *lineCounter) end() {
	if c.before == '\r' {
		c.add(c.at - 1)
	}
	c.add(c.at)
}
