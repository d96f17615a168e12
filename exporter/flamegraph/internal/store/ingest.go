package store

import (
	"fmt"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

// ingest reads one payload.
type ingest struct {
	t       *tables
	reader  *reader
	now     int64 // Unix µs
	window  int64 // µs
	maxRows int

	rows  [][]row // in pieces, so that growing copies nothing
	count int
	added Added
}

// rowsPiece is how many rows are read into one piece of memory.
const rowsPiece = 4 << 10

func (in *ingest) add(r row) {
	last := len(in.rows) - 1
	if last < 0 || len(in.rows[last]) == rowsPiece {
		in.rows = append(in.rows, make([]row, 0, min(rowsPiece, 64+in.count)))
		last++
	}
	in.rows[last] = append(in.rows[last], r)
	in.count++
}

func (in *ingest) profiles(p pprofile.Profiles) error {
	for _, rp := range p.ResourceProfiles().All() {
		attributes, err := in.reader.attributeMap(rp.Resource().Attributes())
		if err != nil {
			return fmt.Errorf("resource: %w", err)
		}
		res, _ := in.t.resources.add(resource{attributes: attributes, schemaURL: in.t.string(clip(rp.SchemaUrl()))})
		for _, sp := range rp.ScopeProfiles().All() {
			sc := scope{name: in.t.string(clip(sp.Scope().Name())), version: in.t.string(clip(sp.Scope().Version())),
				schemaURL: in.t.string(clip(sp.SchemaUrl()))}
			if sc.attributes, err = in.reader.attributeMap(sp.Scope().Attributes()); err != nil {
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
	if s.of, err = in.reader.attributes(p.AttributeIndices()); err != nil {
		return err
	}
	at := in.clock(p)
	for i, sample := range p.Samples().All() {
		if err := in.sample(s, at, sample); err != nil {
			return fmt.Errorf("sample %d: %w", i, err)
		}
	}
	return in.reader.took()
}

// aheadOfTime is how far the clocks of hosts may be ahead of the one here, µs.
const aheadOfTime = int64(5 * time.Second / time.Microsecond)

// clock is how a profile tells time.
type clock struct {
	start    int64 // of the profile, Unix µs
	shift    int64 // to be added
	low, top int64 // what comes out is within these
}

// clock finds out whether a profile's times can be true: not after now, but for what clocks differ, and not before the window.
// If not, the profile's end is now.
func (in *ingest) clock(p pprofile.Profile) clock {
	at := clock{start: micros(p.Time()), low: in.now - in.window, top: in.now + aheadOfTime}
	last := min(at.start+int64(min(p.DurationNano()/1000, maxMicros)), maxMicros)
	for _, sample := range p.Samples().All() {
		for _, t := range sample.TimestampsUnixNano().All() {
			last = max(last, micros(pcommon.Timestamp(t)))
		}
	}
	if last >= at.low && last <= at.top {
		return at
	}
	at.shift = in.now - last
	if last != 0 { // else there are none
		in.added.Skewed++
		in.added.Skew = time.Duration(last-in.now) * time.Microsecond
	}
	return at
}

func (t *clock) of(micros int64) int64 { return min(max(micros+t.shift, t.low), t.top) }

// sample adds the rows of a sample: one for each timestamp, or one.
func (in *ingest) sample(s series, at clock, from pprofile.Sample) error {
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
	index, isNew := in.t.series.add(s)
	if isNew {
		if err := in.reader.took(); err != nil {
			return err
		}
	}
	stamps, values := from.TimestampsUnixNano(), from.Values()
	if in.count+max(stamps.Len(), 1) > in.maxRows {
		return ErrTooLarge
	}
	r := row{series: index, node: stack, at: at.of(at.start), untimed: true}
	switch {
	case stamps.Len() == 0:
		for _, v := range values.All() {
			r.value = saturatingAdd(r.value, v)
		}
		if r.value != 0 {
			in.add(r)
		}
	case values.Len() != 0 && values.Len() != stamps.Len():
		return fmt.Errorf("%w: %d values at %d times", ErrMalformed, values.Len(), stamps.Len())
	default:
		r.untimed = false
		for i := range stamps.Len() {
			r.at, r.value = at.of(micros(pcommon.Timestamp(stamps.At(i)))), 1
			if values.Len() != 0 {
				r.value = values.At(i)
			}
			in.add(r)
		}
	}
	return nil
}
