package elfsym

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"hash/crc64"
	"io"

	"github.com/ulikunitz/xz/lzma"

	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

// The container of .gnu_debugdata is read here rather than by the xz package, since that one lets the file choose how
// much memory its dictionary takes. Layout: "The .xz File Format" 1.2.1.
const (
	xzMagic    = "\xfd7zXZ\x00"
	xzHeader   = 12
	xzLZMA2    = 0x21
	maxXZDict  = 64 << 20 // xz -9; larger ones are no use of anybody's
	xzDict     = 8 << 20  // how far back a stream may refer: as far as xz -6 does, which distributions use
	minXZDict  = lzma.MinDictCap
	maxXZBlock = 64 // blocks of a stream, each of which has a dictionary of its own; there is one for every 24 MiB
	xzMaxSizes = 9  // bytes of one variable-length integer
)

var errXZ = errors.New("malformed xz stream")

// xzDecode decompresses the first stream of b, at most limit bytes of it: more is elffile.ErrTooLarge. What it holds counts
// in the budget; what it returns does until it is released.
func xzDecode(b []byte, limit uint64, budget *elffile.Budget) (out *pieces, err error) {
	out = &pieces{limit: limit, budget: budget}
	defer func() {
		// A defect of the decoder must not end the collector: whoever writes a file chooses what it is given.
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: decoder failed: %v", errXZ, r)
		}
		if err != nil {
			out.release()
			out = nil
		}
	}()
	if len(b) < xzHeader || string(b[:6]) != xzMagic || b[6] != 0 || b[7] > 15 ||
		crc32.ChecksumIEEE(b[6:8]) != binary.LittleEndian.Uint32(b[8:]) {
		return out, fmt.Errorf("%w: stream header", errXZ)
	}
	check := b[7]
	b = b[xzHeader:]
	for range maxXZBlock {
		if len(b) == 0 {
			return out, io.ErrUnexpectedEOF
		}
		if b[0] == 0 { // the index: no more blocks
			return out, nil
		}
		if b, err = xzBlock(b, out, check); err != nil {
			return out, err
		}
	}
	return out, fmt.Errorf("more than %d xz blocks: %w", maxXZBlock, elffile.ErrTooLarge)
}

// xzBlock appends the contents of the block at the start of b and returns what follows the block.
func xzBlock(b []byte, out *pieces, check byte) (rest []byte, err error) {
	dict, n, err := xzBlockHeader(b)
	if err != nil {
		return nil, err
	}
	sum, err := xzHash(check)
	if err != nil {
		return nil, err
	}
	in := bytes.NewReader(b[n:])
	// The header may ask for less than what the decoder takes; the limit makes more of no use.
	dict = max(min(dict, xzDict, int64(out.limit)), minXZDict)
	if err := out.budget.Take(uint64(dict), "xz dictionary"); err != nil {
		return nil, err
	}
	defer out.budget.Give(uint64(dict))
	z, err := lzma.Reader2Config{DictCap: int(dict)}.NewReader2(in)
	if err != nil {
		return nil, err
	}
	if _, err := io.Copy(io.MultiWriter(out, sum), z); err != nil {
		return nil, err
	}
	used := len(b) - in.Len()
	padded := (used + 3) &^ 3
	want := littleEndian(sum)
	if padded+len(want) > len(b) {
		return nil, io.ErrUnexpectedEOF
	}
	if !bytes.Equal(b[padded:][:len(want)], want) {
		return nil, fmt.Errorf("%w: checksum", errXZ)
	}
	return b[padded+len(want):], nil
}

// xzBlockHeader returns the dictionary's size and the header's.
func xzBlockHeader(b []byte) (dict int64, size int, err error) {
	bad := fmt.Errorf("%w: block header", errXZ)
	size = (int(b[0]) + 1) * 4
	if size > len(b) || size < 8 {
		return 0, 0, bad
	}
	h, sum := b[:size-4], binary.LittleEndian.Uint32(b[size-4:])
	if crc32.ChecksumIEEE(h) != sum {
		return 0, 0, bad
	}
	flags := h[1]
	h = h[2:]
	if flags&0x3c != 0 || flags&3 != 0 {
		return 0, 0, fmt.Errorf("xz filters other than LZMA2: %w", elffile.ErrUnsupported)
	}
	for bit := byte(0x40); bit != 0; bit <<= 1 { // compressed and uncompressed size
		if flags&bit == 0 {
			continue
		}
		_, n := binary.Uvarint(h)
		if n <= 0 || n > xzMaxSizes {
			return 0, 0, bad
		}
		h = h[n:]
	}
	if len(h) < 3 {
		return 0, 0, bad
	}
	if h[0] != xzLZMA2 || h[1] != 1 {
		return 0, 0, fmt.Errorf("xz filters other than LZMA2: %w", elffile.ErrUnsupported)
	}
	dict, err = lzma.DecodeDictCap(h[2])
	if err != nil {
		return 0, 0, bad
	}
	if dict > maxXZDict {
		return 0, 0, fmt.Errorf("xz dictionary of %d bytes: %w", dict, elffile.ErrTooLarge)
	}
	return dict, size, nil
}

// xzHash makes a block's checksum, by its number in the stream's header.
func xzHash(check byte) (hash.Hash, error) {
	switch check {
	case 0:
		return noHash{}, nil
	case 1:
		return crc32.NewIEEE(), nil
	case 4:
		return crc64.New(crc64.MakeTable(crc64.ECMA)), nil
	case 10:
		return sha256.New(), nil
	}
	return nil, fmt.Errorf("xz check %d: %w", check, elffile.ErrUnsupported)
}

// noHash is the checksum of streams without.
type noHash struct{ hash.Hash }

func (noHash) Write(b []byte) (int, error) { return len(b), nil }
func (noHash) Sum(b []byte) []byte         { return b }

// littleEndian is a checksum as the stream has it.
func littleEndian(h hash.Hash) []byte {
	switch h := h.(type) {
	case hash.Hash32:
		return binary.LittleEndian.AppendUint32(nil, h.Sum32())
	case hash.Hash64:
		return binary.LittleEndian.AppendUint64(nil, h.Sum64())
	}
	return h.Sum(nil)
}
