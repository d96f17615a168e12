package text

import (
	"regexp"
	"strings"
)

// maxForms is the longest name, in bytes, of which shorter forms are looked for.
const maxForms = 64 << 10

// maxBrief bounds what is in the brackets of a name for it to lose its qualifiers: looking for them takes time.
const maxBrief = 1000

// Forms gives the name of a function in fewer and fewer characters, the full one first: with what is in angle brackets left
// out; without parameters and the type that is returned; the last two parts of the qualified name; the last part. It knows C++
// and Rust, and leaves alone what it cannot read. The page of the live view does the same (web/src/model/forms.ts); both are
// held to testdata/names/forms.json.
func Forms(name Safe) []Safe {
	out := []Safe{name}
	if len(name) > maxForms {
		return out
	}
	r := reader{text: string(name)}
	if !r.read() {
		return out
	}
	for _, form := range r.forms() {
		if s := Safe(form); s != "" && len(s) < len(out[len(out)-1]) {
			out = append(out, s)
		}
	}
	return out
}

// component is what is between two :: of a qualified name.
type component struct {
	name   string // without arguments and parameters
	empty  string // with arguments left out between their brackets
	args   bool   // it has template or generic arguments
	params bool
	opaque bool // what is in brackets, or an operator
}

// reader takes a name apart. Components are those behind prefix: a type that is returned, or words as "thunk to".
type reader struct {
	text       string
	prefix     string // with what is in angle brackets left out, and the space
	components []component
	now        component
	suffix     string // behind the parameters: const, [clone .cold]
}

// read is false if brackets do not come in pairs.
func (r *reader) read() bool {
	for i := 0; i < len(r.text); {
		c := r.text[i]
		rest := r.text[i:]
		switch {
		case strings.HasPrefix(rest, "::"):
			i += 2
			if strings.HasPrefix(rest, "::<") && r.now.name != "" && !namedGroup(rest[3:]) {
				r.now.empty += "::" // Rust's arguments
				continue
			}
			r.components, r.now = append(r.components, r.now), component{}
		case c == '<' || c == '(' || c == '[' || c == '{':
			end := group(r.text, i)
			if end < 0 {
				return false
			}
			r.bracket(r.text[i:end])
			i = end
		case c == '>' || c == ')' || c == ']' || c == '}':
			if c != '>' || i == 0 || r.text[i-1] != '-' {
				return false
			}
			r.add(">")
			i++
		case c == ' ':
			if r.now.params && isSuffix(rest) {
				r.suffix = rest
				return true
			}
			if r.now.opaque && strings.HasPrefix(rest, " <") { // operator<< <char>
				i++
				continue
			}
			r.prefix += r.joined() + " "
			r.components, r.now = nil, component{}
			i++
		default:
			n := operator(r.text, i)
			if n > 0 && r.now.name == "" {
				r.now.opaque = true
			}
			n = max(n, 1)
			r.add(rest[:n])
			i += n
		}
	}
	return true
}

func (r *reader) add(s string) {
	r.now.name += s
	r.now.empty += s
}

// bracket takes up what is in brackets, with them.
func (r *reader) bracket(text string) {
	inner := text[1 : len(text)-1]
	switch last := lastByte(r.now.empty); {
	case text[0] == '{':
		r.now.opaque = r.now.opaque || r.now.name == ""
		r.now.name += "{" + brief(inner) + "}"
		r.now.empty += emptied(text)
	case r.now.name == "" && text[0] == '<':
		r.now.opaque = strings.HasPrefix(inner, "lambda")
		r.now.name = "<" + brief(inner) + ">"
		r.now.empty += "<" + emptied(inner) + ">"
	case r.now.name == "":
		r.add(text)
	case text[0] == '<' && (takesArguments(last) || last == ':' || r.now.opaque):
		r.now.args = true
		r.now.empty += "<>"
	case text[0] == '(' && (takesArguments(last) || last == '\'' || r.now.opaque):
		r.now.params = true
		r.now.empty += emptied(text)
	case text[0] == '[' && strings.HasPrefix(inner, "abi:"):
		r.now.empty += text
	default:
		r.add(text)
	}
}

func (r *reader) joined() string {
	var b strings.Builder
	for _, c := range r.components {
		b.WriteString(c.empty + "::")
	}
	return b.String() + r.now.empty
}

func (r *reader) forms() []string {
	all := append(r.components, r.now)
	last := len(all) - 1
	emptied := r.prefix + r.joined() + r.suffix
	args := false
	for _, c := range all {
		args = args || c.args
	}
	prefix := r.prefix
	// Only templates of functions tell the type that they return.
	if args && all[last].params && !strings.HasSuffix(prefix, " to ") && !strings.HasSuffix(prefix, " for ") {
		prefix = ""
	}
	bare := prefix
	for _, c := range all[:last] {
		bare += c.empty + "::"
	}
	bare += all[last].name
	if all[last].args {
		bare += "<>"
	}
	one := last
	for one > 0 && all[one].saysNothing() {
		one--
	}
	names := func(from int) string {
		s := prefix
		for i := from; i <= last; i++ {
			if s += all[i].name; i < last {
				s += "::"
			}
		}
		return s
	}
	return []string{emptied, bare, names(max(one-1, 0)), names(one)}
}

// saysNothing is true for closures, in the words of several compilers, and for the operator that everything callable has.
func (c *component) saysNothing() bool {
	if strings.HasPrefix(c.name, "operator") {
		return c.name == "operator()"
	}
	return c.opaque || strings.HasPrefix(c.name, "$_") || strings.HasPrefix(c.name, "'lambda")
}

func lastByte(s string) byte {
	if s == "" {
		return 0
	}
	return s[len(s)-1]
}

func word(c byte) bool {
	return c == '_' || c >= 0x80 || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

func takesArguments(c byte) bool { return word(c) || c == '>' || c == ']' || c == '}' }

// namedGroup tells names in angle brackets, of which text has what follows the first, from arguments.
func namedGroup(text string) bool {
	for _, name := range []string{"impl ", "lambda", "unnamed", "anonymous", "closure"} {
		if strings.HasPrefix(text, name) {
			return true
		}
	}
	return false
}

// isSuffix tells whether text, which begins with a space, is what follows parameters.
func isSuffix(text string) bool {
	for _, s := range []string{" const", " volatile", " &", " noexcept", " [", " (", " ."} {
		if strings.HasPrefix(text, s) {
			return true
		}
	}
	return false
}

// operators with brackets in their names, longer ones first.
func operators() []string {
	return []string{"<=>", "<<=", ">>=", "->*", "()", "[]", "<<", ">>", "<=", ">=", "->", "<", ">"}
}

// operator is the length of the operator's name at i, 0 if there is none. Conversions and those that are words have all up to
// their parameters.
func operator(text string, i int) int {
	const start = "operator"
	if !strings.HasPrefix(text[i:], start) || i > 0 && word(text[i-1]) {
		return 0
	}
	at := i + len(start)
	if at == len(text) || word(text[at]) || text[at] == ':' || text[at] == '.' {
		return 0
	}
	if text[at] == ' ' || text[at] == '"' {
		for at < len(text) && text[at] != '(' {
			if text[at] != '<' && text[at] != '[' {
				at++
				continue
			}
			end := group(text, at)
			if end < 0 {
				return 0
			}
			at = end
		}
		return at - i
	}
	for _, o := range operators() {
		if strings.HasPrefix(text[at:], o) {
			return at + len(o) - i
		}
	}
	for at < len(text) && strings.IndexByte("+-*/%^&|~!=,", text[at]) >= 0 {
		at++
	}
	return at - i
}

// group is where the brackets end that open at i, -1 if they don't. Angle brackets may be comparisons within others.
func group(text string, i int) int {
	var open []byte
	for i < len(text) {
		switch c := text[i]; c {
		case '<', '(', '[', '{':
			open = append(open, c)
		case '>':
			if text[i-1] != '-' && open[len(open)-1] == '<' {
				open = open[:len(open)-1]
			}
		case ')', ']', '}':
			for len(open) > 0 && open[len(open)-1] == '<' {
				open = open[:len(open)-1]
			}
			if len(open) == 0 || open[len(open)-1] != opens(c) {
				return -1
			}
			open = open[:len(open)-1]
		case 'o':
			if n := symbol(text, i); n > 0 {
				i += n
				continue
			}
		}
		if i++; len(open) == 0 {
			return i
		}
	}
	return -1
}

func opens(shut byte) byte {
	switch shut {
	case ')':
		return '('
	case ']':
		return '['
	}
	return '{'
}

// symbol is the length of the operator's name at i if it is one of signs, else 0.
func symbol(text string, i int) int {
	if at := i + len("operator"); at < len(text) && (text[at] == ' ' || text[at] == '"') {
		return 0
	}
	return operator(text, i)
}

// emptied leaves out arguments in angle brackets.
func emptied(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); {
		if n := symbol(text, i); n > 0 {
			b.WriteString(text[i : i+n])
			i += n
			continue
		}
		if text[i] == '<' && i > 0 && (takesArguments(text[i-1]) || text[i-1] == ':') {
			end := group(text, i)
			if end < 0 {
				b.WriteString(text[i:])
				break
			}
			b.WriteString("<>")
			i = end
			continue
		}
		b.WriteByte(text[i])
		i++
	}
	return b.String()
}

// brief is what is in the brackets of a name: types without their qualifiers, lambdas without parameters.
func brief(text string) string {
	text = emptied(text)
	if at := len("lambda"); strings.HasPrefix(text, "lambda(") {
		if end := group(text, at); end > 0 {
			text = "lambda()" + text[end:]
		}
	}
	if !strings.Contains(text, "::") || len(text) > maxBrief {
		return text
	}
	return regexp.MustCompile(`(?:[\w\x{80}-\x{10ffff}]+(?:(?:::)?<>)?::)+([\w\x{80}-\x{10ffff}])`).ReplaceAllString(text, "$1")
}
