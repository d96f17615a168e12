package reference

import (
	"bytes"
	"errors"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// TestStackCopy reads across chunks, into holes, behind the end and below the beginning, and what no kernel copies.
func TestStackCopy(t *testing.T) {
	const at, first = 0x7ff8, 8 // the first chunk has 8 bytes, up to 0x8000
	// chunks 0, 1 and 3
	c := StackCopy{At: at, Chunks: 0b1011, Bytes: append(append(bytes.Repeat([]byte{1}, first), bytes.Repeat([]byte{2}, 0x1000)...),
		bytes.Repeat([]byte{4}, 0x1000)...)}
	tail := StackCopy{At: at, Chunks: 0b10, Bytes: c.Bytes[first : first+0x1000]}
	for _, tt := range []struct {
		name string
		c    *StackCopy
		a    unwind.Addr
		n    int
		want []byte // nil: an error
		end  bool   // that wraps ErrCopyEnd
	}{
		{"first", &c, at, 8, bytes.Repeat([]byte{1}, 8), false},
		{"across", &c, 0x7ffc, 8, []byte{1, 1, 1, 1, 2, 2, 2, 2}, false},
		{"up to the hole", &c, 0x8ff8, 8, bytes.Repeat([]byte{2}, 8), false},
		{"into the hole", &c, 0x8ffc, 8, nil, true},
		{"in the hole", &c, 0x9800, 8, nil, true},
		{"out of the hole", &c, 0x9ffc, 8, nil, true},
		{"behind the hole", &c, 0xa000, 8, bytes.Repeat([]byte{4}, 8), false},
		{"the last", &c, 0xaff8, 8, bytes.Repeat([]byte{4}, 8), false},
		{"across the end", &c, 0xaffc, 8, nil, true},
		{"behind the end", &c, 0xb000, 8, nil, true},
		{"far behind", &c, ^unwind.Addr(0) - 7, 8, nil, true},
		{"below", &c, at - 1, 8, nil, false},
		{"nothing copied", &StackCopy{At: at}, at, 8, nil, true},
		{"without the first", &tail, 0x8000, 8, bytes.Repeat([]byte{2}, 8), false},
		{"the first is not there", &tail, at, 8, nil, true},
		{"fewer bytes than chunks", &StackCopy{At: at, Chunks: 0xffffffff, Bytes: c.Bytes[:first+0xfff]}, 0x8000, 8, nil, true},
		{"no bytes", &StackCopy{At: at, Chunks: 0xffffffff}, 0x9000, 8, nil, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := make([]byte, tt.n)
			err := tt.c.Read(tt.a, got)
			if (err == nil) != (tt.want != nil) || err == nil && !bytes.Equal(got, tt.want) || err != nil && errors.Is(err, ErrCopyEnd) != tt.end {
				t.Errorf("%x, %v", got, err)
			}
		})
	}
}

// TestTrim keeps whole chunks, and all that is left can be read where it was.
func TestTrim(t *testing.T) {
	const at = 0x7ff0
	text := make([]byte, 16+4*unwind.CopyChunk)
	for i := range text {
		text[i] = byte(i % 251)
	}
	for _, tt := range []struct {
		size, want int
		chunks     uint32
	}{
		{len(text), len(text), 0b110111}, {len(text) - 1, 16 + 3*unwind.CopyChunk, 0b10111}, {16 + unwind.CopyChunk, 16 + unwind.CopyChunk, 0b11},
		{16, 16, 1}, {15, 0, 0}, {0, 0, 0}, {1 << 30, len(text), 0b110111},
	} {
		c := StackCopy{At: at, Chunks: 0b110111, Bytes: bytes.Clone(text)}
		before := c
		c.Trim(tt.size)
		if len(c.Bytes) != tt.want || c.Chunks != tt.chunks {
			t.Errorf("%d bytes: %d are left, chunks %b", tt.size, len(c.Bytes), c.Chunks)
		}
		for a := unwind.Addr(at); a < at+7*unwind.CopyChunk; a += 8 {
			var was, is [8]byte
			wasErr, err := before.Read(a, was[:]), c.Read(a, is[:])
			if err == nil && (wasErr != nil || was != is) {
				t.Fatalf("%d bytes: at %#x %x, before %x, %v", tt.size, a, is, was, wasErr)
			}
		}
	}
	damaged := StackCopy{At: at, Chunks: 0xffffffff, Bytes: text[:20]}
	if damaged.Trim(100); len(damaged.Bytes) != 16 || damaged.Chunks != 1 {
		t.Errorf("%d bytes, chunks %#x", len(damaged.Bytes), damaged.Chunks)
	}
}
