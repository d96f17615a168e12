package names

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Compilers is a set of compilers whose linkage names look like anyone's: they are undone only in files that are known to have
// code of theirs.
type Compilers uint8

const (
	GHC Compilers = 1 << iota
	GNAT
	Nim
)

// Suspects returns the compilers of which the symbol may be.
func Suspects(symbol string) Compilers {
	var c Compilers
	if strings.HasSuffix(symbol, "_info") {
		c |= GHC
	}
	if strings.HasPrefix(symbol, "_ada_") {
		return c | GNAT
	}
	if i := strings.Index(symbol, "__"); i > 0 {
		c |= GNAT | Nim
	}
	return c
}

// foreign undoes the encodings of languages other than C++ and Rust.
func foreign(symbol string, by Compilers) (string, bool) {
	if len(symbol) < 3 || len(symbol) > MaxMangled {
		return "", false
	}
	base, clone := cutClone(symbol)
	name, ok := "", false
	switch {
	case symbol[0] == '_' && (symbol[1] == 'D' || symbol[1] == 'Q'):
		if name, ok = dlang(base); !ok {
			name, ok = flang(base)
		}
	case strings.HasPrefix(symbol, "$s"), strings.HasPrefix(symbol, "$S"), strings.HasPrefix(symbol, "_$s"), strings.HasPrefix(symbol, "_$S"),
		strings.HasPrefix(symbol, "_T0"):
		return swift(symbol)
	case strings.HasPrefix(base, "caml"):
		return ocaml(symbol)
	case strings.HasPrefix(base, "__"):
		name, ok = gfortran(base)
	case strings.Contains(base, "_$$_"):
		return pascal(symbol)
	default:
		if by&GHC != 0 && strings.HasSuffix(base, "_info") {
			name, ok = haskell(base)
		}
		if !ok && by&Nim != 0 && strings.Contains(base, "__") {
			name, ok = nim(base)
		}
		if !ok && by&GNAT != 0 {
			name, ok = ada(base)
		}
	}
	if !ok || name == "" || !utf8.ValidString(name) {
		return "", false
	}
	return name + clone, true
}

// cutClone takes off what GCC appends to say what it made of a function (.constprop.0, .part.3, .cold), and returns that for people.
func cutClone(symbol string) (base, clone string) {
	if i := strings.IndexByte(symbol, '.'); i > 0 && gccSuffix(symbol[i:]) {
		return symbol[:i], " [clone " + symbol[i:] + "]"
	}
	return symbol, ""
}

func gccSuffix(s string) bool {
	for _, p := range []string{".constprop.", ".part.", ".isra.", ".cold", ".lto_priv.", ".localalias"} {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return false
}

func upper(c byte) bool { return c >= 'A' && c <= 'Z' }
func lower(c byte) bool { return c >= 'a' && c <= 'z' }
func digit(c byte) bool { return c >= '0' && c <= '9' }

func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// ocaml undoes what asmcomp/compilenv.ml and backend/asm_targets (OCaml 4.13), and utils/symbol.ml (5.1 and newer) do:
// caml, the compilation unit with its parts joined by two underscores, two underscores or a dot, the function, an underscore and its
// stamp, which another build has another of; other characters than letters, digits and underscores are $ and two hexadecimal digits.
func ocaml(symbol string) (string, bool) {
	rest := symbol[len("caml"):]
	if rest == "" || !upper(rest[0]) {
		return "", false
	}
	unit, name, dotted := strings.Cut(rest, ".")
	if !dotted {
		// Units begin with a capital letter, functions do not.
		parts := strings.Split(rest, "__")
		n := 1
		for n < len(parts)-1 && parts[n] != "" && upper(parts[n][0]) {
			n++
		}
		if n >= len(parts) {
			return "", false
		}
		unit, name = strings.Join(parts[:n], "__"), strings.Join(parts[n:], "__")
	}
	if i := strings.LastIndexByte(name, '_'); i > 0 && digits(name[i+1:]) && name[:i] != "fun" {
		name = name[:i] // functions without a name have nothing but their stamps
	}
	name, ok := hexEscapes(name, '$')
	if !ok || name == "" {
		return "", false
	}
	return strings.ReplaceAll(unit, "__", ".") + "." + name, true
}

// hexEscapes undoes a mark and two hexadecimal digits for a character.
func hexEscapes(s string, mark byte) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != mark {
			b.WriteByte(s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", false
		}
		c, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
		if err != nil || c < ' ' {
			return "", false
		}
		b.WriteByte(byte(c))
		i += 2
	}
	return b.String(), true
}

// gfortran: __MODULE_MOD_PROCEDURE (GCC 12, fortran/trans-decl.cc, gfc_sym_mangled_function_id).
func gfortran(symbol string) (string, bool) {
	module, name, ok := strings.Cut(symbol[2:], "_MOD_")
	if !ok || module == "" || name == "" || !lower(module[0]) {
		return "", false
	}
	return module + "::" + name, true
}

// flang: _Q, then M and a module, S and a submodule, F and a host procedure, P and the procedure (LLVM, flang/docs/BijectiveInternalNameUniquing.md).
// Names are lower-case.
func flang(symbol string) (string, bool) {
	if symbol == "_QQmain" {
		return "main program", true
	}
	if !strings.HasPrefix(symbol, "_Q") {
		return "", false
	}
	var parts []string
	for s := symbol[2:]; s != ""; {
		kind, end := s[0], 1
		for end < len(s) && !upper(s[end]) {
			end++
		}
		if !strings.ContainsRune("MSFP", rune(kind)) || end == 1 || kind == 'P' && end != len(s) {
			return "", false
		}
		parts = append(parts, s[1:end])
		if s = s[end:]; s == "" && kind != 'P' {
			return "", false
		}
	}
	return strings.Join(parts, "::"), len(parts) > 0
}

// pascal: UNIT_$$_PROCEDURE$ARGUMENT$ARGUMENT$$RESULT; a method has UNIT$_$CLASS_$_ before it, a nested procedure UNIT_$_OUTER, and a
// program's unit is P$NAME (Free Pascal 3.2, compiler/symdef.pas and symbase.pas: mangledname and make_mangledname).
func pascal(symbol string) (string, bool) {
	i := strings.LastIndex(symbol, "_$$_")
	if i <= 0 {
		return "", false
	}
	var scopes []string
	for _, s := range strings.Split(strings.ReplaceAll(strings.TrimPrefix(symbol[:i], "P$"), "$_$", "_$_"), "_$_") {
		if s, _, _ = strings.Cut(s, "$"); s != "" {
			scopes = append(scopes, s)
		}
	}
	signature, result, isFunction := strings.Cut(symbol[i+len("_$$_"):], "$$")
	parts := strings.Split(signature, "$")
	if len(scopes) == 0 || parts[0] == "" {
		return "", false
	}
	name := strings.Join(append(scopes, parts[0]), ".") + "("
	if args := generics(parts[1:]); len(args) > 0 && !strings.HasPrefix(args[0], "crc") { // a hash stands in for a long list
		name += strings.Join(args, ", ")
	}
	name = strings.ReplaceAll(name, "(, ", "(") + ")"
	if isFunction && result != "" {
		name += ": " + result
	}
	return name, true
}

// generics leaves out what follows the name of a specialized generic type: the number of its parameters, and CRC and a hash of them.
func generics(args []string) (kept []string) {
	for i := 0; i < len(args); i++ {
		if i > 0 && i+1 < len(args) && digits(args[i]) && len(args[i+1]) == len("CRC")+8 && strings.HasPrefix(args[i+1], "CRC") {
			i++
			continue
		}
		kept = append(kept, args[i])
	}
	return kept
}
