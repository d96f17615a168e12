package dwarf

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// maxString is how much of a string is read; names.MaxMangled and names.MaxName are shorter.
const maxString = 8 << 10

// cursor reads a part of a section forwards. After its first error it returns zeros; err says what happened.
//
//	section  |........[base ........ base+len(b))......end |
//	window             b[0] . b[i] .. b[lim)
type cursor struct {
	s    *section
	b    []byte // a page, or all
	i    int
	lim  int // of b that may be read
	base uint64
	end  uint64
	err  error
}

// at returns a cursor over [off, end) of the section, which may be nil.
func (s *section) at(off, end uint64) cursor {
	if s == nil {
		return cursor{err: fmt.Errorf("no such section: %w", ErrFormat)}
	}
	c := cursor{s: s, base: off, end: min(end, s.size)}
	if off > c.end {
		c.base = c.end
		c.fail("offset %#x is behind the end", off)
	} else if s.mem != nil {
		c.b, c.base, c.i, c.lim = s.mem, 0, int(off), int(c.end)
	}
	return c
}

// pos is the section's offset of what is read next.
func (c *cursor) pos() uint64 { return c.base + uint64(c.i) }

// limit makes the cursor end at an offset of the section that is not behind its end.
func (c *cursor) limit(end uint64) {
	if c.err == nil && end < c.end {
		c.end = end
		c.lim = min(c.lim, int(end-c.base))
	}
}

// more tells whether there is something to read.
func (c *cursor) more() bool { return c.err == nil && c.pos() < c.end }

func (c *cursor) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("%s at %#x: %s: %w", c.s.name, c.pos(), fmt.Sprintf(format, args...), ErrFormat)
	}
	c.stop()
}

// stop makes every further read find nothing.
func (c *cursor) stop() {
	c.base, c.i, c.lim, c.b = c.pos(), 0, 0, nil
	c.end = c.base
}

// fill makes n bytes, no more than the overlap, readable at i; false if there are no more so many.
func (c *cursor) fill(n int) bool {
	if c.err != nil {
		return false
	}
	at := c.pos()
	if uint64(n) > c.end-at {
		c.fail("%d bytes wanted, %d left", n, c.end-at)
		return false
	}
	if c.s.mem != nil {
		return true
	}
	page, err := c.s.page(at / pageSize)
	if err != nil {
		c.err = err
		c.stop()
		return false
	}
	c.base = at / pageSize * pageSize
	c.b, c.i = page, int(at-c.base)
	c.lim = int(min(uint64(len(page)), c.end-c.base))
	if c.i+n > c.lim {
		c.fail("%d bytes wanted in a short page", n)
		return false
	}
	return true
}

func (c *cursor) u8() uint8 {
	if c.i >= c.lim && !c.fill(1) {
		return 0
	}
	v := c.b[c.i]
	c.i++
	return v
}

func (c *cursor) u16() uint16 {
	if c.i+2 > c.lim && !c.fill(2) {
		return 0
	}
	v := binary.LittleEndian.Uint16(c.b[c.i:])
	c.i += 2
	return v
}

func (c *cursor) u24() uint32 {
	low := c.u16()
	return uint32(c.u8())<<16 | uint32(low)
}

func (c *cursor) u32() uint32 {
	if c.i+4 > c.lim && !c.fill(4) {
		return 0
	}
	v := binary.LittleEndian.Uint32(c.b[c.i:])
	c.i += 4
	return v
}

func (c *cursor) u64() uint64 {
	if c.i+8 > c.lim && !c.fill(8) {
		return 0
	}
	v := binary.LittleEndian.Uint64(c.b[c.i:])
	c.i += 8
	return v
}

// uint reads a number of 1, 2, 4 or 8 bytes.
func (c *cursor) uint(size uint8) uint64 {
	switch size {
	case 1:
		return uint64(c.u8())
	case 2:
		return uint64(c.u16())
	case 4:
		return uint64(c.u32())
	}
	return c.u64()
}

// maxLEB is the longest LEB128 in bytes: 10 have 64 bits, and assemblers pad.
const maxLEB = 16

// uleb reads an unsigned LEB128 (DWARF 5, section 7.6). Bits above 64 are lost.
func (c *cursor) uleb() uint64 {
	if c.i < c.lim && c.b[c.i] < 0x80 {
		c.i++
		return uint64(c.b[c.i-1])
	}
	var v uint64
	for shift := 0; shift < 7*maxLEB; shift += 7 {
		b := c.u8()
		if shift < 64 {
			v |= uint64(b&0x7f) << shift
		}
		if b < 0x80 {
			return v
		}
	}
	c.fail("endless LEB128")
	return 0
}

func (c *cursor) sleb() int64 {
	var v uint64
	for shift := 0; shift < 7*maxLEB; {
		b := c.u8()
		if shift < 64 {
			v |= uint64(b&0x7f) << shift
		}
		shift += 7
		if b < 0x80 {
			if shift < 64 && b&0x40 != 0 {
				v |= ^uint64(0) << shift
			}
			return int64(v)
		}
	}
	c.fail("endless LEB128")
	return 0
}

func (c *cursor) skip(n uint64) {
	if n <= uint64(c.lim-c.i) {
		c.i += int(n)
		return
	}
	c.seek(n)
}

// seek is skip across pages: the next read finds the page.
func (c *cursor) seek(n uint64) {
	if c.err != nil {
		return
	}
	at := c.pos()
	if n > c.end-at {
		c.fail("%d bytes to skip, %d left", n, c.end-at)
		return
	}
	c.base, c.i, c.lim, c.b = at+n, 0, 0, nil
}

// to goes forward to an offset of the section; false if it is not one in front.
func (c *cursor) to(off uint64) bool {
	if at := c.pos(); off < at || off > c.end {
		return false
	}
	c.skip(off - c.pos())
	return c.err == nil
}

func (c *cursor) skipLEB() {
	for range maxLEB {
		if c.u8() < 0x80 {
			return
		}
	}
	c.fail("endless LEB128")
}

func (c *cursor) skipString() {
	for {
		if c.i >= c.lim && !c.fill(1) {
			return
		}
		if n := bytes.IndexByte(c.b[c.i:c.lim], 0); n >= 0 {
			c.i += n + 1
			return
		}
		c.i = c.lim
	}
}

// str reads a NUL-terminated string, at most maxString bytes of it; what is behind it cannot be read if it is longer.
func (c *cursor) str() string {
	var long []byte
	for {
		if c.i >= c.lim && !c.fill(1) {
			return ""
		}
		part := c.b[c.i:c.lim]
		n := bytes.IndexByte(part, 0)
		if n >= 0 {
			part = part[:n]
		}
		c.i += len(part)
		part = part[:min(len(part), maxString-len(long))]
		if n >= 0 || len(long)+len(part) == maxString {
			c.i++
			if long == nil {
				return string(part)
			}
			return string(append(long, part...))
		}
		long = append(long, part...)
	}
}

// unitLength reads the length that begins each header, and with it how wide offsets are (DWARF 5, section 7.4).
func (c *cursor) unitLength() (length uint64, offSize uint8) {
	switch n := c.u32(); {
	case n == 0xffffffff:
		return c.u64(), 8
	case n >= 0xfffffff0:
		c.fail("reserved length %#x", n)
		return 0, 4
	default:
		return uint64(n), 4
	}
}
