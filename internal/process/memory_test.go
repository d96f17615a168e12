package process

import (
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// TestMemoryOutlivesReads: what is known of anonymous memory holds after /proc was read again, unless events tell otherwise or were
// lost.
func TestMemoryOutlivesReads(t *testing.T) {
	text := imageMap("/node")
	memory := MmapInfo{Start: text.End, End: text.End + 0x2000, Path: "//anon", Anonymous: true, Exec: true}
	other := memory
	other.Start, other.End = memory.End+0x10000, memory.End+0x11000
	larger := memory
	larger.End += 0x1000
	mmap := func(b table, time uint64, m MmapInfo) {
		b.Apply(&Event{Kind: EventMmap, Time: time, PID: 4, TID: 4, Map: m})
	}
	read := func(b table, p *Process, time uint64, maps ...MmapInfo) {
		b.ReadStarted(p)
		if !b.SetMaps(p, append([]MmapInfo{text}, maps...), time, 0) {
			b.t.Error("the maps were not taken")
		}
	}
	for _, c := range []struct {
		what string
		do   func(b table, p *Process)
		code bool   // it still counts as the file's
		time uint64 // since when it is there
	}{
		{"nothing", func(table, *Process) {}, true, 20},
		{"read again", func(b table, p *Process) { read(b, p, 30, memory); read(b, p, 40, memory, other) }, true, 20},
		{"made executable again, then read", func(b table, p *Process) { mmap(b, 25, memory); read(b, p, 30, memory) }, false, 25},
		{"read, then made executable again", func(b table, p *Process) { read(b, p, 30, memory); mmap(b, 35, memory) }, false, 35},
		{"told late that it was made executable again", func(b table, p *Process) { read(b, p, 30, memory); mmap(b, 25, memory) }, false, 25},
		{"told late of before", func(b table, p *Process) { read(b, p, 30, memory); mmap(b, 15, memory); mmap(b, 25, other) }, true, 20},
		{"larger", func(b table, p *Process) { read(b, p, 30, larger) }, false, 30},
		{"events were lost", func(b table, p *Process) { b.Lost(); read(b, p, 30, memory) }, false, 30},
		{"events were lost before it was looked at", func(b table, p *Process) {
			b.Lost()
			read(b, p, 30, memory)
			m, _ := p.Find(memory.Start)
			b.HoldsCode(p, m, b.fileAt(p, text.Start), unwind.FileOffset(text.End-text.Start))
			read(b, p, 40, memory)
		}, true, 30},
	} {
		t.Run(c.what, func(t *testing.T) {
			b := newTestTable(t)
			b.exec(10, 4, "/node")
			mmap(b, 20, memory)
			p := b.sample(21, 4, 1, 3, "/node")
			m, ok := p.Find(memory.Start)
			file := b.fileAt(p, text.Start)
			if !ok || !b.HoldsCode(p, m, file, unwind.FileOffset(text.End-text.Start)) {
				t.Fatal("it was not taken for code")
			}
			c.do(b, p)
			b.sample(50, 4, 1, 3, "/node") // checks references
			is, ok := p.Find(memory.Start)
			if !ok || (is.File == file) != c.code || is.Time != c.time {
				t.Errorf("it is %+v, want time %d, code %v", is, c.time, c.code)
			}
			if c.code && is.Offset+unwind.FileOffset(memory.Start-is.Start) != text.Offset+unwind.FileOffset(text.End-text.Start) {
				t.Errorf("it is of offset %#x", is.Offset)
			}
		})
	}
}

// TestMemoryKeepsItsTime: memory that was compared and holds something else is not compared again because /proc was read.
func TestMemoryKeepsItsTime(t *testing.T) {
	b := newTestTable(t)
	b.exec(10, 4, "/node")
	memory := MmapInfo{Start: 0x10000000, End: 0x10002000, Path: "//anon", Anonymous: true, Exec: true}
	b.Apply(&Event{Kind: EventMmap, Time: 20, PID: 4, TID: 4, Map: memory})
	p := b.sample(21, 4, 1, 3, "/node")
	named := memory
	named.Path = "[anon:jit]"
	for time := range uint64(3) {
		b.ReadStarted(p)
		b.SetMaps(p, []MmapInfo{imageMap("/node"), named}, 30+time, 0)
		if is, ok := p.Find(memory.Start); !ok || is.Time != 20 || is.Name != named.Path {
			t.Errorf("it is %+v", is)
		}
	}
}

func (b table) fileAt(p *Process, a unwind.Addr) *File {
	m, ok := p.Find(a)
	if !ok {
		b.t.Fatal("nothing is mapped")
	}
	return m.File
}
