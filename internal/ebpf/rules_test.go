package ebpf

import (
	"errors"
	"testing"
	"time"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/layout"
)

// TestRules fills the set, frees rules, and sees their numbers used again, but not before BPF has let go of them.
func TestRules(t *testing.T) {
	const size = 8
	mem := make([]rule, size)
	r := newRules(mem)
	now := time.Unix(1000, 0)
	reg := func(i int) unwind.Rule { return unwind.Rule{CFA: unwind.CFAReg, Offset: int32(8 * i)} }
	get := func(i int) uint32 {
		t.Helper()
		n, err := r.number(reg(i), now)
		if err != nil {
			t.Fatal(err)
		}
		if r.values[n] != reg(i) || mem[n] != layout.EncodeRule(reg(i)) {
			t.Fatalf("rule %d has number %d, which is %v", i, n, r.values[n])
		}
		return n
	}
	numbers := make([]uint32, size)
	for i := 1; i < size; i++ {
		numbers[i] = get(i)
	}
	if n, err := r.number(unwind.Rule{}, now); n != 0 || err != nil {
		t.Errorf("no rule has number %d, %v", n, err)
	}
	if again := get(3); again != numbers[3] { // a second table has it
		t.Errorf("rule 3 has number %d and %d", numbers[3], again)
	}
	if _, err := r.number(reg(100), now); !errors.Is(err, ErrNoRoom) {
		t.Errorf("a full set: %v", err)
	}
	r.publish(numbers[1:])
	r.release([]uint32{numbers[2], numbers[3]}, now)
	if _, err := r.number(reg(100), now); !errors.Is(err, ErrNoRoom) {
		t.Errorf("within the grace period: %v", err)
	}
	now = now.Add(gracePeriod)
	if n := get(100); n != numbers[2] {
		t.Errorf("the new rule has number %d, want %d", n, numbers[2])
	}
	if _, err := r.number(reg(101), now); !errors.Is(err, ErrNoRoom) {
		t.Errorf("rule 3 still has a table: %v", err)
	}
	if n := get(3); n != numbers[3] {
		t.Errorf("rule 3 has number %d, want %d", n, numbers[3])
	}
}

// TestRulesOfFailedTable takes what room there is for a table that fails then: it makes room at once, but for what BPF knows
// from another table.
func TestRulesOfFailedTable(t *testing.T) {
	const size = 8
	r := newRules(make([]rule, size))
	now := time.Unix(1000, 0)
	reg := func(i int) unwind.Rule { return unwind.Rule{CFA: unwind.CFAReg, Offset: int32(8 * i)} }
	first, err := r.number(reg(1), now)
	if err != nil {
		t.Fatal(err)
	}
	r.publish([]uint32{first})
	for round := range 5 {
		var used []uint32
		var err error
		for i := 1; err == nil; i++ {
			var n uint32
			if n, err = r.number(reg(100*round+i), now); err == nil {
				used = append(used, n)
			}
		}
		want := size - 2
		if round == 0 {
			want = size - 1 // it has the rule that is there too
		}
		if !errors.Is(err, ErrNoRoom) || len(used) != want {
			t.Fatalf("round %d: %d rules, %v", round, len(used), err)
		}
		r.release(used, now)
	}
	// The published rule, taken again by a table that fails after the one that has it was removed, keeps its grace period.
	if again, err := r.number(reg(1), now); again != first || err != nil {
		t.Fatalf("%d, %v", again, err)
	}
	r.release([]uint32{first}, now)
	r.release([]uint32{first}, now)
	for i := range size - 2 {
		if n, err := r.number(reg(1000+i), now); err != nil || n == first {
			t.Errorf("rule %d has number %d, %v", i, n, err)
		}
	}
	if n, err := r.number(reg(2000), now); err == nil {
		t.Errorf("number %d within the grace period", n)
	}
	if n, err := r.number(reg(2000), now.Add(gracePeriod)); err != nil || n != first {
		t.Errorf("number %d, %v; want %d", n, err, first)
	}
}
