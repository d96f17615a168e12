package elfsym

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"math"
	"slices"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

const (
	relaSize   = 24       // Elf64_Rela
	maxPLT     = 16 << 20 // bytes of one section of stubs
	maxStubs   = 1 << 18
	maxRelas   = 4 << 20 // relocations looked at
	noSlot     = math.MaxUint64
	noIndex    = -1
	relaPlt    = ".rela.plt"
	relaDyn    = ".rela.dyn"
	stubDecode = 32 // bytes of a stub that decoding looks at
)

// stub is an entry of a procedure linkage table: it jumps to what the dynamic linker wrote into a slot of the GOT.
type stub struct {
	addr uint64
	size uint64
	slot uint64 // address of the GOT entry; noSlot if the code tells an index only
	rela int64  // index in .rela.plt; noIndex if the code tells the slot
}

// target is what a relocation fills a slot with: a dynamic symbol, or without one what an IFUNC's resolver returns.
type target struct {
	sym      uint32
	resolver uint64
}

// plt names the stubs. They are found by decoding, since linkers lay out these tables in their own ways; the relocation
// of the slot through which a stub jumps tells the symbol.
func (l *loader) plt(dyn *symbolTable) error {
	var stubs []stub
	for i := range l.f.Sections {
		s := &l.f.Sections[i]
		switch s.Name {
		case ".plt", ".plt.sec", ".plt.got", ".plt.bnd", ".iplt":
		default:
			continue
		}
		if s.Type != elf.SHT_PROGBITS {
			continue
		}
		b, err := l.f.SectionData(s, maxPLT)
		if err != nil {
			return err
		}
		if l.f.Arch == unwind.ArchARM64 {
			stubs = stubsARM64(stubs, b, uint64(s.Addr))
		} else {
			stubs = stubsAMD64(stubs, b, uint64(s.Addr), s.EntSize)
		}
	}
	if len(stubs) == 0 {
		return nil
	}
	return l.nameStubs(stubs[:min(len(stubs), maxStubs)], dyn)
}

// stubsAMD64 decodes entries of 8, 16 or 32 bytes. An entry is one of these, the brackets being optional:
//
//	[endbr64] [bnd] jmp *slot(%rip)                          GNU ld, lld, gold; .plt.sec and .plt.got
//	[endbr64] mov $index, %r11d; jmp *slot(%rip)             mold
//	mov slot(%rip), %r11; ...                                lld, retpoline
//	[endbr64] push $index; [bnd] jmp plt0                    GNU ld's .plt beside a .plt.sec
func stubsAMD64(stubs []stub, b []byte, addr, entSize uint64) []stub {
	unit := uint64(16)
	if entSize == 8 || entSize == 32 {
		unit = entSize
	}
	for off := uint64(0); off+8 <= uint64(len(b)) && len(stubs) < maxStubs; off += unit {
		entry := b[off:min(off+stubDecode, uint64(len(b)))]
		p := 0
		skip := func(bytes string) {
			if len(entry)-p >= len(bytes) && string(entry[p:p+len(bytes)]) == bytes {
				p += len(bytes)
			}
		}
		skip("\xf3\x0f\x1e\xfa")
		if len(entry)-p >= 6 && entry[p] == 0x41 && entry[p+1] == 0xbb {
			p += 6
		}
		s := stub{addr: addr + off, size: unit, slot: noSlot, rela: noIndex}
		if len(entry)-p >= 5 && entry[p] == 0x68 {
			s.rela = int64(binary.LittleEndian.Uint32(entry[p+1:]))
			stubs = append(stubs, s)
			continue
		}
		skip("\xf2")
		opcode := 0
		switch rest := entry[p:]; {
		case len(rest) >= 6 && rest[0] == 0xff && rest[1] == 0x25:
			opcode = 2
		case len(rest) >= 7 && rest[0] == 0x4c && rest[1] == 0x8b && rest[2] == 0x1d:
			opcode = 3
		default:
			continue
		}
		disp := int32(binary.LittleEndian.Uint32(entry[p+opcode:]))
		s.slot = s.addr + uint64(p+opcode+4) + uint64(int64(disp))
		stubs = append(stubs, s)
	}
	return stubs
}

// stubsARM64 decodes what every linker emits, between optional landing pads and pointer authentication:
//
//	[bti c]; adrp x16, page; ldr x17, [x16, #offset]; add x16, x16, #offset; [autia1716]; br x17
func stubsARM64(stubs []stub, b []byte, addr uint64) []stub {
	const bti, nop, br = 0xd503245f, 0xd503201f, 0xd61f0220
	word := func(i int) uint32 {
		if i < 0 || i*4+4 > len(b) {
			return 0
		}
		return binary.LittleEndian.Uint32(b[i*4:])
	}
	for i := 0; i*4 < len(b) && len(stubs) < maxStubs; i++ {
		adrp, ldr := word(i), word(i+1)
		if adrp&0x9f00001f != 0x90000010 || ldr&0xffc003ff != 0xf9400211 {
			continue
		}
		pages := int64(int32(adrp>>5&0x7ffff<<13|adrp>>29&3<<11)) >> 11 // 21 bits, signed
		pc := addr + uint64(i*4)
		start, end := i, i+2
		if word(i-1) == bti {
			start--
		}
		for limit := i + 6; end < limit && word(end) != br; {
			end++
		}
		for end++; word(end) == nop; {
			end++
		}
		end = min(end, len(b)/4)
		stubs = append(stubs, stub{
			addr: addr + uint64(start*4), size: uint64(end-start) * 4,
			slot: pc&^0xfff + uint64(pages<<12) + uint64(ldr>>10&0xfff)*8, rela: noIndex,
		})
		i = end - 1
	}
	return stubs
}

// nameStubs finds each stub's relocation and appends the rows.
func (l *loader) nameStubs(stubs []stub, dyn *symbolTable) error {
	slots := make(map[uint64]target, len(stubs))
	missing := 0
	for _, s := range stubs {
		if s.slot != noSlot {
			slots[s.slot] = target{}
			missing++
		}
	}
	var byIndex []target
	err := l.relocations(relaPlt, func(i int64, slot uint64, t target) bool {
		if _, ok := slots[slot]; ok {
			slots[slot] = t
			missing--
		}
		if i < maxStubs {
			byIndex = slices.Grow(byIndex, int(i)+1-len(byIndex))[:i+1]
			byIndex[i] = t
		}
		return true
	})
	if err != nil {
		return err
	}
	if missing > 0 {
		// Only .plt.got's slots are filled by these, and there are many of them.
		err = l.relocations(relaDyn, func(_ int64, slot uint64, t target) bool {
			if old, ok := slots[slot]; ok && old == (target{}) {
				slots[slot] = t
				missing--
			}
			return missing > 0
		})
		if err != nil {
			return err
		}
	}
	targets := make([]target, len(stubs))
	for i, s := range stubs {
		if s.slot != noSlot {
			targets[i] = slots[s.slot]
		} else if s.rela < int64(len(byIndex)) {
			targets[i] = byIndex[s.rela]
		}
	}
	return l.stubRows(stubs, targets, dyn)
}

// relocations calls f for those that fill slots of the GOT with functions, until it returns false.
func (l *loader) relocations(section string, f func(i int64, slot uint64, t target) bool) error {
	s := l.f.Section(section)
	if s == nil || s.Type != elf.SHT_RELA || s.Flags&elf.SHF_COMPRESSED != 0 {
		return nil
	}
	if err := l.f.Check(uint64(s.Offset), s.Size); err != nil {
		return err
	}
	n := int64(min(s.Size/relaSize, maxRelas))
	buf := make([]byte, min(n, 8192)*relaSize)
	for i := int64(0); i < n; {
		b := buf[:min(int64(len(buf)), (n-i)*relaSize)]
		if err := readFull(l.f.ReaderAt(), b, int64(s.Offset)+i*relaSize); err != nil {
			return err
		}
		for ; len(b) >= relaSize; b = b[relaSize:] {
			slot, info := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
			t := target{sym: uint32(info >> 32)}
			switch relocationKind(l.f.Arch, uint32(info)) {
			case relocOther:
				i++
				continue
			case relocResolver:
				t = target{resolver: binary.LittleEndian.Uint64(b[16:])}
			}
			if !f(i, slot, t) {
				return nil
			}
			i++
		}
	}
	return nil
}

const (
	relocOther = iota
	relocSymbol
	relocResolver
)

func relocationKind(arch unwind.Arch, typ uint32) int {
	if arch == unwind.ArchARM64 {
		switch elf.R_AARCH64(typ) {
		case elf.R_AARCH64_JUMP_SLOT, elf.R_AARCH64_GLOB_DAT:
			return relocSymbol
		case elf.R_AARCH64_IRELATIVE:
			return relocResolver
		}
		return relocOther
	}
	switch elf.R_X86_64(typ) {
	case elf.R_X86_64_JMP_SLOT, elf.R_X86_64_GLOB_DAT:
		return relocSymbol
	case elf.R_X86_64_IRELATIVE:
		return relocResolver
	}
	return relocOther
}

// stubRows appends a row for each stub whose target is known. The names' offsets are read in the order of the symbols,
// since those of neighbours come with one call.
func (l *loader) stubRows(stubs []stub, targets []target, dyn *symbolTable) error {
	order := make([]int, 0, len(stubs))
	for i, t := range targets {
		switch {
		case t.sym != 0 && dyn != nil:
			order = append(order, i)
		case t.resolver != 0:
			ref := uint32(len(l.t.resolvers))
			l.t.resolvers = append(l.t.resolvers, unwind.FileAddr(t.resolver))
			l.addStub(stubs[i], ref, sourceResolver)
		}
	}
	if dyn == nil {
		return nil
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(targets[a].sym, targets[b].sym) })
	w := window{tab: &stringTable{dyn.r, dyn.off, dyn.count * elffile.SymbolSize}}
	for _, i := range order {
		b, err := w.at(int64(targets[i].sym)*elffile.SymbolSize, elffile.SymbolSize)
		if err != nil {
			return err
		}
		if len(b) == elffile.SymbolSize {
			l.addStub(stubs[i], elffile.ParseSymbol(b).Name, sourceDynsym)
		}
	}
	return nil
}

func (l *loader) addStub(s stub, ref, source uint32) {
	if _, ok := l.t.codeAt(s.addr); !ok || source == sourceDynsym && ref == 0 {
		return
	}
	if len(l.rows) >= l.opts.MaxSymbols {
		l.t.skipped++
		return
	}
	r := newRow(s.addr, ref, s.size, source, bindLocal)
	r.meta |= pltBit
	l.rows = append(l.rows, r)
}
