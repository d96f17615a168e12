package dwarf

import (
	"errors"
	"fmt"
	"math"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// split returns the unit that a skeleton stands for (DWARF 5, section 3.1.2 and appendix F; DebugFission before).
func (d *Data) split(skeleton *unit) (*unit, error) {
	if d.dwp != nil {
		u, err := d.packaged(skeleton)
		if err == nil || !errors.Is(err, ErrNoSplit) || d.opts.OpenSplit == nil {
			return u, err
		}
	}
	o, err := d.splitFile(skeleton)
	if err != nil {
		return nil, err
	}
	if err := o.list(); err != nil {
		return nil, err
	}
	for _, off := range o.units {
		u, err := d.unit(o, off, nil)
		if err != nil {
			if !permanent(err) {
				return nil, err
			}
			continue
		}
		if u.dwoID == skeleton.dwoID {
			return u, nil
		}
	}
	return nil, fmt.Errorf("no unit %#x in %s: %w", skeleton.dwoID, skeleton.dwoName, ErrNoSplit)
}

// missing counts a split unit that was not found, once while that is known.
func (d *Data) missing(skeleton *unit, cause error) error {
	_, err := cached(d, cacheKey{kindSplit, skeleton.obj.id, skeleton.off, 1}, func(*account) (struct{}, error) {
		d.stats.MissingSplit++
		d.note(cause)
		return struct{}{}, nil
	})
	return err
}

// maxSplits is how many .dwo files are open at a time.
const maxSplits = 32

// splitFile opens the .dwo file that a skeleton names.
func (d *Data) splitFile(skeleton *unit) (*object, error) {
	if o, ok := d.splits.Get(skeleton.off); ok {
		return o, nil
	}
	_, err := cached(d, cacheKey{kindSplit, skeleton.obj.id, skeleton.off, 0}, func(*account) (struct{}, error) {
		o, err := d.openSplit(skeleton)
		if err != nil {
			err = fmt.Errorf("opening %s of %s: %w: %w", skeleton.dwoName, skeleton.compDir, ErrNoSplit, err)
			return struct{}{}, err
		}
		d.splits.Add(skeleton.off, o)
		return struct{}{}, nil
	})
	if err != nil {
		return nil, err
	}
	if o, ok := d.splits.Get(skeleton.off); ok {
		return o, nil
	}
	// It was found before, and was closed since.
	o, err := d.openSplit(skeleton)
	if err != nil {
		return nil, fmt.Errorf("opening %s of %s again: %w: %w", skeleton.dwoName, skeleton.compDir, ErrNoSplit, err)
	}
	d.splits.Add(skeleton.off, o)
	return o, nil
}

func (d *Data) openSplit(skeleton *unit) (*object, error) {
	if d.opts.OpenSplit == nil {
		return nil, errors.New("nobody opens such files")
	}
	f, closer, err := d.opts.OpenSplit(skeleton.dwoName, skeleton.compDir, skeleton.dwoID)
	if err != nil {
		return nil, err
	}
	o := d.newObject(f, ".dwo")
	o.skeleton, o.closer = skeleton, closer
	return o, nil
}

// newSplits makes the cache of split files. What goes from it may be in use until the lookup is over.
func (d *Data) newSplits() (err error) {
	d.splits, err = simplelru.NewLRU(maxSplits, func(_ uint64, o *object) { d.closing = append(d.closing, o) })
	if err != nil {
		return fmt.Errorf("making the cache of split files: %w", err)
	}
	return nil
}

// begin starts a lookup.
func (d *Data) begin() {
	d.steps, d.left = 0, d.maxSteps
	for _, o := range d.closing {
		o.close()
	}
	d.closing = d.closing[:0]
}

// The columns of a package's index (DWARF 5, section 7.3.5.3; DebugFission's page on packages for version 2).
const (
	columnInfo       = 1
	columnAbbrev     = 3
	columnStrOffsets = 6
	columnRnglists   = 8 // of version 5 only

	maxColumns = 16
)

// packaged finds a split unit in the package.
func (d *Data) packaged(skeleton *unit) (*unit, error) {
	missing := func(err error) (*unit, error) {
		return nil, fmt.Errorf("no unit %#x in the package: %w", skeleton.dwoID, err)
	}
	x, err := d.packageIndex()
	if err != nil {
		return nil, err
	}
	r, err := x.row(d, skeleton.dwoID)
	if err != nil {
		return missing(err)
	}
	type part struct{ start, end uint64 }
	var parts [maxColumns]part
	for n := range x.columns {
		id := x.cell(0, n)
		if id < maxColumns {
			start := uint64(x.cell(r, n))
			parts[id] = part{start, start + uint64(x.cell(r+x.units, n))}
		}
	}
	if x.err != nil {
		return nil, x.err
	}
	if parts[columnInfo].end == parts[columnInfo].start {
		return missing(ErrFormat)
	}
	u, err := d.unit(d.dwp, parts[columnInfo].start, func(u *unit) {
		u.skeleton = skeleton
		u.abbrevOff += parts[columnAbbrev].start
		u.abbrevEnd = parts[columnAbbrev].end
		u.strOffsetsBase = parts[columnStrOffsets].start
		if u.version >= 5 {
			u.rnglistsStart = parts[columnRnglists].start
		}
	})
	if err != nil {
		return nil, err
	}
	if u.skeleton == nil || u.skeleton.off != skeleton.off {
		return missing(ErrFormat) // two skeletons of one unit
	}
	return u, nil
}

// unitIndex is the .debug_cu_index of a package: a header, a hash table of the units' ids, one of the rows that they have
// in the tables behind, in which the first row names the sections, then the offsets of each unit's parts and their sizes.
type unitIndex struct {
	s                     *section
	columns, units, slots uint32
	err                   error
}

const indexHeader = 16

func (d *Data) packageIndex() (*unitIndex, error) {
	s, err := d.dwp.section(secIndex)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return nil, fmt.Errorf("package without an index: %w", ErrNoSplit)
	}
	c := s.at(0, math.MaxUint64)
	// Version 2 has four bytes of version, version 5 has two, and two of padding.
	version := c.u32()
	x := &unitIndex{s: s, columns: c.u32(), units: c.u32(), slots: c.u32()}
	switch {
	case c.err != nil:
		return nil, c.err
	case version&0xffff != 2 && version&0xffff != 5:
		return nil, fmt.Errorf("package's index of version %d: %w", version, ErrFormat)
	case x.columns > maxColumns || x.slots&(x.slots-1) != 0 || x.units > x.slots:
		return nil, fmt.Errorf("package's index of %d columns, %d slots: %w", x.columns, x.slots, ErrFormat)
	}
	return x, nil
}

// row returns which row is the unit's with an id: from the slot that its low bits say on, in steps that its high bits say.
func (x *unitIndex) row(d *Data, id uint64) (uint32, error) {
	if x.slots == 0 {
		return 0, ErrNoSplit
	}
	mask := uint64(x.slots - 1)
	slot, stride := id&mask, id>>32&mask|1
	for range x.slots {
		if err := d.step(1); err != nil {
			return 0, err
		}
		got, err := x.s.entry(indexHeader, slot, 8)
		if err != nil {
			return 0, err
		}
		row, err := x.s.entry(indexHeader+8*uint64(x.slots), slot, 4)
		switch {
		case err != nil:
			return 0, err
		case row == 0:
			return 0, ErrNoSplit
		case row > uint64(x.units):
			return 0, fmt.Errorf("row %d of %d: %w", row, x.units, ErrFormat)
		case got == id:
			return uint32(row), nil
		}
		slot = (slot + stride) & mask
	}
	return 0, ErrNoSplit
}

// cell is a number of the tables.
func (x *unitIndex) cell(row, column uint32) uint32 {
	tables := indexHeader + 12*uint64(x.slots)
	v, err := x.s.entry(tables, uint64(row)*uint64(x.columns)+uint64(column), 4)
	if err != nil && x.err == nil {
		x.err = err
	}
	return uint32(v)
}
