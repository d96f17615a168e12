package gopclntab

import (
	"encoding/binary"
	"io"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

const (
	blockSize = 4096
	maxBlocks = 48 // 192 KiB: a lookup touches some ten blocks
)

// pager reads a file by ELF virtual address, through a few cached blocks. The least recently used block goes first.
type pager struct {
	f      *elffile.File
	blocks []block
	clock  uint64
	pair   []byte // for what lies across two blocks

	scanned uint64 // bytes that scan has read
}

type block struct {
	number int64 // file offset / blockSize
	used   uint64
	data   []byte // shorter than blockSize at the end of the file; nil if it could not be read
}

func newPager(f *elffile.File) *pager { return &pager{f: f} }

// offset converts an address to a file offset; n is how many bytes of the segment follow in the file.
func (p *pager) offset(a unwind.FileAddr) (off int64, n uint64, ok bool) {
	for _, s := range p.f.Segments {
		d := uint64(a - s.VAddr)
		if a < s.VAddr || d >= s.FileSize {
			continue
		}
		if o := uint64(s.Offset) + d; o >= d && o < uint64(p.f.Size()) {
			return int64(o), min(s.FileSize-d, uint64(p.f.Size())-o), true
		}
	}
	return 0, 0, false
}

// view returns the bytes from a on to the end of their block or segment, at least one; nil if there are none. They are
// valid until the next call.
func (p *pager) view(a unwind.FileAddr) []byte {
	off, n, ok := p.offset(a)
	if !ok {
		return nil
	}
	b := p.block(off / blockSize)
	if in := off % blockSize; in < int64(len(b)) {
		b = b[in:]
		return b[:min(uint64(len(b)), n)]
	}
	return nil
}

// bytes returns n bytes at a, nil if they cannot be read. They are valid until the next call; n is at most blockSize.
func (p *pager) bytes(a unwind.FileAddr, n int) []byte {
	v := p.view(a)
	if len(v) >= n {
		return v[:n]
	}
	if v == nil || n > blockSize {
		return nil
	}
	if p.pair == nil {
		p.pair = make([]byte, blockSize)
	}
	done := copy(p.pair[:n], v)
	rest := p.view(a + unwind.FileAddr(done))
	if len(rest) < n-done {
		return nil
	}
	copy(p.pair[done:n], rest)
	return p.pair[:n]
}

// read fills b from a on, whatever its size.
func (p *pager) read(b []byte, a unwind.FileAddr) bool {
	for len(b) > 0 {
		v := p.view(a)
		if v == nil {
			return false
		}
		n := copy(b, v)
		b, a = b[n:], a+unwind.FileAddr(n)
	}
	return true
}

func (p *pager) u32(a unwind.FileAddr) (uint32, bool) {
	b := p.bytes(a, 4)
	if b == nil {
		return 0, false
	}
	return binary.LittleEndian.Uint32(b), true
}

// block returns a block of the file, from the cache if it is there.
func (p *pager) block(number int64) []byte {
	p.clock++
	oldest := 0
	for i := range p.blocks {
		b := &p.blocks[i]
		if b.number == number {
			b.used = p.clock
			return b.data
		}
		if b.used < p.blocks[oldest].used {
			oldest = i
		}
	}
	var buf []byte
	if len(p.blocks) < maxBlocks {
		p.blocks = append(p.blocks, block{})
		oldest = len(p.blocks) - 1
		buf = make([]byte, blockSize)
	} else {
		buf = p.blocks[oldest].data[:blockSize]
	}
	n, err := p.f.ReaderAt().ReadAt(buf, number*blockSize)
	if err != nil && err != io.EOF {
		n = 0
	}
	p.blocks[oldest] = block{number, p.clock, buf[:n]}
	return buf[:n]
}

// bulk reads a whole part into memory of its own, which counts in the file's Budget. what is for errors.
func (p *pager) bulk(q part, what string) ([]byte, error) {
	if err := p.f.Budget().Take(q.size, what); err != nil {
		return nil, err
	}
	b := make([]byte, q.size)
	if err := p.f.ReadAddr(b, q.addr); err != nil {
		p.f.Budget().Give(q.size)
		return nil, err
	}
	return b, nil
}
