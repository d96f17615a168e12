package names

import (
	"strconv"
	"strings"
)

// typ is a type.
func (d *dParser) typ() string {
	defer d.leave()
	if !d.enter() || d.at >= len(d.s) {
		return d.fail()
	}
	for _, m := range []struct{ code, name string }{
		{"O", "shared"}, {"x", "const"}, {"y", "immutable"}, {"Ng", "inout"}, {"Nh", "__vector"},
	} {
		if d.take(m.code) {
			return d.add(m.name, "(", d.typ(), ")")
		}
	}
	if d.take("Nn") {
		return "typeof(*null)"
	}
	c := d.s[d.at]
	if dCall(c) {
		return d.functionType("function")
	}
	d.at++
	switch c {
	case 'A':
		return d.add(d.typ(), "[]")
	case 'G':
		n := d.number()
		return d.add(d.typ(), "[", strconv.Itoa(n), "]")
	case 'H':
		key := d.typ()
		return d.add(d.typ(), "[", key, "]")
	case 'P':
		if dCall(d.peek()) {
			return d.functionType("function")
		}
		return d.add(d.typ(), "*")
	case 'D':
		q := d.qualifiers()
		if d.take("Q") {
			return d.follow(func() string { return d.functionType("delegate") }) + q
		}
		return d.functionType("delegate") + q
	case 'C', 'S', 'E', 'T', 'I':
		return d.qualified(false)
	case 'B':
		return d.tuple()
	case 'Q':
		return d.follow(d.typ)
	case 'z':
		if d.take("i") {
			return "cent"
		}
		if d.take("k") {
			return "ucent"
		}
	}
	if name, ok := dBasic(c); ok {
		return name
	}
	return d.fail()
}

func dBasic(c byte) (string, bool) {
	switch c {
	case 'v':
		return "void", true
	case 'g':
		return "byte", true
	case 'h':
		return "ubyte", true
	case 's':
		return "short", true
	case 't':
		return "ushort", true
	case 'i':
		return "int", true
	case 'k':
		return "uint", true
	case 'l':
		return "long", true
	case 'm':
		return "ulong", true
	case 'f':
		return "float", true
	case 'd':
		return "double", true
	case 'e':
		return "real", true
	case 'o':
		return "ifloat", true
	case 'p':
		return "idouble", true
	case 'j':
		return "ireal", true
	case 'q':
		return "cfloat", true
	case 'r':
		return "cdouble", true
	case 'c':
		return "creal", true
	case 'b':
		return "bool", true
	case 'a':
		return "char", true
	case 'u':
		return "wchar", true
	case 'w':
		return "dchar", true
	case 'n':
		return "typeof(null)", true
	}
	return "", false
}

func (d *dParser) functionType(keyword string) string {
	args := d.function()
	return d.add(d.typ(), " ", keyword, args)
}

func (d *dParser) tuple() string {
	n := d.number()
	var types []string
	for range n {
		if d.failed {
			return ""
		}
		types = append(types, d.typ())
	}
	return d.add("Tuple!(", strings.Join(types, ", "), ")")
}

// value is a template's argument of a type: kind is the type's first character.
func (d *dParser) value(kind byte, typ string) string {
	defer d.leave()
	if !d.enter() {
		return ""
	}
	c := d.peek()
	switch {
	case digit(c):
		return dInteger(kind, strconv.Itoa(d.number()))
	case c == 0:
		return d.fail()
	}
	d.at++
	switch c {
	case 'n':
		return "null"
	case 'i':
		return dInteger(kind, d.digits())
	case 'N':
		return "-" + dInteger(kind, d.digits())
	case 'e':
		return d.real()
	case 'c':
		re := d.real()
		if !d.take("c") {
			return d.fail()
		}
		return d.add(re, "+", d.real(), "i")
	case 'a', 'w', 'd':
		return d.stringValue(c)
	case 'A':
		return d.add("[", d.values(kind == 'H'), "]")
	case 'S':
		return d.add(typ, "(", d.values(false), ")")
	case 'f':
		if d.take("_D") {
			return d.mangled()
		}
	}
	return d.fail()
}

// values are those of an array, of an associative one, or of a struct.
func (d *dParser) values(pairs bool) string {
	var all []string
	for range d.number() {
		if d.failed {
			return ""
		}
		v := d.value(0, "")
		if pairs {
			v += ":" + d.value(0, "")
		}
		all = append(all, v)
	}
	return d.add(strings.Join(all, ", "))
}

func (d *dParser) digits() string {
	start := d.at
	for digit(d.peek()) {
		d.at++
	}
	if start == d.at {
		return d.fail()
	}
	return d.s[start:d.at]
}

// dInteger writes an integer as a literal of its type.
func dInteger(kind byte, digits string) string {
	n, err := strconv.ParseUint(digits, 10, 64)
	switch {
	case kind == 'b' && err == nil:
		return strconv.FormatBool(n != 0)
	case (kind == 'a' || kind == 'u' || kind == 'w') && err == nil && n >= ' ' && n < 0x7f:
		return "'" + string(rune(n)) + "'"
	case kind == 'h' || kind == 't' || kind == 'k':
		return digits + "u"
	case kind == 'l':
		return digits + "L"
	case kind == 'm':
		return digits + "uL"
	}
	return digits
}

// real is a floating point number in hexadecimal.
func (d *dParser) real() string {
	switch {
	case d.take("NAN"):
		return "NaN"
	case d.take("INF"):
		return "Inf"
	case d.take("NINF"):
		return "-Inf"
	}
	sign := ""
	if d.take("N") {
		sign = "-"
	}
	start := d.at
	for c := d.peek(); digit(c) || c >= 'A' && c <= 'F'; c = d.peek() {
		d.at++
	}
	mantissa := d.s[start:d.at]
	if mantissa == "" || !d.take("P") {
		return d.fail()
	}
	exponent := ""
	if d.take("N") {
		exponent = "-"
	}
	exponent += d.digits()
	return d.add(sign, "0x", mantissa[:1], ".", mantissa[1:], "p", exponent)
}

// stringValue is a string literal: its length, an underscore, and two hexadecimal digits for each byte.
func (d *dParser) stringValue(width byte) string {
	n := d.number()
	if !d.take("_") || n > (len(d.s)-d.at)/2 || !d.look(n) {
		return d.fail()
	}
	var b strings.Builder
	for range n {
		c, err := strconv.ParseUint(d.s[d.at:d.at+2], 16, 8)
		if err != nil {
			return d.fail()
		}
		d.at += 2
		b.WriteByte(byte(c))
	}
	suffix := ""
	if width != 'a' {
		suffix = string(width)
	}
	return d.add(strings.ToValidUTF8(strconv.Quote(b.String()), "\uFFFD"), suffix)
}
