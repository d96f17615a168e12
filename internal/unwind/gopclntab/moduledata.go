package gopclntab

import (
	"debug/elf"
	"encoding/binary"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// moduledata is what is needed of the runtime's struct of that name, which the linker fills in and which begins with a
// pointer to the table's header.
type moduledata struct {
	text, gofunc unwind.FileAddr
}

// Offsets in moduledata (runtime/symtab.go). Up to text they are the same in Go 1.18 to 1.27.
const (
	mdFuncnametab = 8 // slices of 24 bytes: funcnametab, cutab, filetab, pctab, pclntable, ftab
	mdPctab       = 80
	mdFtab        = 128
	mdMinPC       = 160
	mdMaxPC       = 168
	mdText        = 176
	mdSize        = 360 // as much as is looked at

	gofunc118 = 304
	gofunc120 = 320 // covctrs, ecovctrs came
	gofunc127 = 344 // typedesclen, itaboffset, itabsize came
)

// relocation types that add the load address: what the file's bytes do not show. ELF for the Arm 64-bit Architecture
// 2024Q3; System V ABI AMD64 1.0.
const (
	relativeAMD64 = 8
	relativeARM64 = 1027
)

// findModuledata looks for the words that a moduledata must have. The values of a position-independent file may stand
// in the file's bytes (as DT_RELR wants it) or in its relocations only.
func (t *Table) findModuledata() *moduledata {
	var found *moduledata
	tries := 0
	try := func(a unwind.FileAddr, relocs map[unwind.FileAddr]uint64) bool {
		found = t.moduledataAt(a, relocs)
		tries++
		return found == nil && tries < maxModuledata
	}
	for _, p := range t.moduledataParts() {
		scan(t.mem, p, func(a unwind.FileAddr, word uint64) bool {
			return word != uint64(t.base) || try(a, nil)
		})
		if found != nil || tries >= maxModuledata {
			return found
		}
	}
	rela := t.rela()
	if rela.size == 0 {
		return nil
	}
	var candidates []unwind.FileAddr
	t.scanRela(rela, func(at unwind.FileAddr, addend uint64) {
		if addend == uint64(t.base) && len(candidates) < 16 {
			candidates = append(candidates, at)
		}
	})
	relocs := make(map[unwind.FileAddr]uint64)
	t.scanRela(rela, func(at unwind.FileAddr, addend uint64) {
		for _, c := range candidates {
			if at >= c && at-c < mdSize {
				relocs[at] = addend
			}
		}
	})
	for _, c := range candidates {
		if !try(c, relocs) {
			break
		}
	}
	return found
}

// moduledataParts are the places to look in: the sections that have it in linkers' usual layouts, then everything that
// is not code.
func (t *Table) moduledataParts() []part {
	var parts []part
	for _, name := range []string{".go.module", ".noptrdata", ".data"} {
		if s := t.f.Section(name); s != nil && s.Flags&elf.SHF_ALLOC != 0 {
			parts = append(parts, part{s.Addr, s.Size})
		}
	}
	for _, p := range t.f.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_W != 0 {
			parts = append(parts, part{p.VAddr, p.FileSize})
		}
	}
	return parts
}

// moduledataAt checks whether a moduledata for this table lies at a.
func (t *Table) moduledataAt(a unwind.FileAddr, relocs map[unwind.FileAddr]uint64) *moduledata {
	var b [mdSize]byte
	if !t.mem.read(b[:], a) {
		return nil
	}
	word := func(off int) uint64 {
		if v, ok := relocs[a+unwind.FileAddr(off)]; ok {
			return v
		}
		return binary.LittleEndian.Uint64(b[off:])
	}
	first, _ := t.entryOff(0)
	last, _ := t.entryOff(t.nfunc)
	md := &moduledata{text: unwind.FileAddr(word(mdText))}
	if word(0) != uint64(t.base) ||
		word(mdFuncnametab) != uint64(t.names.addr) || word(mdFuncnametab+8) > t.names.size ||
		word(mdPctab) != uint64(t.pctab.addr) ||
		word(mdFtab) != uint64(t.funcs.addr) || word(mdFtab+8) != uint64(t.nfunc)+1 ||
		word(mdMinPC) != uint64(md.text)+uint64(first) || word(mdMaxPC) != uint64(md.text)+uint64(last) {
		return nil
	}
	offsets := []int{gofunc118}
	if !t.old {
		offsets = []int{gofunc127, gofunc120}
		if v, ok := parseVersion(t.version); ok && v.minor < 27 {
			offsets = []int{gofunc120, gofunc127}
		}
	}
	for _, off := range offsets {
		if base := unwind.FileAddr(word(off)); t.checkGofunc(base) {
			md.gofunc = base
			break
		}
	}
	return md
}

// checkGofunc tests a guess of funcdata's base on a few functions' inline trees.
func (t *Table) checkGofunc(base unwind.FileAddr) bool {
	const want, limit = 8, 20000
	if _, _, ok := t.mem.offset(base); !ok {
		return false
	}
	good := 0
	for i := 0; i < min(t.nfunc, limit) && good < want; i++ {
		fn, ok := t.function(i)
		if !ok || fn.inlPC == 0 || fn.inlTree == noFuncdata || fn.end <= fn.entry {
			continue
		}
		call, ok := t.inlinedCall(base, fn.inlTree, 0)
		if !ok || uint64(call.name) >= t.names.size || call.parentPC < 0 ||
			uint32(call.parentPC) >= fn.end-fn.entry || call.startLine < 0 {
			return false
		}
		// a name begins where another one ended
		if call.name > 0 {
			if b := t.mem.bytes(t.names.addr+unwind.FileAddr(call.name)-1, 1); b == nil || b[0] != 0 {
				return false
			}
		}
		good++
	}
	return good > 0
}

// rela finds the relocations with addends, by the dynamic section: it is there whenever they are needed.
func (t *Table) rela() part {
	var p part
	for _, prog := range t.f.Progs {
		if prog.Type != elf.PT_DYNAMIC {
			continue
		}
		for i := uint64(0); i+16 <= min(prog.FileSize, 64<<10); i += 16 {
			b := t.mem.bytes(prog.VAddr+unwind.FileAddr(i), 16)
			if b == nil {
				break
			}
			value := binary.LittleEndian.Uint64(b[8:])
			switch elf.DynTag(binary.LittleEndian.Uint64(b)) {
			case elf.DT_NULL:
				return p
			case elf.DT_RELA:
				p.addr = unwind.FileAddr(value)
			case elf.DT_RELASZ:
				p.size = min(value, maxScan)
			}
		}
	}
	return p
}

// scanRela visits the relocations that add the load address.
func (t *Table) scanRela(p part, visit func(at unwind.FileAddr, addend uint64)) {
	relative := uint64(relativeAMD64)
	if t.arch == unwind.ArchARM64 {
		relative = relativeARM64
	}
	var rel [3]uint64 // r_offset, r_info, r_addend
	i := 0
	scan(t.mem, p, func(_ unwind.FileAddr, word uint64) bool {
		rel[i] = word
		if i++; i == len(rel) {
			i = 0
			if rel[1] == relative {
				visit(unwind.FileAddr(rel[0]), rel[2])
			}
		}
		return true
	})
}
