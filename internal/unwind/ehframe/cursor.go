package ehframe

import "encoding/binary"

// cursor reads values one after the other. A read beyond the end yields zero and sets bad, so that callers check once.
type cursor struct {
	b   []byte
	pos int
	bad bool
}

func (c *cursor) left() int { return len(c.b) - c.pos }

// take returns the next n bytes without copying.
func (c *cursor) take(n uint64) []byte {
	if c.bad || n > uint64(c.left()) {
		c.bad = true
		return nil
	}
	b := c.b[c.pos : c.pos+int(n)]
	c.pos += int(n)
	return b
}

func (c *cursor) u8() uint8 {
	if c.bad || c.pos >= len(c.b) {
		c.bad = true
		return 0
	}
	c.pos++
	return c.b[c.pos-1]
}

func (c *cursor) u16() uint16 {
	if b := c.take(2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

func (c *cursor) u32() uint32 {
	if b := c.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (c *cursor) u64() uint64 {
	if b := c.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// uleb reads an unsigned LEB128; bits above the 64th are dropped.
func (c *cursor) uleb() uint64 {
	var v uint64
	for shift := uint(0); ; shift += 7 {
		b := c.u8()
		if shift < 64 {
			v |= uint64(b&0x7f) << shift
		}
		if b&0x80 == 0 || c.bad {
			return v
		}
	}
}

// sleb reads a signed LEB128.
func (c *cursor) sleb() int64 {
	var v uint64
	for shift := uint(0); ; {
		b := c.u8()
		if shift < 64 {
			v |= uint64(b&0x7f) << shift
		}
		shift += 7
		if b&0x80 == 0 || c.bad {
			if shift < 64 && b&0x40 != 0 {
				v |= ^uint64(0) << shift
			}
			return int64(v)
		}
	}
}

// cstr reads up to a NUL byte.
func (c *cursor) cstr() []byte {
	for i := c.pos; i < len(c.b) && !c.bad; i++ {
		if c.b[i] == 0 {
			s := c.b[c.pos:i]
			c.pos = i + 1
			return s
		}
	}
	c.bad = true
	return nil
}

// Pointer encodings: LSB Core 5.0, 10.5.1 "DWARF Exception Header Encoding".
const (
	peAbsPtr   = 0x00
	peULEB     = 0x01
	peUData2   = 0x02
	peUData4   = 0x03
	peUData8   = 0x04
	peSLEB     = 0x09
	peSData2   = 0x0a
	peSData4   = 0x0b
	peSData8   = 0x0c
	peFormat   = 0x0f
	pePCRel    = 0x10
	peDataRel  = 0x30
	peApply    = 0x70
	peIndirect = 0x80
	peOmit     = 0xff
)

// pointer reads an encoded pointer; base is the address of c.b[0] and data what DW_EH_PE_datarel is relative to.
// Encodings that need the running process (indirect) or that no 64-bit tool makes (text-, function-relative, aligned)
// are bad.
func (c *cursor) pointer(enc uint8, base, data uint64) uint64 {
	at := base + uint64(c.pos)
	v := c.value(enc)
	switch enc & peApply {
	case peAbsPtr:
	case pePCRel:
		v += at
	case peDataRel:
		v += data
	default:
		c.bad = true
	}
	if enc&peIndirect != 0 {
		c.bad = true
	}
	return v
}

// value reads a pointer's bytes by the format part of its encoding.
func (c *cursor) value(enc uint8) uint64 {
	switch enc & peFormat {
	case peAbsPtr, peUData8, peSData8:
		return c.u64()
	case peULEB:
		return c.uleb()
	case peUData2:
		return uint64(c.u16())
	case peUData4:
		return uint64(c.u32())
	case peSLEB:
		return uint64(c.sleb())
	case peSData2:
		return uint64(int16(c.u16()))
	case peSData4:
		return uint64(int32(c.u32()))
	}
	c.bad = true
	return 0
}
