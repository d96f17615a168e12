package ehframe

import "github.com/hostprofiles/hostprofiles/internal/unwind"

// Call frame instructions: DWARF 5, 7.24, the LSB's and GNU's additions, and "DWARF for the Arm 64-bit Architecture"
// 2023Q3, 4.4.
const (
	cfaNop                  = 0x00
	cfaSetLoc               = 0x01
	cfaAdvanceLoc1          = 0x02
	cfaAdvanceLoc2          = 0x03
	cfaAdvanceLoc4          = 0x04
	cfaOffsetExtended       = 0x05
	cfaRestoreExtended      = 0x06
	cfaUndefined            = 0x07
	cfaSameValue            = 0x08
	cfaRegister             = 0x09
	cfaRememberState        = 0x0a
	cfaRestoreState         = 0x0b
	cfaDefCFA               = 0x0c
	cfaDefCFARegister       = 0x0d
	cfaDefCFAOffset         = 0x0e
	cfaDefCFAExpression     = 0x0f
	cfaExpression           = 0x10
	cfaOffsetExtendedSF     = 0x11
	cfaDefCFASF             = 0x12
	cfaDefCFAOffsetSF       = 0x13
	cfaValOffset            = 0x14
	cfaValOffsetSF          = 0x15
	cfaValExpression        = 0x16
	cfaNegateRAStateWithPC  = 0x2c
	cfaNegateRAState        = 0x2d // also DW_CFA_GNU_window_save, on other machines
	cfaGNUArgsSize          = 0x2e
	cfaGNUNegOffsetExtended = 0x2f

	cfaAdvanceLoc = 0x40 // low six bits: delta
	cfaOffset     = 0x80 // low six bits: register
	cfaRestore    = 0xc0

	maxRemembered = 256
)

// regKind is how a register's value in the caller is found.
type regKind uint8

const (
	regSame regKind = iota // also: nothing was said
	regUndefined
	regOffset    // at CFA + val
	regValOffset // is CFA + val
	regRegister  // in register val
	regExpr      // at the address that the expression at val gives
	regValExpr   // is what it gives
)

type regRule struct {
	val  int64
	kind regKind
}

// exprAt packs where an expression lies in the section into a rule's value.
func exprAt(off, n int) int64 { return int64(off)<<32 | int64(n) }

// state is a row of the call frame table, for the registers that rules can speak of.
type state struct {
	cfaReg  uint64
	cfaOff  int64
	cfaExpr int64 // exprAt, if isExpr
	isExpr  bool
	hasCFA  bool

	raColumn, fpColumn, bxColumn, spColumn uint64

	ra, fp, bx, sp, other regRule // other: where the rules of all other registers go
}

const noColumn = ^uint64(0)

func newState(arch unwind.Arch, raColumn uint64) state {
	s := state{raColumn: raColumn, fpColumn: unwind.AMD64RBP, bxColumn: unwind.AMD64RBX, spColumn: unwind.AMD64RSP}
	if arch == unwind.ArchARM64 {
		s.fpColumn, s.bxColumn, s.spColumn = unwind.ARM64FP, noColumn, unwind.ARM64SP
	}
	return s
}

// reg is the rule of a register.
func (s *state) reg(n uint64) *regRule {
	switch n {
	case s.raColumn:
		return &s.ra
	case s.fpColumn:
		return &s.fp
	case s.bxColumn:
		return &s.bx
	case s.spColumn:
		return &s.sp
	}
	return &s.other
}

// stopKind says why a machine's instructions ended.
type stopKind uint8

const (
	stopEnd       stopKind = iota
	stopMalformed          // the rest makes no sense
	stopUnknown            // an instruction that this package does not know
)

// machine runs the instructions of one CIE or FDE.
type machine struct {
	sec   *section
	cie   *cie
	c     cursor
	state state
	stack []state
	stop  stopKind
	inCIE bool

	loc, end uint64
	emit     func(loc uint64, s *state) bool // false: no more
	failed   bool
	dirty    bool // the state has changed since the last row
}

// run executes until the instructions end; rows go to emit whenever the location advances past them.
func (m *machine) run() {
	m.dirty = true
	for m.c.pos < len(m.c.b) && m.stop == stopEnd && !m.failed {
		op := m.c.u8()
		switch op & 0xc0 {
		case cfaAdvanceLoc:
			m.advance(uint64(op & 0x3f))
		case cfaOffset:
			m.set(uint64(op&0x3f), regRule{int64(m.c.uleb()) * m.cie.dataAlign, regOffset})
		case cfaRestore:
			m.restore(uint64(op & 0x3f))
		default:
			m.extended(op)
		}
		if m.c.bad {
			m.stop = stopMalformed
		}
	}
	if !m.inCIE && m.stop == stopEnd {
		m.row()
	}
}

// row emits the current row.
func (m *machine) row() {
	if m.dirty && m.loc < m.end && !m.emit(m.loc, &m.state) {
		m.failed = true
	}
	m.dirty = false
}

func (m *machine) advance(delta uint64) {
	if m.inCIE {
		m.stop = stopMalformed
		return
	}
	if delta *= m.cie.codeAlign; delta == 0 {
		return
	}
	m.row()
	if delta > m.end-min(m.loc, m.end) {
		m.loc = m.end
		return
	}
	m.loc += delta
}

func (m *machine) set(reg uint64, r regRule) {
	*m.state.reg(reg) = r
	m.dirty = true
}

func (m *machine) restore(reg uint64) {
	if m.inCIE {
		m.stop = stopMalformed
		return
	}
	m.set(reg, *m.cie.initial.reg(reg))
}

func (m *machine) defCFA(reg uint64, off int64) {
	m.state.cfaReg, m.state.cfaOff, m.state.isExpr, m.state.hasCFA = reg, off, false, true
	m.dirty = true
}

// block reads an expression and returns where it is.
func (m *machine) block() int64 {
	n := m.c.uleb()
	at := m.c.pos
	return exprAt(at, len(m.c.take(n)))
}

// extended executes the instructions whose upper two bits are zero.
func (m *machine) extended(op uint8) {
	c, data := &m.c, m.cie.dataAlign
	switch op {
	case cfaNop, cfaNegateRAState, cfaNegateRAStateWithPC:
		// Signed return addresses are stripped when they are read.
	case cfaSetLoc:
		m.setLoc(c.pointer(m.cie.enc, m.sec.addr, 0))
	case cfaAdvanceLoc1:
		m.advance(uint64(c.u8()))
	case cfaAdvanceLoc2:
		m.advance(uint64(c.u16()))
	case cfaAdvanceLoc4:
		m.advance(uint64(c.u32()))
	case cfaOffsetExtended:
		m.set(c.uleb(), regRule{int64(c.uleb()) * data, regOffset})
	case cfaOffsetExtendedSF:
		m.set(c.uleb(), regRule{c.sleb() * data, regOffset})
	case cfaGNUNegOffsetExtended:
		m.set(c.uleb(), regRule{-int64(c.uleb()) * data, regOffset})
	case cfaValOffset:
		m.set(c.uleb(), regRule{int64(c.uleb()) * data, regValOffset})
	case cfaValOffsetSF:
		m.set(c.uleb(), regRule{c.sleb() * data, regValOffset})
	case cfaRestoreExtended:
		m.restore(c.uleb())
	case cfaUndefined:
		m.set(c.uleb(), regRule{kind: regUndefined})
	case cfaSameValue:
		m.set(c.uleb(), regRule{kind: regSame})
	case cfaRegister:
		m.set(c.uleb(), regRule{int64(c.uleb()), regRegister})
	case cfaExpression:
		m.set(c.uleb(), regRule{m.block(), regExpr})
	case cfaValExpression:
		m.set(c.uleb(), regRule{m.block(), regValExpr})
	case cfaGNUArgsSize:
		c.uleb() // the CFA takes it into account already
	default:
		m.cfaOp(op)
	}
}

// cfaOp executes the instructions that define the CFA or move whole rows.
func (m *machine) cfaOp(op uint8) {
	c, data := &m.c, m.cie.dataAlign
	switch op {
	case cfaDefCFA:
		m.defCFA(c.uleb(), int64(c.uleb()))
	case cfaDefCFASF:
		m.defCFA(c.uleb(), c.sleb()*data)
	case cfaDefCFARegister:
		m.defCFA(c.uleb(), m.state.cfaOff)
	case cfaDefCFAOffset:
		m.defCFA(m.state.cfaReg, int64(c.uleb()))
	case cfaDefCFAOffsetSF:
		m.defCFA(m.state.cfaReg, c.sleb()*data)
	case cfaDefCFAExpression:
		m.state.cfaExpr, m.state.isExpr, m.state.hasCFA, m.dirty = m.block(), true, true, true
	case cfaRememberState:
		if len(m.stack) >= maxRemembered {
			m.stop = stopMalformed
			return
		}
		m.stack = append(m.stack, m.state)
	case cfaRestoreState:
		n := len(m.stack)
		if n == 0 {
			m.stop = stopMalformed
			return
		}
		m.state, m.stack, m.dirty = m.stack[n-1], m.stack[:n-1], true
	default:
		m.stop = stopUnknown
	}
}

func (m *machine) setLoc(loc uint64) {
	if m.inCIE || loc < m.loc {
		m.stop = stopMalformed
		return
	}
	if loc > m.loc {
		m.row()
		m.loc = min(loc, m.end)
	}
}
