package dwarf

import (
	"cmp"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// LookupAll looks many addresses up, and calls found for each with its place in addrs and what Lookup would return; lines
// is valid until the next call. They are sorted by unit, so that each unit is decoded once, whatever the cache's limit.
// It ends at once with an error that is not one of the address, such as of reading the file.
func (d *Data) LookupAll(addrs []unwind.FileAddr, found func(n int, lines []unwind.Line, err error)) error {
	type question struct {
		unit uint32
		n    int
	}
	all := make([]question, 0, len(addrs))
	for n, a := range addrs {
		d.begin()
		unit, ok, err := d.unitOf(uint64(a))
		switch {
		case err != nil:
			return err
		case !ok:
			found(n, nil, ErrNotCovered)
		default:
			all = append(all, question{unit, n})
		}
	}
	slices.SortFunc(all, func(x, y question) int {
		if c := cmp.Compare(x.unit, y.unit); c != 0 {
			return c
		}
		return cmp.Compare(addrs[x.n], addrs[y.n])
	})
	var lines []unwind.Line
	for _, q := range all {
		d.begin()
		var err error
		lines, err = d.lookup(lines[:0], q.unit, uint64(addrs[q.n]))
		if err != nil && !permanent(err) {
			return err
		}
		found(q.n, lines, err)
	}
	return nil
}

// lookup appends what unit number n has for an address.
func (d *Data) lookup(dst []unwind.Line, n uint32, a uint64) ([]unwind.Line, error) {
	skeleton, err := d.unit(d.main, d.main.units[n], nil)
	if err != nil {
		return dst, err
	}
	u := skeleton
	if skeleton.split {
		if u, err = d.split(skeleton); err != nil {
			if !permanent(err) {
				return dst, err
			}
			if err := d.missing(skeleton, err); err != nil {
				return dst, err
			}
			u = skeleton
		}
	}
	at, haveRow, rowErr := d.rowAt(skeleton, a)
	if rowErr != nil && !permanent(rowErr) {
		return dst, rowErr
	}
	t, id, ok, err := d.innermost(u, a)
	switch {
	case err != nil && !permanent(err):
		return dst, err
	case ok:
		return d.chain(dst, u, t, id, at)
	case haveRow && d.covers(skeleton, a):
		return append(dst, unwind.Line{Function: unwind.Function{File: at.file}, Line: at.line, Column: at.column}), nil
	}
	return dst, errors.Join(err, rowErr)
}

// covers tells whether an address is in what a unit says it covers: the index has what is between, too.
func (d *Data) covers(u *unit, a uint64) bool {
	some, in := false, false
	err := d.eachRange(u, u.code, func(start, end uint64) error {
		some, in = true, in || start <= a && a < end
		return nil
	})
	return in || !some && err == nil
}

// position is a place in the source.
type position struct {
	file         string
	line, column int
}

// rowAt returns what the unit's line table says of an address.
func (d *Data) rowAt(u *unit, a uint64) (position, bool, error) {
	if !u.stmt.there() {
		return position{}, false, nil
	}
	t, err := d.lineTable(u)
	if err != nil {
		return position{}, false, err
	}
	r, ok, err := t.lookup(d, a)
	if !ok || err != nil {
		return position{}, false, err
	}
	return d.position(u, r.file, r.line, r.column), true, nil
}

// position makes a position of numbers in the unit's line table; of a file that cannot be named it has none.
func (d *Data) position(u *unit, file, line, column uint32) position {
	path, err := d.file(u, uint64(file))
	if err != nil && !permanent(err) {
		d.note(err)
	}
	return position{path, lineNumber(line), lineNumber(column)}
}

// lineNumber: what no source has is not known.
func lineNumber(n uint32) int {
	if n > 1<<31-1 {
		return 0
	}
	return int(n)
}

// innermost finds the function at an address, and the innermost call that was inlined there.
func (d *Data) innermost(u *unit, a uint64) (t *tree, id int32, ok bool, err error) {
	for _, deep := range []bool{false, true} {
		var s *scan
		if s, err = d.functions(u, deep); err != nil {
			return nil, 0, false, err
		}
		f, ok := find(s.spans, a)
		if !ok {
			if err = s.err; s.whole {
				break
			}
			continue
		}
		if t, err = d.tree(u, f.id); err != nil {
			return nil, 0, false, err
		}
		if inner, ok := find(t.spans, a); ok {
			return t, int32(inner.id), true, nil
		}
		return t, 0, true, nil
	}
	return nil, 0, false, err
}

// locate gives a function the file that a line of it is in. Units that GCC's LTO has taken apart may name a file in two ways,
// of which the absolute one stays.
func locate(f *unwind.Function, file string) {
	switch {
	case file == "" || file == f.File:
	case !sameFile(file, f.File):
		f.File, f.StartLine = file, 0
	case !path.IsAbs(f.File) && path.IsAbs(file):
		f.File = file
	}
}

// sameFile tells whether two paths may be of one file: one is the end of the other.
func sameFile(x, y string) bool {
	if path.Base(x) != path.Base(y) {
		return false
	}
	x, y = path.Clean(x), path.Clean(y)
	if len(x) < len(y) {
		x, y = y, x
	}
	return x == y || !path.IsAbs(y) && strings.HasSuffix(x, "/"+y)
}

// chain appends the calls from node id of a tree outwards. at is where the innermost one is.
func (d *Data) chain(dst []unwind.Line, u *unit, t *tree, id int32, at position) ([]unwind.Line, error) {
	before := len(dst)
	for id >= 0 {
		n := t.nodes[id]
		if len(dst)-before == MaxInlined && id != 0 {
			for n.parent != 0 {
				n = t.nodes[n.parent]
			}
			at, n = d.position(u, n.callFile, n.callLine, n.callColumn), t.nodes[0]
		}
		f, err := d.function(n.function, u.lang)
		if err != nil && !permanent(err) {
			return dst[:before], err
		}
		if at.line != 0 {
			locate(&f, at.file)
		}
		dst = append(dst, unwind.Line{Function: f, Line: at.line, Column: at.column})
		if n.parent >= 0 {
			at = d.position(u, n.callFile, n.callLine, n.callColumn)
		}
		id = n.parent
	}
	return dst, nil
}
