// Package perfmap reads perf maps: the text files /tmp/perf-PID.map in which a runtime lists the functions that it
// compiles (tools/perf/Documentation/jit-interface.txt of Linux 6.1). Each line is "START SIZE name", numbers in
// hexadecimal, the name up to the end of the line. Runtimes append to the file as long as they run, and anyone may have
// written anything into it.
package perfmap

import (
	"bytes"
	"fmt"
	"io"
	"unsafe"

	"github.com/hostprofiles/hostprofiles/internal/symbolize/jitcode"
	"github.com/hostprofiles/hostprofiles/internal/symbolize/jitname"
	"github.com/hostprofiles/hostprofiles/internal/symbolize/names"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

const (
	// MaxUpdate is how many bytes of the file one Update reads at most: some 60,000 functions, in 6 ms.
	MaxUpdate = 4 << 20
	// maxLine is the longest line in bytes that is not skipped; longer names than names.MaxName are cut.
	maxLine = 64 << 10
)

// Stats counts since New. Functions are those of the present file.
type Stats struct {
	Functions int    // that have code still
	Lines     uint64 // that were understood
	Malformed uint64 // lines that were not, and those with impossible addresses or without code
	Dropped   uint64 // functions for which there was no room any more
	Restarts  uint64 // how often the file turned out to be another one
}

// Map is what one file says. Where lines overlap the later one counts, since code is freed and its place used again. It
// takes at most the memory that it was made with: see jitcode.Table for what it drops then. During Update there are
// 64 KiB more. It is for one goroutine at a time.
type Map struct {
	table    *jitcode.Table
	follow   jitcode.Follower
	skipping bool // the rest of a line that was too long
	stats    Stats
}

// New returns an empty map that takes at most limit bytes, or jitcode.MinLimit if that is more.
func New(limit int) *Map { return &Map{table: jitcode.NewTable(limit)} }

// Update reads what was appended to the file since the last time, at most MaxUpdate bytes: more tells that there was more
// than that. A line without its end waits for it. If the file is not what it was (see jitcode.Follower), all is
// forgotten and it is read from its beginning.
func (m *Map) Update(r io.ReaderAt, id jitcode.FileID) (more bool, err error) {
	fresh, left, err := m.follow.Begin(r, id)
	if err != nil {
		return false, fmt.Errorf("looking at a perf map: %w", err)
	}
	if fresh {
		m.table.Clear()
		m.skipping = false
		m.stats.Restarts++
	}
	if left == 0 {
		return false, nil
	}
	buf := make([]byte, min(left, maxLine))
	before := m.follow.Offset()
	for left > 0 && m.follow.Offset()-before+maxLine <= MaxUpdate {
		b, err := m.follow.Read(r, buf[:min(left, maxLine)])
		if err != nil {
			return false, fmt.Errorf("reading a perf map: %w", err)
		}
		n := m.consume(b)
		if n == 0 {
			left = 0 // that much of a line is there, or the file is shorter now
			break
		}
		m.follow.Advance(int64(n))
		left -= int64(n)
	}
	if m.follow.Offset() > before {
		if err := m.follow.End(r); err != nil {
			return false, fmt.Errorf("reading a perf map: %w", err)
		}
	}
	return left > 0, nil
}

// consume takes the lines of b that are finished and returns how many bytes that were.
func (m *Map) consume(b []byte) int {
	used := 0
	for {
		end := bytes.IndexByte(b[used:], '\n')
		switch {
		case end < 0 && used == 0 && (m.skipping || len(b) >= maxLine):
			if !m.skipping {
				m.stats.Malformed++
			}
			m.skipping = true
			return len(b)
		case end < 0:
			return used
		case m.skipping:
			m.skipping = false
		default:
			m.line(b[used : used+end])
		}
		used += end + 1
	}
}

func (m *Map) line(line []byte) {
	start, rest, ok1 := hex(line)
	size, name, ok2 := hex(rest)
	name = bytes.TrimSuffix(name, []byte("\r"))
	if ok1 && ok2 && len(name) > 0 {
		if _, ok := m.table.Add(start, size, name[:min(len(name), names.MaxName)]); ok {
			m.stats.Lines++
			return
		}
	}
	m.stats.Malformed++
}

// hex cuts a number, and the blanks around it, off a line.
func hex(b []byte) (n uint64, rest []byte, ok bool) {
	b = blanks(b)
	if len(b) > 2 && b[0] == '0' && b[1]|0x20 == 'x' {
		b = b[2:]
	}
	i := 0
	for ; i < len(b); i++ {
		c := b[i]
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return n, blanks(b[i:]), i > 0 && (c == ' ' || c == '\t')
		}
		if n>>60 != 0 {
			return 0, nil, false
		}
		n = n<<4 | uint64(c)
	}
	return n, nil, false // a name has to follow
}

func blanks(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	return b
}

// Lookup returns the function whose code covers a, as jitname.Parse understands its name, and the kind of its frame. The
// file and the line where the function begins are there if the name has them; which line a is in a perf map cannot tell.
func (m *Map) Lookup(a unwind.Addr) (line unwind.Line, kind string, ok bool) {
	_, name, ok := m.table.Find(uint64(a))
	if !ok {
		return unwind.Line{}, "", false
	}
	line.Function, kind = jitname.Parse(string(name))
	return line, kind, true
}

// Bytes is the memory that the map takes.
func (m *Map) Bytes() int { return int(unsafe.Sizeof(*m)) + m.table.Bytes() }

// Stats tells what there was in the file.
func (m *Map) Stats() Stats {
	s := m.stats
	s.Functions, s.Dropped = m.table.Alive(), m.table.Dropped()
	return s
}
