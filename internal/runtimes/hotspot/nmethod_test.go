package hotspot

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/runtimes"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

func asAddr(n int) unwind.Addr { return unwind.Addr(n) }

const (
	methodsAt  = 0x100000 // 0x10000 for each
	nmethodAt  = 0x7f0000001000
	immutables = 0x500000
	mutables   = 0x600000
	compileID  = 77
)

// toy is a process with three methods of the class p.C, whose n-th bytecode is of line 10, 20 or 30 times n, and compiled code.
type toy struct {
	*instance
	mem  *fake
	head []byte // of the nmethod
}

func (y *toy) methodAt(i int) uint64 { return methodsAt + 0x10000*uint64(i) }

// addMethod makes one: a Method, a ConstMethod, a ConstantPool, a class, and symbols.
func (y *toy) addMethod(i int, name string) {
	l, at := &y.layout.method, y.methodAt(i)
	symbol := func(n int, text string) uint64 {
		a := at + 0x1000 + 0x100*uint64(n)
		b := y.mem.put(a, 0x80)
		set2(b, l.symbolLength, uint16(len(text)))
		copy(b[l.symbolBody:], text)
		return a
	}
	cm, pool, class, tags := at+0x2000, at+0x3000, at+0x4000, at+0x5000
	set8(y.mem.put(at, 128), l.constMethod, cm)
	var lines []byte
	for n := range 4 {
		lines = append(lines, 0xff)
		d := int32(10 * (i + 1))
		if n == 0 {
			lines = l.stream.encodeSigned(l.stream.encodeSigned(lines, 0), d)
		} else {
			lines = l.stream.encodeSigned(l.stream.encodeSigned(lines, 1), d)
		}
	}
	const code = 40
	size := (l.constBytes + code + len(lines) + 1 + 7) / 8
	b := y.mem.put(cm, 8*size)
	set8(b, l.constants, pool)
	set4(b, l.constSize, uint32(size))
	set2(b, l.flags, hasLines)
	set2(b, l.codeSize, code)
	set2(b, l.nameIndex, 1)
	set2(b, l.signatureIndex, 2)
	copy(b[l.constBytes+code:], lines)
	b = y.mem.put(pool, l.poolBytes+64)
	set8(b, l.tags, tags)
	set8(b, l.holder, class)
	set4(b, l.length, 4)
	for n, text := range []string{name, "(I)V", "C.java"} {
		set8(b, l.poolBytes+8*(n+1), symbol(n, text))
	}
	copy(y.mem.put(tags, 16)[4:], []byte{0, constantTag, constantTag, constantTag})
	c := y.mem.put(class, 512)
	set8(c, l.classConstants, pool)
	set8(c, l.className, symbol(3, "p/C"))
	if l.sourceIndex != 0 {
		set2(b, l.sourceIndex, 3)
	} else {
		set2(c, l.classSource, 3)
	}
}

// scope is what a place in the code is of.
type scope struct {
	offset int32
	calls  [][2]int // method and bytecode, the innermost first; none: nothing is described
}

// newToy compiles methods into an nmethod with these places.
func newToy(t *testing.T, version string, places ...scope) *toy {
	y := &toy{instance: &instance{layout: layoutOf(t, version), methods: newMethods()}, mem: newFake()}
	for i, name := range []string{"inner", "middle", "outer"} {
		y.addMethod(i, name)
	}
	x := y.layout.method.stream
	data := []byte{0xff}
	descs := []pcDesc{{-1, 0}}
	for _, s := range places {
		at := uint32(0)
		for _, c := range slices.Backward(s.calls) {
			sender := at
			at = uint32(len(data))
			data = x.encode(x.encode(x.encode(data, sender), uint32(c[0]+1)), uint32(c[1]+1))
		}
		descs = append(descs, pcDesc{s.offset, int32(at)})
	}
	descs = append(descs, pcDesc{1 << 20, 0})
	l := &y.layout.nmethod
	const pcs, scopes, metadata = 0x800, 0x1000, 0x600
	b := y.mem.put(nmethodAt, 0x3000)
	y.head = b
	put := func(f field, v uint64) {
		switch f.bytes {
		case 2:
			set2(b, f.at, uint16(v))
		case 4:
			set4(b, f.at, uint32(v))
		case 8:
			set8(b, f.at, v)
		}
	}
	body := b
	table := b[metadata:]
	if l.immutable >= 0 {
		set8(b, l.immutable, immutables)
		body = y.mem.put(immutables, 0x3000)
		put(l.pcsEnd, pcs+uint64(len(descs))*pcDescBytes) // where the scopes are
		copy(body[pcs+len(descs)*pcDescBytes:], data)
	} else {
		put(l.pcsEnd, pcs+uint64(len(descs))*pcDescBytes)
		put(l.scopes, scopes+map[bool]uint64{true: nmethodAt}[l.scopes.bytes == 8])
		copy(body[scopes:], data)
	}
	put(l.pcs, pcs)
	if l.mutable >= 0 {
		set8(b, l.mutable, mutables)
		put(l.relocation, 64)
		put(l.mutableSize, 64+3*8)
		table = y.mem.put(mutables, 0x100)[64:]
	} else {
		put(l.metadata, metadata)
	}
	for i, d := range descs {
		set4(body, pcs+i*pcDescBytes, uint32(d.offset))
		set4(body, pcs+i*pcDescBytes+4, uint32(d.scope))
	}
	for i := range 3 {
		set8(table, 8*i, y.methodAt(i))
	}
	set8(b, l.method, y.methodAt(2))
	set4(b, l.id, compileID)
	return y
}

func frameAt(offset int, leaf bool) unwind.RawFrame {
	f := unwind.RawFrame{A: nmethodAt, B: compileID<<32 | uint64(offset), Runtime: unwind.RuntimeHotspot}
	if leaf {
		f.A |= kindLeaf << addrBits
	}
	return f
}

func describe(lines []unwind.Line) (text string) {
	for _, l := range lines {
		text += fmt.Sprintf("%s:%d ", l.Function.Name, l.Line)
	}
	return text
}

// TestCompiled: a place in compiled code is of the method there and of those that it was inlined into; of a place that is not described, the
// next one counts.
func TestCompiled(t *testing.T) {
	for _, version := range versions() {
		t.Run(version, func(t *testing.T) {
			y := newToy(t, version, scope{16, [][2]int{{0, 1}, {1, 2}, {2, 3}}}, scope{32, [][2]int{{2, 0}}}, scope{48, [][2]int{{2, -1}}}, scope{64, nil})
			for _, tt := range []struct {
				offset int
				leaf   bool
				want   string
			}{
				{16, false, "p.C.inner:20 p.C.middle:60 p.C.outer:120 "},
				{15, true, "p.C.inner:20 p.C.middle:60 p.C.outer:120 "},
				{16, true, "p.C.outer:30 "}, // it is the instruction behind the call
				{32, false, "p.C.outer:30 "},
				{48, false, "p.C.outer:30 "}, // before the first bytecode
				{64, false, "p.C.outer:0 "},
				{70, true, "p.C.outer:0 "}, // behind the last
			} {
				got, err := y.Symbolize(y.mem, nil, frameAt(tt.offset, tt.leaf))
				if err != nil || describe(got) != tt.want {
					t.Errorf("at %d (leaf: %v): %s (%v), not %s", tt.offset, tt.leaf, describe(got), err, tt.want)
				}
			}
			got, _ := y.Symbolize(y.mem, nil, frameAt(32, false))
			want := unwind.Function{Name: "p.C.outer", SystemName: "p.C.outer(I)V", File: "C.java", StartLine: 30}
			if len(got) != 1 || got[0].Function != want {
				t.Errorf("%+v", got)
			}
			before := y.mem.reads
			if _, err := y.Symbolize(y.mem, nil, frameAt(16, false)); err != nil || y.mem.reads-before > 20 {
				t.Errorf("%d reads for methods that are known (%v)", y.mem.reads-before, err)
			}
		})
	}
}

// TestInterpreted: a bytecode of a method, none of a native one, and stubs.
func TestInterpreted(t *testing.T) {
	y := newToy(t, "17")
	frame := func(bci int) unwind.RawFrame {
		return unwind.RawFrame{A: y.methodAt(0) | 1<<addrBits, B: uint64(bci)<<methodBits | (y.methodAt(0) + 0x2000)}
	}
	for bci, want := range map[int]string{0: "p.C.inner:10 ", 2: "p.C.inner:30 ", 3: "p.C.inner:40 ", 39: "p.C.inner:40 ", noBCI: "p.C.inner:0 "} {
		if got, err := y.Symbolize(y.mem, nil, frame(bci)); err != nil || describe(got) != want {
			t.Errorf("bytecode %d: %s (%v)", bci, describe(got), err)
		}
	}
	y = newToy(t, "17")
	set2(y.mem.pieces[y.methodAt(0)], y.layout.method.access, accNative)
	if got, err := y.Symbolize(y.mem, nil, frame(2)); err != nil || describe(got) != "p.C.inner:0 " {
		t.Errorf("native: %s (%v)", describe(got), err)
	}
	y.mem.text(0x900000, "StubRoutines (1)")
	if got, err := y.Symbolize(y.mem, nil, unwind.RawFrame{A: 0x7f0000000000 | 2<<addrBits, B: 0x900000}); err != nil || describe(got) != "StubRoutines (1):0 " {
		t.Errorf("a stub: %s (%v)", describe(got), err)
	}
	if _, err := y.Symbolize(y.mem, nil, unwind.RawFrame{A: 3 << addrBits}); !errors.Is(err, runtimes.ErrStale) {
		t.Errorf("no kind: %v", err)
	}
}

// TestStale: what is something else by now has no name.
func TestStale(t *testing.T) {
	good := scope{16, [][2]int{{0, 1}, {2, 3}}}
	for name, change := range map[string]func(y *toy){
		"another compilation":   func(y *toy) { set4(y.head, y.layout.nmethod.id, compileID+1) },
		"a method that is none": func(y *toy) { set8(y.head, 0x600, 12345) },
		"no constant pool": func(y *toy) {
			set8(y.mem.pieces[y.methodAt(0)+0x2000], y.layout.method.constants, 4)
		},
		"a constant that is no text":            func(y *toy) { y.mem.pieces[y.methodAt(0)+0x5000][5] = 7 },
		"a constant that there is not":          func(y *toy) { set2(y.mem.pieces[y.methodAt(0)+0x2000], y.layout.method.nameIndex, 4) },
		"a signature that is none":              func(y *toy) { set2(y.mem.pieces[y.methodAt(0)+0x2000], y.layout.method.signatureIndex, 1) },
		"an empty name":                         func(y *toy) { set2(y.mem.pieces[y.methodAt(0)+0x1000], y.layout.method.symbolLength, 0) },
		"a size that is too small":              func(y *toy) { set4(y.mem.pieces[y.methodAt(0)+0x2000], y.layout.method.constSize, 1) },
		"a scope that is its own sender":        func(y *toy) { y.head[0x1000+1] = 1 },
		"a scope of no method":                  func(y *toy) { y.head[0x1000+2] = 0 },
		"a scope of a method that there is not": func(y *toy) { y.head[0x1000+2] = 190 },
		"tables the wrong way round":            func(y *toy) { set4(y.head, y.layout.nmethod.pcsEnd.at, 0) },
	} {
		y := newToy(t, "17", good)
		if got, err := y.Symbolize(y.mem, nil, frameAt(16, false)); err != nil {
			t.Fatalf("%s (%v)", describe(got), err)
		}
		y = newToy(t, "17", good)
		change(y)
		if got, err := y.Symbolize(y.mem, nil, frameAt(16, false)); !errors.Is(err, runtimes.ErrStale) {
			t.Errorf("%s: %s (%v)", name, describe(got), err)
		}
	}
}

// noise is memory that has something everywhere.
type noise struct {
	r     *rand.Rand
	small bool
	reads int
	bytes int
}

func (m *noise) Read(_ unwind.Addr, b []byte) error {
	m.reads++
	m.bytes += len(b)
	for i := range b {
		b[i] = byte(m.r.Uint32())
		if m.small && m.r.IntN(3) > 0 {
			b[i] = byte(m.r.IntN(3))
		}
		if i%8 >= 6 {
			b[i] = 0
		}
	}
	return nil
}

// TestHostileMemory: nothing that a process has in its memory takes long, or much memory.
func TestHostileMemory(t *testing.T) {
	for _, version := range versions() {
		n := &instance{layout: layoutOf(t, version), methods: newMethods()}
		for i := range uint64(3000) {
			m := &noise{r: rand.New(rand.NewPCG(i, 1)), small: i%2 == 0}
			f := unwind.RawFrame{A: (0x7f0000000000 + 8*i) | i%4<<addrBits, B: m.r.Uint64()}
			_, _ = n.Symbolize(m, nil, f)
			_, _ = n.layout.readCache(m)
			if m.reads > 40000 || m.bytes > 4<<20 {
				t.Fatalf("%s, %d: %d reads of %d bytes", version, i, m.reads, m.bytes)
			}
		}
		if n.Bytes() > maxMethodBytes+maxMethods*methodBytes {
			t.Errorf("%d bytes are kept", n.Bytes())
		}
	}
}
