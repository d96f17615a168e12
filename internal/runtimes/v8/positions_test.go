package v8

import (
	"encoding/hex"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// table encodes rows of code offset and position, as V8 does.
func table(e positionEncoding, at int, rows ...[2]int64) (b []byte) {
	unsigned := func(v uint64) {
		for ; v >= 0x80; v >>= 7 {
			b = append(b, byte(v)|0x80)
		}
		b = append(b, byte(v))
	}
	signed := func(v int64) { unsigned(uint64(v<<1) ^ uint64(v>>63)) }
	var position int64
	for i, r := range rows {
		step := r[0] - int64(at)
		switch e {
		case signedSteps:
			if i%2 == 1 {
				step = -step - 1 // an expression
			}
			signed(step)
			signed(r[1] - position)
		case flagSteps:
			unsigned(uint64(step)<<2 | uint64(i&1))
			signed(r[1] - position)
		default:
			if i%3 == 2 {
				unsigned(uint64(step)<<3 | 4)
				signed(r[1])
			} else {
				unsigned(uint64(step)<<3 | 1)
				signed(r[1] - position)
			}
		}
		at, position = int(r[0]), r[1]
	}
	return b
}

// TestPositions finds rows of tables of each encoding.
func TestPositions(t *testing.T) {
	rows := [][2]int64{{0, 20}, {3, 21 | 5<<31}, {10, 400000}, {200, 22}, {201, 1<<46 | 24}}
	for _, v := range []version{{7, 8}, {10, 2}, {13, 6}, {14, 6}, {15, 0}} {
		l, err := layoutOf(v, unwind.ArchAMD64, constants{})
		if err != nil {
			t.Fatal(err)
		}
		b := table(l.encodings[0], l.firstOffset, rows...)
		for offset, want := range map[int]int64{0: 20, 2: 20, 3: 21 | 5<<31, 9: 21 | 5<<31, 10: 400000, 199: 400000, 200: 22, 201: 1<<46 | 24, 250: 1<<46 | 24} {
			if got, ok := l.findPosition(b, offset, 300); !ok || int64(got) != want {
				t.Errorf("%v: at %d: %d, %v, not %d", v, offset, got, ok, want)
			}
		}
		if _, ok := l.findPosition(b, -1, 300); ok {
			t.Errorf("%v: there is a row before the first", v)
		}
		for n := range b { // whatever is found in part of a table, it ends
			l.findPosition(b[:n], 100, 300)
		}
		if got, ok := l.findPosition(b, 100, 150); ok {
			t.Errorf("%v: %d in a table that goes on behind the code", v, got)
		}
	}
}

// TestPosition takes positions apart.
func TestPosition(t *testing.T) {
	p := position((7+1)<<1 | (3+1)<<31)
	if p.script() != 7 || p.inlined() != 3 || p.external() {
		t.Errorf("%d, %d, %v", p.script(), p.inlined(), p.external())
	}
	if p := position(8 << 1); p.inlined() != -1 {
		t.Errorf("inlined in %d", p.inlined())
	}
}

// TestBytecodeOf follows bytecodes along the code that was made of them.
func TestBytecodeOf(t *testing.T) {
	sizes := bytecodeSizes{{1, 1, 1, 1, 2, 3}, {1, 1, 1, 1, 3, 5}, {1, 1, 1, 1, 5, 9}}
	bytecodes := []byte{4, 9, 0, 5, 1, 0, 2, 0, 5, 9, 9, 1, 4, 0, 0, 0, 0}
	codes := []byte{10, 5, 0x80, 1, 3, 7} // entry, then 2, 6, 3 and 6 bytes of bytecodes
	for _, tt := range []struct {
		offset int
		exact  bool
		want   int
	}{{5, false, -1}, {10, false, -1}, {10, true, 0}, {11, false, 0}, {15, false, 0}, {15, true, 2}, {100, false, 2}, {143, false, 2}, {144, false, 8}, {146, true, 11}, {153, false, 11}} {
		if got, ok := sizes.bytecodeOf(codes, bytecodes, tt.offset, tt.exact); !ok || got != tt.want {
			t.Errorf("at %d (%v): %d, %v, not %d", tt.offset, tt.exact, got, ok, tt.want)
		}
	}
	for _, tt := range []struct {
		codes, bytecodes string
		offset           int
	}{{"0a05", "0409", 100}, {"", "04", 5}, {"0a80", "04", 50}, {"0a05", "ff", 12}, {"0a05", "", 12}, {"0a05", "00", 12}, {"0affffffffffffffffffff", "0409", 1 << 40}} {
		c, _ := hex.DecodeString(tt.codes)
		b, _ := hex.DecodeString(tt.bytecodes)
		if got, ok := sizes.bytecodeOf(c, b, tt.offset, false); ok {
			t.Errorf("%s of %s: %d", tt.codes, tt.bytecodes, got)
		}
	}
}

// FuzzPositions: no table makes it hang or panic.
func FuzzPositions(f *testing.F) {
	f.Add(table(signedSteps, -1, [2]int64{0, 20}, [2]int64{3, 21}), 2, uint8(10))
	f.Add(table(absoluteSteps, -1, [2]int64{0, 20}, [2]int64{3, 21}, [2]int64{3, 9}), 2, uint8(15))
	f.Fuzz(func(t *testing.T, b []byte, offset int, major uint8) {
		l, err := layoutOf(version{7 + int(major)%9, 0}, unwind.ArchAMD64, constants{})
		if err != nil {
			t.Fatal(err)
		}
		if p, ok := l.findPosition(b, offset, 1<<16); ok && p < 0 {
			t.Errorf("a position of %d", p)
		}
		s := bytecodeSizes{b, b, b}
		s.bytecodeOf(b, b, offset, true)
	})
}
