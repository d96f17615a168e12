package perfmap

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/symbolize/jitcode"
	"github.com/hostprofiles/hostprofiles/internal/symbolize/jitcode/jitcodetest"
	"github.com/hostprofiles/hostprofiles/internal/symbolize/names"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

func update(t testing.TB, m *Map, text string, id jitcode.FileID) bool {
	t.Helper()
	id.Size = int64(len(text))
	more, err := m.Update(strings.NewReader(text), id)
	if err != nil {
		t.Fatal(err)
	}
	return more
}

func name(m *Map, a unwind.Addr) string {
	line, _, _ := m.Lookup(a)
	return line.Function.Name
}

// TestProducers reads what runtimes wrote: the files' names say which and of what version. (Lines were left out, and the
// folder of the programs renamed.)
func TestProducers(t *testing.T) {
	for _, c := range []struct {
		file string
		at   unwind.Addr
		want unwind.Function
		kind string
	}{
		{"node-20.20", 0x7f0188006780, unwind.Function{Name: "step", SystemName: "JS:*step /app/w.js:3:7", File: "/app/w.js", StartLine: 3}, "v8js"},
		{"node-20.20", 0x7f0188006780 + 0x2ff, unwind.Function{Name: "step", SystemName: "JS:*step /app/w.js:3:7", File: "/app/w.js", StartLine: 3}, "v8js"},
		{"node-20.20", 0x7f0188006780 + 0x300, unwind.Function{}, ""},
		{"node-20.20", 0x1a0775f, unwind.Function{Name: "BytecodeHandler:DebugBreakWide"}, "v8js"},
		{"python-3.12.1", 0x7fb3330c07d2, unwind.Function{Name: "A.run.<locals>.<lambda>",
			SystemName: "py::A.run.<locals>.<lambda>:/app/w.py", File: "/app/w.py"}, "cpython"},
		{"openjdk-17.0.15", 0x00007fe1cd403440, unwind.Function{Name: "W$$Lambda$1/0x00007fe170000c08.f",
			SystemName: "long W$$Lambda$1/0x00007fe170000c08.f(long, int[])"}, "jvm"},
		{"openjdk-17.0.15", 0x00007fe1d4940b80, unwind.Function{Name: "Interpreter"}, "native"},
		{"openjdk-25", 0x00007fe0e0402180, unwind.Function{Name: "W$$Lambda/0x0000000066040418.f",
			SystemName: "long W$$Lambda/0x0000000066040418.f(long, int[])"}, "jvm"},
		{"php-8.2.35", 0x562511400b20, unwind.Function{Name: "Calc::all", SystemName: "TRACE-3$Calc::all$2"}, "php"},
		{"php-8.2.35", 0x555d540013c0, unwind.Function{Name: "helper", SystemName: "JIT$helper"}, "php"},
		{"erlang-25.2.3", 0x7f754ec05068, unwind.Function{Name: "global::arith_compare_shared",
			SystemName: "$global::arith_compare_shared"}, "beam"},
	} {
		b, err := os.ReadFile(filepath.Join("testdata", c.file+".map"))
		if err != nil {
			t.Fatal(err)
		}
		m := New(0)
		update(t, m, string(b), jitcode.FileID{Inode: 1})
		line, kind, ok := m.Lookup(c.at)
		if line.Function != c.want || line.Line != 0 || kind != c.kind || ok != (c.kind != "") {
			t.Errorf("%s: %+v %s %v", c.file, line, kind, ok)
		}
		if s := m.Stats(); s.Lines != uint64(bytes.Count(b, []byte("\n"))) || s.Malformed > 0 {
			t.Errorf("%s: %+v", c.file, s)
		}
	}
}

func TestLines(t *testing.T) {
	m := New(0)
	long := strings.Repeat("n", 5000)
	text := "10 10 plain\n0x20 0X8 name with  spaces \nAbC\t fF  \ttabs\tinside\n1000 10 crlf\r\n2000 8 \xff\x00bytes\n" +
		"3000 8 " + long + "\n" +
		// Malformed: no name, no number, no code, no such addresses, numbers too long.
		"10 10\n10 10 \n10 10 \r\n10 x name\nx 10 name\n\n4000 0 empty\nffffffffffffffff 10 past\n10 8000000000000000 huge\n" +
		"10 ffffffffffffffff huge\n10 100000000 huge\n1ffffffffffffffff 10 long\n0x 10 name\n10name 10 x\n   \n"
	update(t, m, text+"18 8 unfinished", jitcode.FileID{Inode: 1})
	for at, want := range map[unwind.Addr]string{
		0xf: "", 0x10: "plain", 0x18: "plain", 0x1f: "plain", 0x20: "name with  spaces ", 0x27: "name with  spaces ", 0x28: "",
		0xabc: "tabs\tinside", 0x1000: "crlf", 0x2000: "\uFFFD\x00bytes", 0x3000: names.Clip(long)[:names.MaxName-3] + "nnn",
		0x4000: "", 0xffffffffffffffff: "",
	} {
		if got := name(m, at); got != want {
			t.Errorf("at %x: %.50q, want %.50q", at, got, want)
		}
	}
	if s := m.Stats(); s.Lines != 6 || s.Malformed != 15 || s.Functions != 6 {
		t.Errorf("%+v", s)
	}
	// The end of the line arrives.
	update(t, m, text+"18 8 unfinished no more\n", jitcode.FileID{Inode: 1, MTime: 1})
	if a, b := name(m, 0x17), name(m, 0x18); a != "plain" || b != "unfinished no more" {
		t.Error(a, b)
	}
}

func TestChanges(t *testing.T) {
	m := New(0)
	id := jitcode.FileID{Dev: 1, Inode: 1}
	step := func(text string, restarts uint64, want ...string) {
		t.Helper()
		id.MTime++
		update(t, m, text, id)
		for i, w := range want {
			if got := name(m, unwind.Addr(i*0x10)); got != w {
				t.Errorf("at %x: %q, want %q", i*0x10, got, w)
			}
		}
		if s := m.Stats(); s.Restarts != restarts {
			t.Errorf("%+v", s)
		}
	}
	step("", 0, "")
	step("0 10 a\n", 0, "a")
	step("0 10 a\n10 10 b\n", 0, "a", "b")
	step("0 10 a\n10 10 b\n0 20 c\n", 0, "c", "c")
	step("0 10 a\n10 10 b\n0 20 c\n8 10 d\n", 0, "c", "d")
	step("0 10 x\n", 1, "x", "")                                // truncated
	step("0 10 y\n10 10 z\n", 2, "y", "z")                      // written anew
	step("0 10 y\n10 10 z\n"+strings.Repeat("\n", 200), 2, "y") // appended
	id.Inode++
	step("0 10 y\n10 10 w\n"+strings.Repeat("\n", 200), 3, "y", "w")
}

func TestLongLines(t *testing.T) {
	m := New(0)
	text := "0 10 a\n" + strings.Repeat("x", 3*maxLine) + "\n10 10 b\n20 10 " + strings.Repeat("y", maxLine-100)
	update(t, m, text, jitcode.FileID{Inode: 1})
	if name(m, 0) != "a" || name(m, 0x10) != "b" || name(m, 0x20) != "" || m.Stats().Malformed != 1 {
		t.Errorf("%+v", m.Stats())
	}
	// A gigabyte of a line, or a hole, takes neither memory nor all the time.
	m = New(0)
	for i := range 3 {
		more, err := m.Update(zeros{}, jitcode.FileID{Inode: 1, Size: 1 << 40})
		if err != nil || !more || m.follow.Offset() > int64(i+1)*MaxUpdate {
			t.Fatalf("%v %v, at %d", more, err, m.follow.Offset())
		}
	}
	if m.Bytes() > 1<<20 || m.Stats().Malformed != 1 {
		t.Errorf("%d bytes, %+v", m.Bytes(), m.Stats())
	}
}

type zeros struct{}

func (zeros) ReadAt(b []byte, _ int64) (int, error) { clear(b); return len(b), nil }

// lines is a file of any number of lines of 64 bytes, made as it is read.
type lines struct{ n int64 }

const lineBytes = 64

func template() (line [lineBytes]byte) {
	copy(line[:], "7f0000000000 40 f00000000 "+strings.Repeat("f", lineBytes))
	line[lineBytes-1] = '\n'
	return line
}

func (l lines) ReadAt(b []byte, at int64) (int, error) {
	n := 0
	for n < len(b) {
		i := (at + int64(n)) / lineBytes
		if i >= l.n {
			return n, io.EOF
		}
		line := template()
		for j, addr := 11, uint64(0x7f0000000000+i*0x40); j >= 0; j, addr = j-1, addr>>4 {
			line[j] = "0123456789abcdef"[addr&15]
		}
		for j, rest := 24, i; j > 16; j, rest = j-1, rest/10 {
			line[j] = byte('0' + rest%10)
		}
		n += copy(b[n:], line[(at+int64(n))%lineBytes:])
	}
	return n, nil
}

// TestMemory reads ten million lines, with two limits.
func TestMemory(t *testing.T) {
	const n = 10_000_000
	for _, limit := range []int{jitcode.MinLimit, jitcodetest.Limit} {
		heap := func() uint64 {
			var s runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&s)
			return s.HeapAlloc
		}
		before := heap()
		m := New(limit)
		most, _ := jitcodetest.Follow(t, m, lines{n}, jitcode.FileID{Inode: 1, Size: n * lineBytes})
		grown := int64(heap()) - int64(before)
		s := m.Stats()
		t.Logf("%d KiB at most, %d KiB of heap, %+v", most>>10, grown>>10, s)
		if most > limit || grown > int64(limit)+1<<20 || s.Lines != n || s.Dropped+uint64(s.Functions) != n {
			t.Errorf("limit %d: %d bytes, %d of heap, %+v", limit, most, grown, s)
		}
		if got := name(m, 0x7f0000000000+(n-1)*0x40); !strings.HasPrefix(got, "f09999999 ") {
			t.Errorf("the last one: %q", got)
		}
		runtime.KeepAlive(m)
	}
}

func FuzzMap(f *testing.F) {
	for _, b := range jitcodetest.Files(f, "testdata/*.map") {
		f.Add(b[:min(len(b), 300)], uint16(100))
	}
	f.Add([]byte("0 10 a\n8 10 b\n0 ffffffffffffffff c\n8000000000000000 1 d\n"), uint16(9))
	f.Fuzz(func(t *testing.T, b []byte, part uint16) {
		// In two parts it is the same as at once.
		at := min(int(part), len(b))
		m, whole := New(0), New(0)
		update(t, m, string(b[:at]), jitcode.FileID{Inode: 1})
		update(t, m, string(b), jitcode.FileID{Inode: 1})
		update(t, whole, string(b), jitcode.FileID{Inode: 1})
		if m.Stats() != whole.Stats() {
			t.Fatalf("%+v, %+v", m.Stats(), whole.Stats())
		}
		for _, line := range bytes.Split(b, []byte("\n")) {
			if start, _, ok := hex(line); ok {
				got, _, ok := m.Lookup(unwind.Addr(start))
				expected, _, _ := whole.Lookup(unwind.Addr(start))
				if got != expected || ok && got.Function.Name == "" {
					t.Fatalf("at %x: %+v, %+v", start, got, expected)
				}
			}
		}
	})
}

func BenchmarkRead500k(b *testing.B) {
	var text bytes.Buffer
	for i := range 500_000 {
		fmt.Fprintf(&text, "%x %x LazyCompile:*function%d /srv/application/node_modules/m.js:%d:7\n", 0x7f0000000000+i*0x80, 0x80, i, i%1000)
	}
	r := bytes.NewReader(text.Bytes())
	b.SetBytes(int64(text.Len()))
	for b.Loop() {
		m := New(jitcodetest.Limit)
		jitcodetest.Follow(b, m, r, jitcode.FileID{Inode: 1, Size: int64(text.Len())})
		b.ReportMetric(float64(m.Bytes())/(1<<20), "MiB")
	}
}

// BenchmarkAppend100 is one Update with 100 new functions, where there are 500,000.
func BenchmarkAppend100(b *testing.B) {
	m := New(jitcodetest.Limit)
	n := int64(500_000)
	jitcodetest.Follow(b, m, lines{n}, jitcode.FileID{Inode: 1, Size: n * lineBytes})
	b.ReportAllocs()
	for b.Loop() {
		n += 100
		jitcodetest.Follow(b, m, lines{n}, jitcode.FileID{Inode: 1, Size: n * lineBytes})
	}
}

func BenchmarkLookup(b *testing.B) {
	m := New(jitcodetest.Limit)
	const n = 500_000
	jitcodetest.Follow(b, m, lines{n}, jitcode.FileID{Inode: 1, Size: n * lineBytes})
	b.ReportAllocs()
	for i := 0; b.Loop(); i += 7919 {
		if _, _, ok := m.Lookup(unwind.Addr(0x7f0000000000 + i%n*0x40)); !ok {
			b.Fatal(i)
		}
	}
}
