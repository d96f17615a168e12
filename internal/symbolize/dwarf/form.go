package dwarf

import (
	"fmt"
	"math"
)

// value is an attribute's value as it stands in the file: a number, an offset or an index, or where a string begins.
// Without the attribute the form is 0.
type value struct {
	form uint16
	u    uint64
}

// there tells whether the DIE has the attribute.
func (v value) there() bool { return v.form != 0 }

// unitRef tells whether the value is an offset from the start of its unit.
func (v value) unitRef() bool {
	switch v.form {
	case formRef1, formRef2, formRef4, formRef8, formRefUdata:
		return true
	}
	return false
}

// isAddress tells whether the value is an address or stands for one in .debug_addr.
func (v value) isAddress() bool {
	switch v.form {
	case formAddr, formAddrx, formAddrx1, formAddrx2, formAddrx3, formAddrx4, formGNUAddrIndex:
		return true
	}
	return false
}

// maxIndirect is how often the form of a value may be told by the value.
const maxIndirect = 4

// read reads a value of a form (DWARF 5, section 7.5.6). Blocks are passed over.
func (f format) read(c *cursor, form uint16, implicit int64) value {
	for range maxIndirect {
		if form != formIndirect {
			break
		}
		form = uint16(min(c.uleb(), math.MaxUint16))
	}
	v := value{form: form}
	switch form {
	case formFlagPresent:
		v.u = 1
	case formImplicitConst:
		v.u = uint64(implicit)
	case formSdata:
		v.u = uint64(c.sleb())
	case formString:
		v.u = c.pos()
		c.skipString()
	case formData16:
		c.skip(16)
	case formStrx3, formAddrx3:
		v.u = uint64(c.u24())
	case formBlock, formBlock1, formBlock2, formBlock4, formExprloc:
		f.skipForm(c, form)
	default:
		if n, fixed := f.fixedSize(form); fixed {
			v.u = c.uint(uint8(n))
		} else if kind, ok := skipOf(form); ok && kind == skipLEB {
			v.u = c.uleb()
		} else {
			c.fail("unknown form %#x", form)
		}
	}
	return v
}

// skipForm goes over a value.
func (f format) skipForm(c *cursor, form uint16) {
	for range maxIndirect {
		if form != formIndirect {
			break
		}
		form = uint16(min(c.uleb(), math.MaxUint16))
	}
	if n, fixed := f.fixedSize(form); fixed {
		c.skip(uint64(n))
		return
	}
	switch kind, ok := skipOf(form); {
	case !ok || kind == skipIndirect:
		c.fail("unknown form %#x", form)
	case kind == skipLEB:
		c.skipLEB()
	case kind == skipString:
		c.skipString()
	case kind == skipBlock1:
		c.skip(uint64(c.u8()))
	case kind == skipBlock2:
		c.skip(uint64(c.u16()))
	case kind == skipBlock4:
		c.skip(uint64(c.u32()))
	case kind == skipBlock:
		c.skip(c.uleb())
	}
}

// stringAt reads a string of a section; empty if it cannot be read.
func stringAt(o *object, id sectionID, off uint64) (string, error) {
	s, err := o.section(id)
	if err != nil {
		return "", err
	}
	c := s.at(off, math.MaxUint64)
	text := c.str()
	return text, c.err
}

// str returns the string that a value of the unit stands for.
func (u *unit) str(v value) (string, error) {
	switch v.form {
	case formString:
		return stringAt(u.obj, secInfo, v.u)
	case formStrp:
		return stringAt(u.obj, secStr, v.u)
	case formLineStrp:
		return stringAt(u.obj, secLineStr, v.u)
	case formStrpSup, formGNUStrpAlt:
		alt := u.obj.alt
		if alt == nil {
			return "", fmt.Errorf("string in the supplementary file: %w", ErrNoSupplement)
		}
		return stringAt(alt, secStr, v.u)
	case formStrx, formStrx1, formStrx2, formStrx3, formStrx4, formGNUStrIndex:
		s, err := u.obj.section(secStrOffsets)
		if err != nil {
			return "", err
		}
		off, err := s.entry(u.strOffsetsBase, v.u, u.offSize)
		if err != nil {
			return "", err
		}
		return stringAt(u.obj, secStr, off)
	}
	return "", nil
}

// entry reads number n of an array of numbers at base.
func (s *section) entry(base, n uint64, size uint8) (uint64, error) {
	if n > math.MaxUint32 {
		return 0, fmt.Errorf("index %d: %w", n, ErrFormat)
	}
	off := base + n*uint64(size)
	if off < base {
		return 0, fmt.Errorf("index %d behind %#x: %w", n, base, ErrFormat)
	}
	c := s.at(off, math.MaxUint64)
	v := c.uint(size)
	return v, c.err
}

// addrIndexed reads an address of .debug_addr, which is in the file of the skeleton unit (DWARF 5, section 7.27).
func (u *unit) addrIndexed(n uint64) (uint64, error) {
	m := u.main()
	s, err := m.obj.section(secAddr)
	if err != nil {
		return 0, err
	}
	return s.entry(m.addrBase, n, u.addrSize)
}

// addr returns the address that a value stands for.
func (u *unit) addr(v value) (uint64, error) {
	if v.form == formAddr {
		return v.u, nil
	}
	return u.addrIndexed(v.u)
}

// place is where a DIE is.
type place struct {
	obj  *object
	unit *unit  // nil if it may be another than that of the DIE that refers to it
	off  uint64 // in .debug_info
}

// ref returns the DIE that a value refers to; false if that is none, or in a type unit.
func (u *unit) ref(v value) (place, bool) {
	switch v.form {
	case formRef1, formRef2, formRef4, formRef8, formRefUdata:
		if v.u >= u.end-u.off {
			return place{}, false
		}
		return place{u.obj, u, u.off + v.u}, v.u >= u.dies-u.off
	case formRefAddr:
		if v.u >= u.dies && v.u < u.end {
			return place{u.obj, u, v.u}, true
		}
		return place{u.obj, nil, v.u}, true
	case formRefSup4, formRefSup8, formGNURefAlt:
		return place{u.obj.alt, nil, v.u}, u.obj.alt != nil
	}
	return place{}, false
}
