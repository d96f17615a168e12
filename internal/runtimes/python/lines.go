package python

// lineTable finds the line of an instruction.
type lineTable uint8

const (
	// linesByte: pairs of bytes, an increment of the address and a signed one of the line: Objects/lnotab_notes.txt of
	// CPython 3.9. Addresses are in bytes, as f_lasti is.
	linesByte lineTable = iota
	// linesUnsigned: the same of CPython 2.7, where no line comes before its predecessor.
	linesUnsigned
	// linesRange: pairs of bytes, the length of a range and a signed increment of the line, of which -128 means that the range has
	// none: Objects/lnotab_notes.txt of CPython 3.10. f_lasti counts instructions of two bytes.
	linesRange
	// linesLocation: entries of differing kinds, with columns: Objects/locations.md of CPython 3.11 (InternalDocs/code_objects.md
	// from 3.13 on). Addresses are in bytes.
	linesLocation
)

// position is where in the source an instruction comes from; a Line of 0 means that it has none, a Column of 0 that it is not known.
type position struct{ Line, Column int }

// find returns the position of the instruction at an offset, in what f_lasti counts, or in bytes from 3.11 on. Tables end
// wherever they are damaged.
func (k lineTable) find(table []byte, first int, at int) position {
	switch k {
	case linesByte:
		return findByte(table, first, at, func(b byte) int { return int(int8(b)) })
	case linesUnsigned:
		return findByte(table, first, at, func(b byte) int { return int(b) })
	case linesRange:
		return findRange(table, first, 2*at)
	default:
		return findLocation(table, first, at)
	}
}

func findByte(table []byte, line, at int, step func(byte) int) position {
	addr := 0
	for ; len(table) >= 2; table = table[2:] {
		if addr += int(table[0]); addr > at {
			break
		}
		line += step(table[1])
	}
	return position{Line: max(line, 0)}
}

func findRange(table []byte, line, at int) position {
	end := 0
	for ; len(table) >= 2; table = table[2:] {
		delta, none := int(int8(table[1])), int8(table[1]) == -128
		if !none {
			line += delta
		}
		if end += int(table[0]); at < end {
			if none {
				return position{}
			}
			return position{Line: max(line, 0)}
		}
	}
	return position{Line: max(line, 0)}
}

// Kinds of location entries; those below are short forms, whose kind is part of the columns.
const (
	locationOneLine0 = 10 // to 12: that many lines on
	locationNoColumn = 13
	locationLong     = 14
	locationNone     = 15
)

// locations reads a location table.
type locations struct{ table []byte }

func (l *locations) next() int {
	if len(l.table) == 0 {
		return 0
	}
	b := l.table[0]
	l.table = l.table[1:]
	return int(b)
}

// unsigned reads six bits a byte, the lowest first; bit 6 says that there are more.
func (l *locations) unsigned() int {
	v := 0
	for shift := 0; len(l.table) > 0; shift += 6 {
		b := l.next()
		if shift < 36 {
			v |= b & 63 << shift
		}
		if b&64 == 0 {
			break
		}
	}
	return v
}

// signed has the sign in the lowest bit.
func (l *locations) signed() int {
	v := l.unsigned()
	if v&1 != 0 {
		return -(v >> 1)
	}
	return v >> 1
}

func findLocation(table []byte, line, at int) position {
	l := locations{table}
	for end := 0; len(l.table) > 0; {
		head := l.next()
		if head&128 == 0 {
			break // every entry begins so, and no other byte
		}
		kind, column := head>>3&15, -1
		end += 2 * (head&7 + 1)
		switch {
		case kind == locationNone:
		case kind == locationLong:
			line += l.signed()
			l.unsigned() // lines that it goes on for
			column = l.unsigned() - 1
			l.unsigned()
		case kind == locationNoColumn:
			line += l.signed()
		case kind >= locationOneLine0:
			line += kind - locationOneLine0
			column = l.next()
			l.next()
		default:
			column = kind<<3 | l.next()>>4
		}
		if at >= end {
			continue
		}
		if kind == locationNone {
			return position{}
		}
		if line <= 0 {
			return position{}
		}
		return position{line, column + 1}
	}
	return position{Line: max(line, 0)}
}
