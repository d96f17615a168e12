package python

import (
	"encoding/binary"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/hostprofiles/hostprofiles/internal/runtimes"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// maxText bounds the characters that are read of a name or path.
const maxText = 1024

// bytesOfPython2 is where the contents of a str of Python 2 begin: PyStringObject of Include/stringobject.h, 2.7.18.
const bytesOfPython2 = 36

// readText reads a str: PyASCIIObject and PyCompactUnicodeObject of Include/cpython/unicodeobject.h; those that the old C API makes
// are not compact, and no names of code objects. Behind the object's header are the length, the hash, and the state: how it is interned,
// two bits (without the GIL eight, from 3.14 on), the bytes of a character, three, whether it is compact, and ASCII. Longer ones end with an
// ellipsis.
func (l *layout) readText(mem unwind.Memory, a unwind.Addr) (string, error) {
	if l.bytesText {
		b, err := l.readBytes(mem, a, maxText)
		return decodeText(b, 1), err
	}
	head := make([]byte, l.header+20)
	if err := mem.Read(a, head); err != nil {
		return "", err
	}
	length, state := binary.LittleEndian.Uint64(head[l.header:]), binary.LittleEndian.Uint32(head[l.header+16:])>>l.text.shift
	kind, compact, ascii := uint64(state>>2&7), state>>5&1 != 0, state>>6&1 != 0
	if !compact || kind != 1 && kind != 2 && kind != 4 || ascii && kind != 1 || length > 1<<30 {
		return "", fmt.Errorf("string at %#x: %w", uint64(a), runtimes.ErrStale)
	}
	at := l.text.compact
	if ascii {
		at = l.text.ascii
	}
	n := min(length, maxText)
	b := make([]byte, n*kind)
	if err := mem.Read(a+unwind.Addr(at), b); err != nil {
		return "", err
	}
	text := decodeText(b, int(kind))
	if n < length {
		text += "…"
	}
	return text, nil
}

// decodeText makes UTF-8 of characters of 1, 2 or 4 bytes each; what is no character becomes U+FFFD.
func decodeText(b []byte, kind int) string {
	out := make([]byte, 0, len(b))
	for ; len(b) >= kind; b = b[kind:] {
		var r rune
		switch kind {
		case 1:
			r = rune(b[0])
		case 2:
			r = rune(binary.LittleEndian.Uint16(b))
		default:
			r = rune(binary.LittleEndian.Uint32(b))
		}
		if utf16.IsSurrogate(r) {
			r = utf8.RuneError
		}
		out = utf8.AppendRune(out, r)
	}
	return string(out)
}

// readBytes reads a bytes object, ErrStale if it has more than so many: PyBytesObject of Include/cpython/bytesobject.h, whose length stands
// behind the object's header, its hash and contents behind that.
func (l *layout) readBytes(mem unwind.Memory, a unwind.Addr, most uint64) ([]byte, error) {
	head := make([]byte, l.header+8)
	if err := mem.Read(a, head); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint64(head[l.header:])
	if n > most {
		return nil, fmt.Errorf("%d bytes at %#x: %w", n, uint64(a), runtimes.ErrStale)
	}
	at := l.header + 16
	if l.bytesText {
		at = bytesOfPython2
	}
	b := make([]byte, n)
	if err := mem.Read(a+unwind.Addr(at), b); err != nil {
		return nil, err
	}
	return b, nil
}
