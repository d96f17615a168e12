package dwarf

import (
	"bufio"
	"debug/elf"
	"encoding/binary"
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
	relaStep = 1024 // relocations between two marks

	maxRelaWidth = 8 // bytes that one changes, at most
)

// relocations are those of one section.
type relocations struct {
	d       *Data
	r       io.ReaderAt
	off     int64
	n       uint64
	marks   []uint64 // offset that every 1024th changes
	symbols []uint64 // values of the file's symbols
	arch    unwind.Arch
}

// relocate has the relocations of a section made while it is read, if it has any. Split files have none.
func (o *object) relocate(s *section) error {
	if o != o.d.main || o.file.Type != elf.ET_REL {
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
	a := &account{d: o.d}
	rel, err := o.newRelocations(&o.file.Sections[i], a)
	if err == nil && s.mem != nil {
		err = rel.apply(s.mem, 0)
	}
	if err != nil || s.mem != nil {
		a.give(a.taken) // nothing is kept
	}
	if err != nil {
		return fmt.Errorf("reading the relocations of %s: %w", s.name, err)
	}
	if s.mem == nil {
		o.held += a.taken
		s.r, s.off = &relocated{s.r, s.off, rel}, 0
	}
	return nil
}

func (o *object) newRelocations(h *elffile.Section, a *account) (*relocations, error) {
	if h.Flags&elf.SHF_COMPRESSED != 0 || h.EntSize != relaSize || h.Size%relaSize != 0 {
		return nil, fmt.Errorf("%d bytes in entries of %d: %w", h.Size, h.EntSize, ErrFormat)
	}
	rel := &relocations{d: o.d, r: o.file.ReaderAt(), off: int64(h.Offset), n: h.Size / relaSize, arch: o.file.Arch}
	in, err := o.entries(h, rel.n)
	if err != nil {
		return nil, err
	}
	if err := a.take(int(rel.n/relaStep+1)*8, "index of relocations"); err != nil {
		return nil, err
	}
	rel.marks = make([]uint64, 0, rel.n/relaStep+1)
	var b [relaSize]byte
	before := uint64(0)
	for n := range rel.n {
		if err := o.d.step(1); err != nil {
			return nil, err
		}
		if err := readNext(in, b[:]); err != nil {
			return nil, err
		}
		at := binary.LittleEndian.Uint64(b[:])
		if n > 0 && at <= before { // so that a place has no more of them than bytes
			return nil, fmt.Errorf("relocation %d is not in order: %w", n, ErrFormat)
		}
		before = at
		if n%relaStep == 0 {
			rel.marks = append(rel.marks, at)
		}
	}
	rel.symbols, err = o.symbolValues(int(h.Link))
	return rel, err
}

// entries reads a table of n entries from its beginning. More than can be looked at in one go are too many for good.
func (o *object) entries(h *elffile.Section, n uint64) (io.Reader, error) {
	if err := o.file.Check(uint64(h.Offset), h.Size); err != nil {
		return nil, err
	}
	if n > uint64(o.d.maxSteps)/4 {
		return nil, fmt.Errorf("%d entries: %w", n, elffile.ErrTooLarge)
	}
	return bufio.NewReaderSize(io.NewSectionReader(o.file.ReaderAt(), int64(h.Offset), int64(h.Size)), pageSize), nil
}

func readNext(in io.Reader, b []byte) error {
	_, err := io.ReadFull(in, b)
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// symbolValues are the addresses of all symbols of a table, once for all sections: they have the same one.
func (o *object) symbolValues(table int) ([]uint64, error) {
	if o.symbols != nil && o.symbolsOf == table {
		return o.symbols, nil
	}
	if o.symbols != nil || table >= len(o.file.Sections) || o.file.Sections[table].Type != elf.SHT_SYMTAB {
		return nil, fmt.Errorf("symbols in section %d: %w", table, ErrFormat)
	}
	h := &o.file.Sections[table]
	n := h.Size / elffile.SymbolSize
	in, err := o.entries(h, n)
	if err != nil {
		return nil, err
	}
	a := &account{d: o.d}
	if err := a.take(int(n)*8, "values of symbols"); err != nil {
		return nil, err
	}
	values := make([]uint64, 0, n)
	var b [elffile.SymbolSize]byte
	for range n {
		err := o.d.step(1)
		if err == nil {
			err = readNext(in, b[:])
		}
		if err != nil {
			a.give(a.taken)
			return nil, err
		}
		sym := elffile.ParseSymbol(b[:])
		if int(sym.Section) < len(o.file.Sections) { // not one of the special ones, as SHN_ABS
			sym.Value += o.file.Sections[sym.Section].Addr
		}
		values = append(values, uint64(sym.Value))
	}
	o.held += a.taken
	o.symbols, o.symbolsOf = values, table
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
	// The relocations before mark m are all before from, those from mark last on behind the end.
	m := sort.Search(len(rel.marks), func(i int) bool { return rel.marks[i] >= from })
	last := sort.Search(len(rel.marks), func(i int) bool { return rel.marks[i] >= end })
	stop := min(uint64(last)*relaStep, rel.n)
	var piece [64 * relaSize]byte
	for n := uint64(max(m-1, 0)) * relaStep; n < stop; {
		entries := piece[:min(64, stop-n)*relaSize]
		if err := rel.d.step(len(entries) / relaSize); err != nil {
			return err
		}
		if err := readFull(rel.r, entries, rel.off+int64(n*relaSize)); err != nil {
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
