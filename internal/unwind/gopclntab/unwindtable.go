package gopclntab

import (
	"errors"
	"fmt"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/tablebuild"
)

// maxPairs bounds the work on one file: the largest programs have some ten million (value, pc) pairs.
const maxPairs = 1 << 27

// span says that the stack pointer lies delta bytes below its value at the function's entry, from the offset start
// (relative to the entry) on.
type span struct {
	start uint64
	delta int32
}

// maxSpans bounds the frame sizes of one function; those with thousands of returns have some ten thousand.
const maxSpans = 1 << 16

// maxOverrides is how many times the rows of a function that changes stacks are gone through at most, and what a function
// with flags costs for each of its frame sizes.
const maxOverrides = 16

// noDelta marks code whose frame size is unknown.
const noDelta = -1

// tableBuilder makes rows from frame sizes.
type tableBuilder struct {
	t      *Table
	out    tablebuild.Builder
	pctab  []byte
	spans  []span // of the current function; reused
	rows   []row  // likewise
	budget int
}

// row is a row relative to a function's entry.
type row struct {
	start uint64
	rule  unwind.Rule
}

// UnwindTable makes the unwind table of the Go code, which counts in the file's Budget. The tables that it reads are let
// go again when it returns. It fails if the file cannot be read or its table is damaged, or if there is too much of it:
// then the table is good as far as it goes. A single function without a frame table (C code that the Go linker took in)
// gets CFANone. How Go's own stack switches are crossed is told in switches.go.
func (t *Table) UnwindTable() (*unwind.Table, error) {
	pctab, err := t.mem.bulk(t.pctab, "pctab")
	if err != nil {
		return &unwind.Table{}, fmt.Errorf("reading pctab: %w", err)
	}
	b := &tableBuilder{t: t, pctab: pctab, budget: maxPairs, out: tablebuild.Builder{Budget: t.f.Budget()}}
	err = b.functions()
	b.pctab = nil // the rows need the room
	t.f.Budget().Give(t.pctab.size)
	_, end := t.Text()
	u := b.out.Table(end)
	switch {
	case b.out.Err() != nil:
		return u, fmt.Errorf("building rows: %w", b.out.Err())
	case err != nil:
		t.f.Budget().Give(tablebuild.Bytes(u))
		return &unwind.Table{}, err
	}
	return u, nil
}

// functions adds the rows of all functions.
func (b *tableBuilder) functions() error {
	last := uint32(0)
	for i := range b.t.nfunc {
		fn, _, _, _, ok := b.t.record(i)
		if !ok || fn.entry < last || fn.end < fn.entry {
			return fmt.Errorf("reading function %d: %w", i, errDamaged)
		}
		last = fn.entry
		if fn.end == fn.entry {
			continue
		}
		if err := b.function(&fn); err != nil {
			return fmt.Errorf("building rows of function %d: %w", i, err)
		}
	}
	return nil
}

// function adds the rows of one function.
func (b *tableBuilder) function(fn *function) error {
	if !b.frameSizes(fn) {
		return errDamaged
	}
	entry := b.t.text + unwind.FileAddr(fn.entry)
	b.rows = b.rows[:0]
	if fn.flags == 0 {
		for _, s := range b.spans {
			b.rows = append(b.rows, row{s.start, b.t.frameRule(s.delta)})
		}
	} else {
		if b.budget -= maxOverrides * len(b.spans); b.budget < 0 {
			return errDamaged
		}
		b.rows = b.t.assembly(b.rows, fn, b.spans)
	}
	for _, r := range b.rows {
		at := entry + unwind.FileAddr(r.start)
		if r.rule.CFA == unwind.CFASignal && r.start == 0 {
			// The kernel makes the handler return to the trampoline's first byte, and return addresses are looked up
			// one byte before.
			at--
		}
		if err := b.out.Add(at, r.rule); err != nil && !tooManyRules(err) {
			return err
		}
	}
	return nil
}

// tooManyRules tells whether a row was added without its rule, after which adding may go on.
func tooManyRules(err error) bool {
	var full *tablebuild.FullError
	return errors.As(err, &full) && full.What == "rules"
}

// frameSizes decodes fn's pcsp table into b.spans; ok is false when the file's tables ask for unreasonable work. What a
// table says about addresses behind the function is left out.
func (b *tableBuilder) frameSizes(fn *function) (ok bool) {
	b.spans = b.spans[:0]
	size := uint64(fn.end - fn.entry)
	if fn.pcsp == 0 || uint64(fn.pcsp) >= uint64(len(b.pctab)) {
		b.spans = append(b.spans, span{0, noDelta})
		return true
	}
	rest, start := b.pctab[fn.pcsp:], uint64(0)
	for s := b.t.newSteps(); start < size; start = s.pc {
		if rest = s.next(rest); rest == nil {
			break
		}
		if b.budget--; b.budget < 0 {
			return false
		}
		if len(b.spans) == maxSpans-1 {
			b.spans = append(b.spans, span{start, noDelta})
			break
		}
		delta := s.value
		if delta < 0 || delta%8 != 0 || delta > 1<<30 {
			delta = noDelta
		}
		b.spans = append(b.spans, span{start, delta})
	}
	if len(b.spans) == 0 {
		b.spans = append(b.spans, span{0, noDelta})
	}
	return true
}

// frameRule is the rule of compiled code in a frame of delta bytes (return address not counted on amd64).
//
//	amd64, cmd/internal/obj/x86/obj6.go      arm64, cmd/internal/obj/arm64/obj7.go
//
//	CFA                                      CFA
//	CFA-8     return address                 ...
//	CFA-16    caller's rbp, if delta > 0     sp = CFA-delta      return address (delta 0: still in x30)
//	...                                      sp-8                caller's x29, if delta > 0
//	sp = CFA-8-delta
//
// For an instruction or two of the prologue the frame pointer is not yet stored there; nobody but a frame that follows
// frame pointers would notice. Go code does not preserve rbx.
func (t *Table) frameRule(delta int32) unwind.Rule {
	if delta == noDelta {
		return unwind.Rule{}
	}
	if t.arch == unwind.ArchAMD64 {
		r := unwind.Rule{
			CFA: unwind.CFAReg, Reg: unwind.AMD64RSP, Offset: delta + 8, RAOffset: -1, BX: unwind.SaveUndefined,
		}
		if delta > 0 {
			r.FP, r.FPOffset = unwind.SaveAtCFA, -2
		}
		return r
	}
	if delta == 0 {
		return linkRule(0)
	}
	return savedLinkRule(delta, delta)
}

// linkRule is the rule of an arm64 frame of delta bytes whose return address is still in the link register.
func linkRule(delta int32) unwind.Rule {
	return unwind.Rule{
		CFA: unwind.CFAReg, Reg: unwind.ARM64SP, Offset: delta, RA: unwind.RAReg, RAOffset: unwind.ARM64LR,
	}
}

// savedLinkRule is the rule of an arm64 frame of delta bytes that stored the link register at CFA-at and the frame
// pointer below it. Frames that are too large for a rule have none.
func savedLinkRule(delta, at int32) unwind.Rule {
	if at/8+1 > 1<<15 {
		return unwind.Rule{}
	}
	return unwind.Rule{
		CFA: unwind.CFAReg, Reg: unwind.ARM64SP, Offset: delta,
		RAOffset: int16(-at / 8), FP: unwind.SaveAtCFA, FPOffset: int16(-at/8 - 1),
	}
}
