package mix

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// Where is the kind of code that an address lies in.
type Where int

const (
	// Described code has call frame information, or tables of its own that say the same (Go's).
	Described Where = iota
	// Bare code is a file's, and nothing describes its frames: hand-written assembler, mostly.
	Bare
	// Made code is no ELF file's: what a runtime made in memory, or keeps in a file of its own format.
	Made
)

// Files knows of files which of their code is described. It reads the tables itself, with no help of the profiler's.
type Files map[string]*file

type file struct {
	where  Where // of all code, if there are no ranges
	ranges []span
	// debug tells that there is debug information, in the file or where Debian's packages put it.
	debug bool
}

type span struct{ from, to uint64 }

// Where tells what a frame's code is. path is the file of its mapping.
func (f Files) Where(path string, address uint64) Where {
	got := f.open(path)
	if got.ranges == nil {
		return got.where
	}
	i := sort.Search(len(got.ranges), func(i int) bool { return got.ranges[i].to > address })
	if i < len(got.ranges) && got.ranges[i].from <= address {
		return Described
	}
	return Bare
}

// Debug tells whether the file's debug information is installed.
func (f Files) Debug(path string) bool { return f.open(path).debug }

func (f Files) open(path string) *file {
	path = strings.TrimSuffix(path, " (deleted)")
	if got, ok := f[path]; ok {
		return got
	}
	got := &file{where: Made}
	if path == "[vdso]" {
		got.where = Described
	} else if read, err := readFile(path); err == nil {
		got = read
	}
	f[path] = got
	return got
}

func readFile(path string) (*file, error) {
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("reading %q: it is no file", path)
	}
	e, err := elf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the tables of %s: %w", path, err)
	}
	defer func() { _ = e.Close() }()
	f := &file{where: Bare, debug: hasDebug(e)}
	if e.Section(".gopclntab") != nil {
		f.where = Described
		return f, nil
	}
	frames := e.Section(".eh_frame")
	if frames == nil {
		return f, nil
	}
	data, err := frames.Data()
	if err != nil {
		return nil, fmt.Errorf("reading .eh_frame of %s: %w", path, err)
	}
	f.ranges = described(data, frames.Addr, e.ByteOrder)
	sort.Slice(f.ranges, func(i, k int) bool { return f.ranges[i].to < f.ranges[k].to })
	return f, nil
}

// hasDebug looks for debug information in the file, and by build id where packages put it.
func hasDebug(e *elf.File) bool {
	if e.Section(".debug_info") != nil {
		return true
	}
	note := e.Section(".note.gnu.build-id")
	if note == nil {
		return false
	}
	data, err := note.Data()
	if err != nil || len(data) < 20 { // a header of 16 bytes, "GNU" among them, and the id
		return false
	}
	id := hex.EncodeToString(data[16:])
	_, err = os.Stat("/usr/lib/debug/.build-id/" + id[:2] + "/" + id[2:] + ".debug")
	return err == nil
}

// described returns the ranges of all FDEs of an .eh_frame section ("Exception Frames" of the Linux Standard Base Core, 5.0).
// What it does not understand it leaves out.
func described(data []byte, base uint64, order binary.ByteOrder) []span {
	ranges := []span{}
	encodings := map[int]byte{} // of the CIEs, by their place
	for at := 0; at+8 <= len(data); {
		length := int(order.Uint32(data[at:]))
		if length == 0 {
			at += 4
			continue
		}
		if length < 4 || at+4+length > len(data) {
			break
		}
		entry := data[at+4 : at+4+length]
		if id := int(order.Uint32(entry)); id == 0 {
			encodings[at] = encoding(entry[4:])
		} else if s, ok := initial(entry[4:], encodings[at+4-id], base+uint64(at)+8, order); ok {
			ranges = append(ranges, s)
		}
		at += 4 + length
	}
	return ranges
}

// encoding finds how a CIE's FDEs write addresses (DW_EH_PE). cie begins with the version.
func encoding(cie []byte) byte {
	if len(cie) < 2 || cie[1] != 'z' {
		return 0
	}
	end := bytes.IndexByte(cie[1:], 0)
	if end < 0 {
		return 0
	}
	augmentation, rest := cie[2:1+end], cie[2+end:]
	skip := func() { // a LEB128 number
		for len(rest) > 0 && rest[0] >= 0x80 {
			rest = rest[1:]
		}
		rest = rest[min(1, len(rest)):]
	}
	for range 4 { // the alignments, the return address's register (a byte in version 1), the augmentation's length
		skip()
	}
	for _, c := range augmentation {
		switch {
		case len(rest) == 0:
			return 0
		case c == 'R':
			return rest[0]
		case c == 'L':
			rest = rest[1:]
		case c == 'P':
			rest = rest[min(1+width(rest[0]), len(rest)):]
		}
	}
	return 0
}

func width(encoding byte) int {
	switch encoding & 7 {
	case 2:
		return 2
	case 3:
		return 4
	}
	return 8
}

// initial reads the range that begins an FDE at an address.
func initial(fde []byte, encoding byte, at uint64, order binary.ByteOrder) (span, bool) {
	n := width(encoding)
	if len(fde) < 2*n {
		return span{}, false
	}
	var from, size uint64
	switch n {
	case 2:
		from, size = uint64(int64(int16(order.Uint16(fde)))), uint64(order.Uint16(fde[n:]))
	case 4:
		from, size = uint64(int64(int32(order.Uint32(fde)))), uint64(order.Uint32(fde[n:]))
	default:
		from, size = order.Uint64(fde), order.Uint64(fde[n:])
	}
	if encoding&0x70 == 0x10 { // relative to where it stands
		from += at
	}
	return span{from, from + size}, size > 0
}
