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
	maxXZDict  = 64 << 20 // xz -9
	minXZDict  = lzma.MinDictCap
	xzMaxSizes = 9 // bytes of one variable-length integer
)

var errXZ = errors.New("malformed xz stream")

// xzDecode decompresses the first stream of b, at most limit bytes of it: more is elffile.ErrTooLarge.
func xzDecode(b []byte, limit uint64) (out []byte, err error) {
	defer func() {
		// A defect of the decoder must not end the collector: whoever writes a file chooses what it is given.
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: decoder failed: %v", errXZ, r)
		}
	}()
	if len(b) < xzHeader || string(b[:6]) != xzMagic || b[6] != 0 || b[7] > 15 ||
		crc32.ChecksumIEEE(b[6:8]) != binary.LittleEndian.Uint32(b[8:]) {
		return nil, fmt.Errorf("%w: stream header", errXZ)
	}
	check := b[7]
	b = b[xzHeader:]
	for {
		if len(b) == 0 {
			return nil, io.ErrUnexpectedEOF
		}
		if b[0] == 0 { // the index: no more blocks
			return out, nil
		}
		if b, out, err = xzBlock(b, out, check, limit); err != nil {
			return nil, err
		}
	}
}

// xzBlock appends the contents of the block at the start of b and returns what follows the block.
func xzBlock(b, out []byte, check byte, limit uint64) (rest, _ []byte, err error) {
	dict, n, err := xzBlockHeader(b)
	if err != nil {
		return nil, nil, err
	}
	in := bytes.NewReader(b[n:])
	// The header may ask for less than what the decoder takes; the limit makes more of no use.
	dict = max(min(dict, int64(limit)), minXZDict)
	z, err := lzma.Reader2Config{DictCap: int(dict)}.NewReader2(in)
	if err != nil {
		return nil, nil, err
	}
	start := len(out)
	buf := bytes.NewBuffer(out)
	if _, err := buf.ReadFrom(io.LimitReader(z, int64(limit)-int64(start)+1)); err != nil {
		return nil, nil, err
	}
	out = buf.Bytes()
	if uint64(len(out)) > limit {
		return nil, nil, fmt.Errorf("more than %d bytes: %w", limit, elffile.ErrTooLarge)
	}
	used := len(b) - in.Len()
	padded := (used + 3) &^ 3
	sum, err := xzChecksum(check, out[start:])
	if err != nil {
		return nil, nil, err
	}
	if padded+len(sum) > len(b) {
		return nil, nil, io.ErrUnexpectedEOF
	}
	if !bytes.Equal(b[padded:][:len(sum)], sum) {
		return nil, nil, fmt.Errorf("%w: checksum", errXZ)
	}
	return b[padded+len(sum):], out, nil
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

func xzChecksum(check byte, data []byte) ([]byte, error) {
	var h hash.Hash
	switch check {
	case 0:
		return nil, nil
	case 1:
		return binary.LittleEndian.AppendUint32(nil, crc32.ChecksumIEEE(data)), nil
	case 4:
		return binary.LittleEndian.AppendUint64(nil, crc64.Checksum(data, crc64.MakeTable(crc64.ECMA))), nil
	case 10:
		h = sha256.New()
	default:
		return nil, fmt.Errorf("xz check %d: %w", check, elffile.ErrUnsupported)
	}
	h.Write(data)
	return h.Sum(nil), nil
}
