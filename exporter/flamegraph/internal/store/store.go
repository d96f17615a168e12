package store

import (
	"fmt"
	"math"
	"sync"
	"time"

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
	samples      uint64
}

// New returns an empty store.
func New(o Options) *Store { return &Store{options: o, t: newTables()} }

// held is how much rows and tables may take: making the tables anew takes as much again, and so may queries.
func (s *Store) held() int { return s.options.Bytes * 2 / 5 }

// Add takes a payload over, or refuses it as a whole with ErrMalformed or ErrTooLarge. It returns the number of samples.
func (s *Store) Add(p pprofile.Profiles, now time.Time) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serial++
	s.evict(now)
	const nodeBytes = 60 // with what belongs to one
	in := ingest{t: s.t, reader: newReader(s.t, p.Dictionary(), s.held()/nodeBytes)}
	err := in.profiles(p)
	if err == nil && len(in.rows)*rowBytes > s.held() {
		err = ErrTooLarge
	}
	if err != nil {
		s.dropped++ // what it brought is garbage
		s.fit(now)
		return 0, err
	}
	for _, r := range in.rows {
		s.segmentFor(r, now).add(r)
	}
	s.rows += len(in.rows)
	s.samples += uint64(len(in.rows))
	s.fit(now)
	return len(in.rows), nil
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

// ingest reads one payload.
type ingest struct {
	t      *tables
	reader *reader
	rows   []row
}

func (in *ingest) profiles(p pprofile.Profiles) error {
	for _, rp := range p.ResourceProfiles().All() {
		attributes, err := in.t.attributeMap(rp.Resource().Attributes())
		if err != nil {
			return fmt.Errorf("resource: %w", err)
		}
		res, _ := in.t.resources.add(resource{attributes: attributes, schemaURL: in.t.string(clip(rp.SchemaUrl()))})
		for _, sp := range rp.ScopeProfiles().All() {
			sc := scope{name: in.t.string(clip(sp.Scope().Name())), version: in.t.string(clip(sp.Scope().Version())),
				schemaURL: in.t.string(clip(sp.SchemaUrl()))}
			if sc.attributes, err = in.t.attributeMap(sp.Scope().Attributes()); err != nil {
				return fmt.Errorf("scope: %w", err)
			}
			scopeIndex, _ := in.t.scopes.add(sc)
			for i, profile := range sp.Profiles().All() {
				if err := in.profile(series{resource: res, scope: scopeIndex}, profile); err != nil {
					return fmt.Errorf("profile %d: %w", i, err)
				}
			}
		}
	}
	return nil
}

func (in *ingest) profile(s series, p pprofile.Profile) error {
	kind := profileType{period: p.Period()}
	err := in.reader.texts([]*uint32{&kind.sampleType, &kind.sampleUnit, &kind.periodType, &kind.periodUnit},
		p.SampleType().TypeStrindex(), p.SampleType().UnitStrindex(), p.PeriodType().TypeStrindex(), p.PeriodType().UnitStrindex())
	if err != nil {
		return err
	}
	s.profileType, _ = in.t.types.add(kind)
	of, err := in.reader.attributes(p.AttributeIndices())
	if err != nil {
		return err
	}
	for i, sample := range p.Samples().All() {
		if err := in.sample(s, of, p, sample); err != nil {
			return fmt.Errorf("sample %d: %w", i, err)
		}
	}
	return nil
}

// sample adds the rows of a sample: one for each timestamp, or one. of are the attributes of its profile.
func (in *ingest) sample(s series, of uint32, p pprofile.Profile, from pprofile.Sample) error {
	stack, err := in.reader.stack(from.StackIndex())
	if err != nil {
		return err
	}
	if s.link, err = in.reader.link(from.LinkIndex()); err != nil {
		return err
	}
	if s.attributes, err = in.reader.attributes(from.AttributeIndices()); err != nil {
		return err
	}
	if of != 0 {
		s.attributes = in.t.union(s.attributes, of)
	}
	index, _ := in.t.series.add(s)
	times, values := from.TimestampsUnixNano(), from.Values()
	r := row{series: index, node: stack, at: micros(p.Time()), untimed: true}
	switch {
	case times.Len() == 0:
		for _, v := range values.All() {
			r.value = saturatingAdd(r.value, v)
		}
		if r.value != 0 {
			in.rows = append(in.rows, r)
		}
	case values.Len() != 0 && values.Len() != times.Len():
		return fmt.Errorf("%w: %d values at %d times", ErrMalformed, values.Len(), times.Len())
	default:
		r.untimed = false
		for i := range times.Len() {
			r.at, r.value = micros(pcommon.Timestamp(times.At(i))), 1
			if values.Len() != 0 {
				r.value = values.At(i)
			}
			in.rows = append(in.rows, r)
		}
	}
	return nil
}

// union is the set of attributes of two lists. Of two with one key the first's stays.
func (t *tables) union(a, b uint32) uint32 {
	if a == 0 {
		return b
	}
	var out []uint32
	have := map[uint32]bool{}
	for i := range indices(t.lists.items[a]) {
		have[t.attrs.items[i].key] = true
		out = append(out, i)
	}
	for i := range indices(t.lists.items[b]) {
		if !have[t.attrs.items[i].key] {
			out = append(out, i)
		}
	}
	return t.attributeList(out)
}

// maxMicros keeps sums of times from overflowing: the year 2262 is as far as nanoseconds go.
const maxMicros = math.MaxInt64 / 1000

func micros(t pcommon.Timestamp) int64 { return int64(min(uint64(t)/1000, maxMicros)) }

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
