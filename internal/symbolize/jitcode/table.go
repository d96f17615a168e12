// Package jitcode holds what is common to the ways in which runtimes tell profilers of code that they compile: a table
// from address to record of which the newest wins, and the reading of files that grow.
//
// Glossary: a record is the bytes that a reader keeps of a function. A span is a range of addresses that a record has
// still; newer records take ranges from older ones, since code is freed and its place used again.
package jitcode

// What a Table holds: a function takes 12 bytes and its record, and each of its spans 16 bytes in chunks that are at least
// half full on average. A limit of 64 MiB is at most 524,288 functions with 1,048,576 spans; 500,000 functions of one span
// each have room for records of 90 bytes.
const (
	// MinLimit is the smallest limit in bytes that makes sense: a few thousand functions.
	MinLimit = 1 << 20
	// limitPerFunction: the whole limit in bytes for one function.
	limitPerFunction = 128
	spansPerFunction = 2
	entryBytes       = 12
	chunkBytes       = chunkSpans * spanBytes
	// longRecord is when a record counts twice: it can leave as much of the block before it unused.
	longRecord = blockBytes / 16
)

// entry is a function. Their numbers ascend with time until a sweep gives them new ones, in the same order.
type entry struct {
	at     place
	length uint16
	used   bool   // looked up since the last sweep
	spans  uint32 // that it has still; during a sweep its new number
}

const swept = ^uint32(0) // in place of a new number

// Table maps addresses to records. It takes at most the limit in bytes that it was made with. When that is reached, an
// eighth goes at once (so that it costs little per function): first those that lost all their code, then the oldest that
// were not looked up since the last time, then the oldest. The newest stay, because a runtime that has compiled so much
// has freed the most of it, without saying so; and those that were looked up, because interpreters and stubs are written
// first of all and run always.
//
// It is for one goroutine at a time.
type Table struct {
	limit   limits
	entries []entry
	ranges  ranges
	records records
	alive   int // entries with spans
	dropped uint64
}

type limits struct{ bytes, functions, spans int }

// NewTable returns an empty table that takes at most limit bytes, or MinLimit if that is more.
func NewTable(limit int) *Table {
	limit = max(limit, MinLimit)
	functions := limit / limitPerFunction
	return &Table{limit: limits{bytes: limit, functions: functions, spans: functions * spansPerFunction}}
}

// Add makes the record, of at most MaxRecord bytes, the one of size bytes of code from start on, and returns its number,
// which is valid until the next Add or Room. It returns false, and does nothing, if there are no such addresses.
func (t *Table) Add(start, size uint64, record []byte) (id int, ok bool) {
	if !possible(start, size) || len(record) > MaxRecord {
		return 0, false
	}
	t.Room(len(record))
	id = len(t.entries)
	t.entries = append(t.entries, entry{at: t.records.add(record), length: uint16(len(record))})
	t.ranges.set(span{start, uint32(size), uint32(id)}, t.changed)
	return id, true
}

// Move gives a record other addresses. Those that it had stay its own until something else takes them: it may have been
// sampled there before. It returns false, and does nothing, if there are no such addresses. Room is to be called before the
// number is looked for.
func (t *Table) Move(id int, start, size uint64) bool {
	if !possible(start, size) || id < 0 || id >= len(t.entries) {
		return false
	}
	t.entries[id].used = true
	t.ranges.set(span{start, uint32(size), uint32(id)}, t.changed)
	return true
}

// possible tells whether code can lie there.
func possible(start, size uint64) bool {
	return size > 0 && size < 1<<32 && start+size > start
}

func (t *Table) changed(id uint32, delta int) {
	e := &t.entries[id]
	before := e.spans
	e.spans = uint32(int(before) + delta)
	switch {
	case before == 0:
		t.alive++
	case e.spans == 0:
		t.alive--
	}
}

// Find returns the record of the code at a and its number. The bytes may be written to, and are valid until the next Add
// or Room.
func (t *Table) Find(a uint64) (id int, record []byte, ok bool) {
	s, ok := t.ranges.find(a)
	if !ok {
		return 0, nil, false
	}
	t.entries[s.id].used = true
	return int(s.id), t.Record(int(s.id)), true
}

// Record returns a record by its number. The bytes may be written to, and are valid until the next Add or Room.
func (t *Table) Record(id int) []byte {
	e := t.entries[id]
	return t.records.get(e.at, int(e.length))
}

// Len is how many records there are. They have the numbers below, the oldest first.
func (t *Table) Len() int { return len(t.entries) }

// Alive is how many of the records have code still.
func (t *Table) Alive() int { return t.alive }

// Dropped is how many records with code were dropped since there was no room for them.
func (t *Table) Dropped() uint64 { return t.dropped }

// Bytes is the memory that the table takes.
func (t *Table) Bytes() int {
	return cap(t.entries)*entryBytes + t.ranges.bytes() + t.records.bytes()
}

// Clear forgets everything but the count of what was dropped.
func (t *Table) Clear() { *t = Table{limit: t.limit, dropped: t.dropped} }

// Room sees to it that one more Add of a record so long, or one Move, passes no limit, whatever it overlaps.
func (t *Table) Room(record int) {
	const few = 1024
	dead := len(t.entries) - t.alive
	full := len(t.entries) >= t.limit.functions || t.ranges.n+2 > t.limit.spans || t.Bytes()+t.growth(record) > t.limit.bytes
	if full || dead > t.alive+few {
		t.sweep()
	}
	if len(t.entries) == cap(t.entries) {
		t.grow()
	}
}

// growth is what one more record and two more spans take at most.
func (t *Table) growth(record int) int {
	n := 2*chunkBytes + t.ranges.indexGrowth()
	if last := len(t.records.blocks) - 1; last < 0 || len(t.records.blocks[last])+record > blockBytes {
		n += blockBytes
	}
	if len(t.entries) == cap(t.entries) {
		n += (t.grown() - cap(t.entries)) * entryBytes
	}
	return n
}

// grown is how many entries there is room for after grow: more by half, but not more than there can be.
func (t *Table) grown() int { return min(max(64, len(t.entries)*3/2), t.limit.functions) }

func (t *Table) grow() {
	entries := make([]entry, len(t.entries), t.grown())
	copy(entries, t.entries)
	t.entries = entries
}

// sweep drops the records without code and as many others as are to be dropped, and gives numbers and places anew.
func (t *Table) sweep() {
	t.choose()
	next := uint32(0)
	for i := range t.entries {
		if e := &t.entries[i]; e.spans != swept {
			e.spans = next
			next++
		}
	}
	t.ranges.renumber(func(id uint32) (uint32, bool) { n := t.entries[id].spans; return n, n != swept })

	c := t.records.compact()
	kept := t.entries[:0]
	for _, e := range t.entries {
		if e.spans != swept {
			kept = append(kept, entry{at: c.move(e.at, int(e.length)), length: e.length})
		}
	}
	c.done()
	t.entries, t.alive = kept, len(kept)
	t.ranges.each(func(s span) { t.entries[s.id].spans++ })
}

// choose marks what is to be dropped.
func (t *Table) choose() {
	functions, spans, bytes := 0, 0, 0
	for i := range t.entries {
		if e := &t.entries[i]; e.spans == 0 {
			e.spans = swept
		} else {
			functions, spans, bytes = functions+1, spans+int(e.spans), bytes+weight(e)
		}
	}
	tooMuch := func() bool {
		return functions > t.limit.functions*7/8 || spans > t.limit.spans*7/8 ||
			cap(t.entries)*entryBytes+spans*spanBytes*3/2+bytes*16/15 > t.limit.bytes*3/4
	}
	for _, sparesUsed := range []bool{true, false} {
		for i := range t.entries {
			if !tooMuch() {
				return
			}
			e := &t.entries[i]
			if e.spans == swept || sparesUsed && e.used {
				continue
			}
			functions, spans, bytes = functions-1, spans-int(e.spans), bytes-weight(e)
			e.spans = swept
			t.dropped++
		}
	}
}

// weight is what a record takes of the blocks at most, but for what short ones leave of each: a sixteenth.
func weight(e *entry) int {
	if e.length > longRecord {
		return 2 * int(e.length)
	}
	return int(e.length)
}
