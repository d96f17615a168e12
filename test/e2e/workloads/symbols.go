package workloads

import (
	"debug/elf"
	"errors"
	"fmt"
	"slices"
	"sort"
)

// Symbols are the functions of an ELF file by address, read with Go's own ELF package: a second opinion on what a
// profiler should find.
type Symbols struct {
	symbols []elf.Symbol // by address
	longest uint64
}

// LoadSymbols reads .symtab and .dynsym.
func LoadSymbols(path string) (*Symbols, error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading symbols of %s: %w", path, err)
	}
	defer func() { _ = f.Close() }()
	s := &Symbols{}
	static, err := f.Symbols()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return nil, fmt.Errorf("reading symbols of %s: %w", path, err)
	}
	dynamic, err := f.DynamicSymbols()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return nil, fmt.Errorf("reading dynamic symbols of %s: %w", path, err)
	}
	for _, sym := range append(static, dynamic...) {
		t := elf.ST_TYPE(sym.Info)
		if (t == elf.STT_FUNC || t == elf.STT_GNU_IFUNC) && sym.Section != elf.SHN_UNDEF && sym.Size > 0 {
			s.symbols = append(s.symbols, sym)
			s.longest = max(s.longest, sym.Size)
		}
	}
	sort.SliceStable(s.symbols, func(i, j int) bool { return s.symbols[i].Value < s.symbols[j].Value })
	return s, nil
}

// At returns the names of all functions that cover the ELF virtual address, the innermost ones first.
func (s *Symbols) At(addr uint64) []string {
	var names []string
	i := sort.Search(len(s.symbols), func(i int) bool { return s.symbols[i].Value > addr })
	for i--; i >= 0 && addr-s.symbols[i].Value < s.longest; i-- {
		sym := s.symbols[i]
		if addr-sym.Value < sym.Size && !slices.Contains(names, sym.Name) {
			names = append(names, sym.Name)
		}
	}
	return names
}

// Begins tells whether a function begins at start that covers the ELF virtual address.
func (s *Symbols) Begins(start, addr uint64) bool {
	i := sort.Search(len(s.symbols), func(i int) bool { return s.symbols[i].Value >= start })
	for ; i < len(s.symbols) && s.symbols[i].Value == start; i++ {
		if addr-start < s.symbols[i].Size {
			return true
		}
	}
	return false
}

// AddressOf returns the ELF virtual address of the function of that name.
func AddressOf(path, name string) (_ uint64, ok bool) {
	s, err := LoadSymbols(path)
	if err != nil {
		return 0, false
	}
	for _, sym := range s.symbols {
		if sym.Name == name {
			return sym.Value, true
		}
	}
	return 0, false
}
