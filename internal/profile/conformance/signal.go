package conformance

import (
	"fmt"
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

// signal checks resources, scopes, profiles and samples.
type signal struct {
	c          Checker
	r          *report
	d          *dictionary
	used       *reach
	profileIDs map[pprofile.ProfileID]string // id -> path
}

func (s *signal) check(p pprofile.Profiles) {
	if p.ResourceProfiles().Len() == 0 && !s.c.MayBeEmpty {
		s.r.addf("resource_profiles", "there are none")
	}
	resources := map[string]int{}
	for i, rp := range p.ResourceProfiles().All() {
		path := fmt.Sprintf("resource_profiles[%d]", i)
		attributes := rp.Resource().Attributes()
		s.c.checkMap(s.r, path+".resource", attributes, onResource)
		eachString(attributes, func(v string) { s.used.byText[v] = true })
		if !s.c.AnyResource {
			for _, key := range []string{"process.pid", "process.creation.time"} {
				if _, ok := attributes.Get(key); !ok {
					s.r.addf(path+".resource", "attribute %s is missing", key)
				}
			}
		}
		identity := fmt.Sprintf("%#v", attributes.AsRaw())
		if other, known := resources[identity]; known {
			s.r.addf(path+".resource", "is the same resource as resource_profiles[%d]", other)
		} else {
			resources[identity] = i
		}
		if rp.SchemaUrl() == "" {
			s.r.addf(path, "schema_url is empty")
		}
		if rp.ScopeProfiles().Len() == 0 {
			s.r.addf(path+".scope_profiles", "there are none")
		}
		for j, sp := range rp.ScopeProfiles().All() {
			s.scope(fmt.Sprintf("%s.scope_profiles[%d]", path, j), sp)
		}
	}
}

func (s *signal) scope(path string, sp pprofile.ScopeProfiles) {
	if sp.Scope().Name() == "" {
		s.r.addf(path+".scope", "name is empty")
	}
	s.c.checkMap(s.r, path+".scope", sp.Scope().Attributes(), onScope)
	eachString(sp.Scope().Attributes(), func(v string) { s.used.byText[v] = true })
	if sp.Profiles().Len() == 0 {
		s.r.addf(path+".profiles", "there are none")
	}
	for i, p := range sp.Profiles().All() {
		s.profile(fmt.Sprintf("%s.profiles[%d]", path, i), p)
	}
}

// kind is what a profile is of.
type kind struct {
	sample, sampleUnit, period, periodUnit string
}

func (k kind) onCPU() bool { return k.sample == "samples" && k.period == "cpu" }

func (s *signal) profile(path string, p pprofile.Profile) {
	k := s.kind(path, p)
	if id := p.ProfileID(); id.IsEmpty() {
		s.r.addf(path, "profile_id is missing or zero")
	} else if other, known := s.profileIDs[id]; known {
		s.r.addf(path, "profile_id is that of %s", other)
	} else {
		s.profileIDs[id] = path
	}
	if (p.OriginalPayloadFormat() == "") != (p.OriginalPayload().Len() == 0) {
		s.r.addf(path, "original_payload and original_payload_format belong together")
	}
	if p.Time() == 0 {
		s.r.addf(path, "time_unix_nano is 0")
	}
	if uint64(p.Time())+p.DurationNano() < uint64(p.Time()) {
		s.r.addf(path, "duration_nano %d overflows", p.DurationNano())
	}
	s.d.checkAttributes(path, p.AttributeIndices(), onProfile)
	s.used.attributeList(p.AttributeIndices())
	if p.Samples().Len() == 0 {
		s.r.addf(path+".samples", "there are none")
	}
	shape := ""
	identities := make(map[string]int, p.Samples().Len())
	for i, sample := range p.Samples().All() {
		path := fmt.Sprintf("%s.samples[%d]", path, i)
		got := s.sample(path, sample, p, k)
		if shape == "" {
			shape = got
		} else if got != "" && got != shape {
			s.r.addf(path, "has %s, but the samples before have %s", got, shape)
		}
		id := s.identity(sample)
		if other, known := identities[id]; known {
			s.r.addf(path, "has the same stack, attributes and link as samples[%d]", other)
		} else {
			identities[id] = i
		}
	}
}

func (s *signal) kind(path string, p pprofile.Profile) kind {
	strings := s.d.t.StringTable().Len()
	for _, t := range []struct {
		name string
		v    pprofile.ValueType
	}{{"sample_type", p.SampleType()}, {"period_type", p.PeriodType()}} {
		s.d.index(path, t.name+".type_strindex", t.v.TypeStrindex(), strings)
		s.d.index(path, t.name+".unit_strindex", t.v.UnitStrindex(), strings)
		s.used.valueType(t.v)
	}
	k := kind{
		s.d.text(p.SampleType().TypeStrindex()), s.d.text(p.SampleType().UnitStrindex()),
		s.d.text(p.PeriodType().TypeStrindex()), s.d.text(p.PeriodType().UnitStrindex()),
	}
	if k.sample == "" || k.sampleUnit == "" {
		s.r.addf(path, "sample_type needs a type and a unit, not %q and %q", k.sample, k.sampleUnit)
	}
	if (k.period == "") != (k.periodUnit == "") {
		s.r.addf(path, "period_type needs both a type and a unit or neither, not %q and %q", k.period, k.periodUnit)
	}
	if p.Period() < 0 {
		s.r.addf(path, "period %d is negative", p.Period())
	}
	if (p.Period() > 0) != (k.period != "") {
		s.r.addf(path, "period %d with the period type %q", p.Period(), k.period)
	}
	// Elastic accepts nothing else, and divides by the period.
	if k.onCPU() && (k.sampleUnit != "count" || k.periodUnit != "nanoseconds") {
		s.r.addf(path, "on-CPU samples are (samples, count) with the period (cpu, nanoseconds), not %q", k)
	}
	// Pyroscope.
	if k.sample == "off_cpu" && (k.sampleUnit != "nanoseconds" || k.period != "") {
		s.r.addf(path, "off-CPU samples are (off_cpu, nanoseconds) without a period, not %q", k)
	}
	return k
}

// sample checks one sample and returns its shape.
func (s *signal) sample(path string, v pprofile.Sample, p pprofile.Profile, k kind) (shape string) {
	s.d.index(path, "stack_index", v.StackIndex(), s.d.t.StackTable().Len())
	s.d.index(path, "link_index", v.LinkIndex(), s.d.t.LinkTable().Len())
	s.d.checkAttributes(path, v.AttributeIndices(), onSample)
	s.used.stack(v.StackIndex())
	s.used.link(v.LinkIndex())
	s.used.attributeList(v.AttributeIndices())

	start, end := uint64(p.Time()), uint64(p.Time())+p.DurationNano()
	before := uint64(0)
	for _, t := range v.TimestampsUnixNano().All() {
		if t < start || t >= end {
			s.r.addf(path, "timestamp %d is outside of the profile's [%d, %d)", t, start, end)
		}
		if t < before {
			s.r.addf(path, "timestamp %d follows %d", t, before)
		}
		before = t
	}
	times, values := v.TimestampsUnixNano().Len(), v.Values().Len()
	switch {
	case times == 0 && values == 0:
		s.r.addf(path, "has neither values nor timestamps")
		return ""
	case values == 0:
		shape = "timestamps"
	case times == 0:
		shape = "a value"
		if values != 1 {
			s.r.addf(path, "has %d values without timestamps, not 1", values)
		}
	default:
		shape = "timestamps and values"
		if times != values {
			s.r.addf(path, "has %d timestamps, but %d values", times, values)
		}
	}
	if k.onCPU() && times == 0 {
		s.r.addf(path, "an on-CPU sample needs timestamps")
	}
	// Pyroscope refuses the whole request.
	if !k.onCPU() && p.Period() != 0 && values != 1 {
		s.r.addf(path, "has %d values, but with a period of %s there must be 1", values, k.period)
	}
	return shape
}

// identity is what makes samples distinct, by value.
func (s *signal) identity(v pprofile.Sample) string {
	same := func(table []int32, i int32) int32 {
		if i >= 0 && int(i) < len(table) {
			return table[i]
		}
		return i
	}
	return fmt.Sprint(same(s.d.stacks, v.StackIndex()), same(s.d.links, v.LinkIndex()), s.attributeSet(v.AttributeIndices()))
}

func (s *signal) attributeSet(list pcommon.Int32Slice) []int32 {
	ids := list.AsRaw()
	for i, id := range ids {
		if id >= 0 && int(id) < len(s.d.attributes) {
			ids[i] = s.d.attributes[id]
		}
	}
	slices.Sort(ids)
	return ids
}
