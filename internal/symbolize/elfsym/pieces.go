package elfsym

import (
	"fmt"
	"io"

	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

// pieceSize is how many bytes pieces grows by.
const pieceSize = 256 << 10

// pieces are bytes of a number that is not known before: a slice that grows would leave a multiple of itself as garbage.
type pieces struct {
	limit  uint64
	budget *elffile.Budget
	list   [][]byte // of pieceSize each
	size   int64
}

// Write appends b, or fails: with elffile.ErrTooLarge if there is more than the limit, or than the budget has room for.
func (p *pieces) Write(b []byte) (n int, err error) {
	if uint64(p.size)+uint64(len(b)) > p.limit {
		return 0, fmt.Errorf("more than %d bytes: %w", p.limit, elffile.ErrTooLarge)
	}
	for n < len(b) {
		at := p.size % pieceSize
		if at == 0 {
			if err := p.budget.Take(pieceSize, "decompressed data"); err != nil {
				return n, err
			}
			p.list = append(p.list, make([]byte, pieceSize))
		}
		c := copy(p.list[len(p.list)-1][at:], b[n:])
		n, p.size = n+c, p.size+int64(c)
	}
	return n, nil
}

// ReadAt reads what was written.
func (p *pieces) ReadAt(b []byte, off int64) (n int, err error) {
	for n < len(b) && off < p.size {
		end := min(pieceSize, p.size-off/pieceSize*pieceSize)
		c := copy(b[n:], p.list[off/pieceSize][off%pieceSize:end])
		n, off = n+c, off+int64(c)
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// release lets go of everything.
func (p *pieces) release() {
	p.budget.Give(uint64(len(p.list)) * pieceSize)
	p.list, p.size = nil, 0
}
