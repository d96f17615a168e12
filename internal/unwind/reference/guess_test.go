package reference

import (
	"slices"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// stackAt has words from an address on, up to a page's end, which is the end of what was copied.
func stackAt(from unwind.Addr, set map[unwind.Addr]uint64) memory {
	m := memory{words: map[unwind.Addr]uint64{}, end: (from | 4095) + 1}
	for a := from; a < m.end; a += 8 {
		m.words[a] = set[a]
	}
	return m
}

// TestGuessWithoutCode guesses from a copy of the stack: tables alone tell what is a return address.
func TestGuessWithoutCode(t *testing.T) {
	frame := amd64Reg(rsp, 24)
	byFP := amd64Reg(rbp, 16)
	for _, c := range []struct {
		name string
		code code
		mem  memory
		fp   uint64
		want []unwind.RawFrame
		stop unwind.StopReason
	}{
		{"by the stack", code{0x1010: frame, 0x1020: root},
			stackAt(0x8f80, map[unwind.Addr]uint64{0x8f80: 5, 0x8f90: 0x1014, 0x8f98 + 16: 0x1024}), 1,
			frames(0x1000, 0, 0x1014, uint64(gue), 0x1024, uint64(ret)), unwind.StopRoot},
		{"a stale one that does not lead on", code{0x1010: frame, 0x1020: root, 0x1030: frame},
			stackAt(0x8f80, map[unwind.Addr]uint64{0x8f80: 0x1034, 0x8f90: 0x1014, 0x8f98 + 16: 0x1024}), 1,
			frames(0x1000, 0, 0x1014, uint64(gue), 0x1024, uint64(ret)), unwind.StopRoot},
		{"by the frame pointer, above a weak one", code{0x1010: frame, 0x1020: root},
			stackAt(0x8f80, map[unwind.Addr]uint64{0x8f80: 0x1014, 0x8f98: 0x1024, 0x8fa0: 0x9000, 0x8fa8: 0x1024}), 0x8fa0,
			frames(0x1000, 0, 0x1024, uint64(gue)), unwind.StopRoot},
		{"a caller with a frame pointer", code{0x1010: byFP, 0x1020: root},
			stackAt(0x8f80, map[unwind.Addr]uint64{0x8f90: 0x1014, 0x8fa0: 1, 0x8fa8: 0x1028}), 0x8fa0,
			frames(0x1000, 0, 0x1028, uint64(gue)), unwind.StopRoot},
		{"nothing up to the end of the copy", code{0x1010: frame},
			stackAt(0x8f80, nil), 1, frames(0x1000, 0), unwind.StopCopyEnd},
		{"nothing", code{0x1010: frame}, stackAt(0x8000, nil), 1, frames(0x1000, 0), unwind.StopNoRule},
	} {
		w := Walker{NoCode: true}
		from := unwind.Addr(0x8f80)
		if c.name == "nothing" {
			from = 0x8000
		}
		got, stop := w.Walk(regs(0x1000, map[int]uint64{rsp: uint64(from), rbp: c.fp}), unwind.ArchAMD64, c.mem, c.code, nil, 100)
		if !slices.Equal(got, c.want) || stop != c.stop {
			t.Errorf("%s: %v, %x; want %v, %x", c.name, stop, got, c.stop, c.want)
		}
	}
}

// TestGuessWaits for the table of an executable that a word of the stack points into.
func TestGuessWaits(t *testing.T) {
	c := code{0x1010: later, 0x1020: root}
	mem := stackAt(0x8f80, map[unwind.Addr]uint64{0x8f90: 0x1014, 0x8f98: 0x1024})
	w := Walker{NoCode: true}
	got, stop := w.Walk(regs(0x1000, map[int]uint64{rsp: 0x8f80, rbp: 1}), unwind.ArchAMD64, mem, c, nil, 100)
	if len(got) != 1 || stop != unwind.StopNoTable {
		t.Fatalf("%v, %x", stop, got)
	}
	c[0x1010] = amd64Reg(rsp, 8)
	got, stop = w.Resume(got, 100)
	if !slices.Equal(got, frames(0x1000, 0, 0x1014, uint64(gue), 0x1024, uint64(ret))) || stop != unwind.StopRoot {
		t.Errorf("%v, %x", stop, got)
	}
}
