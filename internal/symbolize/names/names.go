// Package names turns a symbol table's names into functions for people: demangled, valid UTF-8, bounded in length.
package names

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/ianlancetaylor/demangle"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

const (
	// MaxMangled is the longest name in bytes that is demangled: the demangler's time and depth grow with the length,
	// and names come from files that anyone may have written.
	MaxMangled = 4096
	// maxDemangled is the power of two that bounds a demangled name in bytes: substitutions can double it with every few
	// bytes of the mangled one.
	maxDemangled = 14
	// MaxName is the longest name in bytes that is made: anything can be a name, and they are kept.
	MaxName = 4096

	ellipsis = "…"
	plt      = "@plt"
)

// Clip cuts a name at MaxName bytes, between two characters, and marks the cut with an ellipsis.
func Clip(name string) string { return clip(name, MaxName) }

func clip(name string, limit int) string {
	if len(name) <= limit {
		return name
	}
	end := limit - len(ellipsis)
	for end > 0 && !utf8.RuneStart(name[end]) {
		end--
	}
	return name[:end] + ellipsis
}

// Function returns the function that a symbol of this name stands for. Name is demangled (C++ by the Itanium ABI with
// parameters, Rust in both manglings without the hash, D, Swift, OCaml, Fortran, Pascal, Crystal) and has no symbol version; a name that
// cannot be demangled is left as it is. Bytes that are not UTF-8 become U+FFFD, and what is longer than MaxName is cut.
func Function(symbol string) unwind.Function { return function(symbol, MaxName, 0) }

// FunctionBy is Function for a symbol of a file that has code of these compilers.
func FunctionBy(symbol string, by Compilers) unwind.Function { return function(symbol, MaxName, by) }

func function(symbol string, limit int, by Compilers) unwind.Function {
	symbol = strings.ToValidUTF8(symbol, "\uFFFD")
	base := unversioned(symbol)
	name, ok := demangled(base)
	if !ok {
		name, ok = foreign(base, by)
	}
	if !ok {
		name = base
		if Crystal(base) {
			name = strings.TrimPrefix(base, "*")
		}
	}
	// A length in a mangled name may end within a character.
	name = strings.ToValidUTF8(name, "\uFFFD")
	f := unwind.Function{Name: clip(name, limit)}
	if name != symbol {
		f.SystemName = clip(symbol, limit)
	}
	return f
}

// Scope returns what a function with this linkage name is called in the names of what is in it, as the demangler writes those:
// without the type that it returns. ok is false if the name cannot be demangled, and so may not have all that is around it.
func Scope(linkage string) (name string, ok bool) {
	f := Function(linkage)
	if f.SystemName == "" {
		return "", false
	}
	const inner = "x"
	if _, isRust := rust(linkage); !isRust && strings.HasPrefix(linkage, "_Z") {
		// What is in a function is Z <function's encoding> E <name> (Itanium C++ ABI, section 5.1.6).
		if s, ok := demangled("_ZZ" + linkage[len("_Z"):] + "E1" + inner); ok && strings.HasSuffix(s, "::"+inner) {
			return Clip(strings.ToValidUTF8(strings.TrimSuffix(s, "::"+inner), "\uFFFD")), true
		}
	}
	return f.Name, true
}

// PLT returns the function that stands for a procedure linkage table's stub of the symbol, as disassemblers name it.
func PLT(symbol string) unwind.Function {
	f := function(symbol, MaxName-len(plt), 0)
	f.Name += plt
	if f.SystemName != "" {
		f.SystemName = unversioned(f.SystemName) + plt
	}
	if f.SystemName == f.Name {
		f.SystemName = ""
	}
	return f
}

// unversioned cuts the symbol version that linkers append in .symtab: memcpy@@GLIBC_2.14. Crystal's names are as people write them, but
// for a star before them (~ before those of blocks), and may have an @ of their own (Crystal 1.6, src/compiler/crystal/codegen/types.cr).
func unversioned(symbol string) string {
	if Crystal(symbol) {
		return symbol
	}
	if i := strings.IndexByte(symbol, '@'); i > 0 {
		return symbol[:i]
	}
	return symbol
}

// Crystal tells whether a symbol has the form of Crystal's.
func Crystal(symbol string) bool { return len(symbol) > 1 && (symbol[0] == '*' || symbol[0] == '~') }

// demangled returns false for what is not a mangled name that can be demangled.
func demangled(symbol string) (string, bool) {
	if len(symbol) > MaxMangled || len(symbol) < 3 || symbol[0] != '_' {
		return "", false
	}
	if name, ok := rust(symbol); ok {
		return name, true
	}
	s, err := toString(symbol)
	if err != nil || s == "" {
		return "", false
	}
	return s, true
}

// toString keeps a defect of the demangler from ending the collector: whoever writes a file chooses what it is given.
func toString(symbol string) (s string, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("demangling %q: %v", symbol, r)
		}
	}()
	return demangle.ToString(symbol, demangle.MaxLength(maxDemangled))
}
