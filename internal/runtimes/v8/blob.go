package v8

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/hostprofiles/hostprofiles/internal/runtimes"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

// A build without symbols of its builtins (Debian's libnode) still has three things that tell of them: an array of their names in order
// (builtin_metadata of src/builtins/builtins.cc), a table of where in the blob each is (LayoutDescription of
// src/snapshot/embedded/embedded-data.h), and the blob, where at least one byte of padding is behind each (PadAndAlignCode there). V8 10.2
// to 15.0.
const (
	// firstName is that of the first builtin, in all these versions.
	firstName = "DeoptimizationEntry_Eager"
	// metadataBytes is an entry's size: the name, what kind it is, and something that depends on that.
	metadataBytes = 24
	// maxKind bounds the kind: there are nine.
	maxKind = 15
	// fewestBuiltins bounds how few there are.
	fewestBuiltins = 500
	// surplus is how many entries of something else may be behind the names, and look like names: those of kinds are.
	surplus = 32
	// maxBlob bounds the code of all builtins, which is some 2 MiB.
	maxBlob = 16 << 20
	// maxCandidates bounds how many places are looked at that might be the right ones.
	maxCandidates = 16
	// maxScanned bounds what is looked through of a file in all. Chromium has 250 MiB.
	maxScanned = 1 << 30
	scanStep   = 1 << 20
	// maxCompared bounds how often something in a file is compared with what is looked for, in all: a million times in Debian's libnode.
	maxCompared = 1 << 27
	padding     = 0xcc
)

// stride is the size of a LayoutDescription, which begins with the offset and the length of a builtin; 0 if it is not known.
func (v version) stride() int {
	switch {
	case v.major < 10:
		return 0
	case v.major == 10:
		return 28
	case v.major == 11:
		return 32
	}
	return 12
}

// extent is where in the blob a builtin is.
type extent struct{ offset, size uint32 }

// findBuiltins finds those of a file without their symbols.
func findBuiltins(f *elffile.File, v version) ([]builtin, error) {
	stride := v.stride()
	if stride == 0 {
		return nil, fmt.Errorf("no symbols of builtins: %w", runtimes.ErrUnsupported)
	}
	finder := blobFinder{file: f, scanned: maxScanned, compared: maxCompared}
	all, err := finder.find(stride)
	if err != nil {
		return nil, fmt.Errorf("looking for builtins: %w", err)
	}
	if len(all) > 0 {
		return all, nil
	}
	return nil, fmt.Errorf("no symbols of builtins, and no blob: %w", runtimes.ErrUnsupported)
}

// blobFinder has what is left of the bounds.
type blobFinder struct {
	file              *elffile.File
	scanned, compared int
}

var errSearched = fmt.Errorf("searched for long enough: %w", runtimes.ErrUnsupported)

// compare takes one comparison; false if there is none left.
func (f *blobFinder) compare(n int) bool {
	f.compared -= n
	return f.compared > 0
}

func (f *blobFinder) find(stride int) ([]builtin, error) {
	tables, err := f.nameTables()
	if err != nil {
		return nil, err
	}
	for _, table := range tables {
		names, err := f.readNames(table)
		if err != nil {
			return nil, err
		}
		if len(names) < fewestBuiltins {
			continue
		}
		extents, err := f.readExtents(stride, len(names))
		if err != nil || extents == nil {
			return nil, err
		}
		start, ok, err := f.blobStart(extents)
		if err != nil || !ok {
			return nil, err
		}
		all := make([]builtin, len(extents))
		for i, x := range extents {
			all[i] = builtin{start: start + unwind.FileAddr(x.offset), size: uint64(x.size), name: names[i]}
		}
		return all, nil
	}
	return nil, nil
}

// scan shows what sections have, in pieces that begin with the last so many bytes of the piece before, until look returns false.
func (f *blobFinder) scan(wanted func(s *elffile.Section) bool, overlap int, look func(at unwind.FileAddr, b []byte) bool) error {
	size := uint64(scanStep + overlap)
	if err := f.file.Budget().Take(size, "V8's builtins"); err != nil {
		return err
	}
	defer f.file.Budget().Give(size)
	buffer := make([]byte, size)
	for i := range f.file.Sections {
		s := &f.file.Sections[i]
		if !wanted(s) || s.Type == elf.SHT_NOBITS {
			continue
		}
		for at := uint64(0); at < s.Size; at += scanStep {
			b := buffer[:min(size, s.Size-at)]
			if f.scanned -= len(b); f.scanned < 0 || f.compared < 0 {
				return errSearched
			}
			if err := f.file.ReadSection(b, s, at); err != nil {
				return err
			}
			if !look(s.Addr+unwind.FileAddr(at), b) {
				return nil
			}
		}
	}
	return nil
}

func constantSection(s *elffile.Section) bool {
	return s.Type == elf.SHT_PROGBITS && s.Flags&(elf.SHF_ALLOC|elf.SHF_WRITE|elf.SHF_EXECINSTR) == elf.SHF_ALLOC
}

func variableSection(s *elffile.Section) bool {
	return s.Type == elf.SHT_PROGBITS && s.Flags&(elf.SHF_ALLOC|elf.SHF_WRITE) == elf.SHF_ALLOC|elf.SHF_WRITE
}

func codeSection(s *elffile.Section) bool {
	return s.Type == elf.SHT_PROGBITS && s.Flags&(elf.SHF_ALLOC|elf.SHF_EXECINSTR) == elf.SHF_ALLOC|elf.SHF_EXECINSTR
}

// relocations shows the words that are to be an address of the file's own: where, and which.
func (f *blobFinder) relocations(look func(at, value unwind.FileAddr)) error {
	const size = 24 // Elf64_Rela
	relative := uint32(elf.R_X86_64_RELATIVE)
	if f.file.Arch == unwind.ArchARM64 {
		relative = uint32(elf.R_AARCH64_RELATIVE)
	}
	for i := range f.file.Sections {
		s := &f.file.Sections[i]
		if s.Type != elf.SHT_RELA || s.Flags&elf.SHF_ALLOC == 0 {
			continue
		}
		b := make([]byte, 4096*size)
		for at := uint64(0); at+size <= s.Size; at += uint64(len(b)) {
			b = b[:min(uint64(len(b)), (s.Size-at)/size*size)]
			if f.scanned -= len(b); f.scanned < 0 {
				return errSearched
			}
			if err := f.file.ReadSection(b, s, at); err != nil {
				return err
			}
			for r := b; len(r) > 0; r = r[size:] {
				if binary.LittleEndian.Uint32(r[8:]) == relative {
					look(unwind.FileAddr(binary.LittleEndian.Uint64(r)), unwind.FileAddr(binary.LittleEndian.Uint64(r[16:])))
				}
			}
		}
	}
	return nil
}

// nameTables are where the first builtin's name is referred to.
func (f *blobFinder) nameTables() (tables []unwind.FileAddr, err error) {
	var names []unwind.FileAddr
	text := append([]byte(firstName), 0)
	err = f.scan(constantSection, len(text)-1, func(at unwind.FileAddr, b []byte) bool {
		for from := 0; len(names) < maxCandidates; {
			i := bytes.Index(b[from:], text)
			if i < 0 {
				return true
			}
			if a := at + unwind.FileAddr(from+i); !slices.Contains(names, a) {
				names = append(names, a)
			}
			from += i + 1
		}
		return false
	})
	if err != nil || len(names) == 0 {
		return nil, err
	}
	found := func(at unwind.FileAddr) {
		if len(tables) < maxCandidates && !slices.Contains(tables, at) {
			tables = append(tables, at)
		}
	}
	if err := f.relocations(func(at, value unwind.FileAddr) {
		if slices.Contains(names, value) {
			found(at)
		}
	}); err != nil {
		return nil, err
	}
	// of a program that is not moved, and where relocations are packed
	err = f.scan(variableSection, 0, func(at unwind.FileAddr, b []byte) bool {
		for i := int(-at & 7); i+8 <= len(b); i += 8 {
			if slices.Contains(names, unwind.FileAddr(binary.LittleEndian.Uint64(b[i:]))) {
				found(at + unwind.FileAddr(i))
			}
		}
		return true
	})
	return tables, err
}

// readNames reads names for as long as they look like some.
func (f *blobFinder) readNames(table unwind.FileAddr) (names []string, err error) {
	i := slices.IndexFunc(f.file.Sections, func(s elffile.Section) bool {
		return variableSection(&s) && s.Addr <= table && uint64(table-s.Addr) < s.Size
	})
	if i < 0 {
		return nil, nil
	}
	s := &f.file.Sections[i]
	b := make([]byte, min(s.Size-uint64(table-s.Addr), maxBuiltins*metadataBytes)/metadataBytes*metadataBytes)
	if err := f.file.ReadSection(b, s, uint64(table-s.Addr)); err != nil {
		return nil, err
	}
	if err := f.relocations(func(at, value unwind.FileAddr) {
		if at >= table && uint64(at-table)+8 <= uint64(len(b)) {
			binary.LittleEndian.PutUint64(b[at-table:], uint64(value))
		}
	}); err != nil {
		return nil, err
	}
	for ; len(b) > 0; b = b[metadataBytes:] {
		name := readName(f.file, unwind.FileAddr(binary.LittleEndian.Uint64(b)))
		if name == "" || binary.LittleEndian.Uint64(b[8:]) > maxKind {
			break
		}
		names = append(names, name)
	}
	return names, nil
}

// readName reads what could be a builtin's name; empty if it could not.
func readName(f *elffile.File, at unwind.FileAddr) string {
	var b [maxBuiltinName]byte
	for n := len(b); n >= 16; n /= 2 { // the file may end behind it
		if f.ReadAddr(b[:n], at) != nil {
			continue
		}
		end := bytes.IndexByte(b[:n], 0)
		if end < 0 || bytes.ContainsFunc(b[:end], func(c rune) bool {
			return c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z')
		}) {
			return ""
		}
		return string(b[:end])
	}
	return ""
}

// readExtents finds the table of where builtins are: so many, or a few less. nil if there is none.
func (f *blobFinder) readExtents(stride, names int) (extents []extent, err error) {
	all := make([]extent, names)
	err = f.scan(constantSection, stride*names, func(at unwind.FileAddr, b []byte) bool {
		for i := int(-at & 7); i+stride*(names-surplus) <= len(b); i += 8 {
			n := min(names, (len(b)-i)/stride)
			looked, ok := readable(b[i:], stride, all[:n])
			if !f.compare(looked) {
				return false
			}
			for ; ok && n >= names-surplus; n-- {
				if !f.compare(16 * n) {
					return false
				}
				if adjacent(all[:n]) {
					extents = all[:n]
					return false
				}
			}
		}
		return true
	})
	if err == nil && extents == nil && f.compared <= 0 {
		err = errSearched
	}
	return extents, err
}

// readable reads entries of a table, and tells at how many it has looked and whether they could be a blob's.
func readable(b []byte, stride int, to []extent) (looked int, ok bool) {
	for i := range to {
		x := extent{binary.LittleEndian.Uint32(b[i*stride:]), binary.LittleEndian.Uint32(b[i*stride+4:])}
		to[i] = x
		if i < len(to)-surplus && (x.offset%32 != 0 || x.offset >= maxBlob || x.size == 0 || x.size >= maxBlob) {
			return i + 1, false
		}
	}
	return len(to), true
}

// adjacent tells whether builtins follow each other from the beginning of the blob on, each padded and aligned.
func adjacent(extents []extent) bool {
	sorted := slices.SortedFunc(slices.Values(extents), func(a, b extent) int { return int(int64(a.offset) - int64(b.offset)) })
	for _, align := range []uint64{64, 32} { // kCodeAlignment of src/common/globals.h
		end := uint64(0)
		if !slices.ContainsFunc(sorted, func(x extent) bool {
			gap := uint64(x.offset) != end
			end = (uint64(x.offset) + uint64(x.size) + align) &^ (align - 1)
			return gap
		}) {
			return end <= maxBlob
		}
	}
	return false
}

// blobStart finds the only place in the code where there is padding behind each builtin.
func (f *blobFinder) blobStart(extents []extent) (start unwind.FileAddr, ok bool, err error) {
	var ends []int
	for _, x := range extents {
		ends = append(ends, int(x.offset+x.size))
	}
	size := slices.Max(ends) + 1
	found := 0
	err = f.scan(codeSection, size, func(at unwind.FileAddr, b []byte) bool {
		for i := int(-at & 31); i+size <= len(b) && i < scanStep; i += 32 {
			wrong := slices.IndexFunc(ends, func(end int) bool { return b[i+end] != padding })
			if wrong < 0 {
				start = at + unwind.FileAddr(i)
				found++
				wrong = len(ends)
			}
			if !f.compare(wrong + 1) {
				return false
			}
		}
		return found < 2
	})
	if err == nil && f.compared <= 0 {
		err = errSearched
	}
	return start, found == 1, err
}
