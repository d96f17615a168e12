package ebpf

import (
	"fmt"
	"time"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/layout"
)

// rules are the rules of all tables in kernel memory, each distinct one once. A rule that no table has any more makes room
// for another, after the time for which BPF may still be reading it.
type rules struct {
	mem     []rule // the kernel's; nil once closed
	numbers map[unwind.Rule]uint32
	values  []unwind.Rule // by number
	tables  []uint32      // by number: how many have it
	shown   []bool        // by number: BPF was given a table that has it
	extents *extents
}

// newRules returns a set with nothing but rule 0, no rule.
func newRules(mem []rule) *rules {
	r := &rules{
		mem: mem, numbers: map[unwind.Rule]uint32{{}: 0}, values: []unwind.Rule{{}}, tables: []uint32{1},
		shown: []bool{true}, extents: newExtents(len(mem)),
	}
	r.extents.alloc(1, time.Time{})
	return r
}

// number returns the number of a rule, which one more table has now. publish tells when BPF is given that table.
func (r *rules) number(rule unwind.Rule, now time.Time) (uint32, error) {
	if r.mem == nil {
		return 0, errClosed
	}
	n, ok := r.numbers[rule]
	if !ok {
		at, ok := r.extents.alloc(1, now)
		if !ok {
			return 0, fmt.Errorf("%w: %d distinct unwind rules", ErrNoRoom, len(r.mem))
		}
		n = uint32(at)
		for len(r.values) <= at {
			r.values, r.tables, r.shown = append(r.values, unwind.Rule{}), append(r.tables, 0), append(r.shown, false)
		}
		r.shown[n] = false
		r.numbers[rule], r.values[n] = n, rule
		r.mem[n] = layout.EncodeRule(rule)
	}
	r.tables[n]++
	return n, nil
}

// publish tells that BPF gets a table with these rules.
func (r *rules) publish(numbers []uint32) {
	for _, n := range numbers {
		r.shown[n] = true
	}
}

// release tells that one table less has each of the rules. Those that BPF never knew of make room at once: a table that does
// not fit must not keep others out.
func (r *rules) release(numbers []uint32, now time.Time) {
	for _, n := range numbers {
		if r.tables[n]--; r.tables[n] == 0 {
			delete(r.numbers, r.values[n])
			if r.shown[n] {
				r.extents.release(int(n), 1, now)
			} else {
				r.extents.insert(extent{at: int(n), n: 1})
			}
		}
	}
}

func (r *rules) close() {
	unmapArray(r.mem)
	r.mem = nil
}
