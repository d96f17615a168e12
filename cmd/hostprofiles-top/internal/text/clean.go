// Package text makes text fit for a terminal. Names come from the programs that are profiled, and a terminal obeys what is in
// them, so whatever is shown is of type Safe, and foreign text becomes that only through Clean.
package text

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"
	"golang.org/x/text/unicode/norm"
)

// Safe is text of which every rune takes one or two columns by itself and does nothing else to a terminal.
type Safe string

// maxBytes of foreign text are looked at: more fits on no screen.
const maxBytes = 4096

// Replacement stands for what cannot be shown.
const replacement = '?'

// Clean makes foreign text safe: what could move the cursor, colour, hide, reorder or join with its neighbour becomes a
// question mark, white space a space.
func Clean(s string) Safe {
	if len(s) > maxBytes {
		s = strings.Clone(s[:maxBytes]) // do not keep the rest of it in memory
	}
	if plain(s) {
		return Safe(s)
	}
	// Composed letters need no combining marks. What is no UTF-8 would keep its neighbours from being composed.
	s = norm.NFC.String(strings.Map(func(r rune) rune { return r }, s))
	var b strings.Builder
	b.Grow(len(s))
	for _, r := range s {
		switch {
		case unicode.IsSpace(r):
			r = ' '
		case !alone(r):
			r = replacement
		}
		b.WriteRune(r)
	}
	return Safe(b.String())
}

// plain tells whether s is printable ASCII, as nearly all names are.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// alone tells whether r is printable and takes its columns whatever stands beside it.
func alone(r rune) bool {
	if r < utf8.RuneSelf {
		return ' ' <= r && r <= '~'
	}
	switch {
	case r == utf8.RuneError, !unicode.IsPrint(r), unicode.Is(unicode.M, r):
		return false
	case unicode.Is(unicode.Regional_Indicator, r): // two of them are one flag
		return false
	case 0x1100 <= r && r <= 0x11ff, 0xa960 <= r && r <= 0xa97f, 0xd7b0 <= r && r <= 0xd7ff: // parts of Hangul syllables
		return false
	}
	w := uniseg.StringWidth(string(r))
	return (w == 1 || w == 2) && uniseg.GraphemeClusterCount("a"+string(r)+"a") == 3
}

// ASCII replaces what a terminal without UTF-8 would take for something else, keeping the width: some of the bytes of other
// characters are control characters there.
func ASCII(s Safe) Safe {
	if plain(string(s)) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if r < utf8.RuneSelf {
			b.WriteRune(r)
			continue
		}
		for range runeWidth(r) {
			b.WriteRune(replacement)
		}
	}
	return Safe(b.String())
}
