package dwarf

import (
	"fmt"
	"unsafe"
)

// format is what the sizes of values depend on: a unit's header says it.
type format struct {
	version  uint16
	addrSize uint8
	offSize  uint8
}

// refAddrSize: before DWARF 3, references into other units had the size of an address (DWARF 2, section 7.5.4).
func (f format) refAddrSize() uint8 {
	if f.version < 3 {
		return f.addrSize
	}
	return f.offSize
}

// fixedSize returns the bytes that a form takes; false if that depends on the value.
func (f format) fixedSize(form uint16) (uint32, bool) {
	switch form {
	case formFlagPresent, formImplicitConst:
		return 0, true
	case formData1, formRef1, formFlag, formStrx1, formAddrx1:
		return 1, true
	case formData2, formRef2, formStrx2, formAddrx2:
		return 2, true
	case formStrx3, formAddrx3:
		return 3, true
	case formData4, formRef4, formStrx4, formAddrx4, formRefSup4:
		return 4, true
	case formData8, formRef8, formRefSig8, formRefSup8:
		return 8, true
	case formData16:
		return 16, true
	case formAddr:
		return uint32(f.addrSize), true
	case formRefAddr:
		return uint32(f.refAddrSize()), true
	case formStrp, formLineStrp, formSecOffset, formStrpSup, formGNURefAlt, formGNUStrpAlt:
		return uint32(f.offSize), true
	}
	return 0, false
}

// skipKind is how to pass over values of variable size.
type skipKind uint8

const (
	skipFixed skipKind = iota
	skipLEB
	skipString
	skipBlock1
	skipBlock2
	skipBlock4
	skipBlock // the size is a LEB128
	skipIndirect
	skipSibling // the value is the DIE's DW_AT_sibling
)

func skipOf(form uint16) (skipKind, bool) {
	switch form {
	case formSdata, formUdata, formRefUdata, formStrx, formAddrx, formLoclistx, formRnglistx, formGNUAddrIndex, formGNUStrIndex:
		return skipLEB, true
	case formString:
		return skipString, true
	case formBlock1:
		return skipBlock1, true
	case formBlock2:
		return skipBlock2, true
	case formBlock4:
		return skipBlock4, true
	case formBlock, formExprloc:
		return skipBlock, true
	case formIndirect:
		return skipIndirect, true
	}
	return 0, false
}

// skipStep is a part of the way over a DIE: neighbouring values of fixed size are one.
type skipStep struct {
	kind skipKind
	form uint16 // of skipSibling
	n    uint32 // bytes, of skipFixed
}

// attribute is one of an abbreviation's.
type attribute struct {
	at, form uint16
	implicit int64 // the value, of formImplicitConst
}

// interest is what a walk through a unit does at a DIE.
type interest uint8

const (
	interestNone interest = iota
	interestCode          // a subprogram with addresses
	interestSubprogram
	interestScope // a namespace
	interestInlined
)

// abbrev is one abbreviation declaration (DWARF 5, section 7.5.3) and, worked out from it, the way over its DIEs.
type abbrev struct {
	tag      uint16
	children bool
	interest interest
	sibling  bool // it has DW_AT_sibling
	steps    []skipStep
	attrs    []attribute
}

// abbrevs are those of a unit.
type abbrevs struct {
	dense []abbrev           // by code - 1: all compilers number from 1 on
	rest  map[uint64]*abbrev // other codes
}

func (t *abbrevs) get(code uint64) *abbrev {
	if i := code - 1; i < uint64(len(t.dense)) {
		return &t.dense[i]
	}
	return t.rest[code]
}

const (
	maxAttributes = 1 << 12 // of one DIE; compilers give it some twenty
	maxAbbrevs    = 1 << 20 // of one unit; LTO makes some thousands
)

// readAbbrev reads the declaration at the cursor; its code is 0 at the end of the table.
func readAbbrev(c *cursor, f format) (code uint64, a abbrev) {
	code = c.uleb()
	if code == 0 || c.err != nil {
		return 0, a
	}
	tag := c.uleb()
	a.tag, a.children = uint16(min(tag, 0xffff)), c.u8() != 0
	for {
		at, form := c.uleb(), c.uleb()
		if c.err != nil || at == 0 && form == 0 {
			break
		}
		x := attribute{at: uint16(min(at, 0xffff)), form: uint16(min(form, 0xffff))}
		if form == formImplicitConst {
			x.implicit = c.sleb()
		}
		a.attrs = append(a.attrs, x)
		if len(a.attrs) > maxAttributes {
			c.fail("more than %d attributes", maxAttributes)
			break
		}
	}
	a.plan(c, f)
	return code, a
}

// plan works out how to pass over the abbreviation's DIEs.
func (a *abbrev) plan(c *cursor, f format) {
	code := false
	for _, x := range a.attrs {
		code = code || x.at == atLowPC || x.at == atRanges
		n, fixed := f.fixedSize(x.form)
		kind, variable := skipOf(x.form)
		last := len(a.steps) - 1
		switch {
		case !fixed && !variable:
			c.fail("unknown form %#x", x.form)
			return
		case x.at == atSibling && !a.sibling:
			a.sibling = true
			a.steps = append(a.steps, skipStep{kind: skipSibling, form: x.form})
		case variable:
			a.steps = append(a.steps, skipStep{kind: kind})
		case n == 0:
		case last >= 0 && a.steps[last].kind == skipFixed:
			a.steps[last].n += n
		default:
			a.steps = append(a.steps, skipStep{kind: skipFixed, n: n})
		}
	}
	switch {
	case a.tag == tagSubprogram && code:
		a.interest = interestCode
	case a.tag == tagSubprogram:
		a.interest = interestSubprogram
	case a.tag == tagInlinedSubroutine:
		a.interest = interestInlined
	case (a.tag == tagNamespace || a.tag == tagModule) && a.children:
		a.interest = interestScope
	}
}

func (a *abbrev) bytes() int {
	return int(unsafe.Sizeof(*a)) + cap(a.steps)*int(unsafe.Sizeof(skipStep{})) + cap(a.attrs)*int(unsafe.Sizeof(attribute{}))
}

// abbrevs returns the table that the unit uses.
func (d *Data) abbrevs(u *unit) (*abbrevs, error) {
	return cached(d, cacheKey{kindAbbrevs, u.obj.id, u.abbrevOff, u.format.key()}, func(a *account) (*abbrevs, error) {
		s, err := u.obj.section(secAbbrev)
		if err != nil {
			return nil, err
		}
		t := &abbrevs{}
		c := s.at(u.abbrevOff, u.abbrevEnd)
		for n := 0; ; n++ {
			code, x := readAbbrev(&c, u.format)
			if c.err != nil {
				return nil, fmt.Errorf("reading abbreviations: %w", c.err)
			}
			if code == 0 {
				return t, nil
			}
			if n == maxAbbrevs {
				return nil, fmt.Errorf("more than %d abbreviations: %w", maxAbbrevs, ErrFormat)
			}
			if err := d.step(1 + len(x.attrs)); err != nil {
				return nil, err
			}
			// The slice doubles as it grows.
			size := x.bytes() + int(unsafe.Sizeof(x))
			if err := a.take(size, "abbreviations"); err != nil {
				return nil, err
			}
			if code == uint64(len(t.dense))+1 {
				t.dense = append(t.dense, x)
				continue
			}
			if t.rest == nil {
				t.rest = map[uint64]*abbrev{}
			}
			if t.get(code) == nil { // the first one counts
				one := x // x itself stays off the heap
				t.rest[code] = &one
			}
		}
	})
}

// pass goes over a DIE's values. It stops at its DW_AT_sibling if that is asked for, and returns the offset in the unit
// that this names.
func (a *abbrev) pass(c *cursor, f format, wantSibling bool) (sibling uint64, found bool) {
	for i := range a.steps {
		s := &a.steps[i]
		switch s.kind {
		case skipFixed:
			c.skip(uint64(s.n))
		case skipLEB:
			c.skipLEB()
		case skipString:
			c.skipString()
		case skipBlock1:
			c.skip(uint64(c.u8()))
		case skipBlock2:
			c.skip(uint64(c.u16()))
		case skipBlock4:
			c.skip(uint64(c.u32()))
		case skipBlock:
			c.skip(c.uleb())
		case skipIndirect:
			f.skipForm(c, formIndirect)
		case skipSibling:
			if wantSibling {
				v := f.read(c, s.form, 0)
				return v.u, v.unitRef()
			}
			f.skipForm(c, s.form)
		}
	}
	return 0, false
}

// key is the format as part of a cache's key.
func (f format) key() uint64 {
	return uint64(f.version)<<16 | uint64(f.addrSize)<<8 | uint64(f.offSize)
}
