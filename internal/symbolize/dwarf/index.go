package dwarf

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

// index says which unit an address belongs to: of several the one that comes first in .debug_info.
type index struct {
	spans []span // the id is the unit's number, inverted
	// rest are units that do not say where their code is. They are looked through when an address is in no other.
	rest []uint32
	a    *account
}

const indexPart = "index of units"

// buildIndex takes the addresses of units from .debug_aranges, and of those that are not there from their first DIE.
func (d *Data) buildIndex() error {
	d.index.a = &account{d: d}
	if err := d.main.list(); err != nil {
		return err
	}
	size := len(d.main.units)/8 + 1
	if err := d.index.a.take(size, indexPart); err != nil {
		return err
	}
	defer d.index.a.give(size)
	listed := make([]byte, size) // a bit for each unit
	if err := d.aranges(listed); err != nil {
		if !errors.Is(err, ErrFormat) && !errors.Is(err, elffile.ErrTooLarge) {
			return fmt.Errorf("reading .debug_aranges: %w", err)
		}
		d.note(err)
	}
	for n, off := range d.main.units {
		if listed[n/8]&(1<<(n%8)) != 0 {
			continue
		}
		if err := d.step(1); err != nil {
			return err
		}
		u, _, err := d.main.header(off)
		if err == nil {
			err = d.indexUnit(uint32(n), u)
		}
		if err != nil {
			return fmt.Errorf("reading the unit at %#x: %w", off, err)
		}
	}
	return d.settleIndex()
}

// indexUnit adds the ranges of a unit's first DIE.
func (d *Data) indexUnit(n uint32, u *unit) error {
	if _, err := u.first(); err != nil {
		if errors.Is(err, ErrFormat) {
			d.note(err)
			return nil
		}
		return err
	}
	some := false
	err := d.eachRange(u, u.code, func(start, end uint64) (err error) {
		some = true
		return d.addRange(n, start, end)
	})
	if err != nil {
		if !errors.Is(err, ErrFormat) {
			return err
		}
		d.note(err)
	}
	if some || u.tag == tagPartialUnit { // that has no code of its own
		return nil
	}
	d.index.rest, err = add(d.index.a, d.index.rest, n, indexPart)
	return err
}

func (d *Data) addRange(n uint32, start, end uint64) (err error) {
	x := &d.index
	for ; start < end; start += math.MaxUint32 {
		s, ok := d.newSpan(start, end, ^n)
		if !ok {
			break
		}
		if last := len(x.spans) - 1; last >= 0 && x.spans[last].id == s.id && x.spans[last].end() == s.start &&
			uint64(x.spans[last].size)+uint64(s.size) <= math.MaxUint32 {
			x.spans[last].size += s.size
		} else if x.spans, err = add(x.a, x.spans, s, indexPart); err != nil {
			return err
		}
		if end-start <= math.MaxUint32 {
			break
		}
	}
	return nil
}

// settleIndex sorts the index, settles what units dispute and makes it small: neighbours of one unit become one, whatever
// is between them, unless that is another unit's, or may turn out to be.
func (d *Data) settleIndex() error {
	x := &d.index
	spans, err := d.paint(x.a, x.spans, indexPart)
	if err != nil {
		return err
	}
	out := spans[:0]
	for _, s := range spans {
		if n := len(out) - 1; n >= 0 && out[n].id == s.id && (len(x.rest) == 0 || out[n].end() == s.start) &&
			s.end()-out[n].start <= math.MaxUint32 {
			out[n].size = uint32(s.end() - out[n].start)
			continue
		}
		out = append(out, s)
	}
	x.spans = clip(x.a, out, indexPart)
	return nil
}

// unitOf returns the number of the unit that covers an address. Units that do not say where their code is are looked
// through if no other has it, once.
func (d *Data) unitOf(a uint64) (uint32, bool, error) {
	s, ok := find(d.index.spans, a)
	if ok || len(d.index.rest) == 0 || !d.alive(a) {
		return ^s.id, ok, nil
	}
	err := d.indexRest()
	if settled := d.settleIndex(); err == nil {
		err = settled
	}
	s, ok = find(d.index.spans, a)
	if ok {
		err = nil
	}
	return ^s.id, ok, err
}

// indexRest adds the functions of units that do not say where their code is. If that is too much work for one lookup, the
// next one goes on with it.
func (d *Data) indexRest() error {
	x := &d.index
	for len(x.rest) > 0 {
		n := x.rest[0]
		u, err := d.unit(d.main, d.main.units[n], nil)
		var functions *scan
		if err == nil {
			functions, err = d.functions(u, false)
		}
		if err != nil && !permanent(err) {
			return fmt.Errorf("looking for the functions of units without addresses: %w", err)
		}
		x.rest = x.rest[1:]
		if err == nil {
			for _, f := range functions.spans {
				if err := d.addRange(n, f.start, f.end()); err != nil {
					return err
				}
			}
			err = functions.err
		}
		if errors.Is(err, ErrTooMuchWork) {
			return err
		}
	}
	return nil
}

// aranges adds what .debug_aranges says (DWARF 5, section 6.1.2), and marks the units that it is about.
func (d *Data) aranges(listed []byte) error {
	s, err := d.main.section(secAranges)
	if err != nil || s == nil {
		return err
	}
	for off := uint64(0); off < s.size; {
		c := s.at(off, math.MaxUint64)
		length, offSize := c.unitLength()
		if c.err != nil || length > c.end-c.pos() {
			return fmt.Errorf("set at %#x of .debug_aranges: %w", off, ErrFormat)
		}
		next := c.pos() + length
		c = s.at(c.pos(), next)
		version, unit := c.u16(), c.uint(offSize)
		addrSize, segmentSize := c.u8(), c.u8()
		n, ok := slices.BinarySearch(d.main.units, unit)
		if ok && c.err == nil && version == 2 && segmentSize == 0 && (addrSize == 4 || addrSize == 8) {
			if err := d.arangesSet(&c, off, addrSize, uint32(n)); err != nil {
				return err
			}
			listed[n/8] |= 1 << (n % 8)
		}
		if err := d.step(1); err != nil {
			return err
		}
		off = next
	}
	return nil
}

// arangesSet reads the pairs of a set that begins at off. They are aligned to their size, counted from there.
func (d *Data) arangesSet(c *cursor, off uint64, addrSize uint8, n uint32) error {
	pair := 2 * uint64(addrSize)
	if rest := (c.pos() - off) % pair; rest != 0 {
		c.skip(pair - rest)
	}
	for c.end-c.pos() >= pair && c.err == nil {
		if err := d.step(1); err != nil {
			return err
		}
		start, size := c.uint(addrSize), c.uint(addrSize)
		if start == 0 && size == 0 {
			break
		}
		if err := d.addRange(n, start, start+size); err != nil {
			return err
		}
	}
	return c.err
}
