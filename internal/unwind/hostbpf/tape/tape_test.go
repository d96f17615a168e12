package tape

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// TestMemory compares with a byte-wise model.
func TestMemory(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, base := range []unwind.Addr{0, 1 << 40, ^unwind.Addr(0) - 300} {
		for range 200 {
			var m Memory
			model := map[unwind.Addr]byte{}
			for range 20 {
				a, b := base+unwind.Addr(r.IntN(300)), make([]byte, r.IntN(40))
				for i := range b {
					b[i] = byte(r.Uint32())
					if at := a + unwind.Addr(i); at >= a && at != ^unwind.Addr(0) { // the last address is none's
						model[at] = b[i]
					}
				}
				m.Add(a, b)
			}
			for i, x := range m.Ranges() {
				if i > 0 && m.Ranges()[i-1].end() >= x.Addr {
					t.Fatalf("ranges %#x to %#x and %#x", m.Ranges()[i-1].Addr, m.Ranges()[i-1].end(), x.Addr)
				}
			}
			for range 200 {
				a, b := base+unwind.Addr(r.IntN(300)), make([]byte, 1+r.IntN(20))
				err := m.Read(a, b)
				known := true
				for i := range b {
					v, ok := model[a+unwind.Addr(i)]
					if known = known && ok && a+unwind.Addr(i) >= a; known && err == nil && v != b[i] {
						t.Fatalf("%#x is %d, not %d", a+unwind.Addr(i), b[i], v)
					}
				}
				if known != (err == nil) {
					t.Fatalf("%d bytes at %#x: %v", len(b), a, err)
				}
			}
		}
	}
}

// TestNear: the rows that are asked for stay as they are, and what is far away has no rule.
func TestNear(t *testing.T) {
	full := &unwind.Table{Rules: []unwind.Rule{{}}}
	for i := range 100 {
		full.Rules = append(full.Rules, unwind.Rule{CFA: unwind.CFAReg, Offset: int32(i)})
		full.Rows = append(full.Rows, unwind.Row{Start: unwind.FileAddr(1000 + 10*i), Rule: uint32(i + 1)})
	}
	full.Rows = append(full.Rows, unwind.Row{Start: 2000})
	for _, at := range []unwind.FileAddr{999, 1000, 1009, 1555, 1999, 2000, 5000} {
		small := Near(full, []unwind.FileAddr{at, 1500}, 2)
		for a := max(at, 20) - 20; a <= at+20; a++ {
			if got := small.Lookup(a); got != full.Lookup(a) && (a == at || got != unwind.Rule{}) {
				t.Errorf("near %d there is %v at %d", at, got, a)
			}
		}
		if small.Lookup(at) != full.Lookup(at) || small.Lookup(1505) != full.Lookup(1505) {
			t.Errorf("%d or 1505 is not there", at)
		}
		if len(small.Rows) > 14 {
			t.Errorf("%d rows", len(small.Rows))
		}
	}
}

// TestReadRefuses: what is no tape is not taken for one.
func TestReadRefuses(t *testing.T) {
	for _, text := range []string{
		"", "arch amd64\n", "stop root\n", "arch amd64\nstop nothing\n", "arch amd64\nreg 32 0\nstop root\n",
		"arch amd64\nrow 0x1 0\nstop root\n", "arch amd64\ntable\nrow 0x1 0\nstop root\n", "arch amd64\nwhat\nstop root\n",
		"arch amd64\nmap 0x1 0x2 0x0 7 x\nstop root\n", "arch amd64\nmem 0x1 0\nstop root\n", "arch amd64\ngo {}\nstop root\n",
	} {
		if _, err := Read(strings.NewReader(text)); err == nil {
			t.Errorf("%q is taken for a tape", text)
		}
	}
}
