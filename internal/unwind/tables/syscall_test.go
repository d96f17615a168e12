package tables

import (
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

func TestCoverReturns(t *testing.T) {
	table := &unwind.Table{
		Rules: []unwind.Rule{{}, {CFA: unwind.CFASignal}, {CFA: unwind.CFAReg, Offset: 8}},
		Rows: []unwind.Row{
			{Start: 0x100, Rule: 1}, {Start: 0x109, Rule: 0}, // a gap follows
			{Start: 0x200, Rule: 1}, {Start: 0x209, Rule: 2}, // a function follows at once
			{Start: 0x300, Rule: 1}, {Start: 0x309, Rule: 0}, {Start: 0x30a, Rule: 2}, // and here after one byte
			{Start: 0x400, Rule: 0},
		},
	}
	coverReturns(table)
	for a, want := range map[unwind.FileAddr]unwind.CFAKind{
		0x108: unwind.CFASignal, 0x109: unwind.CFASignal, 0x10a: unwind.CFANone,
		0x209: unwind.CFAReg, 0x309: unwind.CFANone, 0x30a: unwind.CFAReg, 0x3ff: unwind.CFAReg, 0x400: unwind.CFANone,
	} {
		if got := table.Lookup(a).CFA; got != want {
			t.Errorf("rule at %#x is %d, not %d", a, got, want)
		}
	}
}
