package dwarf

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"unsafe"
)

// sequence is a contiguous run of rows, in which addresses grow. Its marks are marks[first:last] of the table.
type sequence struct {
	low, high   uint64
	first, last uint32
}

// mark is the state of a line program just before it makes the row for an address.
type mark struct {
	addr  uint64
	state machine
	off   uint64 // of the instruction, in .debug_line
}

// lineTable is a line program of which only the state at every rowsPerMark-th row of each sequence is kept.
type lineTable struct {
	header *lineHeader
	seqs   []sequence // sorted by high
	marks  []mark
}

// rowsPerMark is how many rows are run for a lookup in a place where there was none before.
const rowsPerMark = 256

const linesPart = "line tables"

// lineTable returns the unit's.
func (d *Data) lineTable(u *unit) (*lineTable, error) {
	return cached(d, cacheKey{kindLines, u.obj.id, u.stmt.u, 0}, func(a *account) (*lineTable, error) {
		h, err := d.readLineHeader(u, a)
		if err != nil {
			return nil, fmt.Errorf("reading the line table at %#x: %w", u.stmt.u, err)
		}
		if err := a.take(int(unsafe.Sizeof(lineTable{})), linesPart); err != nil {
			return nil, err
		}
		t := &lineTable{header: h}
		if err := t.build(d, a); err != nil {
			if !permanent(err) {
				return nil, err
			}
			d.note(fmt.Errorf("running the line program at %#x: %w", u.stmt.u, err)) // it has what came before
		}
		// Of several sequences that have an address the one counts that ends first.
		slices.SortFunc(t.seqs, func(x, y sequence) int {
			if c := cmp.Compare(x.high, y.high); c != 0 {
				return c
			}
			return cmp.Compare(x.low, y.low)
		})
		t.seqs, t.marks = clip(a, t.seqs, linesPart), clip(a, t.marks, linesPart)
		return t, nil
	})
}

// build runs the whole program.
func (t *lineTable) build(d *Data, a *account) error {
	r, err := newRunner(d, a, t.header)
	if err != nil {
		return err
	}
	r.defines = true
	m := marker{d: d, a: a, t: t}
	for r.c.more() {
		off, before := r.c.pos(), r.machine
		made, err := r.next()
		if err != nil {
			return err
		}
		if made == nothing {
			continue
		}
		if err := m.row(mark{r.row.addr, before, off}, made); err != nil {
			return err
		}
		r.done(made)
	}
	return r.c.err
}

// marker makes sequences and their marks out of rows.
type marker struct {
	d    *Data
	a    *account
	t    *lineTable
	seq  sequence
	rows int // of seq
}

// row takes the row at an address.
func (m *marker) row(at mark, made output) (err error) {
	if m.rows > 0 && at.addr < m.seq.high {
		if err := m.end(); err != nil { // addresses grow: this is a sequence of its own
			return err
		}
	}
	if m.rows == 0 {
		n := uint32(len(m.t.marks))
		m.seq = sequence{low: at.addr, first: n, last: n}
	}
	m.seq.high = at.addr
	if made == lastRow {
		return m.end()
	}
	if m.rows%rowsPerMark == 0 {
		if m.t.marks, err = add(m.a, m.t.marks, at, linesPart); err != nil {
			return err
		}
		m.seq.last++
	}
	m.rows++
	return nil
}

// end adds the sequence, unless it is of code that the linker discarded.
func (m *marker) end() (err error) {
	m.rows = 0
	if m.seq.low >= m.seq.high || !m.d.alive(m.seq.low) {
		m.t.marks = m.t.marks[:m.seq.first]
		return nil
	}
	m.t.seqs, err = add(m.a, m.t.seqs, m.seq, linesPart)
	return err
}

// rows are some of a table, by address; sorted as the program made them.
type rows []row

// lookup returns the row of the instruction at a; false if there is none.
func (t *lineTable) lookup(d *Data, a uint64) (row, bool, error) {
	i := sort.Search(len(t.seqs), func(i int) bool { return t.seqs[i].high > a })
	if i == len(t.seqs) || t.seqs[i].low > a {
		return row{}, false, nil
	}
	q := t.seqs[i]
	marks := t.marks[q.first:q.last]
	k := sort.Search(len(marks), func(i int) bool { return marks[i].addr > a })
	if k == 0 {
		return row{}, false, nil
	}
	some, err := t.rows(d, q.first+uint32(k-1))
	if err != nil {
		return row{}, false, err
	}
	// Of several rows for an address the last one counts.
	n := sort.Search(len(some), func(i int) bool { return some[i].addr > a })
	if n == 0 {
		return row{}, false, nil
	}
	return some[n-1], true, nil
}

// rows runs the program again from a mark on.
func (t *lineTable) rows(d *Data, n uint32) (rows, error) {
	h := t.header
	return cached(d, cacheKey{kindRows, h.unit.obj.id, h.program, uint64(n)}, func(a *account) (rows, error) {
		r, err := newRunner(d, a, h)
		if err != nil {
			return nil, err
		}
		at := t.marks[n]
		if !r.c.to(at.off) {
			return nil, fmt.Errorf("no line program at %#x: %w", at.off, ErrFormat)
		}
		r.machine = at.state
		var some rows
		for len(some) < rowsPerMark && r.c.more() {
			made, err := r.next()
			if err != nil {
				return nil, err
			}
			if made == lastRow || made == oneRow && len(some) > 0 && r.row.addr < some[len(some)-1].addr {
				break
			}
			if made == oneRow {
				if some, err = add(a, some, r.row, linesPart); err != nil {
					return nil, err
				}
			}
		}
		return clip(a, some, linesPart), nil
	})
}
