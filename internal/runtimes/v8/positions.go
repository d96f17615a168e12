package v8

// positionEncoding is how the steps of a table of positions are encoded: src/codegen/source-position-table.cc. All are little-endian
// numbers of 7 bits a byte, whose highest bit says that there are more; the step of the position has its sign in bit 0.
type positionEncoding uint8

const (
	// signedSteps, up to 13.6: the step of the code offset is negative, minus one, for an expression.
	signedSteps positionEncoding = iota
	// flagSteps, 14.6: the step of the code offset is unsigned, above two flags.
	flagSteps
	// absoluteSteps, 15.0: above three, the highest of which says that the position is no step.
	absoluteSteps
)

// position is a SourcePosition: src/codegen/source-position.h. The lowest bit says that it is in V8's own sources, the next thirty are the
// place in the script + 1, sixteen more which inlined call it is in, + 1.
type position int64

func (p position) external() bool { return p&1 != 0 }
func (p position) script() int    { return int(p>>1&(1<<30-1)) - 1 }
func (p position) inlined() int   { return int(p>>31&(1<<16-1)) - 1 }

// numbers takes them off the front of a table.
type numbers struct {
	b   []byte
	bad bool
}

func (n *numbers) unsigned() (v uint64) {
	for shift := 0; ; shift += 7 {
		if len(n.b) == 0 || shift > 63 {
			n.bad = true
			return 0
		}
		c := n.b[0]
		n.b = n.b[1:]
		v |= uint64(c&0x7f) << shift
		if c&0x80 == 0 {
			return v
		}
	}
}

func (n *numbers) signed() int64 {
	v := n.unsigned()
	return int64(v>>1) ^ -int64(v&1)
}

// findPosition returns the position of the last row at or before an offset in code of so many bytes; ok is false if there is none, or
// the table is not one.
func (l *layout) findPosition(table []byte, offset, size int) (p position, ok bool) {
	for _, e := range l.encodings {
		if p, ok, fits := e.find(table, l.firstOffset, offset, size); fits {
			return p, ok
		}
	}
	return 0, false
}

// find is findPosition for one encoding; fits tells whether the table may have it: it ends where a row does, and its rows are in the code.
func (e positionEncoding) find(table []byte, at, offset, size int) (p position, ok, fits bool) {
	n := numbers{b: table}
	var now position
	for len(n.b) > 0 {
		switch e {
		case signedSteps:
			step := n.signed()
			if step < 0 {
				step = -(step + 1)
			}
			at += int(min(step, int64(size)+1))
			now += position(n.signed())
		case flagSteps:
			at += int(min(n.unsigned()>>2, uint64(size)+1))
			now += position(n.signed())
		default:
			v := n.unsigned()
			at += int(min(v>>3, uint64(size)+1))
			if step := position(n.signed()); v&4 != 0 {
				now = step
			} else {
				now += step
			}
		}
		if n.bad || at > size || now < 0 {
			return 0, false, false
		}
		if at <= offset {
			p, ok = now, true
		}
	}
	return p, ok, true
}

// bytecodeOf finds which bytecode the baseline code at an offset was made of: src/baseline/bytecode-offset-iterator.cc. table has how
// many bytes of code there are for the function's entry, and then for each bytecode. A return address belongs to what it is the end of.
func (s *bytecodeSizes) bytecodeOf(table, bytecodes []byte, offset int, exact bool) (at int, ok bool) {
	n := numbers{b: table}
	if exact {
		offset++
	}
	code, next := int(min(n.unsigned(), 1<<30)), 0
	if code >= offset {
		return -1, !n.bad // the function's entry
	}
	for len(n.b) > 0 {
		at = next
		size := s.size(bytecodes[min(at, len(bytecodes)):])
		if size == 0 {
			return 0, false
		}
		next += size
		code += int(min(n.unsigned(), 1<<30))
		if n.bad {
			return 0, false
		}
		if code >= offset {
			return at, true
		}
	}
	return 0, false
}

// size is the length of the first bytecode, with its prefix if it has one; 0 if it is none. The first four bytecodes are the prefixes:
// src/interpreter/bytecodes.h.
func (s *bytecodeSizes) size(b []byte) int {
	scale, prefix := 0, 0
	if len(b) > 0 && b[0] < 4 {
		scale, prefix = 1+int(b[0]&1), 1
	}
	if len(b) <= prefix || int(b[prefix]) >= len(s[scale]) {
		return 0
	}
	return prefix + int(s[scale][b[prefix]])
}
