package names

import "strings"

// nim undoes Nim's names of procedures: NAME__MODULE_NUMBER (1.6), NAME__MODULE_uNUMBER (2.0) or NAME__HASH (older, and types'), with words
// for characters that C has not in names, and an underscore behind them (compiler/ccgutils.nim, mangle).
func nim(symbol string) (string, bool) {
	i := strings.LastIndex(symbol, "__")
	if i <= 0 {
		return "", false
	}
	name, module := symbol[:i], symbol[i+2:]
	// ___ is a name's own underscore and the separator
	if rest, ok := strings.CutSuffix(name, "_"); ok {
		name = nimOperator(rest)
	}
	k := strings.LastIndexByte(module, '_')
	switch {
	case name == "" || !lower(name[0]) && !upper(name[0]) && name[0] != '`' && name[0] != ':' && name[0] != '=':
		return "", false
	case k > 0 && digits(strings.TrimPrefix(module[k+1:], "u")):
		return module[:k] + "." + name, true
	case len(module) >= 20 && len(module) <= 26 && strings.ContainsAny(module, "0123456789"): // a hash in base 62
		return name, true
	}
	return "", false
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
