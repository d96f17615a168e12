package dwarf

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

const (
	// pageSize is how much of a section is read at a time: a unit's header costs one, and a walk through a large unit is
	// not slowed down by the calls.
	pageSize = 16 << 10
	// overlap is how many bytes of the next page each page has too, so that no fixed-size value is in two parts.
	overlap = 16
	// pageCount is how many pages are kept: some for each section that a lookup touches.
	pageCount = 48
)

// sectionID names the sections that are read.
type sectionID uint8

const (
	secInfo sectionID = iota
	secAbbrev
	secLine
	secStr
	secLineStr
	secStrOffsets
	secAddr
	secRanges
	secRnglists
	secAranges
	secIndex
	sections // how many there are
)

// sectionNames are the names behind ".debug_".
var sectionNames = [sections]string{
	"info", "abbrev", "line", "str", "line_str", "str_offsets", "addr", "ranges", "rnglists", "aranges", "cu_index",
}

// section is the bytes of one: in memory if it was compressed and is not large, else read page by page as they are wanted.
type section struct {
	name  string
	size  uint64
	mem   []byte
	spill Spill // where a large one was decompressed to, which r reads
	r     io.ReaderAt
	off   int64
	id    uint32 // of the section among all that were opened
	pages *pages

	head    []byte // what peek has read
	headOff uint64
}

type pageKey struct {
	section uint32
	page    uint64
}

// pages are the pages of all sections that were read last. Those that went are not reused: a cursor may look at one still.
type pages struct {
	lru  *simplelru.LRU[pageKey, []byte]
	ids  uint32
	read uint64 // bytes
}

func newPages() (*pages, error) {
	lru, err := simplelru.NewLRU[pageKey, []byte](pageCount, nil)
	if err != nil {
		return nil, fmt.Errorf("making the cache of pages: %w", err)
	}
	return &pages{lru: lru}, nil
}

// page returns the bytes from a page's start to the overlap's end, fewer at the section's.
func (s *section) page(n uint64) ([]byte, error) {
	key := pageKey{s.id, n}
	if b, ok := s.pages.lru.Get(key); ok {
		return b, nil
	}
	start := n * pageSize
	b := make([]byte, min(pageSize+overlap, s.size-start))
	if err := readFull(s.r, b, s.off+int64(start)); err != nil {
		return nil, fmt.Errorf("reading %s at %#x: %w", s.name, start, err)
	}
	s.pages.read += uint64(len(b))
	s.pages.lru.Add(key, b)
	return b, nil
}

// readFull fills b; less than that is an error.
func readFull(r io.ReaderAt, b []byte, off int64) error {
	n, err := r.ReadAt(b, off)
	if n == len(b) {
		return nil
	}
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// headSize is enough for a unit's header and first DIE.
const headSize = 512

// peek is at for a few bytes at many places: it reads less than a page, and leaves the pages alone. The cursor is of use
// until the next call.
func (s *section) peek(off, end uint64) cursor {
	c := s.at(off, end)
	if c.err != nil || s.mem != nil {
		return c
	}
	const enough = headSize / 2
	if off < s.headOff || off-s.headOff > uint64(len(s.head)) || uint64(len(s.head))-(off-s.headOff) < min(enough, s.size-off) {
		if s.head == nil {
			s.head = make([]byte, headSize)
		}
		s.head = s.head[:min(headSize, s.size-off)]
		s.headOff = off
		if n, _ := s.r.ReadAt(s.head, s.off+int64(off)); n < len(s.head) {
			s.head = s.head[:0]
			return c // reading the page says what is wrong
		}
		s.pages.read += uint64(len(s.head))
	}
	c.b, c.base = s.head, s.headOff
	c.i = int(off - s.headOff)
	c.lim = int(min(uint64(len(s.head)), c.end-s.headOff))
	return c
}

// openSection finds a section of f, which suffix ends the name of (".dwo" or nothing). It is nil if there is none. What is
// compressed is decompressed within the budget.
func (d *Data) openSection(f *elffile.File, id sectionID, suffix string) (*section, error) {
	name := "debug_" + sectionNames[id] + suffix
	h := f.Section("." + name)
	if h == nil {
		h = f.Section(".z" + name)
	}
	if h == nil || h.Size == 0 {
		return nil, nil
	}
	d.pages.ids++
	s := &section{name: h.Name, size: h.Size, r: f.ReaderAt(), off: int64(h.Offset), id: d.pages.ids, pages: d.pages}
	if h.Flags&elf.SHF_COMPRESSED == 0 && h.Name[1] != 'z' {
		if err := f.Check(uint64(h.Offset), h.Size); err != nil {
			return nil, fmt.Errorf("%s: %w", h.Name, err)
		}
		return s, nil
	}
	if spilled, err := d.spill(s, f, h); spilled || err != nil {
		return s, err
	}
	before := d.budget.Used()
	b, err := f.SectionData(h, math.MaxInt64)
	if err != nil && d.forget(0) {
		b, err = f.SectionData(h, math.MaxInt64) // caches made room
	}
	if err != nil {
		return nil, err
	}
	d.held += d.budget.Used() - before
	s.mem, s.size, s.r = b, uint64(len(b)), nil
	return s, nil
}

// spill decompresses a large section to a place outside of memory; false if it is not large, or if there is no such place.
func (d *Data) spill(s *section, f *elffile.File, h *elffile.Section) (bool, error) {
	if d.opts.Spill == nil {
		return false, nil
	}
	size, compressed, err := f.PlainSize(h)
	if err != nil || !compressed || size < d.opts.SpillSize {
		return false, err
	}
	for {
		place, err := d.opts.Spill(size)
		if err != nil {
			d.note(fmt.Errorf("making room for %s on disk: %w", h.Name, err))
			return false, nil
		}
		w := &spillWriter{to: place, stop: d.opts.Stop}
		err = f.Decompress(w, h, size)
		if err == nil {
			s.spill, s.r, s.off, s.size = place, place, 0, size
			return true, nil
		}
		err = errors.Join(err, place.Close())
		switch {
		case w.failed: // the disk is full, as a rule
			d.note(fmt.Errorf("decompressing to disk: %w", err))
			return false, nil
		case errors.Is(err, elffile.ErrTooLarge) && d.forget(0): // caches made room for buffers
		default:
			return false, err
		}
	}
}

// spillWriter ends what takes long, and knows whose error it was.
type spillWriter struct {
	to     io.Writer
	stop   func() error
	failed bool // to is of no use
}

func (w *spillWriter) Write(b []byte) (int, error) {
	if w.stop != nil {
		if err := w.stop(); err != nil {
			return 0, err
		}
	}
	n, err := w.to.Write(b)
	w.failed = w.failed || err != nil
	return n, err
}
