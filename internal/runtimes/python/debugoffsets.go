package python

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/hostprofiles/hostprofiles/internal/runtimes"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

// From 3.13 on _PyRuntime begins with struct _Py_DebugOffsets, which the file has already: a cookie, the version, whether it was built to
// run without the GIL, and then offsets and sizes of 8 bytes each. Include/internal/pycore_runtime.h (3.13.18) and
// pycore_debug_offsets.h (3.14.10, 3.15.2); the order is that of a release's first version.
const (
	debugCookie = "xdebugpy"
	debugBytes  = 1024 // 3.15 has 888
	maxOffset   = 1024 // of anything that is looked up here
)

// debugFields are the places in the table of what is taken from it.
type debugFields struct {
	stateFrame, stateSelf                         int
	framePrevious, frameCode, frameAt, frameOwner int
	frameCopy                                     int // 0: there is none
	filename, name, qualname, table, firstLine    int
	code, copies                                  int
	ascii                                         int
}

func debugFieldsOf(minor int) debugFields {
	switch minor {
	case 13:
		return debugFields{184, 192, 232, 240, 248, 264, 0, 280, 288, 296, 304, 312, 344, 0, 560}
	case 14:
		return debugFields{208, 216, 256, 264, 272, 288, 304, 320, 328, 336, 344, 352, 384, 392, 640}
	default:
		return debugFields{208, 240, 320, 328, 336, 352, 368, 384, 392, 400, 408, 416, 448, 456, 736}
	}
}

var errNoDebugOffsets = errors.New("no debug offsets")

// readDebugOffsets reads the table at the beginning of _PyRuntime. errNoDebugOffsets if there is none.
func readDebugOffsets(f *elffile.File, runtime unwind.FileAddr) (table []byte, free bool, err error) {
	table = make([]byte, debugBytes)
	if err := f.ReadAddr(table, runtime); err != nil || string(table[:len(debugCookie)]) != debugCookie {
		return nil, false, errNoDebugOffsets
	}
	return table, binary.LittleEndian.Uint64(table[16:]) != 0, nil
}

// apply takes what the table says. What it says of a version later than those that are known is taken as the last of those had it.
func (l *layout) apply(table []byte, minor int) error {
	d := debugFieldsOf(minor)
	for _, field := range []struct {
		at     int
		offset *int
	}{
		{d.stateFrame, &l.state.frame}, {d.stateSelf, &l.state.self},
		{d.framePrevious, &l.frame.previous}, {d.frameCode, &l.frame.code}, {d.frameAt, &l.frame.at}, {d.frameOwner, &l.frame.owner},
		{d.filename, &l.code.filename}, {d.name, &l.code.name}, {d.qualname, &l.code.qualname}, {d.table, &l.code.table},
		{d.firstLine, &l.code.firstLine}, {d.code, &l.code.code}, {d.ascii, &l.text.ascii},
	} {
		v := binary.LittleEndian.Uint64(table[field.at:])
		if v > maxOffset {
			return fmt.Errorf("what CPython says of itself is not plausible (%d at %d): %w", v, field.at, runtimes.ErrUnsupported)
		}
		*field.offset = int(v)
	}
	l.text.compact = l.text.ascii + 16 // utf8_length and utf8 of PyCompactUnicodeObject
	if l.flags&copies != 0 {
		l.frame.copy = int(binary.LittleEndian.Uint64(table[d.frameCopy:]) % maxOffset)
		l.code.copies = int(binary.LittleEndian.Uint64(table[d.copies:]) % maxOffset)
	}
	return l.fits()
}

// Where the table has what leads from _PyRuntime to a thread's frames: 3.15.2.
const (
	debugInterpreters = 40
	debugThreads      = 72
	debugThreadNext   = 192
	maxThreads        = 64
	maxFrames         = 64 // of a thread, that are looked at
)

// checkLive looks whether the frames of a process's threads lead to code objects by what the table says: of a version that is
// newer than those that are known, nothing else tells that it has not changed otherwise. ErrNotReady if no thread runs Python now.
func (i *image) checkLive(mem unwind.Memory, bias uint64) error {
	word := func(a uint64) uint64 {
		var b [8]byte
		if mem.Read(unwind.Addr(a), b[:]) != nil {
			return 0
		}
		return binary.LittleEndian.Uint64(b[:])
	}
	said := func(at int) uint64 { return binary.LittleEndian.Uint64(i.debug[at:]) }
	l := &i.layout
	thread := word(word(uint64(i.runtime)+bias+said(debugInterpreters)) + said(debugThreads))
	right, wrong := 0, 0
	for range maxThreads {
		if thread == 0 {
			break
		}
		frame := word(thread + uint64(l.state.frame))
		for range maxFrames {
			if frame == 0 {
				break
			}
			if owner := uint8(word(frame+uint64(l.frame.owner)&^7) >> (8 * (l.frame.owner & 7))); int(owner) < l.shim {
				code := word(frame+uint64(l.frame.code)) &^ uint64(l.tag)
				if word(code+uint64(l.header-8)) == uint64(i.code)+bias {
					right++
				} else {
					wrong++
				}
			}
			frame = word(frame + uint64(l.frame.previous))
		}
		thread = word(thread + said(debugThreadNext))
	}
	switch {
	case right > wrong:
		return nil
	case wrong > 0:
		return fmt.Errorf("CPython %s: %d of %d frames have no code: %w", i.Version(), wrong, right+wrong, runtimes.ErrUnsupported)
	}
	return fmt.Errorf("no Python code is running: %w", runtimes.ErrNotReady)
}

// fits checks that BPF can read what it has to at once.
func (l *layout) fits() error {
	const limit = 8*frameWords - 8
	if l.state.frame >= limit || l.state.self >= limit || l.frame.previous >= limit || l.frame.code >= limit || l.frame.at >= limit ||
		l.frame.owner >= limit || l.frame.copy >= limit {
		return fmt.Errorf("its structures are too large: %w", runtimes.ErrUnsupported)
	}
	if l.codeBytes() > codeObject {
		return fmt.Errorf("its code objects are too large: %w", runtimes.ErrUnsupported)
	}
	l.frame.bytes = max(l.frame.bytes, (max(l.frame.previous, l.frame.code, l.frame.at, l.frame.owner, l.frame.copy)+8)&^7)
	return nil
}
