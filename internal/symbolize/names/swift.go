package names

import (
	"strconv"
	"strings"
)

// swift undoes the first part of Swift's names (swift/docs/ABI/Mangling.rst, Swift 6.0; $s since 5.0, $S in 4.2, _T0 in 4.0): the module,
// the types that a function is in, and the function. Types of parameters and results, which follow, are left out. A name that is
// built otherwise is not demangled: witnesses of protocols, functions inside functions.
func swift(symbol string) (string, bool) {
	rest := ""
	for _, prefix := range []string{"$s", "$S", "_$s", "_$S", "_T0"} {
		if after, ok := strings.CutPrefix(symbol, prefix); ok {
			rest = after
			break
		}
	}
	if rest == "" {
		return "", false
	}
	p := swiftParser{s: rest}
	prefix, note := "", ""
	// What the optimizer made of a function, and what coroutines are split into, stands behind it.
	if before, _, split := strings.Cut(p.s, ".resume."); split {
		p.s, note = before, " [resumed]"
	}
	if i := swiftSpecial(p.s); i >= 0 {
		// The types that it is specialized for stand between.
		p.typed = p.s[i+1] != 'f'
		p.s, note = p.s[:i], " [specialized]"+note
	}
	if before, ok := strings.CutSuffix(p.s, "Tj"); ok {
		p.s, prefix = before, "dispatch thunk of "
	}
	name, ok := p.entity()
	return prefix + name + note, ok
}

// swiftSpecial returns where a specialization begins: of generic arguments (Tg, TG), or of a function's signature (Tf).
func swiftSpecial(s string) int {
	for i := 0; i+2 < len(s); i++ {
		if s[i] == 'T' && strings.IndexByte("gGf", s[i+1]) >= 0 && (digit(s[i+2]) || s[i+2] == 'q') {
			return i
		}
	}
	return -1
}

type swiftParser struct {
	s     string
	words []string
	typed bool // s goes on behind the function with types
}

// entity reads the path and makes of its end what it is.
func (p *swiftParser) entity() (string, bool) {
	path, ok := p.context()
	if !ok {
		return "", false
	}
	for _, kind := range [...][2]string{{"fC", "init"}, {"fc", "init"}, {"fD", "__deallocating_deinit"}, {"fd", "deinit"}} {
		if strings.HasSuffix(p.s, kind[0]) { // identifiers that follow are labels
			return strings.Join(append(path, kind[1]), "."), true
		}
	}
	if p.s == "Ma" {
		return "type metadata accessor for " + strings.Join(path, "."), true
	}
	name, ok := p.identifier()
	if !ok || p.local() || strings.Contains(p.s, "lE") { // an extension with conditions: what was read is its module
		return "", false
	}
	switch {
	case strings.HasPrefix(p.s, "oi"), strings.HasPrefix(p.s, "op"), strings.HasPrefix(p.s, "oP"):
		if name, ok = swiftOperator(name); !ok {
			return "", false
		}
	}
	full := strings.Join(append(path, name), ".")
	if n := len(p.s); n >= 2 && strings.HasSuffix(p.s, "Z") { // static
		p.s = p.s[:n-1]
	}
	if i := strings.LastIndex(p.s, "fU"); i >= 0 && strings.HasSuffix(p.s, "_") {
		number := 0
		if text := p.s[i+2 : len(p.s)-1]; text != "" {
			n, err := strconv.Atoi(text)
			if err != nil {
				return "", false
			}
			number = n + 1
		}
		return "closure #" + strconv.Itoa(number+1) + " in " + full, true
	}
	for _, kind := range [...][2]string{
		{"vg", ".getter"}, {"vs", ".setter"}, {"vM", ".modify"}, {"vr", ".read"}, {"vw", ".willset"}, {"vW", ".didset"},
	} {
		if strings.HasSuffix(p.s, kind[0]) {
			return full + kind[1], true
		}
	}
	if strings.HasSuffix(p.s, "F") || p.typed && strings.Contains(p.s, "F") {
		return full, true
	}
	return "", false
}

// local tells whether a declaration inside a function follows.
func (p *swiftParser) local() bool {
	for i := 1; i < len(p.s); i++ {
		if p.s[i] == 'L' {
			k := i + 1
			for k < len(p.s) && digit(p.s[k]) {
				k++
			}
			if k < len(p.s) && p.s[k] == '_' {
				return true
			}
		}
	}
	return false
}

// context reads the module and the types.
func (p *swiftParser) context() (path []string, ok bool) {
	switch {
	case strings.HasPrefix(p.s, "So"), strings.HasPrefix(p.s, "SC"):
		path, p.s = []string{"__C"}, p.s[2:]
	case strings.HasPrefix(p.s, "s"):
		path, p.s = []string{"Swift"}, p.s[1:]
	case strings.HasPrefix(p.s, "S"):
		name, known := swiftStandard(p.s)
		if !known {
			return nil, false
		}
		path, p.s = []string{"Swift", name}, p.s[2:]
	default:
		module, ok := p.identifier()
		if !ok {
			return nil, false
		}
		path = []string{module}
	}
	for len(path) < 32 {
		// An extension in the standard library, or in the first module.
		if after, ok := strings.CutPrefix(p.s, "sE"); ok {
			p.s = after
		} else if after, ok := strings.CutPrefix(p.s, "AAE"); ok {
			p.s = after
		}
		tried := *p
		name, ok := tried.identifier()
		if !ok || tried.s == "" {
			return path, true
		}
		switch tried.s[0] {
		case 'C', 'V', 'O', 'P', 'a':
			path = append(path, name)
		case 'E': // an extension in another module
		default:
			return path, true
		}
		*p = tried
		p.s = p.s[1:]
	}
	return nil, false
}

// identifier reads one, with words of earlier ones in it, and what tells private ones apart.
func (p *swiftParser) identifier() (string, bool) {
	name, ok := p.plain()
	if !ok {
		return "", false
	}
	tried := *p
	if private, ok := tried.plain(); ok && strings.HasPrefix(private, "_") && strings.HasPrefix(tried.s, "LL") {
		*p = tried
		p.s = p.s[2:]
	}
	return name, true
}

func (p *swiftParser) plain() (string, bool) {
	if p.s == "" || !digit(p.s[0]) || strings.HasPrefix(p.s, "00") { // 00: in Punycode
		return "", false
	}
	substitutes := p.s[0] == '0'
	if substitutes {
		p.s = p.s[1:]
	}
	name := ""
	for {
		for substitutes && p.s != "" && (lower(p.s[0]) || upper(p.s[0])) {
			i := int(p.s[0]|0x20) - 'a'
			substitutes = lower(p.s[0])
			if p.s = p.s[1:]; i >= len(p.words) {
				return "", false
			}
			if name += p.words[i]; len(name) > MaxMangled {
				return "", false
			}
		}
		if strings.HasPrefix(p.s, "0") {
			p.s = p.s[1:]
			break
		}
		n := 0
		for n < len(p.s) && n < 5 && digit(p.s[n]) {
			n++
		}
		length, err := strconv.Atoi(p.s[:n])
		if err != nil || length > len(p.s)-n {
			return "", false
		}
		part := p.s[n : n+length]
		p.s = p.s[n+length:]
		p.learn(part)
		if name += part; !substitutes {
			break
		}
	}
	return name, name != "" && len(name) <= MaxMangled
}

// learn keeps the words of an identifier: they begin at capital letters behind small ones and behind underscores.
func (p *swiftParser) learn(s string) {
	start := -1
	for i := 0; i <= len(s); i++ {
		end := i == len(s) || s[i] == '_'
		if start >= 0 && (end || !upper(s[i-1]) && upper(s[i])) {
			if i-start >= 2 && len(p.words) < 26 {
				p.words = append(p.words, s[start:i])
			}
			start = -1
		}
		if start < 0 && !end && !digit(s[i]) {
			start = i
		}
	}
}

func swiftOperator(s string) (string, bool) {
	const from, to = "acdeglmnopqrstxz", "&@/=><*!|+?%-~^."
	var b strings.Builder
	for i := range len(s) {
		k := strings.IndexByte(from, s[i])
		if k < 0 {
			return "", false
		}
		b.WriteByte(to[k])
	}
	return b.String(), true
}

// swiftStandard names a type of the standard library by the two letters that stand for it.
func swiftStandard(s string) (string, bool) {
	if len(s) < 2 {
		return "", false
	}
	switch s[1] {
	case 'A':
		return "AutoreleasingUnsafeMutablePointer", true
	case 'a':
		return "Array", true
	case 'b':
		return "Bool", true
	case 'D':
		return "Dictionary", true
	case 'd':
		return "Double", true
	case 'f':
		return "Float", true
	case 'h':
		return "Set", true
	case 'I':
		return "DefaultIndices", true
	case 'i':
		return "Int", true
	case 'J':
		return "Character", true
	case 'N':
		return "ClosedRange", true
	case 'n':
		return "Range", true
	case 'O':
		return "ObjectIdentifier", true
	case 'P':
		return "UnsafePointer", true
	case 'p':
		return "UnsafeMutablePointer", true
	case 'R':
		return "UnsafeBufferPointer", true
	case 'r':
		return "UnsafeMutableBufferPointer", true
	case 'S':
		return "String", true
	case 's':
		return "Substring", true
	case 'u':
		return "UInt", true
	case 'V':
		return "UnsafeRawPointer", true
	case 'v':
		return "UnsafeMutableRawPointer", true
	case 'W':
		return "UnsafeRawBufferPointer", true
	case 'w':
		return "UnsafeMutableRawBufferPointer", true
	case 'B':
		return "BinaryFloatingPoint", true
	case 'E':
		return "Encodable", true
	case 'e':
		return "Decodable", true
	case 'F':
		return "FloatingPoint", true
	case 'G':
		return "RandomNumberGenerator", true
	case 'H':
		return "Hashable", true
	case 'j':
		return "Numeric", true
	case 'K':
		return "BidirectionalCollection", true
	case 'k':
		return "RandomAccessCollection", true
	case 'L':
		return "Comparable", true
	case 'l':
		return "Collection", true
	case 'M':
		return "MutableCollection", true
	case 'm':
		return "RangeReplaceableCollection", true
	case 'Q':
		return "Equatable", true
	case 'q':
		return "Optional", true
	case 'T':
		return "Sequence", true
	case 't':
		return "IteratorProtocol", true
	case 'U':
		return "UnsignedInteger", true
	case 'X':
		return "RangeExpression", true
	case 'x':
		return "Strideable", true
	case 'Y':
		return "RawRepresentable", true
	case 'y':
		return "StringProtocol", true
	case 'Z':
		return "SignedInteger", true
	case 'z':
		return "BinaryInteger", true
	}
	return "", false
}
