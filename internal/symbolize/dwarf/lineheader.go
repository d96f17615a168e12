package dwarf

import (
	"fmt"
	"math"
	"strings"
	"unsafe"
)

// pathEntry is a file or directory of a line table: where its name is, and the directory it is in.
type pathEntry struct {
	name value
	dir  uint32
}

// lineHeader is what precedes a line program (DWARF 5, section 6.2.4).
type lineHeader struct {
	unit       *unit // whose forms the names have
	version    uint16
	minInst    uint8
	maxOps     uint8
	lineBase   int8
	lineRange  uint8
	opcodeBase uint8
	lengths    []uint8 // of the standard opcodes: how many operands
	dirs       []pathEntry
	files      []pathEntry
	program    uint64 // where it begins in .debug_line
	end        uint64
	offSize    uint8
	addrSize   uint8
}

// maxEntryForms bounds how many things a table says about each file.
const maxEntryForms = 32

// readLineHeader reads the header at the offset that u's DW_AT_stmt_list says.
func (d *Data) readLineHeader(u *unit, a *account) (*lineHeader, error) {
	s, err := u.obj.section(secLine)
	if err != nil {
		return nil, err
	}
	c := s.at(u.stmt.u, math.MaxUint64)
	h := &lineHeader{unit: u, addrSize: u.addrSize}
	var length uint64
	length, h.offSize = c.unitLength()
	if c.err == nil && length > c.end-c.pos() {
		c.fail("line table of %d bytes", length)
	}
	h.end = c.pos() + length
	c.limit(h.end)
	h.version = c.u16()
	if c.err == nil && (h.version < 2 || h.version > 5) {
		c.fail("line table of version %d", h.version)
	}
	if h.version >= 5 {
		h.addrSize = c.u8()
		if segment := c.u8(); c.err == nil && segment != 0 {
			c.fail("segment selectors")
		}
	}
	headerLength := c.uint(h.offSize)
	h.program = c.pos() + headerLength
	if c.err == nil && headerLength > c.end-c.pos() {
		c.fail("header of %d bytes", headerLength)
	}
	h.minInst, h.maxOps = c.u8(), 1
	if h.version >= 4 {
		h.maxOps = max(c.u8(), 1)
	}
	c.u8() // default_is_stmt
	h.lineBase, h.lineRange, h.opcodeBase = int8(c.u8()), c.u8(), c.u8()
	for range int(h.opcodeBase) - 1 {
		h.lengths = append(h.lengths, c.u8())
	}
	if c.err != nil {
		return nil, c.err
	}
	if err := a.take(int(unsafe.Sizeof(*h))+256, "line tables"); err != nil {
		return nil, err
	}
	if h.version >= 5 {
		err = d.pathTables(h, &c, a)
	} else {
		err = d.oldPathTables(h, &c, a)
	}
	if err == nil {
		err = c.err
	}
	return h, err
}

// oldPathTables reads the directories and files of versions 2 to 4: strings, an empty one at the end.
func (d *Data) oldPathTables(h *lineHeader, c *cursor, a *account) (err error) {
	for c.err == nil {
		at := c.pos()
		if c.skipString(); c.pos() == at+1 {
			break
		}
		if err := d.step(1); err != nil {
			return err
		}
		if h.dirs, err = add(a, h.dirs, pathEntry{name: value{formString, at}}, "directories of a line table"); err != nil {
			return err
		}
	}
	for c.err == nil {
		at := c.pos()
		if c.skipString(); c.pos() == at+1 {
			break
		}
		if err := h.addFile(d, c, a, at); err != nil {
			return err
		}
	}
	return nil
}

// addFile adds a file whose name is at an offset of .debug_line, before the cursor.
func (h *lineHeader) addFile(d *Data, c *cursor, a *account, name uint64) (err error) {
	e := pathEntry{value{formString, name}, clip32(c.uleb())}
	c.skipLEB() // time of modification
	c.skipLEB() // size
	if err := d.step(1); err != nil {
		return err
	}
	h.files, err = add(a, h.files, e, "files of a line table")
	return err
}

// pathTables reads those of version 5: what each entry says, and how, comes first.
func (d *Data) pathTables(h *lineHeader, c *cursor, a *account) (err error) {
	for _, to := range []*[]pathEntry{&h.dirs, &h.files} {
		formats := make([][2]uint64, c.u8())
		if len(formats) > maxEntryForms {
			c.fail("%d things about each file", len(formats))
		}
		for i := range formats {
			formats[i] = [2]uint64{c.uleb(), c.uleb()}
		}
		count := c.uleb()
		if len(formats) == 0 && count > 0 {
			c.fail("%d files about which nothing is said", count)
		}
		f := format{version: 5, addrSize: h.addrSize, offSize: h.offSize}
		for n := uint64(0); n < count && c.err == nil; n++ {
			if err := d.step(1); err != nil {
				return err
			}
			var e pathEntry
			for _, x := range formats {
				v := f.read(c, uint16(min(x[1], math.MaxUint16)), 0)
				switch x[0] {
				case lnctPath:
					e.name = v
				case lnctDirectoryIndex:
					e.dir = clip32(v.u)
				}
			}
			if *to, err = add(a, *to, e, "files of a line table"); err != nil {
				return err
			}
		}
	}
	return nil
}

// name reads the name of a file or directory.
func (h *lineHeader) name(e pathEntry) (string, error) {
	if e.name.form == formString {
		return stringAt(h.unit.obj, secLine, e.name.u)
	}
	return h.unit.str(e.name)
}

// path returns the name of file n with its directory: what the compiler had of ".", ".." and links is left as it is, as
// llvm-symbolizer does. It is empty if there is no such file.
func (h *lineHeader) path(compDir string, n uint64) (string, error) {
	if h.version < 5 {
		n-- // before version 5 the first file has number 1 (DWARF 4, section 6.2.4)
	}
	if n >= uint64(len(h.files)) {
		return "", nil
	}
	e := h.files[n]
	name, err := h.name(e)
	if err != nil || name == "" || strings.HasPrefix(name, "/") {
		return name, err
	}
	// Directory 0 is the one that the compiler ran in; version 5 has it in the table.
	dir, at := "", uint64(e.dir)
	if h.version < 5 {
		at--
	}
	if at < uint64(len(h.dirs)) {
		if dir, err = h.name(h.dirs[at]); err != nil {
			return "", err
		}
	}
	if !strings.HasPrefix(dir, "/") && (h.version < 5 || e.dir != 0) {
		dir = join(compDir, dir)
	}
	return join(dir, name), nil
}

func join(dir, name string) string {
	switch {
	case dir == "":
		return name
	case name == "":
		return dir
	case strings.HasSuffix(dir, "/"):
		return dir + name
	}
	return dir + "/" + name
}

// file returns the path of a file by its number in the unit's line table.
func (d *Data) file(u *unit, n uint64) (string, error) {
	u = u.main()
	if !u.stmt.there() {
		return "", nil
	}
	return cached(d, cacheKey{kindPath, u.obj.id, u.off, n}, func(a *account) (string, error) {
		t, err := d.lineTable(u)
		if err != nil {
			return "", err
		}
		path, err := t.header.path(u.compDir, n)
		if err != nil {
			return "", fmt.Errorf("reading the name of file %d: %w", n, err)
		}
		return path, a.take(len(path), "names of files")
	})
}
