package gopclntab

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"strings"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

// maxScan bounds what is read in search of a table that no section name leads to.
const maxScan = 256 << 20

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
	for _, p := range parts {
		var found *Table
		scan(mem, p, func(a unwind.FileAddr, word uint64) bool {
			low := uint32(word)
			if low != magic118 && low != magic120 {
				return true
			}
			_, n, _ := mem.offset(a)
			if t, err := parseHeader(f, newPager(f), a, n); err == nil {
				found = t
			}
			return found == nil
		})
		if found != nil {
			return found
		}
	}
	return nil
}

// scan calls visit for every aligned word of p that the file holds until it returns false.
func scan(mem *pager, p part, visit func(a unwind.FileAddr, word uint64) bool) {
	const chunk = 256 << 10
	a := (p.addr + 7) &^ 7
	skip := min(uint64(a-p.addr), p.size)
	left := min(p.size-skip, maxScan)
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
	for _, s := range t.f.Sections {
		if s.Flags&elf.SHF_EXECINSTR != 0 && strings.HasPrefix(s.Name, ".text") && t.inText(s.Addr) {
			if t.text = s.Addr; t.checkGoexit() {
				return true
			}
		}
	}
	for _, s := range t.f.Segments {
		// an internally linked program's text begins a page behind its headers
		for _, text := range []unwind.FileAddr{s.VAddr, s.VAddr + 0x1000, s.VAddr + 0x10000} {
			if s.Exec && t.inText(text) {
				if t.text = text; t.checkGoexit() {
					return true
				}
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

// checkGoexit tests a guess of text: runtime.goexit begins with a nop and then calls (asm_amd64.s, asm_arm64.s).
func (t *Table) checkGoexit() bool {
	for i := range t.nfunc {
		fn, ok := t.function(i)
		if !ok {
			return false
		}
		if fn.flags&flagTopFrame == 0 {
			continue
		}
		if name, _ := t.name(fn.name); name != "runtime.goexit" {
			continue
		}
		b := t.mem.bytes(t.text+unwind.FileAddr(fn.entry), 8)
		if t.arch == unwind.ArchAMD64 {
			return bytes.HasPrefix(b, []byte{0x90, 0xe8})
		}
		return len(b) == 8 && binary.LittleEndian.Uint32(b) == 0xaa0003e0 && b[7]>>2 == 0x94>>2
	}
	return false
}
