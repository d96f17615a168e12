package debugfile

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

// opened is a file that may have what is looked for.
type opened struct {
	file   *elffile.File
	os     *os.File
	name   string // for users
	path   string // below its root; empty if it is below none
	budget *elffile.Budget
	held   uint64 // bytes of the budget
}

// Close closes the file and gives its headers back to the budget.
func (c *opened) Close() error {
	c.budget.Give(c.held)
	c.held = 0
	return c.os.Close()
}

// missing tells errors of files that are not there, which is what most places are like.
func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) }

// first returns the first file of the paths that passes a check, below the first root that has one; nil if there is none.
func (s *search) first(paths []string, verify func(*opened) error) *opened {
	s.rejected = nil
	for _, root := range s.opts.Roots {
		for _, p := range paths {
			if s.ctx.Err() != nil {
				s.problem(fmt.Errorf("looking for %q: %w", p, context.Cause(s.ctx)))
				return nil
			}
			c, err := s.try(root, p, verify)
			if err == nil {
				return c
			}
			if !missing(err) && !errors.Is(err, errSeen) {
				s.problem(err)
			}
		}
	}
	return nil
}

// errSeen: the file was looked at already, by another name.
var errSeen = errors.New("seen already")

// try opens a file below a root and checks it.
func (s *search) try(root Root, path string, verify func(*opened) error) (*opened, error) {
	f, err := root.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening %q: %w", path, err)
	}
	c, err := s.elf(f, verify)
	if err != nil {
		return nil, err
	}
	c.path = path
	return c, nil
}

// elf reads the headers of an opened file and checks it. The file is closed if it is not the right one.
func (s *search) elf(f *os.File, verify func(*opened) error) (*opened, error) {
	c := &opened{os: f, name: f.Name(), budget: s.budget}
	st, err := f.Stat()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("looking at %q: %w", c.name, err), c.Close())
	}
	for _, other := range s.rejected {
		if os.SameFile(st, other) {
			return nil, errors.Join(errSeen, c.Close())
		}
	}
	if err = c.read(st.Size()); err == nil && c.file.Arch != s.f.Arch {
		err = fmt.Errorf("found %q, but it is for another architecture", c.name)
	}
	if err == nil {
		err = verify(c)
	}
	if err == nil {
		return c, nil
	}
	if len(s.rejected) < maxProblems {
		s.rejected = append(s.rejected, st)
	}
	return nil, errors.Join(err, c.Close())
}

// read reads the headers.
func (c *opened) read(size int64) error {
	file, err := elffile.NewDebug(c.os, size)
	if err != nil {
		return fmt.Errorf("reading headers of %q: %w", c.name, err)
	}
	bytes := uint64(len(file.Progs)) * uint64(unsafe.Sizeof(elffile.Prog{}))
	for i := range file.Sections {
		bytes += uint64(unsafe.Sizeof(elffile.Section{})) + uint64(len(file.Sections[i].Name))
	}
	if err := c.budget.Take(bytes, "headers of debug information"); err != nil {
		return err
	}
	c.held = bytes
	c.file = file.Within(c.budget)
	return nil
}

// hasInfo tells whether a file has debug information, compressed or not.
func hasInfo(f *elffile.File) bool { return hasSection(f, "debug_info") }

func hasSection(f *elffile.File, name string) bool {
	for _, prefix := range []string{".", ".z"} {
		if s := f.Section(prefix + name); s != nil && s.Size > 0 {
			return true
		}
	}
	return false
}

func needInfo(c *opened) error {
	if !hasInfo(c.file) {
		return fmt.Errorf("found %q, but it has no .debug_info", c.name)
	}
	return nil
}

func sameID(c *opened, want string) error {
	got, _ := c.file.BuildIDs()
	switch got {
	case want:
		return nil
	case "":
		return fmt.Errorf("found %q, but it has no build id", c.name)
	}
	return fmt.Errorf("found %q, but its build id is %s, not %s", c.name, got, want)
}

const (
	crcChunk = 256 << 10
	// maxCRC bounds what is read of a file: the largest debug files have a few GiB, a sparse one may have any size.
	maxCRC = 16 << 30
)

// checksum is the CRC of a whole file, as .gnu_debuglink has it: CRC-32 as IEEE 802.3 has it.
func checksum(ctx context.Context, r io.ReaderAt, size int64) (uint32, error) {
	if size > maxCRC {
		return 0, fmt.Errorf("%d bytes: %w", size, elffile.ErrTooLarge)
	}
	b := make([]byte, min(size, crcChunk))
	sum := uint32(0)
	for off := int64(0); off < size; {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		b = b[:min(size-off, crcChunk)]
		if n, err := r.ReadAt(b, off); n < len(b) {
			if err == nil || err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return 0, err
		}
		sum = crc32.Update(sum, crc32.IEEETable, b)
		off += int64(len(b))
	}
	return sum, nil
}
