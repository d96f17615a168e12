package hotspot

import (
	"math"
	"slices"
	"testing"
)

// encode is the other direction: UNSIGNED5::encode_multi_length.
func (x stream) encode(b []byte, v uint32) []byte {
	low := 192 - uint32(x)
	for i := 0; ; i++ {
		if v < low || i == 4 {
			return append(b, byte(v+uint32(x)))
		}
		v -= low
		b = append(b, byte(uint32(x)+low+v&63))
		v >>= 6
	}
}

func (x stream) encodeSigned(b []byte, v int32) []byte {
	return x.encode(b, uint32(v<<1)^uint32(v>>31))
}

// TestStream reads what was written, both ways, and bytes that versions are known to write.
func TestStream(t *testing.T) {
	for _, x := range []stream{0, 1} {
		for _, v := range []uint32{0, 1, 190, 191, 192, 193, 255, 1000, 12287, 12480, 1 << 20, math.MaxInt32, math.MaxUint32} {
			b := x.encode(nil, v)
			if got, rest, ok := x.unsigned(append(slices.Clone(b), 7)); got != v || !ok || len(rest) != 1 {
				t.Errorf("%d by %d: %d, %v, %d bytes left", v, x, got, ok, len(rest))
			}
			for n := range b {
				if _, _, ok := x.unsigned(b[:n]); ok {
					t.Errorf("%d by %d is read from %d of %d bytes", v, x, n, len(b))
				}
			}
			if x == 1 && slices.Contains(b, 0) {
				t.Errorf("%d has a byte of 0: %x", v, b)
			}
		}
		for _, v := range []int32{0, 1, -1, 95, -96, 1000, -1000, math.MaxInt32, math.MinInt32} {
			if got, _, ok := x.signed(x.encodeSigned(nil, v)); got != v || !ok {
				t.Errorf("%d by %d: %d, %v", v, x, got, ok)
			}
		}
	}
	if v, _, ok := stream(0).unsigned([]byte{0xc0, 0x00}); v != 192 || !ok {
		t.Errorf("192 of JDK 17: %d, %v", v, ok)
	}
	if v, _, ok := stream(1).unsigned([]byte{0xc0, 0x01}); v != 191 || !ok {
		t.Errorf("191 of JDK 21: %d, %v", v, ok)
	}
	if _, _, ok := stream(1).unsigned([]byte{0}); ok {
		t.Error("a byte of 0")
	}
}

// TestLines finds lines in tables that need not be in order.
func TestLines(t *testing.T) {
	for _, x := range []stream{0, 1} {
		b := []byte{0<<3 | 5, 4<<3 | 1} // 0: 5, 4: 6
		b = append(b, 0xff)
		b = x.encodeSigned(x.encodeSigned(b, 30), 1000) // 34: 1006
		b = append(b, 0xff)
		b = x.encodeSigned(x.encodeSigned(b, -20), -1001) // 14: 5
		b = append(b, 0, 1, 2, 3)
		table := x.lines(b)
		if want := []lineEntry{{0, 5}, {4, 6}, {34, 1006}, {14, 5}}; !slices.Equal(table, want) {
			t.Fatalf("%v", table)
		}
		for bci, want := range map[int]int{0: 5, 3: 5, 4: 6, 13: 6, 14: 5, 33: 5, 34: 1006, 60000: 1006} {
			if got := lineOf(table, bci); got != want {
				t.Errorf("bytecode %d: line %d, not %d", bci, got, want)
			}
		}
		if got := lineOf(table[1:], 1); got != 0 {
			t.Errorf("before the first: %d", got)
		}
		for n := range b[:len(b)-4] { // cut off anywhere
			if got := x.lines(b[:n]); !slices.Equal(got, table[:len(got)]) {
				t.Errorf("%d bytes: %v", n, got)
			}
		}
		for _, bad := range [][]byte{nil, {0xff}, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, x.encodeSigned(x.encodeSigned([]byte{0xff}, -5), 1), x.encodeSigned(x.encodeSigned([]byte{0xff}, 1), 1<<17)} {
			if got := x.lines(bad); len(got) != 0 {
				t.Errorf("%x: %v", bad, got)
			}
		}
	}
	if n := len(stream(0).lines(slices.Repeat([]byte{1 << 3 >> 3}, 1<<20))); n > maxLines {
		t.Errorf("%d entries", n)
	}
}
