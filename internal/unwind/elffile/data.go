package elffile

import (
	"bytes"
	"compress/zlib"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"

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
	if err := f.check(uint64(s.Offset), s.Size); err != nil {
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

// decompressed returns what the section with the bytes b holds. b is given back if that is something else.
func (f *File) decompressed(s *Section, b []byte, max uint64) (plain []byte, err error) {
	d := decompressor{budget: f.budget, part: "section " + s.Name, max: max}
	switch {
	case s.Flags&elf.SHF_COMPRESSED != 0:
		plain, err = d.standard(b)
	case strings.HasPrefix(s.Name, ".zdebug_") && len(b) >= 12 && string(b[:4]) == "ZLIB":
		plain, err = d.gnu(b)
	default:
		return b, nil
	}
	if err == nil {
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
		if err := f.check(off, uint64(len(b))); err != nil {
			return fmt.Errorf("reading %d bytes at %#x: %w", len(b), uint64(a), err)
		}
		if err := f.readAt(b, int64(off)); err != nil {
			return fmt.Errorf("reading %d bytes at %#x: %w", len(b), uint64(a), err)
		}
		return nil
	}
	return fmt.Errorf("reading %d bytes at %#x: %w", len(b), uint64(a), ErrNoData)
}

// check tells whether n bytes at off lie inside the file.
func (f *File) check(off, n uint64) error {
	if size := uint64(f.size); off > size || n > size-off {
		return fmt.Errorf("%d bytes at offset %#x: %w", n, off, ErrTruncated)
	}
	return nil
}

// slice reads n bytes at off; the file's size bounds what it allocates, callers bound n further.
func (f *File) slice(off, n uint64) ([]byte, error) {
	if err := f.check(off, n); err != nil {
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

// decompressor makes a section's bytes from compressed ones.
type decompressor struct {
	budget *Budget
	part   string
	max    uint64
}

// minWindow is how far back a zstd stream of any size may refer: encoders that do not know the size ask for 8 MiB
// (zstd 1.5, level 19), those that do for no more than the size.
const minWindow = 8 << 20

// standard undoes SHF_COMPRESSED: an Elf64_Chdr (type, reserved, size, alignment), then the stream.
func (d *decompressor) standard(b []byte) ([]byte, error) {
	if len(b) < 24 {
		return nil, ErrTruncated
	}
	typ, size := elf.CompressionType(binary.LittleEndian.Uint32(b)), binary.LittleEndian.Uint64(b[8:])
	if size > d.max {
		return nil, fmt.Errorf("%d bytes: %w", size, ErrTooLarge)
	}
	switch typ {
	case elf.COMPRESS_ZLIB:
		return d.inflate(b[24:], size)
	case elf.COMPRESS_ZSTD:
		wanted := min(max(size, minWindow), 128<<20)
		window := min(wanted, max(d.budget.Left()/4, 1<<20))
		if err := d.budget.Take(2*window, d.part+"'s window"); err != nil {
			return nil, err
		}
		defer d.budget.Give(2 * window)
		z, err := zstd.NewReader(bytes.NewReader(b[24:]), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(window))
		if err != nil {
			return nil, err
		}
		defer z.Close()
		plain, err := d.readExactly(z, size, len(b))
		if window < wanted && (errors.Is(err, zstd.ErrWindowSizeExceeded) || errors.Is(err, zstd.ErrDecoderSizeExceeded)) {
			err = d.budget.refusal(2*wanted, d.part+"'s window") // a larger budget would do
		}
		return plain, err
	}
	return nil, fmt.Errorf("%w: %v", ErrUnsupported, typ)
}

// gnu undoes what GNU tools did before SHF_COMPRESSED: "ZLIB", the size as eight bytes big endian, the stream.
func (d *decompressor) gnu(b []byte) ([]byte, error) {
	size := binary.BigEndian.Uint64(b[4:])
	if size > d.max {
		return nil, fmt.Errorf("%d bytes: %w", size, ErrTooLarge)
	}
	return d.inflate(b[12:], size)
}

func (d *decompressor) inflate(b []byte, size uint64) ([]byte, error) {
	z, err := zlib.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	return d.readExactly(z, size, len(b))
}

// readExactly reads size bytes. It allocates as data arrives, since a few bytes can claim any size.
func (d *decompressor) readExactly(r io.Reader, size uint64, compressed int) (b []byte, err error) {
	defer func() {
		if err != nil {
			d.budget.Give(uint64(cap(b)))
			b = nil
		}
	}()
	next := min(size, 16*uint64(compressed))
	for {
		if err := d.budget.Take(next, d.part); err != nil {
			return b, err
		}
		grown := make([]byte, len(b), next)
		copy(grown, b)
		d.budget.Give(uint64(cap(b)))
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
