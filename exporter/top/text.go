package top

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// clean makes a name fit to print: names come from the processes that are profiled, and a terminal obeys what is in them.
func clean(name string) string {
	if len(name) > maxName {
		name = strings.ToValidUTF8(strings.Clone(name[:maxName]), "") // do not keep the rest of it in memory
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, name)
}

// cut shortens s to n characters.
func cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	if n <= 1 {
		return ""
	}
	return string([]rune(s)[:n-1]) + "…"
}
