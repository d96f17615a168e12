package store

import (
	"encoding/binary"
	"math"
	"strconv"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

// Export is how profiles are to be made of a selection.
type Export struct {
	Selection
	// OnePeriod makes sums of periods of what was sampled at different ones.
	OnePeriod bool
	// NoTimes sums samples up whatever their time.
	NoTimes bool
	// EachTime says that a sample is to be made for each time, as pprof needs. Export does not; it takes memory.
	EachTime bool
}

// Export makes OTLP profiles of a selection: one profile for each resource, scope and what its producer said of the profile, over
// the whole range. ok is false if there is no such profile type.
func (s *Snapshot) Export(x Export) (p pprofile.Profiles, ok bool) {
	p = pprofile.NewProfiles()
	w, ok := s.work(x.Selection)
	if !ok {
		return p, false
	}
	e := newExporter(s, p)
	e.noTimes = x.NoTimes
	if x.OnePeriod && w.info.mixed {
		e.weight = w.weight
	}
	w.rows(func(g *segment, i int, _ int64) { e.row(g, i) })
	e.finish()
	return p, true
}

// exportedSample is what makes samples one.
type exportedSample struct{ series, node uint32 }

// exportedProfile is what makes profiles one. All that are brought to one period have no type here.
type exportedProfile struct{ resource, scope, of, profileType uint32 }

type exporter struct {
	s    *Snapshot
	p    pprofile.Profiles
	dict pprofile.ProfilesDictionary

	weight  []int64 // by profile type; nil: values are as they are
	noTimes bool

	strings, attrs, functions, mappings, locations, links map[uint32]int32
	stacks                                                map[uint32]int32
	resources                                             map[uint32]pprofile.ResourceProfiles
	scopes                                                map[[2]uint32]pprofile.ScopeProfiles
	profiles                                              map[exportedProfile]*exporting
	order                                                 []*exporting
}

// exporting is a profile that is being made.
type exporting struct {
	profile  pprofile.Profile
	samples  map[exportedSample]pprofile.Sample
	from, to int64 // Unix µs
}

func newExporter(s *Snapshot, p pprofile.Profiles) *exporter {
	e := &exporter{
		s: s, p: p, dict: p.Dictionary(),
		strings: map[uint32]int32{0: 0}, attrs: map[uint32]int32{}, functions: map[uint32]int32{0: 0}, mappings: map[uint32]int32{0: 0},
		locations: map[uint32]int32{0: 0}, links: map[uint32]int32{0: 0}, stacks: map[uint32]int32{0: 0},
		resources: map[uint32]pprofile.ResourceProfiles{}, scopes: map[[2]uint32]pprofile.ScopeProfiles{},
		profiles: map[exportedProfile]*exporting{},
	}
	e.dict.StringTable().Append("")
	e.dict.AttributeTable().AppendEmpty()
	e.dict.FunctionTable().AppendEmpty()
	e.dict.MappingTable().AppendEmpty()
	e.dict.LocationTable().AppendEmpty()
	e.dict.LinkTable().AppendEmpty()
	e.dict.StackTable().AppendEmpty()
	return e
}

func (e *exporter) row(g *segment, i int) {
	se := &e.s.series[g.series[i]]
	x := e.profile(se)
	at := g.base + int64(g.at[i])
	x.from, x.to = min(x.from, at), max(x.to, at+1)
	k := exportedSample{g.series[i], g.node[i]}
	sample, ok := x.samples[k]
	if !ok {
		sample = x.profile.Samples().AppendEmpty()
		sample.SetStackIndex(e.stack(k.node))
		sample.SetLinkIndex(e.link(se.link))
		e.attributes(sample.AttributeIndices(), se.attributes)
		x.samples[k] = sample
	}
	value := g.value[i]
	if e.weight != nil {
		value = saturatingMul(value, e.weight[se.profileType])
	}
	e.observe(sample, g.untimed[i] || e.noTimes, at, value)
}

// observe adds a row to its sample. A sample has times for all of its values or for none.
func (e *exporter) observe(sample pprofile.Sample, untimed bool, at, value int64) {
	times, values := sample.TimestampsUnixNano(), sample.Values()
	if untimed || values.Len() > times.Len() {
		makeUntimed(sample, value)
		return
	}
	times.Append(uint64(at) * 1000)
	values.Append(value)
}

func (e *exporter) profile(se *series) *exporting {
	k := exportedProfile{se.resource, se.scope, se.of, se.profileType}
	t := e.s.types[se.profileType]
	if e.weight != nil {
		k.profileType = 0
		t.sampleType, t.sampleUnit, t.period = t.periodType, t.periodUnit, 1
	}
	x, ok := e.profiles[k]
	if !ok {
		x = &exporting{profile: e.scope(se).Profiles().AppendEmpty(), samples: map[exportedSample]pprofile.Sample{}, from: math.MaxInt64}
		x.profile.SampleType().SetTypeStrindex(e.string(t.sampleType))
		x.profile.SampleType().SetUnitStrindex(e.string(t.sampleUnit))
		x.profile.PeriodType().SetTypeStrindex(e.string(t.periodType))
		x.profile.PeriodType().SetUnitStrindex(e.string(t.periodUnit))
		x.profile.SetPeriod(t.period)
		e.attributes(x.profile.AttributeIndices(), se.of)
		e.profiles[k] = x
		e.order = append(e.order, x)
	}
	return x
}

func (e *exporter) scope(se *series) pprofile.ScopeProfiles {
	k := [2]uint32{se.resource, se.scope}
	sp, ok := e.scopes[k]
	if ok {
		return sp
	}
	rp, ok := e.resources[se.resource]
	if !ok {
		r := e.s.resources[se.resource]
		rp = e.p.ResourceProfiles().AppendEmpty()
		rp.SetSchemaUrl(e.s.strings[r.schemaURL])
		e.attributeMap(rp.Resource().Attributes(), r.attributes)
		e.resources[se.resource] = rp
	}
	sc := e.s.scopes[se.scope]
	sp = rp.ScopeProfiles().AppendEmpty()
	sp.SetSchemaUrl(e.s.strings[sc.schemaURL])
	sp.Scope().SetName(e.s.strings[sc.name])
	sp.Scope().SetVersion(e.s.strings[sc.version])
	e.attributeMap(sp.Scope().Attributes(), sc.attributes)
	e.scopes[k] = sp
	return sp
}

// finish writes what is known of a profile when all its rows are there.
func (e *exporter) finish() {
	for i, x := range e.order {
		x.profile.SetTime(pcommon.Timestamp(uint64(x.from) * 1000))
		x.profile.SetDurationNano(uint64(x.to-x.from) * 1000)
		x.profile.SetProfileID(x.id(i))
		x.shape()
	}
}

// id is made of what the profile has of its own.
func (x *exporting) id(i int) (id pprofile.ProfileID) {
	h := fnv(offset64, strconv.Itoa(i))
	for _, v := range []int64{x.from, x.to, int64(x.profile.Samples().Len())} {
		h = fnv(h, strconv.FormatInt(v, 10))
	}
	binary.BigEndian.PutUint64(id[:], h)
	binary.BigEndian.PutUint64(id[8:], fnv(h, "id"))
	return id
}

// shape brings all samples to one of the shapes that the specification has: times alone, each of which stands for one, times
// and values, or one value.
func (x *exporting) shape() {
	timed, ones := true, true
	for _, sample := range x.profile.Samples().All() {
		timed = timed && sample.TimestampsUnixNano().Len() == sample.Values().Len()
		for _, v := range sample.Values().All() {
			ones = ones && v == 1
		}
	}
	for _, sample := range x.profile.Samples().All() {
		switch {
		case !timed:
			makeUntimed(sample, 0)
		case ones:
			sample.Values().FromRaw(nil)
		}
	}
}

// makeUntimed sums a sample's values and one more up.
func makeUntimed(sample pprofile.Sample, sum int64) {
	values := sample.Values()
	if values.Len() == 1 && sample.TimestampsUnixNano().Len() == 0 {
		values.SetAt(0, saturatingAdd(values.At(0), sum))
		return
	}
	for _, v := range values.All() {
		sum = saturatingAdd(sum, v)
	}
	sample.TimestampsUnixNano().FromRaw(nil)
	values.FromRaw([]int64{sum})
}

func (e *exporter) string(i uint32) int32 {
	return mapped(e.strings, i, func() int32 {
		e.dict.StringTable().Append(e.s.strings[i])
		return int32(e.dict.StringTable().Len() - 1)
	})
}

// mapped returns the index that i has in the dictionary, which put finds out the first time.
func mapped(memo map[uint32]int32, i uint32, put func() int32) int32 {
	at, ok := memo[i]
	if !ok {
		at = put()
		memo[i] = at
	}
	return at
}

func (e *exporter) attributes(to pcommon.Int32Slice, list uint32) {
	for i := range indices(e.s.lists[list]) {
		to.Append(mapped(e.attrs, i, func() int32 {
			a := e.s.attrs[i]
			kv := e.dict.AttributeTable().AppendEmpty()
			kv.SetKeyStrindex(e.string(a.key))
			kv.SetUnitStrindex(e.string(a.unit))
			e.value(kv.Value(), e.s.values[a.value])
			return int32(e.dict.AttributeTable().Len() - 1)
		}))
	}
}

func (e *exporter) attributeMap(to pcommon.Map, list uint32) {
	for i := range indices(e.s.lists[list]) {
		a := e.s.attrs[i]
		e.value(to.PutEmpty(e.s.strings[a.key]), e.s.values[a.value])
	}
}

func (e *exporter) value(to pcommon.Value, v value) {
	switch v.kind {
	case valueText:
		to.SetStr(e.s.strings[v.text])
	case valueBool:
		to.SetBool(v.number != 0)
	case valueInt:
		to.SetInt(int64(v.number))
	case valueDouble:
		to.SetDouble(math.Float64frombits(v.number))
	case valueBytes:
		to.SetEmptyBytes().FromRaw([]byte(e.s.strings[v.text]))
	case valueOther:
		e.s.others[v.number].CopyTo(to)
	case valueEmpty:
	}
}

func (e *exporter) link(i uint32) int32 {
	return mapped(e.links, i, func() int32 {
		l := e.dict.LinkTable().AppendEmpty()
		l.SetTraceID(e.s.links[i].trace)
		l.SetSpanID(e.s.links[i].span)
		return int32(e.dict.LinkTable().Len() - 1)
	})
}

func (e *exporter) function(i uint32) int32 {
	return mapped(e.functions, i, func() int32 {
		from := e.s.functions[i]
		f := e.dict.FunctionTable().AppendEmpty()
		f.SetNameStrindex(e.string(from.name))
		f.SetSystemNameStrindex(e.string(from.systemName))
		f.SetFilenameStrindex(e.string(from.file))
		f.SetStartLine(from.startLine)
		return int32(e.dict.FunctionTable().Len() - 1)
	})
}

func (e *exporter) mapping(i uint32) int32 {
	return mapped(e.mappings, i, func() int32 {
		from := e.s.mappings[i]
		m := e.dict.MappingTable().AppendEmpty()
		m.SetMemoryStart(from.start)
		m.SetMemoryLimit(from.limit)
		m.SetFileOffset(from.offset)
		m.SetFilenameStrindex(e.string(from.file))
		e.attributes(m.AttributeIndices(), from.attributes)
		return int32(e.dict.MappingTable().Len() - 1)
	})
}

func (e *exporter) location(i uint32) int32 {
	return mapped(e.locations, i, func() int32 {
		from := e.s.locations[i]
		l := e.dict.LocationTable().AppendEmpty()
		l.SetAddress(from.address)
		l.SetMappingIndex(e.mapping(from.mapping))
		e.attributes(l.AttributeIndices(), from.attributes)
		for k := range indices(e.s.lists[from.lines]) {
			at := e.s.lines[k]
			to := l.Lines().AppendEmpty()
			to.SetFunctionIndex(e.function(at.function))
			to.SetLine(at.line)
			to.SetColumn(at.column)
		}
		return int32(e.dict.LocationTable().Len() - 1)
	})
}

func (e *exporter) stack(n uint32) int32 {
	return mapped(e.stacks, n, func() int32 {
		st := e.dict.StackTable().AppendEmpty()
		for ; n != 0; n = e.s.nodes[n].parent {
			st.LocationIndices().Append(e.location(e.s.nodes[n].location))
		}
		return int32(e.dict.StackTable().Len() - 1)
	})
}

// ExportBytes is about the memory that an export takes, with making another format of it.
func (s *Snapshot) ExportBytes(x Export) int {
	w, ok := s.work(x.Selection)
	if !ok {
		return 0
	}
	rows, stacks, depths := 0, 0, 0
	seen, depth := make([]bool, len(s.nodes)), make([]uint16, len(s.nodes))
	for i, n := range s.nodes[1:] {
		depth[i+1] = depth[n.parent] + 1 // callers come before what they call
	}
	w.rows(func(g *segment, i int, _ int64) {
		rows++
		if n := g.node[i]; !seen[n] {
			seen[n] = true
			stacks++
			depths += int(depth[n])
		}
	})
	const perStack, perFrame, perRow, perTime, perEach = 700, 24, 24, 90, 500 // bytes, measured, and some
	n := perStack*stacks + perFrame*depths + perRow*rows
	if !x.NoTimes {
		n += perTime * rows
	}
	if x.EachTime {
		n += perEach * rows
	}
	return n
}
