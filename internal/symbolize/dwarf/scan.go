package dwarf

import (
	"fmt"
	"math"
	"unsafe"
)

// scan is what a walk through the whole of a unit finds.
type scan struct {
	spans []span // where functions are; the id is the offset of the DIE in its unit

	// What is needed to tell in which namespaces a DIE is without another walk through all of the unit: the namespaces
	// themselves, and now and then a DIE that is in nothing but namespaces.
	scopes []scope // in ascending order
	marks  []uint32
	whole  bool  // nothing was left out
	err    error // why it is not complete
}

// scope is a namespace: the DIE at start, whose children end at end; offsets in the unit.
type scope struct{ start, end uint32 }

const (
	// markDistance is how far apart the marks of a unit are at least, in bytes.
	markDistance = 32 << 10
	// maxScopes bounds how deep namespaces are inside each other.
	maxScopes = 1 << 10
)

// functions returns what a unit has. Unless deep, the walk stays out of types and functions where it can: then what is in
// there has no functions with addresses outside the outer one's, if GCC or LLVM made the unit for C, C++ or Rust.
func (d *Data) functions(u *unit, deep bool) (*scan, error) {
	kind := kindScan
	if deep {
		kind = kindDeepScan
	}
	return cached(d, cacheKey{kind, u.obj.id, u.off, 0}, func(a *account) (*scan, error) {
		w, err := d.walk(u, a)
		if err != nil {
			return nil, err
		}
		w.deep = deep
		w.out = &scan{whole: true}
		if err := a.take(int(unsafe.Sizeof(scan{})), "functions of a unit"); err != nil {
			return nil, err
		}
		err = w.all()
		if err != nil {
			if !permanent(err) {
				return nil, err
			}
			err = fmt.Errorf("reading the unit at %#x: %w", u.off, err)
			d.note(err)
			w.out.err = err
		}
		if w.out.spans, err = d.paint(a, w.out.spans, "functions of a unit"); err != nil {
			return nil, err
		}
		w.out.spans = clip(a, w.out.spans, "functions of a unit")
		return w.out, nil
	})
}

// walker goes through the DIEs of a unit.
type walker struct {
	d    *Data
	u    *unit
	a    *account
	tab  *abbrevs
	c    cursor
	deep bool
	out  *scan

	depth  int   // of the next DIE; the unit's own has 0
	nested []int // scopes around it, by their place in out.scopes; they are each other's parents
	mark   uint32
}

func (d *Data) walk(u *unit, a *account) (*walker, error) {
	tab, err := d.abbrevs(u)
	if err != nil {
		return nil, err
	}
	c, err := u.info(u.dies)
	if err != nil {
		return nil, err
	}
	if u.end-u.off > math.MaxUint32 {
		return nil, fmt.Errorf("unit at %#x of %d bytes: %w", u.off, u.end-u.off, ErrFormat)
	}
	return &walker{d: d, u: u, a: a, tab: tab, c: c}, nil
}

// next reads the abbreviation of the DIE at the cursor, nil at the end of a list of children.
func (w *walker) next() (off uint32, x *abbrev, err error) {
	off = uint32(w.c.pos() - w.u.off)
	if w.d.steps--; w.d.steps < 0 {
		if err := w.d.more(); err != nil {
			return 0, nil, err
		}
	}
	code := w.c.uleb()
	if code == 0 {
		return off, nil, w.c.err
	}
	if x = w.tab.get(code); x == nil {
		return 0, nil, fmt.Errorf("no abbreviation %d at %#x: %w", code, w.u.off+uint64(off), ErrFormat)
	}
	return off, x, nil
}

// pass goes over the values of a DIE and, if that is asked for and it says where they end, over its children. entered says
// that its children follow.
func (w *walker) pass(x *abbrev, children bool) (entered bool) {
	if children && x.children && x.sibling {
		if off, ok := x.pass(&w.c, w.u.format, true); ok && w.c.to(w.u.off+off) {
			if w.out != nil {
				w.out.whole = false
			}
			return false
		}
		// It leads nowhere, and what follows it has not been gone over: read from the sibling's place on.
		w.c.fail("DW_AT_sibling leads back")
		return false
	}
	x.pass(&w.c, w.u.format, false)
	return x.children
}

// all goes through the whole unit.
func (w *walker) all() error {
	for w.c.more() {
		off, x, err := w.next()
		if err != nil {
			return err
		}
		if x == nil {
			if w.up(); w.depth <= 0 {
				break
			}
			continue
		}
		flat := w.depth == len(w.nested)+1 // in nothing but namespaces
		if flat && off-w.mark >= markDistance {
			w.mark = off
			if w.out.marks, err = add(w.a, w.out.marks, off, "marks of a unit"); err != nil {
				return err
			}
		}
		entered := false
		switch x.interest {
		case interestCode:
			entered, err = w.function(off, x)
		case interestScope:
			if entered = w.pass(x, false); flat {
				err = w.scope(off)
			}
		default:
			entered = w.pass(x, !w.deep && w.depth > 0)
		}
		if err != nil {
			return err
		}
		if entered {
			w.depth++
		} else if w.depth == 0 {
			break
		}
	}
	return w.c.err
}

// up leaves a list of children.
func (w *walker) up() {
	w.depth--
	if n := len(w.nested) - 1; n >= 0 && w.depth == n+1 {
		w.out.scopes[w.nested[n]].end = uint32(w.c.pos() - w.u.off)
		w.nested = w.nested[:n]
	}
}

func (w *walker) scope(off uint32) (err error) {
	if len(w.nested) == maxScopes {
		return fmt.Errorf("more than %d namespaces in each other: %w", maxScopes, ErrFormat)
	}
	if w.out.scopes, err = add(w.a, w.out.scopes, scope{off, math.MaxUint32}, "namespaces of a unit"); err != nil {
		return err
	}
	w.nested = append(w.nested, len(w.out.scopes)-1)
	return nil
}

// function notes where the code of a subprogram is.
func (w *walker) function(off uint32, x *abbrev) (entered bool, err error) {
	var code codeAttrs
	var sibling value
	for _, at := range x.attrs {
		switch at.at {
		case atLowPC:
			code.low = w.u.read(&w.c, at.form, at.implicit)
		case atHighPC:
			code.high = w.u.read(&w.c, at.form, at.implicit)
		case atRanges:
			code.ranges = w.u.read(&w.c, at.form, at.implicit)
		case atSibling:
			sibling = w.u.read(&w.c, at.form, at.implicit)
		default:
			w.u.skipForm(&w.c, at.form)
		}
	}
	if w.c.err != nil {
		return false, w.c.err
	}
	err = w.d.eachRange(w.u, code, func(start, end uint64) (err error) {
		if s, ok := w.d.newSpan(start, end, off); ok {
			w.out.spans, err = add(w.a, w.out.spans, s, "functions of a unit")
		}
		return err
	})
	if err != nil {
		return false, err
	}
	if x.children && !w.deep && sibling.unitRef() && w.c.to(w.u.off+sibling.u) {
		w.out.whole = false
		return false, nil
	}
	return x.children, nil
}
