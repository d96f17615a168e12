package tables

import "github.com/hostprofiles/hostprofiles/internal/unwind"

// coverReturns lets the rule of signal trampolines hold for one byte more, where nothing else begins. A trampoline ends with
// its system call; while the kernel works on that, the thread's pc is the instruction after it, which is beyond the end of
// what call frame information covers.
func coverReturns(t *unwind.Table) {
	for i := 1; i < len(t.Rows); i++ {
		r := &t.Rows[i]
		if t.Rules[r.Rule].CFA != unwind.CFANone || t.Rules[t.Rows[i-1].Rule].CFA != unwind.CFASignal {
			continue
		}
		if i+1 == len(t.Rows) || t.Rows[i+1].Start > r.Start+1 {
			r.Start++
		}
	}
}
