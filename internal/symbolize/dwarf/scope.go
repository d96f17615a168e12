package dwarf

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/hostprofiles/hostprofiles/internal/symbolize/names"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// role is what a DIE is to the names of what is in it.
type role uint8

const (
	roleUnknown role = iota
	roleBlock        // nothing
	roleFunction
	roleType
	roleSpace // a namespace or module
)

func roleOf(tag uint16) role {
	switch tag {
	case tagSubprogram, tagInlinedSubroutine:
		return roleFunction
	case tagClassType, tagStructureType, tagUnionType, tagInterfaceType, tagEnumerationType:
		return roleType
	case tagNamespace, tagModule:
		return roleSpace
	}
	return roleBlock
}

// nameOf makes the name for people: of the linkage name as for a symbol table's, or of the plain one with the names of
// what it is in, as the language writes it. A lambda's function is given the line where the lambda begins.
func (d *Data) nameOf(s *described, lang uint64) unwind.Function {
	if s.lastUnit != nil && s.lastUnit.lang != 0 {
		lang = s.lastUnit.lang
	}
	if adaLanguage(lang) {
		if f := names.FunctionBy(cmp.Or(s.linkage, s.name), names.GNAT); f.SystemName != "" {
			return f // GNAT's names have in them all that is around, if they are not those of another language
		}
	}
	named := s.linkage != "" || s.name == "" || plainLanguage(lang) || s.lastUnit == nil
	var scopes []string
	if !named || s.declLine == 0 && s.ofLambda() {
		var err error
		if scopes, err = d.scopesOf(s); err != nil {
			d.note(err)
		}
	}
	switch {
	case s.linkage != "":
		return names.Function(s.linkage)
	case named || len(scopes) == 0:
		return names.Function(s.name)
	}
	name := strings.ToValidUTF8(strings.Join(append(scopes, s.name), separator(lang)), "\uFFFD")
	return unwind.Function{Name: names.Clip(name)}
}

// lambda is what the class of a lambda is called: the demangler writes {lambda(int)#1}, but DWARF has no such number.
const lambda = "{lambda}"

// ofLambda tells whether a function is a lambda's if it is in a class without a name, by what GCC 12 says of them: they are
// artificial, have no line, and are called as the function itself, which may be a template's, or as the one that a pointer to it
// points to (gcc/cp/lambda.cc).
func (s *described) ofLambda() bool {
	return (s.artificial || s.declLine == 0) && s.lastUnit != nil &&
		(s.name == "operator()" || strings.HasPrefix(s.name, "operator()<") || s.name == "_FUN")
}

// scopesOf returns the names of the namespaces, types and functions that a function is in, the outermost first. What those are
// in is where they are declared, which their own DIE may only refer to: GCC has the types of a function in the DIE that has its
// code, outside all namespaces. A function with a linkage name has in it all that is around.
func (d *Data) scopesOf(f *described) (all []string, err error) {
	defer func() { slices.Reverse(all) }()
	p, u := f.last, f.lastUnit
	inner := f
	for range maxChain {
		path, pathErr := d.parents(p, u)
		moved := false
		for i := len(path) - 1; i >= 0 && !moved; i-- {
			at := place{u.obj, u, u.off + uint64(path[i])}
			s, err := d.describe(at)
			if err != nil {
				return all, err
			}
			if s.role == roleBlock {
				continue
			}
			if whole, ok := names.Scope(s.linkage); ok {
				return append(all, whole), nil
			}
			name := s.scopeName(inner)
			if name == lambda && len(all) == 0 && f.declLine == 0 {
				f.declLine = s.declLine
				if f.fileUnit == nil {
					f.declFile, f.fileUnit = s.declFile, s.fileUnit
				}
			}
			if name != "" {
				all = append(all, name)
			}
			inner = &s
			if moved = s.last.obj != at.obj || s.last.off != at.off; moved {
				p, u = s.last, s.lastUnit
			}
		}
		if !moved {
			return all, pathErr
		}
		if pathErr != nil {
			d.note(pathErr)
		}
	}
	return all, fmt.Errorf("what the DIE at %#x is in is declared elsewhere more than %d times: %w", f.last.off, maxChain, ErrFormat)
}

// scopeName is what a scope adds to the name of a function in it, inner, or of a scope; empty if it adds nothing.
func (s *described) scopeName(inner *described) string {
	switch {
	case s.name != "" || s.role == roleFunction:
		return s.name
	case s.role == roleSpace:
		return "(anonymous namespace)"
	case inner.ofLambda():
		return lambda
	}
	return "(anonymous)"
}

// parents returns the DIEs that a DIE is in, without the unit's own, by their offsets in the unit, the outermost first. If it
// fails, it has returned the outer ones.
func (d *Data) parents(p place, u *unit) (all []uint32, err error) {
	s, err := d.functions(u, false)
	if err != nil {
		return nil, err
	}
	at := uint32(p.off - u.off)
	start := uint32(u.dies - u.off)
	for _, x := range s.scopes { // sorted by start: the outer ones first
		if x.start < at && at < x.end {
			all = append(all, x.start)
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
	return append(all, path...), err
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
