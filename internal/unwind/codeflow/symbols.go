package codeflow

import (
	"bytes"
	"cmp"
	"debug/elf"
	"slices"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

const (
	// maxName is how much of a symbol's name is looked at.
	maxName = 256
	// namesRead is how much of the names is read at a time, and maxNamesRead how often: a linker writes most names in the order of
	// their symbols.
	namesRead    = 4 << 10
	maxNamesRead = 1 << 16
	symbolsRead  = 2048 * elffile.SymbolSize
)

// symbols takes the starts of functions from a symbol table, but not those of parts that the compiler moved away, which
// are entered with their function's frame (gcc's f.cold). Table and names are read in pieces: programs have many megabytes of them.
func (a *analyzer) symbols(s *elffile.Section) {
	if s.Size > maxSymbols || uint64(s.Link) >= uint64(len(a.f.Sections)) {
		return // what is not known from symbols may be known from calls
	}
	names := names{f: a.f, s: &a.f.Sections[s.Link]}
	buf := make([]byte, min(symbolsRead, s.Size/elffile.SymbolSize*elffile.SymbolSize))
	for off := uint64(0); off+elffile.SymbolSize <= s.Size; off += uint64(len(buf)) {
		b := buf[:min(uint64(len(buf)), (s.Size-off)/elffile.SymbolSize*elffile.SymbolSize)]
		if a.f.ReadSection(b, s, off) != nil {
			return
		}
		for ; len(b) >= elffile.SymbolSize; b = b[elffile.SymbolSize:] {
			sym := elffile.ParseSymbol(b)
			if sym.Type != elf.STT_FUNC || sym.Section == elf.SHN_UNDEF || a.region(sym.Value) == nil {
				continue
			}
			a.extent(sym)
			name, err := names.at(uint64(sym.Name))
			if err != nil {
				return
			}
			if !bytes.Contains(name, []byte(".cold")) {
				a.start(sym.Value)
			}
		}
	}
}

// start notes a function's start that is known.
func (a *analyzer) start(at unwind.FileAddr) {
	if r := a.region(at); r != nil {
		r.start[at-r.at] = true
	}
}

// extent notes how far the function of a symbol goes.
func (a *analyzer) extent(sym elffile.Symbol) {
	x := unwind.Extent{Start: sym.Value, End: sym.Value + unwind.FileAddr(sym.Size)}
	if x.End <= x.Start {
		return
	}
	if len(a.extents) == cap(a.extents) {
		n := max(64, 2*uint64(len(a.extents)))
		if !a.take(n*unwind.ExtentBytes, "extents of symbols") {
			return
		}
		a.f.Budget().Give(uint64(cap(a.extents)) * unwind.ExtentBytes)
		a.extents = append(make([]unwind.Extent, 0, n), a.extents...)
	}
	a.extents = append(a.extents, x)
}

// sortExtents has one extent for each start, the longest.
func (a *analyzer) sortExtents() {
	slices.SortFunc(a.extents, func(x, y unwind.Extent) int { return cmp.Or(cmp.Compare(x.Start, y.Start), cmp.Compare(y.End, x.End)) })
	a.extents = slices.CompactFunc(a.extents, func(x, y unwind.Extent) bool { return x.Start == y.Start })
}

// names reads symbols' names.
type names struct {
	f     *elffile.File
	s     *elffile.Section
	buf   []byte
	begin uint64 // of buf, in the section
	reads int
}

// at is what the name at an offset begins with; it stays until the next one is read. Beyond the names it is empty.
func (n *names) at(off uint64) ([]byte, error) {
	if off >= n.s.Size {
		return nil, nil
	}
	end := min(off+maxName, n.s.Size)
	if off < n.begin || end > n.begin+uint64(len(n.buf)) {
		if n.reads++; n.reads > maxNamesRead {
			return nil, elffile.ErrTooLarge
		}
		if n.buf == nil {
			n.buf = make([]byte, namesRead)
		}
		n.begin = off
		n.buf = n.buf[:min(namesRead, n.s.Size-off)]
		if err := n.f.ReadSection(n.buf, n.s, off); err != nil {
			return nil, err
		}
	}
	b := n.buf[off-n.begin : end-n.begin]
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return b, nil
}
