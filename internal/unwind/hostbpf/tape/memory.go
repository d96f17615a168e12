package tape

import (
	"errors"
	"fmt"
	"slices"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// Range is some bytes and where they are.
type Range struct {
	Addr  unwind.Addr
	Bytes []byte
}

// end is the address behind the range; ranges never reach the end of the address space.
func (r Range) end() unwind.Addr { return r.Addr + unwind.Addr(len(r.Bytes)) }

// Memory is what is known of a process's memory. Everything else cannot be read.
type Memory struct {
	ranges []Range // sorted; never adjacent
}

// Ranges returns what is known, in ascending order, with gaps between.
func (m *Memory) Ranges() []Range { return m.ranges }

// Add makes bytes known; where some are known already, the new ones count. What would reach beyond the address space is cut
// off.
func (m *Memory) Add(a unwind.Addr, b []byte) {
	if room := uint64(^a); uint64(len(b)) > room {
		b = b[:room]
	}
	if len(b) == 0 {
		return
	}
	add := Range{Addr: a, Bytes: slices.Clone(b)}
	first := slices.IndexFunc(m.ranges, func(r Range) bool { return r.end() >= add.Addr })
	if first < 0 {
		m.ranges = append(m.ranges, add)
		return
	}
	last := first
	for last < len(m.ranges) && m.ranges[last].Addr <= add.end() {
		last++
	}
	if last > first {
		add = join(m.ranges[first], m.ranges[last-1], add)
	}
	m.ranges = slices.Replace(m.ranges, first, last, add)
}

// join puts add over the ranges that it touches, of which only the first and the last may stick out.
func join(first, last, add Range) Range {
	var out Range
	out.Addr = min(first.Addr, add.Addr)
	if first.Addr < add.Addr {
		out.Bytes = append(out.Bytes, first.Bytes[:add.Addr-first.Addr]...)
	}
	out.Bytes = append(out.Bytes, add.Bytes...)
	if last.end() > add.end() {
		out.Bytes = append(out.Bytes, last.Bytes[add.end()-last.Addr:]...)
	}
	return out
}

// Read implements unwind.Memory.
func (m *Memory) Read(a unwind.Addr, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	i, found := slices.BinarySearchFunc(m.ranges, a, func(r Range, a unwind.Addr) int {
		switch {
		case r.Addr > a:
			return 1
		case a-r.Addr >= unwind.Addr(len(r.Bytes)):
			return -1
		}
		return 0
	})
	if !found || len(b) > len(m.ranges[i].Bytes[a-m.ranges[i].Addr:]) {
		return fmt.Errorf("reading %d bytes at %#x: not known", len(b), a)
	}
	copy(b, m.ranges[i].Bytes[a-m.ranges[i].Addr:])
	return nil
}

// Recorder reads another memory and keeps what was read.
type Recorder struct {
	From unwind.Memory
	Got  Memory
}

// Read implements unwind.Memory.
func (r *Recorder) Read(a unwind.Addr, b []byte) error {
	if err := r.From.Read(a, b); err != nil {
		return fmt.Errorf("recording %d bytes at %#x: %w", len(b), a, err)
	}
	r.Got.Add(a, b)
	return nil
}

// Frugal refuses the large reads by which stacks are copied for user space: those would fill tapes.
type Frugal struct{ unwind.Memory }

// Read implements unwind.Memory.
func (f Frugal) Read(a unwind.Addr, b []byte) error {
	if len(b) > 512 {
		return errTooMuch
	}
	return f.Memory.Read(a, b)
}

var errTooMuch = errors.New("too much for a tape")
