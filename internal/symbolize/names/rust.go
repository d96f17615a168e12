package names

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// IsRust tells whether the Rust compiler made the name: v0 (RFC 2603) names begin with _R, legacy ones look like C++
// ones whose last part is a hash.
func IsRust(symbol string) bool {
	base := unversioned(symbol)
	if strings.HasPrefix(base, "_R") {
		_, ok := demangled(base)
		return ok
	}
	_, ok := legacyRust(base)
	return ok
}

// legacyRust returns the parts of a legacy name that are before its hash.
func legacyRust(symbol string) (parts string, ok bool) {
	parts, ok = strings.CutPrefix(symbol, "_ZN")
	// The linker and LLVM append suffixes like .llvm.1234567890.
	if i := strings.LastIndex(parts, "E."); i > 0 {
		parts = parts[:i+1]
	}
	const tail = len("17h0123456789abcdefE")
	if !ok || len(parts) < tail || parts[len(parts)-1] != 'E' {
		return "", false
	}
	parts, hash := parts[:len(parts)-tail], parts[len(parts)-tail:]
	return parts, strings.HasPrefix(hash, "17h") && strings.Trim(hash[3:tail-1], "0123456789abcdef") == ""
}

// rust undoes legacy names (rustc 1.95, rustc_symbol_mangling/src/legacy.rs): parts with their lengths before them, in which what is no
// letter, digit or underscore is an escape. The demangler for C++ takes an underscore that a part begins with for a separator, which
// only v0 has.
func rust(symbol string) (string, bool) {
	parts, ok := legacyRust(symbol)
	if !ok || parts == "" {
		return "", false
	}
	var b strings.Builder
	for parts != "" {
		n := 0
		for n < len(parts) && n < 5 && digit(parts[n]) {
			n++
		}
		length, err := strconv.Atoi(parts[:n])
		if err != nil || length == 0 || length > len(parts)-n {
			return "", false
		}
		if b.Len() > 0 {
			b.WriteString("::")
		}
		rustPart(&b, parts[n:n+length])
		parts = parts[n+length:]
	}
	return b.String(), true
}

// rustPart writes a part for people. From an escape that is not known on it is left as it is.
func rustPart(b *strings.Builder, s string) {
	if strings.HasPrefix(s, "_$") { // a part does not begin with an escape
		s = s[1:]
	}
	for s != "" {
		i := strings.IndexAny(s, "$.")
		if i < 0 {
			break
		}
		b.WriteString(s[:i])
		s = s[i:]
		if after, ok := strings.CutPrefix(s, ".."); ok {
			b.WriteString("::")
			s = after
			continue
		}
		if s[0] == '.' {
			b.WriteByte('.')
			s = s[1:]
			continue
		}
		code, after, closed := strings.Cut(s[1:], "$")
		text, known := rustEscape(code)
		if !closed || !known {
			break
		}
		b.WriteString(text)
		s = after
	}
	b.WriteString(s)
}

func rustEscape(code string) (string, bool) {
	switch code {
	case "SP":
		return "@", true
	case "BP":
		return "*", true
	case "RF":
		return "&", true
	case "LT":
		return "<", true
	case "GT":
		return ">", true
	case "LP":
		return "(", true
	case "RP":
		return ")", true
	case "C":
		return ",", true
	}
	hex, ok := strings.CutPrefix(code, "u")
	if !ok || hex == "" || len(hex) > 6 || strings.Trim(hex, "0123456789abcdef") != "" {
		return "", false
	}
	c, err := strconv.ParseUint(hex, 16, 32)
	if err != nil || !utf8.ValidRune(rune(c)) || unicode.IsControl(rune(c)) {
		return "", false
	}
	return string(rune(c)), true
}
