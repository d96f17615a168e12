package names

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// haskell undoes GHC's names of code: [PACKAGE_]MODULE_NAME_info, each part z-encoded, so that underscores only separate
// (GHC 9.0: compiler/GHC/Utils/Encoding.hs, compiler/GHC/Cmm/CLabel.hs). The package is left out, as people do.
func haskell(symbol string) (string, bool) {
	parts := strings.Split(strings.TrimSuffix(symbol, "_info"), "_")
	if n := len(parts); n > 2 && (parts[n-1] == "con" || parts[n-1] == "static") {
		parts = parts[:n-1]
	}
	if len(parts) < 2 || len(parts) > 3 {
		return "", false
	}
	module, ok := zDecode(parts[len(parts)-2])
	if !ok || module == "" || !upper(module[0]) && module[0] != ':' {
		return "", false
	}
	name, ok := zDecode(parts[len(parts)-1])
	if !ok || name == "" {
		return "", false
	}
	return module + "." + name, true
}

// zDecode undoes the z-encoding.
func zDecode(s string) (string, bool) {
	const (
		from = "LRMNCZ" + "zabcdeghilmnpqrstuv"
		to   = "()[]:Z" + "z&|^$=>#.<-!+'\\/*_%"
	)
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != 'z' && s[i] != 'Z' {
			b.WriteByte(s[i])
			continue
		}
		rest := s[i+1:]
		if rest == "" {
			return "", false
		}
		if digit(rest[0]) {
			text, n, ok := zNumber(s[i], rest)
			if !ok {
				return "", false
			}
			b.WriteString(text)
			i += n
			continue
		}
		k := strings.IndexByte(from, rest[0])
		if k < 0 || (k < 6) != (s[i] == 'Z') {
			return "", false
		}
		b.WriteByte(to[k])
		i++
	}
	return b.String(), true
}

// zNumber decodes what follows z or Z and begins with a digit: a character's code, or a tuple. n is its length.
func zNumber(mark byte, s string) (text string, n int, ok bool) {
	for n < len(s) && n < 8 && (digit(s[n]) || mark == 'z' && s[n] >= 'a' && s[n] <= 'f') {
		n++
	}
	if n == len(s) {
		return "", 0, false
	}
	if mark == 'z' {
		c, err := strconv.ParseUint(s[:n], 16, 32)
		if err != nil || s[n] != 'U' || c > utf8.MaxRune || c < ' ' {
			return "", 0, false
		}
		return string(rune(c)), n + 1, true
	}
	commas, err := strconv.Atoi(s[:n])
	if err != nil || commas > 100 {
		return "", 0, false
	}
	list := strings.Repeat(",", max(commas-1, 0))
	switch s[n] {
	case 'T':
		return "(" + list + ")", n + 1, true
	case 'H':
		return "(#" + list + "#)", n + 1, true
	}
	return "", 0, false
}
