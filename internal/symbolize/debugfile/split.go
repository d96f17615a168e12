package debugfile

import (
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

// dwp finds the package of split files: next to the file or its debug file.
func (s *search) dwp() {
	if !hasSection(s.found.Debug, "debug_addr") {
		return // split units have their addresses there
	}
	var paths []string
	for _, p := range []string{s.path, s.debugPath} {
		if p != "" && (len(paths) == 0 || p+".dwp" != paths[0]) {
			paths = append(paths, p+".dwp")
		}
	}
	c := s.first(paths, func(c *opened) error {
		if !hasSection(c.file, "debug_cu_index") {
			return fmt.Errorf("found %q, but it has no .debug_cu_index", c.name)
		}
		return nil
	})
	if c == nil {
		return
	}
	s.found.closers = append(s.found.closers, c)
	s.found.Options.Package = c.file
	s.found.Package, s.found.PackagePath = SourceFile, c.name
}

// openSplit opens the .dwo file that a skeleton unit names: where the compiler wrote it, or next to the file or its debug
// file. It is called when Find is long over, so it has no part in its context and its problems.
func (s *search) openSplit(name, compDir string, id uint64) (*elffile.File, io.Closer, error) {
	paths := s.splitPaths(name, compDir)
	if len(paths) == 0 {
		return nil, nil, fmt.Errorf("%q is no file's name", name[:min(len(name), maxName)])
	}
	later := &search{ctx: context.Background(), f: s.f, budget: s.budget, opts: s.opts}
	c := later.first(paths, func(c *opened) error { return hasUnit(c, id) })
	if c == nil {
		return nil, nil, errors.Join(append([]error{fmt.Errorf("no %q below %d roots", paths[0], len(s.opts.Roots))}, later.problems...)...)
	}
	return c.file, c, nil
}

func (s *search) splitPaths(name, compDir string) (paths []string) {
	if p, ok := cleanPath(compDir, name); ok {
		paths = append(paths, p)
	}
	base := path.Base(name)
	if base == "/" || base == "." || base == ".." || len(base) > maxName {
		return paths
	}
	for _, next := range []string{s.path, s.debugPath} {
		if next == "" {
			continue
		}
		if p, ok := cleanPath(path.Dir(next), base); ok {
			paths = append(paths, p)
		}
	}
	return paths
}

const (
	unitSplitCompile = 5 // DW_UT_split_compile: DWARF 5, section 7.5.1
	maxUnits         = 1 << 12
)

// hasUnit tells whether a .dwo file has the unit with an id: one of an earlier compilation may be in its place. Units of
// DWARF 5 have the id in their headers. In those of DWARF 4, and in what is compressed, it is not looked for here: the
// package dwarf checks it again.
func hasUnit(c *opened, id uint64) error {
	info := c.file.Section(".debug_info.dwo")
	if info == nil {
		if c.file.Section(".zdebug_info.dwo") != nil {
			return nil
		}
		return fmt.Errorf("found %q, but it has no .debug_info.dwo", c.name)
	}
	if info.Flags&elf.SHF_COMPRESSED != 0 {
		return nil
	}
	size := uint64(max(c.file.Size(), 0))
	if uint64(info.Offset) > size || info.Size > size-uint64(info.Offset) {
		return fmt.Errorf("found %q, but it is truncated: %w", c.name, elffile.ErrTruncated)
	}
	r := io.NewSectionReader(c.os, int64(info.Offset), int64(info.Size))
	off := uint64(0)
	for range maxUnits {
		if off >= info.Size {
			return fmt.Errorf("found %q, but it has no unit %#x: it is of another build", c.name, id)
		}
		u, err := splitUnit(r, off, info.Size)
		if err != nil {
			return fmt.Errorf("reading the unit at %#x of %q: %w", off, c.name, err)
		}
		if u.version != 5 || u.kind == unitSplitCompile && u.id == id {
			return nil
		}
		off = u.next
	}
	return nil
}

// splitHeader is what the header of a unit says.
type splitHeader struct {
	version uint16
	kind    byte
	id      uint64
	next    uint64 // where the next unit is
}

// splitUnit reads the header of the unit at off (DWARF 5, section 7.5.1): the length, in 64-bit format behind four bytes of
// 0xff; the version; of version 5 the type, the size of addresses, the offset of the abbreviations, the id.
func splitUnit(r io.ReaderAt, off, size uint64) (u splitHeader, err error) {
	var buf [4 + 8 + 2 + 1 + 1 + 8 + 8]byte
	b := buf[:min(uint64(len(buf)), size-off)]
	if n, err := r.ReadAt(b, int64(off)); n < len(b) {
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return u, err
	}
	if len(b) < 6 {
		return u, elffile.ErrTruncated
	}
	length, start, offsetSize := uint64(binary.LittleEndian.Uint32(b)), uint64(4), uint64(4)
	if length == 0xffffffff {
		if len(b) < 14 {
			return u, elffile.ErrTruncated
		}
		length, start, offsetSize = binary.LittleEndian.Uint64(b[4:]), 12, 8
	}
	if length < 2 || length > size-off-start {
		return u, elffile.ErrTruncated
	}
	u.next = off + start + length
	h := b[start:]
	if u.version = binary.LittleEndian.Uint16(h); u.version != 5 {
		return u, nil
	}
	if at := 4 + offsetSize; uint64(len(h)) >= at+8 {
		u.kind, u.id = h[2], binary.LittleEndian.Uint64(h[at:])
	}
	return u, nil
}
