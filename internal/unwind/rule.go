package unwind

import "fmt"

// CFAKind says how a frame's canonical frame address (the stack pointer's value just before the call) is found.
// The same values stand in bpf/abi.h; a test compares them.
type CFAKind uint8

const (
	// CFANone: no unwind information from here on (a gap between functions, or an FDE that could not be expressed).
	// The walk falls back to a frame-pointer step and marks the frame.
	CFANone CFAKind = iota
	// CFARoot: the outermost frame; the return address is undefined here.
	CFARoot
	// CFAReg: CFA = Reg + Offset; Offset2 is a CFANote.
	CFAReg
	// CFAMem: CFA = *(Reg + Offset) + Offset2.
	CFAMem
	// CFAPLT: a lazy-binding PLT stub, which pushes one word at its instruction at (pc & 15) >= Offset2:
	// CFA = Reg + Offset + ((pc & 15) >= Offset2 ? 8 : 0).
	CFAPLT
	// CFASignal: the kernel's signal trampoline; every register is restored from the rt_sigframe at the stack pointer,
	// and the caller's pc is exact, not a return address.
	CFASignal
	// CFAGoSwitch: Go code that runs on the system stack (g0) for a goroutine (runtime.systemstack, morestack, mcall):
	// the walk goes on at g.m.curg.sched; without a curg this frame is the root.
	CFAGoSwitch
	// CFAFramePointer: code known to keep a frame-pointer chain but without a table (JIT code whose owner says so);
	// CFA = FP + 16, not marked as a guess.
	CFAFramePointer
)

// CFANote is what a CFAReg rule has to say beside its equation. The same values stand in bpf/abi.h.
type CFANote int16

const (
	CFANoteNone CFANote = iota
	// CFANoteOtherStack: the CFA is on another stack than the stack pointer, so that neither needs to be above the other.
	CFANoteOtherStack
	// CFANoteInterrupted: code that Go's signal handler made the interrupted code call (runtime.asyncPreempt). It returns to the
	// instruction that was to be next: the caller's pc is exact. On arm64 the handler pushed the link register, at CFA-16 now, and
	// put that address into it: a leaf's return address is not lost (runtime/signal_{amd64,arm64}.go, sigctxt.pushCall; Go 1.14 to
	// 1.27).
	CFANoteInterrupted
)

// String is what a rule's equation ends with.
func (n CFANote) String() string {
	switch n {
	case CFANoteNone:
		return ""
	case CFANoteOtherStack:
		return " other-stack"
	case CFANoteInterrupted:
		return " interrupted"
	}
	return fmt.Sprintf(" CFANote(%d)", int16(n))
}

// RAKind says where the return address is.
type RAKind uint8

const (
	// RAAtCFA: the return address is stored at CFA + 8*RAOffset.
	RAAtCFA RAKind = iota
	// RAReg: it is still in the register with the DWARF number RAOffset (arm64 leaf functions: 30; glibc's amd64 vfork:
	// rdi). Only a frame whose registers are all known (the leaf, or one that a signal interrupted) can use others than
	// the link register.
	RAReg
)

// SaveKind says where the caller's value of a register is.
type SaveKind uint8

const (
	// SaveSame: the register still holds the caller's value.
	SaveSame SaveKind = iota
	// SaveAtCFA: stored at CFA + 8*offset.
	SaveAtCFA
	// SaveAtFP: stored at FP + 8*offset, FP being the frame's own (functions that realign the stack, where the CFA is
	// itself loaded from memory).
	SaveAtFP
	// SaveUndefined: lost.
	SaveUndefined
)

// Rule says how to step from a frame to its caller. It is comparable; equal rules are stored once.
// Saved-register offsets are in units of 8 bytes. Callee-saved registers other than the frame pointer and rbx are not
// tracked across calls: outside prologues, where the leaf's real registers are known, nothing bases a CFA on them.
type Rule struct {
	CFA CFAKind
	Reg uint8 // DWARF number, for CFAReg, CFAMem and CFAPLT

	RA RAKind
	FP SaveKind // rbp or x29
	BX SaveKind // rbx; SaveSame on arm64

	RAOffset int16 // units of 8 bytes, or a register number (RAReg)
	FPOffset int16
	BXOffset int16

	Offset  int32 // bytes
	Offset2 int16 // bytes, for CFAMem and CFAPLT; a CFANote for CFAReg
}

// String prints the rule as an equation, for golden files and errors.
func (r Rule) String() string {
	var s string
	switch r.CFA {
	case CFANone:
		return "none"
	case CFARoot:
		return "root"
	case CFASignal:
		return "signal"
	case CFAGoSwitch:
		return "goswitch"
	case CFAFramePointer:
		return "fp"
	case CFAReg:
		s = fmt.Sprintf("cfa=r%d%+d%s", r.Reg, r.Offset, CFANote(r.Offset2))
	case CFAMem:
		s = fmt.Sprintf("cfa=*(r%d%+d)%+d", r.Reg, r.Offset, r.Offset2)
	case CFAPLT:
		s = fmt.Sprintf("cfa=r%d%+d+8*(pc&15>=%d)", r.Reg, r.Offset, r.Offset2)
	default:
		return fmt.Sprintf("CFAKind(%d)", r.CFA)
	}
	if r.RA == RAReg {
		s += fmt.Sprintf(" ra=r%d", r.RAOffset)
	} else {
		s += fmt.Sprintf(" ra=c%+d", 8*int(r.RAOffset))
	}
	return s + saved(" fp", r.FP, r.FPOffset) + saved(" bx", r.BX, r.BXOffset)
}

func saved(name string, k SaveKind, off int16) string {
	switch k {
	case SaveAtCFA:
		return fmt.Sprintf("%s=c%+d", name, 8*int(off))
	case SaveAtFP:
		return fmt.Sprintf("%s=f%+d", name, 8*int(off))
	case SaveUndefined:
		return name + "=u"
	}
	return ""
}

// Row says that Rule holds from Start to the next row's Start.
type Row struct {
	Start FileAddr
	Rule  uint32 // index into Table.Rules
}

// Table is the unwind table of one executable: rows sorted by Start without duplicates, no two neighbours with the same
// rule. Addresses before the first row have no unwind information; the last row is CFANone.
type Table struct {
	Rows  []Row
	Rules []Rule
}

// Lookup returns the rule for the instruction at a; CFANone's zero Rule if there is none.
func (t *Table) Lookup(a FileAddr) Rule {
	lo, hi := 0, len(t.Rows)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if t.Rows[mid].Start <= a {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == 0 {
		return Rule{}
	}
	return t.Rules[t.Rows[lo-1].Rule]
}
