package top

import (
	"math"
	"path"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/hostprofiles/hostprofiles/internal/stopreason"
)

// Bounds of what one window keeps; what goes beyond is counted together. Names are cut to maxName bytes.
const (
	maxRows  = 50_000
	maxKinds = 8
	maxEnds  = 10_000
	// forgetAfter is how long it is remembered how far a host's reports went that sends no more.
	forgetAfter = time.Hour
	maxName     = 256
)

// kind is what the values of samples mean.
type kind struct{ name, unit string }

// cpuTime is the kind that profiles of running threads are brought to, whichever way they say it.
var cpuTime = kind{"cpu", "nanoseconds"}

// process is known by its number and name: numbers are used again, and many hosts may send to one exporter.
type process struct {
	pid  int64 // 0: not told
	name string
}

type rowKey struct {
	process  process
	function function
}

// brokenStack tells whose stack is incomplete, and for what reason.
type brokenStack struct{ process, reason string }

// usage sums up the samples of one kind.
type usage struct {
	rows       map[rowKey]float64 // in the kind's unit
	processes  map[process]struct{}
	total      float64
	kernel     float64
	incomplete float64
	broken     map[brokenStack]float64 // incomplete ones, by whose they are and why
	beyond     float64                 // of functions that found no room in rows
	samples    uint64
	spans      map[string]span // by host
}

// span is the time from the first start of profiles to their last end.
type span struct{ start, end pcommon.Timestamp }

// source is what sends reports of which one begins where the last one ended.
type source struct {
	kind kind
	host string // empty: not told
}

// reach is how far a source's reports went, and when it was heard of last.
type reach struct {
	end   pcommon.Timestamp
	heard time.Time
}

// window is what arrived since the last table.
type window struct {
	since   time.Time
	waiting bool // nothing has ever arrived
	kinds   map[kind]*usage
	ended   map[source]reach // how far earlier windows went
}

// newWindow makes the first window.
func newWindow(since time.Time) *window {
	return &window{since: since, waiting: true, kinds: map[kind]*usage{}, ended: map[source]reach{}}
}

// next makes the window after w, which changes no more but for what it knows of those before it.
func (w *window) next(since time.Time) *window {
	n := newWindow(since)
	n.waiting = w.waiting && w.empty()
	for of, r := range w.ended {
		if since.Sub(r.heard) < forgetAfter {
			n.ended[of] = r
		}
	}
	for k, u := range w.kinds {
		for host, s := range u.spans {
			of := source{k, host}
			if r, known := n.ended[of]; known || len(n.ended) < maxEnds {
				n.ended[of] = reach{max(r.end, s.end), since}
			}
		}
	}
	return n
}

// covered is how long the profiles of a kind were taken for, 0 if they don't say. A sample that came late makes its profile begin
// long before the report that it came with: what earlier windows have covered does not count again.
func (w *window) covered(k kind) time.Duration {
	var most pcommon.Timestamp
	for host, s := range w.kinds[k].spans {
		start := s.start
		if ended := w.ended[source{k, host}].end; ended < s.end {
			start = max(start, ended)
		}
		if start < s.end {
			most = max(most, s.end-start)
		}
	}
	return time.Duration(min(most, math.MaxInt64))
}

func (w *window) empty() bool { return len(w.kinds) == 0 }

func (w *window) add(p pprofile.Profiles) {
	dict := newDictionary(p.Dictionary())
	for _, resource := range p.ResourceProfiles().All() {
		attributes := resource.Resource().Attributes()
		proc, host := processOf(attributes), hostOf(attributes)
		for _, scope := range resource.ScopeProfiles().All() {
			for _, profile := range scope.Profiles().All() {
				w.addProfile(dict, host, proc, profile)
			}
		}
	}
}

func (w *window) addProfile(dict *dictionary, host string, proc process, profile pprofile.Profile) {
	if profile.Samples().Len() == 0 {
		return
	}
	k, scale := kindOf(dict, profile)
	u := w.usage(k)
	if u == nil {
		return
	}
	now := span{profile.Time(), profile.Time() + pcommon.Timestamp(profile.DurationNano())}
	if s, ok := u.spans[host]; ok {
		u.spans[host] = span{min(s.start, now.start), max(s.end, now.end)}
	} else if len(u.spans) < maxEnds {
		u.spans[host] = now
	}
	for _, sample := range profile.Samples().All() {
		u.addSample(dict, proc, sample, scale)
	}
}

// usage returns the sums of a kind, nil if there are too many kinds to keep.
func (w *window) usage(k kind) *usage {
	u, ok := w.kinds[k]
	if !ok && len(w.kinds) < maxKinds {
		u = &usage{rows: map[rowKey]float64{}, processes: map[process]struct{}{}, broken: map[brokenStack]float64{},
			spans: map[string]span{}}
		w.kinds[k] = u
	}
	return u
}

// kindOf says what a profile's values mean and by what to multiply them. Running threads are reported as a count of
// samples, each standing for a period of CPU time, or as CPU time.
func kindOf(dict *dictionary, p pprofile.Profile) (kind, float64) {
	name, unit := dict.string(p.SampleType().TypeStrindex()), dict.string(p.SampleType().UnitStrindex())
	if perUnit, ok := nanosecondsPer(dict.string(p.PeriodType().UnitStrindex())); ok && p.Period() > 0 &&
		unit == "count" && dict.string(p.PeriodType().TypeStrindex()) == "cpu" {
		return cpuTime, float64(p.Period()) * perUnit
	}
	if perUnit, ok := nanosecondsPer(unit); ok {
		return kind{clean(name), "nanoseconds"}, perUnit
	}
	return kind{clean(name), clean(unit)}, 1
}

func nanosecondsPer(unit string) (float64, bool) {
	switch unit {
	case "nanoseconds", "ns":
		return 1, true
	case "microseconds", "us":
		return 1e3, true
	case "milliseconds", "ms":
		return 1e6, true
	case "seconds", "s":
		return 1e9, true
	}
	return 0, false
}

func (u *usage) addSample(dict *dictionary, proc process, s pprofile.Sample, scale float64) {
	events, value := eventsOf(s)
	weight := value * scale
	if events == 0 || weight <= 0 {
		return
	}
	if proc.pid == 0 {
		proc = processOfSample(dict, s, proc)
	}
	f, ok := dict.leaf(s.StackIndex())
	if !ok {
		f = function{name: "(no stack)"}
	}

	u.samples += events
	u.total += weight
	if f.kernel {
		u.kernel += weight
	}
	if reason, told := dict.attribute(s.AttributeIndices(), attrStopReason); told && !stopreason.IsComplete(reason.Str()) {
		u.incomplete += weight
		if b := (brokenStack{proc.name, clean(reason.Str())}); len(u.broken) < maxRows || u.broken[b] > 0 {
			u.broken[b] += weight
		}
	}
	key := rowKey{proc, f}
	if _, ok := u.rows[key]; !ok && len(u.rows) >= maxRows {
		u.beyond += weight
		return
	}
	u.rows[key] += weight
	u.processes[proc] = struct{}{}
}

// eventsOf returns how many events a sample stands for and the sum of its values; without values each event counts as 1.
func eventsOf(s pprofile.Sample) (events uint64, value float64) {
	n := s.TimestampsUnixNano().Len()
	if s.Values().Len() == 0 {
		return uint64(n), float64(n)
	}
	for _, v := range s.Values().All() {
		value += math.Max(float64(v), 0)
	}
	return uint64(max(n, 1)), value
}

// hostOf returns what a host is known by, empty if nothing is told.
func hostOf(attributes pcommon.Map) string {
	for _, key := range []string{attrHostID, attrHostName} {
		if v, ok := attributes.Get(key); ok && v.AsString() != "" {
			return clean(v.AsString())
		}
	}
	return ""
}

func processOf(attributes pcommon.Map) process {
	get := func(key string) (pcommon.Value, bool) { return attributes.Get(key) }
	return processFrom(get, attrExecutableName, attrExecutablePath, attrCommand, attrServiceName)
}

// processOfSample finds the process of a sample whose resource is not one: some sources send a whole host as one.
func processOfSample(dict *dictionary, s pprofile.Sample, resource process) process {
	get := func(key string) (pcommon.Value, bool) { return dict.attribute(s.AttributeIndices(), key) }
	p := processFrom(get, attrExecutableName, attrExecutablePath, attrServiceName)
	if p.name == "" {
		p.name = resource.name
	}
	if p.name == "" {
		p.name = processFrom(get, attrThreadName).name
	}
	return p
}

func processFrom(get func(key string) (pcommon.Value, bool), names ...string) process {
	var p process
	if v, ok := get(attrPID); ok && v.Type() == pcommon.ValueTypeInt {
		p.pid = v.Int()
	}
	for _, key := range names {
		if v, ok := get(key); ok && v.Type() == pcommon.ValueTypeStr && v.Str() != "" {
			p.name = v.Str()
			if key == attrExecutablePath || key == attrCommand {
				p.name = path.Base(p.name)
			}
			p.name = clean(p.name)
			break
		}
	}
	return p
}
