package elffile

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

const (
	maxNoteData    = 64 << 10 // bytes read of one segment or section of notes
	maxNoteRegions = 64
	maxGNUBuildID  = 64  // bytes; SHA-1 has 20
	maxGoBuildID   = 256 // bytes; the go command's have 83

	ntGNUBuildID = 3 // NT_GNU_BUILD_ID: glibc 2.41, elf/elf.h
	ntGoBuildID  = 4 // ELF_NOTE_GOBUILDID_TAG: Go 1.26, cmd/link/internal/ld/elf.go
)

// BuildIDs returns the GNU build id as lower-case hex and the Go build id's text, from the notes that the program
// headers and the sections name; each is empty if there is none.
func (f *File) BuildIDs() (gnu, goID string) {
	regions := 0
	visit := func(off unwind.FileOffset, size, align uint64) {
		if gnu != "" && goID != "" || regions >= maxNoteRegions {
			return
		}
		regions++
		b, err := f.slice(uint64(off), min(size, maxNoteData))
		if err != nil {
			return
		}
		g, o := notes(b, align)
		if gnu == "" {
			gnu = g
		}
		if goID == "" {
			goID = o
		}
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_NOTE {
			visit(p.Offset, p.FileSize, p.Align)
		}
	}
	for _, s := range f.Sections {
		if s.Type == elf.SHT_NOTE && s.Flags&elf.SHF_COMPRESSED == 0 {
			visit(s.Offset, s.Size, s.Align)
		}
	}
	return gnu, goID
}

// notes finds the build ids among notes. Names and descriptions are padded to 4 bytes, or to 8 in regions that are
// aligned so (gABI 4.3, "Note Sections").
func notes(b []byte, align uint64) (gnu, goID string) {
	if align != 8 {
		align = 4
	}
	for uint64(len(b)) >= 12 {
		nameSize, descSize := uint64(binary.LittleEndian.Uint32(b)), uint64(binary.LittleEndian.Uint32(b[4:]))
		typ := binary.LittleEndian.Uint32(b[8:])
		desc := (12 + nameSize + align - 1) &^ (align - 1)
		if desc+descSize > uint64(len(b)) {
			break
		}
		name, data := string(b[12:12+nameSize]), b[desc:desc+descSize]
		switch {
		case name == "GNU\x00" && typ == ntGNUBuildID && gnu == "" && descSize <= maxGNUBuildID:
			gnu = hex.EncodeToString(data)
		case name == "Go\x00\x00" && typ == ntGoBuildID && goID == "" && descSize <= maxGoBuildID && printable(data):
			goID = string(bytes.TrimRight(data, "\x00"))
		}
		next := (desc + descSize + align - 1) &^ (align - 1)
		b = b[min(next, uint64(len(b))):]
	}
	return gnu, goID
}

func printable(b []byte) bool {
	for _, c := range bytes.TrimRight(b, "\x00") {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return true
}

// HTLHash returns the file's profiling build id; see the function of the same name.
func (f *File) HTLHash() (string, error) { return HTLHash(f.r, f.size) }

// HTLHash is the hash by which OpenTelemetry profiles name files (semantic conventions 1.38,
// process.executable.build_id.htlhash): the first 16 bytes, as hex, of the SHA-256 of the first 4096 bytes, the last
// 4096 bytes and the size as eight bytes big endian. Shorter files have all their bytes taken twice.
func HTLHash(r io.ReaderAt, size int64) (string, error) {
	if size < 0 {
		return "", fmt.Errorf("hashing file: negative size %d", size)
	}
	f := File{r: r, size: size}
	h := sha256.New()
	n := uint64(min(size, 4096))
	for _, off := range []uint64{0, uint64(size) - n} {
		b, err := f.slice(off, n)
		if err != nil {
			return "", fmt.Errorf("hashing file: %w", err)
		}
		h.Write(b)
	}
	var length [8]byte
	binary.BigEndian.PutUint64(length[:], uint64(size))
	h.Write(length[:])
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}
