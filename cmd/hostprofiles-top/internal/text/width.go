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

// Name shortens the name of a function to width columns: to the longest of its forms that fits. If none does it loses the
// beginning: the end of a qualified name says which function it is.
func Name(s Safe, width int) Safe {
	if Width(s) <= width {
		return s
	}
	forms := Forms(s)
	for _, form := range forms {
		if Width(form) <= width {
			return form
		}
	}
	return CutHead(forms[len(forms)-1], width)
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
