package process

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

func TestIsAnonymous(t *testing.T) {
	for path, want := range map[string]bool{
		"":                              true,
		"//anon":                        true,
		"[heap]":                        true,
		"[stack]":                       true,
		"[anon:jit stubs]":              true,
		"[anon_shmem:x]":                true,
		"[uprobes]":                     true,
		"anon_inode:[io_uring]":         true,
		"/dev/zero":                     true,
		"/dev/zero (deleted)":           true,
		"/SYSV00001234 (deleted)":       true,
		"/anon_hugepage (deleted)":      true,
		"[vdso]":                        false,
		"/memfd:doublemapper (deleted)": false,
		"/SYSVlib.so":                   false,
		"/SYSV0000123":                  false,
		"/dev/zero.so":                  false,
		"/usr/lib/libc.so.6":            false,
		"//toolong":                     false,
	} {
		if got := IsAnonymous(path); got != want {
			t.Errorf("%q: %v", path, got)
		}
	}
}

func TestForkSharesUntilChanged(t *testing.T) {
	b := newTestTable(t)
	b.exec(10, 4, "/sh")
	for i := range 50 {
		m := imageMap(fmt.Sprint("/lib", i))
		m.Start, m.End = m.Start+unwind.Addr(i+1)<<20, m.End+unwind.Addr(i+1)<<20
		b.Apply(&Event{Kind: EventMmap, Time: 20, PID: 4, TID: 4, Map: m})
	}
	b.fork(30, 4, 5)
	first := b.Bytes()
	for i := range uint32(100) {
		b.fork(31+uint64(i), 5, 6+i)
	}
	if each := (b.Bytes() - first) / 100; each > processBytes {
		t.Errorf("a child that maps nothing takes %d bytes", each)
	}
	parent, _ := b.Current(4)
	child, _ := b.Current(6)
	if &parent.Mappings()[0] != &child.Mappings()[0] {
		t.Error("the list is not shared")
	}
	other := imageMap("/other")
	b.Apply(&Event{Kind: EventMmap, Time: 200, PID: 6, TID: 6, Map: other})
	if image(child) != "/other" || image(parent) != "/sh" {
		t.Error("what a child maps is its own")
	}
	for pid := range uint32(102) {
		b.exit(300, 4+pid, 4+pid)
	}
	for range 3 {
		b.Tick()
	}
	if b.Len() != 0 || b.Bytes() != 0 {
		t.Errorf("%d processes, %d bytes left", b.Len(), b.Bytes())
	}
	if err := checkTable(b.Table, b.x); err != nil {
		t.Error(err)
	}
}

func TestThreadNames(t *testing.T) {
	b := newTestTable(t)
	b.exec(10, 4, "java")
	comm := func(time uint64, tid uint32, name string) {
		b.Apply(&Event{Kind: EventComm, Time: time, PID: 4, TID: tid, Comm: name})
	}
	thread := func(time uint64, by, tid uint32) {
		b.Apply(&Event{Kind: EventFork, Time: time, PID: 4, TID: tid, PPID: 4, PTID: by})
	}
	thread(11, 4, 5)
	comm(12, 5, "gc")
	thread(13, 5, 6)
	comm(14, 4, "renamed")
	thread(15, 4, 7)
	b.Apply(&Event{Kind: EventFork, Time: 16, PID: 20, TID: 20, PPID: 4, PTID: 5})
	p, _ := b.Current(4)
	for tid, want := range map[uint32]string{4: "renamed", 5: "gc", 6: "gc", 7: "renamed", 8: ""} {
		if got, ok := p.ThreadComm(tid); got != want || ok != (want != "") {
			t.Errorf("%d: %q %v", tid, got, ok)
		}
	}
	if child, _ := b.Current(20); child.Comm() != "gc" {
		t.Errorf("a process has the name of the thread that forked it: %q", child.Comm())
	}
	b.exit(17, 4, 5)
	if _, ok := p.ThreadComm(5); ok {
		t.Error("the thread has exited")
	}
	for i := range uint32(10000) {
		thread(18, 4, 100+i)
	}
	if len(p.threads) != b.options.MaxThreads || b.Stats().ThreadsDropped == 0 {
		t.Errorf("%d names", len(p.threads))
	}
	b.exec(30, 4, "/b")
	if n, _ := b.Current(4); n == p || len(n.threads) != 0 || n.Comm() != "/b" {
		t.Error("exec ends the threads")
	}
	if err := checkTable(b.Table, b.x); err != nil {
		t.Error(err)
	}
}

func TestChangedAndRemoved(t *testing.T) {
	b := newTestTable(t)
	b.exec(10, 4, "/a")
	b.exec(10, 5, "/b")
	if len(b.TakeChanged()) != 0 {
		t.Error("nobody was sampled")
	}
	p := b.sample(20, 4, 1, 1, "/a")
	b.sample(21, 4, 1, 1, "/a")
	if got := b.TakeChanged(); !slices.Equal(got, []*Process{p}) || len(b.TakeChanged()) != 0 {
		t.Errorf("%v", got)
	}
	version := p.Version
	m := imageMap("/c")
	m.Start, m.End = 0x1000, 0x2000
	for range 3 {
		b.Apply(&Event{Kind: EventMmap, Time: 30, PID: 4, TID: 4, Map: m})
	}
	if got := b.TakeChanged(); !slices.Equal(got, []*Process{p}) || p.Version == version {
		t.Errorf("%v", got)
	}
	b.exit(40, 4, 4)
	b.exit(40, 5, 5)
	for range 3 {
		b.Tick()
	}
	if got := b.TakeRemoved(); !slices.Equal(got, []*Process{p}) {
		t.Errorf("%v", got)
	}
}

func TestReadRetries(t *testing.T) {
	b := newTestTable(t)
	p := b.sample(10, 4, 1, 1, "")
	reads := 0
	for range 200 {
		if p.WantsMaps() {
			reads++
			b.ReadStarted(p)
			b.ReadFailed(p)
		}
		b.Tick()
	}
	if reads < 7 || reads > 9 {
		t.Errorf("%d reads in 200 ticks", reads)
	}
}

func TestLostAndSuspect(t *testing.T) {
	b := newTestTable(t)
	b.exec(10, 4, "/a")
	p := b.sample(20, 4, 1, 1, "/a")
	if p.WantsMaps() {
		t.Error("everything is known")
	}
	b.Lost()
	if !p.WantsMaps() {
		t.Error("events were lost")
	}
	b.ReadStarted(p)
	b.Lost() // during the read
	if !b.SetMaps(p, []MmapInfo{imageMap("/b")}, 30, 0) || image(p) != "/b" || !p.WantsMaps() {
		t.Error("the read may have missed what was lost after it")
	}
	b.ReadStarted(p)
	b.SetMaps(p, []MmapInfo{imageMap("/b")}, 40, 0)
	b.Suspect(p)
	if p.WantsMaps() {
		t.Error("just read")
	}
	for range trustTicks {
		b.Tick()
	}
	b.Suspect(p)
	if !p.WantsMaps() {
		t.Error("suspect")
	}
}

func TestReconcile(t *testing.T) {
	b := newTestTable(t)
	b.exec(10, 4, "/a")
	b.exec(10, 5, "/b")
	b.exec(50, 6, "/c")
	unknown := b.Reconcile([]uint32{1, 4}, 20)
	if !slices.Equal(unknown, []uint32{1}) {
		t.Errorf("%v", unknown)
	}
	for pid, want := range map[uint32]State{4: Live, 5: Leaving, 6: Live} {
		if p, _ := b.Current(pid); p.State() != want {
			t.Errorf("%d: %d", pid, p.State())
		}
	}
	p := b.Add(1, 20)
	if again := b.Add(1, 21); again != p || !p.WantsMaps() {
		t.Error("added twice")
	}
	b.sample(60, 5, 1, 1, "/b") // it was there after all
	if p, _ := b.Current(5); p.State() != Live {
		t.Error("a sample revives")
	}
}

// TestBounds lets hosts and processes misbehave: whatever they do, sizes stay in bounds and are counted right.
func TestBounds(t *testing.T) {
	x := NewExecutables[int](ExecutablesOptions{MaxUnused: 10})
	b := table{NewTable(x, Options{MaxProcesses: 100, MaxIncarnations: 4, MaxMappings: 1000}), t, x}
	r := rand.New(rand.NewPCG(1, 4))
	for i := range uint64(20000) {
		pid := uint32(1 + r.IntN(300))
		switch r.IntN(4) {
		case 0:
			b.fork(i, uint32(1+r.IntN(300)), pid)
		case 1:
			b.exec(i, pid, fmt.Sprint("/x", i))
		case 2:
			b.SampleArrived(pid, i, uint64(r.IntN(5)), uint32(r.IntN(5)))
		case 3:
			m := imageMap(fmt.Sprint("/y", i))
			m.Start, m.End = unwind.Addr(i)<<12, unwind.Addr(i)<<12+0x1000
			b.Apply(&Event{Kind: EventMmap, Time: i, PID: pid, TID: pid, Map: m})
		}
		if b.Len() > 100 {
			t.Fatalf("%d incarnations", b.Len())
		}
		if i%500 == 0 {
			if err := checkTable(b.Table, b.x); err != nil {
				t.Fatal(err)
			}
		}
	}
	b.exec(30000, 7, "/big")
	for i := range uint64(5000) {
		m := imageMap("/z")
		m.Start, m.End = unwind.Addr(i)<<13+1<<40, unwind.Addr(i)<<13+0x1000+1<<40
		b.Apply(&Event{Kind: EventMmap, Time: 30000 + i, PID: 7, TID: 7, Map: m})
	}
	p := b.SampleArrived(7, 40000, 9, 9)
	if n := len(p.Mappings()); n > 1000 || n < 700 || b.Stats().MappingsDropped == 0 || !p.WantsMaps() {
		t.Errorf("%d mappings, %+v", n, b.Stats())
	}
	if _, ok := p.Find(4999<<13 + 1<<40); !ok {
		t.Error("the latest mapping was dropped")
	}
	half := b.Bytes() / 2
	if n := b.Shrink(half); n == 0 || b.Bytes() > half {
		t.Errorf("%d removed, %d bytes", n, b.Bytes())
	}
	b.Shrink(0)
	if b.Len() != 0 || b.Bytes() != 0 {
		t.Errorf("%d processes, %d bytes", b.Len(), b.Bytes())
	}
	if err := checkTable(b.Table, b.x); err != nil {
		t.Error(err)
	}
}

// TestJIT maps ten thousand pages one by one, as a JIT compiler that makes its pages executable does. It would take
// minutes if each copied the list.
func TestJIT(t *testing.T) {
	b := newTestTable(t)
	b.exec(1, 4, "/js")
	for round := range uint64(20) {
		for i := range uint64(10000) {
			m := MmapInfo{Start: unwind.Addr(i)*0x3000 + 1<<40, Path: "//anon", Anonymous: true}
			m.End = m.Start + 0x1000
			b.Apply(&Event{Kind: EventMmap, Time: 10 + round*10000 + i, PID: 4, TID: 4, Map: m})
		}
	}
	p := b.sample(1e6, 4, 1, 1, "/js")
	if n := len(p.Mappings()); n != 10001 {
		t.Errorf("%d mappings", n)
	}
	// Adjacent ones become one.
	for i := range uint64(10000) {
		m := MmapInfo{Start: unwind.Addr(i)*0x1000 + 1<<41, Path: "//anon", Anonymous: true}
		m.End = m.Start + 0x1000
		b.Apply(&Event{Kind: EventMmap, Time: 2e6 + i, PID: 4, TID: 4, Map: m})
	}
	if n := len(p.Mappings()); n != 10002 {
		t.Errorf("%d mappings", n)
	}
	if err := checkTable(b.Table, b.x); err != nil {
		t.Error(err)
	}
}

// FuzzTable feeds arbitrary events in arbitrary order: the counts stay right.
func FuzzTable(f *testing.F) {
	f.Add([]byte("\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b"))
	f.Add([]byte{1, 1, 1, 10, 3, 1, 1, 11, 4, 2, 1, 12, 6, 2, 0, 40, 1, 2, 0, 30, 7, 2, 1, 50, 5, 2, 2, 20, 8, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		x := NewExecutables[int](ExecutablesOptions{MaxUnused: 3})
		table := NewTable(x, Options{MaxProcesses: 8, MaxIncarnations: 3, MaxMappings: 16, MaxThreads: 3})
		for ; len(b) >= 4; b = b[4:] {
			fuzzStep(table, x, b[0], uint32(b[1]%6), b[2], uint64(b[3]))
			if err := checkTable(table, x); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func fuzzStep(t *Table, x *Executables[int], what byte, pid uint32, arg byte, time uint64) {
	m := imageMap(string('a' + rune(arg%5)))
	m.Start = unwind.Addr(arg) << 12
	m.End = m.Start + unwind.Addr(arg%7)<<12
	m.Anonymous = arg%5 == 0
	m.File.Generation = uint64(arg % 3)
	switch e := (Event{PID: pid, TID: pid + uint32(arg%2), PPID: uint32(arg % 6), PTID: uint32(arg % 6), Time: time, Comm: "x", Map: m}); what % 12 {
	case 0, 1, 2, 3, 4:
		e.Kind = EventExec + EventKind(what%12)
		t.Apply(&e)
	case 5, 6:
		p := t.SampleArrived(pid, time, uint64(arg%4)*clockTick, uint32(arg%5))
		if f, ok := p.Find(unwind.Addr(arg) << 12); ok && f.File != nil && p.State() != Removed {
			e := x.Of(f.File)
			x.Use(e)
			if x.StartOpening(e) {
				e = x.Opened(e, Identity{Size: int64(arg)})
				if e.State() != Ready {
					x.SetPayload(e, 1, uint64(arg))
				}
			}
		}
	case 7:
		if p, ok := t.Current(pid); ok && p.WantsMaps() {
			t.ReadStarted(p)
			if arg%3 == 0 {
				t.ReadFailed(p)
			} else {
				t.SetMaps(p, []MmapInfo{m, m}, time, uint64(arg%4)*clockTick)
			}
		}
	case 8:
		t.Tick()
		x.Tick()
	case 9:
		t.Reconcile([]uint32{pid}, time)
		t.Add(pid+1, time)
		t.Lost()
	case 10:
		x.Evict(uint64(arg) * 40)
	case 11:
		t.Shrink(uint64(arg) * 400)
	}
}

func BenchmarkFind(b *testing.B) {
	for _, n := range []int{30, 200, 20000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			t := NewTable(NewExecutables[int](ExecutablesOptions{}), Options{})
			t.Apply(&Event{Kind: EventExec, Time: 1, PID: 1, TID: 1})
			for i := range n {
				m := imageMap("/lib")
				m.Start, m.End = unwind.Addr(i)<<13, unwind.Addr(i)<<13+0x1000
				t.Apply(&Event{Kind: EventMmap, Time: 2, PID: 1, TID: 1, Map: m})
			}
			p := t.SampleArrived(1, 3, 1, 1)
			i := 0
			for b.Loop() {
				i = (i + 7919) % n
				if _, ok := p.Find(unwind.Addr(i) << 13); !ok {
					b.Fatal(i)
				}
			}
		})
	}
}

// BenchmarkShortProcess is a process from fork to its removal, with 40 mappings, never sampled or sampled once. Per
// operation: 43 events.
func BenchmarkShortProcess(b *testing.B) {
	for _, sampled := range []bool{false, true} {
		b.Run(fmt.Sprintf("sampled=%v", sampled), func(b *testing.B) {
			t := NewTable(NewExecutables[int](ExecutablesOptions{}), Options{})
			t.Apply(&Event{Kind: EventExec, Time: 1, PID: 1, TID: 1})
			var maps [40]MmapInfo
			for i := range maps {
				maps[i] = imageMap(fmt.Sprint("/usr/lib/x86_64-linux-gnu/lib", i, ".so"))
				maps[i].Start, maps[i].End = unwind.Addr(i)<<20, unwind.Addr(i)<<20+0x1000
			}
			time := uint64(1)
			b.ReportAllocs()
			for b.Loop() {
				time += 100
				pid := 2 + uint32(time/100%30000)
				t.Apply(&Event{Kind: EventFork, Time: time, PID: pid, TID: pid, PPID: 1, PTID: 1})
				t.Apply(&Event{Kind: EventExec, Time: time + 1, PID: pid, TID: pid, Comm: "x"})
				for i := range maps {
					t.Apply(&Event{Kind: EventMmap, Time: time + 2 + uint64(i), PID: pid, TID: pid, Map: maps[i]})
				}
				if sampled {
					t.SampleArrived(pid, time+90, time, 1)
				}
				t.Apply(&Event{Kind: EventExit, Time: time + 99, PID: pid, TID: pid})
				if time%10000 == 1 {
					t.Tick()
					t.TakeRemoved()
					t.TakeChanged()
				}
			}
		})
	}
}

// BenchmarkMmapInto adds one mapping to a process with n and looks at it.
func BenchmarkMmapInto(b *testing.B) {
	for _, n := range []int{200, 20000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			t := NewTable(NewExecutables[int](ExecutablesOptions{}), Options{})
			t.Apply(&Event{Kind: EventExec, Time: 1, PID: 1, TID: 1})
			m := imageMap("/lib")
			for i := range n {
				m.Start, m.End = unwind.Addr(i)<<13, unwind.Addr(i)<<13+0x1000
				t.Apply(&Event{Kind: EventMmap, Time: 2, PID: 1, TID: 1, Map: m})
			}
			p := t.SampleArrived(1, 3, 1, 1)
			p.Mappings()
			time := uint64(3)
			for b.Loop() {
				time++
				i := time * 7919 % uint64(n)
				m.Start, m.End = unwind.Addr(i)<<13, unwind.Addr(i)<<13+0x1000
				t.Apply(&Event{Kind: EventMmap, Time: time, PID: 1, TID: 1, Map: m})
				p.Find(m.Start)
			}
		})
	}
}

func BenchmarkSampleArrived(b *testing.B) {
	t := NewTable(NewExecutables[int](ExecutablesOptions{}), Options{})
	for pid := range uint32(1000) {
		t.Apply(&Event{Kind: EventExec, Time: 1, PID: pid + 1, TID: pid + 1})
	}
	time := uint64(1)
	for b.Loop() {
		time++
		pid := uint32(time%1000) + 1
		t.SampleArrived(pid, time, uint64(pid), 1)
	}
}
