package names

import (
	"strconv"
	"strings"
)

const (
	maxDSteps = 20000 // parts of a name that are looked at: back references can multiply them
	maxDDepth = 100
	maxDText  = 1 << maxDemangled
	maxDLooks = 1 << 19 // looks at a character: what reads and gives up may do so again and again
	// maxDModifiers bounds qualifiers, or storage classes, in a row: a name has each of them once.
	maxDModifiers = 8
)

// dlang demangles D's names ("D ABI", section "Name Mangling", dlang.org/spec/abi.html, of D 2.098): the qualified name with the
// parameters of functions, without attributes and results.
func dlang(symbol string) (string, bool) {
	if symbol == "_Dmain" {
		return "D main", true
	}
	rest, prefix := symbol[2:], ""
	// A thunk moves from an interface to the object: _DTi16_ and a whole name (GDC), _DThn16_ and the rest of one (LDC).
	if gdc, ok := strings.CutPrefix(rest, "Ti"); ok {
		_, gdc, _ = strings.Cut(gdc, "_")
		rest, prefix = strings.TrimPrefix(gdc, "D"), "thunk to "
	} else if ldc, ok := strings.CutPrefix(rest, "Thn"); ok {
		_, rest, _ = strings.Cut(ldc, "_")
		prefix = "thunk to "
	}
	d := &dParser{s: rest, dCost: &dCost{}}
	name := d.mangled()
	if d.failed || d.at != len(d.s) || name == "" {
		return "", false
	}
	return prefix + name, true
}

// dCost is what was spent on a name, what came to nothing included.
type dCost struct{ steps, text, looks int }

// dParser reads a mangled name from left to right. After a failure all of it is worthless. A copy of it, which tries something, spends
// of the same.
type dParser struct {
	*dCost
	s      string
	at     int
	depth  int
	failed bool
}

func (d *dParser) fail() string {
	d.failed = true
	return ""
}

// look counts looks, and tells whether there may be any.
func (d *dParser) look(n int) bool {
	if d.looks += n; d.looks > maxDLooks {
		d.failed = true
	}
	return !d.failed
}

func (d *dParser) peek() byte {
	if !d.look(1) || d.at >= len(d.s) {
		return 0
	}
	return d.s[d.at]
}

func (d *dParser) take(prefix string) bool {
	if !d.look(1) || !strings.HasPrefix(d.s[d.at:], prefix) {
		return false
	}
	d.at += len(prefix)
	return true
}

// enter counts a step and a level; leave must follow.
func (d *dParser) enter() bool {
	d.depth++
	if d.steps++; d.steps > maxDSteps || d.depth > maxDDepth || d.text > maxDText {
		d.failed = true
	}
	return !d.failed
}

func (d *dParser) leave() { d.depth-- }

// add bounds what is written.
func (d *dParser) add(parts ...string) string {
	s := strings.Join(parts, "")
	if d.text += len(s); d.text > 16*maxDText || len(s) > maxDText {
		return d.fail()
	}
	return s
}

func (d *dParser) number() int {
	start := d.at
	for digit(d.peek()) && d.at-start < 9 {
		d.at++
	}
	n, err := strconv.Atoi(d.s[start:d.at])
	if err != nil {
		d.failed = true
	}
	return n
}

// mangled is a qualified name and its type, or Z for what has none.
func (d *dParser) mangled() string {
	name := d.qualified(true)
	if !d.take("Z") {
		d.typ() // a function's result, a variable's type
	}
	return name
}

// back reads a back reference and returns the position that it means; negative if there is none.
func (d *dParser) back() int {
	start := d.at - 1 // of Q
	n := 0
	for {
		c := d.peek()
		if c == 0 || n > len(d.s) {
			d.failed = true
			return -1
		}
		d.at++
		if lower(c) {
			n = n*26 + int(c-'a')
			break
		}
		if !upper(c) {
			d.failed = true
			return -1
		}
		n = n*26 + int(c-'A')
	}
	if n <= 0 || n > start {
		d.failed = true
		return -1
	}
	return start - n
}

// follow reads at a back reference's place with f.
func (d *dParser) follow(f func() string) string {
	to := d.back()
	if d.failed {
		return ""
	}
	after := d.at
	d.at = to
	s := f()
	d.at = after
	return s
}

// symbolNext tells whether a part of a qualified name is next.
func (d *dParser) symbolNext() bool {
	c := d.peek()
	if digit(c) {
		return true
	}
	if c == '_' {
		return strings.HasPrefix(d.s[d.at:], "__T") || strings.HasPrefix(d.s[d.at:], "__U")
	}
	if c != 'Q' {
		return false
	}
	// A back reference is one to an identifier if that is where it points to; else it is a type's.
	look := *d
	look.at++
	to := look.back()
	return !look.failed && digit(d.s[to])
}

func (d *dParser) qualified(modifiers bool) string {
	defer d.leave()
	if !d.enter() {
		return ""
	}
	name := ""
	for first := true; first || d.symbolNext(); first = false {
		if d.take("0") {
			continue // anonymous
		}
		part := d.symbol()
		if d.failed {
			return ""
		}
		if name != "" {
			name = d.add(name, ".", part)
		} else {
			name = part
		}
		if c := d.peek(); c == 'M' || dCall(c) {
			// A function, with the type of this and its parameters; else it is the name's type that begins here.
			tried := *d
			qualifier := ""
			if tried.take("M") {
				qualifier = tried.qualifiers()
			}
			if args := tried.function(); !tried.failed && tried.at < len(tried.s) {
				name += args
				if modifiers {
					name += qualifier
				}
				*d = tried
			}
		}
	}
	return name
}

// symbol is a part of a qualified name.
func (d *dParser) symbol() string {
	if d.take("Q") {
		return d.follow(d.symbol)
	}
	if d.take("__T") || d.take("__U") {
		return d.template()
	}
	n := d.number()
	if d.failed || n == 0 || n > len(d.s)-d.at {
		return d.fail()
	}
	if end := d.at + n; strings.HasPrefix(d.s[d.at:], "__T") || strings.HasPrefix(d.s[d.at:], "__U") {
		d.at += 3
		name := d.template()
		if d.at != end {
			return d.fail()
		}
		return name
	}
	name := d.s[d.at : d.at+n]
	d.at += n
	switch name {
	case "__ctor":
		return "this"
	case "__dtor":
		return "~this"
	case "__postblit":
		return "this(this)"
	}
	return name
}

// template is an instance, behind its mark.
func (d *dParser) template() string {
	defer d.leave()
	if !d.enter() {
		return ""
	}
	name := d.symbol()
	var args []string
	for !d.failed && !d.take("Z") {
		d.take("H") // a specialised parameter
		switch {
		case d.take("T"):
			args = append(args, d.typ())
		case d.take("V"):
			kind := d.peek()
			typ := d.typ()
			args = append(args, d.value(kind, typ))
		case d.take("S"):
			args = append(args, d.templateSymbol())
		case d.take("X"):
			n := d.number()
			if d.failed || n > len(d.s)-d.at {
				return d.fail()
			}
			args = append(args, d.s[d.at:d.at+n])
			d.at += n
		default:
			return d.fail()
		}
	}
	return d.add(name, "!(", strings.Join(args, ", "), ")")
}

// templateSymbol is a symbol as an argument: a qualified name, or a whole mangled one.
func (d *dParser) templateSymbol() string {
	if d.take("_D") {
		return d.mangled()
	}
	// Before back references were, the name's length stood before it.
	old := *d
	if digit(old.peek()) {
		n := old.number()
		if end := old.at + n; !old.failed && end <= len(old.s) {
			if old.s = old.s[:end]; old.take("_D") {
				name := old.mangled()
				if !old.failed && old.at == end {
					old.s = d.s
					*d = old
					return name
				}
			}
		}
	}
	return d.qualified(false)
}

func dCall(c byte) bool { return c == 'F' || c == 'U' || c == 'W' || c == 'R' || c == 'Y' }

// function is a calling convention, attributes and parameters; what follows is the result. It returns the parameters.
func (d *dParser) function() string {
	if !dCall(d.peek()) {
		return d.fail()
	}
	d.at++
	for d.peek() == 'N' && d.at+1 < len(d.s) && strings.IndexByte("abcdefijlm", d.s[d.at+1]) >= 0 {
		d.at += 2
	}
	var args []string
	for !d.failed {
		switch {
		case d.take("X"):
			return d.add("(", strings.Join(args, ", "), "...)")
		case d.take("Y"):
			return d.add("(", strings.Join(append(args, "..."), ", "), ")")
		case d.take("Z"):
			return d.add("(", strings.Join(args, ", "), ")")
		}
		args = append(args, d.parameter())
	}
	return ""
}

func (d *dParser) parameter() string {
	storage := ""
	for range maxDModifiers {
		switch {
		case d.take("M"):
			storage += "scope "
		case d.take("Nk"):
			storage += "return "
		case d.take("I"):
			storage += "in "
		case d.take("J"):
			return storage + "out " + d.typ()
		case d.take("K"):
			storage += "ref "
		case d.take("L"):
			return storage + "lazy " + d.typ()
		default:
			return storage + d.typ()
		}
	}
	return d.fail()
}

// qualifiers are those of a method's this.
func (d *dParser) qualifiers() string {
	q := ""
	for range maxDModifiers {
		switch {
		case d.take("x"):
			q += " const"
		case d.take("y"):
			q += " immutable"
		case d.take("O"):
			q += " shared"
		case d.take("Ng"):
			q += " inout"
		default:
			return q
		}
	}
	return d.fail()
}
