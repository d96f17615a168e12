package pprof

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"

	"github.com/google/pprof/profile"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"

	ownprofile "github.com/hostprofiles/hostprofiles/internal/profile"
)

// emitter writes the Profiles.
type emitter struct {
	*sampler
	order   []int   // columns, the default one first: viewers show a payload's first Profile by default
	number  []int64 // by column: how many before it have the same type
	content content
	common  []attribute          // of all Profiles
	lists   map[[2]int32][]int32 // by column and list of a profile's labels: attribute indices
	start   int64
	length  int64
	period  int64
	times   []uint64
	values  []int64
}

func (s *sampler) emit(opt ToOptions) {
	e := &emitter{sampler: s, order: columnOrder(s.p), lists: map[[2]int32][]int32{}}
	e.content = s.content(e.order[0])
	same := map[[2]string]int64{}
	for _, t := range s.p.SampleType {
		key := [2]string{s.mend(t.Type), s.mend(t.Unit)}
		e.number = append(e.number, same[key])
		same[key]++
	}
	e.window(opt)
	e.header()
	for _, g := range s.groups {
		g.sortPoints()
	}
	for _, same := range divide(s.groups, func(g *group) int32 { return g.resource }) {
		e.resource(e.out.ResourceProfiles().AppendEmpty(), same)
	}
}

// divide divides groups by a key, in the order in which the keys come first.
func divide(groups []*group, key func(*group) int32) (divided [][]*group) {
	place := map[int32]int{}
	for _, g := range groups {
		i, known := place[key(g)]
		if !known {
			i = len(divided)
			place[key(g)] = i
			divided = append(divided, nil)
		}
		divided[i] = append(divided[i], g)
	}
	return divided
}

// columnOrder returns the columns with the default one first: pprof's is the last one unless the profile names one.
func columnOrder(p *profile.Profile) []int {
	first := len(p.SampleType) - 1
	if p.DefaultSampleType != "" {
		if i := slices.IndexFunc(p.SampleType, func(t *profile.ValueType) bool { return t.Type == p.DefaultSampleType }); i >= 0 {
			first = i
		}
	}
	order := []int{first}
	for i := range p.SampleType {
		if i != first {
			order = append(order, i)
		}
	}
	return order
}

// window chooses time and duration so that they cover the timestamps too.
func (e *emitter) window(opt ToOptions) {
	e.start, e.length = max(e.p.TimeNanos, 0), max(e.p.DurationNanos, 0)
	end := e.start + min(e.length, math.MaxInt64-e.start)
	if e.first != 0 {
		if e.start == 0 || e.first < e.start {
			e.start = e.first
		}
		end = max(end, e.last+1)
		e.length = end - e.start
	} else if e.start == 0 && !opt.Time.IsZero() {
		e.start = max(opt.Time.UnixNano(), 0)
	}
	e.length = min(e.length, math.MaxInt64-e.start)
	if e.start != e.p.TimeNanos || e.length != e.p.DurationNanos {
		e.say(attrWindow, e.p.TimeNanos, e.p.DurationNanos)
	}
}

// say adds an attribute to all Profiles: a list of strings and integers.
func (e *emitter) say(key string, list ...any) { e.common = append(e.common, e.list(key, list...)) }

func (e *emitter) list(key string, list ...any) attribute {
	v := pcommon.NewValueSlice()
	for _, x := range list {
		switch x := x.(type) {
		case string:
			v.Slice().AppendEmpty().SetStr(e.mend(x))
		case int64:
			v.Slice().AppendEmpty().SetInt(x)
		}
	}
	return attribute{key: key, value: v}
}

// header gathers what all Profiles have in common.
func (e *emitter) header() {
	var comments []any
	seen := map[string]bool{}
	for _, c := range e.p.Comments {
		if !seen[c] {
			seen[c] = true
			comments = append(comments, c)
		}
	}
	if len(comments) > 0 {
		e.say(attrComment, comments...)
	}
	for _, a := range []struct{ key, value string }{
		{attrDocURL, e.p.DocURL}, {attrDropFrames, e.p.DropFrames}, {attrKeepFrames, e.p.KeepFrames},
	} {
		if a.value != "" {
			e.common = append(e.common, attribute{key: a.key, value: pcommon.NewValueStr(a.value)})
		}
	}
	if t := e.p.PeriodType; e.periodFits() {
		e.period = e.p.Period
	} else if t == nil {
		e.say(attrPeriod, "", "", e.p.Period)
	} else {
		e.say(attrPeriod, t.Type, t.Unit, e.p.Period)
	}
}

// periodFits tells whether OTLP can hold the period: a type with a unit and a period, or none of them.
func (e *emitter) periodFits() bool {
	t := e.p.PeriodType
	if t == nil || t.Type == "" && t.Unit == "" {
		return e.p.Period == 0
	}
	return t.Type != "" && t.Unit != "" && e.p.Period > 0
}

func (e *emitter) resource(to pprofile.ResourceProfiles, groups []*group) {
	to.SetSchemaUrl(ownprofile.SchemaURL)
	for _, id := range e.labels.lists.all[groups[0].resource] {
		if l := e.labels.labels[id]; l.field != "" {
			to.SetSchemaUrl(l.value.Str())
		} else {
			l.value.CopyTo(to.Resource().Attributes().PutEmpty(l.key))
		}
	}
	for _, same := range divide(groups, func(g *group) int32 { return g.scope }) {
		e.scope(to.ScopeProfiles().AppendEmpty(), same)
	}
}

func (e *emitter) scope(to pprofile.ScopeProfiles, groups []*group) {
	scope := to.Scope()
	scope.SetName(ScopeName)
	to.SetSchemaUrl(ownprofile.SchemaURL)
	for _, id := range e.labels.lists.all[groups[0].scope] {
		switch l := e.labels.labels[id]; l.field {
		case labelScopeName:
			scope.SetName(l.value.Str())
		case labelScopeVersion:
			scope.SetVersion(l.value.Str())
		case labelScopeSchema:
			to.SetSchemaUrl(l.value.Str())
		default:
			l.value.CopyTo(scope.Attributes().PutEmpty(l.key))
		}
	}
	if e.p.DefaultSampleType != "" {
		scope.Attributes().PutStr(attrDefaultType, e.mend(e.p.DefaultSampleType))
	}
	order := pcommon.NewSlice()
	for _, g := range groups {
		for _, c := range e.order {
			if e.profile(to.Profiles(), g, c) {
				order.AppendEmpty().SetInt(int64(c))
			}
		}
	}
	if e.columns > 1 {
		order.CopyTo(scope.Attributes().PutEmptySlice(attrTypeOrder))
	}
}

// profile appends a column of a group as a Profile, if there is anything in it.
func (e *emitter) profile(all pprofile.ProfilesSlice, g *group, column int) (written bool) {
	count, total, ones := 0, int64(0), g.timed
	for i, p := range g.points {
		if values := e.valuesOf(g, p); e.written(g, i, column) {
			count++
			total += values[column] // a checksum: it may wrap around
			ones = ones && values[column] == 1
		}
	}
	if count == 0 {
		return false
	}
	to := all.AppendEmpty()
	e.types(to, g, column)
	to.SetPeriod(e.period)
	to.SetTime(pcommon.Timestamp(e.start))
	to.SetDurationNano(uint64(e.length))
	to.SetProfileID(e.profileID(g, column, count, total))
	to.Samples().EnsureCapacity(min(count, len(g.samples)))
	for from := 0; from < len(g.points); {
		e.times, e.values = e.times[:0], e.values[:0]
		sample, i := g.points[from].sample, from
		for ; i < len(g.points) && g.points[i].sample == sample; i++ {
			if e.written(g, i, column) {
				e.times = append(e.times, uint64(g.points[i].time))
				e.values = append(e.values, e.valuesOf(g, g.points[i])[column])
			}
		}
		if from = i; len(e.values) > 0 {
			e.sample(to.Samples().AppendEmpty(), g, g.samples[sample], ones)
		}
	}
	return true
}

func (e *emitter) valuesOf(g *group, p point) []int64 { return g.values[p.values : p.values+e.columns] }

// written tells whether point i of a group has a value in a column.
func (e *emitter) written(g *group, i, column int) bool {
	return e.content.written(e.valuesOf(g, g.points[i]), column, i == 0 && g == e.groups[0])
}

// sample writes a sample; ones says that all values of the Profile are 1, which timestamps alone say too.
func (e *emitter) sample(to pprofile.Sample, g *group, key sampleKey, ones bool) {
	to.SetStackIndex(key.stack)
	to.SetLinkIndex(key.link)
	to.AttributeIndices().FromRaw(e.sets.all[key.attributes])
	if g.timed {
		to.TimestampsUnixNano().FromRaw(e.times)
	}
	if !ones {
		to.Values().FromRaw(e.values)
	}
}

// types writes the sample type, the period type and the attributes of a Profile.
func (e *emitter) types(to pprofile.Profile, g *group, column int) {
	key := [2]int32{int32(column), g.groupKey.profile}
	list, known := e.lists[key]
	if !known {
		list = e.attributes(g, column)
		e.lists[key] = list
	}
	to.AttributeIndices().FromRaw(list)
	kind, unit := e.p.SampleType[column].Type, e.p.SampleType[column].Unit
	to.SampleType().SetTypeStrindex(e.stringOf(e.text(cmp.Or(kind, "unknown"))))
	to.SampleType().SetUnitStrindex(e.stringOf(e.text(cmp.Or(unit, "1")))) // UCUM's unit of what has none
	if e.period != 0 {
		to.PeriodType().SetTypeStrindex(e.stringOf(e.text(e.p.PeriodType.Type)))
		to.PeriodType().SetUnitStrindex(e.stringOf(e.text(e.p.PeriodType.Unit)))
	}
}

// attributes returns those of a Profile, as indices.
func (e *emitter) attributes(g *group, column int) []int32 {
	attributes := slices.Clip(e.common)
	if t := e.p.SampleType[column]; t.Type == "" || t.Unit == "" {
		attributes = append(attributes, e.list(attrSampleType, t.Type, t.Unit))
	}
	if n := e.number[column]; n > 0 {
		attributes = append(attributes, attribute{key: attrColumn, value: pcommon.NewValueInt(n)})
	}
	for _, id := range e.labels.lists.all[g.groupKey.profile] {
		attributes = append(attributes, e.labels.labels[id].attribute)
	}
	return e.set(attributes)
}

// profileID identifies a Profile by its types, window and labels and by how much it holds, so that the same one translated
// twice can be told.
func (e *emitter) profileID(g *group, column, count int, total int64) (id pprofile.ProfileID) {
	h := sha256.New()
	number := func(n int64) { h.Write(binary.LittleEndian.AppendUint64(nil, uint64(n))) }
	text := func(s string) {
		number(int64(len(s)))
		h.Write([]byte(s))
	}
	t := e.p.SampleType[column]
	for _, s := range []string{t.Type, t.Unit, e.p.DefaultSampleType} {
		text(s)
	}
	if e.p.PeriodType != nil {
		text(e.p.PeriodType.Type)
	}
	for _, n := range []int64{e.p.Period, e.start, e.length, int64(g.number), int64(column), int64(count), total} {
		number(n)
	}
	for _, list := range []int32{g.resource, g.scope, g.groupKey.profile} {
		for _, label := range e.labels.lists.all[list] {
			l := e.labels.labels[label].tag
			text(l.key)
			text(l.str)
			number(l.num)
		}
	}
	copy(id[:], h.Sum(nil))
	return id
}
