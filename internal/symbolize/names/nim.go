package names

import "strings"

// nim undoes Nim's names of procedures: NAME__MODULE_NUMBER (1.6), NAME__MODULE_uNUMBER (2.0) or NAME__HASH (older, and types'), with words
// for characters that C has not in names, and an underscore behind them (compiler/ccgutils.nim, mangle).
func nim(symbol string) (string, bool) {
	name, module, hashed := nimParts(symbol)
	// ___ is a name's own underscore and the separator
	if rest, ok := strings.CutSuffix(name, "_"); ok {
		name = nimOperator(rest)
	}
	switch {
	case name == "" || !lower(name[0]) && !upper(name[0]) && name[0] != '`' && name[0] != ':' && name[0] != '=':
		return "", false
	case hashed:
		return name, true
	}
	return module + "." + name, module != ""
}

// nimParts splits a name; all is empty if it is none of Nim's.
func nimParts(symbol string) (name, module string, hashed bool) {
	i := strings.LastIndex(symbol, "__")
	if i <= 0 {
		return "", "", false
	}
	name, module = symbol[:i], symbol[i+2:]
	if k := strings.LastIndexByte(module, '_'); k > 0 && digits(strings.TrimPrefix(module[k+1:], "u")) {
		return name, module[:k], false
	}
	if nimHash(module) {
		return name, "", true
	}
	return "", "", false
}

// nimHash tells whether s can be 16 bytes in base 62, where 9 begins what is no digit of that: mostly letters of both cases.
func nimHash(s string) bool {
	kinds := [3]bool{}
	for i := range len(s) {
		switch c := s[i]; {
		case lower(c):
			kinds[0] = true
		case upper(c):
			kinds[1] = true
		case digit(c):
			kinds[2] = true
		default:
			return false
		}
	}
	return len(s) >= 20 && len(s) <= 26 && kinds == [3]bool{true, true, true}
}

// nimModule is the last part of a module's name, as it is in a symbol (systemZdollars for system/dollars), without what the mangling
// may leave out.
func nimModule(name string) string {
	return strings.ReplaceAll(name[strings.LastIndexByte(name, 'Z')+1:], "_", "")
}

// nimOperator turns words back into characters: all of the name, or what compilers and setters put before or behind.
func nimOperator(s string) string {
	words := [...]struct{ word, char string }{
		{"dollar", "$"}, {"percent", "%"}, {"amp", "&"}, {"roof", "^"}, {"emark", "!"}, {"qmark", "?"}, {"star", "*"}, {"plus", "+"},
		{"minus", "-"}, {"backslash", "\\"}, {"slash", "/"}, {"eq", "="}, {"lt", "<"}, {"gt", ">"}, {"tilde", "~"}, {"colon", ":"},
		{"dot", "."}, {"at", "@"}, {"bar", "|"}, {"X5B", "["}, {"X5D", "]"},
	}
	operator, rest := "", s
next:
	for rest != "" {
		for _, w := range words {
			if after, ok := strings.CutPrefix(rest, w.word); ok {
				operator, rest = operator+w.char, after
				continue next
			}
		}
		break
	}
	if rest == "" {
		return "`" + operator + "`"
	}
	for _, w := range [...][2]string{{"colon", ":"}, {"eq", "="}} { // :anonymous, =destroy
		if after, ok := strings.CutPrefix(s, w[0]); ok {
			return w[1] + after
		}
	}
	if before, ok := strings.CutSuffix(s, "eq"); ok { // a setter
		return "`" + before + "=`"
	}
	return s
}
