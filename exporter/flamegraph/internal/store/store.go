package store

import (
	"math"
	"sync"
	"time"
	"unsafe"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

// Options are the store's bounds.
type Options struct {
	Window time.Duration // how long what arrived is kept
	Bytes  int           // of memory for everything, queries included
}

// segment is a run of rows that arrived one after the other. Rows are only appended.
type segment struct {
	base     int64 // Unix µs; rows count from here
	from, to int64 // Unix µs of the earliest row and after the latest
	arrived  time.Time

	series, node []uint32
	at           []uint32 // µs from base
	untimed      []bool   // the time is the profile's
	value        []int64
}

const (
	rowBytes     = 4 + 4 + 4 + 1 + 8
	segmentBytes = 256
	segmentRows  = 16 << 10
	segmentTime  = 10 * time.Second // of arrival
	// lead is how much earlier than a segment's first row others may be.
	lead = int64(10 * time.Minute / time.Microsecond)
)

// Store keeps what arrived within the window. Its methods may be called at the same time.
type Store struct {
	options Options

	mu       sync.Mutex
	t        *tables
	segments []*segment
	rows     int
	dropped  int // rows that were dropped since the tables were made anew
	serial   uint64

	droppedUntil int64 // Unix µs: rows before it may have been dropped for want of memory
}

// New returns an empty store.
func New(o Options) *Store { return &Store{options: o, t: newTables()} }

// held is how much rows and tables may take. A payload brings at most half as much before what is too much is dropped, and making
// the tables anew takes as much again; so may queries.
func (s *Store) held() int { return s.options.Bytes * 2 / 5 }

// Held is how much of the memory may be held; the rest is for answers, and for what is taken up.
func (s *Store) Held() int { return s.held() }

// Added says what a payload came to.
type Added struct {
	Samples int
	// Skewed counts the profiles whose times cannot be true, and Skew is by how much the last of them is ahead of the clock
	// here. They are shown at the time of their arrival.
	Skewed int
	Skew   time.Duration
}

// Add takes a payload over, or refuses it as a whole with ErrMalformed or ErrTooLarge.
func (s *Store) Add(p pprofile.Profiles, now time.Time) (Added, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serial++
	s.evict(now)
	before := s.t.mark()
	in := ingest{t: s.t, reader: newReader(s.t, p.Dictionary(), s.held()/2), now: now.UnixMicro(), window: s.options.Window.Microseconds(),
		maxRows: s.held() / 2 / int(unsafe.Sizeof(row{}))}
	if err := in.profiles(p); err != nil {
		s.t.rollback(before)
		return Added{}, err
	}
	for i, piece := range in.rows {
		for _, r := range piece {
			s.segmentFor(r, now).add(r)
		}
		in.rows[i] = nil
	}
	s.rows += in.count
	s.fit()
	in.added.Samples = in.count
	return in.added, nil
}

// Serial is that of a snapshot that would be made now.
func (s *Store) Serial() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.serial
}

// row is one observation, or the sum of many.
type row struct {
	series, node uint32
	at           int64 // Unix µs
	untimed      bool
	value        int64
}

// segmentFor returns the segment that takes r.
func (s *Store) segmentFor(r row, now time.Time) *segment {
	if n := len(s.segments); n > 0 {
		g := s.segments[n-1]
		if offset := r.at - g.base; offset >= 0 && offset <= math.MaxUint32 && len(g.node) < segmentRows && now.Sub(g.arrived) < segmentTime {
			return g
		}
	}
	g := &segment{base: max(r.at-lead, 0), from: r.at, to: r.at, arrived: now}
	s.segments = append(s.segments, g)
	return g
}

func (g *segment) add(r row) {
	g.series, g.node = append(g.series, r.series), append(g.node, r.node)
	g.at, g.untimed = append(g.at, uint32(r.at-g.base)), append(g.untimed, r.untimed)
	g.value = append(g.value, r.value)
	g.from, g.to = min(g.from, r.at), max(g.to, r.at+1)
}

// maxMicros keeps sums of times from overflowing: the year 2262 is as far as nanoseconds go.
const maxMicros = math.MaxInt64 / 1000

func micros(t pcommon.Timestamp) int64 { return int64(min(uint64(t)/1000, maxMicros)) }

// saturatingMul multiplies by a positive number.
func saturatingMul(a, by int64) int64 {
	switch {
	case by == 1:
		return a
	case a > math.MaxInt64/by:
		return math.MaxInt64
	case a < math.MinInt64/by:
		return math.MinInt64
	}
	return a * by
}

func saturatingAdd(a, b int64) int64 {
	switch sum := a + b; {
	case a > 0 && b > 0 && sum < 0:
		return math.MaxInt64
	case a < 0 && b < 0 && sum >= 0:
		return math.MinInt64
	default:
		return sum
	}
}
