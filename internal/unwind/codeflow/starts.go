package codeflow

import (
	"bytes"
	"debug/elf"
	"errors"
	"maps"
	"slices"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

// findStarts collects functions' starts from symbols, sections, the entry point, and from what code calls or takes the
// address of, if it looks like a function.
func (a *analyzer) findStarts() error {
	tables := 0
	for i := range a.f.Sections {
		switch s := &a.f.Sections[i]; {
		case s.Type == elf.SHT_SYMTAB || s.Type == elf.SHT_DYNSYM:
			if tables++; tables <= maxTables {
				a.symbols(s)
			}
		case s.Flags&elf.SHF_EXECINSTR != 0 && s.Size > 0: // .init and .fini have no symbols in stripped files
			a.start(s.Addr)
		}
	}
	a.start(a.f.Entry)
	a.sure(a.f.Entry)
	held := a.f.Budget().Used()
	defer func() { a.f.Budget().Keep(held) }()
	seen := map[unwind.FileAddr]uint8{} // how often it is called, as far as 2
	buf := make([]byte, 64<<10)
	left := uint64(maxCallers)
	for _, g := range a.f.Code() {
		size := min(g.FileSize, left)
		left -= size
		for off := uint64(0); off < size; off += uint64(len(buf)) - 16 {
			b := buf[:min(uint64(len(buf)), size-off)]
			if err := a.f.ReadAddr(b, g.VAddr+unwind.FileAddr(off)); err != nil {
				if errors.Is(err, elffile.ErrTruncated) || errors.Is(err, elffile.ErrNoData) {
					break
				}
				return err
			}
			a.m.calls(b, g.VAddr+unwind.FileAddr(off), func(target unwind.FileAddr, called bool) {
				if a.region(target) == nil {
					return
				}
				n, known := seen[target]
				if !known && (len(seen) >= maxTargets || !a.take(targetBytes, "calls")) {
					return
				}
				switch {
				case called && a.f.Arch == unwind.ArchARM64:
					n = 2 // no instruction is in the midst of another
				case called && n < 2:
					n++
				}
				seen[target] = n
			})
		}
	}
	targets := slices.Sorted(maps.Keys(seen))
	for _, target := range slices.Backward(targets) { // so that each ends where the next is known to begin
		r := a.region(target)
		off := int(target - r.at)
		if r.start[off] && r.owned == nil {
			continue
		}
		if (off == 0 || a.m.boundary(r.code[:off], target)) && a.plausible(r, off, maxDepth) >= trialEndless {
			r.start[off] = true
			if seen[target] > 1 || target%functionAlign == 0 { // the bytes of a call may be those of something else
				a.sure(target)
			}
		}
	}
	return nil
}

// start notes a function's start that is known.
func (a *analyzer) start(at unwind.FileAddr) {
	if r := a.region(at); r != nil {
		r.start[at-r.at] = true
	}
}

// symbols takes the starts of functions from a symbol table, but not those of parts that the compiler moved away, which
// are entered with their function's frame (gcc's f.cold).
func (a *analyzer) symbols(s *elffile.Section) {
	held := a.f.Budget().Used()
	defer func() { a.f.Budget().Keep(held) }()
	b, ok := a.section(s)
	if !ok || uint64(s.Link) >= uint64(len(a.f.Sections)) {
		return // what is not known from symbols may be known from calls
	}
	names, ok := a.section(&a.f.Sections[s.Link])
	if !ok {
		return
	}
	for ; len(b) >= elffile.SymbolSize; b = b[elffile.SymbolSize:] {
		sym := elffile.ParseSymbol(b)
		if sym.Type != elf.STT_FUNC || sym.Section == elf.SHN_UNDEF {
			continue
		}
		name := names[min(uint64(sym.Name), uint64(len(names))):]
		name = name[:min(len(name), 256)]
		if n := bytes.IndexByte(name, 0); n >= 0 {
			name = name[:n]
		}
		if !bytes.Contains(name, []byte(".cold")) {
			a.start(sym.Value)
		}
	}
}

// section reads a section, if it can be read. That there is no room for it is kept as an error.
func (a *analyzer) section(s *elffile.Section) ([]byte, bool) {
	b, err := a.f.SectionData(s, maxSymbols)
	var large *elffile.TooLargeError
	if errors.As(err, &large) && a.refused == nil {
		a.refused = err
	}
	return b, err == nil
}
