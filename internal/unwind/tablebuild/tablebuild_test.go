package tablebuild

import (
	"errors"
	"reflect"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
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

func TestTooManyRules(t *testing.T) {
	var b Builder
	var full *FullError
	for i := range MaxRules + 10 {
		err := b.Add(unwind.FileAddr(i), unwind.Rule{CFA: unwind.CFAReg, Offset: int32(i)})
		if (err != nil) != (i >= MaxRules-1) || err != nil && !errors.As(err, &full) {
			t.Fatalf("rule %d: %v", i, err)
		}
	}
	tab := b.Table(MaxRules + 20)
	if len(tab.Rules) != MaxRules || tab.Lookup(MaxRules+5) != (unwind.Rule{}) {
		t.Errorf("%d rules, %v", len(tab.Rules), tab.Lookup(MaxRules+5))
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
