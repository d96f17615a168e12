package pprof

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/google/pprof/profile"
)

// emit appends the pprof profiles of a family.
func (t *translation) emit(out []*profile.Profile, f *family) ([]*profile.Profile, error) {
	outputs, of := t.outputs(f)
	place := make([]int, len(f.columns)) // of a column in its profile
	for _, o := range outputs {
		slices.SortStableFunc(o.columns, func(a, b int32) int { return cmp.Compare(f.columns[a].order, f.columns[b].order) })
		for i, c := range o.columns {
			place[c] = i
		}
		if err := t.d.budget.take(len(o.rows), 8*int64(len(o.columns))); err != nil {
			return nil, err
		}
		o.values = make([]int64, len(o.rows)*len(o.columns))
	}
	for _, c := range f.cells {
		o := of[c.column]
		v := &o.values[f.rows[c.row].place*len(o.columns)+place[c.column]]
		var err error
		if *v, err = sum(*v, c.value); err != nil {
			return nil, err
		}
	}
	for _, o := range outputs {
		if len(o.rows) == 0 {
			continue
		}
		p, err := o.emit()
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// outputs divides a family into pprof profiles. of says by column which one it belongs to.
func (t *translation) outputs(f *family) (all, of []*output) {
	of = make([]*output, len(f.columns))
	for c := range f.columns {
		root := f.find(int32(c)) // the lowest, so it was here before
		if int(root) == c {
			of[c] = &output{translation: t, family: f}
			all = append(all, of[c])
		}
		of[c] = of[root]
		of[c].columns = append(of[c].columns, int32(c))
	}
	for id := range f.rows {
		r := &f.rows[id]
		o := of[r.column]
		r.place = len(o.rows)
		o.rows = append(o.rows, int32(id))
	}
	for _, h := range f.profiles {
		of[h.column].headers = append(of[h.column].headers, h)
	}
	return all, of
}

// output is one pprof profile in the making.
type output struct {
	*translation
	family  *family
	columns []int32
	rows    []int32
	headers []header
	values  []int64 // of the rows, column by column

	p         *profile.Profile
	locations []*profile.Location // by id in the dictionary
	stacks    map[int32][]*profile.Location
	labelMaps map[int32]*labelMaps
}

func (o *output) emit() (*profile.Profile, error) {
	o.p = o.header()
	if err := o.tables(); err != nil {
		return nil, err
	}
	if err := o.samples(); err != nil {
		return nil, err
	}
	return o.p, nil
}

// header fills in what a profile says once, from all OTLP profiles that are in it.
func (o *output) header() *profile.Profile {
	text := func(id int32) string { return o.d.texts.all[id] }
	key := o.family.key
	p := &profile.Profile{
		DropFrames: text(key.drop), KeepFrames: text(key.keep), Period: key.period,
		PeriodType: &profile.ValueType{Type: text(key.periodType), Unit: text(key.periodUnit)},
	}
	for _, c := range o.columns {
		k := o.family.columns[c]
		p.SampleType = append(p.SampleType, &profile.ValueType{Type: text(k.kind), Unit: text(k.unit)})
	}
	seen := map[int32]bool{}
	for _, h := range o.headers {
		if p.DocURL == "" {
			p.DocURL = text(h.docURL)
		}
		if p.DefaultSampleType == "" {
			p.DefaultSampleType = text(h.defaultType)
		}
		for _, c := range h.comments {
			if !seen[c] {
				seen[c] = true
				p.Comments = append(p.Comments, text(c))
			}
		}
	}
	p.TimeNanos, p.DurationNanos = window(o.headers)
	return p
}

// window returns the smallest window that covers all; a time of 0 is not known. If all are the same it is that one.
func window(all []header) (start, duration int64) {
	same := true
	start, end := int64(math.MaxInt64), int64(0)
	for _, h := range all {
		same = same && h.time == all[0].time && h.duration == all[0].duration
		if h.time > 0 && h.duration >= 0 {
			start, end = min(start, h.time), max(end, h.time+min(h.duration, math.MaxInt64-h.time))
		} else {
			duration = max(duration, h.duration)
		}
	}
	if same {
		return all[0].time, all[0].duration
	}
	if end == 0 {
		return 0, duration
	}
	return start, end - start
}

// Sizes in memory, about, of what pprof repeats: struct, pointers to it, entries of maps.
const (
	sizeSample   = 160
	sizeLabel    = 100
	sizeMapping  = 200
	sizeLocation = 120
	sizeLine     = 40
	sizeFunction = 120
	sizeMap      = 400 // one with a few entries
	// sizeReference is less than a pointer: samples share their slices of locations, but the file and whoever walks the
	// samples does not.
	sizeReference = 2
)

func (o *output) samples() error {
	samples := make([]profile.Sample, len(o.rows))
	o.p.Sample = make([]*profile.Sample, len(o.rows))
	o.labelMaps = map[int32]*labelMaps{}
	n := len(o.columns)
	for i, id := range o.rows {
		r := o.family.rows[id]
		s := &samples[i]
		o.p.Sample[i] = s
		s.Location = o.stacks[r.stack]
		s.Value = o.values[i*n : (i+1)*n : (i+1)*n]
		if err := o.d.budget.take(len(s.Location), sizeReference); err != nil {
			return err
		}
		m, err := o.labelsOf(r.labels)
		if err != nil {
			return err
		}
		s.Label, s.NumLabel, s.NumUnit = m.str, m.num, m.unit
		if r.time == 0 {
			continue
		}
		if err := o.d.budget.take(1+len(m.num)/4, sizeMap); err != nil {
			return err
		}
		s.NumLabel = make(map[string][]int64, len(m.num)+1)
		maps.Copy(s.NumLabel, m.num)
		s.NumLabel[labelTimestamp] = append(slices.Clip(m.num[labelTimestamp]), int64(r.time))
		s.NumUnit = m.unitTimed
	}
	return nil
}

// labelMaps are the labels of samples in pprof's shape; nil where there are none.
type labelMaps struct {
	str  map[string][]string
	num  map[string][]int64
	unit map[string][]string
	// unitTimed is unit and that of the timestamp.
	unitTimed map[string][]string
}

func (o *output) labelsOf(id int32) (*labelMaps, error) {
	if m, known := o.labelMaps[id]; known {
		return m, nil
	}
	m := &labelMaps{}
	tags, err := o.tagsOf(o.labels[id])
	if err != nil {
		return nil, err
	}
	if err := o.d.budget.take(len(tags)+sizeMap/sizeLabel, sizeLabel); err != nil {
		return nil, err
	}
	for _, t := range tags {
		m.add(t)
	}
	// There are numbers under the timestamp's key only if an attribute for odd labels says so.
	m.unitTimed = make(map[string][]string, len(m.unit)+1)
	maps.Copy(m.unitTimed, m.unit)
	m.unitTimed[labelTimestamp] = append(padded(m.unit[labelTimestamp], len(m.num[labelTimestamp])), unitNanoseconds)
	o.labelMaps[id] = m
	return m, nil
}

func (m *labelMaps) add(t tag) {
	if !t.numeric {
		if m.str == nil {
			m.str = map[string][]string{}
		}
		m.str[t.key] = append(m.str[t.key], t.str)
		return
	}
	if m.num == nil {
		m.num = map[string][]int64{}
	}
	m.num[t.key] = append(m.num[t.key], t.num)
	if t.unit == "" && m.unit[t.key] == nil {
		return
	}
	if m.unit == nil {
		m.unit = map[string][]string{}
	}
	m.unit[t.key] = append(padded(m.unit[t.key], len(m.num[t.key])-1), t.unit)
}

// tagsOf returns all labels of a sample.
func (t *translation) tagsOf(l labels) ([]tag, error) {
	var tags []tag
	for _, id := range t.bases.all[l.base] {
		tags = append(tags, t.d.tags[id])
	}
	link := t.d.links[l.link]
	tags = append(tags, link.tags()...)
	attributes := t.d.sets.all[l.attributes]
	forced := l.link != 0 || t.looksLikeLink(attributes)
	for _, id := range attributes {
		s, v := t.d.attributes[id], t.d.values[id]
		key := t.d.texts.all[s.key]
		if odd, ok := oddLabel(key, v); ok {
			tags = append(tags, odd...)
			continue
		}
		tag, err := t.d.tag(onSample, forced && linkLabel(key), s, v)
		if err != nil {
			return nil, err
		}
		tags = append(tags, t.d.tags[tag])
	}
	return tags, nil
}

// looksLikeLink tells whether the plain labels of these attributes would be those of a link.
func (t *translation) looksLikeLink(attributes []int32) bool {
	var trace, span string
	for _, id := range attributes {
		s := t.d.attributes[id]
		if s.unit != 0 {
			continue
		}
		switch t.d.texts.all[s.key] {
		case labelTraceID:
			trace = t.d.values[id].Str()
		case labelSpanID:
			span = t.d.values[id].Str()
		}
	}
	_, ok := parseLink(trace, span)
	return ok
}
