package elffile

import (
	"debug/elf"
	"encoding/binary"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// SymbolSize is how many bytes a symbol has in a table of symbols (Elf64_Sym).
const SymbolSize = 24

// Symbol is an entry of a table of symbols.
type Symbol struct {
	Name    uint32 // where its name stands in the table of names
	Bind    elf.SymBind
	Type    elf.SymType
	Section elf.SectionIndex
	Value   unwind.FileAddr // in relocatable files an offset in the section
	Size    uint64          // bytes
}

// ParseSymbol decodes the first SymbolSize bytes of b.
func ParseSymbol(b []byte) Symbol {
	b = b[:SymbolSize]
	return Symbol{
		Name:    binary.LittleEndian.Uint32(b),
		Bind:    elf.ST_BIND(b[4]),
		Type:    elf.ST_TYPE(b[4]),
		Section: elf.SectionIndex(binary.LittleEndian.Uint16(b[6:])),
		Value:   unwind.FileAddr(binary.LittleEndian.Uint64(b[8:])),
		Size:    binary.LittleEndian.Uint64(b[16:]),
	}
}
