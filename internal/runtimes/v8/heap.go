package v8

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/hostprofiles/hostprofiles/internal/runtimes"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

const (
	pageBytes = 4096
	// maxPages bounds what is read for one frame, beside tables and sources.
	maxPages = 512
	// maxName bounds the characters of a name or path.
	maxName = 1024
	// maxParts bounds the parts that a text is made of.
	maxParts = 256
)

// heap reads objects of a process, for the time that it takes to name one frame. The first error stays, and after it everything is 0: who
// loops has to look at it.
type heap struct {
	mem   unwind.Memory
	n     *instance
	pages map[uint64][]byte
	// sources is what was read of sources and tables of lines, in bytes.
	sources int
	err     error
}

func (n *instance) heap(mem unwind.Memory) *heap {
	return &heap{mem: mem, n: n, pages: map[uint64][]byte{}}
}

func (h *heap) fail(err error) {
	if h.err == nil {
		h.err = err
	}
}

// stale says that something is not what it should be.
func (h *heap) stale(what string, at uint64) {
	h.fail(fmt.Errorf("no %s at %#x: %w", what, at, runtimes.ErrStale))
}

// read fills b; false if that cannot be.
func (h *heap) read(at uint64, b []byte) bool {
	if h.err != nil {
		return false
	}
	for len(b) > 0 {
		number, offset := at/pageBytes, at%pageBytes
		page, ok := h.pages[number]
		if !ok {
			if len(h.pages) >= maxPages {
				h.stale("end of what one frame refers to", at)
				return false
			}
			page = make([]byte, pageBytes)
			if err := h.mem.Read(unwind.Addr(number*pageBytes), page); err != nil {
				h.fail(err)
				return false
			}
			h.pages[number] = page
		}
		n := copy(b, page[offset:])
		b, at = b[n:], at+uint64(n)
	}
	return true
}

func (h *heap) word(at uint64) uint64 {
	var b [8]byte
	if !h.read(at, b[:]) {
		return 0
	}
	return binary.LittleEndian.Uint64(b[:])
}

func (h *heap) half(at uint64) uint32 {
	var b [4]byte
	if !h.read(at, b[:]) {
		return 0
	}
	return binary.LittleEndian.Uint32(b[:])
}

func (h *heap) quarter(at uint64) uint16 {
	var b [2]byte
	if !h.read(at, b[:]) {
		return 0
	}
	return binary.LittleEndian.Uint16(b[:])
}

// tagged tells whether a word refers to an object; weak references count.
func tagged(v uint64) bool { return v&1 == 1 && v > 3 }

// smi is the value of a small integer.
func smi(v uint64) int { return int(int64(v) >> 32) }

// isSmi tells whether a word is one.
func isSmi(v uint64) bool { return v&0xffffffff == 0 }

// field is a word of an object that object returned.
func (h *heap) field(o uint64, offset int) uint64 { return h.word(o + uint64(offset)) }

// typed returns the untagged address of what a word refers to, and its instance type; noType if it is no object. An object that the garbage
// collector has just moved has the new one's address, untagged, in place of its map.
func (h *heap) typed(v uint64) (o uint64, typ int) {
	if h.err != nil || !tagged(v) {
		return 0, noType
	}
	o = v &^ 3
	m := h.word(o)
	if m != 0 && m&3 == 0 {
		o = m
		m = h.word(o)
	}
	if m&3 != 1 {
		return o, noType
	}
	typ = int(h.quarter(m - 1 + mapInstanceType))
	if h.err != nil {
		return o, noType
	}
	return o, typ
}

// mapInstanceType is where a Map has the instance type of the objects that have it; the same in 7.8 to 15.0.
const mapInstanceType = 12

// object is typed for what has to be of one of the types.
func (h *heap) object(v uint64, what string, types ...int) uint64 {
	o, typ := h.typed(v)
	if typ == noType || !slices.Contains(types, typ) {
		h.stale(what, v)
		return 0
	}
	return o
}

// length is that of an array, of anything but bytecode.
func (h *heap) length(o uint64) int {
	v := h.field(o, 8)
	if h.n.image.layout.plainLengths {
		return int(uint32(v))
	}
	return smi(v)
}

// array returns an array's elements, as an address and how many there are.
func (h *heap) array(v uint64, what string) (at uint64, n int) {
	o := h.object(v, what, h.n.image.types.arrays...)
	n = h.length(o)
	if n < 0 || n > 1<<24 {
		h.stale(what, v)
		return 0, 0
	}
	return o + 16, n
}

// maxTable bounds tables, in bytes: the largest functions that are generated have some hundred thousand.
const maxTable = 4 << 20

// bytes reads an array of bytes.
func (h *heap) bytes(v uint64, what string) []byte {
	o := h.object(v, what, h.n.image.types.bytes...)
	n := h.length(o)
	if h.err != nil || n < 0 || n > maxTable {
		h.stale(what, v)
		return nil
	}
	b := make([]byte, n)
	if err := h.mem.Read(unwind.Addr(o+16), b); err != nil {
		h.fail(err)
		return nil
	}
	return b
}

// isString tells whether an instance type is a string's.
func (h *heap) isString(typ int) bool { return typ != noType && typ < h.n.image.layout.firstString }
