package debugfile

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"path"
	"strings"

	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

const (
	debugDir = "/usr/lib/debug"

	maxPath = 4096 // PATH_MAX, with the NUL
	maxName = 255  // NAME_MAX
	maxLink = maxPath + 128
)

// cleanPath makes an absolute path of a name from a file: below dir if it is relative. ".." does not lead out of the root,
// and symbolic links are the Root's concern.
func cleanPath(dir, name string) (string, bool) {
	if name == "" || strings.IndexByte(name, 0) >= 0 {
		return "", false
	}
	if !path.IsAbs(name) {
		if !path.IsAbs(dir) || strings.IndexByte(dir, 0) >= 0 {
			return "", false
		}
		name = dir + "/" + name
	}
	if len(name) >= maxPath {
		return "", false
	}
	return path.Clean(name), true
}

// buildIDPath is where the debug file of a build id is.
func buildIDPath(id string) (string, bool) {
	if len(id) < 4 || strings.Trim(id, "0") == "" {
		return "", false
	}
	return debugDir + "/.build-id/" + id[:2] + "/" + id[2:] + ".debug", true
}

// unique tells whether a build id may be asked for elsewhere: it is one if it is as long as linkers make them, 8 bytes
// (lld's "fast") or more, and not what was left to be filled in.
func unique(id string) bool { return len(id) >= 16 && strings.Trim(id, "0") != "" }

// linkData reads a section that holds a link; it counts in no budget when it returns.
func linkData(f *elffile.File, name string) ([]byte, error) {
	s := f.Section(name)
	if s == nil {
		return nil, nil
	}
	b, err := f.SectionData(s, maxLink)
	if err != nil {
		return nil, err
	}
	f.Budget().Give(uint64(len(b)))
	return b, nil
}

// debugLinkSection is the contents of .gnu_debuglink: a file's name, NUL, padding to four bytes, the file's CRC.
type debugLinkSection struct {
	name string // without a directory
	crc  uint32
}

func debugLink(f *elffile.File) (l debugLinkSection, ok bool, err error) {
	b, err := linkData(f, ".gnu_debuglink")
	if err != nil || b == nil {
		return l, false, err
	}
	n := bytes.IndexByte(b, 0)
	at := (n + 4) &^ 3
	if n < 0 || at+4 > len(b) {
		return l, false, elffile.ErrTruncated
	}
	l = debugLinkSection{string(b[:n]), binary.LittleEndian.Uint32(b[at:])}
	if l.name == "" || l.name == "." || l.name == ".." || len(l.name) > maxName || strings.Contains(l.name, "/") {
		return l, false, fmt.Errorf("%q is no file's name", l.name[:min(len(l.name), maxName)])
	}
	return l, true, nil
}

// altLink says which supplementary file a file needs.
type altLink struct {
	section string
	name    string // a path, perhaps relative to the file's directory
	id      string // hex
}

// supplementLink reads which supplementary file f needs, from .gnu_debugaltlink or from .debug_sup; ok is false if it needs
// none.
func supplementLink(f *elffile.File) (l altLink, ok bool, err error) {
	l.section = ".gnu_debugaltlink"
	b, err := linkData(f, l.section)
	if err != nil {
		return l, false, fmt.Errorf("reading %s: %w", l.section, err)
	}
	if b != nil {
		name, id, _ := bytes.Cut(b, []byte{0})
		l.name, l.id = string(name), hex.EncodeToString(id)
		return l, true, nil
	}
	l.section = ".debug_sup"
	sup, err := supSection(f)
	if err != nil {
		return l, false, fmt.Errorf("reading %s: %w", l.section, err)
	}
	if sup == nil || sup.supplementary {
		return l, false, nil
	}
	l.name, l.id = sup.name, sup.id
	return l, true, nil
}

// supplementSection is the contents of .debug_sup (DWARF 5, section 7.3.6).
type supplementSection struct {
	supplementary bool // this is a supplementary file
	name          string
	id            string // hex
}

// supSection reads .debug_sup; nil if there is none.
func supSection(f *elffile.File) (*supplementSection, error) {
	b, err := linkData(f, ".debug_sup")
	if err != nil || b == nil {
		return nil, err
	}
	if len(b) < 3 {
		return nil, elffile.ErrTruncated
	}
	if v := binary.LittleEndian.Uint16(b); v < 2 || v > 5 { // the standard's text says 5, an example 2
		return nil, fmt.Errorf("%w: version %d", elffile.ErrUnsupported, v)
	}
	s := &supplementSection{supplementary: b[2] != 0}
	name, rest, ok := bytes.Cut(b[3:], []byte{0})
	n, used := binary.Uvarint(rest)
	if !ok || used <= 0 || n > uint64(len(rest)-used) {
		return nil, elffile.ErrTruncated
	}
	s.name, s.id = string(name), hex.EncodeToString(rest[used:][:n])
	return s, nil
}
