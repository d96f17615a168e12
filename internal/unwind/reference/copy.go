package reference

import (
	"fmt"
	"math/bits"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// StackCopy is the part of a stack that was copied; an unwind.Memory. What could not be read then, at pages that were never touched or
// are swapped out, is missing.
type StackCopy struct {
	At     unwind.Addr // of the first chunk, which ends at a multiple of unwind.CopyChunk, as all do
	Chunks uint32      // bit i: chunk i, counted from At on, is there
	Bytes  []byte      // of these, one after the other
}

// Trim drops the chunks behind so many bytes.
func (c *StackCopy) Trim(size int) {
	keep := 0
	for rest := c.Chunks; rest != 0; rest &= rest - 1 {
		number := bits.TrailingZeros32(rest)
		length := unwind.CopyChunk
		if number == 0 {
			length -= int(uint64(c.At) % unwind.CopyChunk)
		}
		if keep+length > min(size, len(c.Bytes)) {
			c.Chunks &= 1<<number - 1
			break
		}
		keep += length
	}
	c.Bytes = c.Bytes[:keep]
}

// Read implements unwind.Memory. Its error wraps ErrCopyEnd where the copy does not reach or has a hole.
func (c *StackCopy) Read(a unwind.Addr, b []byte) error {
	if a < c.At {
		return fmt.Errorf("reading %d bytes at %#x, below the copied stack", len(b), a)
	}
	for len(b) > 0 {
		part := c.from(a)
		if len(part) == 0 {
			return fmt.Errorf("reading %d bytes at %#x: %w", len(b), a, ErrCopyEnd)
		}
		n := copy(b, part)
		a, b = a+unwind.Addr(n), b[n:]
	}
	return nil
}

// from is the rest of the chunk that holds a, which is not below At; nil if it is not there.
func (c *StackCopy) from(a unwind.Addr) []byte {
	const chunk = unwind.CopyChunk
	first := chunk - uint64(c.At)%chunk // bytes
	number, begin, offset := uint64(0), uint64(0), uint64(a-c.At)
	if offset >= first {
		number = 1 + (offset-first)/chunk
		offset = (offset - first) % chunk
	}
	if number >= unwind.CopyChunks || c.Chunks>>number&1 == 0 {
		return nil
	}
	length := uint64(chunk)
	if number == 0 {
		length = first
	} else {
		begin = chunk * uint64(bits.OnesCount32(c.Chunks&(1<<number-1)))
		if c.Chunks&1 != 0 {
			begin += first - chunk
		}
	}
	if begin+length > uint64(len(c.Bytes)) {
		return nil // not what a kernel copies
	}
	return c.Bytes[begin+offset : begin+length]
}
