// Package tablebuild puts unwind tables together, row by row in ascending order: what every source of rows needs.
package tablebuild

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

const (
	// MaxRows bounds a table: 256 MiB of rows. The largest browsers have some two million.
	MaxRows = 16 << 20
	// MaxRules bounds the distinct rules of a table; the largest programs have some thousands.
	MaxRules = 1 << 16
)

// Builder collects rows. The zero value is ready for use. It keeps Table's promises: rows ascend, neighbours differ,
// equal rules are stored once, and rule 0 is CFANone.
type Builder struct {
	full   [][]unwind.Row // finished pieces: a slice that grows would leave a multiple of itself as garbage
	rows   []unwind.Row   // the current piece
	rules  []unwind.Rule
	index  map[unwind.Rule]uint32
	recent [recentRules]uint32 // rule numbers by slot: tables repeat a few rules again and again
}

const (
	chunkRows   = 8192
	recentRules = 128 // a power of two
)

// slot is where a rule is looked for first.
func slot(r *unwind.Rule) uint32 {
	h := uint32(r.Offset)>>3*31 + uint32(r.Reg)*7 + uint32(uint16(r.FPOffset))*13 + uint32(uint16(r.BXOffset))*17 +
		uint32(r.FP)*3 + uint32(uint16(r.RAOffset))*5
	return (h ^ h>>7) % recentRules
}

// FullError says that a table has reached MaxRows or MaxRules.
type FullError struct{ What string }

// Error names what there is too much of.
func (e *FullError) Error() string { return fmt.Sprintf("unwind table has too many %s", e.What) }

// Add says that r holds from start on. A second rule for the same start replaces the first; a start below the last one
// is taken for it. When the table has too many rules the row becomes CFANone and Add returns a FullError for "rules",
// after which adding may go on; for "rows" it may not.
func (b *Builder) Add(start unwind.FileAddr, r unwind.Rule) error {
	if b.index == nil {
		b.rules = append(b.rules, unwind.Rule{})
		b.index = map[unwind.Rule]uint32{{}: 0}
	}
	var full error
	id := b.last()
	if b.rules[id] != r {
		at := slot(&r)
		if id = b.recent[at]; b.rules[id] != r {
			var ok bool
			if id, ok = b.index[r]; !ok {
				id, full = b.addRule(r)
			}
			b.recent[at] = id
		}
	}
	if n := len(b.rows); n > 0 && start <= b.rows[n-1].Start {
		start = b.rows[n-1].Start
		b.pop()
	}
	if id == b.last() { // before the first row there is no rule either
		return full
	}
	if b.Rows() >= MaxRows {
		return &FullError{"rows"}
	}
	b.push(unwind.Row{Start: start, Rule: id})
	return full
}

func (b *Builder) push(r unwind.Row) {
	if len(b.rows) == cap(b.rows) {
		if len(b.rows) > 0 {
			b.full = append(b.full, b.rows)
		}
		b.rows = make([]unwind.Row, 0, chunkRows)
	}
	b.rows = append(b.rows, r)
}

// pop removes the last row. The current piece is empty only if there are no rows at all.
func (b *Builder) pop() {
	b.rows = b.rows[:len(b.rows)-1]
	if n := len(b.full); len(b.rows) == 0 && n > 0 {
		b.rows, b.full = b.full[n-1], b.full[:n-1]
	}
}

func (b *Builder) addRule(r unwind.Rule) (uint32, error) {
	if len(b.rules) >= MaxRules {
		return 0, &FullError{"rules"}
	}
	id := uint32(len(b.rules))
	b.rules = append(b.rules, r)
	b.index[r] = id
	return id, nil
}

// last is the rule of the last row.
func (b *Builder) last() uint32 {
	if n := len(b.rows); n > 0 {
		return b.rows[n-1].Rule
	}
	return 0
}

// Rows is how many rows there are so far.
func (b *Builder) Rows() int { return len(b.full)*chunkRows + len(b.rows) }

// Table returns the finished table, whose last row is CFANone from end on. The builder must not be used again.
func (b *Builder) Table(end unwind.FileAddr) *unwind.Table {
	if n := len(b.rows); n > 0 && b.rows[n-1].Rule != 0 {
		b.push(unwind.Row{Start: max(end, b.rows[n-1].Start+1)})
	}
	rows := make([]unwind.Row, 0, b.Rows())
	for _, piece := range b.full {
		rows = append(rows, piece...)
	}
	return &unwind.Table{Rows: append(rows, b.rows...), Rules: b.rules}
}

// Uncovered yields the parts of [lo, hi) in which t has no rule, in ascending order.
func Uncovered(t *unwind.Table, lo, hi unwind.FileAddr) iter.Seq2[unwind.FileAddr, unwind.FileAddr] {
	return func(yield func(lo, hi unwind.FileAddr) bool) {
		byStart := func(r unwind.Row, a unwind.FileAddr) int { return cmp.Compare(r.Start, a) }
		i, _ := slices.BinarySearchFunc(t.Rows, lo, byStart)
		free := t.Lookup(lo).CFA == unwind.CFANone
		for ; lo < hi && i < len(t.Rows) && t.Rows[i].Start < hi; i++ {
			r := t.Rows[i]
			if free && r.Start > lo && !yield(lo, r.Start) {
				return
			}
			lo, free = r.Start, t.Rules[r.Rule].CFA == unwind.CFANone
		}
		if free && lo < hi {
			yield(lo, hi)
		}
	}
}
