package dwarf

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

func openSynthetic(t testing.TB, info []byte, o Options) *Data {
	t.Helper()
	f := synthetic(t, map[string][]byte{".debug_info": info, ".debug_abbrev": abbreviations()})
	d, err := Open(f, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

func namesAt(t testing.TB, d *Data, a unwind.FileAddr) (all []string) {
	t.Helper()
	lines, err := d.Lookup(nil, a)
	if err != nil {
		t.Fatalf("%#x: %v", uint64(a), err)
	}
	for _, l := range lines {
		all = append(all, l.Function.Name)
	}
	return all
}

const langCxx = 0x04

// TestOrigins: abstract origins that lead round in a circle, or nowhere.
func TestOrigins(t *testing.T) {
	info := infoOf(langCxx, func(w *writer) {
		x := w.pos()
		y := x + uint32(1+len("x")+1+4)
		w.uleb(abAbstract).str("x").u32(y)
		w.uleb(abAbstract).str("y").u32(x)
		w.function("f", textAddr, 0x100)
		w.inlined(x, textAddr, 0x10, 7).u8(0)
		w.inlined(0xfffffff0, textAddr+0x10, 0x10, 8).u8(0)
		w.inlined(2, textAddr+0x20, 0x10, 8).u8(0)
		w.inlined(x+1, textAddr+0x30, 0x10, 8).u8(0)
		w.u8(0)
	})
	d := openSynthetic(t, info, Options{})
	for a, want := range map[unwind.FileAddr][]string{textAddr: {"x", "f"}, textAddr + 0x10: {"", "f"}, textAddr + 0x20: {"", "f"},
		textAddr + 0x40: {"f"}} {
		if got := namesAt(t, d, a); !slices.Equal(got, want) {
			t.Errorf("%#x: %q, want %q", uint64(a), got, want)
		}
	}
	if got := namesAt(t, d, textAddr+0x30); len(got) != 2 || got[1] != "f" {
		t.Errorf("%q", got)
	}
}

// TestDeep: more inlined calls, blocks and namespaces inside each other than there can be.
func TestDeep(t *testing.T) {
	nested := func(n int, open func(w *writer)) []byte {
		return infoOf(langCxx, func(w *writer) {
			w.function("inner", 0, 0).u8(0)
			w.function("f", textAddr, 0x100)
			for range n {
				open(w)
			}
			w.raw(make([]byte, n+1))
		})
	}
	d := openSynthetic(t, nested(100, func(w *writer) { w.inlined(30, textAddr, 0x10, 5) }), Options{})
	lines, err := d.Lookup(nil, textAddr)
	if err != nil || len(lines) != MaxInlined+1 || lines[MaxInlined].Function.Name != "f" || lines[MaxInlined].Line != 5 {
		t.Errorf("%d lines, %v", len(lines), err)
	}
	d = openSynthetic(t, nested(100000, func(w *writer) { w.uleb(abBlock) }), Options{})
	if got := namesAt(t, d, textAddr); !slices.Equal(got, []string{"f"}) || !errors.Is(d.Problems(), ErrFormat) {
		t.Errorf("%q, %v", got, d.Problems())
	}
	spaces := infoOf(langCxx, func(w *writer) {
		w.function("f", textAddr, 0x100).u8(0)
		for range 100000 {
			w.uleb(abSpace).str("n")
		}
		w.raw(make([]byte, 100000))
	})
	d = openSynthetic(t, spaces, Options{})
	if got := namesAt(t, d, textAddr); !slices.Equal(got, []string{"f"}) || !errors.Is(d.Problems(), ErrFormat) {
		t.Errorf("%q, %v", got, d.Problems())
	}
}

// TestScopes: names of what a function is in, in a unit long enough for marks, with siblings and without.
func TestScopes(t *testing.T) {
	filler := func(w *writer) {
		for range 6000 {
			w.uleb(abStruct).str("filler").u8(0)
		}
	}
	var want []string
	info := infoOf(langCxx, func(w *writer) {
		for n := range 3 {
			filler(w)
			w.uleb(abSpace).str("outer")
			filler(w)
			w.uleb(abSpace).str("inner")
			filler(w)
			w.uleb(abStruct).str("Type")
			w.function(fmt.Sprint("f", n), textAddr+0x200*uint64(n), 0x100).u8(0)
			want = append(want, fmt.Sprint("outer::inner::Type::f", n))
			w.u8(0)
			filler(w)
			w.u8(0)
			filler(w)
			w.function(fmt.Sprint("g", n), textAddr+0x200*uint64(n)+0x100, 0x100).u8(0)
			want = append(want, fmt.Sprint("outer::g", n))
			w.u8(0)
		}
	})
	d := openSynthetic(t, info, Options{})
	for n, w := range want {
		if got := namesAt(t, d, textAddr+unwind.FileAddr(0x100*n)); !slices.Equal(got, []string{w}) {
			t.Errorf("%d: %q, want %q", n, got, w)
		}
	}
	u, err := d.unit(d.main, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := d.functions(u, false); err != nil || len(s.marks) < 5 || len(s.scopes) != 6 {
		t.Errorf("%d marks, %d scopes, %v", len(s.marks), len(s.scopes), err)
	}
}

// TestSibling: one that leads back, or out of the unit, would have a walk go on for ever, or elsewhere.
func TestSibling(t *testing.T) {
	for _, to := range []uint32{0, 11, 0x7fffffff} {
		info := infoOf(langCxx, func(w *writer) {
			w.function("f", textAddr, 0x100).u8(0)
			w.uleb(abSibling).u32(to)
			w.u8(0)
			w.function("g", textAddr+0x100, 0x100).u8(0)
		})
		d := openSynthetic(t, info, Options{})
		if got := namesAt(t, d, textAddr); !slices.Equal(got, []string{"f"}) || !errors.Is(d.Problems(), ErrFormat) {
			t.Errorf("%#x: %q, %v", to, got, d.Problems())
		}
	}
}

// TestIndirect: a form that says that the form follows, again and again.
func TestIndirect(t *testing.T) {
	info := infoOf(langCxx, func(w *writer) {
		w.function("f", textAddr, 0x100).u8(0)
		w.uleb(abIndirect).u8(formIndirect).u8(formString).str("fine")
		w.function("g", textAddr+0x100, 0x100).u8(0)
		w.uleb(abIndirect).raw(bytes.Repeat([]byte{formIndirect}, 100))
	})
	d := openSynthetic(t, info, Options{})
	if got := namesAt(t, d, textAddr+0x100); !slices.Equal(got, []string{"g"}) || !errors.Is(d.Problems(), ErrFormat) {
		t.Errorf("%q, %v", got, d.Problems())
	}
}

// TestBudget: what does not fit is an error with the part's name, and the budget has all of it back.
func TestBudget(t *testing.T) {
	info := infoOf(langCxx, func(w *writer) {
		for n := range uint64(100000) {
			w.function("f", textAddr+n%textSize, 1).u8(0)
		}
	})
	f := synthetic(t, map[string][]byte{".debug_info": info, ".debug_abbrev": abbreviations()})
	for _, size := range []uint64{1 << 10, 2 << 20, 64 << 20} {
		budget := elffile.NewBudget("file", size)
		d, err := Open(f.Within(budget), Options{})
		if err == nil {
			_, err = d.Lookup(nil, textAddr+5)
			err = errors.Join(err, d.Problems()) // it may have found it all the same
			if uint64(d.Bytes()) != budget.Used() {
				t.Errorf("%d bytes, %d used", d.Bytes(), budget.Used())
			}
			d.Close()
		}
		var large *elffile.TooLargeError
		if size < 32<<20 && (!errors.As(err, &large) || large.Part == "") || size > 32<<20 && err != nil {
			t.Errorf("%d: %v", size, err)
		}
		if budget.Used() != 0 {
			t.Errorf("%d: %d bytes left", size, budget.Used())
		}
	}
}

// TestSteps: work is bounded, and what took too much is not tried again.
func TestSteps(t *testing.T) {
	info := infoOf(langCxx, func(w *writer) {
		for n := range uint64(10000) {
			w.function("f", textAddr+n, 1).u8(0)
		}
	})
	d := openSynthetic(t, info, Options{MaxSteps: 1000})
	if lines, err := d.Lookup(nil, textAddr+9000); !errors.Is(err, ErrTooMuchWork) || len(lines) != 0 {
		t.Errorf("%v, %v", lines, err)
	}
	failed := d.Stats().Failed
	if got := namesAt(t, d, textAddr+5); !slices.Equal(got, []string{"f"}) || d.Stats().Failed != failed {
		t.Errorf("%q, %+v", got, d.Stats())
	}
}

// TestOverlaps: spans in any order and depth come out as the naive way has them.
func TestOverlaps(t *testing.T) {
	d := openSynthetic(t, infoOf(langCxx, func(*writer) {}), Options{})
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		var spans []span
		for id := range uint32(r.IntN(40)) {
			spans = append(spans, span{uint64(r.IntN(100)), uint32(1 + r.IntN(60)), id})
		}
		naive := map[uint64]uint32{}
		for _, s := range spans {
			for a := s.start; a < s.end(); a++ {
				naive[a] = s.id
			}
		}
		d.steps = 1 << 20
		out, err := d.paint(&account{d: d}, spans, "test")
		if err != nil {
			t.Fatal(err)
		}
		for a := range uint64(200) {
			s, ok := find(out, a)
			if id, want := naive[a]; ok != want || ok && s.id != id {
				t.Fatalf("%d: %v %v, want %v %v", a, s, ok, id, want)
			}
		}
	}
}

// TestManyOverlaps: the time for n spans around each other is not n times n.
func TestManyOverlaps(t *testing.T) {
	const n = 200000
	info := infoOf(langCxx, func(w *writer) {
		w.function("f", textAddr, textSize)
		for i := range uint64(n) {
			w.inlined(30, textAddr+i%(textSize/2), textSize-2*(i%(textSize/2)), 1).u8(0)
		}
		w.u8(0)
	})
	start := time.Now()
	d := openSynthetic(t, info, Options{})
	if got := namesAt(t, d, textAddr+textSize/2); len(got) != 2 {
		t.Errorf("%q, %v", got, d.Problems())
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("%v", took)
	}
}

// TestDiscardedBase: pairs of offsets from the base of code that the linker discarded do not wrap into what is there.
func TestDiscardedBase(t *testing.T) {
	const wraps = textAddr + 0x100 // -1 or -2 and that lie in the code
	old := func(base uint64) *writer {
		w := &writer{}
		return w.u64(1<<64 - 1).u64(base).u64(wraps).u64(wraps + 0x80).u64(0).u64(0)
	}
	lists := func(base uint64) *writer {
		w := &writer{}
		return w.u8(rleBaseAddress).u64(base).u8(rleOffsetPair).uleb(wraps).uleb(wraps + 0x80).u8(rleEndOfList)
	}
	for version, list := range map[uint16]func(uint64) *writer{4: old, 5: lists} {
		for base, dead := range map[uint64]bool{1<<64 - 1: true, 1<<64 - 2: true, 0: false, 0x200: false} {
			sections := map[string][]byte{".debug_abbrev": abbreviations(), ".debug_ranges": list(base).b, ".debug_rnglists": list(base).b}
			sections[".debug_info"] = unitOf(version, func(w *writer) {
				w.uleb(abUnit).u64(textAddr).u64(textSize).u8(langCxx)
				w.function("alive", textAddr, textSize).u8(0)
				w.uleb(abRanges).str("other").u32(0) // of several the one counts that comes last
				w.u8(0)
			})
			d, err := Open(synthetic(t, sections), Options{})
			if err != nil {
				t.Fatal(err)
			}
			want := map[bool]string{true: "alive", false: "other"}[dead]
			for _, at := range []uint64{0, 0x10, 0x70} {
				if got := namesAt(t, d, unwind.FileAddr(base+wraps+at)); !slices.Equal(got, []string{want}) {
					t.Errorf("version %d, base %#x: %q, not %s; %v", version, base, got, want, d.Problems())
				}
			}
			d.Close()
			// A unit that has only such ranges covers nothing, and need not be looked through.
			sections[".debug_info"] = unitOf(version, func(w *writer) {
				w.uleb(abUnitRanges).u32(0).u8(langCxx)
				w.function("other", textAddr, textSize).u8(0).u8(0)
			})
			if d, err = Open(synthetic(t, sections), Options{}); err != nil {
				t.Fatal(err)
			}
			if lines, err := d.Lookup(nil, unwind.FileAddr(base+wraps)); errors.Is(err, ErrNotCovered) != dead || len(d.index.rest) > 0 {
				t.Errorf("version %d, base %#x: %v, %v, %d units to be looked through", version, base, lines, err, len(d.index.rest))
			}
			d.Close()
		}
	}
}

// TestChangedFile: between two looks at a function it becomes the end of a list, or something else.
func TestChangedFile(t *testing.T) {
	at := uint32(0)
	info := infoOf(langCxx, func(w *writer) {
		at = w.pos()
		w.function("f", textAddr, 0x100).u8(0)
	})
	for _, code := range []byte{0, abAbstract, abInlined, abBlock, abStruct, 0x7f} {
		b := syntheticBytes(map[string][]byte{".debug_info": info, ".debug_abbrev": abbreviations()})
		f := openBytes(t, b)
		d, err := Open(f, Options{})
		if err != nil {
			t.Fatal(err)
		}
		u, err := d.unit(d.main, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		d.begin()
		if s, err := d.functions(u, false); err != nil || len(s.spans) != 1 || s.spans[0].id != at {
			t.Fatal(s, err)
		}
		b[uint32(f.Section(".debug_info").Offset)+at] = code
		d.pages.lru.Purge()
		lines, err := d.Lookup(nil, textAddr)
		if err != nil && !errors.Is(err, ErrFormat) || code == 0 && err == nil {
			t.Errorf("%#x: %v, %v", code, lines, err)
		}
		d.Close()
	}
}

func TestNotThere(t *testing.T) {
	if _, err := Open(synthetic(t, nil), Options{}); !errors.Is(err, ErrNoDWARF) {
		t.Error(err)
	}
	d := openSynthetic(t, infoOf(langCxx, func(*writer) {}), Options{})
	if _, err := d.Lookup(nil, textAddr+textSize); !errors.Is(err, ErrNotCovered) {
		t.Error(err)
	}
	if lines, err := d.Lookup(nil, textAddr); len(lines) != 0 || err != nil {
		t.Error(lines, err)
	}
}

// TestMissingSplit: without its .dwo file a unit has lines, and the reason is counted.
func TestMissingSplit(t *testing.T) {
	p := c("split", "gcc", "-O2", "-g", "-gsplit-dwarf")
	path := p.build(t)
	for _, open := range []func(string, string, uint64) (*elffile.File, io.Closer, error){nil,
		func(string, string, uint64) (*elffile.File, io.Closer, error) { return nil, nil, os.ErrNotExist }} {
		d, err := Open(openDebug(t, path), Options{OpenSplit: open})
		if err != nil {
			t.Fatal(err)
		}
		withLine := 0
		for _, a := range instructions(t, path) {
			lines, err := d.Lookup(nil, a)
			if err != nil && !errors.Is(err, ErrNotCovered) {
				t.Fatal(err)
			}
			if len(lines) == 1 && lines[0].Function.Name == "" && lines[0].Line > 0 && lines[0].Function.File != "" {
				withLine++
			}
		}
		if withLine < 100 || d.Stats().MissingSplit != 2 || !errors.Is(d.Problems(), ErrNoSplit) {
			t.Errorf("%d lines, %+v, %v", withLine, d.Stats(), d.Problems())
		}
		d.Close()
	}
}

// debugSections are the bytes of a file's sections of debug information.
func debugSections(t testing.TB, path string) map[string][]byte {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all := map[string][]byte{}
	for _, s := range f.Sections {
		if strings.HasPrefix(s.Name, ".debug_") {
			if all[s.Name], err = s.Data(); err != nil {
				t.Fatal(err)
			}
		}
	}
	return all
}

// TestFlipped flips bytes of what compilers made: it never panics, hangs or takes more than there is.
func TestFlipped(t *testing.T) {
	for _, p := range []program{
		c("gcc", "gcc", "-O2", "-g", "-static-pie", "-fPIE"),
		cxx("clang++", "clang++-19", "-O2", "-gdwarf-4"),
		cxx("split", "g++", "-O2", "-g", "-gsplit-dwarf").split(),
		c("dwp", "clang-19", "-O2", "-g", "-gsplit-dwarf").then("llvm-dwp-19", "-e", "prog", "-o", "prog.dwp").packaged(),
	} {
		t.Run(p.name, func(t *testing.T) {
			path := p.build(t)
			sections := debugSections(t, path)
			var others map[string][]byte
			if matches, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*.dw*")); len(matches) > 0 {
				others = debugSections(t, matches[len(matches)-1])
			}
			addrs := instructions(t, path)
			r := rand.New(rand.NewPCG(5, 6))
			for n := range 300 {
				flipOne(t, r, n, sections, others, addrs, openDebug(t, path))
			}
		})
	}
}

// flipOne changes some bytes and looks addresses up. The file is put together with where the program has its code.
func flipOne(t *testing.T, r *rand.Rand, n int, sections, others map[string][]byte, addrs []unwind.FileAddr, like *elffile.File) {
	t.Helper()
	flip := func(in map[string][]byte) *elffile.File {
		out := map[string][]byte{}
		for name, b := range in {
			b = bytes.Clone(b)
			for range r.IntN(4) {
				if len(b) > 0 {
					b[r.IntN(len(b))] = byte(r.Uint32())
				}
			}
			out[name] = b
		}
		f := synthetic(t, out)
		for i := range f.Sections {
			if f.Sections[i].Name == ".text" {
				f.Sections[i].Addr, f.Sections[i].Size = addrs[0], uint64(addrs[len(addrs)-1]-addrs[0])+16
			}
		}
		return f
	}
	budget := elffile.NewBudget("flipped", 8<<20)
	var o Options
	if others != nil {
		o.Package = flip(others)
		o.OpenSplit = func(string, string, uint64) (*elffile.File, io.Closer, error) { return flip(others), nil, nil }
	}
	o.MaxSteps = 1 << 20
	start := time.Now()
	d, err := Open(flip(sections).Within(budget), o)
	if err == nil {
		for range 40 {
			lines, err := d.Lookup(nil, addrs[r.IntN(len(addrs))])
			if len(lines) > MaxInlined+1 || err != nil && len(lines) > 0 {
				t.Fatalf("%d: %d lines, %v", n, len(lines), err)
			}
		}
		d.Close()
	}
	if took := time.Since(start); took > 30*time.Second || budget.Used() != 0 {
		t.Fatalf("%d: %v, %d bytes", n, took, budget.Used())
	}
}
