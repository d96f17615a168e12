package ehframe

import "bytes"

// DWARF expression operations: DWARF 5, 7.7.1.
const (
	opDeref      = 0x06
	opConst1u    = 0x08
	opConst1s    = 0x09
	opConst2u    = 0x0a
	opConst2s    = 0x0b
	opConst4u    = 0x0c
	opConst4s    = 0x0d
	opConst8u    = 0x0e
	opConst8s    = 0x0f
	opConstU     = 0x10
	opConstS     = 0x11
	opAnd        = 0x1a
	opMinus      = 0x1c
	opPlus       = 0x22
	opPlusUConst = 0x23
	opShl        = 0x24
	opGE         = 0x2a
	opLit0       = 0x30
	opLit31      = 0x4f
	opBReg0      = 0x70
	opBReg31     = 0x8f
	opBRegX      = 0x92
	opNop        = 0x96
)

// exprValue is what an expression can be without being evaluated: a constant, register + off, or the memory at that,
// plus off2.
type exprValue struct {
	kind exprKind
	reg  uint64
	off  int64
	off2 int64
}

type exprKind uint8

const (
	exprConst exprKind = iota // off
	exprReg                   // reg + off
	exprMem                   // *(reg + off) + off2
	exprPLT                   // reg + off + 8*((pc & 15) >= off2)
)

// maxExpr bounds an expression, which may be looked at again for every row; real ones have up to 20 bytes.
const maxExpr = 64

// classify reduces an expression; ok is false if it is of none of the kinds.
func classify(b []byte) (_ exprValue, ok bool) {
	if len(b) > maxExpr {
		return exprValue{}, false
	}
	if v, ok := classifyPLT(b); ok {
		return v, true
	}
	var stack [4]exprValue
	n := 0
	c := cursor{b: b}
	push := func(v exprValue) bool {
		if n == len(stack) {
			return false
		}
		stack[n] = v
		n++
		return true
	}
	for c.left() > 0 {
		op := c.u8()
		ok := true
		if v, isPush := pushed(op, &c); isPush {
			ok = push(v)
		} else {
			switch op {
			case opNop:
			case opDeref:
				ok = n > 0 && deref(&stack[n-1])
			case opPlusUConst:
				ok = n > 0 && add(&stack[n-1], int64(c.uleb()))
			case opPlus, opMinus:
				ok = n > 1 && combine(&stack[n-2], stack[n-1], op == opMinus)
				n--
			default:
				ok = false
			}
		}
		if !ok || c.bad {
			return exprValue{}, false
		}
	}
	if n == 0 {
		return exprValue{}, false
	}
	return stack[n-1], true
}

// pushed decodes the operations that push a constant or a register's value.
func pushed(op uint8, c *cursor) (v exprValue, ok bool) {
	switch {
	case op >= opLit0 && op <= opLit31:
		return exprValue{off: int64(op - opLit0)}, true
	case op >= opBReg0 && op <= opBReg31:
		return exprValue{kind: exprReg, reg: uint64(op - opBReg0), off: c.sleb()}, true
	}
	switch op {
	case opBRegX:
		reg := c.uleb()
		return exprValue{kind: exprReg, reg: reg, off: c.sleb()}, true
	case opConst1u:
		v.off = int64(c.u8())
	case opConst1s:
		v.off = int64(int8(c.u8()))
	case opConst2u:
		v.off = int64(c.u16())
	case opConst2s:
		v.off = int64(int16(c.u16()))
	case opConst4u:
		v.off = int64(c.u32())
	case opConst4s:
		v.off = int64(int32(c.u32()))
	case opConst8u, opConst8s:
		v.off = int64(c.u64())
	case opConstU:
		v.off = int64(c.uleb())
	case opConstS:
		v.off = c.sleb()
	default:
		return v, false
	}
	return v, true
}

func deref(v *exprValue) bool {
	if v.kind != exprReg {
		return false
	}
	v.kind = exprMem
	return true
}

func add(v *exprValue, n int64) bool {
	if v.kind == exprMem {
		v.off2 += n
	} else {
		v.off += n
	}
	return true
}

// combine is a +- b into a, if one of them is a constant.
func combine(a *exprValue, b exprValue, minus bool) bool {
	switch {
	case b.kind == exprConst && minus:
		return add(a, -b.off)
	case b.kind == exprConst:
		return add(a, b.off)
	case a.kind == exprConst && !minus:
		n := a.off
		*a = b
		return add(a, n)
	}
	return false
}

// classifyPLT recognizes what GNU ld writes for .plt (binutils 2.44, bfd/elfxx-x86.c, elf_x86_64_eh_frame_plt):
// rsp + off + ((((rip + 0) & 15) >= n) << 3).
func classifyPLT(b []byte) (_ exprValue, ok bool) {
	c := cursor{b: b}
	if c.u8() != opBReg0+7 {
		return exprValue{}, false
	}
	off := c.sleb()
	if !bytes.Equal(c.take(4), []byte{opBReg0 + 16, 0, opLit0 + 15, opAnd}) {
		return exprValue{}, false
	}
	n := c.u8()
	if n < opLit0 || n > opLit0+15 || !bytes.Equal(c.take(4), []byte{opGE, opLit0 + 3, opShl, opPlus}) ||
		c.left() != 0 || c.bad {
		return exprValue{}, false
	}
	return exprValue{kind: exprPLT, reg: 7, off: off, off2: int64(n - opLit0)}, true
}
