// Package tablebuild puts unwind tables together, row by row in ascending order: what every source of rows needs.
package tablebuild

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"
	"unsafe"

	"github.com/hostprofiles/hostprofiles/internal/ebpf/abi"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

const (
	// MaxRows bounds a table: 64 MiB of rows. The largest browsers have some two million.
	MaxRows = 4 << 20
	// MaxRules bounds the distinct rules of a table, so that one file cannot take all that there is room for. Of 2,457
	// executables and libraries of a Debian machine with compilers, Go and Rust the largest number is 1,276 (LLVM 22).
	MaxRules = int(abi.LoopLimitsMAX_RULES) / 8

	// RowBytes is what a row of a finished table takes.
	RowBytes = int(unsafe.Sizeof(unwind.Row{}))
)

// Builder collects rows. The zero value is ready for use. It keeps Table's promises: rows ascend, neighbours differ,
// equal rules are stored once, and rule 0 is CFANone.
type Builder struct {
	// Budget bounds what the rows take; nil if nothing but MaxRows does.
	Budget *elffile.Budget

	chunks []*chunk // all but the last are full: a slice that grows would leave a multiple of itself as garbage
	n      int      // rows
	rules  []unwind.Rule
	index  map[unwind.Rule]uint32
	recent [recentRules]uint32 // rule numbers by slot: tables repeat a few rules again and again

	err error           // why no more rows can be added
	cut unwind.FileAddr // then: what is known ends here
}

// chunk is a run of rows, smaller than they are in a table.
type chunk struct {
	start [chunkRows]unwind.FileAddr
	rule  [chunkRows]uint16
}

const (
	chunkRows   = 4096
	chunkBytes  = uint64(unsafe.Sizeof(chunk{}))
	recentRules = 128 // a power of two
	// slack is how much room a table has behind its rows for a few that are merged into it: one in so many, and minSlack.
	slack, minSlack = 32, 64
)

// Rule numbers fit a chunk's.
const _ = uint16(MaxRules - 1)

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

// Unwrap returns elffile.ErrTooLarge.
func (e *FullError) Unwrap() error { return elffile.ErrTooLarge }

// Add says that r holds from start on. A second rule for the same start replaces the first; a start below the last one
// is taken for it. When the table has too many rules the row becomes CFANone and Add returns a FullError for "rules",
// after which adding may go on. When it has too many rows (a FullError for "rows") or passes the Budget it may not: the
// table ends there, and is good up to there.
func (b *Builder) Add(start unwind.FileAddr, r unwind.Rule) error {
	if b.err != nil {
		return b.err
	}
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
	if b.n > 0 {
		if last := b.start(b.n - 1); start <= last {
			start = last
			b.n--
		}
	}
	if id == b.last() { // before the first row there is no rule either
		return full
	}
	if err := b.push(start, id); err != nil {
		b.err, b.cut = err, start
		return err
	}
	return full
}

func (b *Builder) push(start unwind.FileAddr, rule uint32) error {
	if b.n >= MaxRows-1 { // the last row is Table's
		return &FullError{"rows"}
	}
	at := b.n % chunkRows
	if b.n/chunkRows == len(b.chunks) {
		if err := b.Budget.Take(chunkBytes, "rows"); err != nil {
			return err
		}
		b.chunks = append(b.chunks, new(chunk))
	}
	c := b.chunks[b.n/chunkRows]
	c.start[at], c.rule[at] = start, uint16(rule)
	b.n++
	return nil
}

func (b *Builder) start(i int) unwind.FileAddr { return b.chunks[i/chunkRows].start[i%chunkRows] }
func (b *Builder) rule(i int) uint32           { return uint32(b.chunks[i/chunkRows].rule[i%chunkRows]) }

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
	if b.n == 0 {
		return 0
	}
	return b.rule(b.n - 1)
}

// Rows is how many rows there are so far.
func (b *Builder) Rows() int { return b.n }

// Table returns the finished table, whose last row is CFANone from end on, or from where adding failed. The builder must
// not be used again, but for Err. The table counts in the Budget, with Bytes, and what it was made of does not any more.
// If there is no room for all of it, it ends earlier.
func (b *Builder) Table(end unwind.FileAddr) *unwind.Table {
	if b.err != nil {
		end = min(end, b.cut)
	}
	if fit := b.fit(); fit < b.n+1 && b.n > 0 {
		b.err = b.Budget.Take(uint64(b.n+1)*uint64(RowBytes), "finished rows")
		if fit < 2 {
			b.dropFrom(0)
			return &unwind.Table{}
		}
		b.n, end = fit-1, b.start(fit-1)
		b.dropFrom((b.n + chunkRows - 1) / chunkRows)
	}
	defer b.dropFrom(0)
	if b.n == 0 {
		return &unwind.Table{Rules: b.rules}
	}
	room := b.n + 1
	room = int(min(uint64(room+room/slack+minSlack), b.Budget.Left()/uint64(RowBytes)))
	if err := b.Budget.Take(uint64(room)*uint64(RowBytes), "finished rows"); err != nil {
		b.err = err
		return &unwind.Table{}
	}
	rows := make([]unwind.Row, b.n, room)
	for i := range rows {
		rows[i] = unwind.Row{Start: b.start(i), Rule: b.rule(i)}
	}
	if last := rows[b.n-1]; last.Rule != 0 {
		rows = append(rows, unwind.Row{Start: max(end, last.Start+1)})
	}
	return &unwind.Table{Rows: rows, Rules: b.rules}
}

// fit is how many rows, the closing one included, fit the Budget beside the chunks that they come from.
func (b *Builder) fit() (rows int) {
	for c := len(b.chunks); c > 0; c-- {
		room := b.Budget.Left()
		if gone := uint64(len(b.chunks)-c) * chunkBytes; room < math.MaxUint64-gone {
			room += gone
		}
		rows = max(rows, int(min(uint64(min(b.n, c*chunkRows)+1), room/uint64(RowBytes))))
	}
	return rows
}

// dropFrom lets go of the chunks from one on.
func (b *Builder) dropFrom(first int) {
	b.Budget.Give(uint64(len(b.chunks)-first) * chunkBytes)
	clear(b.chunks[first:])
	b.chunks = b.chunks[:first]
}

// Err says why the table has not all that was added; nil if it has.
func (b *Builder) Err() error { return b.err }

// Bytes is what a table's rows take in a Budget.
func Bytes(t *unwind.Table) uint64 { return uint64(cap(t.Rows)) * uint64(RowBytes) }

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
