package hotspot

import (
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/hostprofiles/hostprofiles/internal/runtimes"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

const (
	// maxSymbol bounds the bytes that are read of a name or signature; longer ones end with an ellipsis.
	maxSymbol = 1024
	// maxName bounds those of a stub's name.
	maxName = 128
)

// decode makes UTF-8 of what class files have: 0 is two bytes, and what does not fit 16 bits are two characters of three bytes each
// (The Java Virtual Machine Specification, 4.4.7). What is no character becomes U+FFFD.
func decode(b []byte) string {
	out := make([]byte, 0, len(b))
	for len(b) > 0 {
		r, n := decodeChar(b)
		if utf16.IsSurrogate(r) {
			low, m := decodeChar(b[n:])
			if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
				n += m
			}
		}
		out = utf8.AppendRune(out, r)
		b = b[n:]
	}
	return string(out)
}

// decodeChar is one of up to three bytes.
func decodeChar(b []byte) (r rune, n int) {
	more := func(i int) bool { return len(b) > i && b[i]&0xc0 == 0x80 }
	switch {
	case len(b) == 0:
		return utf8.RuneError, 0
	case b[0] < 0x80:
		return rune(b[0]), 1
	case b[0]&0xe0 == 0xc0 && more(1):
		return rune(b[0]&0x1f)<<6 | rune(b[1]&0x3f), 2
	case b[0]&0xf0 == 0xe0 && more(1) && more(2):
		return rune(b[0]&0xf)<<12 | rune(b[1]&0x3f)<<6 | rune(b[2]&0x3f), 3
	}
	return utf8.RuneError, 1
}

// displayClass is a class's name as programs have it. Hidden classes, those of lambdas, have the address of their metadata behind their name,
// which differs from process to process.
func displayClass(name string) string {
	for _, mark := range []string{"+0x", "/0x"} {
		if i := strings.LastIndex(name, mark); i > 0 && strings.Trim(name[i+len(mark):], "0123456789abcdef") == "" {
			name = name[:i]
		}
	}
	return strings.ReplaceAll(name, "/", ".")
}

// readName reads the name of a stub: a C string of printable characters.
func readName(mem unwind.Memory, a unwind.Addr) (string, error) {
	var name []byte
	for len(name) < maxName {
		b := make([]byte, 32-uint64(a)%32) // never over the end of a page that may be the last one
		if err := mem.Read(a, b); err != nil {
			return "", err
		}
		for _, c := range b {
			if c == 0 && len(name) > 0 {
				return string(name), nil
			}
			if c < ' ' || c > '~' {
				return "", fmt.Errorf("no name: %w", runtimes.ErrStale)
			}
			name = append(name, c)
		}
		a += unwind.Addr(len(b))
	}
	return string(name[:maxName]), nil
}
