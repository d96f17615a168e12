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

// headSize is how many bytes in front of the stream say how a section is compressed, if it is; 0 if it is not.
func (s *Section) headSize() uint64 {
	switch {
	case s.Flags&elf.SHF_COMPRESSED != 0:
		return 24 // an Elf64_Chdr: type, reserved, size, alignment
	case strings.HasPrefix(s.Name, ".zdebug_"):
		return 12 // what GNU tools did before there were those: "ZLIB", the size as eight bytes big endian
	}
	return 0
}

// compression understands them at the beginning of the section's bytes; ok is false if it is not compressed.
func (s *Section) compression(b []byte) (c compressed, ok bool, err error) {
	c.head = s.headSize()
	standard := s.Flags&elf.SHF_COMPRESSED != 0
	switch {
	case c.head == 0:
		return c, false, nil
	case uint64(len(b)) < c.head && standard:
		return c, false, ErrTruncated
	case uint64(len(b)) < c.head:
		return c, false, nil
	case standard:
		c.typ, c.size = elf.CompressionType(binary.LittleEndian.Uint32(b)), binary.LittleEndian.Uint64(b[8:])
		return c, true, nil
	}
	c.typ, c.size = elf.COMPRESS_ZLIB, binary.BigEndian.Uint64(b[4:])
	return c, string(b[:4]) == "ZLIB", nil
}

// compression reads how a section is compressed; ok is false if it is not.
func (f *File) compression(s *Section) (c compressed, ok bool, err error) {
	n := min(s.headSize(), s.Size)
	if n == 0 {
		return s.compression(nil)
	}
	if err := f.Check(uint64(s.Offset), s.Size); err != nil {
		return c, false, err
	}
	head := make([]byte, n)
	if err := f.readAt(head, int64(s.Offset)); err != nil {
		return c, false, err
	}
	return s.compression(head)
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

// minWindow is how far back a zstd stream of any size may refer: encoders that do not know the size ask for 8 MiB
// (zstd 1.5, level 19), those that do for no more than the size.
const minWindow = 8 << 20

// stream begins to decompress. A window that is too large for the Budget is refused by it when the stream is read.
func (f *File) stream(from io.Reader, c compressed, name string) (plain io.Reader, done func(), err error) {
	switch c.typ {
	case elf.COMPRESS_ZLIB:
		z, err := zlib.NewReader(from)
		if err != nil {
			return nil, nil, err
		}
		return z, func() { _ = z.Close() }, nil // it reports what a read has reported
	case elf.COMPRESS_ZSTD:
		wanted := min(max(c.size, minWindow), 128<<20)
		window := min(wanted, max(f.budget.Left()/4, 1<<20))
		part := "window of " + name
		if err := f.budget.Take(2*window, part); err != nil {
			return nil, nil, err
		}
		z, err := zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(window))
		if err != nil {
			f.budget.Give(2 * window)
			return nil, nil, err
		}
		w := &windowReader{from: z}
		if window < wanted {
			w.refuse = func() error { return f.budget.refusal(2*wanted, part) }
		}
		return w, func() { z.Close(); f.budget.Give(2 * window) }, nil
	}
	return nil, nil, fmt.Errorf("%w: %v", ErrUnsupported, c.typ)
}

// windowReader tells a window that a larger budget would have room for from damage.
type windowReader struct {
	from   io.Reader
	refuse func() error // nil if none would
}

func (w *windowReader) Read(b []byte) (int, error) {
	n, err := w.from.Read(b)
	if w.refuse != nil && (errors.Is(err, zstd.ErrWindowSizeExceeded) || errors.Is(err, zstd.ErrDecoderSizeExceeded)) {
		err = w.refuse()
	}
	return n, err
}
