package dwarf

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"github.com/hostprofiles/hostprofiles/internal/symbolize/names"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// maxChain bounds how many DIEs say together what a function is: an instance, the abstract one, its declaration.
const maxChain = 16

// described is what the DIEs of a function say together: of each attribute the first that is found on the way from the
// instance to the declaration.
type described struct {
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
		if err != nil {
			return unwind.Function{}, fmt.Errorf("reading the function at %#x: %w", p.off, err)
		}
		f := d.nameOf(s, lang)
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
	if x.tag != tagSubprogram && x.tag != tagInlinedSubroutine {
		return nil, fmt.Errorf("tag %#x at %#x is no function: %w", x.tag, p.off, ErrFormat)
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

// nameOf makes the name for people: of the linkage name as for a symbol table's, or of the plain one with the names of
// what it is in, as the language writes it.
func (d *Data) nameOf(s described, lang uint64) unwind.Function {
	if s.linkage != "" {
		return names.Function(s.linkage)
	}
	if s.lastUnit != nil && s.lastUnit.lang != 0 {
		lang = s.lastUnit.lang
	}
	if s.name == "" || plainLanguage(lang) || s.lastUnit == nil {
		return names.Function(s.name)
	}
	scopes, err := d.scopesOf(s.last, s.lastUnit)
	if err != nil {
		d.note(err)
	}
	if len(scopes) == 0 {
		return names.Function(s.name)
	}
	name := strings.ToValidUTF8(strings.Join(append(scopes, s.name), separator(lang)), "\uFFFD")
	return unwind.Function{Name: names.Clip(name)}
}

// scopesOf returns the names of the namespaces, types and functions that a DIE is in, the outermost first.
func (d *Data) scopesOf(p place, u *unit) ([]string, error) {
	s, err := d.functions(u, false)
	if err != nil {
		return nil, err
	}
	at := uint32(p.off - u.off)
	var all []string
	start := uint32(u.dies - u.off)
	for _, x := range s.scopes { // sorted by start: the outer ones first
		if x.start < at && at < x.end {
			name, err := d.scopeName(u, x.start)
			if err != nil {
				return all, err
			}
			all = append(all, name)
			start = x.start
		}
	}
	// The last mark before the DIE is in the same namespace as it is, if it is not before the namespace.
	i, ok := slices.BinarySearch(s.marks, at)
	if ok {
		return all, nil
	}
	w, err := d.walk(u, &account{d: d})
	if err != nil {
		return all, err
	}
	inside := false
	if i > 0 && s.marks[i-1] > start && d.sameScope(s, s.marks[i-1], at) {
		start, inside = s.marks[i-1], true
	}
	if !w.c.to(u.off + uint64(start)) {
		return all, fmt.Errorf("no DIE at %#x: %w", u.off+uint64(start), ErrFormat)
	}
	path, err := w.path(at, inside)
	for _, off := range path {
		name, err := d.scopeName(u, off)
		if err != nil {
			return all, err
		}
		if name != "" {
			all = append(all, name)
		}
	}
	return all, err
}

// sameScope tells whether two DIEs are in the same namespace.
func (d *Data) sameScope(s *scan, x, y uint32) bool {
	for _, n := range s.scopes {
		if (n.start < x && x < n.end) != (n.start < y && y < n.end) {
			return false
		}
	}
	return true
}

// path walks to the DIE at target and returns those that it is in, without the one that the walk starts at. inside says that
// this one is beside the target's outermost parent, not around it.
func (w *walker) path(target uint32, inside bool) (path []uint32, err error) {
	var open []uint32
	for first := true; w.c.more(); first = false {
		off, x, err := w.next()
		switch {
		case err != nil:
			return nil, err
		case off >= target:
			return open, nil
		case x == nil:
			if len(open) == 0 {
				return nil, nil
			}
			open = open[:len(open)-1]
			continue
		}
		if first && !inside {
			w.pass(x, false)
			continue
		}
		if x.children && x.sibling {
			mark := w.c
			if end, ok := x.pass(&w.c, w.u.format, true); ok && end <= uint64(target) {
				w.c.to(w.u.off + end)
				continue
			}
			w.c = mark
		}
		if w.pass(x, false) {
			if len(open) == maxDepth {
				return nil, fmt.Errorf("more than %d DIEs in each other: %w", maxDepth, ErrFormat)
			}
			open = append(open, off)
		}
	}
	return open, w.c.err
}

// scopeName is what the DIE at off in the unit adds to the names of what is in it; empty if it adds nothing.
func (d *Data) scopeName(u *unit, off uint32) (string, error) {
	tab, err := d.abbrevs(u)
	if err != nil {
		return "", err
	}
	c, err := u.info(u.off + uint64(off))
	if err != nil {
		return "", err
	}
	x := tab.get(c.uleb())
	if x == nil {
		return "", c.err
	}
	unnamed := ""
	switch x.tag {
	case tagNamespace, tagModule:
		unnamed = "(anonymous namespace)"
	case tagClassType, tagStructureType, tagUnionType, tagInterfaceType, tagEnumerationType:
		unnamed = "(anonymous)"
	case tagSubprogram:
		s, err := d.describe(place{u.obj, u, u.off + uint64(off)})
		return s.name, err
	default:
		return "", nil
	}
	for _, at := range x.attrs {
		v := u.read(&c, at.form, at.implicit)
		if at.at == atName && c.err == nil {
			if name, err := u.str(v); err != nil || name != "" {
				return name, err
			}
		}
	}
	return unnamed, c.err
}
