package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pprofile"
)

// heapBytes is what is alive.
func heapBytes() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// TestBudget is an hour of a host on which new code runs all the time, in little time: what is held stays within the budget,
// and the size that the store tells is about the memory that it takes.
func TestBudget(t *testing.T) {
	const budget = 16 << 20
	r := rand.New(rand.NewPCG(3, 4))
	before := heapBytes()
	s := New(Options{Window: 15 * time.Minute, Bytes: budget})
	peak, oldest := 0, int64(0)
	for i := range 180 {
		now := epoch.Add(20 * time.Second * time.Duration(i+1))
		p := newPayload()
		pr := p.process("server", 1)
		for range 800 {
			names := make([]string, 20+r.IntN(20))
			for d := range names {
				names[d] = fmt.Sprintf("function_%d_of_%d_at_%d", d, r.IntN(1+d/4), i/3)
			}
			p.sample(pr, strings.Join(names, " "), "", 20_000*i+r.IntN(20_000))
		}
		if _, err := s.Add(p.Profiles, now); err != nil {
			t.Fatal(err)
		}
		w := s.Snapshot(now).Window()
		if w.Bytes > budget {
			t.Fatalf("after %d payloads %d bytes are held", i, w.Bytes)
		}
		if w.Samples < 800 || w.From < oldest {
			t.Fatalf("after %d payloads %d samples are held, the oldest is of %d", i, w.Samples, w.From)
		}
		oldest = w.From
		if i%20 == 19 {
			peak = max(peak, heapBytes()-before)
		}
	}
	w := s.Snapshot(epoch.Add(time.Hour)).Window()
	t.Logf("held: %d KiB by its own count, %d KiB of heap at most, %d samples of %d s", w.Bytes>>10, peak>>10, w.Samples, (w.To-w.From)/1000)
	if w.DroppedUntil == 0 || w.DroppedUntil > w.From+20_000 {
		t.Errorf("dropped until %d, the oldest is of %d", w.DroppedUntil, w.From)
	}
	if peak > budget {
		t.Errorf("%d bytes of heap were taken", peak)
	}
	runtime.KeepAlive(s)
}

// TestTooLarge: a payload that would take more than all may is refused, and what was there stays.
func TestTooLarge(t *testing.T) {
	s := New(Options{Window: time.Minute, Bytes: 8 << 20})
	if _, err := s.Add(twoProcesses().Profiles, epoch); err != nil {
		t.Fatal(err)
	}
	p := newPayload()
	pr := p.process("big", 9)
	st := p.Dictionary().StackTable()
	for _, n := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		p.location(n)
	}
	r := rand.New(rand.NewPCG(5, 6))
	for range 100 {
		stack := st.AppendEmpty()
		for range 10_000 {
			stack.LocationIndices().Append(int32(1 + r.IntN(7)))
		}
		sample := pr.Samples().AppendEmpty()
		sample.SetStackIndex(int32(st.Len() - 1))
		sample.TimestampsUnixNano().Append(uint64(epoch.UnixNano()))
	}
	if _, err := s.Add(p.Profiles, epoch); !errors.Is(err, ErrTooLarge) {
		t.Fatalf("error %v", err)
	}
	if f := flame(t, s, Query{}, View{}); f.Total != 150 {
		t.Errorf("then there are %d samples", f.Total)
	}
	if _, err := s.Add(twoProcesses().Profiles, epoch); err != nil {
		t.Fatal(err)
	}
	if w := s.Snapshot(epoch).Window(); w.Bytes > 8<<20 || w.Samples == 0 {
		t.Errorf("%+v", w)
	}
}

// TestRefusedPayloadsLeaveNothing: what malformed payloads bring before they show it does not push out what is there.
func TestRefusedPayloadsLeaveNothing(t *testing.T) {
	s := New(Options{Window: time.Minute, Bytes: 4 << 20})
	if _, err := s.Add(twoProcesses().Profiles, epoch); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		p := newPayload()
		pr := p.process(fmt.Sprint("new", i), int64(i))
		for k := range 500 {
			p.sample(pr, fmt.Sprintf("a_function_of_%d b_%d_%d", i, i, k), "", 1)
		}
		p.sample(pr, "bad", "", 1).SetLinkIndex(99)
		if _, err := s.Add(p.Profiles, epoch); !errors.Is(err, ErrMalformed) {
			t.Fatalf("error %v", err)
		}
		if w := s.Snapshot(epoch).Window(); w.Bytes > w.Budget || w.Samples != 150 || w.DroppedUntil != 0 {
			t.Fatalf("after %d: %+v", i, w)
		}
	}
}

// manyStacks is a payload of n distinct stacks; every hundredth is 1,000 deep.
func manyStacks(n int) pprofile.Profiles {
	r := rand.New(rand.NewPCG(7, 8))
	p := newPayload()
	var prs []pprofile.Profile
	for i := range 10 {
		prs = append(prs, p.process(fmt.Sprint("process", i), int64(i)))
	}
	for f := range 5000 {
		p.location(fmt.Sprint("function_", f))
	}
	st := p.Dictionary().StackTable()
	for i := range n {
		depth := 10 + r.IntN(40)
		if i%100 == 0 {
			depth = 1000
		}
		stack := st.AppendEmpty()
		at := 0
		path := make([]int32, depth)
		for d := range path {
			at = at*31 + d
			if r.IntN(20) == 0 {
				at += 1 + r.IntN(3)
			}
			at %= 5000
			path[depth-1-d] = int32(1 + at)
		}
		stack.LocationIndices().FromRaw(path)
		sample := prs[i%10].Samples().AppendEmpty()
		sample.SetStackIndex(int32(st.Len() - 1))
		for range 1 + r.IntN(3) {
			sample.TimestampsUnixNano().Append(uint64(epoch.UnixNano() + r.Int64N(900e9)))
		}
	}
	return p.Profiles
}

func benchStore(b *testing.B) *Store {
	s := New(Options{Window: time.Hour, Bytes: 1 << 30})
	if _, err := s.Add(manyStacks(100_000), epoch); err != nil {
		b.Fatal(err)
	}
	debug.FreeOSMemory()
	b.Cleanup(func() {
		w := s.Snapshot(epoch).Window()
		b.ReportMetric(float64(w.Bytes)/1e6, "MB")
		b.ReportMetric(float64(len(s.t.nodes.items)), "nodes")
	})
	return s
}

// BenchmarkAdd100kStacks takes up 100,000 distinct stacks, every hundredth of which is 1,000 deep.
func BenchmarkAdd100kStacks(b *testing.B) {
	p := manyStacks(100_000)
	for b.Loop() {
		s := New(Options{Window: time.Hour, Bytes: 1 << 30})
		if _, err := s.Add(p, epoch); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFlame100kStacks makes what the page draws first.
func BenchmarkFlame100kStacks(b *testing.B) {
	s := benchStore(b)
	for b.Loop() {
		t, _ := s.Snapshot(epoch).Tree(Query{Group: "process.executable.name"})
		if f, ok := t.Flame(View{MaxNodes: 20000}); !ok || len(f.ID) != 20000 {
			b.Fatal("no flame graph")
		}
	}
}

func BenchmarkFunctions100kStacks(b *testing.B) {
	s := benchStore(b)
	t, _ := s.Snapshot(epoch).Tree(Query{})
	for b.Loop() {
		t.Functions(nil)
	}
}

func BenchmarkExport100kStacks(b *testing.B) {
	s := benchStore(b)
	for b.Loop() {
		if _, ok := s.Snapshot(epoch).Export(Export{}); !ok {
			b.Fatal("nothing")
		}
	}
}

func BenchmarkHeatmap100kStacks(b *testing.B) {
	s := benchStore(b)
	for b.Loop() {
		s.Snapshot(epoch).Heatmap(Selection{}, 300, 20)
	}
}
