package python

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostprofiles/hostprofiles/internal/runtimes"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// heap is memory that is zero where nothing was written.
type heap struct {
	bytes [1 << 16]byte
	fails bool
}

const heapAt, typeAt = 0x10000, 0x4000

func (h *heap) Read(a unwind.Addr, b []byte) error {
	if h.fails || a < heapAt || uint64(a-heapAt)+uint64(len(b)) > uint64(len(h.bytes)) {
		return errors.New("no memory there")
	}
	copy(b, h.bytes[a-heapAt:])
	return nil
}

func (h *heap) word(a int, v uint64) { binary.LittleEndian.PutUint64(h.bytes[a:], v) }

// text puts a string of a kind there, and returns its address.
func (h *heap) text(l *layout, a int, kind int, ascii bool, runes ...rune) uint64 {
	h.word(a+l.header, uint64(len(runes)))
	state := uint64(kind)<<2 | 1<<5
	at := l.text.compact
	if ascii {
		state, at = state|1<<6, l.text.ascii
	}
	h.word(a+l.header+16, state<<l.text.shift)
	for i, r := range runes {
		var b [4]byte
		binary.LittleEndian.PutUint32(b[:], uint32(r))
		copy(h.bytes[a+at+i*kind:], b[:kind])
	}
	return heapAt + uint64(a)
}

// code puts a code object at the heap's beginning, and returns the frame that BPF has of it.
func (h *heap) code(l *layout, name, file uint64, table []byte) unwind.RawFrame {
	h.word(l.header-8, typeAt)
	binary.LittleEndian.PutUint32(h.bytes[l.code.firstLine:], 7)
	h.word(l.code.filename, file)
	h.word(l.code.name, name)
	if l.code.qualname != 0 {
		h.word(l.code.qualname, name)
	}
	h.word(l.code.table, heapAt+0x4000)
	h.word(0x4000+l.header, uint64(len(table)))
	copy(h.bytes[0x4000+l.header+16:], table)
	return unwind.RawFrame{Runtime: unwind.RuntimePython, A: heapAt, B: uint64(check(h.bytes[l.names():])) | 2<<32}
}

func newTestInstance(t *testing.T, v version, free bool) *instance {
	t.Helper()
	l, ok := layoutOf(v, free)
	require.True(t, ok)
	require.NoError(t, l.fits())
	return &instance{image: &image{version: v, layout: l, code: typeAt}, codes: newCodes()}
}

// TestSymbolize reads code objects of all layouts.
func TestSymbolize(t *testing.T) {
	for _, v := range []struct {
		version
		free bool
	}{{version{3, 6}, false}, {version{3, 8}, false}, {version{3, 10}, false}, {version{3, 11}, false}, {version{3, 12}, false},
		{version{3, 13}, true}, {version{3, 14}, false}, {version{3, 15}, true}, {version{3, 16}, false}} {
		n := newTestInstance(t, v.version, v.free)
		l, h := &n.image.layout, &heap{}
		table := []byte{2, 1, 20, 1}
		if l.lines == linesLocation {
			table = []byte{0x80 | 13<<3, 2, 0x80 | 13<<3 | 7, 2} // one line on at 0 and again at 2
		}
		if l.lines == linesRange {
			table = []byte{2, 1, 20, 1}
		}
		f := h.code(l, h.text(l, 0x1000, 2, false, 'ж', 'a'), h.text(l, 0x2000, 1, true, 'x', '.', 'p', 'y'), table)
		lines, err := n.Symbolize(h, nil, f)
		require.NoError(t, err, v)
		line := 8
		if l.lines != linesByte {
			line = 9
		}
		require.Equal(t, []unwind.Line{{Function: unwind.Function{Name: "жa", File: "x.py", StartLine: 7}, Line: line}}, lines, v)
		require.Positive(t, n.Bytes())

		h.fails = true // it is known by now
		again, err := n.Symbolize(h, nil, f)
		require.NoError(t, err)
		require.Equal(t, lines, again)
	}
}

// TestSymbolizeStale: what is something else by now has no name.
func TestSymbolizeStale(t *testing.T) {
	for name, spoil := range map[string]func(h *heap, l *layout, f *unwind.RawFrame){
		"another object":      func(h *heap, l *layout, _ *unwind.RawFrame) { h.word(l.header-8, typeAt+1) },
		"another code object": func(h *heap, l *layout, _ *unwind.RawFrame) { h.word(l.code.table, heapAt) },
		"a name of no kind":   func(h *heap, l *layout, _ *unwind.RawFrame) { h.word(0x1000+l.header+16, 3<<2|1<<5) },
		"not compact":         func(h *heap, l *layout, _ *unwind.RawFrame) { h.word(0x1000+l.header+16, 1<<2) },
		"endless lines":       func(h *heap, l *layout, _ *unwind.RawFrame) { h.word(0x4000+l.header, 1<<40) },
		"an endless name":     func(h *heap, l *layout, _ *unwind.RawFrame) { h.word(0x1000+l.header, 1<<40) },
	} {
		n := newTestInstance(t, version{3, 11}, false)
		l, h := &n.image.layout, &heap{}
		f := h.code(l, h.text(l, 0x1000, 1, true, 'f'), h.text(l, 0x2000, 1, true, 'x'), nil)
		spoil(h, l, &f)
		_, err := n.Symbolize(h, nil, f)
		require.ErrorIs(t, err, runtimes.ErrStale, name)
		require.Zero(t, n.codes.Len(), name)
	}
}

// TestHiddenFrame: the interpreter's own frame below a class's __init__ is not shown.
func TestHiddenFrame(t *testing.T) {
	n := newTestInstance(t, version{3, 13}, false)
	l, h := &n.image.layout, &heap{}
	text := h.text(l, 0x1000, 1, true, []rune("__init__")...)
	lines, err := n.Symbolize(h, nil, h.code(l, text, text, nil))
	require.NoError(t, err)
	require.Empty(t, lines)
}

// TestLongName: a name that is too long ends with an ellipsis.
func TestLongName(t *testing.T) {
	n := newTestInstance(t, version{3, 12}, false)
	l, h := &n.image.layout, &heap{}
	long := []rune(strings.Repeat("x", 2000))
	lines, err := n.Symbolize(h, nil, h.code(l, h.text(l, 0x1000, 1, true, long...), h.text(l, 0x2000, 4, false, 0x10ffff, 0xd800, -1), nil))
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("x", maxText)+"…", lines[0].Function.Name)
	require.Equal(t, "\U0010ffff\ufffd\ufffd", lines[0].Function.File)
}

// TestCodesAreBounded: what is kept of one process does not grow without end.
func TestCodesAreBounded(t *testing.T) {
	s := newCodes()
	for i := range maxCodes + 100 {
		s.Add(codeKey{at: unwind.Addr(i)}, &code{lines: make([]byte, 1000)})
		require.LessOrEqual(t, s.Bytes(), maxCodeText)
	}
	require.LessOrEqual(t, s.Len(), maxCodes)
	require.Greater(t, s.Bytes(), maxCodeText/2)
}

// FuzzSymbolize: whatever a process's memory holds, and whatever its file says of itself, reading it ends, and what is found is of bounded
// size.
func FuzzSymbolize(f *testing.F) {
	f.Add(uint8(11), []byte{1, 2, 3}, []byte{})
	f.Add(uint8(14), []byte{1, 2, 3}, []byte{24, 1, 230, 0})
	f.Fuzz(func(t *testing.T, minor uint8, memory, table []byte) {
		v := version{3, 6 + int(minor%11)}
		n := newTestInstance(t, v, minor > 128 && v.minor >= 13)
		l, h := &n.image.layout, &heap{}
		if len(table) > 0 && v.minor >= 13 {
			said := make([]byte, debugBytes)
			for i := 0; i+4 <= len(table); i += 4 { // which field, and what
				binary.LittleEndian.PutUint16(said[8*(int(binary.LittleEndian.Uint16(table[i:]))%(debugBytes/8)):], binary.LittleEndian.Uint16(table[i+2:]))
			}
			if l.apply(said, v.minor) != nil {
				return
			}
		}
		frame := h.code(l, h.text(l, 0x1000, 1, true, 'f'), h.text(l, 0x2000, 1, true, 'x'), []byte{1, 1})
		for i := 0; i+3 <= len(memory); i += 3 { // where, and what
			h.bytes[binary.LittleEndian.Uint16(memory[i:])] = memory[i+2]
		}
		lines, err := n.Symbolize(h, nil, frame)
		if err == nil && len(lines) > 0 && len(lines[0].Function.Name) > 4*maxText+3 {
			t.Errorf("a name of %d bytes", len(lines[0].Function.Name))
		}
	})
}

// TestImplausibleOffsets: what a file says of itself is refused if reading by it would leave what is read.
func TestImplausibleOffsets(t *testing.T) {
	for _, field := range []int{debugFieldsOf(14).filename, debugFieldsOf(14).name, debugFieldsOf(14).table, debugFieldsOf(14).firstLine, debugFieldsOf(14).frameAt} {
		for _, v := range []uint64{300, 1 << 40} {
			n := newTestInstance(t, version{3, 14}, false)
			said := make([]byte, debugBytes)
			binary.LittleEndian.PutUint64(said[field:], v)
			require.ErrorIs(t, n.image.layout.apply(said, 14), runtimes.ErrUnsupported, "%d at %d", v, field)
		}
	}
}

// TestNewerVersion: of a version that is not known the live process has to agree with what is taken for its layout.
func TestNewerVersion(t *testing.T) {
	n := newTestInstance(t, version{3, newest + 2}, false)
	i := n.image
	l := &i.layout
	i.debug = make([]byte, debugBytes)
	binary.LittleEndian.PutUint64(i.debug[debugInterpreters:], 0x10)
	binary.LittleEndian.PutUint64(i.debug[debugThreads:], 0x20)
	binary.LittleEndian.PutUint64(i.debug[debugThreadNext:], 0x8)
	i.runtime = heapAt - 0x1000
	h := &heap{}
	require.ErrorIs(t, i.checkLive(h, 0x1000), runtimes.ErrNotReady)

	const interpreter, thread, frame, caller, object = 0x1000, 0x2000, 0x3000, 0x3100, 0x4000
	h.word(0x10, heapAt+interpreter)
	h.word(interpreter+0x20, heapAt+thread)
	require.ErrorIs(t, i.checkLive(h, 0x1000), runtimes.ErrNotReady)
	h.word(thread+l.state.frame, heapAt+frame)
	h.word(frame+l.frame.previous, heapAt+caller)
	h.word(caller+l.frame.owner&^7, uint64(l.shim)<<(8*(l.frame.owner&7)))
	h.word(frame+l.frame.code, heapAt+object|1)
	require.ErrorIs(t, i.checkLive(h, 0x1000), runtimes.ErrUnsupported)
	h.word(object+l.header-8, typeAt+0x1000)
	require.NoError(t, i.checkLive(h, 0x1000))
	h.word(caller+l.frame.previous, heapAt+frame) // in a circle: it ends
	require.NoError(t, i.checkLive(h, 0x1000))
}
