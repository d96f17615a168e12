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
