package dwarf

import (
	"fmt"
	"math"
)

// eachRange calls f with the ranges of addresses that belong to a DIE of the unit.
func (d *Data) eachRange(u *unit, code codeAttrs, f func(start, end uint64) error) error {
	if code.ranges.there() {
		if u.version < 5 {
			return d.oldRanges(u, code.ranges.u, f)
		}
		return d.rnglist(u, code.ranges, f)
	}
	if !code.low.there() || !code.high.there() {
		return nil
	}
	low, err := u.addr(code.low)
	if err != nil {
		return err
	}
	high := low + code.high.u
	if code.high.isAddress() {
		if high, err = u.addr(code.high); err != nil {
			return err
		}
	}
	return f(low, high)
}

// oldRanges reads a list of .debug_ranges (DWARF 4, section 2.17.3). It is in the file of the skeleton unit.
func (d *Data) oldRanges(u *unit, off uint64, f func(start, end uint64) error) error {
	m := u.main()
	s, err := m.obj.section(secRanges)
	if err != nil {
		return err
	}
	if u.skeleton != nil {
		off += m.rangesBase
	}
	c := s.at(off, math.MaxUint64)
	for base := m.low; ; {
		start, end := c.uint(u.addrSize), c.uint(u.addrSize)
		if c.err != nil {
			return c.err
		}
		if err := d.step(1); err != nil {
			return err
		}
		switch {
		case start == 0 && end == 0:
			return nil
		case start == u.lastAddr():
			base = end
		default:
			if err := f(u.based(base, start, end)); err != nil {
				return err
			}
		}
	}
}

// lastAddr is the highest address.
func (u *unit) lastAddr() uint64 {
	if u.addrSize == 4 {
		return math.MaxUint32
	}
	return math.MaxUint64
}

// based returns the range of a pair of offsets from a base: an empty one if the base stands for code that the linker
// discarded, which -1 does (as lld's -z dead-reloc-in-nonalloc=.debug_*=-1 has it), or -2 in lists in which -1 has a meaning.
// Offsets from there would wrap and become low addresses, at which there may be other code.
func (u *unit) based(base, start, end uint64) (uint64, uint64) {
	if base >= u.lastAddr()-1 {
		return base, base
	}
	return base + start, base + end
}

// rnglist reads a list of .debug_rnglists (DWARF 5, sections 2.17.3 and 7.25).
func (d *Data) rnglist(u *unit, v value, f func(start, end uint64) error) error {
	s, err := u.obj.section(secRnglists)
	if err != nil {
		return err
	}
	off := v.u + u.rnglistsStart
	if v.form == formRnglistx {
		n, err := s.entry(u.rnglistsBase, v.u, u.offSize)
		if err != nil {
			return err
		}
		off = u.rnglistsBase + n
	}
	c := s.at(off, math.MaxUint64)
	l := listReader{u: u, c: &c, base: u.main().low}
	for {
		if err := d.step(1); err != nil {
			return err
		}
		start, end, kind := l.next()
		switch {
		case c.err != nil:
			return c.err
		case l.err != nil:
			return l.err
		case kind == rleEndOfList:
			return nil
		case kind == rleBaseAddress:
			l.base = start
			continue
		}
		if err := f(start, end); err != nil {
			return err
		}
	}
}

// listReader reads the entries of a list.
type listReader struct {
	u    *unit
	c    *cursor
	base uint64
	err  error
}

// next reads one. Of those that set the base the kind is rleBaseAddress, of ranges rleStartEnd.
func (l *listReader) next() (start, end uint64, kind uint8) {
	switch k := l.c.u8(); k {
	case rleEndOfList:
		return 0, 0, rleEndOfList
	case rleBaseAddressx:
		return l.indexed(), 0, rleBaseAddress
	case rleBaseAddress:
		return l.c.uint(l.u.addrSize), 0, rleBaseAddress
	case rleStartxEndx:
		start = l.indexed()
		return start, l.indexed(), rleStartEnd
	case rleStartxLength:
		start = l.indexed()
		return start, start + l.c.uleb(), rleStartEnd
	case rleOffsetPair:
		start, end = l.c.uleb(), l.c.uleb()
		start, end = l.u.based(l.base, start, end)
		return start, end, rleStartEnd
	case rleStartEnd:
		start = l.c.uint(l.u.addrSize)
		return start, l.c.uint(l.u.addrSize), rleStartEnd
	case rleStartLength:
		start = l.c.uint(l.u.addrSize)
		return start, start + l.c.uleb(), rleStartEnd
	default:
		l.err = fmt.Errorf("kind %#x of range: %w", k, ErrFormat)
		return 0, 0, rleEndOfList
	}
}

func (l *listReader) indexed() uint64 {
	a, err := l.u.addrIndexed(l.c.uleb())
	if err != nil && l.err == nil {
		l.err = err
	}
	return a
}
