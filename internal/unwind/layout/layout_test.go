package layout

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"reflect"
	"testing"
	"unsafe"

	"github.com/hostprofiles/hostprofiles/internal/ebpf/abi"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/ehframe"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
	"github.com/hostprofiles/hostprofiles/internal/unwind/gopclntab"
	"github.com/hostprofiles/hostprofiles/internal/unwind/tablebuild"
	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
)

// numbering numbers rules as they come; rule 0 is none.
type numbering struct {
	rules   []unwind.Rule
	numbers map[unwind.Rule]uint32
}

func newNumbering() *numbering {
	return &numbering{rules: []unwind.Rule{{}}, numbers: map[unwind.Rule]uint32{{}: 0}}
}

func (n *numbering) number(r unwind.Rule) (uint32, error) {
	if i, ok := n.numbers[r]; ok {
		return i, nil
	}
	i := uint32(len(n.rules))
	n.numbers[r] = i
	n.rules = append(n.rules, r)
	return i, nil
}

// random makes a table of pages that are empty, sparse, and full of rows.
func random(r *rand.Rand, rows int) *unwind.Table {
	var b tablebuild.Builder
	at := unwind.FileAddr(r.IntN(1 << 24))
	for range rows {
		_ = b.Add(at, unwind.Rule{CFA: unwind.CFAReg, Reg: 7, Offset: 8 * r.Int32N(200)})
		switch r.IntN(20) {
		case 0:
			at += unwind.FileAddr(r.IntN(5000))
		case 1:
			at = (at | 511) + 1 // the beginning of a page
		default:
			at += unwind.FileAddr(1 + r.IntN(3))
		}
	}
	return b.Table(at)
}

// same compares a laid out table with the one that it was made of, at and around every row.
func same(t *testing.T, table *unwind.Table) {
	t.Helper()
	n := newNumbering()
	e, err := Encode(table, nil, n.number)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range table.Rows {
		for _, a := range []unwind.FileAddr{r.Start - 1, r.Start, r.Start + 1, r.Start | offsetMask, r.Start + 4096} {
			if got, want := n.rules[e.Lookup(a)], table.Lookup(a); got != want {
				t.Fatalf("at %#x there is %v, not %v", a, got, want)
			}
		}
	}
}

func TestEncode(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		same(t, random(r, 1+r.IntN(5000)))
	}
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	e, err := elffile.New(f, st.Size())
	if err != nil {
		t.Fatal(err)
	}
	p, err := gopclntab.Find(e)
	if err != nil {
		t.Fatal(err)
	}
	table, err := p.UnwindTable()
	if err != nil || len(table.Rows) < 1000 {
		t.Fatalf("the test's own table has %d rows: %v", len(table.Rows), err)
	}
	same(t, table)
}

func TestEncodeRefuses(t *testing.T) {
	n := newNumbering()
	if _, err := Encode(&unwind.Table{}, nil, n.number); !errors.Is(err, ErrEmpty) {
		t.Errorf("an empty table: %v", err)
	}
	rules := []unwind.Rule{{}, {CFA: unwind.CFARoot}}
	wide := &unwind.Table{Rows: []unwind.Row{{Start: 1, Rule: 1}, {Start: maxPages << pageBits}}, Rules: rules}
	if _, err := Encode(wide, nil, n.number); err == nil {
		t.Error("a table that spans too much is laid out")
	}
	high := &unwind.Table{Rows: []unwind.Row{{Start: 1 << 60, Rule: 1}, {Start: 1<<60 + 1}}, Rules: rules}
	if _, err := Encode(high, nil, n.number); err == nil {
		t.Error("a table whose pages have too large numbers is laid out")
	}
	full := errors.New("no more rules")
	if _, err := Encode(wide, nil, func(unwind.Rule) (uint32, error) { return 0, full }); !errors.Is(err, full) {
		t.Errorf("no more rules: %v", err)
	}
}

// TestGoBlock: every field of struct go_table is where C looks for it.
func TestGoBlock(t *testing.T) {
	b, err := goBlock(&gopclntab.Offsets{
		GReg: 28, TLSG: -8, TLSGot: 0x1234, GStackHi: 1, GM: 2, GSchedSP: 3, GSchedPC: 4, GSchedBP: 5, GSchedLR: 6, MCurg: 7, MG0: 8,
		MGSignal: 9,
	})
	if err != nil {
		t.Fatal(err)
	}
	raw := unsafe.Sizeof(b)
	if raw < unsafe.Sizeof(abi.LoopGoTable{}) {
		t.Fatalf("a block of %d bytes has no room for struct go_table", raw)
	}
	var words []byte
	for _, w := range b.Row {
		words = binary.NativeEndian.AppendUint32(words, w)
	}
	var g abi.LoopGoTable
	if _, err := binary.Decode(words, binary.NativeEndian, &g); err != nil {
		t.Fatal(err)
	}
	want := abi.LoopGoTable{TlsG: -8, TlsGot: 0x1234, G_m: 2, M_curg: 7, M_g0: 8, SchedSp: 3, SchedPc: 4, SchedFp: 5,
		SchedLr: 6, G_reg: 28, M_gsignal: 9, G_stackHi: 1}
	if g != want {
		t.Errorf("got %+v, not %+v", g, want)
	}
	v := reflect.ValueOf(want)
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; name != "_" && name != "Reserved" && v.Field(i).IsZero() {
			t.Errorf("this test does not know of %s", name)
		}
	}
}

// FuzzLookup: blocks that are no table do no harm.
func FuzzLookup(f *testing.F) {
	n := newNumbering()
	e, err := Encode(random(rand.New(rand.NewPCG(1, 2)), 300), nil, n.number)
	if err != nil {
		f.Fatal(err)
	}
	var b []byte
	for _, block := range e.Blocks {
		for _, w := range block.Row {
			b = binary.NativeEndian.AppendUint32(b, w)
		}
	}
	f.Add(b, e.Page0, e.Pages, uint64(e.Page0)<<pageBits)
	f.Add(b[:len(b)/2], e.Page0, e.Pages, uint64(e.Page0+e.Pages)<<pageBits-1)
	f.Add(b, e.Page0, uint32(1<<32-1), uint64(1<<41-1))
	f.Fuzz(func(t *testing.T, b []byte, page0, pages uint32, at uint64) {
		var table Table
		for len(b) > 0 {
			var block Block
			for i := 0; i < len(block.Row) && len(b) >= 4; i++ {
				block.Row[i] = binary.NativeEndian.Uint32(b)
				b = b[4:]
			}
			if len(b) < 4 {
				b = nil
			}
			table.Blocks = append(table.Blocks, block)
		}
		table.Page0, table.Pages = page0, pages
		if n := table.Lookup(unwind.FileAddr(at)); n > ruleMask {
			t.Errorf("rule %d", n)
		}
	})
}

// BenchmarkEncode lays the C library's table out.
func BenchmarkEncode(b *testing.B) {
	t, _, err := ehframe.EHFrame(unwindtest.Open(b, "/lib/x86_64-linux-gnu/libc.so.6"))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := Encode(t, nil, newNumbering().number); err != nil {
			b.Fatal(err)
		}
	}
}
