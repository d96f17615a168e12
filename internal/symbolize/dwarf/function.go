package dwarf

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// maxChain bounds how many DIEs say together what a function is: an instance, the abstract one, its declaration.
const maxChain = 16

// described is what the DIEs of a function, or of a scope, say together: of each attribute the first that is found on the way
// from the instance to the declaration.
type described struct {
	role          role
	artificial    bool
	linkage, name string
	declLine      uint64
	declFile      uint64
	fileUnit      *unit // whose line table declFile is of
	last          place // the DIE that the name is of
	lastUnit      *unit
}

// function returns what the DIE at p, a subprogram or what one refers to, is called and where it is declared. lang is the
// language of the unit that asks, for units that do not say.
func (d *Data) function(p place, lang uint64) (unwind.Function, error) {
	return cached(d, cacheKey{kindFunction, p.obj.id, p.off, 0}, func(a *account) (unwind.Function, error) {
		s, err := d.describe(p)
		if err == nil && s.role != roleFunction {
			err = fmt.Errorf("no function: %w", ErrFormat)
		}
		if err != nil {
			return unwind.Function{}, fmt.Errorf("reading the function at %#x: %w", p.off, err)
		}
		f := d.nameOf(&s, lang)
		if s.declFile != 0 || s.fileUnit != nil && s.fileUnit.version >= 5 {
			if f.File, err = d.file(s.fileUnit, s.declFile); err != nil && !permanent(err) {
				return f, err
			}
		}
		if s.declLine <= 1<<31-1 {
			f.StartLine = int(s.declLine)
		}
		return f, a.take(int(unsafe.Sizeof(f))+len(f.Name)+len(f.SystemName)+len(f.File), "functions' names")
	})
}

// describe follows DW_AT_abstract_origin and DW_AT_specification (DWARF 5, sections 3.3.8 and 2.13).
func (d *Data) describe(p place) (s described, err error) {
	queue := []place{p}
	for n := 0; n < len(queue) && n < maxChain; n++ {
		at := queue[n]
		u, err := at.unit, error(nil)
		if u == nil {
			u, err = at.obj.unitAt(at.off)
		}
		if err == nil {
			var more []place
			if more, err = d.describeOne(u, at, &s); err == nil {
				queue = append(queue, more...)
				continue
			}
		}
		if n == 0 || !permanent(err) {
			return s, err
		}
		d.note(err)
	}
	if len(queue) > maxChain {
		d.note(fmt.Errorf("more than %d DIEs say what the one at %#x is: %w", maxChain, p.off, ErrFormat))
	}
	return s, nil
}

// describeOne adds what one DIE says, and returns those that it refers to.
func (d *Data) describeOne(u *unit, p place, s *described) (more []place, err error) {
	tab, err := d.abbrevs(u)
	if err != nil {
		return nil, err
	}
	c, err := u.info(p.off)
	if err != nil {
		return nil, err
	}
	if err := d.step(1); err != nil {
		return nil, err
	}
	code := c.uleb()
	x := tab.get(code)
	if x == nil {
		return nil, fmt.Errorf("no abbreviation %d at %#x: %w", code, p.off, ErrFormat)
	}
	switch r := roleOf(x.tag); {
	case s.role == roleUnknown:
		s.role = r
	case r != s.role:
		return nil, fmt.Errorf("tag %#x at %#x is not what it is said to be: %w", x.tag, p.off, ErrFormat)
	}
	if s.role == roleBlock {
		return nil, nil
	}
	for _, at := range x.attrs {
		v := u.read(&c, at.form, at.implicit)
		if c.err != nil {
			return nil, c.err
		}
		switch at.at {
		case atLinkageName, atMIPSLinkageName:
			if s.linkage == "" {
				s.linkage, err = u.str(v)
			}
		case atName:
			if s.name == "" {
				s.name, err = u.str(v)
			}
		case atArtificial:
			s.artificial = s.artificial || v.u != 0
		case atDeclLine:
			if s.declLine == 0 {
				s.declLine = v.u
			}
		case atDeclFile:
			if s.fileUnit == nil {
				s.declFile, s.fileUnit = v.u, u
			}
		case atAbstractOrigin, atSpecification:
			if q, ok := u.ref(v); ok {
				more = append(more, q)
			} else if v.form == formGNURefAlt || v.form == formRefSup4 || v.form == formRefSup8 {
				d.note(ErrNoSupplement)
			}
		}
		if err != nil {
			d.note(err)
			if !permanent(err) && !errors.Is(err, ErrNoSupplement) {
				return nil, err
			}
		}
	}
	s.last, s.lastUnit = p, u
	return more, nil
}
