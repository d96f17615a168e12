package python

import (
	"fmt"

	"github.com/hostprofiles/hostprofiles/internal/ebpf/abi"
)

// version is a release without its last part: 3.11 is version{3, 11}.
type version struct{ major, minor int }

// String returns the version as people write it.
func (v version) String() string { return fmt.Sprintf("%d.%d", v.major, v.minor) }

// layout is where a version has things; offsets are in bytes.
type layout struct {
	// Where a thread's state is found: in _PyRuntime up to 3.14.
	current   int  // the pointer to the state of the thread with the GIL, up to 3.11; 0 if there is none
	key       int  // the key for the others; 0 if there is none
	mutexes   bool // both lie behind two mutexes
	state     struct{ self, frame int }
	cframe    struct{ frame, previous int }
	flags     int // abi.LoopPythonFlag
	shim      int // owner of frames that are none, and from then on
	tag       int // bits of a frame's code that are not part of its address
	frame     struct{ bytes, code, previous, at, owner, copy int }
	code      struct{ firstLine, filename, name, qualname, table, code, copies int }
	header    int // of every object, its type being its last word; what follows is 16 bytes in, with the usual one
	text      struct{ ascii, compact, shift int }
	bytesText bool // names are bytes
	lines     lineTable
}

const (
	linked  = int(abi.LoopPythonFlagPYTHON_LINKED)
	cframe  = int(abi.LoopPythonFlagPYTHON_CFRAME)
	entry   = int(abi.LoopPythonFlagPYTHON_ENTRY)
	shims   = int(abi.LoopPythonFlagPYTHON_SHIM)
	copies  = int(abi.LoopPythonFlagPYTHON_TLBC)
	bareKey = int(abi.LoopPythonFlagPYTHON_BARE_KEY)
)

// newest is the last version whose layout is known; later ones are taken to have its layout as far as they do not say otherwise.
const newest = 15

// layoutOf returns the layout of a version, free: built to run without the GIL. Both architectures have the same, but for what lies
// behind mutexes. The structures are those of Include/frameobject.h (2.7.18, 3.6.15, 3.7.16, 3.8.18), Include/cpython/frameobject.h
// (3.9.18, 3.10.13), Include/internal/pycore_frame.h (3.11.7, 3.12.1, 3.13.18) and pycore_interpframe_structs.h (3.14.10, 3.15.2),
// with pystate.h, code.h, unicodeobject.h and pycore_runtime.h of each.
func layoutOf(v version, free bool) (l layout, ok bool) {
	switch {
	case v == version{2, 7}:
		l.python2()
	case v.major != 3 || v.minor < 6 || free && v.minor < 13:
		return layout{}, false
	case v.minor <= 10:
		l.frameObjects(v.minor)
	default:
		l.interpreterFrames(min(v.minor, newest))
	}
	if free {
		l.freeThreaded(min(v.minor, newest))
	}
	return l, true
}

func (l *layout) python2() {
	l.flags, l.lines, l.bytesText = linked, linesUnsigned, true
	l.state.frame, l.state.self = 16, 144
	l.frame.bytes, l.frame.previous, l.frame.code, l.frame.at = 128, 24, 32, 120
	l.code.firstLine, l.code.filename, l.code.name, l.code.table = 96, 80, 88, 104
	l.header = 16
}

// names is where four words begin that tell code objects apart, and do not change: with frame objects there is the spare frame
// behind the table of lines.
func (l *layout) names() int {
	if l.lines == linesByte || l.lines == linesRange {
		return l.code.filename - 8
	}
	return l.code.filename
}

// frameObjects is up to 3.10: every frame is an object.
func (l *layout) frameObjects(minor int) {
	l.flags, l.lines, l.mutexes = linked, linesByte, true
	l.header, l.text.ascii, l.text.compact = 16, 48, 72
	l.state.frame, l.state.self = 24, 176
	l.frame.previous, l.frame.code, l.frame.at, l.frame.bytes = 24, 32, 104, 112
	l.code.firstLine, l.code.filename, l.code.name, l.code.table = 40, 104, 112, 120
	switch minor {
	case 6:
		l.flags |= bareKey
		l.state.self, l.frame.at, l.frame.bytes = 152, 120, 128
		l.code.firstLine, l.code.filename, l.code.name, l.code.table = 36, 96, 104, 112
	case 7:
		l.current, l.key = 1480, 1504
		l.code.firstLine, l.code.filename, l.code.name, l.code.table = 36, 96, 104, 112
	case 8:
		l.current, l.key = 1368, 1392
	case 9:
		l.current, l.key = 568, 584
	case 10:
		l.current, l.key = 568, 584
		l.frame.at, l.frame.bytes = 96, 104
		l.lines = linesRange
	}
}

// interpreterFrames is from 3.11 on: frames lie in memory of the interpreter's own.
func (l *layout) interpreterFrames(minor int) {
	l.flags, l.lines = shims, linesLocation
	l.header, l.text.ascii, l.text.compact = 16, 40, 56
	l.state.frame, l.state.self = 72, 152
	l.frame.bytes, l.frame.previous, l.frame.at, l.frame.owner, l.shim = 80, 8, 56, 70, 3
	l.code.firstLine, l.code.filename, l.code.name, l.code.qualname, l.code.table = 68, 112, 120, 128, 136
	switch minor {
	case 11:
		l.current, l.key, l.mutexes = 576, 592, true
		l.flags = cframe | entry
		l.state.frame, l.cframe.frame, l.cframe.previous = 56, 8, 16
		l.frame.previous, l.frame.code, l.frame.owner = 48, 32, 68
		l.code.firstLine, l.code.code = 72, 184
		l.text.ascii, l.text.compact = 48, 72
	case 12:
		l.key = 1544
		l.flags |= cframe
		l.state.frame, l.state.self, l.cframe.frame, l.cframe.previous = 56, 136, 0, 8
		l.code.code = 192
	case 13:
		l.key = 2160
		l.code.code = 200
	case 14:
		l.key = 2336
		l.frame.owner, l.tag, l.code.code = 74, 3, 208
	case 15:
		l.state.self = 176
		l.frame.owner, l.tag, l.code.code = 74, 3, 208
	}
}

// freeThreaded moves what the larger header of objects moves, and the state of strings: Include/object.h and
// Include/cpython/unicodeobject.h.
func (l *layout) freeThreaded(minor int) {
	const more = 16
	l.header += more
	for _, offset := range []*int{&l.code.firstLine, &l.code.filename, &l.code.name, &l.code.qualname, &l.code.table, &l.code.code} {
		*offset += more
	}
	l.text.ascii, l.text.compact = l.text.ascii+more, l.text.compact+more
	if minor >= 14 {
		l.flags |= copies
		l.frame.copy, l.frame.owner = 72, 78
		l.code.copies, l.code.code = 224, 232
		l.text.shift = 6
	}
}
