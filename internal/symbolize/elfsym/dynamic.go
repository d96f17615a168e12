package elfsym

import (
	"debug/elf"
	"encoding/binary"
	"fmt"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

const (
	maxDynamic = 4096    // entries
	maxHash    = 1 << 22 // buckets of a hash table
	maxChain   = 1 << 16 // symbols in one bucket
)

// dynamicTable finds the dynamic symbols of a file without section headers as the dynamic linker does; nil if there are
// none.
func dynamicTable(f *elffile.File) (*symbolTable, error) {
	tags, err := dynamicTags(f)
	if err != nil {
		return nil, err
	}
	syms, strs := tags[elf.DT_SYMTAB], tags[elf.DT_STRTAB]
	if syms == 0 || strs == 0 {
		return nil, nil
	}
	count, err := dynamicCount(f, tags)
	if err != nil {
		return nil, fmt.Errorf("counting dynamic symbols: %w", err)
	}
	tab := &symbolTable{r: f.ReaderAt(), count: count}
	size := tags[elf.DT_STRSZ]
	for _, x := range []struct {
		addr, size uint64
		off        *int64
	}{{syms, uint64(count) * elffile.SymbolSize, &tab.off}, {strs, size, &tab.strings.off}} {
		if *x.off, err = fileOffset(f, x.addr, x.size); err != nil {
			return nil, err
		}
	}
	tab.strings.r, tab.strings.size = f.ReaderAt(), int64(size)
	return tab, nil
}

// dynamicTags reads the PT_DYNAMIC segment: pairs of tag and value, of which the first of each tag counts.
func dynamicTags(f *elffile.File) (map[elf.DynTag]uint64, error) {
	for _, p := range f.Progs {
		if p.Type != elf.PT_DYNAMIC {
			continue
		}
		b := make([]byte, min(p.FileSize/16, maxDynamic)*16)
		if err := f.Check(uint64(p.Offset), uint64(len(b))); err != nil {
			return nil, err
		}
		if err := readFull(f.ReaderAt(), b, int64(p.Offset)); err != nil {
			return nil, err
		}
		tags := map[elf.DynTag]uint64{}
		for ; len(b) >= 16; b = b[16:] {
			tag := elf.DynTag(binary.LittleEndian.Uint64(b))
			if tag == elf.DT_NULL {
				break
			}
			if _, ok := tags[tag]; !ok {
				tags[tag] = binary.LittleEndian.Uint64(b[8:])
			}
		}
		return tags, nil
	}
	return nil, nil
}

// fileOffset finds size bytes at an ELF virtual address in the file.
func fileOffset(f *elffile.File, addr, size uint64) (int64, error) {
	for _, s := range f.Segments {
		d := addr - uint64(s.VAddr)
		if addr < uint64(s.VAddr) || d >= s.FileSize || size > s.FileSize-d {
			continue
		}
		off := uint64(s.Offset) + d
		if off < d {
			break
		}
		return int64(off), f.Check(off, size)
	}
	return 0, fmt.Errorf("%d bytes at %#x: %w", size, addr, elffile.ErrNoData)
}

// dynamicCount is the number of dynamic symbols, which only the hash tables know. gABI 4.3, "Hash Table"; the GNU one as
// in binutils 2.44, bfd/elflink.c: a header of four words (buckets, first symbol, words of the Bloom filter, its shift),
// the filter, the buckets (lowest symbol or 0), then a word for each symbol from the first on, odd at the end of a chain.
func dynamicCount(f *elffile.File, tags map[elf.DynTag]uint64) (int64, error) {
	word := func(a uint64) (uint64, error) {
		var b [4]byte
		err := f.ReadAddr(b[:], unwind.FileAddr(a))
		return uint64(binary.LittleEndian.Uint32(b[:])), err
	}
	if h := tags[elf.DT_HASH]; h != 0 {
		n, err := word(h + 4) // nchain
		return int64(n), err
	}
	h := tags[elf.DT_GNU_HASH]
	if h == 0 {
		return 0, nil
	}
	var header [16]byte
	if err := f.ReadAddr(header[:], unwind.FileAddr(h)); err != nil {
		return 0, err
	}
	buckets := uint64(binary.LittleEndian.Uint32(header[:]))
	first := uint64(binary.LittleEndian.Uint32(header[4:]))
	filter := uint64(binary.LittleEndian.Uint32(header[8:]))
	if buckets > maxHash || filter > maxHash {
		return 0, fmt.Errorf("hash table of %d buckets: %w", buckets, elffile.ErrTooLarge)
	}
	table := h + 16 + 8*filter
	b := make([]byte, 4*buckets)
	if err := f.ReadAddr(b, unwind.FileAddr(table)); err != nil {
		return 0, err
	}
	last := uint64(0)
	for ; len(b) >= 4; b = b[4:] {
		last = max(last, uint64(binary.LittleEndian.Uint32(b)))
	}
	if last < first {
		return int64(first), nil
	}
	chains := table + 4*buckets - 4*first
	for end := last + maxChain; last < end; last++ {
		c, err := word(chains + 4*last)
		if err != nil {
			return 0, err
		}
		if c&1 != 0 {
			return int64(last) + 1, nil
		}
	}
	return 0, fmt.Errorf("chain of more than %d symbols: %w", maxChain, elffile.ErrTooLarge)
}
