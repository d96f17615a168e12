// Package symbolize turns addresses of an executable into functions and lines: Go code by its pc-line table, other code
// by symbol tables. Kernel addresses are the concern of kallsyms.
package symbolize

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/hostprofiles/hostprofiles/internal/symbolize/elfsym"
	"github.com/hostprofiles/hostprofiles/internal/symbolize/names"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
	"github.com/hostprofiles/hostprofiles/internal/unwind/functions"
	"github.com/hostprofiles/hostprofiles/internal/unwind/gopclntab"
)

// The kinds of native frames, as the attribute profile.frame.type has them (OpenTelemetry semantic conventions 1.38).
const (
	KindNative = "native"
	KindGo     = "go"
	KindRust   = "rust"
)

// Symbolizer names the addresses of one executable. It is for one goroutine at a time, holds no lock and no state outside
// itself, so a goroutine that hangs in a read of the file hinders nobody.
type Symbolizer struct {
	golang         *gopclntab.Table // nil if it is not Go
	goFrom, goUpTo unwind.FileAddr
	symbols        *elfsym.Table
	functions      *functions.Finder

	strings Strings

	// The last answer, since FrameKind is asked for the same address as Lookup.
	last     unwind.FileAddr
	lastKind string
}

// New reads f's tables. The Symbolizer is never nil: an error, which joins all that went wrong, says what it will not
// find. That a file has no symbols is no error. f's reader must stay open as long as the Symbolizer is used.
func New(f *elffile.File) (*Symbolizer, error) {
	s := &Symbolizer{}
	var opts elfsym.Options
	golang, goErr := gopclntab.Find(f)
	switch {
	case goErr == nil:
		s.golang = golang
		s.goFrom, s.goUpTo = golang.Text()
		opts.Except = [2]unwind.FileAddr{s.goFrom, s.goUpTo}
	case errors.Is(goErr, gopclntab.ErrNotGo):
		goErr = nil
	default:
		goErr = fmt.Errorf("reading Go's pc-line table: %w", goErr)
	}
	var err, functionsErr error
	s.symbols, err = elfsym.Load(f, opts)
	s.functions, functionsErr = functions.New(f)
	return s, errors.Join(goErr, err, functionsErr)
}

// HasSymbols tells whether Lookup can find anything.
func (s *Symbolizer) HasSymbols() bool { return s.golang != nil || s.symbols.Len() > 0 }

// Bytes is about the memory that the Symbolizer holds, with all names that Lookup returned.
func (s *Symbolizer) Bytes() int {
	n := int(unsafe.Sizeof(*s)) + s.symbols.Bytes() + s.strings.Bytes() + s.functions.Bytes()
	if s.golang != nil {
		n += s.golang.Bytes()
	}
	return n
}

// LineBytes is the memory that a result of Lookup takes, but for its names: those are the Symbolizer's, and in its Bytes.
func LineBytes(lines []unwind.Line) int { return cap(lines) * int(unsafe.Sizeof(unwind.Line{})) }

// Lookup appends the places that the instruction at a stands for, innermost first; nothing if no symbol covers it. Only
// Go code has lines and inlined calls, of which there are at most 63. Names have at most names.MaxName bytes, and each is
// in memory once. An error is one of reading the file, or ErrTooManyNames.
func (s *Symbolizer) Lookup(dst []unwind.Line, a unwind.FileAddr) ([]unwind.Line, error) {
	if s.golang != nil && a >= s.goFrom && a < s.goUpTo {
		before := len(dst)
		lines, ok := s.golang.Lookup(dst, a)
		if ok && len(lines) > before {
			s.last, s.lastKind = a, KindGo
			// The Go linker's table has other functions too if it linked them itself; they have no file.
			if f := &lines[len(lines)-1].Function; f.File == "" {
				s.lastKind = KindOf(*f)
				*f = names.Function(linkage(*f))
			}
			return s.keep(lines, before)
		}
	}
	symbol, ok, err := s.symbols.Symbol(a)
	if err != nil {
		return dst, err
	}
	s.last, s.lastKind = a, KindNative
	if !ok {
		return dst, nil
	}
	if !symbol.PLT && names.IsRust(symbol.Name) {
		s.lastKind = KindRust
	}
	return s.keep(append(dst, unwind.Line{Function: symbol.Function()}), len(dst))
}

// Function returns where the function around a begins, for code without a symbol: the address at which its entry in the unwind
// information does, or, once ListFunctions was called, which the code itself tells. ok is false if that is not known. An error
// is one of reading the file.
func (s *Symbolizer) Function(a unwind.FileAddr) (start unwind.FileAddr, ok bool, err error) {
	return s.functions.Find(a)
}

// FunctionsListed tells whether ListFunctions was called: what Function does not find before, it may find then.
func (s *Symbolizer) FunctionsListed() bool { return s.functions.Listed() }

// FunctionsUnlisted has FunctionsListed say no again, as ListFunctions had not enough room to finish and is to be called again. What
// it found stays.
func (s *Symbolizer) FunctionsUnlisted() { s.functions.Unlisted() }

// ListFunctions goes through all of the file for the functions that its search table lacks. f is the file that New was given,
// with a Budget for it. An error says what will not be found.
func (s *Symbolizer) ListFunctions(f *elffile.File) error { return s.functions.List(f) }

// keep makes the names of the lines from first on the Symbolizer's.
func (s *Symbolizer) keep(lines []unwind.Line, first int) ([]unwind.Line, error) {
	if err := s.strings.Keep(lines[first:]); err != nil {
		clear(lines[first:])
		return lines[:first], err
	}
	return lines, nil
}

// KindOf tells what made a native function, by its name: KindRust or KindNative.
func KindOf(f unwind.Function) string {
	if names.IsRust(linkage(f)) {
		return KindRust
	}
	return KindNative
}

// linkage is the function's name in the file.
func linkage(f unwind.Function) string {
	if f.SystemName != "" {
		return f.SystemName
	}
	return f.Name
}

// FrameKind tells what made the code at a: KindGo for functions of Go's text with a file, KindRust if a name that the Rust compiler
// made covers it, else KindNative. It costs nothing right after Lookup of the same address.
func (s *Symbolizer) FrameKind(a unwind.FileAddr) string {
	if s.lastKind == "" || s.last != a {
		s.last, s.lastKind = a, KindNative
		if _, err := s.Lookup(nil, a); err != nil {
			return KindNative // not known is native
		}
	}
	return s.lastKind
}
