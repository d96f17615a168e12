package gopclntab

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"strings"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

const (
	// maxScan bounds what is searched of a file altogether: its headers may name the same bytes again and again.
	maxScan = 256 << 20
	// maxHeaders bounds how many places that begin as a table does are looked at more closely, and maxModuledata those
	// that may be a moduledata. Real files have one or two.
	maxHeaders    = 64
	maxModuledata = 1024
)

// Find looks for the pc-line table of a Go program or library, by section name or, where names were taken away or
// changed by the linker (.data.rel.ro swallows it in position-independent programs that an external linker made), by
// its header. It returns ErrNotGo if there is none. The file must stay open as long as the Table is used.
func Find(f *elffile.File) (*Table, error) {
	if f.Arch != unwind.ArchAMD64 && f.Arch != unwind.ArchARM64 {
		return nil, ErrNotGo
	}
	mem := newPager(f)
	info := findBuildInfo(f, mem)
	t := bySection(f, mem)
	if t == nil && (info.found || looksGo(f)) {
		t = byMagic(f, mem)
	}
	if t == nil {
		return nil, ErrNotGo
	}
	t.version = info.version
	md := t.findModuledata()
	if !t.place(md) {
		return nil, ErrNotGo
	}
	return t, nil
}

// looksGo tells whether a file has marks of the Go toolchain other than the table itself, so that a search pays.
func looksGo(f *elffile.File) bool {
	for _, s := range f.Sections {
		if s.Name == ".go.buildinfo" || s.Name == ".note.go.buildid" || s.Name == ".go.fipsinfo" {
			return true
		}
	}
	_, id := f.BuildIDs()
	return id != ""
}

func bySection(f *elffile.File, mem *pager) *Table {
	for _, name := range []string{".gopclntab", ".data.rel.ro.gopclntab"} {
		s := f.Section(name)
		if s == nil || s.Flags&elf.SHF_ALLOC == 0 {
			continue
		}
		if t, err := parseHeader(f, mem, s.Addr, s.Size); err == nil {
			return t
		}
	}
	return nil
}

// byMagic searches what a table can lie in: read-only data, or what is read-only after relocation.
func byMagic(f *elffile.File, mem *pager) *Table {
	var parts []part
	for _, name := range []string{".data.rel.ro", ".rodata"} {
		if s := f.Section(name); s != nil && s.Flags&elf.SHF_ALLOC != 0 {
			parts = append(parts, part{s.Addr, s.Size})
		}
	}
	for _, exec := range []bool{false, true} { // some linkers put read-only data into the text segment
		for _, s := range f.Segments {
			if s.Exec == exec {
				parts = append(parts, part{s.VAddr, s.FileSize})
			}
		}
	}
	var found *Table
	headers := 0
	for _, p := range parts {
		scan(mem, p, func(a unwind.FileAddr, word uint64) bool {
			var h [8]byte
			binary.LittleEndian.PutUint64(h[:], word)
			if !isMagic(h[:], f.Arch) {
				return true
			}
			headers++
			_, n, _ := mem.offset(a)
			if t, err := parseHeader(f, mem, a, n); err == nil {
				found = t
			}
			return found == nil && headers < maxHeaders
		})
		if found != nil || headers >= maxHeaders {
			break
		}
	}
	return found
}

// scan calls visit for every aligned word of p that the file holds until it returns false, or until as much of the file
// was scanned as may be.
func scan(mem *pager, p part, visit func(a unwind.FileAddr, word uint64) bool) {
	const chunk = 256 << 10
	a := (p.addr + 7) &^ 7
	skip := min(uint64(a-p.addr), p.size)
	left := min(p.size-skip, maxScan-mem.scanned)
	buf := make([]byte, min(left, chunk))
	for left >= 8 {
		b := buf[:min(left, chunk)&^7]
		if mem.f.ReadAddr(b, a) != nil {
			_, n, _ := mem.offset(a)
			b = b[:min(uint64(len(b)), n)&^7]
			if len(b) == 0 || mem.f.ReadAddr(b, a) != nil {
				return
			}
		}
		mem.scanned += uint64(len(b))
		for i := 0; i < len(b); i += 8 {
			if !visit(a+unwind.FileAddr(i), binary.LittleEndian.Uint64(b[i:])) {
				return
			}
		}
		a, left = a+unwind.FileAddr(len(b)), left-uint64(len(b))
	}
}

// place settles what function offsets are relative to: what moduledata says, else the header (up to Go 1.25, in files
// that need no relocation), else the start of .text if it proves right.
func (t *Table) place(md *moduledata) bool {
	if md != nil && t.inText(md.text) {
		t.text, t.gofunc = md.text, md.gofunc
		return true
	}
	if t.text != 0 && t.inText(t.text) {
		return true
	}
	goexit, ok := t.goexit()
	if !ok {
		return false
	}
	right := func(text unwind.FileAddr) bool { return t.inText(text) && t.isGoexit(text+unwind.FileAddr(goexit)) }
	for _, s := range t.f.Sections {
		if s.Flags&elf.SHF_EXECINSTR != 0 && strings.HasPrefix(s.Name, ".text") && right(s.Addr) {
			t.text = s.Addr
			return true
		}
	}
	for _, s := range t.f.Segments {
		// an internally linked program's text begins a page behind its headers
		for _, text := range []unwind.FileAddr{s.VAddr, s.VAddr + 0x1000, s.VAddr + 0x10000} {
			if s.Exec && right(text) {
				t.text = text
				return true
			}
		}
	}
	return false
}

// inText tells whether all functions lie in an executable segment if offsets are relative to text.
func (t *Table) inText(text unwind.FileAddr) bool {
	first, ok1 := t.entryOff(0)
	last, ok2 := t.entryOff(t.nfunc)
	if !ok1 || !ok2 || last <= first {
		return false
	}
	for _, s := range t.f.Segments {
		if s.Exec && text+unwind.FileAddr(first) >= s.VAddr && text >= s.VAddr &&
			uint64(text-s.VAddr)+uint64(last) <= s.FileSize {
			return true
		}
	}
	return false
}

// goexit is the offset of runtime.goexit's entry, by which guesses of text are tested.
func (t *Table) goexit() (entry uint32, ok bool) {
	for i := range t.nfunc {
		fn, ok := t.function(i)
		if !ok {
			return 0, false
		}
		if fn.flags&flagTopFrame == 0 {
			continue
		}
		if name, _ := t.name(fn.name); name == "runtime.goexit" {
			return fn.entry, true
		}
	}
	return 0, false
}

// isGoexit tells whether the code at a may be runtime.goexit's: a nop and a call (asm_amd64.s, asm_arm64.s).
func (t *Table) isGoexit(a unwind.FileAddr) bool {
	b := t.mem.bytes(a, 8)
	if t.arch == unwind.ArchAMD64 {
		return bytes.HasPrefix(b, []byte{0x90, 0xe8})
	}
	return len(b) == 8 && binary.LittleEndian.Uint32(b) == 0xaa0003e0 && b[7]>>2 == 0x94>>2
}
