package kallsyms

import (
	"encoding/binary"
	"encoding/hex"
)

// BuildID returns the GNU build id in lower-case hex from ELF notes such as the bytes of /sys/kernel/notes; empty if there
// is none. A note is the sizes of name and description, the type, then both, padded to 4 bytes each (gABI 4.3, "Note
// Sections"; NT_GNU_BUILD_ID: glibc 2.41, elf/elf.h).
func BuildID(notes []byte) string {
	const ntGNUBuildID, maxSize = 3, 64
	for len(notes) >= 12 {
		name, desc := uint64(binary.LittleEndian.Uint32(notes)), uint64(binary.LittleEndian.Uint32(notes[4:]))
		typ := binary.LittleEndian.Uint32(notes[8:])
		rest := notes[12:]
		start := (name + 3) &^ 3
		if start+desc > uint64(len(rest)) {
			return ""
		}
		if typ == ntGNUBuildID && string(rest[:name]) == "GNU\x00" && desc > 0 && desc <= maxSize {
			return hex.EncodeToString(rest[start:][:desc])
		}
		notes = rest[min((start+desc+3)&^3, uint64(len(rest))):]
	}
	return ""
}
