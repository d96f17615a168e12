package tablebuild

import (
	"errors"
	"reflect"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

func TestBuilder(t *testing.T) {
	reg := func(off int32) unwind.Rule { return unwind.Rule{CFA: unwind.CFAReg, Reg: 7, Offset: off} }
	var b Builder
	for _, a := range []struct {
		start unwind.FileAddr
		rule  unwind.Rule
	}{
		{0x10, unwind.Rule{}}, // nothing before the first row
		{0x20, reg(8)},
		{0x28, reg(8)},  // merged
		{0x30, reg(16)}, // replaced, and then the same as before
		{0x30, reg(8)},
		{0x40, reg(16)},
		{0x50, unwind.Rule{}},
		{0x60, reg(8)},
	} {
		if err := b.Add(a.start, a.rule); err != nil {
			t.Fatal(err)
		}
	}
	got := b.Table(0x70)
	want := &unwind.Table{
		Rows:  []unwind.Row{{Start: 0x20, Rule: 1}, {Start: 0x40, Rule: 2}, {Start: 0x50}, {Start: 0x60, Rule: 1}, {Start: 0x70}},
		Rules: []unwind.Rule{{}, reg(8), reg(16)},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	if e := new(Builder).Table(5); len(e.Rows) != 0 {
		t.Errorf("empty: %+v", e)
	}
}

// TestManyRows builds a table of several pieces, with rows that are replaced where one piece ends and the next begins,
// and compares it with a plain list.
func TestManyRows(t *testing.T) {
	for _, n := range []int{chunkRows - 2, chunkRows - 1, chunkRows, chunkRows + 1, 3*chunkRows - 1, 3 * chunkRows} {
		var b Builder
		var want []unwind.FileAddr
		reg := func(off int) unwind.Rule { return unwind.Rule{CFA: unwind.CFAReg, Offset: int32(off)} }
		for i := range n {
			start := unwind.FileAddr(16 * i)
			for _, r := range []unwind.Rule{reg(-1), reg(-2), reg(i % 1000)} { // the last one stays
				if err := b.Add(start, r); err != nil {
					t.Fatal(err)
				}
			}
			want = append(want, start)
			if b.Rows() != len(want) {
				t.Fatalf("%d rows, want %d", b.Rows(), len(want))
			}
		}
		// a row that becomes the same as the one before goes away
		last := unwind.FileAddr(16 * n)
		if err := errors.Join(b.Add(last, reg(-3)), b.Add(last, reg((n-1)%1000))); err != nil {
			t.Fatal(err)
		}
		tab := b.Table(last + 16)
		if len(tab.Rows) != n+1 || tab.Rows[n].Rule != 0 {
			t.Fatalf("%d rows of %d, the last %v", len(tab.Rows), n, tab.Rows[len(tab.Rows)-1])
		}
		for i, start := range want {
			if r := tab.Rows[i]; r.Start != start || tab.Rules[r.Rule] != reg(i%1000) {
				t.Fatalf("row %d of %d: %v, %v", i, n, r, tab.Rules[r.Rule])
			}
		}
	}
}

// TestCollapse takes rows back across the border of two pieces.
func TestCollapse(t *testing.T) {
	var b Builder
	var want []unwind.Row
	reg := func(off int) unwind.Rule { return unwind.Rule{CFA: unwind.CFAReg, Offset: int32(off)} }
	add := func(start, off int) {
		t.Helper()
		if err := b.Add(unwind.FileAddr(start), reg(off)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range chunkRows + 2 {
		add(i, i%2)
		want = append(want, unwind.Row{Start: unwind.FileAddr(i), Rule: uint32(i%2 + 1)})
	}
	for i := chunkRows + 1; i > chunkRows-5; i-- {
		add(i, (i+1)%2) // what the row before has: they become one
		want = want[:i]
		if b.Rows() != i {
			t.Fatalf("%d rows, want %d", b.Rows(), i)
		}
	}
	end := want[len(want)-1].Start + 1
	if got := b.Table(end).Rows; !reflect.DeepEqual(got, append(want, unwind.Row{Start: end})) {
		t.Errorf("the last of %d rows: %v", len(got), got[len(got)-3:])
	}
}

func TestTooManyRules(t *testing.T) {
	var b Builder
	var full *FullError
	for i := range MaxRules + 10 {
		err := b.Add(unwind.FileAddr(i), unwind.Rule{CFA: unwind.CFAReg, Offset: int32(i)})
		if (err != nil) != (i >= MaxRules-1) || err != nil && !errors.As(err, &full) {
			t.Fatalf("rule %d: %v", i, err)
		}
	}
	tab := b.Table(unwind.FileAddr(MaxRules + 20))
	if len(tab.Rules) != MaxRules || tab.Lookup(unwind.FileAddr(MaxRules+5)) != (unwind.Rule{}) {
		t.Errorf("%d rules, %v", len(tab.Rules), tab.Lookup(unwind.FileAddr(MaxRules+5)))
	}
}

func TestUncovered(t *testing.T) {
	rule := unwind.Rule{CFA: unwind.CFARoot}
	var b Builder
	for _, start := range []unwind.FileAddr{0x20, 0x50} {
		if err := errors.Join(b.Add(start, rule), b.Add(start+0x10, unwind.Rule{})); err != nil {
			t.Fatal(err)
		}
	}
	tab := b.Table(0x60)
	for _, c := range []struct {
		t    *unwind.Table
		want []unwind.FileAddr
	}{
		{tab, []unwind.FileAddr{0x10, 0x20, 0x30, 0x50, 0x60, 0x100}},
		{&unwind.Table{}, []unwind.FileAddr{0x10, 0x100}},
	} {
		var got []unwind.FileAddr
		for lo, hi := range Uncovered(c.t, 0x10, 0x100) {
			got = append(got, lo, hi)
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%x, want %x", got, c.want)
		}
	}
	for lo, hi := range Uncovered(tab, 0x28, 0x58) {
		if lo != 0x30 || hi != 0x50 {
			t.Errorf("%x to %x", lo, hi)
		}
	}
}

// TestBudget has room for ever more rows: the table has the first ones, ends behind them, and Err says why.
func TestBudget(t *testing.T) {
	const n = 5*chunkRows + 7
	rule := func(i int) unwind.Rule { return unwind.Rule{CFA: unwind.CFAReg, Offset: int32(1 + i%100)} }
	complete, before := 0, 0
	for size := uint64(0); size < 1<<20; size += 20011 {
		budget := elffile.NewBudget("file", size)
		b := Builder{Budget: budget}
		var err error
		for i := range n {
			if e := b.Add(unwind.FileAddr(16*i), rule(i)); e != nil {
				err = e
			}
		}
		tab := b.Table(16 * n)
		if b.Err() != nil {
			err = b.Err()
		}
		if budget.Used() != Bytes(tab) || budget.Used() > size {
			t.Errorf("%d bytes: %d counted, the table has %d", size, budget.Used(), Bytes(tab))
		}
		rows := len(tab.Rows)
		if (err == nil) != (rows == n+1) || err != nil && !errors.Is(err, elffile.ErrTooLarge) || rows < before {
			t.Fatalf("%d bytes: %d rows, %v", size, rows, err)
		}
		before = rows
		if err == nil {
			complete++
		}
		for i, r := range tab.Rows {
			want := rule(i)
			if i == rows-1 {
				want = unwind.Rule{}
			}
			if r.Start != unwind.FileAddr(16*i) || tab.Rules[r.Rule] != want {
				t.Fatalf("%d bytes: row %d of %d is %v", size, i, rows, r)
			}
		}
	}
	if complete == 0 {
		t.Error("no budget was enough")
	}
}

// TestTooManyRows adds more than MaxRows.
func TestTooManyRows(t *testing.T) {
	var b Builder
	rules := [2]unwind.Rule{{CFA: unwind.CFAReg}, {CFA: unwind.CFARoot}}
	var err error
	for i := 0; i < MaxRows+10; i++ {
		err = b.Add(unwind.FileAddr(i), rules[i%2])
	}
	tab := b.Table(MaxRows + 10)
	var full *FullError
	if !errors.As(err, &full) || full.What != "rows" || b.Err() != err || len(tab.Rows) != MaxRows {
		t.Errorf("%v, %v, %d rows", err, b.Err(), len(tab.Rows))
	}
	if last := tab.Rows[len(tab.Rows)-1]; last.Start != MaxRows-1 || last.Rule != 0 {
		t.Errorf("the last row is %v", last)
	}
}
