// Package jitdump reads jitdumps: the binary files jit-PID.dump in which a runtime tells of the functions that it
// compiles, with their source lines and when they are moved (tools/perf/Documentation/jitdump-specification.txt and
// tools/perf/util/jitdump.c of Linux 6.1). A runtime that writes one maps its first page executable, which is how
// profilers learn of it: see PIDOf. It appends to the file as long as it runs, and may have written anything into it.
package jitdump

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unsafe"

	"github.com/hostprofiles/hostprofiles/internal/symbolize/jitcode"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

const (
	// MaxUpdate is how many bytes of the file one Update reads at most, and one record more.
	MaxUpdate = 4 << 20
	// windowBytes is how much is read at a time: code, which is most of a file, is skipped.
	windowBytes = 16 << 10
)

// What a file that is not understood is.
var (
	ErrNotJITDump = errors.New("not a jitdump")
	ErrMachine    = errors.New("code of another machine")
	ErrVersion    = errors.New("unknown version of jitdump")
	// ErrBroken: a record is impossible, so that nobody knows where the next begins.
	ErrBroken = errors.New("broken jitdump")
)

// Stats counts since New. Functions are those of the present file.
type Stats struct {
	Functions int    // that have code still
	Loads     uint64 // functions that were understood
	Moves     uint64 // that were understood
	Malformed uint64 // records that were not, or whose addresses are impossible; functions without code
	NoLines   uint64 // functions whose lines were not understood
	Dropped   uint64 // functions for which there was no room any more
	Restarts  uint64 // how often the file turned out to be another one
}

// Dump is what one file says. It is meant for the present: where code of two functions overlaps the later record counts,
// as code is freed and its place used again, and functions that were moved are where they are now. Timestamps, by
// whatever clock, are not looked at: records come in the order of time.
//
// It takes at most the memory that it was made with: see jitcode.Table for what it drops then. During Update there may be
// some 8 MiB more, for the lines of one function of a hostile file. It is for one goroutine at a time.
type Dump struct {
	machine uint32
	table   *jitcode.Table
	follow  jitcode.Follower
	order   binary.ByteOrder // of the file's numbers; nil until its header was read
	broken  error

	pending   lineTable // of the function that comes next
	lastIndex uint64
	unordered bool // there were indexes that did not ascend

	stats Stats
}

// New returns an empty dump that takes at most limit bytes, or jitcode.MinLimit if that is more. It refuses files of
// another machine (ELF's e_machine) than the given one, unless they do not say.
func New(limit int, machine uint32) *Dump {
	// What is pending takes no more than a record.
	return &Dump{machine: machine, table: jitcode.NewTable(limit - jitcode.MaxRecord)}
}

// Update reads what was appended to the file since the last time, some MaxUpdate bytes at most: more tells that there was
// more than that. A record that is not finished waits for its end. If the file is not what it was (see jitcode.Follower),
// all is forgotten and it is read from its beginning. The errors above come again and again as long as the file is there.
func (d *Dump) Update(r io.ReaderAt, id jitcode.FileID) (more bool, err error) {
	fresh, left, err := d.follow.Begin(r, id)
	if err != nil {
		return false, fmt.Errorf("looking at a jitdump: %w", err)
	}
	if fresh {
		d.restart()
	}
	if d.broken != nil || left == 0 {
		return false, d.broken
	}
	before := d.follow.Offset()
	w := window{r: r, follow: &d.follow, size: id.Size}
	more, err = d.read(&w)
	if d.follow.Offset() > before {
		if endErr := d.follow.End(r); err == nil {
			err = endErr
		}
	}
	if errors.Is(err, ErrBroken) {
		d.broken = err
	}
	if err != nil {
		return false, fmt.Errorf("reading a jitdump: %w", err)
	}
	return more, nil
}

func (d *Dump) restart() {
	d.table.Clear()
	d.order, d.broken, d.pending, d.lastIndex, d.unordered = nil, nil, lineTable{}, 0, false
	d.stats.Restarts++
}

// read takes all records that are finished, as far as MaxUpdate goes.
func (d *Dump) read(w *window) (more bool, err error) {
	if d.order == nil {
		if ok, err := d.readHeader(w); !ok {
			return false, err
		}
	}
	for w.read < MaxUpdate {
		b, err := w.bytes(recordBytes)
		if len(b) < recordBytes || err != nil {
			return false, err
		}
		id, size := d.order.Uint32(b), int64(d.order.Uint32(b[4:]))
		if size < recordBytes {
			return false, fmt.Errorf("%w: record of %d bytes at %d", ErrBroken, size, d.follow.Offset())
		}
		if size > w.left() {
			return false, nil // it is being written
		}
		if b, err = w.bytes(min(size, wanted(id))); err != nil || int64(len(b)) < min(size, wanted(id)) {
			return false, err
		}
		d.record(id, b)
		w.skip(size)
	}
	return w.left() > 0, nil
}

// window reads a file a part at a time.
type window struct {
	r      io.ReaderAt
	follow *jitcode.Follower
	size   int64 // of the file
	have   []byte
	buf    []byte
	read   int64 // bytes, all in all
}

// left is how much of the file there is from the place that was reached.
func (w *window) left() int64 { return w.size - w.follow.Offset() }

// bytes returns the next n bytes, or fewer if the file ends.
func (w *window) bytes(n int64) ([]byte, error) {
	if int64(len(w.have)) < n {
		want := min(max(n, windowBytes), max(w.left(), 0))
		if int64(len(w.buf)) < want {
			w.buf = make([]byte, want)
		}
		b, err := w.follow.Read(w.r, w.buf[:want])
		if err != nil {
			return nil, err
		}
		w.have = b
		w.read += int64(len(b))
	}
	return w.have[:min(n, int64(len(w.have)))], nil
}

// skip goes on by n bytes.
func (w *window) skip(n int64) {
	w.follow.Advance(n)
	w.have = w.have[min(n, int64(len(w.have))):]
}

// Lookup returns the place in the source of the code at a, and the kind of its frame. The name is as jitname.Parse
// understands it. The line is there if the file has lines for the function, and they are those of the function's own
// file: of calls that were inlined the file tells nothing.
func (d *Dump) Lookup(a unwind.Addr) (line unwind.Line, kind string, ok bool) {
	_, b, ok := d.table.Find(uint64(a))
	if !ok {
		return unwind.Line{}, "", false
	}
	line, kind = code(b).at(uint64(a))
	return line, kind, true
}

// Bytes is the memory that the dump takes.
func (d *Dump) Bytes() int { return int(unsafe.Sizeof(*d)) + d.table.Bytes() + cap(d.pending.encoded) }

// Stats tells what there was in the file.
func (d *Dump) Stats() Stats {
	s := d.stats
	s.Functions, s.Dropped = d.table.Alive(), d.table.Dropped()
	return s
}

// PIDOf tells whether the path of an executable mapping is that of a jitdump, by its name jit-PID.dump, and returns the
// PID in it: the process in its own pid namespace, or the parent that it was forked from.
func PIDOf(path string) (pid int, ok bool) {
	name := strings.TrimSuffix(path, " (deleted)")
	name = name[strings.LastIndexByte(name, '/')+1:]
	digits, ok := strings.CutPrefix(name, "jit-")
	if !ok {
		return 0, false
	}
	digits, ok = strings.CutSuffix(digits, ".dump")
	if !ok || digits == "" || digits[0] < '1' || digits[0] > '9' {
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 32)
	return int(n), err == nil
}

const (
	magic        = 0x4A695444 // "JiTD"
	headerBytes  = 40
	maxHeader    = 64 << 10
	newestFormat = 2 // there never was a file of it: JIT_CODE_UNWINDING_INFO came without
)

func (d *Dump) readHeader(w *window) (bool, error) {
	b, err := w.bytes(headerBytes)
	if err != nil || len(b) < headerBytes {
		return false, err
	}
	var order binary.ByteOrder = binary.LittleEndian
	if order.Uint32(b) != magic {
		order = binary.BigEndian
	}
	if order.Uint32(b) != magic {
		return false, fmt.Errorf("%w: it begins with %x", ErrNotJITDump, b[:4])
	}
	if version := order.Uint32(b[4:]); version == 0 || version > newestFormat {
		return false, fmt.Errorf("%w: %d", ErrVersion, version)
	}
	// CPython 3.13.0 has no machine in it.
	if machine := order.Uint32(b[12:]); machine != 0 && machine != d.machine {
		return false, fmt.Errorf("%w: ELF machine %d", ErrMachine, machine)
	}
	size := int64(order.Uint32(b[8:]))
	if size < headerBytes || size > maxHeader {
		return false, fmt.Errorf("%w: header of %d bytes", ErrNotJITDump, size)
	}
	if size > w.left() {
		return false, nil
	}
	d.order = order
	w.skip(size)
	return true, nil
}
