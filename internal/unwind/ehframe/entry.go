package ehframe

import (
	"bytes"
	"unsafe"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

const (
	maxCIEs = 1 << 18
	maxFDEs = 4 << 20

	// cieBytes and fdeBytes are what an entry takes: a CIE's place in the index included.
	cieBytes = uint64(unsafe.Sizeof(cie{})) + 48
	fdeBytes = uint64(unsafe.Sizeof(fde{}))
)

// section is .eh_frame or .debug_frame.
type section struct {
	data  []byte
	addr  uint64 // ELF virtual address of data[0]; 0 for .debug_frame
	debug bool
	// terminated: the section's end is not known and a zero length ends it. Otherwise zero lengths are skipped: linkers
	// leave them between input files, and entries follow.
	terminated bool
	arch       unwind.Arch
}

// entry is a CIE or FDE as it lies in the section.
type entry struct {
	off  int // of the length field
	id   int // of the CIE id or pointer
	body int // of what follows it
	end  int
	cie  bool
	ref  int // FDE: offset of its CIE; negative if it is nowhere
}

// next reads the entry at off: ok is false at the section's end, bad if that is because the length is senseless.
//
//	.eh_frame: LSB Core 5.0, 10.6.1; .debug_frame: DWARF 5, 6.4.1
func (s *section) next(off int) (e entry, ok, bad bool) {
	c := cursor{b: s.data, pos: off}
	var length uint64
	var wide bool
	for {
		e.off = c.pos
		if c.left() < 4 {
			return e, false, false
		}
		length = uint64(c.u32())
		if wide = length == 0xffffffff; wide {
			length = c.u64()
		}
		if length != 0 || c.bad {
			break
		}
		if s.terminated {
			return e, false, false
		}
	}
	if c.bad || length > uint64(c.left()) || length < 4 {
		return e, false, true
	}
	e.id, e.end = c.pos, c.pos+int(length)
	c.b = s.data[:e.end]
	if s.debug {
		id, none := uint64(c.u32()), uint64(0xffffffff)
		if wide {
			c.pos = e.id
			id, none = c.u64(), ^uint64(0)
		}
		e.cie, e.ref = id == none, -1
		if id < uint64(len(s.data)) {
			e.ref = int(id)
		}
	} else {
		id := c.u32()
		e.cie, e.ref = id == 0, e.id-int(int32(id))
	}
	e.body = c.pos
	return e, !c.bad, c.bad
}

// cie is a parsed Common Information Entry.
type cie struct {
	codeAlign uint64
	dataAlign int64
	raColumn  uint64
	enc       uint8 // of the FDEs' addresses
	augmented bool  // FDEs have augmentation data
	signal    bool
	initial   state // after its instructions
}

// parseCIE reads a CIE and runs its instructions; ok is false if it is malformed or of a kind nobody makes.
func (s *section) parseCIE(e entry) (_ *cie, ok bool) {
	c := cursor{b: s.data[:e.end], pos: e.body}
	version := c.u8()
	switch {
	case version == 1 || version == 3:
	case version == 4 && s.debug:
	default:
		return nil, false
	}
	aug := c.cstr()
	p := &cie{enc: peAbsPtr}
	if bytes.HasPrefix(aug, []byte("eh")) { // gcc 2: a pointer to the exception table
		c.u64()
		aug = aug[2:]
	}
	if version == 4 {
		if addressSize, segmentSize := c.u8(), c.u8(); addressSize != 8 || segmentSize != 0 {
			return nil, false
		}
	}
	p.codeAlign, p.dataAlign = c.uleb(), c.sleb()
	if version == 1 {
		p.raColumn = uint64(c.u8())
	} else {
		p.raColumn = c.uleb()
	}
	if !s.augmentation(p, &c, aug) || c.bad {
		return nil, false
	}
	m := machine{sec: s, cie: p, c: c, state: newState(s.arch, p.raColumn), inCIE: true}
	m.run()
	p.initial = m.state
	return p, m.stop != stopMalformed && !m.failed
}

// augmentation reads the augmentation data: R is the encoding of addresses, P a personality routine, L the encoding of
// the language data, S a signal frame, B (arm64) signing with the B key, G (arm64) a tagged stack.
func (s *section) augmentation(p *cie, c *cursor, aug []byte) (ok bool) {
	var end int
	for i, a := range aug {
		switch {
		case a == 'z' && i == 0:
			n := c.uleb()
			if c.bad || n > uint64(c.left()) {
				return false
			}
			p.augmented, end = true, c.pos+int(n)
		case a == 'R':
			p.enc = c.u8()
		case a == 'P':
			enc := c.u8()
			if enc&peApply == 0x50 { // aligned: no 64-bit tool makes it
				return false
			}
			if enc != peOmit {
				c.value(enc)
			}
		case a == 'L':
			c.u8()
		case a == 'S':
			p.signal = true
		case a == 'B' || a == 'G':
		default:
			return false
		}
	}
	if p.augmented {
		if c.pos > end {
			return false
		}
		c.pos = end
	}
	return !c.bad
}

// fde is a Frame Description Entry, small because large programs have hundreds of thousands.
type fde struct {
	start, end uint64
	ins, insN  uint32 // its instructions in the section
	cie        uint32
	off        uint32
}

// parseFDE reads an FDE's header; ok is false if it is malformed. The addresses may be any.
func (s *section) parseFDE(e entry, p *cie) (f fde, ok bool) {
	c := cursor{b: s.data[:e.end], pos: e.body}
	f.start = c.pointer(p.enc, s.addr, 0)
	f.end = f.start + c.value(p.enc)
	if p.augmented {
		c.take(c.uleb())
	}
	if c.bad || f.end < f.start {
		return f, false
	}
	f.ins, f.insN, f.off = uint32(c.pos), uint32(e.end-c.pos), uint32(e.off)
	return f, true
}
