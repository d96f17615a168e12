// Package kernelfile tells where the code of files with the kernel's debug information lies in the running kernel: a vmlinux,
// which was moved as a whole (KASLR), and the relocatable files of modules, whose sections were put anywhere.
//
//	/proc/kallsyms   ffffffff9c000000 T _stext          ffffffffc0612000 t nft_do_chain [nf_tables]
//	file             ffffffff81000000 T _stext          .text + 0 t nft_do_chain
//	difference       1b000000, of all of vmlinux        ffffffffc0612000, where .text of nf_tables is
//
// /sys/module/NAME/sections has the same for root only. Which file is the right one, build ids tell; what is here only fails if
// it is not.
package kernelfile

import (
	"bufio"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"

	"github.com/hostprofiles/hostprofiles/internal/symbolize/kallsyms"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

// ErrMismatch: where the running kernel's code lies cannot be told from the file's symbols and the kernel's; one or the other
// may be missing.
var ErrMismatch = errors.New("symbols of file and running kernel do not match")

const (
	// maxSymbols bounds what is looked through; a kernel has some 300,000.
	maxSymbols = 8 << 20
	// maxStrings bounds the names of symbols that are read: a vmlinux has some 10 MiB of them.
	maxStrings = 1 << 30
	// maxOffsets bounds the places in a file where a name may stand, of which one is a symbol's.
	maxOffsets = 4096
)

// Slide returns by how much a running kernel's addresses exceed those in its vmlinux f, modulo 2^64. begin and end are where _stext
// and _etext are in that kernel; end may be 0, for not known. It returns ErrMismatch, wrapped, or an error of reading f.
func Slide(f *elffile.File, begin, end uint64) (uint64, error) {
	if begin == 0 {
		return 0, fmt.Errorf("%w: /proc/kallsyms has no %s", ErrMismatch, kallsyms.TextBegin)
	}
	table, text, err := symtab(f)
	if err != nil {
		return 0, err
	}
	found, err := offsets(f, text, kallsyms.TextBegin, kallsyms.TextEnd)
	if err != nil {
		return 0, err
	}
	values := map[string]uint64{}
	err = eachSymbol(f, table, func(s elffile.Symbol) error {
		if n, ok := found[s.Name]; ok && s.Section != elf.SHN_UNDEF {
			if _, again := values[n]; again {
				return fmt.Errorf("%w: %s is there twice", ErrMismatch, n)
			}
			values[n] = uint64(s.Value)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	inFile, ok := values[kallsyms.TextBegin]
	if !ok {
		return 0, fmt.Errorf("%w: the file has no %s", ErrMismatch, kallsyms.TextBegin)
	}
	if e, ok := values[kallsyms.TextEnd]; ok && end != 0 && e-inFile != end-begin {
		return 0, fmt.Errorf("%w: %d bytes of code, not %d", ErrMismatch, e-inFile, end-begin)
	}
	return begin - inFile, nil
}

// Place returns a module's file with its sections of code at the addresses where they are in a running kernel, as the module's
// symbols there tell: their names and addresses, see kallsyms.Table.Symbols. Sections that are gone, as those for
// initialization, and that have no symbol stay without address. It returns ErrMismatch, wrapped, or an error of reading f.
func Place(f *elffile.File, symbols iter.Seq2[string, uint64]) (*elffile.File, error) {
	if f.Type != elf.ET_REL {
		return nil, fmt.Errorf("%w: a module's file of type %v", ErrMismatch, f.Type)
	}
	running := map[string]uint64{}
	for name, addr := range symbols {
		if _, again := running[name]; again {
			addr = ambiguous
		}
		running[name] = addr
	}
	table, text, err := symtab(f)
	if err != nil {
		return nil, err
	}
	b, err := f.SectionData(text, maxStrings)
	if err != nil {
		return nil, fmt.Errorf("reading the names of symbols: %w", err)
	}
	defer f.Budget().Give(uint64(len(b)))
	bases := map[int]unwind.FileAddr{}
	// Names of static functions may be there several times, as may labels: what is there once in the file and in the kernel counts.
	seen := map[string]place{}
	err = eachSymbol(f, table, func(s elffile.Symbol) error {
		section := int(s.Section)
		if s.Type != elf.STT_FUNC || section >= len(f.Sections) || f.Sections[section].Flags&code != code || int(s.Name) >= len(b) {
			return nil
		}
		n, _, _ := bytes.Cut(b[s.Name:], []byte{0})
		addr, ok := running[string(n)]
		if !ok || addr == ambiguous {
			return nil
		}
		p := place{section, unwind.FileAddr(addr) - s.Value}
		if before, again := seen[string(n)]; again && before != p {
			p.section = -1
		}
		seen[string(n)] = p
		return nil
	})
	if err != nil {
		return nil, err
	}
	for name, p := range seen {
		base, known := bases[p.section]
		switch {
		case p.section < 0:
		case known && base != p.base:
			return nil, fmt.Errorf("%w: %s is elsewhere in section %s", ErrMismatch, name, f.Sections[p.section].Name)
		default:
			bases[p.section] = p.base
		}
	}
	if len(bases) == 0 {
		return nil, fmt.Errorf("%w: none of %d is in the file", ErrMismatch, len(running))
	}
	return f.WithAddrs(bases), nil
}

const (
	code      = elf.SHF_ALLOC | elf.SHF_EXECINSTR
	ambiguous = math.MaxUint64
)

// place is a section, and where it has to be for one symbol.
type place struct {
	section int // -1 if there are several
	base    unwind.FileAddr
}

// symtab finds the symbols and their names.
func symtab(f *elffile.File) (table, text *elffile.Section, err error) {
	i := slices.IndexFunc(f.Sections, func(s elffile.Section) bool { return s.Type == elf.SHT_SYMTAB })
	if i < 0 {
		return nil, nil, fmt.Errorf("%w: the file has no table of symbols", ErrMismatch)
	}
	table = &f.Sections[i]
	if int(table.Link) >= len(f.Sections) || f.Sections[table.Link].Type != elf.SHT_STRTAB {
		return nil, nil, fmt.Errorf("%w: the file has no names of symbols", ErrMismatch)
	}
	return table, &f.Sections[table.Link], nil
}

// eachSymbol calls yield for all symbols, until it returns an error.
func eachSymbol(f *elffile.File, table *elffile.Section, yield func(elffile.Symbol) error) error {
	n := table.Size / elffile.SymbolSize
	if n > maxSymbols {
		return fmt.Errorf("%d symbols: %w", n, elffile.ErrTooLarge)
	}
	in := bufio.NewReaderSize(io.NewSectionReader(f.ReaderAt(), int64(table.Offset), int64(n*elffile.SymbolSize)), 64<<10)
	var b [elffile.SymbolSize]byte
	for range n {
		if _, err := io.ReadFull(in, b[:]); err != nil {
			return fmt.Errorf("reading symbols: %w", err)
		}
		if err := yield(elffile.ParseSymbol(b[:])); err != nil {
			return err
		}
	}
	return nil
}

// offsets finds where names stand among the names of symbols. Linkers put one into the end of another.
func offsets(f *elffile.File, text *elffile.Section, names ...string) (map[uint32]string, error) {
	found := map[uint32]string{}
	const overlap = 16
	b := make([]byte, 64<<10)
	for off := uint64(0); off < min(text.Size, maxStrings); off += uint64(len(b)) - overlap {
		piece := b[:min(uint64(len(b)), text.Size-off)]
		if n, err := f.ReaderAt().ReadAt(piece, int64(text.Offset)+int64(off)); n < len(piece) {
			return nil, fmt.Errorf("reading the names of symbols: %w", errors.Join(err, elffile.ErrTruncated))
		}
		for _, name := range names {
			for i := 0; ; {
				at := bytes.Index(piece[i:], []byte(name+"\x00"))
				if at < 0 {
					break
				}
				if len(found) == maxOffsets {
					return nil, fmt.Errorf("names of symbols: %w", elffile.ErrTooLarge)
				}
				found[uint32(off)+uint32(i+at)] = name
				i += at + 1
			}
		}
	}
	return found, nil
}
