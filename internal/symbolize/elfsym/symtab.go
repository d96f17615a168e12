package elfsym

import (
	"cmp"
	"debug/elf"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

// loader collects rows for a Table.
type loader struct {
	t    *Table
	f    *elffile.File
	opts Options
	rows []row
}

// symbolTable is where a file has a table of symbols.
type symbolTable struct {
	r        io.ReaderAt
	off      int64
	count    int64
	strings  stringTable
	sections bool // st_shndx means something
}

func (l *loader) symtab() error {
	tab, err := sectionTable(l.f, elf.SHT_SYMTAB)
	if err != nil || tab == nil {
		return err
	}
	l.t.tabs[sourceSymtab] = tab.strings
	l.rows, err = l.read(tab, sourceSymtab, l.rows)
	return err
}

// dynsym returns the table too, since relocations refer to it; nil if there is none.
func (l *loader) dynsym() (*symbolTable, error) {
	tab, err := sectionTable(l.f, elf.SHT_DYNSYM)
	if tab == nil && err == nil {
		tab, err = dynamicTable(l.f)
	}
	if err != nil || tab == nil {
		return nil, err
	}
	l.t.tabs[sourceDynsym] = tab.strings
	l.rows, err = l.read(tab, sourceDynsym, l.rows)
	return tab, err
}

// sectionTable finds the first symbol table of a type that has data in the file; nil if there is none.
func sectionTable(f *elffile.File, typ elf.SectionType) (*symbolTable, error) {
	i := slices.IndexFunc(f.Sections, func(s elffile.Section) bool { return s.Type == typ })
	if i < 0 {
		return nil, nil
	}
	s := &f.Sections[i]
	if s.Flags&elf.SHF_COMPRESSED != 0 {
		return nil, fmt.Errorf("compressed symbol table: %w", elffile.ErrUnsupported)
	}
	if s.EntSize != elffile.SymbolSize && s.EntSize != 0 {
		return nil, fmt.Errorf("entries of %d bytes: %w", s.EntSize, elffile.ErrUnsupported)
	}
	if uint64(s.Link) >= uint64(len(f.Sections)) {
		return nil, fmt.Errorf("no section %d for its names: %w", s.Link, elffile.ErrTruncated)
	}
	str := &f.Sections[s.Link]
	if str.Type != elf.SHT_STRTAB || str.Flags&elf.SHF_COMPRESSED != 0 {
		return nil, fmt.Errorf("section %d for its names is %v: %w", s.Link, str.Type, elffile.ErrUnsupported)
	}
	for _, x := range []*elffile.Section{s, str} {
		if err := f.Check(uint64(x.Offset), x.Size); err != nil {
			return nil, err
		}
	}
	return &symbolTable{
		r: f.ReaderAt(), off: int64(s.Offset), count: int64(s.Size / elffile.SymbolSize),
		strings:  stringTable{f.ReaderAt(), int64(str.Offset), int64(str.Size)},
		sections: true,
	}, nil
}

// read appends the functions of a table. What was read before an error is kept.
func (l *loader) read(tab *symbolTable, source uint32, rows []row) ([]row, error) {
	scan := min(tab.count, maxScanned)
	l.t.skipped += int(min(tab.count-scan, math.MaxInt32))
	if rows == nil {
		rows = make([]row, 0, min(scan/2+1, int64(l.opts.MaxSymbols)))
	}
	var labels []row
	buf := make([]byte, min(scan, 8192)*elffile.SymbolSize)
	for i := int64(0); i < scan; {
		b := buf[:min(int64(len(buf)), (scan-i)*elffile.SymbolSize)]
		if err := readFull(tab.r, b, tab.off+i*elffile.SymbolSize); err != nil {
			return rows, err
		}
		i += int64(len(b) / elffile.SymbolSize)
		for ; len(b) >= elffile.SymbolSize; b = b[elffile.SymbolSize:] {
			sym := elffile.ParseSymbol(b)
			r, ok := l.function(sym, source)
			if !ok {
				continue
			}
			if len(rows)+len(labels) >= l.opts.MaxSymbols {
				l.t.skipped++
			} else if l.f.Arch == unwind.ArchARM64 && r.size() == 0 && sym.Type == elf.STT_NOTYPE {
				labels = append(labels, r)
			} else {
				rows = append(rows, r)
			}
		}
	}
	return withoutMappingSymbols(tab, labels, rows)
}

// function decides whether a symbol is one of a function.
func (l *loader) function(s elffile.Symbol, source uint32) (row, bool) {
	if s.Name == 0 || s.Section == elf.SHN_UNDEF || s.Section == elf.SHN_COMMON {
		return row{}, false
	}
	switch s.Type {
	case elf.STT_FUNC, elf.STT_GNU_IFUNC:
		// An absolute symbol is an address only where the file is not relocated.
		if s.Section == elf.SHN_ABS && l.f.Type != elf.ET_EXEC {
			return row{}, false
		}
	case elf.STT_NOTYPE: // what assembly does not declare, such as _start
		if s.Section == elf.SHN_ABS {
			return row{}, false
		}
	default:
		return row{}, false
	}
	if s.Value >= l.opts.Except[0] && s.Value < l.opts.Except[1] {
		return row{}, false
	}
	if _, ok := l.t.codeAt(uint64(s.Value)); !ok {
		return row{}, false
	}
	bind := uint32(bindLocal)
	switch s.Bind {
	case elf.STB_GLOBAL, elf.SymBind(10): // STB_GNU_UNIQUE
		bind = bindGlobal
	case elf.STB_WEAK:
		bind = bindWeak
	}
	return newRow(uint64(s.Value), s.Name, s.Size, source, bind), true
}

// withoutMappingSymbols appends the labels whose names are not $x or $d, with which arm64 assemblers mark where code and
// data begin.
func withoutMappingSymbols(tab *symbolTable, labels, rows []row) ([]row, error) {
	slices.SortFunc(labels, func(a, b row) int { return cmp.Compare(a.ref, b.ref) })
	w := window{tab: &tab.strings}
	for _, r := range labels {
		b, err := w.at(int64(r.ref), 3)
		if err != nil {
			return rows, err
		}
		if mapping := len(b) >= 2 && b[0] == '$' && (b[1] == 'x' || b[1] == 'd') &&
			(len(b) == 2 || b[2] == 0 || b[2] == '.'); !mapping {
			rows = append(rows, r)
		}
	}
	return rows, nil
}

// window reads a string table at offsets that grow, with few calls.
type window struct {
	tab *stringTable
	buf []byte
	off int64 // of buf in the table
}

// at returns n bytes, fewer at the table's end. They are valid until the next call.
func (w *window) at(off, n int64) ([]byte, error) {
	n = min(n, w.tab.size-off)
	if n <= 0 {
		return nil, nil
	}
	if off < w.off || off+n > w.off+int64(len(w.buf)) {
		w.buf = slices.Grow(w.buf[:0], 64<<10)[:min(64<<10, w.tab.size-off)]
		w.off = off
		if err := readFull(w.tab.r, w.buf, w.tab.off+off); err != nil {
			w.buf = w.buf[:0]
			return nil, err
		}
	}
	return w.buf[off-w.off:][:n], nil
}
