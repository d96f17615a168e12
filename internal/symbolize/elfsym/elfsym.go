// Package elfsym names addresses by an ELF file's symbol tables: .symtab, .dynsym, the .symtab inside .gnu_debugdata,
// and the stubs of the procedure linkage table.
//
// A Table holds 16 bytes for each function and no names: those are read from the file when they are asked for. An
// address gets a name only if a symbol covers it; what lies between functions has none.
//
// Of several symbols for the same code the first of these wins: one with a size, a global or weak one over a local one,
// fewer leading underscores, global over weak, the shorter name, the one that sorts first. So libc's write is "write", not
// "__libc_write". A symbol inside another's range wins there, unless it has no size.
//
// Layouts: System V gABI 4.3 draft (2024), chapters "Symbol Table" and "Relocation"; psABI x86-64 1.0; "ELF for the Arm
// 64-bit Architecture" 2024Q3.
package elfsym

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"
	"unsafe"

	"github.com/hostprofiles/hostprofiles/internal/symbolize/names"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

const (
	defaultMaxSymbols = 4 << 20

	maxScanned   = 32 << 20 // entries of one symbol table that are looked at: a sparse file costs its author nothing
	maxAliases   = 16       // symbols kept for one address
	maxNameBytes = 64 << 10 // of one symbol
)

// ErrTruncated: the file has more symbols than Options allow; the table has as many as they do.
var ErrTruncated = errors.New("too many symbols")

// Options bound what Load takes. Zero values mean the defaults.
type Options struct {
	MaxSymbols int // functions kept; 4 Mi

	// Except is a range [0], [1) of addresses whose symbols are left out, since the caller has better ones.
	Except [2]unwind.FileAddr
}

// Table finds symbols by address. It is for one goroutine at a time.
type Table struct {
	rows    []row           // sorted by address
	resumes []resume        // sorted by address
	code    []unwind.Extent // executable sections, sorted, disjoint

	tabs      [3]stringTable    // by source
	resolvers []unwind.FileAddr // of IFUNCs that only a PLT stub refers to
	debugData []byte            // names from .gnu_debugdata
	skipped   int               // symbols beyond the limits

	evidence names.Evidence
	searched bool // for the evidence

	buf []byte
}

// stringTable is a section of NUL-terminated names in a file.
type stringTable struct {
	r    io.ReaderAt
	off  int64
	size int64
}

// Symbol is what covers an address.
type Symbol struct {
	Name string // as the symbol table has it
	PLT  bool   // the address is in a stub that calls the function of that name
	// By are the compilers, among those whose names look like anyone's, that made this one by all that is known.
	By names.Compilers
}

// Function is the function that the symbol stands for, demangled.
func (s Symbol) Function() unwind.Function {
	if s.PLT {
		return names.PLT(s.Name)
	}
	return names.FunctionBy(s.Name, s.By)
}

// Load reads the symbol tables of f. The Table is never nil: an error, which joins all that went wrong, says which part
// of it is missing. A file without symbols is no error. f's reader is used by later lookups.
func Load(f *elffile.File, opts Options) (*Table, error) {
	if opts.MaxSymbols <= 0 {
		opts.MaxSymbols = defaultMaxSymbols
	}
	t := &Table{code: f.CodeExtents()}
	l := loader{t: t, f: f, opts: opts}
	var errs []error
	add := func(what string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("reading %s: %w", what, err))
		}
	}
	add(".symtab", l.symtab())
	dyn, err := l.dynsym()
	add(".dynsym", err)
	add(".gnu_debugdata", l.gnuDebugData())
	add("procedure linkage table", l.plt(dyn))
	if t.skipped > 0 {
		errs = append(errs, fmt.Errorf("%d symbols left out: %w", t.skipped, ErrTruncated))
	}
	t.build(l.rows)
	return t, errors.Join(errs...)
}

// Len is the number of symbols in the table.
func (t *Table) Len() int { return len(t.rows) }

// Skipped is the number of symbols that did not fit the limits.
func (t *Table) Skipped() int { return t.skipped }

// Bytes is the memory that the table holds.
func (t *Table) Bytes() int {
	return int(unsafe.Sizeof(*t)) + cap(t.rows)*int(unsafe.Sizeof(row{})) + cap(t.resumes)*int(unsafe.Sizeof(resume{})) +
		cap(t.code)*int(unsafe.Sizeof(unwind.Extent{})) + cap(t.resolvers)*8 + cap(t.debugData) + cap(t.buf) + t.evidence.Bytes()
}

// Lookup appends the function that covers a, with its name demangled; false if no symbol does. An error is one of reading
// the file. There is no line and no file name: symbol tables have none.
func (t *Table) Lookup(dst []unwind.Line, a unwind.FileAddr) ([]unwind.Line, bool, error) {
	s, ok, err := t.Symbol(a)
	if !ok || err != nil {
		return dst, false, err
	}
	return append(dst, unwind.Line{Function: s.Function()}), true, nil
}

// Symbol returns the symbol that covers a; false if none does. An error is one of reading its name from the file.
func (t *Table) Symbol(a unwind.FileAddr) (Symbol, bool, error) {
	return t.symbol(a, true)
}

func (t *Table) symbol(a unwind.FileAddr, follow bool) (best Symbol, ok bool, err error) {
	var bestRow row
	for _, r := range t.group(uint64(a)) {
		if !t.covers(r, uint64(a)) {
			continue
		}
		s, found, e := t.name(r, follow)
		if e != nil {
			err = e
			continue
		}
		if found && (!ok || better(r, s.Name, bestRow, best.Name)) {
			best, bestRow, ok = s, r, true
		}
	}
	if ok {
		best.By = t.by(best.Name)
		return best, true, nil
	}
	if err != nil {
		err = fmt.Errorf("reading the name of the symbol at %#x: %w", uint64(a), err)
	}
	return Symbol{}, false, err
}

// group returns the symbols that start where the innermost one that may cover a does.
func (t *Table) group(a uint64) []row {
	end := sort.Search(len(t.rows), func(i int) bool { return t.rows[i].addr > a })
	k := sort.Search(len(t.resumes), func(i int) bool { return t.resumes[i].addr > a })
	if k > 0 && (end == 0 || t.resumes[k-1].addr > t.rows[end-1].addr) {
		end = int(t.resumes[k-1].row) + 1
		for end < len(t.rows) && t.rows[end].addr == t.rows[end-1].addr {
			end++
		}
	}
	start := end
	for start > 0 && t.rows[start-1].addr == t.rows[end-1].addr {
		start--
	}
	return t.rows[start:end]
}

func (t *Table) covers(r row, a uint64) bool {
	c, ok := t.codeAt(r.addr)
	return ok && a < r.end(c)
}

// codeAt returns the executable section around an address.
func (t *Table) codeAt(a uint64) (unwind.Extent, bool) {
	i := sort.Search(len(t.code), func(i int) bool { return uint64(t.code[i].End) > a })
	if i == len(t.code) || uint64(t.code[i].Start) > a {
		return unwind.Extent{}, false
	}
	return t.code[i], true
}

// better compares two symbols for the same code; the order of the package comment, less what build has settled.
func better(a row, aName string, b row, bName string) bool {
	if x, y := a.bind() != bindLocal, b.bind() != bindLocal; x != y {
		return x
	}
	aFull, bFull := aName, bName
	aName, _, _ = strings.Cut(aName, "@")
	bName, _, _ = strings.Cut(bName, "@")
	if aName == bName && names.Crystal(aName) {
		return len(aFull) > len(bFull) // linkers take what is behind an @ of Crystal's own for a version, and .dynsym is without it
	}
	if x, y := underscores(aName), underscores(bName); x != y {
		return x < y
	}
	if a.bind() != b.bind() {
		return a.bind() > b.bind()
	}
	if len(aName) != len(bName) {
		return len(aName) < len(bName)
	}
	return aName < bName
}

func underscores(s string) int { return len(s) - len(strings.TrimLeft(s, "_")) }

// name reads a row's name; found is false if it is empty.
func (t *Table) name(r row, follow bool) (s Symbol, found bool, err error) {
	if r.source() == sourceResolver {
		// The stub of an IFUNC without a name of its own is called after the resolver; it is a stub no more than once.
		if !follow || int(r.ref) >= len(t.resolvers) {
			return Symbol{}, false, nil
		}
		s, found, err = t.symbol(t.resolvers[r.ref], false)
		s.PLT = true
		return s, found, err
	}
	s.Name, err = t.str(&t.tabs[r.source()], int64(r.ref))
	s.PLT = r.plt()
	return s, s.Name != "", err
}

// str reads the string at off, at most maxNameBytes of it.
func (t *Table) str(tab *stringTable, off int64) (string, error) {
	for n := int64(256); ; n *= 16 {
		n = min(n, maxNameBytes, tab.size-off)
		if n <= 0 {
			return "", nil
		}
		t.buf = slices.Grow(t.buf[:0], int(n))[:n]
		if err := readFull(tab.r, t.buf, tab.off+off); err != nil {
			return "", err
		}
		if i := bytes.IndexByte(t.buf, 0); i >= 0 {
			return string(t.buf[:i]), nil
		}
		if n == maxNameBytes || n == tab.size-off {
			return string(t.buf), nil
		}
	}
}

func readFull(r io.ReaderAt, b []byte, off int64) error {
	n, err := r.ReadAt(b, off)
	if n == len(b) {
		return nil
	}
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return err
}
