package jitcode

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// model is a table that forgets nothing, byte by byte.
type model map[uint64]uint32

func check(t *testing.T, tab *Table) {
	t.Helper()
	spans := map[uint32]uint32{}
	var last uint64
	n := 0
	for c, chunk := range tab.ranges.chunks {
		if len(chunk) == 0 || len(chunk) > chunkSpans || chunk[0].start != tab.ranges.first[c] {
			t.Fatalf("chunk %d of %d: %d spans", c, len(tab.ranges.chunks), len(chunk))
		}
		for _, s := range chunk {
			if s.start < last || s.size == 0 {
				t.Fatalf("%+v after %x", s, last)
			}
			last = s.end()
			spans[s.id]++
			n++
		}
	}
	alive := 0
	for id := range tab.entries {
		if got := tab.entries[id].spans; got != spans[uint32(id)] {
			t.Fatalf("record %d: %d spans, counted %d", id, spans[uint32(id)], got)
		}
		if spans[uint32(id)] > 0 {
			alive++
		}
	}
	if n != tab.ranges.n || alive != tab.alive || len(tab.ranges.first) != len(tab.ranges.chunks) {
		t.Fatalf("%d spans, counted %d; %d alive, counted %d", n, tab.ranges.n, alive, tab.alive)
	}
}

func number(n uint32) []byte { return binary.LittleEndian.AppendUint32(nil, n) }

// apply feeds operations to a table and to the model.
func apply(t *testing.T, tab *Table, ops []byte, space uint64) {
	want, moved := model{}, uint32(0)
	for ; len(ops) >= 5; ops = ops[5:] {
		start := uint64(binary.LittleEndian.Uint16(ops)) % space
		size := uint64(ops[2]) + uint64(ops[3])<<4
		if ops[4]%8 == 0 { // moves what is there
			tab.Room(0)
			if id, record, ok := tab.Find(start); ok && tab.Move(id, start+16, size) {
				n := binary.LittleEndian.Uint32(record)
				for a := start + 16; a < start+16+size; a++ {
					want[a] = n
				}
			}
			continue
		}
		moved++
		if _, ok := tab.Add(start, size, number(moved)); ok != (size > 0) {
			t.Fatalf("Add(%x, %x) = %v", start, size, ok)
		}
		for a := start; a < start+size; a++ {
			want[a] = moved
		}
	}
	check(t, tab)
	for a := range space + 0x2000 {
		_, record, ok := tab.Find(a)
		n, known := want[a]
		if ok != known || ok && binary.LittleEndian.Uint32(record) != n {
			t.Fatalf("at %x: %x %v, want %x %v", a, record, ok, n, known)
		}
	}
}

func TestTableAgainstModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 12 {
		ops := make([]byte, 5*6000)
		for i := range ops {
			ops[i] = byte(rng.Uint32())
		}
		if rng.IntN(2) == 0 { // small functions, many chunks
			for i := 0; i < len(ops); i += 5 {
				ops[i+2], ops[i+3] = ops[i+2]%8, 0
			}
		}
		apply(t, NewTable(0), ops, 1<<16)
	}
}

func FuzzTable(f *testing.F) {
	f.Add([]byte{0, 0, 16, 0, 1, 4, 0, 4, 0, 1, 6, 0, 0, 0, 0, 0, 0, 255, 1, 1})
	f.Add([]byte{9, 0, 1, 0, 1, 8, 0, 3, 0, 1, 8, 0, 9, 0, 8, 200, 0, 1, 0, 3})
	f.Fuzz(func(t *testing.T, ops []byte) { apply(t, NewTable(0), ops[:min(len(ops), 5000)], 1<<12) })
}

func TestTableRefuses(t *testing.T) {
	tab := NewTable(0)
	for _, c := range [][2]uint64{{0, 0}, {5, 1 << 32}, {5, 1 << 63}, {^uint64(0), 1}, {^uint64(0) - 10, 11}, {1 << 63, ^uint64(0)}} {
		if _, ok := tab.Add(c[0], c[1], nil); ok {
			t.Errorf("%x was added", c)
		}
	}
	if _, ok := tab.Add(0, 1<<32-1, make([]byte, MaxRecord+1)); ok {
		t.Error("a record too long was added")
	}
	id, ok := tab.Add(^uint64(0)-10, 10, make([]byte, MaxRecord))
	if !ok || tab.Move(id, 5, 0) || tab.Move(-1, 5, 5) || tab.Move(id+1, 5, 5) || !tab.Move(id, 5, 5) {
		t.Error("moves")
	}
	check(t, tab)
}

// TestTableFull: the newest stay, and those that were looked up; and the limit holds for any shape.
func TestTableFull(t *testing.T) {
	const limit = 4 << 20
	tab := NewTable(limit)
	const n = 5 * limit / limitPerFunction
	for i := range uint64(n) {
		tab.Add(i*16, 16, number(uint32(i)))
		tab.Find(5 * 16)
	}
	check(t, tab)
	for a, want := range map[uint64]bool{5 * 16: true, 6 * 16: false, (n - 1) * 16: true, (n - limit/limitPerFunction/2) * 16: true} {
		if _, record, ok := tab.Find(a); ok != want || ok && uint64(binary.LittleEndian.Uint32(record)) != a/16 {
			t.Errorf("at %x: %x %v", a, record, ok)
		}
	}
	if tab.Dropped()+uint64(tab.Alive()) != n {
		t.Errorf("%d dropped, %d there", tab.Dropped(), tab.Alive())
	}
}

func TestTableLimitHolds(t *testing.T) {
	const limit = 2 << 20
	rng := rand.New(rand.NewPCG(3, 4))
	for name, next := range map[string]func(i uint64) (start, size uint64, record int){
		"ascending":  func(i uint64) (uint64, uint64, int) { return i * 16, 16, 40 },
		"descending": func(i uint64) (uint64, uint64, int) { return 1<<40 - i*16, 16, 40 },
		"random":     func(uint64) (uint64, uint64, int) { return rng.Uint64() >> 8, 16, 10 },
		"splitting":  func(i uint64) (uint64, uint64, int) { return uint64(rng.Uint32() >> 1), 1, 10 },
		"same":       func(uint64) (uint64, uint64, int) { return 77, 5, 100 },
		"long":       func(i uint64) (uint64, uint64, int) { return i << 20, 9, MaxRecord/2 + 1 + int(i%3) },
		"longest":    func(i uint64) (uint64, uint64, int) { return i << 20, 9, MaxRecord },
		"mixed": func(i uint64) (uint64, uint64, int) {
			return rng.Uint64() >> 30, uint64(rng.Uint32()), rng.IntN(9000)
		},
		"covering": func(i uint64) (uint64, uint64, int) {
			if i%300 == 0 {
				return rng.Uint64() >> 30, 1 << 31, 4
			}
			return rng.Uint64() >> 30, 2, 4
		},
	} {
		tab := NewTable(limit)
		tab.Add(0, 1<<32-1, []byte("everything"))
		record := make([]byte, MaxRecord)
		n := uint64(100_000)
		if name == "long" || name == "longest" || name == "mixed" {
			n = 10_000
		}
		most := 0
		for i := range n {
			start, size, length := next(i)
			if _, ok := tab.Add(start, size, record[:length]); !ok && size > 0 {
				t.Fatalf("%s: %x of %d refused", name, start, size)
			}
			most = max(most, tab.Bytes())
		}
		check(t, tab)
		if most > limit {
			t.Errorf("%s: %d bytes", name, most)
		}
		t.Logf("%s: at most %d KiB, %d functions at the end", name, most>>10, tab.Len())
	}
}

// TestTableRewritten: code that is compiled again at the same places leaves nothing behind.
func TestTableRewritten(t *testing.T) {
	tab := NewTable(64 << 20)
	for i := range uint64(1_000_000) {
		tab.Add(i%1000*64, 64, number(uint32(i)))
	}
	check(t, tab)
	if tab.Bytes() > 1<<20 || tab.Dropped() > 0 || tab.Alive() != 1000 {
		t.Errorf("%d bytes for %d functions, %d dropped", tab.Bytes(), tab.Alive(), tab.Dropped())
	}
}

func filled(n uint64) *Table {
	tab := NewTable(64 << 20)
	record := []byte("LazyCompile:*processTicksAndRejections node:internal/process/task_queues:67:35")
	for i := range n {
		tab.Add(i*64, 64, record)
	}
	return tab
}

func BenchmarkFill500k(b *testing.B) {
	for b.Loop() {
		b.ReportMetric(float64(filled(500_000).Bytes())/(1<<20), "MiB")
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/500_000, "ns/function")
}

// BenchmarkAppend100 appends 100 functions, at new and at used addresses, to 400,000 and looks one up.
func BenchmarkAppend100(b *testing.B) {
	const n = 400_000
	tab := filled(n)
	rng := rand.New(rand.NewPCG(1, 2))
	for b.Loop() {
		for range 100 {
			tab.Add(rng.Uint64N(n*64), 100, []byte("a function"))
		}
		tab.Find(rng.Uint64N(n * 64))
	}
}

func BenchmarkFind(b *testing.B) {
	const n = 500_000
	tab := filled(n)
	rng := rand.New(rand.NewPCG(1, 2))
	for b.Loop() {
		tab.Find(rng.Uint64N(n * 64))
	}
}

// BenchmarkSweep is what it costs that a full table drops an eighth.
func BenchmarkSweep(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		tab := filled(524_000)
		b.StartTimer()
		tab.sweep()
	}
}
