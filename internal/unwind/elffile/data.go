package elffile

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// ReaderAt is what the file was opened with.
func (f *File) ReaderAt() io.ReaderAt { return f.r }

// Size is the file's size in bytes, as given to New.
func (f *File) Size() int64 { return f.size }

// Section returns the first section of that name that has data in the file. It is nil if there is none, or only one
// without data (SHT_NOBITS: .bss, and what a separate debug file left out); Sections has those too.
func (f *File) Section(name string) *Section {
	for i := range f.Sections {
		if s := &f.Sections[i]; s.Name == name && s.Type != elf.SHT_NOBITS && s.Type != elf.SHT_NULL {
			return s
		}
	}
	return nil
}

// SectionData reads a section, decompressed if it is compressed, and at most max bytes of it: ErrTooLarge if it has
// more, or more than the file's Budget has left, ErrNoData if it has none in the file, ErrTruncated if the file ends
// before it does. The result counts in the Budget; the caller gives it back.
func (f *File) SectionData(s *Section, max uint64) ([]byte, error) {
	if s.Type == elf.SHT_NOBITS {
		return nil, fmt.Errorf("reading section %s: %w", s.Name, ErrNoData)
	}
	if s.Size > max {
		return nil, fmt.Errorf("reading section %s of %d bytes: %w", s.Name, s.Size, ErrTooLarge)
	}
	// The file's size is no bound: holes in it cost its author nothing.
	if err := f.Check(uint64(s.Offset), s.Size); err != nil {
		return nil, fmt.Errorf("reading section %s: %w", s.Name, err)
	}
	if err := f.budget.Take(s.Size, "section "+s.Name); err != nil {
		return nil, err
	}
	b, err := f.slice(uint64(s.Offset), s.Size)
	if err != nil {
		f.budget.Give(s.Size)
		return nil, fmt.Errorf("reading section %s: %w", s.Name, err)
	}
	plain, err := f.decompressed(s, b, max)
	if err != nil {
		f.budget.Give(s.Size)
		return nil, fmt.Errorf("decompressing section %s: %w", s.Name, err)
	}
	return plain, nil
}

// ReadSection fills b with a section's bytes from off on. It is ErrNoData if the section has none in the file, ErrTruncated if it
// or the file ends before, and ErrUnsupported if it is compressed.
func (f *File) ReadSection(b []byte, s *Section, off uint64) error {
	n := uint64(len(b))
	err := f.Check(uint64(s.Offset), s.Size)
	switch {
	case s.Type == elf.SHT_NOBITS:
		err = ErrNoData
	case s.Flags&elf.SHF_COMPRESSED != 0:
		err = fmt.Errorf("%w: it is compressed", ErrUnsupported)
	case err == nil && (off > s.Size || n > s.Size-off):
		err = ErrTruncated
	case err == nil:
		err = f.readAt(b, int64(uint64(s.Offset)+off))
	}
	if err != nil {
		return fmt.Errorf("reading section %s: %w", s.Name, err)
	}
	return nil
}

// decompressed returns what the section with the bytes b holds. b is given back if that is something else.
func (f *File) decompressed(s *Section, b []byte, max uint64) (plain []byte, err error) {
	c, ok, err := s.compression(b)
	switch {
	case err != nil || !ok:
		return b, err
	case c.size > max:
		return nil, fmt.Errorf("%d bytes: %w", c.size, ErrTooLarge)
	}
	stream, done, err := f.stream(bytes.NewReader(b[c.head:]), c, s.Name)
	if err != nil {
		return nil, err
	}
	defer done()
	if plain, err = f.readExactly(stream, c.size, len(b), "section "+s.Name); err == nil {
		f.budget.Give(s.Size)
	}
	return plain, err
}

// ReadAddr fills b with the file's contents at the ELF virtual address a. All of it must lie in one PT_LOAD segment's
// part of the file, or it is ErrNoData (.bss included).
func (f *File) ReadAddr(b []byte, a unwind.FileAddr) error {
	for _, s := range f.Segments {
		d := uint64(a - s.VAddr)
		if a < s.VAddr || d >= s.FileSize || uint64(len(b)) > s.FileSize-d {
			continue
		}
		off := uint64(s.Offset) + d
		if off < d {
			break
		}
		if err := f.Check(off, uint64(len(b))); err != nil {
			return fmt.Errorf("reading %d bytes at %#x: %w", len(b), uint64(a), err)
		}
		if err := f.readAt(b, int64(off)); err != nil {
			return fmt.Errorf("reading %d bytes at %#x: %w", len(b), uint64(a), err)
		}
		return nil
	}
	return fmt.Errorf("reading %d bytes at %#x: %w", len(b), uint64(a), ErrNoData)
}

// Check returns ErrTruncated, wrapped, unless n bytes at off lie inside the file.
func (f *File) Check(off, n uint64) error {
	if size := uint64(f.size); off > size || n > size-off {
		return fmt.Errorf("%d bytes at offset %#x: %w", n, off, ErrTruncated)
	}
	return nil
}

// slice reads n bytes at off; the file's size bounds what it allocates, callers bound n further.
func (f *File) slice(off, n uint64) ([]byte, error) {
	if err := f.Check(off, n); err != nil {
		return nil, err
	}
	b := make([]byte, n)
	if err := f.readAt(b, int64(off)); err != nil {
		return nil, err
	}
	return b, nil
}

func (f *File) readAt(b []byte, off int64) error {
	n, err := f.r.ReadAt(b, off)
	switch {
	case n == len(b):
		return nil
	case err == nil || err == io.EOF || err == io.ErrUnexpectedEOF:
		return ErrTruncated
	}
	return err
}

// readExactly reads size bytes. It allocates as data arrives, since a few bytes can claim any size.
func (f *File) readExactly(r io.Reader, size uint64, compressed int, part string) (b []byte, err error) {
	defer func() {
		if err != nil {
			f.budget.Give(uint64(cap(b)))
			b = nil
		}
	}()
	next := min(size, 16*uint64(compressed))
	for {
		if err := f.budget.Take(next, part); err != nil {
			return b, err
		}
		grown := make([]byte, len(b), next)
		copy(grown, b)
		f.budget.Give(uint64(cap(b)))
		b = grown
		n, err := io.ReadFull(r, b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case err == io.EOF || err == io.ErrUnexpectedEOF:
			return b, ErrTruncated
		case err != nil:
			return b, err
		case uint64(len(b)) == size:
			return b, nil
		}
		next = min(size, 2*next)
	}
}
