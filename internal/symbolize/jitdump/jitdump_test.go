package jitdump

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/symbolize/jitcode"
	"github.com/hostprofiles/hostprofiles/internal/symbolize/jitcode/jitcodetest"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

const x86 = 62 // EM_X86_64

// file writes a jitdump.
type file struct {
	o binary.AppendByteOrder
	b []byte
}

func newFile(o binary.AppendByteOrder) *file {
	f := &file{o: o}
	for _, n := range []uint32{magic, 1, headerBytes, x86, 0, 4711} {
		f.b = o.AppendUint32(f.b, n)
	}
	f.b = o.AppendUint64(f.b, 12345)
	f.b = o.AppendUint64(f.b, 1) // architecture's timestamps
	return f
}

func (f *file) record(id uint32, payload []byte) {
	f.b = f.o.AppendUint32(f.b, id)
	f.b = f.o.AppendUint32(f.b, uint32(recordBytes+len(payload)))
	f.b = f.o.AppendUint64(f.b, 1)
	f.b = append(f.b, payload...)
}

func (f *file) numbers(n ...uint64) []byte {
	var b []byte
	for _, n := range n {
		b = f.o.AppendUint64(b, n)
	}
	return b
}

func (f *file) load(start, size, index uint64, name string) {
	b := append(f.numbers(0, 1, start, size, index), name...)
	f.record(codeLoad, append(append(b, 0), make([]byte, min(size, 64))...))
}

func (f *file) move(from, to, index uint64) {
	f.record(codeMove, f.numbers(0, 1, from, to, 1, index))
}

type entry struct {
	a            uint64
	line, column uint32
	file         string
}

func (f *file) lines(start uint64, entries ...entry) {
	b := f.numbers(start, uint64(len(entries)))
	for _, e := range entries {
		b = f.o.AppendUint64(b, e.a)
		b = f.o.AppendUint32(b, e.line)
		b = f.o.AppendUint32(b, e.column)
		b = append(append(b, e.file...), 0)
	}
	f.record(codeDebugInfo, append(b, 0, 0, 0)) // padding, as some write
}

func (f *file) read(t testing.TB, d *Dump) {
	t.Helper()
	jitcodetest.Follow(t, d, bytes.NewReader(f.b), jitcode.FileID{Inode: 1, Size: int64(len(f.b)), MTime: int64(len(f.b))})
}

func expect(t *testing.T, d *Dump, a unwind.Addr, name, file string, line int) {
	t.Helper()
	l, _, ok := d.Lookup(a)
	if l.Function.Name != name || l.Function.File != file || l.Line != line || ok != (name != "") {
		t.Errorf("at %x: %+v %v, want %s %s:%d", a, l, ok, name, file, line)
	}
}

// TestProducers reads what runtimes wrote: the files' names say which and of what version. (Most records were left out,
// and the folder of the programs renamed.)
func TestProducers(t *testing.T) {
	type place struct {
		at   unwind.Addr
		want unwind.Line
		kind string
	}
	step := unwind.Function{Name: "step", SystemName: "JS:*step /app/js/w.js:3:7", File: "/app/js/w.js", StartLine: 3}
	helper := unwind.Function{Name: "helper", SystemName: "JS:^helper /app/js/w.js:4:16", File: "/app/js/w.js", StartLine: 4}
	foldl := unwind.Function{Name: "lists:foldl/3", File: "lists.erl"}
	for name, c := range map[string]struct {
		stats  Stats
		places []place
	}{
		"node-20.20": {Stats{Functions: 8, Loads: 8, NoLines: 3}, []place{
			{0x7f0188006780, unwind.Line{Function: step, Line: 3, Column: 7}, "v8js"},
			{0x7f0188006780 + 0x26, unwind.Line{Function: step, Line: 3, Column: 7}, "v8js"},
			{0x7f0188006780 + 0x27, unwind.Line{Function: step, Line: 3, Column: 25}, "v8js"},
			{0x7f0188006780 + 0x2ff, unwind.Line{Function: step, Line: 3, Column: 45}, "v8js"},
			{0x7f0188006780 + 0x300, unwind.Line{}, ""},
			{0x7f0188005f40, unwind.Line{Function: helper}, "v8js"}, // freed memory in place of file names
			{0x7f0188005b80, unwind.Line{Function: unwind.Function{Name: "RegExp:a(b+)c"}}, "v8js"},
		}},
		"python-3.13.0": {Stats{Functions: 5, Loads: 5}, []place{
			{0x7f6d6a7f5bf0, unwind.Line{Function: unwind.Function{Name: "A.run", SystemName: "py::A.run:/app/js/w.py",
				File: "/app/js/w.py"}}, "cpython"},
		}},
		"erlang-25.2.3": {Stats{Functions: 5, Loads: 5}, []place{
			{0x7f74cfe27468, unwind.Line{Function: foldl, Line: 1348}, "beam"},
			{0x7f74cfe27468 + 0x74, unwind.Line{Function: foldl, Line: 1350}, "beam"},
			{0x7f74cfe27468 + 0xe7, unwind.Line{Function: foldl, Line: 1354}, "beam"},
		}},
	} {
		b, err := os.ReadFile(filepath.Join("testdata", name+".dump"))
		if err != nil {
			t.Fatal(err)
		}
		d := New(0, x86)
		(&file{b: b}).read(t, d)
		if d.Stats() != c.stats {
			t.Errorf("%s: %+v", name, d.Stats())
		}
		for _, p := range c.places {
			line, kind, ok := d.Lookup(p.at)
			if line != p.want || kind != p.kind || ok != (kind != "") {
				t.Errorf("%s at %x: %+v %s %v", name, p.at, line, kind, ok)
			}
		}
	}
}

func TestRecords(t *testing.T) {
	for _, o := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		f := newFile(o)
		f.load(0x1000, 0x100, 1, "plain")
		f.lines(0x2000, entry{0x2010, 7, 9, "b.c"}, entry{0x2000, 5, 9, "a.c"}, entry{0x2004, 6, 9, again},
			entry{0x2004, 8, 9, again}, entry{0x2018, 9, 9, "b.c"}, entry{0x2020, 0, 0, ""})
		f.record(4, make([]byte, 99)) // unwinding information
		f.record(77, nil)             // unknown
		f.load(0x2000, 0x40, 2, "lines")
		f.load(0x3000, 0x40, 3, "none")
		f.record(3, nil) // the end
		d := New(0, x86)
		f.read(t, d)
		expect(t, d, 0xfff, "", "", 0)
		expect(t, d, 0x10ff, "plain", "", 0)
		expect(t, d, 0x2000, "lines", "a.c", 5)
		expect(t, d, 0x2004, "lines", "a.c", 8)
		expect(t, d, 0x2010, "lines", "b.c", 7)
		expect(t, d, 0x201f, "lines", "b.c", 9)
		expect(t, d, 0x2020, "lines", "", 0)
		expect(t, d, 0x3000, "none", "", 0)
		if d.Stats() != (Stats{Functions: 3, Loads: 3}) {
			t.Errorf("%+v", d.Stats())
		}
		// The place is used again, and part of another one.
		f.load(0x2000, 0x10, 4, "new")
		f.load(0x10c0, 0x80, 5, "over")
		f.read(t, d)
		expect(t, d, 0x2000, "new", "", 0)
		expect(t, d, 0x2010, "lines", "b.c", 7)
		expect(t, d, 0x10bf, "plain", "", 0)
		expect(t, d, 0x10c0, "over", "", 0)
	}
}

func TestMoves(t *testing.T) {
	f := newFile(binary.LittleEndian)
	f.lines(0x1000, entry{0x1000, 1, 0, "a"}, entry{0x1010, 2, 0, "a"})
	f.load(0x1000, 0x20, 1, "a")
	f.lines(0x2000, entry{0x2000, 3, 0, "b"}, entry{0x2010, 4, 0, "b"})
	f.load(0x2000, 0x20, 2, "b")
	f.load(0x3000, 0x20, 3, "c")
	d := New(0, x86)
	f.move(0x1000, 0x5000, 1)
	f.read(t, d)
	expect(t, d, 0x5010, "a", "a", 2)
	expect(t, d, 0x1010, "a", "", 0) // it was there
	// In a circle: a and b change places; b is overwritten before it moves.
	f.move(0x5000, 0x2000, 1)
	f.move(0x2000, 0x5000, 2)
	f.read(t, d)
	expect(t, d, 0x2010, "a", "a", 2)
	expect(t, d, 0x5010, "b", "b", 4)
	// Overlapping its old place, onto itself, and again and again.
	f.move(0x2000, 0x2008, 1)
	f.move(0x2008, 0x2008, 1)
	for range 100 {
		f.move(0x5000, 0x6000, 2)
		f.move(0x6000, 0x5000, 2)
	}
	f.read(t, d)
	expect(t, d, 0x2018, "a", "a", 2)
	expect(t, d, 0x2000, "a", "", 0)
	expect(t, d, 0x5010, "b", "b", 4)
	expect(t, d, 0x6010, "b", "", 0)
	if s := d.Stats(); s.Moves != 205 || s.Malformed != 0 || s.Functions != 3 {
		t.Errorf("%+v", s)
	}
	// What was never there, and where nothing can be.
	f.move(0x5000, 0x7000, 99)
	f.move(0x2008, ^uint64(0)-3, 1)
	f.record(codeMove, make([]byte, 47))
	f.read(t, d)
	expect(t, d, 0x7000, "", "", 0)
	expect(t, d, 0x2018, "a", "a", 2)
	if s := d.Stats(); s.Moves != 205 || s.Malformed != 3 {
		t.Errorf("%+v", s)
	}
	// Indexes that do not ascend: only what is at its old place is found.
	f.load(0x8000, 0x10, 2, "d")
	f.move(0x3000, 0x9000, 3)
	f.move(0x4444, 0xa000, 1)
	f.read(t, d)
	expect(t, d, 0x9000, "c", "", 0)
	expect(t, d, 0xa000, "", "", 0)
}

func TestHostile(t *testing.T) {
	f := newFile(binary.LittleEndian)
	f.load(0x10, 1<<63, 1, "huge")
	f.load(0x10, ^uint64(0), 2, "huge")
	f.load(^uint64(0)-3, 0x10, 3, "past the end")
	f.load(0x10, 0, 4, "empty")
	f.record(codeLoad, make([]byte, 39))
	f.record(codeDebugInfo, make([]byte, 15))
	f.record(codeDebugInfo, f.numbers(0x100, 1<<63, 0x100)) // an entry that is not finished
	f.lines(0x100, entry{0x100, 1, 1, "x"}, entry{1 << 63, 1, 1, "x"})
	f.load(0x100, 0x10, 5, "far lines")
	f.lines(0x200, entry{0x300, 1, 1, "x"})
	f.lines(0x300, entry{0x300, 1<<32 - 1, 1<<32 - 1, strings.Repeat("\xfe", 5000)})
	f.load(0x200, 0x10, 6, "lines of another")
	f.load(0x300, 0x10, 7, "") // without a name
	f.record(codeLoad, append(f.numbers(0, 1, 0x400, 0x10, 8), "name without end"...))
	d := New(0, x86)
	f.read(t, d)
	expect(t, d, 0x10, "", "", 0)
	expect(t, d, 0x100, "far lines", "", 0)
	expect(t, d, 0x200, "lines of another", "", 0)
	expect(t, d, 0x400, "name without end", "", 0)
	l, _, ok := d.Lookup(0x300)
	if !ok || l.Line != 1<<31-1 || l.Column != 0 || len(l.Function.File) > maxFile || !strings.HasPrefix(l.Function.File, "\uFFFD") {
		t.Errorf("%+v %v", l, ok)
	}
	if s := d.Stats(); s != (Stats{Functions: 4, Loads: 4, Malformed: 5, NoLines: 3}) {
		t.Errorf("%+v", s)
	}
}

// TestManyLines: what does not fit is not known; it does not become the last line that did.
func TestManyLines(t *testing.T) {
	var entries []entry
	for i := range uint32(40_000) {
		entries = append(entries, entry{uint64(i), i + 1, i, strings.Repeat("f", int(i%7))})
	}
	f := newFile(binary.LittleEndian)
	f.lines(0, entries...)
	f.load(0, 1<<20, 1, "f")
	d := New(0, x86)
	f.read(t, d)
	known, unknown := 0, 0
	for a := unwind.Addr(0); a < 40_000; a += 37 {
		l, _, ok := d.Lookup(a)
		if !ok || l.Line != 0 && l.Line != int(a)+1 || l.Line > 0 && unknown > 0 {
			t.Fatalf("at %d: %+v, %d known and %d unknown before", a, l, known, unknown)
		}
		if l.Line > 0 {
			known++
		} else {
			unknown++
		}
	}
	if known < 100 || unknown < 100 {
		t.Errorf("%d known, %d unknown", known, unknown)
	}
}

func TestHeaders(t *testing.T) {
	update := func(d *Dump, b []byte, mtime int64) error {
		_, err := d.Update(bytes.NewReader(b), jitcode.FileID{Inode: 1, Size: int64(len(b)), MTime: mtime})
		return err
	}
	good := newFile(binary.LittleEndian)
	good.load(0x100, 0x10, 1, "f")
	for at, c := range map[int]struct {
		value byte
		want  error
	}{0: {0, ErrNotJITDump}, 4: {9, ErrVersion}, 8: {39, ErrNotJITDump}, 10: {2, ErrNotJITDump}, 12: {183, ErrMachine},
		headerBytes + 4: {15, ErrBroken}} {
		b := bytes.Clone(good.b)
		b[at] = c.value
		d := New(0, x86)
		for mtime := range int64(3) { // again and again
			if err := update(d, b, mtime); !errors.Is(err, c.want) {
				t.Errorf("byte %d: %v", at, err)
			}
		}
		// Then it becomes one.
		if err := errors.Join(update(d, nil, 4), update(d, good.b, 5)); err != nil {
			t.Errorf("byte %d: %v", at, err)
		}
		expect(t, d, 0x100, "f", "", 0)
	}
	b := bytes.Clone(good.b)
	b[12] = 0 // any machine
	if err := update(New(0, x86), b, 0); err != nil {
		t.Error(err)
	}
}

// TestGrowing: byte by byte, a record is there when all of it is.
func TestGrowing(t *testing.T) {
	f := newFile(binary.LittleEndian)
	f.lines(0x100, entry{0x100, 3, 0, "a.c"})
	f.load(0x100, 0x10, 1, "f")
	d := New(0, x86)
	for n := range len(f.b) {
		(&file{b: f.b[:n]}).read(t, d)
		expect(t, d, 0x100, "", "", 0)
	}
	f.read(t, d)
	expect(t, d, 0x100, "f", "a.c", 3)
	// Then another process uses the name.
	g := newFile(binary.LittleEndian)
	g.load(0x200, 0x10, 1, "g")
	g.read(t, d)
	expect(t, d, 0x100, "", "", 0)
	expect(t, d, 0x200, "g", "", 0)
	if d.Stats().Restarts != 1 {
		t.Errorf("%+v", d.Stats())
	}
}

func TestMemory(t *testing.T) {
	const limit = 4 << 20
	f := newFile(binary.LittleEndian)
	var entries []entry
	for i := range uint32(300) {
		entries = append(entries, entry{uint64(i) * 4, i * 3 % 100, i, "src/file.c"})
	}
	for i := range uint64(30_000) {
		for j := range entries {
			entries[j].a = i<<12 + uint64(j)*4
		}
		if i%8 == 0 {
			f.lines(i<<12, entries...)
		}
		f.load(i<<12, 0x800, i, "a function of some length")
		if i%5 == 0 {
			f.move(i<<12, i<<12+0x800, i)
		}
	}
	d := New(limit, x86)
	most, updates := jitcodetest.Follow(t, d, bytes.NewReader(f.b), jitcode.FileID{Inode: 1, Size: int64(len(f.b))})
	s := d.Stats()
	t.Logf("%d MiB in %d updates, %d KiB at most, %+v", len(f.b)>>20, updates, most>>10, s)
	if most > limit || s.Loads != 30_000 || s.Moves != 6000 || s.Functions+int(s.Dropped) != 30_000 || updates < len(f.b)/2/MaxUpdate {
		t.Errorf("%d bytes, %+v, %d updates", most, s, updates)
	}
	expect(t, d, 29_999<<12, "a function of some length", "", 0)
	expect(t, d, 29_995<<12+0x800, "a function of some length", "", 0)
	expect(t, d, 29_992<<12+4, "a function of some length", "src/file.c", 3)
}

func TestPIDOf(t *testing.T) {
	for path, want := range map[string]int{
		"/tmp/jit-123.dump": 123, "jit-1.dump": 1, "/root/.debug/jit/java-jit-20261120.XXe/jit-77.dump": 77,
		"/tmp/jit-5.dump (deleted)": 5, "/tmp/jit-.dump": 0, "/tmp/jit-0.dump": 0, "/tmp/jit--1.dump": 0, "/tmp/jit-1.dump2": 0,
		"/tmp/ajit-1.dump": 0, "/tmp/jit-1.dump/x": 0, "/tmp/jit-99999999999.dump": 0, "/tmp/jit-+1.dump": 0, "": 0,
	} {
		if pid, ok := PIDOf(path); ok != (want > 0) || ok && pid != want {
			t.Errorf("%s: %d %v", path, pid, ok)
		}
	}
}

func FuzzDump(f *testing.F) {
	for _, b := range jitcodetest.Files(f, "testdata/*.dump") {
		f.Add(b, uint16(500))
	}
	big := newFile(binary.BigEndian)
	big.lines(0x100, entry{0x100, 3, 0, "a.c"}, entry{0x108, 4, 0, again})
	big.load(0x100, 0x10, 1, "f")
	big.move(0x100, 0x108, 1)
	f.Add(big.b, uint16(3))
	f.Fuzz(func(t *testing.T, b []byte, part uint16) {
		update := func(d *Dump, b []byte) error {
			_, err := d.Update(bytes.NewReader(b), jitcode.FileID{Inode: 1, Size: int64(len(b))})
			return err
		}
		// In two parts it is the same as at once.
		d, whole := New(0, x86), New(0, x86)
		firstErr := update(d, b[:min(int(part), len(b))])
		err := update(d, b)
		if wholeErr := update(whole, b); (err == nil) != (wholeErr == nil) || firstErr != nil && err == nil || d.Stats() != whole.Stats() {
			t.Fatalf("%v, %v, %v; %+v, %+v", firstErr, err, wholeErr, d.Stats(), whole.Stats())
		}
		for i := 0; i+8 <= len(b); i++ {
			for _, o := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
				a := unwind.Addr(o.Uint64(b[i:]))
				got, _, ok := d.Lookup(a)
				if want, _, _ := whole.Lookup(a); got != want || got.Line < 0 || got.Column < 0 || got.Line > 0 && !ok {
					t.Fatalf("at %x: %+v, %+v", a, got, want)
				}
			}
		}
	})
}

func BenchmarkRead(b *testing.B) {
	f := newFile(binary.LittleEndian)
	var entries []entry
	for i := range uint32(60) {
		entries = append(entries, entry{uint64(i) * 9, i * 3 % 100, i, again})
	}
	const n = 100_000
	for i := range uint64(n) {
		for j := range entries {
			entries[j].a = i<<12 + uint64(j)*9
		}
		entries[0].file = "/srv/application/node_modules/m.js"
		f.lines(i<<12, entries...)
		f.load(i<<12, 0x800, i, "JS:*function /srv/application/node_modules/m.js:12:7 and more")
	}
	b.SetBytes(int64(len(f.b)))
	for b.Loop() {
		d := New(jitcodetest.Limit, x86)
		f.read(b, d)
		b.ReportMetric(float64(d.Bytes())/(1<<20), "MiB")
		b.ReportMetric(float64(d.Stats().Dropped), "dropped")
	}
}

func BenchmarkLookup(b *testing.B) {
	f := newFile(binary.LittleEndian)
	var entries []entry
	for i := range uint32(60) {
		entries = append(entries, entry{uint64(i) * 9, i * 3 % 100, i, "m.c"})
	}
	f.lines(0, entries...)
	f.load(0, 0x800, 1, "a function")
	d := New(jitcodetest.Limit, x86)
	f.read(b, d)
	b.ReportAllocs()
	for b.Loop() {
		d.Lookup(500)
	}
}
