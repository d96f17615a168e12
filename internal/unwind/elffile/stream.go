package elffile

import (
	"bufio"
	"compress/zlib"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// streamBuffer is how much of a compressed section is read at a time.
const streamBuffer = 64 << 10

// compressed describes the stream in a section that is compressed.
type compressed struct {
	typ  elf.CompressionType
	size uint64 // of what it makes
	head uint64 // bytes before the stream
}

// compression reads how a section is compressed; ok is false if it is not.
func (f *File) compression(s *Section) (c compressed, ok bool, err error) {
	var b [24]byte
	switch {
	case s.Flags&elf.SHF_COMPRESSED != 0:
		c.head = 24 // an Elf64_Chdr: type, reserved, size, alignment
	case strings.HasPrefix(s.Name, ".zdebug_"):
		c.head = 12 // "ZLIB", the size as eight bytes big endian
	default:
		return c, false, nil
	}
	if s.Size < c.head {
		return c, false, ErrTruncated
	}
	if err := f.check(uint64(s.Offset), s.Size); err != nil {
		return c, false, err
	}
	if err := f.readAt(b[:c.head], int64(s.Offset)); err != nil {
		return c, false, err
	}
	if c.head == 24 {
		c.typ, c.size = elf.CompressionType(binary.LittleEndian.Uint32(b[:])), binary.LittleEndian.Uint64(b[8:])
		return c, true, nil
	}
	c.typ, c.size = elf.COMPRESS_ZLIB, binary.BigEndian.Uint64(b[4:])
	return c, string(b[:4]) == "ZLIB", nil
}

// PlainSize is how many bytes a section has when it is decompressed, as it says itself. compressed is false, and size its own, if
// it is not compressed.
func (f *File) PlainSize(s *Section) (size uint64, compressed bool, err error) {
	c, ok, err := f.compression(s)
	switch {
	case err != nil:
		return 0, false, fmt.Errorf("reading section %s: %w", s.Name, err)
	case !ok:
		return s.Size, false, nil
	}
	return c.size, true, nil
}

// Decompress writes the plain bytes of a compressed section to w, no more than max: beyond, the error is an ErrTooLarge; it is an
// ErrTruncated if there are fewer than the section says. Of the Budget it takes no more than the buffers, while it runs.
func (f *File) Decompress(w io.Writer, s *Section, max uint64) error {
	if err := f.decompress(w, s, max); err != nil {
		return fmt.Errorf("decompressing section %s: %w", s.Name, err)
	}
	return nil
}

func (f *File) decompress(w io.Writer, s *Section, max uint64) error {
	c, ok, err := f.compression(s)
	switch {
	case err != nil:
		return err
	case !ok:
		return fmt.Errorf("%w: it is not compressed", ErrUnsupported)
	case c.size > max:
		return fmt.Errorf("%d bytes: %w", c.size, ErrTooLarge)
	}
	const buffers = 4 * streamBuffer // the stream's, zlib's window, and the copy's
	if err := f.budget.Take(buffers, "buffers for "+s.Name); err != nil {
		return err
	}
	defer f.budget.Give(buffers)
	from := bufio.NewReaderSize(io.NewSectionReader(f.r, int64(uint64(s.Offset)+c.head), int64(s.Size-c.head)), streamBuffer)
	plain, done, err := f.stream(from, c, s.Name)
	if err != nil {
		return err
	}
	defer done()
	n, err := io.CopyN(w, plain, int64(c.size))
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%d bytes instead of %d: %w", n, c.size, ErrTruncated)
	}
	return err
}

// stream begins to decompress.
func (f *File) stream(from io.Reader, c compressed, name string) (plain io.Reader, done func(), err error) {
	switch c.typ {
	case elf.COMPRESS_ZLIB:
		z, err := zlib.NewReader(from)
		if err != nil {
			return nil, nil, err
		}
		return z, func() { _ = z.Close() }, nil // it reports what a read has reported
	case elf.COMPRESS_ZSTD:
		window := min(max(c.size, minWindow), 128<<20, max(f.budget.Left()/4, 1<<20))
		if err := f.budget.Take(2*window, "window of "+name); err != nil {
			return nil, nil, err
		}
		z, err := zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(window))
		if err != nil {
			f.budget.Give(2 * window)
			return nil, nil, err
		}
		return z, func() { z.Close(); f.budget.Give(2 * window) }, nil
	}
	return nil, nil, fmt.Errorf("%w: %v", ErrUnsupported, c.typ)
}
