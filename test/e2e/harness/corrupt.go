package harness

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
)

// Corruption is a way to spoil what a profiler reads of an executable without the kernel, or the program, minding.
type Corruption string

// Corruptions lists all of them.
func Corruptions() []Corruption {
	return []Corruption{
		".eh_frame", ".eh_frame_hdr", ".symtab", ".strtab", ".dynsym", ".note.gnu.build-id", "cyclic CIE", "huge lengths",
		"section headers", "section count", "section sizes",
	}
}

// Corrupt returns a spoiled copy of a statically linked executable. The same seed gives the same copy.
func Corrupt(text []byte, how Corruption, seed uint64) ([]byte, error) {
	f, err := elf.NewFile(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("corrupting an executable: %w", err)
	}
	out := bytes.Clone(text)
	random := rand.New(rand.NewPCG(seed, 0))
	le := binary.LittleEndian
	headers := le.Uint64(out[0x28:]) // e_shoff
	switch how {
	case "section headers":
		scramble(out[headers:], random, 8)
	case "section count":
		le.PutUint16(out[0x3c:], 0xfff0) // e_shnum
		le.PutUint16(out[0x3e:], 0xffef) // e_shstrndx
	case "section sizes":
		for i := range f.Sections {
			le.PutUint64(out[headers+uint64(i)*64+0x20:], 1<<62|random.Uint64()>>3) // sh_size
		}
	case "cyclic CIE", "huge lengths":
		s := f.Section(".eh_frame")
		if s == nil {
			return nil, fmt.Errorf("corrupting an executable: no section .eh_frame")
		}
		spoilFrames(out[s.Offset:s.Offset+s.Size], how == "huge lengths", random)
	default:
		s := f.Section(string(how))
		if s == nil {
			return out, nil // nothing to spoil in this executable
		}
		scramble(out[s.Offset:s.Offset+s.Size], random, 16)
	}
	return out, nil
}

// scramble overwrites one byte in every.
func scramble(b []byte, random *rand.Rand, every int) {
	for range max(len(b)/every, 1) {
		b[random.IntN(len(b))] = byte(random.Uint32())
	}
}

// spoilFrames has every entry of .eh_frame point at itself as its CIE, or announce a length of nearly 4 GiB.
func spoilFrames(b []byte, lengths bool, random *rand.Rand) {
	le := binary.LittleEndian
	for at := 0; at+8 <= len(b); {
		length := int(le.Uint32(b[at:]))
		if length == 0 || at+4+length > len(b) {
			return
		}
		if lengths && random.IntN(8) == 0 {
			le.PutUint32(b[at:], 0xffffffef-random.Uint32N(64))
		} else if le.Uint32(b[at+4:]) != 0 {
			le.PutUint32(b[at+4:], 4) // the distance back to the CIE: the FDE itself
		}
		at += 4 + length
	}
}
