package dwarf

import (
	"bufio"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

// Kernel modules are relocatable files: what refers to code or to another section of debug information, each string too, is a
// relocation. They are as many bytes as the debug information itself, so they are read when the bytes are that they are for.
//
//	.debug_info        ........[ page ]..........
//	.rela.debug_info   ..[e][e][e][e][e][e]......   sorted by offset; marks has every 1024th one's
//	value of e         address of the symbol's section + the symbol's value + addend
//
// Layouts: gABI 4.3, "Relocation" and "Symbol Table"; System V ABI, AMD64 1.0, table 4.9; ELF for the Arm 64-bit Architecture
// 2024Q3, "Static data relocations".

const (
	relaSize = 24
	symSize  = 24
	relaStep = 1024 // relocations between two marks

	maxRelaWidth = 8 // bytes that one changes, at most
)

// relocations are those of one section.
type relocations struct {
	r       io.ReaderAt
	off     int64
	n       uint64
	marks   []uint64 // offset that every 1024th changes
	symbols []uint64 // values of the file's symbols
	arch    unwind.Arch
}

// relocate has the relocations of a section made while it is read, if it has any.
func (o *object) relocate(s *section) error {
	if o.file.Type != elf.ET_REL {
		return nil
	}
	target := slices.IndexFunc(o.file.Sections, func(h elffile.Section) bool {
		return h.Name == s.name && h.Type != elf.SHT_NOBITS && h.Type != elf.SHT_NULL
	})
	i := slices.IndexFunc(o.file.Sections, func(h elffile.Section) bool {
		return h.Type == elf.SHT_RELA && target > 0 && h.Info == uint32(target)
	})
	if i < 0 {
		return nil
	}
	rel, err := o.newRelocations(&o.file.Sections[i])
	if err != nil {
		return fmt.Errorf("reading the relocations of %s: %w", s.name, err)
	}
	if s.mem != nil {
		return rel.apply(s.mem, 0)
	}
	s.r, s.off = &relocated{s.r, s.off, rel}, 0
	return nil
}

func (o *object) newRelocations(h *elffile.Section) (*relocations, error) {
	if h.Flags&elf.SHF_COMPRESSED != 0 || h.EntSize != relaSize || h.Size%relaSize != 0 {
		return nil, fmt.Errorf("%d bytes in entries of %d: %w", h.Size, h.EntSize, ErrFormat)
	}
	rel := &relocations{r: o.file.ReaderAt(), off: int64(h.Offset), n: h.Size / relaSize, arch: o.file.Arch}
	if !o.inFile(h) {
		return nil, elffile.ErrTruncated
	}
	a := &account{d: o.d}
	defer func() { o.held += a.taken }()
	if err := a.take(int(rel.n/relaStep+1)*8, "index of relocations"); err != nil {
		return nil, err
	}
	in := bufio.NewReaderSize(io.NewSectionReader(rel.r, rel.off, int64(h.Size)), pageSize)
	var b [relaSize]byte
	before := uint64(0)
	for n := range rel.n {
		if err := o.d.step(1); err != nil {
			return nil, err
		}
		if _, err := io.ReadFull(in, b[:]); err != nil {
			return nil, err
		}
		at := binary.LittleEndian.Uint64(b[:])
		if at < before {
			return nil, fmt.Errorf("relocation %d is not in order: %w", n, ErrFormat)
		}
		before = at
		if n%relaStep == 0 {
			rel.marks = append(rel.marks, at)
		}
	}
	var err error
	rel.symbols, err = o.symbolValues(int(h.Link), a)
	return rel, err
}

func (o *object) inFile(h *elffile.Section) bool {
	size := uint64(max(o.file.Size(), 0))
	return uint64(h.Offset) <= size && h.Size <= size-uint64(h.Offset)
}

// symbolValues are the addresses of all symbols of a table, once for all sections.
func (o *object) symbolValues(table int, a *account) ([]uint64, error) {
	if o.symbols != nil {
		return o.symbols, nil
	}
	if table >= len(o.file.Sections) || o.file.Sections[table].Type != elf.SHT_SYMTAB || !o.inFile(&o.file.Sections[table]) {
		return nil, fmt.Errorf("no symbols in section %d: %w", table, ErrFormat)
	}
	h := &o.file.Sections[table]
	n := h.Size / symSize
	if err := a.take(int(n)*8, "values of symbols"); err != nil {
		return nil, err
	}
	values := make([]uint64, 0, n)
	in := bufio.NewReaderSize(io.NewSectionReader(o.file.ReaderAt(), int64(h.Offset), int64(h.Size)), pageSize)
	var b [symSize]byte
	for range n {
		if err := o.d.step(1); err != nil {
			return nil, err
		}
		if _, err := io.ReadFull(in, b[:]); err != nil {
			return nil, err
		}
		value, in := binary.LittleEndian.Uint64(b[8:]), int(binary.LittleEndian.Uint16(b[6:]))
		if in < len(o.file.Sections) { // not one of the special ones, as SHN_ABS
			value += uint64(o.file.Sections[in].Addr)
		}
		values = append(values, value)
	}
	o.symbols = values
	return values, nil
}

// relocated reads a section with its relocations made.
type relocated struct {
	r   io.ReaderAt
	off int64 // where the section begins in r
	rel *relocations
}

// ReadAt implements io.ReaderAt; offsets are the section's.
func (r *relocated) ReadAt(b []byte, off int64) (int, error) {
	n, err := r.r.ReadAt(b, r.off+off)
	if aerr := r.rel.apply(b[:n], uint64(off)); aerr != nil {
		return 0, aerr
	}
	return n, err
}

// apply makes the relocations of b, the bytes of the section from off on.
func (rel *relocations) apply(b []byte, off uint64) error {
	end := off + uint64(len(b))
	from := off - min(off, maxRelaWidth-1)
	// The relocations before mark m are all before from.
	m := sort.Search(len(rel.marks), func(i int) bool { return rel.marks[i] >= from })
	first := uint64(max(m-1, 0)) * relaStep
	var piece [64 * relaSize]byte
	for n := first; n < rel.n; {
		entries := piece[:min(64, rel.n-n)*relaSize]
		if _, err := rel.r.ReadAt(entries, rel.off+int64(n*relaSize)); err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("reading relocations: %w", err)
		}
		for e := entries; len(e) > 0; e = e[relaSize:] {
			at := binary.LittleEndian.Uint64(e)
			if at >= end {
				return nil
			}
			if at >= from {
				rel.one(b, off, at, binary.LittleEndian.Uint64(e[8:]), binary.LittleEndian.Uint64(e[16:]))
			}
		}
		n += uint64(len(entries)) / relaSize
	}
	return nil
}

// one makes one relocation, as far as its bytes are in b. Kinds that debug information has no use for, as those of thread-local
// variables, are left out.
func (rel *relocations) one(b []byte, off, at, info, addend uint64) {
	width := relaWidth(rel.arch, uint32(info))
	symbol := info >> 32
	if width == 0 || symbol >= uint64(len(rel.symbols)) {
		return
	}
	var value [maxRelaWidth]byte
	binary.LittleEndian.PutUint64(value[:], rel.symbols[symbol]+addend)
	for i := range width {
		if p := at + i; p >= off && p-off < uint64(len(b)) {
			b[p-off] = value[i]
		}
	}
}

// relaWidth is how many bytes of an address a kind of relocation writes; 0: it does something else.
func relaWidth(arch unwind.Arch, kind uint32) uint64 {
	switch {
	case arch == unwind.ArchAMD64 && elf.R_X86_64(kind) == elf.R_X86_64_64,
		arch == unwind.ArchARM64 && elf.R_AARCH64(kind) == elf.R_AARCH64_ABS64:
		return 8
	case arch == unwind.ArchAMD64 && elf.R_X86_64(kind) == elf.R_X86_64_32,
		arch == unwind.ArchARM64 && elf.R_AARCH64(kind) == elf.R_AARCH64_ABS32:
		return 4
	}
	return 0
}
