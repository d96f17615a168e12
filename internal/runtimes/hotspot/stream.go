package hotspot

// stream is how HotSpot compresses numbers: UNSIGNED5, six bits a byte in up to five bytes. From JDK 20 on no byte is 0, and the value is the
// number of bytes that are left out: share/code/compressedStream.cpp (JDK 8, 11) and share/utilities/unsigned5.hpp (JDK 26).
type stream uint8

// unsigned reads a number; ok is false if the bytes end before it does.
func (x stream) unsigned(b []byte) (v uint32, rest []byte, ok bool) {
	low := 192 - uint32(x)
	for i := range 5 {
		if i >= len(b) || b[i] < byte(x) {
			return 0, nil, false
		}
		digit := uint32(b[i]) - uint32(x)
		v += digit << (6 * i)
		if digit < low || i == 4 {
			return v, b[i+1:], true
		}
	}
	return 0, nil, false
}

// signed has the sign in the lowest bit.
func (x stream) signed(b []byte) (v int32, rest []byte, ok bool) {
	u, rest, ok := x.unsigned(b)
	return int32(u>>1) ^ -int32(u&1), rest, ok
}

// lineEntry says that from a bytecode on code is of a line.
type lineEntry struct{ bci, line uint16 }

const (
	lineEntryBytes = 4
	maxLines       = 1 << 14 // of a method
)

// lines decodes a table of lines: CompressedLineNumberReadStream of share/oops/method.cpp, JDK 8 to 26. It ends where it is damaged.
func (x stream) lines(b []byte) (out []lineEntry) {
	bci, line := int32(0), int32(0)
	for len(b) > 0 && b[0] != 0 && len(out) < maxLines {
		head := b[0]
		b = b[1:]
		if head == 0xff {
			var ok bool
			var d int32
			if d, b, ok = x.signed(b); !ok {
				return out
			}
			bci += d
			if d, b, ok = x.signed(b); !ok {
				return out
			}
			line += d
		} else {
			bci, line = bci+int32(head>>3), line+int32(head&7)
		}
		if bci < 0 || bci > 0xffff || line < 0 || line > 0xffff {
			return out
		}
		out = append(out, lineEntry{uint16(bci), uint16(line)})
	}
	return out
}

// lineOf is the line of a bytecode, 0 if there is none. The table need not be sorted.
func lineOf(table []lineEntry, bci int) int {
	best := lineEntry{}
	found := false
	for _, e := range table {
		if int(e.bci) == bci {
			return int(e.line)
		}
		if int(e.bci) < bci && (!found || e.bci >= best.bci) {
			best, found = e, true
		}
	}
	return int(best.line)
}
