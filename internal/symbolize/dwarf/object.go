package dwarf

import (
	"errors"
	"fmt"
	"io"
	"sort"

	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

// object is one file with debug information.
type object struct {
	d      *Data
	id     uint32
	file   *elffile.File
	suffix string // of the sections' names
	alt    *object
	pack   bool // a package: its units are known by its index only

	skeleton *unit // of what is in a .dwo file
	closer   io.Closer
	closed   bool

	secs   [sections]*section
	errs   [sections]error
	opened [sections]bool

	listed bool
	units  []uint64 // where the units in .debug_info begin; type units are left out
	held   int      // bytes of units and relocations

	symbols   []uint64 // values of a relocatable file's
	symbolsOf int      // the section that they are from
}

func (d *Data) newObject(f *elffile.File, suffix string) *object {
	d.objects++
	return &object{d: d, id: d.objects, file: f.Within(d.budget), suffix: suffix}
}

// section returns a section of the object, nil if it has none of that kind.
func (o *object) section(id sectionID) (*section, error) {
	if o.closed {
		return nil, errClosed
	}
	if !o.opened[id] {
		o.opened[id] = true
		suffix := o.suffix
		if id == secAddr || id == secRanges || id == secAranges || id == secLineStr || id == secIndex {
			suffix = "" // never split
		}
		s, err := o.d.openSection(o.file, id, suffix)
		if err == nil && s != nil {
			if err = o.relocate(s); err != nil {
				o.release(s)
			}
		}
		if err != nil && !lasting(err) {
			o.opened[id] = false
			return nil, err
		}
		if err != nil {
			s = nil
			o.d.note(err)
		}
		o.secs[id], o.errs[id] = s, err
	}
	return o.secs[id], o.errs[id]
}

// lasting tells whether a section cannot be opened in another lookup either, which begins with all its steps.
func lasting(err error) bool {
	defect := permanent(err) || errors.Is(err, elffile.ErrTruncated) || errors.Is(err, elffile.ErrUnsupported)
	return defect && !errors.Is(err, ErrTooMuchWork)
}

// errClosed: a split file was closed while something still wanted to read it.
var errClosed = errors.New("split file is closed")

// close closes the file of a split unit, if it is one, and gives back what was held for it.
func (o *object) close() {
	o.closed = true
	for _, s := range o.secs {
		if s != nil {
			o.release(s)
		}
	}
	o.d.give(o.held)
	o.held, o.units, o.symbols = 0, nil, nil
	if o.closer != nil {
		if err := o.closer.Close(); err != nil {
			o.d.note(fmt.Errorf("closing a split file: %w", err))
		}
	}
}

// release gives back what a section takes beside the file.
func (o *object) release(s *section) {
	if s.mem != nil {
		o.d.give(len(s.mem))
		s.mem = nil
	}
	if s.spill != nil {
		if err := s.spill.Close(); err != nil {
			o.d.note(fmt.Errorf("closing decompressed %s: %w", s.name, err))
		}
		s.spill = nil
	}
}

// unitAt returns the unit that a place in .debug_info is in.
func (o *object) unitAt(off uint64) (*unit, error) {
	if o.pack {
		return nil, fmt.Errorf("reference to another unit of a package, at %#x: %w", off, ErrFormat)
	}
	if err := o.list(); err != nil {
		return nil, err
	}
	i := sort.Search(len(o.units), func(i int) bool { return o.units[i] > off })
	if i == 0 {
		return nil, fmt.Errorf("no unit at %#x: %w", off, ErrFormat)
	}
	u, err := o.d.unit(o, o.units[i-1], nil)
	if err != nil {
		return nil, err
	}
	if off < u.dies || off >= u.end {
		return nil, fmt.Errorf("no DIE at %#x: %w", off, ErrFormat)
	}
	return u, nil
}

// list finds where the units begin.
func (o *object) list() error {
	if o.listed {
		return nil
	}
	info, err := o.section(secInfo)
	if err != nil || info == nil {
		return err
	}
	o.listed = true
	a := &account{d: o.d}
	defer func() { o.held += a.taken }()
	for off := uint64(0); off < info.size; {
		if err := o.d.step(1); err != nil {
			return err
		}
		u, next, err := o.header(off)
		if err != nil {
			if next <= off {
				return fmt.Errorf("reading the unit at %#x: %w", off, err)
			}
			o.d.note(err) // of a version to come, perhaps
			off = next
			continue
		}
		off = next
		if u.kind == unitType || u.kind == unitSplitType {
			continue
		}
		if o.units, err = add(a, o.units, u.off, "offsets of units"); err != nil {
			return err
		}
	}
	return nil
}

// alive tells whether there is code at an address.
func (d *Data) alive(a uint64) bool {
	i := sort.Search(len(d.code), func(i int) bool { return uint64(d.code[i].Start) > a })
	return i > 0 && a < uint64(d.code[i-1].End)
}
