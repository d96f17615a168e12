package ehframe

import (
	"math"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// Reason says why rows could not be expressed as a Rule.
type Reason uint8

// The reasons.
const (
	// ReasonNone: the row is expressed.
	ReasonNone Reason = iota
	// ReasonCFAExpression: the CFA is an expression of no known kind.
	ReasonCFAExpression
	// ReasonCFA: the CFA is not defined, or by a register or an offset out of range.
	ReasonCFA
	// ReasonReturnAddress: the return address is nowhere that RAKind can say.
	ReasonReturnAddress
	// ReasonStackPointer: the caller's stack pointer is not the CFA (longjmp).
	ReasonStackPointer
	// ReasonInstruction: an unknown or malformed instruction; the rest of its FDE is lost.
	ReasonInstruction
	// ReasonRules: the table has too many distinct rules.
	ReasonRules

	// Reasons is how many there are.
	Reasons
)

// String names the reason, as in metrics.
func (r Reason) String() string {
	if r >= Reasons {
		return "unknown"
	}
	return [Reasons]string{"none", "cfa_expression", "cfa", "return_address", "stack_pointer", "instruction", "rules"}[r]
}

// rule turns a row into a Rule. lost says that a saved register's value could not be expressed and became undefined.
func (s *section) rule(st *state, signal bool) (r unwind.Rule, lost bool, reason Reason) {
	if st.ra.kind == regUndefined {
		return unwind.Rule{CFA: unwind.CFARoot}, false, ReasonNone
	}
	// amd64's 'S' alone may just mean that the pc is exact. glibc's __restore_rt finds both its CFA and the pc by expressions; OCaml 5's
	// runtime only its CFA, where it changes stacks.
	if signal && (s.arch == unwind.ArchARM64 || st.isExpr && st.ra.kind == regExpr) {
		return unwind.Rule{CFA: unwind.CFASignal}, false, ReasonNone
	}
	if reason = s.cfa(&r, st); reason != ReasonNone {
		return unwind.Rule{}, false, reason
	}
	if st.sp.kind != regSame && (st.sp.kind != regValOffset || st.sp.val != 0) {
		return unwind.Rule{}, false, ReasonStackPointer
	}
	if !s.returnAddress(&r, st) {
		return unwind.Rule{}, false, ReasonReturnAddress
	}
	var lostFP, lostBX bool
	r.FP, r.FPOffset, lostFP = s.saved(st.fp, st.fpColumn)
	r.BX, r.BXOffset, lostBX = s.saved(st.bx, st.fpColumn)
	return r, lostFP || lostBX, ReasonNone
}

func (s *section) cfa(r *unwind.Rule, st *state) Reason {
	v := exprValue{kind: exprReg, reg: st.cfaReg, off: st.cfaOff}
	if !st.hasCFA {
		return ReasonCFA
	}
	if st.isExpr {
		var ok bool
		if v, ok = classify(s.expr(st.cfaExpr)); !ok {
			return ReasonCFAExpression
		}
	}
	switch v.kind {
	case exprReg:
		r.CFA = unwind.CFAReg
	case exprMem:
		r.CFA = unwind.CFAMem
	case exprPLT:
		r.CFA = unwind.CFAPLT
		if s.arch != unwind.ArchAMD64 {
			return ReasonCFAExpression
		}
	default:
		return ReasonCFAExpression
	}
	if v.reg >= s.registers() || v.off != int64(int32(v.off)) || v.off2 != int64(int16(v.off2)) {
		return ReasonCFA
	}
	r.Reg, r.Offset, r.Offset2 = uint8(v.reg), int32(v.off), int16(v.off2)
	return ReasonNone
}

// registers is how many general registers there are, by DWARF number from 0.
func (s *section) registers() uint64 {
	if s.arch == unwind.ArchARM64 {
		return unwind.ARM64SP + 1
	}
	return unwind.AMD64R15 + 1
}

// returnAddress says where the return address is. On arm64 it stays in its register until something is said; amd64 has
// no register for it.
func (s *section) returnAddress(r *unwind.Rule, st *state) (ok bool) {
	reg := st.raColumn
	switch st.ra.kind {
	case regOffset:
		var fits bool
		r.RA = unwind.RAAtCFA
		r.RAOffset, fits = words(st.ra.val)
		return fits
	case regRegister:
		reg = uint64(st.ra.val)
	case regSame:
	default:
		return false
	}
	r.RA, r.RAOffset = unwind.RAReg, int16(reg)
	return reg < s.registers()
}

// saved says where the caller's value of a register is; lost if the answer cannot be expressed.
func (s *section) saved(r regRule, fp uint64) (k unwind.SaveKind, off int16, lost bool) {
	switch r.kind {
	case regSame:
		return unwind.SaveSame, 0, false
	case regUndefined:
		return unwind.SaveUndefined, 0, false
	case regOffset:
		if off, ok := words(r.val); ok {
			return unwind.SaveAtCFA, off, false
		}
	case regExpr:
		if v, ok := classify(s.expr(r.val)); ok && v.kind == exprReg && v.reg == fp {
			if off, ok := words(v.off); ok {
				return unwind.SaveAtFP, off, false
			}
		}
	}
	return unwind.SaveUndefined, 0, true
}

// words converts an offset in bytes to units of eight.
func words(n int64) (int16, bool) {
	if n%8 != 0 || n/8 < math.MinInt16 || n/8 > math.MaxInt16 {
		return 0, false
	}
	return int16(n / 8), true
}

// expr is the expression that exprAt packed.
func (s *section) expr(at int64) []byte {
	off, n := int(at>>32), int(uint32(at))
	return s.data[off : off+n]
}
