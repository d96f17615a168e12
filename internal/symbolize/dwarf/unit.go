package dwarf

import (
	"fmt"
	"math"
	"unsafe"
)

// unit is a compilation unit's header and what its first DIE says.
type unit struct {
	format
	obj       *object
	off       uint64 // of the header in .debug_info
	end       uint64
	dies      uint64 // where the first DIE is
	abbrevOff uint64
	abbrevEnd uint64
	kind      uint8 // DW_UT_*; before version 5 the first DIE's tag tells
	tag       uint16

	lang    uint64
	low     uint64 // base of ranges
	code    codeAttrs
	stmt    value
	dwoID   uint64
	split   bool // the unit stands for one in another file
	dwoName string
	compDir string

	// Where the unit's parts of other sections are. (DWARF 5, section 3.1.1; DebugFission.)
	strOffsetsBase uint64
	addrBase       uint64
	rnglistsBase   uint64
	rnglistsStart  uint64 // of the contribution in a package
	rangesBase     uint64 // for the DIEs of the split unit

	skeleton *unit // of a unit in a .dwo file
}

// codeAttrs are the attributes that say where a DIE's code is.
type codeAttrs struct{ low, high, ranges value }

// main is the unit in the file that runs: the skeleton of a split unit.
func (u *unit) main() *unit {
	if u.skeleton != nil {
		return u.skeleton
	}
	return u
}

// info returns a cursor over the unit's DIEs from off on.
func (u *unit) info(off uint64) (cursor, error) {
	s, err := u.obj.section(secInfo)
	if err != nil {
		return cursor{}, err
	}
	return s.at(off, u.end), nil
}

// header reads the header of the unit at off (DWARF 5, section 7.5.1). next is where the next one is, more than off
// unless that cannot be known.
func (o *object) header(off uint64) (u *unit, next uint64, err error) {
	info, err := o.section(secInfo)
	if err != nil {
		return nil, 0, err
	}
	c := info.peek(off, math.MaxUint64)
	u = &unit{obj: o, off: off, abbrevEnd: math.MaxUint64}
	var length uint64
	length, u.offSize = c.unitLength()
	if c.err != nil {
		return nil, 0, c.err
	}
	if length > c.end-c.pos() {
		return nil, 0, fmt.Errorf("unit at %#x of %d bytes: %w", off, length, ErrFormat)
	}
	u.end = c.pos() + length
	u.version = c.u16()
	if c.err == nil && (u.version < 2 || u.version > 5) {
		return nil, u.end, fmt.Errorf("unit at %#x of version %d: %w", off, u.version, ErrFormat)
	}
	if u.version == 5 {
		u.kind, u.addrSize = c.u8(), c.u8()
		u.abbrevOff = c.uint(u.offSize)
		switch u.kind {
		case unitSkeleton, unitSplitCompile:
			u.dwoID = c.u64()
		case unitType, unitSplitType:
			c.skip(8 + uint64(u.offSize))
		}
	} else {
		u.abbrevOff = c.uint(u.offSize)
		u.addrSize = c.u8()
	}
	u.dies = c.pos()
	switch {
	case c.err != nil:
		return nil, u.end, c.err
	case u.dies > u.end:
		return nil, u.end, fmt.Errorf("unit at %#x of %d bytes: %w", off, length, ErrFormat)
	case u.addrSize != 4 && u.addrSize != 8:
		return nil, u.end, fmt.Errorf("unit at %#x with addresses of %d bytes: %w", off, u.addrSize, ErrFormat)
	}
	return u, u.end, nil
}

// unit returns the unit whose header is at off. complete, if there is one, sets what its package or skeleton says before
// its first DIE is read.
func (d *Data) unit(o *object, off uint64, complete func(*unit)) (*unit, error) {
	return cached(d, cacheKey{kindUnit, o.id, off, 0}, func(a *account) (*unit, error) {
		u, _, err := o.header(off)
		if err != nil {
			return nil, err
		}
		u.skeleton = o.skeleton
		if complete != nil {
			complete(u)
		}
		r, err := u.first()
		if err != nil {
			return nil, fmt.Errorf("reading the unit at %#x: %w", off, err)
		}
		u.names(r)
		if err := a.take(int(unsafe.Sizeof(*u))+len(u.compDir)+len(u.dwoName), "units"); err != nil {
			return nil, err
		}
		return u, nil
	})
}

// root is what the first DIE has and cannot be understood before all of it is read.
type root struct{ compDir, dwoName, addrBase, strOffsetsBase, rnglistsBase, rangesBase value }

// first reads the unit's first DIE.
func (u *unit) first() (r root, err error) {
	info, err := u.obj.section(secInfo)
	if err != nil {
		return r, err
	}
	c := info.peek(u.dies, u.end)
	code := c.uleb()
	s, err := u.obj.section(secAbbrev)
	if err != nil {
		return r, err
	}
	ac := s.at(u.abbrevOff, u.abbrevEnd)
	a := abbrev{}
	for n := 0; ; n++ {
		got, x := readAbbrev(&ac, u.format)
		if ac.err != nil {
			return r, ac.err
		}
		if got == 0 {
			return r, fmt.Errorf("no abbreviation %d: %w", code, ErrFormat)
		}
		if err := u.obj.d.step(1 + len(x.attrs)); err != nil {
			return r, err
		}
		if got == code {
			a = x
			break
		}
	}
	u.tag = a.tag
	for _, x := range a.attrs {
		u.take(&r, x.at, u.read(&c, x.form, x.implicit))
	}
	if c.err != nil {
		return r, c.err
	}
	return r, u.settle(r)
}

// take notes one attribute of the first DIE.
func (u *unit) take(r *root, at uint16, v value) {
	switch at {
	case atLanguage:
		u.lang = v.u
	case atStmtList:
		u.stmt = v
	case atLowPC:
		u.code.low = v
	case atHighPC:
		u.code.high = v
	case atRanges:
		u.code.ranges = v
	case atCompDir:
		r.compDir = v
	case atDwoName, atGNUDwoName:
		r.dwoName = v
	case atGNUDwoID:
		u.dwoID = v.u
	case atAddrBase, atGNUAddrBase:
		r.addrBase = v
	case atStrOffsetsBase:
		r.strOffsetsBase = v
	case atRnglistsBase:
		r.rnglistsBase = v
	case atGNURangesBase:
		r.rangesBase = v
	}
}

// settle sets the unit's bases. Without an attribute they are behind the header of the section, or of the unit's part
// of it (DWARF 5, section 7.3.2.4); before version 5 there were no headers.
func (u *unit) settle(r root) error {
	u.split = r.dwoName.there() && u.skeleton == nil && u.obj.suffix == ""
	header := func(behindLength uint64) uint64 {
		switch {
		case u.version < 5:
			return 0
		case u.offSize == 8:
			return 12 + behindLength
		}
		return 4 + behindLength
	}
	choose := func(v value, otherwise uint64) uint64 {
		if v.there() {
			return v.u
		}
		return otherwise
	}
	u.addrBase = choose(r.addrBase, header(4))
	if u.skeleton == nil {
		u.strOffsetsBase = choose(r.strOffsetsBase, header(4))
		u.rnglistsBase = choose(r.rnglistsBase, header(8))
	} else {
		u.strOffsetsBase += header(4)
		u.rnglistsBase = u.rnglistsStart + header(8)
	}
	u.rangesBase = r.rangesBase.u
	if !u.code.low.there() {
		return nil
	}
	low, err := u.addr(u.code.low)
	if err != nil {
		return err
	}
	u.low = low
	return nil
}

// names reads the strings of the first DIE; a unit does without those that cannot be read.
func (u *unit) names(r root) {
	for _, x := range []struct {
		to *string
		v  value
	}{{&u.compDir, r.compDir}, {&u.dwoName, r.dwoName}} {
		s, err := u.str(x.v)
		if err != nil {
			u.obj.d.note(err)
		}
		*x.to = s
	}
}
