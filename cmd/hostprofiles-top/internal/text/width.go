package text

import (
	"strings"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// cutMark stands where something was cut off. It is ASCII, since not every terminal has more.
const cutMark = "~"

// Width is how many columns s takes.
func Width(s Safe) int {
	n := 0
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}

func runeWidth(r rune) int {
	if r < utf8.RuneSelf {
		return 1
	}
	return uniseg.StringWidth(string(r))
}

// Cut shortens s to at most width columns, losing its end.
func Cut(s Safe, width int) Safe {
	if Width(s) <= width {
		return s
	}
	return head(s, width-1) + mark(width)
}

// CutHead shortens s to at most width columns, losing its beginning: of paths and qualified names the end says more.
func CutHead(s Safe, width int) Safe {
	if Width(s) <= width {
		return s
	}
	return mark(width) + tail(s, width-1)
}

func mark(width int) Safe {
	if width < 1 {
		return ""
	}
	return cutMark
}

// head is the longest beginning of s that fits into width columns.
func head(s Safe, width int) Safe {
	n := 0
	for i, r := range s {
		if n += runeWidth(r); n > width {
			return s[:i]
		}
	}
	return s
}

// tail is the longest end of s that fits into width columns.
func tail(s Safe, width int) Safe {
	n := 0
	for i := len(s); i > 0; {
		r, size := utf8.DecodeLastRuneInString(string(s[:i]))
		if n += runeWidth(r); n > width {
			return s[i:]
		}
		i -= size
	}
	return s
}

// Left fills s up to width columns, or cuts it.
func Left(s Safe, width int) Safe {
	s = Cut(s, width)
	return s + Spaces(width-Width(s))
}

// Right puts s at the end of width columns, or cuts it.
func Right(s Safe, width int) Safe {
	s = Cut(s, width)
	return Spaces(width-Width(s)) + s
}

// Spaces are n of them, none if n is negative.
func Spaces(n int) Safe { return Safe(strings.Repeat(" ", max(n, 0))) }

// Name shortens the name of a function to width columns. What is in angle brackets and the parameters go first, then the
// beginning: the end of a qualified name says which function it is.
func Name(s Safe, width int) Safe {
	if Width(s) <= width {
		return s
	}
	if short := collapse(s, '<', '>'); short != s {
		if s = short; Width(s) <= width {
			return s
		}
	}
	return CutHead(dropParameters(s), width)
}

// collapse empties brackets that come in pairs. Names that have others (operator<, operator->) stay as they are.
func collapse(s Safe, open, shut rune) Safe {
	var b strings.Builder
	depth := 0
	for _, r := range s {
		switch r {
		case open:
			if depth++; depth == 1 {
				b.WriteRune(r)
			}
			continue
		case shut:
			if depth--; depth < 0 {
				return s
			}
		}
		if depth == 0 {
			b.WriteRune(r)
		}
	}
	if depth != 0 || b.Len() <= 2 {
		return s
	}
	return Safe(b.String())
}

// dropParameters cuts off parameters of C++ with what follows them: f(int) const is f. In Go parentheses are around the
// receiver, with a name after them, and stay.
func dropParameters(s Safe) Safe {
	text := strings.TrimSuffix(string(s), " const")
	if !strings.HasSuffix(text, ")") {
		return s
	}
	depth := 0
	for i := len(text) - 1; i > 0; i-- {
		switch text[i] {
		case ')':
			depth++
		case '(':
			if depth--; depth == 0 {
				return Safe(text[:i])
			}
		}
	}
	return s
}

// Wrap breaks s into lines of at most width columns, at spaces where there are any.
func Wrap(s Safe, width int) []Safe {
	var out []Safe
	for Width(s) > width && width > 0 {
		line := head(s, width)
		if line == "" { // a wide character in one column
			line = head(s, 2)
		}
		next := s[len(line):]
		if i := strings.LastIndexByte(string(line), ' '); i > 0 && !strings.HasPrefix(string(next), " ") {
			line, next = s[:i], s[i:]
		}
		out = append(out, line)
		s = Safe(strings.TrimLeft(string(next), " "))
	}
	return append(out, s)
}
