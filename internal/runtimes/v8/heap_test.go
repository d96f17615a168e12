package v8

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/require"

	"github.com/hostprofiles/hostprofiles/internal/ebpf/abi"
	"github.com/hostprofiles/hostprofiles/internal/runtimes"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

const (
	heapAt   = 0x10000
	heapSize = 1 << 20
)

// testHeap is memory with objects in it.
type testHeap struct {
	b    []byte
	next uint64
	maps map[int]uint64
	n    *instance
}

// Read implements unwind.Memory.
func (m *testHeap) Read(a unwind.Addr, b []byte) error {
	if a < heapAt || uint64(a)-heapAt+uint64(len(b)) > uint64(len(m.b)) {
		return errors.New("nothing is there")
	}
	copy(b, m.b[a-heapAt:])
	return nil
}

// Instance types of the tests; strings' are those of V8.
const (
	typeShared = 1000 + iota
	typeScope
	typeScript
	typeBytecode
	typeCode
	typeStream
	typeInterpreterData
	typeBaselineData
	typeDebugInfo
	typeWrapper
	typeArray
	typeBytes
	typeUncompiled
	typeFree // between the others
)

func newTestHeap(t *testing.T, v version) *testHeap {
	t.Helper()
	return newTestHeapOf(t, v, unwind.ArchAMD64)
}

func newTestHeapOf(t *testing.T, v version, arch unwind.Arch) *testHeap {
	t.Helper()
	l, err := layoutOf(v, arch, constants{})
	require.NoError(t, err)
	i := &image{version: v, layout: l, types: types{
		shared: typeShared, scopeInfo: typeScope, script: typeScript, bytecodeArray: typeBytecode, code: typeCode, stream: typeStream,
		interpreterData: typeInterpreterData, baselineData: typeBaselineData, debugInfo: typeDebugInfo, wrapper: typeWrapper,
		arrays: []int{typeArray}, bytes: []int{typeBytes}, uncompiled: []int{typeUncompiled}, irregexp: []int{54},
	}}
	in, err := i.Attach(nil)
	require.NoError(t, err)
	return &testHeap{b: make([]byte, heapSize), next: heapAt, maps: map[int]uint64{}, n: in.(*instance)}
}

func (m *testHeap) put(a, v uint64) { binary.LittleEndian.PutUint64(m.b[a-heapAt:], v) }

func (m *testHeap) alloc(size int) uint64 {
	a := m.next
	m.next += uint64(size+63) &^ 63
	return a
}

func tag(a uint64) uint64 { return a | 1 }
func asSmi(v int) uint64  { return uint64(v) << 32 }

// object makes one of words behind its map.
func (m *testHeap) object(typ int, words ...uint64) uint64 {
	if m.maps[typ] == 0 {
		m.maps[typ] = m.alloc(64)
		binary.LittleEndian.PutUint16(m.b[m.maps[typ]+mapInstanceType-heapAt:], uint16(typ))
	}
	a := m.alloc(8 + 8*len(words))
	m.put(a, tag(m.maps[typ]))
	for i, w := range words {
		m.put(a+8+8*uint64(i), w)
	}
	return a
}

// length is that of an array, with something in the padding where it has some.
func (m *testHeap) length(n int) uint64 {
	if m.n.image.version.major >= 15 {
		return uint64(n) | 0xdead<<32
	}
	return asSmi(n)
}

func (m *testHeap) array(words ...uint64) uint64 {
	return tag(m.object(typeArray, append([]uint64{m.length(len(words))}, words...)...))
}

func (m *testHeap) bytes(b []byte) uint64 {
	a := m.object(typeBytes, make([]uint64, 1+(len(b)+7)/8)...)
	m.put(a+8, m.length(len(b)))
	copy(m.b[a+16-heapAt:], b)
	return tag(a)
}

// text makes a sequential string: Latin-1 if that has its characters.
func (m *testHeap) text(s string) uint64 {
	units := utf16.Encode([]rune(s))
	one := true
	for _, u := range units {
		one = one && u < 256
	}
	typ := 32
	if one {
		typ |= stringOneByte
	}
	a := m.object(typ, make([]uint64, 2+len(units)/4+1)...)
	binary.LittleEndian.PutUint32(m.b[a+12-heapAt:], uint32(len(units)))
	for i, u := range units {
		if one {
			m.b[a+16-heapAt+uint64(i)] = byte(u)
		} else {
			binary.LittleEndian.PutUint16(m.b[a+16-heapAt+2*uint64(i):], u)
		}
	}
	return tag(a)
}

// indirect makes a string that refers to others.
func (m *testHeap) indirect(typ, length int, words ...uint64) uint64 {
	a := m.object(typ|32, append([]uint64{uint64(length) << 32}, words...)...)
	return tag(a)
}

func (m *testHeap) script(name, source string) uint64 {
	words := make([]uint64, 14)
	words[scriptSource/8-1], words[scriptName/8-1], words[scriptID/8-1] = m.text(source), m.text(name), asSmi(int(m.next))
	return tag(m.object(typeScript, words...))
}

// scope makes a ScopeInfo of a function with two variables.
func (m *testHeap) scope(name, inferred string, start int) uint64 {
	l := &m.n.image.layout.scope
	flags := 1
	if l.module == 3 {
		flags = 2
	}
	words := make([]uint64, l.first/8-1)
	words = append(words, 0, asSmi(1), asSmi(2))
	if l.positions {
		words = append(words, asSmi(start), asSmi(start+10))
	}
	words = append(words, 11, 12, 13, 14)
	if name != "" {
		flags |= 3 << l.variable
		words = append(words, m.text(name), asSmi(0))
	}
	if inferred != "" {
		flags |= 1 << (l.variable + 2)
		words = append(words, m.text(inferred))
	}
	if !l.positions {
		words = append(words, asSmi(start), asSmi(start+10))
	}
	words[l.first/8-1] = asSmi(flags)
	return tag(m.object(typeScope, words...))
}

func (m *testHeap) shared(data, names, script uint64) uint64 {
	l := m.n.image.layout
	words := make([]uint64, 8)
	words[l.shared.data/8-1], words[l.shared.name/8-1], words[l.shared.script/8-1] = data, names, script
	a := m.object(typeShared, words...)
	binary.LittleEndian.PutUint16(m.b[a+uint64(l.shared.token)-heapAt:], 0xffff)
	return tag(a)
}

func (m *testHeap) bytecode(length int, positions uint64) uint64 {
	l := m.n.image.layout
	a := m.object(typeBytecode, make([]uint64, 16+length/8)...)
	m.put(a+8, asSmi(length))
	m.put(a+uint64(l.bytecode.positions), positions)
	return tag(a)
}

func (m *testHeap) sharedCheck(v uint64) uint32 { return m.n.heap(m).sharedCheck(v &^ 3) }

func (m *testHeap) interpretedFrame(shared uint64, offset int) unwind.RawFrame {
	smi := uint32(offset + m.n.image.layout.bytecode.header - 1)
	return unwind.RawFrame{
		Runtime: unwind.RuntimeV8, A: uint64(abi.LoopV8FrameV8FRAME_INTERPRETED)<<abi.LoopV8FrameV8FRAME_SHIFT | shared,
		B: uint64(m.sharedCheck(shared))<<32 | uint64(smi),
	}
}

func versions() []version {
	return []version{{7, 8}, {8, 4}, {9, 4}, {10, 2}, {11, 3}, {12, 4}, {13, 6}, {14, 6}, {15, 0}}
}

// TestTexts reads strings of all representations.
func TestTexts(t *testing.T) {
	m := newTestHeap(t, version{11, 3})
	plain, wide, long := m.text("héllo"), m.text("wörld ☃ 𝔘"), m.text(strings.Repeat("x", maxName+1))
	where := m.alloc(64)
	copy(m.b[where-heapAt:], "outside")
	cons := m.indirect(stringCons|stringOneByte, 14, plain, wide)
	for want, v := range map[string]uint64{
		"héllo": plain, "wörld ☃ 𝔘": wide, "hélloörld": 0,
		strings.Repeat("x", maxName) + "…": long,
		"outside":                          m.indirect(stringExternal|stringOneByte, 7, 0, where),
		"héllowörld ☃ 𝔘":                   m.indirect(stringCons, 15, plain, wide),
		"llo":                              m.indirect(stringSliced|stringOneByte, 3, plain, asSmi(2)),
		"lowör":                            m.indirect(stringSliced, 5, cons, asSmi(3)),
		"ö":                                m.indirect(stringSliced, 1, cons, asSmi(6)),
		"hé":                               m.indirect(stringSliced, 2, cons, asSmi(0)),
		"thin":                             m.indirect(stringThin|stringOneByte, 4, m.text("thin")),
		"":                                 m.text(""),
	} {
		if v == 0 {
			continue
		}
		h := m.n.heap(m)
		require.Equal(t, want, h.text(v), want)
		require.NoError(t, h.err)
	}
	again := m.indirect(stringThin, 4, 0)
	m.put(again-1+16, again) // of itself
	both := m.indirect(stringCons, 1<<20, 0, 0)
	m.put(both-1+16, both)
	m.put(both-1+24, both)
	for what, v := range map[string]uint64{
		"a circle": again, "a cons of itself": both, "an external string that does not say where": m.indirect(stringExternal|stringUncached, 4, 0, 0),
		"no string": m.array(), "a small integer": asSmi(7), "nothing": 0, "not mapped": 1<<40 | 1, "a slice before the start": m.indirect(stringSliced, 3, plain, asSmi(-2)),
	} {
		h := m.n.heap(m)
		got := h.text(v)
		if h.err == nil && got != "" && got != "…" {
			t.Errorf("%s: %q", what, got)
		}
	}
}

// TestInterpreted names interpreted functions of each layout, with their lines.
func TestInterpreted(t *testing.T) {
	for _, v := range versions() {
		t.Run(v.String(), func(t *testing.T) {
			m := newTestHeap(t, v)
			l := m.n.image.layout
			script := m.script("/a.js", "one\ntwo\r\nthree\rfour\u2028five")
			rows := table(l.encodings[0], l.firstOffset, [2]int64{0, (4 + 1) << 1}, [2]int64{5, (9 + 1) << 1}, [2]int64{9, (20 + 1) << 1})
			code := m.bytecode(20, m.bytes(rows))
			for _, tt := range []struct {
				shared       uint64
				offset       int
				name         string
				line, column int
			}{
				{m.shared(code, m.scope("named", "", 4), script), 0, "named", 2, 1},
				{m.shared(code, m.scope("", "Foo.bar", 4), script), 6, "Foo.bar", 3, 1},
				{m.shared(code, m.scope("", "", 4), script), 12, unnamed, 5, 1},
				{m.shared(code, m.text("builtin"), script), 4, "builtin", 2, 1},
				{m.shared(tag(m.object(typeInterpreterData, code, 0)), m.scope("named", "", 4), script), 0, "named", 2, 1},
			} {
				lines, err := m.n.Symbolize(m, nil, m.interpretedFrame(tt.shared, tt.offset))
				require.NoError(t, err)
				require.Len(t, lines, 1)
				require.Equal(t, tt.name, lines[0].Function.Name)
				require.Equal(t, "/a.js", lines[0].Function.File)
				require.Equal(t, [2]int{tt.line, tt.column}, [2]int{lines[0].Line, lines[0].Column}, tt.name)
				if tt.name != "builtin" {
					require.Equal(t, 2, lines[0].Function.StartLine)
				}
			}
		})
	}
}

// TestMovedAndGone: a function that has moved is followed, another one in its place is not taken for it.
func TestMovedAndGone(t *testing.T) {
	m := newTestHeap(t, version{12, 4})
	script := m.script("/a.js", "x")
	shared := m.shared(m.bytecode(20, 0), m.scope("named", "", 0), script)
	f := m.interpretedFrame(shared, 0)
	lines, err := m.n.Symbolize(m, nil, f)
	require.NoError(t, err)
	require.Equal(t, 0, lines[0].Line, "there is no table")

	moved := m.shared(m.bytecode(20, 0), m.scope("other", "", 0), script)
	m.put(shared-1, moved-1) // by the garbage collector, and changed since
	_, err = m.n.Symbolize(m, nil, f)
	require.ErrorIs(t, err, runtimes.ErrStale)

	for name, typ := range map[string]int{"another object": typeFree, "a string": 40} {
		m.put(shared-1, tag(m.object(typ, 0)))
		_, err = m.n.Symbolize(m, nil, f)
		require.ErrorIs(t, err, runtimes.ErrStale, name)
	}
}

// optimized makes code with two calls inlined into each other, and the frame of it.
func (m *testHeap) optimized(outer, middle, inner uint64, exact bool) (f unwind.RawFrame, start uint64) {
	l := m.n.image.layout
	calls := make([]byte, 32)
	binary.LittleEndian.PutUint64(calls, (30+1)<<1)                // called by the outermost
	binary.LittleEndian.PutUint32(calls[8:], 0)                    // the middle one is literal 0
	binary.LittleEndian.PutUint64(calls[16:], (20+1)<<1|(0+1)<<31) // called by the middle one
	binary.LittleEndian.PutUint32(calls[24:], 1)
	rows := table(l.encodings[0], l.firstOffset, [2]int64{0, (31 + 1) << 1}, [2]int64{10, (10+1)<<1 | (1+1)<<31}, [2]int64{20, (33 + 1) << 1})
	data := make([]uint64, 10)
	wrap := func(v uint64) uint64 {
		if l.wrapped {
			return tag(m.object(typeWrapper, v))
		}
		return v
	}
	data[l.deopt.literals], data[l.deopt.shared], data[l.deopt.positions] = m.array(wrap(middle)|2, wrap(inner)), wrap(outer), m.bytes(calls)

	code := m.object(typeCode, make([]uint64, 7)...)
	object := code
	m.next = (m.next+uint64(l.header)+255)&^255 + l.align - uint64(l.header) // no rounder than it is
	if l.stream {
		object = m.object(typeStream, tag(code), 0)
	} else {
		was := code
		object = m.object(typeCode, make([]uint64, 7)...)
		code = object
		_ = was
	}
	start = object + uint64(l.header)
	m.next = start + 64
	if l.stream {
		m.put(code+uint64(l.code.start), start)
	}
	for kind, k := range l.kinds {
		if k == kindOptimized {
			binary.LittleEndian.PutUint32(m.b[code+uint64(l.code.flags)-heapAt:], kind<<l.kindShift)
		}
	}
	binary.LittleEndian.PutUint32(m.b[code+uint64(l.code.size)-heapAt:], 40)
	m.put(code+uint64(l.code.deopt), m.array(data...))
	m.put(code+uint64(l.code.positions), m.bytes(rows))

	h := m.n.heap(m)
	pc, kind := start+15, abi.LoopV8FrameV8FRAME_FUNCTION
	if exact {
		kind += abi.LoopV8FrameV8FRAME_EXACT
	}
	check := h.codeCheck(h.sharedCheck(outer&^3), pc)
	return unwind.RawFrame{A: uint64(kind)<<abi.LoopV8FrameV8FRAME_SHIFT | outer, B: uint64(check)<<abi.LoopV8FrameV8PC_BITS | pc}, start
}

// TestOptimized names the functions that were put in place of calls, the innermost first.
func TestOptimized(t *testing.T) {
	for i := range 2 * len(versions()) {
		v, arch := versions()[i/2], []unwind.Arch{unwind.ArchAMD64, unwind.ArchARM64}[i%2]
		t.Run(fmt.Sprintf("%v %v", v, arch), func(t *testing.T) {
			m := newTestHeapOf(t, v, arch)
			script := m.script("/a.js", strings.Repeat("0123456789\n", 5)) // position 10*n+k is in line 1+..
			function := func(name string) uint64 { return m.shared(0, m.scope(name, "", 0), script) }
			outer, middle, inner := function("outer"), function("middle"), function("inner")
			f, start := m.optimized(outer, middle, inner, false)
			lines, err := m.n.Symbolize(m, nil, f)
			require.NoError(t, err)
			var names []string
			var numbers []int
			for _, l := range lines {
				names, numbers = append(names, l.Function.Name), append(numbers, l.Line)
			}
			require.Equal(t, []string{"inner", "middle", "outer"}, names)
			require.Equal(t, []int{1, 2, 3}, numbers)

			m.b[start+15-16-heapAt+20] ^= 1 // what is behind pc does not count
			_, err = m.n.Symbolize(m, nil, f)
			require.NoError(t, err)
			m.b[start+4-heapAt] ^= 1 // other code
			_, err = m.n.Symbolize(m, nil, f)
			require.ErrorIs(t, err, runtimes.ErrStale)
		})
	}
}

// TestHostile: whatever is in memory, naming a frame ends, soon.
func TestHostile(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		m := newTestHeap(t, versions()[r.IntN(9)])
		m.b = m.b[:1<<16]
		script := m.script("/a.js", "some\nlines\n")
		f, _ := m.optimized(m.shared(m.bytecode(20, m.bytes([]byte{0, 2, 4, 6})), m.scope("outer", "x", 3), script), m.shared(0, m.text("b"), script),
			m.shared(0, m.text("c"), script), true)
		frames := []unwind.RawFrame{f, m.interpretedFrame(f.A&(1<<abi.LoopV8FrameV8FRAME_SHIFT-1), 3)}
		used := int(m.next - heapAt)
		for range 1 + r.IntN(6) {
			at := r.IntN(used) &^ 7
			switch r.IntN(3) {
			case 0:
				m.put(heapAt+uint64(at), r.Uint64())
			case 1:
				m.put(heapAt+uint64(at), heapAt+uint64(r.IntN(used))|1)
			default:
				m.b[at+r.IntN(8)] ^= byte(1 << r.IntN(8))
			}
		}
		for _, f := range frames {
			_, _ = m.n.Symbolize(m, nil, f)
		}
		if m.n.scripts.Bytes() > maxScriptBytes {
			t.Fatalf("%d bytes are kept", m.n.scripts.Bytes())
		}
	}
}

// TestCopiedBuiltins: V8 may run a copy of its builtins, in memory of its own.
func TestCopiedBuiltins(t *testing.T) {
	m := newTestHeap(t, version{11, 3})
	const file = 0x4000 // where builtins begin in the file
	m.n.image.builtins = builtins{
		sorted: []builtin{{start: file, size: 64, name: "A"}, {start: file + 64, size: 64, name: "BHandler", handler: true}, {start: file + 128, size: 64, name: "C"}},
		end:    file + 192,
		parts: []runtimes.Range{
			{Start: file, End: file + 64, Part: uint8(abi.LoopV8PartV8BUILTIN)}, {Start: file + 64, End: file + 128, Part: uint8(abi.LoopV8PartV8HANDLER)},
			{Start: file + 128, End: file + 192, Part: uint8(abi.LoopV8PartV8BUILTIN)},
		},
	}
	const original, copied, other = heapAt + 0x1000, heapAt + 0x2000, heapAt + 0x3000
	for i := range 192 {
		m.b[original-heapAt+i], m.b[copied-heapAt+i] = byte(i), byte(i)
	}
	mappings := []runtimes.Mapping{
		{Mapping: unwind.Mapping{Start: original, End: original + 0x1000, Bias: original - file}, Image: true},
		{Mapping: unwind.Mapping{Start: copied, End: copied + 0x1000}, Anonymous: true},
		{Mapping: unwind.Mapping{Start: other, End: other + 0x1000}, Anonymous: true},
	}
	const generated = uint8(abi.LoopV8PartV8GENERATED)
	plan, err := m.n.Plan(m, mappings)
	require.NoError(t, err)
	var want []runtimes.Range
	for _, r := range m.n.image.builtins.parts {
		r.Start, r.End = r.Start+original-file, r.End+original-file
		want = append(want, r)
	}
	for _, r := range m.n.image.builtins.parts {
		r.Start, r.End, r.Bias = r.Start+copied-file, r.End+copied-file, copied-file
		want = append(want, r)
	}
	want = append(want, runtimes.Range{Start: copied + 192, End: copied + 0x1000, Part: generated}, runtimes.Range{Start: other, End: other + 0x1000, Part: generated})
	require.Equal(t, want, plan.Ranges)
	for at, name := range map[unwind.Addr]string{original + 70: "BHandler", copied + 70: "BHandler", copied + 130: "C"} {
		b, ok := m.n.builtin(at)
		require.True(t, ok)
		require.Equal(t, name, b.name)
	}

	m.b[copied-heapAt+64] ^= 1
	plan, err = m.n.Plan(m, mappings)
	require.NoError(t, err)
	require.Equal(t, []runtimes.Range{
		want[0], want[1], want[2], {Start: copied, End: copied + 0x1000, Part: generated}, {Start: other, End: other + 0x1000, Part: generated},
	}, plan.Ranges)
}
