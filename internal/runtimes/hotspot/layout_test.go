package hotspot

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hostprofiles/hostprofiles/internal/ebpf/abi"
	"github.com/hostprofiles/hostprofiles/internal/runtimes"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// TestLayouts: what live processes of each version have said is understood, and differs where it should.
func TestLayouts(t *testing.T) {
	for _, version := range versions() {
		l := layoutOf(t, version)
		major := l.major
		if want := strings.TrimSuffix(version, "-temurin"); want != map[int]string{8: "8", 11: "11", 17: "17", 21: "21", 25: "25", 26: "26", 27: "27"}[major] {
			t.Errorf("%s is %d", version, major)
		}
		for what, is := range map[string][2]bool{
			"a single heap":        {l.heap != 0, major == 8},
			"kinds of blobs":       {l.blob.kinds, major >= 25},
			"code by address":      {l.blob.code.bytes == 8, major > 8 && major < 25},
			"short frame_complete": {l.blob.frameComplete.bytes == 2, major >= 25},
			"deopt by address":     {l.nmethod.deopt.bytes == 8, major > 8 && major < 25},
			"deopt of MH calls":    {l.nmethod.deoptMH.bytes != 0, major < 26},
			"immutable data":       {l.nmethod.immutable >= 0, major >= 25},
			"mutable data":         {l.nmethod.mutable >= 0, major >= 25},
			"no zero bytes":        {l.method.stream == 1, major >= 20},
			"a file by class":      {l.method.classSource != 0, major <= 11},
			"virtual threads":      {l.virtualThreads, major >= 21},
			"a known barrier":      {l.barrier != 0, major >= 27},
		} {
			if is[0] != is[1] {
				t.Errorf("%s: %s: %v", version, what, is[0])
			}
		}
	}
	if a, b := layoutOf(t, "25"), layoutOf(t, "25-temurin"); a.method.sourceIndex == b.method.sourceIndex {
		t.Error("builds of the same version are not told apart")
	}
}

// TestMissingEntries: without an entry that is needed the error says the version and which one; with others missing there is a layout.
func TestMissingEntries(t *testing.T) {
	whole, _ := vmOf(t, newFake(), "17")
	for name := range whole.fields {
		if strings.HasPrefix(name, "Abstract_VM") || strings.Contains(name, "deopt_mh") {
			continue
		}
		v, _ := vmOf(t, newFake(), "17")
		delete(v.fields, name)
		_, bare, _ := strings.Cut(name, "::") // another type may have it instead
		if _, err := v.layout(); !errors.Is(err, runtimes.ErrUnsupported) || !strings.Contains(err.Error(), bare) || !strings.Contains(err.Error(), "17.0.1+2") {
			t.Errorf("without %s: %v", name, err)
		}
	}
	v, _ := vmOf(t, newFake(), "17")
	f := v.fields["CodeBlob::_size"]
	f.at = maxOffset
	v.fields["CodeBlob::_size"] = f
	if _, err := v.layout(); !errors.Is(err, runtimes.ErrUnsupported) {
		t.Errorf("a far offset: %v", err)
	}
	v, _ = vmOf(t, newFake(), "25")
	v.ints = nil
	if _, err := v.layout(); !errors.Is(err, runtimes.ErrUnsupported) {
		t.Errorf("without the kind of nmethods: %v", err)
	}
}

// cacheOf makes a code cache of one heap of a version; how much of it is there grows with each call of the functions.
func cacheOf(t *testing.T, version string) (mem *fake, l *layout, grow []func()) {
	t.Helper()
	mem = newFake()
	v, statics := vmOf(t, mem, version)
	l, err := v.layout()
	if err != nil {
		t.Fatal(err)
	}
	const list, data, heap, queue, low, high = 0x40000, 0x41000, 0x42000, 0x43000, 0x7f0000000000, 0x7f0003000000
	return mem, l, []func(){
		func() {
			b := mem.put(heap, 512)
			memory := l.heapMemory
			set8(b, memory+l.spaceStart, low)
			set8(b, memory+l.spaceEnd, high)
			set8(b, memory+l.spaceLow, low)
			set8(b, memory+l.spaceLow+8, low+0x10000)
			set8(b, l.heapMap+l.spaceLow, 0x7e0000000000)
			set4(b, l.heapShift, 7)
			if l.heap != 0 {
				set8(mem.pieces[statics["CodeCache::_heap"]], 0, heap)
				return
			}
			set8(mem.pieces[statics["CodeCache::_heaps"]], 0, list)
			b = mem.put(list, 64)
			set4(b, l.listLength, 1)
			set8(b, l.listData, data)
			set8(mem.put(data, 64), 0, heap)
		},
		func() {
			set8(mem.pieces[statics["StubRoutines::_call_stub_return_address"]], 0, low+0x500)
		},
		func() {
			b := mem.put(queue, 64)
			set8(b, l.queueStart, low+0x1000)
			set4(b, l.queueSize, 0x2000)
			set8(mem.pieces[statics["AbstractInterpreter::_code"]], 0, queue)
		},
	}
}

// TestReadCache: nothing is planned until all that is needed is there.
func TestReadCache(t *testing.T) {
	for _, version := range versions() {
		mem, l, grow := cacheOf(t, version)
		for i, more := range grow {
			if _, err := l.readCache(mem); !errors.Is(err, runtimes.ErrNotReady) {
				t.Errorf("%s with %d parts: %v", version, i, err)
			}
			more()
		}
		c, err := l.readCache(mem)
		if err != nil {
			t.Fatalf("%s: %v", version, err)
		}
		p, err := l.plan(c, unwind.ArchAMD64)
		if err != nil {
			t.Fatalf("%s: %v", version, err)
		}
		if p.Heap[0].Low != 0x7f0000000000 || p.Heap[0].High != p.High || p.Heap[0].Shift != 7 || p.InterpreterHigh-p.InterpreterLow != 0x2000 ||
			p.CallReturn != 0x7f0000000500 || int(p.HeadBytes) >= 8*int(abi.LoopHotspotLimitsHOTSPOT_HEAD_WORDS) || p.BarrierHigh != 0 {
			t.Errorf("%s: %+v", version, p)
		}
		wantEntry := uint32(0)
		if l.major >= 21 {
			wantEntry = 64
		}
		if p.EntryBytes != wantEntry {
			t.Errorf("%s: the entry of a virtual thread has %d bytes", version, p.EntryBytes)
		}
		wantBCP := uint8(8)
		if l.major == 8 {
			wantBCP = 7
		}
		if p.Bcp != wantBCP {
			t.Errorf("%s: the bytecode's address is at word %d", version, p.Bcp)
		}
	}
}

// TestPlanAgain: what virtual threads need is looked for again after pauses, each twice as long, until it is there, or as often as it makes
// sense; without virtual threads never.
func TestPlanAgain(t *testing.T) {
	for _, x := range []struct {
		version string
		there   int // after so many looks
		looks   int
	}{{"17", 0, 1}, {"27", 0, 1}, {"27", 1, 2}, {"27", 3, 4}, {"27", 99, 6}, {"25", 99, 6}} {
		mem, l, grow := cacheOf(t, x.version)
		for _, more := range grow {
			more()
		}
		mem.put(l.barrier, 8) // a piece of its own, or one that nobody reads
		n := &instance{layout: l, arch: unwind.ArchAMD64}
		looks, pause := 0, time.Duration(0)
		for looks < 20 {
			if looks == x.there {
				set8(mem.pieces[l.barrier], 0, 0x7f0000000700)
			}
			if err := n.look(mem); err != nil {
				t.Fatal(err)
			}
			looks++
			reads := mem.reads
			p, err := n.Plan(mem, nil) // too soon to look
			if err != nil || mem.reads != reads {
				t.Fatalf("JDK %s: %d reads, %v", x.version, mem.reads-reads, err)
			}
			if p.Fixed {
				if p.Again != 0 {
					t.Errorf("JDK %s: a plan that stays is to be made again", x.version)
				}
				break
			}
			if p.Again <= pause {
				t.Errorf("JDK %s: %v after a pause of %v", x.version, p.Again, pause)
			}
			pause = p.Again
		}
		if found := n.proc.BarrierHigh != 0; looks != x.looks || found != (x.version == "27" && x.there < 99) {
			t.Errorf("JDK %s, there after %d: found %v after %d looks", x.version, x.there, found, looks)
		}
	}
}

// TestContinuationStub finds a blob by its name among others, and gives up in memory that is made so that there is no end.
func TestContinuationStub(t *testing.T) {
	l := layoutOf(t, "25")
	mem := newFake()
	const low = 0x7f0000000000
	b := mem.put(low, 0x1000)
	mem.text(0x50000, "StubRoutines (finalstubs)")
	mem.text(0x51000, "StubRoutines (continuationstubs)")
	for i, name := range []uint64{0x50000, 0x51000} {
		block := 0x400 * i
		set4(b, block+0, 8) // segments of 128 bytes
		b[block+l.blockUsed] = 1
		set8(b, block+l.blockSize+l.blob.name, name)
		set4(b, block+l.blockSize+l.blob.size, 0x3f0)
	}
	h := &codeHeap{low: low, high: low + 0x1000, shift: 7}
	if from, to := l.findStub(mem, h, "ontinuation"); from != low+0x400+8 || to != from+0x3f0 {
		t.Errorf("%#x to %#x", from, to)
	}
	h.high = low + 1<<40
	b[0x400+l.blockUsed] = 0
	set4(b, 0x400, 1<<24)
	if from, _ := l.findStub(mem, h, "ontinuation"); from != 0 {
		t.Errorf("found at %#x", from)
	}
}

// TestTables reads tables, and refuses those that would have no end.
func TestTables(t *testing.T) {
	var at [variables]unwind.FileAddr
	build := func(change func(values []uint64)) (*fake, error) {
		mem := newFake()
		values := []uint64{0x70000, 0, 8, 16, 24, 32, 40, 48, 0x80000, 0, 32, 40, 0x90000, 0, 8, 16}
		if change != nil {
			change(values)
		}
		b := mem.put(0x60000, 8*len(values))
		for i, v := range values {
			at[i] = unwind.FileAddr(0x1000 + 8*i)
			set8(b, 8*i, v)
		}
		text := mem.put(0xa0000, 0x2000)
		copy(text[0xff8:], "CodeBlob\x00_size\x00int\x00")
		name := uint64(0xa0ff8)
		b = mem.put(0x70000, 3*48)
		set8(b, 0, name)
		set8(b, 8, name+9)
		set8(b, 16, name+15)
		set8(b, 32, 24)
		set8(b, 48, name)
		set8(b, 48+8, name+15)
		set4(b, 48+24, 1)
		set8(b, 48+40, 0x1234)
		b = mem.put(0x80000, 2*40)
		set8(b, 0, name)
		set8(b, 32, 64)
		b = mem.put(0x90000, 2*16)
		set8(b, 0, name+15)
		set4(b, 8, ^uint32(0))
		v, err := readVM(mem, at, 0x60000-0x1000)
		if err == nil && (v.fields["CodeBlob::_size"].at != 24 || v.fields["CodeBlob::int"] != vmField{true, 0x1234, 0} || v.sizes["CodeBlob"] != 64 || v.ints["int"] != -1) {
			t.Errorf("%+v", v)
		}
		return mem, err
	}
	if _, err := build(nil); err != nil {
		t.Error(err)
	}
	for name, tt := range map[string]struct {
		change func([]uint64)
		want   error
	}{
		"not made yet":      {func(v []uint64) { v[structStride] = 0 }, runtimes.ErrNotReady},
		"no table":          {func(v []uint64) { v[types] = 0 }, runtimes.ErrNotReady},
		"a crooked stride":  {func(v []uint64) { v[structStride] = 50 }, runtimes.ErrUnsupported},
		"a long stride":     {func(v []uint64) { v[typeStride] = 1 << 40 }, runtimes.ErrUnsupported},
		"a far field":       {func(v []uint64) { v[typeSize] = 48 }, runtimes.ErrUnsupported},
		"one that is worse": {func(v []uint64) { v[constantValue] = ^uint64(0) - 3 }, runtimes.ErrUnsupported},
		"nothing there":     {func(v []uint64) { v[constants] = 0x99999000 }, errNothingThere},
	} {
		if _, err := build(tt.change); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
