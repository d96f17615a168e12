package profile

import (
	"crypto/sha256"
	"encoding/binary"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

const profileIDBytes = 16

// emit writes the plan as pdata. part is the payload's number in the flush.
func (f *flush) emit(p *plan, part int) Payload {
	out := pprofile.NewProfiles()
	p.emitDictionary(out.Dictionary())
	e := emitter{plan: p, part: part}
	resources := out.ResourceProfiles()
	resources.EnsureCapacity(len(p.resources))
	for i := range p.resources {
		end := len(p.profiles)
		if i+1 < len(p.resources) {
			end = p.resources[i+1].profiles
		}
		e.resource(resources.AppendEmpty(), p.resources[i], end)
	}
	return Payload{Profiles: out, Samples: p.count}
}

// emitter holds the buffers of emit.
type emitter struct {
	*plan
	part    int
	times   []uint64
	values  []int64
	indices []int32
}

func (e *emitter) resource(to pprofile.ResourceProfiles, r planResource, end int) {
	to.SetSchemaUrl(SchemaURL)
	attributes := to.Resource().Attributes()
	attributes.EnsureCapacity(len(r.group.attributes))
	for _, a := range r.group.attributes {
		a.Value.set(attributes.PutEmpty(a.Key))
	}
	scope := to.ScopeProfiles().AppendEmpty()
	scope.SetSchemaUrl(SchemaURL)
	scope.Scope().SetName(ScopeName)
	scope.Scope().SetVersion(clean(e.f.b.opt.Version))
	scope.Profiles().EnsureCapacity(end - r.profiles)
	for i := r.profiles; i < end; i++ {
		last := len(e.samples)
		if i+1 < len(e.profiles) {
			last = e.profiles[i+1].samples
		}
		e.profile(scope.Profiles().AppendEmpty(), e.profiles[i], last)
	}
}

func (e *emitter) profile(to pprofile.Profile, p planProfile, end int) {
	g := p.group
	o := &e.f.b.origins[g.origin]
	t := e.f.originTexts[g.origin]
	to.SampleType().SetTypeStrindex(e.strings.local[t.kind])
	to.SampleType().SetUnitStrindex(e.strings.local[t.unit])
	to.PeriodType().SetTypeStrindex(e.strings.local[t.periodKind])
	to.PeriodType().SetUnitStrindex(e.strings.local[t.periodUnit])
	to.SetPeriod(o.Period)
	to.SetTime(pcommon.Timestamp(g.time))
	to.SetDurationNano(g.duration)
	to.SetProfileID(e.profileID(g))
	samples := to.Samples()
	samples.EnsureCapacity(end - p.samples)
	for _, s := range e.samples[p.samples:end] {
		e.sample(samples.AppendEmpty(), s, o.Shape)
	}
}

// profileID identifies a profile by what is in it, so that the same one sent twice can be told.
func (e *emitter) profileID(g *profileGroup) (id pprofile.ProfileID) {
	o := &e.f.b.origins[g.origin]
	h := sha256.New()
	for _, s := range []string{e.f.b.opt.IDSeed, g.resource.resource.ContainerID, g.resource.resource.ExecutablePath,
		o.Type, o.Unit, o.PeriodType, o.PeriodUnit} {
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(s))))
		h.Write([]byte(s))
	}
	for _, n := range []uint64{uint64(g.resource.resource.PID), uint64(g.resource.resource.CreationTime.UnixNano()),
		uint64(o.Period), uint64(o.Shape), g.time, g.duration, uint64(g.resource.number), uint64(e.part)} {
		h.Write(binary.LittleEndian.AppendUint64(nil, n))
	}
	copy(id[:], h.Sum(nil))
	return id
}

func (e *emitter) sample(to pprofile.Sample, s planSample, shape Shape) {
	to.SetStackIndex(e.stacks.local[s.sample.stack])
	to.SetLinkIndex(e.links.local[s.sample.link])
	e.attributeIndices(to.AttributeIndices(), s.sample.attributes)
	if shape == ShapeSum {
		to.Values().FromRaw([]int64{s.sample.sum})
		return
	}
	points := e.f.points[s.sample.points+s.from : s.sample.points+s.to]
	e.times, e.values = e.times[:0], e.values[:0]
	for _, p := range points {
		e.times = append(e.times, p.time)
		e.values = append(e.values, p.value)
	}
	to.TimestampsUnixNano().FromRaw(e.times)
	if shape == ShapeTimesValues {
		to.Values().FromRaw(e.values)
	}
}

func (e *emitter) attributeIndices(to pcommon.Int32Slice, list int32) {
	e.indices = e.attributes.appendLocal(e.indices[:0], e.f.dict.attrLists.at(list))
	if len(e.indices) > 0 {
		to.FromRaw(e.indices)
	}
}

// appendLocal appends the payload's indices of dictionary ids.
func (t *table) appendLocal(dst, ids []int32) []int32 {
	for _, id := range ids {
		dst = append(dst, t.local[id])
	}
	return dst
}

func (p *plan) emitDictionary(to pprofile.ProfilesDictionary) {
	d := p.f.dict
	e := emitter{plan: p}

	texts := make([]string, 1, len(p.strings.ids)+1)
	for _, id := range p.strings.ids {
		texts = append(texts, d.strings[id])
	}
	to.StringTable().FromRaw(texts)

	attributes := to.AttributeTable()
	attributes.EnsureCapacity(len(p.attributes.ids) + 1)
	attributes.AppendEmpty()
	for _, id := range p.attributes.ids {
		a := attributes.AppendEmpty()
		a.SetKeyStrindex(p.strings.local[d.attributes[id].key])
		d.attributes[id].value.set(a.Value())
	}

	functions := to.FunctionTable()
	functions.EnsureCapacity(len(p.functions.ids) + 1)
	functions.AppendEmpty()
	for _, id := range p.functions.ids {
		v, f := d.functions[id], functions.AppendEmpty()
		f.SetNameStrindex(p.strings.local[v.name])
		f.SetSystemNameStrindex(p.strings.local[v.systemName])
		f.SetFilenameStrindex(p.strings.local[v.file])
		f.SetStartLine(v.startLine)
	}

	mappings := to.MappingTable()
	mappings.EnsureCapacity(len(p.mappings.ids) + 1)
	mappings.AppendEmpty()
	for _, id := range p.mappings.ids {
		v, m := d.mappings[id], mappings.AppendEmpty()
		m.SetMemoryStart(v.start)
		m.SetMemoryLimit(v.limit)
		m.SetFileOffset(v.offset)
		m.SetFilenameStrindex(p.strings.local[v.file])
		e.attributeIndices(m.AttributeIndices(), v.attributes)
	}

	links := to.LinkTable()
	links.EnsureCapacity(len(p.links.ids) + 1)
	links.AppendEmpty()
	for _, id := range p.links.ids {
		l := links.AppendEmpty()
		l.SetTraceID(p.f.b.links[id].TraceID)
		l.SetSpanID(p.f.b.links[id].SpanID)
	}
	e.emitLocations(to)
	e.emitStacks(to)
}

func (e *emitter) emitLocations(to pprofile.ProfilesDictionary) {
	d := e.f.dict
	table := to.LocationTable()
	table.EnsureCapacity(len(e.locations.ids) + 1)
	table.AppendEmpty()
	for _, id := range e.locations.ids {
		v, l := &d.locations[id], table.AppendEmpty()
		l.SetMappingIndex(e.mappings.local[v.mapping])
		l.SetAddress(v.address)
		e.attributeIndices(l.AttributeIndices(), v.attributes)
		lines := d.lines.at(v.lines)
		l.Lines().EnsureCapacity(len(lines))
		for _, n := range lines {
			to := l.Lines().AppendEmpty()
			to.SetFunctionIndex(e.functions.local[n.function])
			to.SetLine(n.line)
			to.SetColumn(n.column)
		}
	}
}

func (e *emitter) emitStacks(to pprofile.ProfilesDictionary) {
	table := to.StackTable()
	table.EnsureCapacity(len(e.stacks.ids) + 1)
	table.AppendEmpty()
	for _, id := range e.stacks.ids {
		e.indices = e.locations.appendLocal(e.indices[:0], e.f.dict.stacks.at(id))
		table.AppendEmpty().LocationIndices().FromRaw(e.indices)
	}
}
