// Package elffile reads what unwinding and symbolizing need from ELF files: 64-bit, little-endian, amd64 or arm64,
// executables and shared objects, with or without section headers. It reads by ReadAt only, just what is asked for, and
// takes every field of a file as hostile: sizes are capped, offsets checked, and nothing panics.
//
// Layouts: System V gABI 4.3 draft (2024), chapters "ELF Header", "Sections", "Program Header".
package elffile

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

var (
	// ErrNotELF: the file does not begin as an ELF file does.
	ErrNotELF = errors.New("not an ELF file")
	// ErrUnsupported: an ELF file, but 32-bit, big endian, or of another machine, version or type.
	ErrUnsupported = errors.New("unsupported ELF file")
	// ErrTruncated: something that a header speaks of lies behind the file's end.
	ErrTruncated = errors.New("ELF file is truncated")
	// ErrTooLarge: more data than the caller or a built-in limit allows.
	ErrTooLarge = errors.New("too large")
	// ErrNoData: the file holds no bytes for what was asked (SHT_NOBITS, or an address in no segment).
	ErrNoData = errors.New("no data in the file")
)

const (
	headerSize = 64
	progSize   = 56
	secSize    = 64

	maxProgs    = 128 // programs have some fourteen
	maxExec     = 64
	maxCode     = 256
	maxSections = 1 << 14 // headers are kept as long as the file is; programs have some forty
	maxNames    = 1 << 20 // bytes of section names
	maxName     = 256     // bytes of one section's name
)

// Prog is a program header.
type Prog struct {
	Type     elf.ProgType
	Flags    elf.ProgFlag
	Offset   unwind.FileOffset
	VAddr    unwind.FileAddr
	FileSize uint64 // bytes
	MemSize  uint64 // bytes
	Align    uint64 // bytes; 0 and 1 mean none
}

// Section is a section header.
type Section struct {
	Name    string // at most 256 bytes of it
	Type    elf.SectionType
	Flags   elf.SectionFlag
	Addr    unwind.FileAddr
	Offset  unwind.FileOffset
	Size    uint64 // bytes in the file, so before decompression
	Link    uint32
	Info    uint32
	Align   uint64
	EntSize uint64
}

// File is an ELF file's headers and the reader behind them. Its fields must not be changed; it may be used by several
// goroutines if its reader may.
type File struct {
	Arch     unwind.Arch
	Type     elf.Type // ET_EXEC or ET_DYN; of NewDebug ET_REL too
	Entry    unwind.FileAddr
	Segments []unwind.Segment // the PT_LOAD headers, in the file's order
	Progs    []Prog           // all program headers
	Sections []Section        // empty if there are none or if their table is damaged; [0] is the null section

	r      io.ReaderAt
	size   int64
	budget *Budget
}

// NewDebug is New for a file that is only read for its sections: it may be a relocatable one too, as .dwo and .dwp files and
// those of dwz are.
func NewDebug(r io.ReaderAt, size int64) (*File, error) {
	return read(r, size, elf.ET_EXEC, elf.ET_DYN, elf.ET_REL)
}

// New reads the headers of the ELF file of size bytes behind r. A damaged section header table is taken for none, as
// the kernel and the dynamic linker do; a damaged program header table is an error. It returns ErrNotELF, ErrUnsupported,
// ErrTruncated or ErrTooLarge, wrapped, or r's error.
func New(r io.ReaderAt, size int64) (*File, error) {
	return read(r, size, elf.ET_EXEC, elf.ET_DYN)
}

func read(r io.ReaderAt, size int64, types ...elf.Type) (*File, error) {
	f := &File{r: r, size: size}
	var h [headerSize]byte
	if size < 4 {
		return nil, ErrNotELF
	}
	if err := f.readAt(h[:min(size, headerSize)], 0); err != nil {
		return nil, fmt.Errorf("reading ELF header: %w", err)
	}
	if string(h[:4]) != elf.ELFMAG {
		return nil, ErrNotELF
	}
	if size < headerSize {
		return nil, fmt.Errorf("reading ELF header: %w", ErrTruncated)
	}
	if err := f.header(h[:], types); err != nil {
		return nil, err
	}
	zero, haveZero := f.sectionZero(h[:])
	if err := f.readProgs(h[:], zero); err != nil {
		return nil, fmt.Errorf("reading program headers: %w", err)
	}
	if haveZero {
		if err := f.readSections(h[:], zero); err != nil {
			f.Sections = nil
		}
	}
	return f, nil
}

// Executable returns the executable segments, in the file's order. Of more than 64, which no linker makes, it returns
// the first ones, so that callers may look at all for each address.
func (f *File) Executable() (x []unwind.Segment) {
	for _, s := range f.Segments {
		if s.Exec && len(x) < maxExec {
			x = append(x, s)
		}
	}
	return x
}

// Code returns the ranges that hold instructions: the executable sections or, without section headers, the executable
// segments, which may hold constants as well. At most 256 ranges are returned, in the file's order.
func (f *File) Code() (x []unwind.Segment) {
	exec := f.Executable()
	for _, s := range f.Sections {
		if s.Flags&(elf.SHF_EXECINSTR|elf.SHF_ALLOC) != elf.SHF_EXECINSTR|elf.SHF_ALLOC || s.Type == elf.SHT_NOBITS || s.Size == 0 {
			continue
		}
		for _, g := range exec {
			d := uint64(s.Addr - g.VAddr)
			if s.Addr < g.VAddr || d >= g.FileSize || len(x) >= maxCode {
				continue
			}
			n := min(s.Size, g.FileSize-d)
			x = append(x, unwind.Segment{Offset: g.Offset + unwind.FileOffset(d), VAddr: s.Addr, FileSize: n, MemSize: n, Exec: true})
			break
		}
	}
	if len(x) == 0 {
		return exec
	}
	return x
}

// CodeExtents returns the addresses at which there is code in memory, sorted and disjoint: those of the executable sections,
// also of sections that a separate debug file has without data, or, without section headers, of the executable segments. What
// a linker discarded has addresses elsewhere, most often 0, 1, -1 or -2.
func (f *File) CodeExtents() []unwind.Extent {
	var all []unwind.Extent
	add := func(start unwind.FileAddr, size uint64) {
		if end := start + unwind.FileAddr(size); end > start {
			all = append(all, unwind.Extent{Start: start, End: end})
		}
	}
	const code = elf.SHF_EXECINSTR | elf.SHF_ALLOC
	for _, s := range f.Sections {
		if s.Flags&code == code {
			add(s.Addr, s.Size)
		}
	}
	if len(all) == 0 {
		for _, s := range f.Segments {
			if s.Exec {
				add(s.VAddr, s.MemSize)
			}
		}
	}
	slices.SortFunc(all, func(a, b unwind.Extent) int { return cmp.Compare(a.Start, b.Start) })
	out := all[:0]
	for _, e := range all {
		if n := len(out); n > 0 && e.Start < out[n-1].End {
			out[n-1].End = max(out[n-1].End, e.End)
			continue
		}
		out = append(out, e)
	}
	return slices.Clip(out)
}

// header checks and takes the fixed fields of the ELF header.
func (f *File) header(h []byte, types []elf.Type) error {
	if c := elf.Class(h[elf.EI_CLASS]); c != elf.ELFCLASS64 {
		return fmt.Errorf("%w: %v", ErrUnsupported, c)
	}
	if d := elf.Data(h[elf.EI_DATA]); d != elf.ELFDATA2LSB {
		return fmt.Errorf("%w: %v", ErrUnsupported, d)
	}
	if v := h[elf.EI_VERSION]; v != byte(elf.EV_CURRENT) {
		return fmt.Errorf("%w: version %d", ErrUnsupported, v)
	}
	switch m := elf.Machine(binary.LittleEndian.Uint16(h[18:])); m {
	case elf.EM_X86_64:
		f.Arch = unwind.ArchAMD64
	case elf.EM_AARCH64:
		f.Arch = unwind.ArchARM64
	default:
		return fmt.Errorf("%w: %v", ErrUnsupported, m)
	}
	f.Type = elf.Type(binary.LittleEndian.Uint16(h[16:]))
	if !slices.Contains(types, f.Type) {
		return fmt.Errorf("%w: %v", ErrUnsupported, f.Type)
	}
	f.Entry = unwind.FileAddr(binary.LittleEndian.Uint64(h[24:]))
	return nil
}

// sectionZero reads the first section header, which holds the true counts of headers when they do not fit 16 bits.
func (f *File) sectionZero(h []byte) (Section, bool) {
	off := binary.LittleEndian.Uint64(h[40:])
	if off == 0 || binary.LittleEndian.Uint16(h[58:]) != secSize {
		return Section{}, false
	}
	b, err := f.slice(off, secSize)
	if err != nil {
		return Section{}, false
	}
	s, _ := parseSection(b)
	return s, true
}

func (f *File) readProgs(h []byte, zero Section) error {
	off, n := binary.LittleEndian.Uint64(h[32:]), uint64(binary.LittleEndian.Uint16(h[56:]))
	if n == 0xffff { // PN_XNUM
		n = uint64(zero.Info)
	}
	if n == 0 {
		return nil
	}
	if s := binary.LittleEndian.Uint16(h[54:]); s != progSize {
		return fmt.Errorf("%w: entries of %d bytes", ErrUnsupported, s)
	}
	if n > maxProgs {
		return fmt.Errorf("%d entries: %w", n, ErrTooLarge)
	}
	b, err := f.slice(off, n*progSize)
	if err != nil {
		return err
	}
	f.Progs = make([]Prog, 0, n)
	for ; len(b) >= progSize; b = b[progSize:] {
		p := Prog{
			Type:     elf.ProgType(binary.LittleEndian.Uint32(b)),
			Flags:    elf.ProgFlag(binary.LittleEndian.Uint32(b[4:])),
			Offset:   unwind.FileOffset(binary.LittleEndian.Uint64(b[8:])),
			VAddr:    unwind.FileAddr(binary.LittleEndian.Uint64(b[16:])),
			FileSize: binary.LittleEndian.Uint64(b[32:]),
			MemSize:  binary.LittleEndian.Uint64(b[40:]),
			Align:    binary.LittleEndian.Uint64(b[48:]),
		}
		f.Progs = append(f.Progs, p)
		if p.Type == elf.PT_LOAD {
			f.Segments = append(f.Segments, unwind.Segment{
				Offset: p.Offset, VAddr: p.VAddr, FileSize: p.FileSize, MemSize: p.MemSize,
				Exec: p.Flags&elf.PF_X != 0,
			})
		}
	}
	return nil
}

func (f *File) readSections(h []byte, zero Section) error {
	off, n := binary.LittleEndian.Uint64(h[40:]), uint64(binary.LittleEndian.Uint16(h[60:]))
	if n == 0 {
		n = zero.Size
	}
	if n > maxSections {
		return fmt.Errorf("%d section headers: %w", n, ErrTooLarge)
	}
	b, err := f.slice(off, n*secSize)
	if err != nil {
		return err
	}
	f.Sections = make([]Section, 0, n)
	names := make([]uint32, 0, n)
	for ; len(b) >= secSize; b = b[secSize:] {
		s, name := parseSection(b)
		f.Sections = append(f.Sections, s)
		names = append(names, name)
	}
	str := uint64(binary.LittleEndian.Uint16(h[62:]))
	if str == 0xffff { // SHN_XINDEX
		str = uint64(zero.Link)
	}
	if str >= uint64(len(f.Sections)) {
		return nil // nameless
	}
	tab, err := f.SectionData(&f.Sections[str], maxNames)
	if err != nil {
		return nil
	}
	all := string(tab) // shared by all names, which may overlap
	for i, name := range names {
		f.Sections[i].Name = cString(all, uint64(name), maxName)
	}
	return nil
}

func parseSection(b []byte) (s Section, name uint32) {
	return Section{
		Type:    elf.SectionType(binary.LittleEndian.Uint32(b[4:])),
		Flags:   elf.SectionFlag(binary.LittleEndian.Uint64(b[8:])),
		Addr:    unwind.FileAddr(binary.LittleEndian.Uint64(b[16:])),
		Offset:  unwind.FileOffset(binary.LittleEndian.Uint64(b[24:])),
		Size:    binary.LittleEndian.Uint64(b[32:]),
		Link:    binary.LittleEndian.Uint32(b[40:]),
		Info:    binary.LittleEndian.Uint32(b[44:]),
		Align:   binary.LittleEndian.Uint64(b[48:]),
		EntSize: binary.LittleEndian.Uint64(b[56:]),
	}, binary.LittleEndian.Uint32(b)
}

// cString is the NUL-terminated string at off, at most limit bytes of it.
func cString(tab string, off uint64, limit int) string {
	if off >= uint64(len(tab)) {
		return ""
	}
	s := tab[off:]
	s = s[:min(len(s), limit)]
	if n := strings.IndexByte(s, 0); n >= 0 {
		s = s[:n]
	}
	return s
}
