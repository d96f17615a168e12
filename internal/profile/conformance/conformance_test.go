package conformance_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/hostprofiles/hostprofiles/internal/profile"
	"github.com/hostprofiles/hostprofiles/internal/profile/conformance"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// valid is a profile with something of everything.
//
// resource 0: profile 0 is on-CPU (samples 0: stack 1, attributes and a link; 1: stack 2, two times), profile 1 off-CPU
// (sample 0: stack 1), profile 2 a sum with a period. resource 1: one on-CPU profile.
func valid() pprofile.Profiles {
	b := profile.New(profile.Options{ThreadIDs: true, Version: "1"})
	process := func(pid int) *profile.Resource {
		return &profile.Resource{PID: pid, CreationTime: start.Add(-time.Hour), ExecutableName: "x", ContainerID: "c1"}
	}
	one, two := process(1), process(2)
	m := &profile.Mapping{Start: 0x1000, Limit: 0x9000, Offset: 0x1000, File: "/x", BuildIDGNU: "abcd", BuildIDGo: "a/b",
		HTLHash: strings.Repeat("0f", 16)}
	kernel := &profile.Mapping{File: "[kernel]", BuildIDGNU: "cdef"}
	stack := []profile.Location{
		{Type: profile.FrameKernel, Mapping: kernel, Address: 0x77},
		{Type: profile.FrameNative, Mapping: m, Address: 0x1100},
		{Type: profile.FrameRust, Mapping: m, Address: 0x1200, Guessed: true},
	}
	at := func(ms int) uint64 { return uint64(start.Add(time.Duration(ms) * time.Millisecond).UnixNano()) }
	cpu := profile.OnCPU(time.Second / 20)
	s := profile.Sample{Resource: one, ThreadName: "t", ThreadID: 9, Time: at(1), Stack: stack, StopReason: "memory",
		Link: profile.Link{TraceID: [16]byte{1}, SpanID: [8]byte{2}}, Value: 7}
	b.Add(cpu, &s)
	b.Add(profile.OffCPU(), &s)
	b.Add(profile.Origin{Type: "alloc_space", Unit: "bytes", PeriodType: "space", PeriodUnit: "bytes", Period: 512,
		Shape: profile.ShapeSum}, &s)
	s.Stack, s.Link, s.StopReason = stack[1:], profile.Link{}, ""
	b.Add(cpu, &s)
	s.Time = at(3)
	b.Add(cpu, &s)
	s.Resource = two
	b.Add(cpu, &s)
	payloads, _ := b.Flush(func(dst []unwind.Line, l *profile.Location) []unwind.Line {
		switch l.Address {
		case 0x1100:
			dst = append(dst, unwind.Line{Function: unwind.Function{Name: "inline", File: "a.c", StartLine: 1}, Line: 2, Column: 3})
			fallthrough
		case 0x1200:
			dst = append(dst, unwind.Line{Function: unwind.Function{Name: "main", File: "a.c", StartLine: 1}, Line: 5})
		default:
			l.InFunction, l.Into = true, 0x10
		}
		return dst
	}, start, start.Add(5*time.Second))
	return payloads[0].Profiles
}

// parts are shorthands into valid's profile.
type parts struct {
	p        pprofile.Profiles
	d        pprofile.ProfilesDictionary
	rp       pprofile.ResourceProfiles
	resource pcommon.Map
	scope    pprofile.ScopeProfiles
	cpu      pprofile.Profile
	off      pprofile.Profile
	sum      pprofile.Profile
	sample   pprofile.Sample
}

func partsOf(p pprofile.Profiles) parts {
	rp := p.ResourceProfiles().At(0)
	scope := rp.ScopeProfiles().At(0)
	return parts{
		p: p, d: p.Dictionary(), rp: rp, resource: rp.Resource().Attributes(), scope: scope,
		cpu: scope.Profiles().At(0), off: scope.Profiles().At(1), sum: scope.Profiles().At(2),
		sample: scope.Profiles().At(0).Samples().At(0),
	}
}

// text adds a string to the table and returns its index.
func (v parts) text(s string) int32 {
	for i, t := range v.d.StringTable().All() {
		if t == s {
			return int32(i)
		}
	}
	v.d.StringTable().Append(s)
	return int32(v.d.StringTable().Len() - 1)
}

// attribute adds an attribute to the table and returns its value and index.
func (v parts) attribute(key string) (pcommon.Value, int32) {
	a := v.d.AttributeTable().AppendEmpty()
	a.SetKeyStrindex(v.text(key))
	return a.Value(), int32(v.d.AttributeTable().Len() - 1)
}

// valueOf returns the value of the first attribute with the key.
func (v parts) valueOf(key string) pcommon.Value {
	for _, a := range v.d.AttributeTable().All() {
		if v.d.StringTable().At(int(a.KeyStrindex())) == key {
			return a.Value()
		}
	}
	panic("no attribute " + key)
}

// indexOf returns the index of the first attribute with the key.
func (v parts) indexOf(key string) int32 {
	for i, a := range v.d.AttributeTable().All() {
		if v.d.StringTable().At(int(a.KeyStrindex())) == key {
			return int32(i)
		}
	}
	panic("no attribute " + key)
}

// mapping returns the mapping with a range, location one in it.
func (v parts) mapping() pprofile.Mapping { return v.d.MappingTable().At(2) }

func (v parts) location() pprofile.Location { return v.d.LocationTable().At(2) }

func TestValid(t *testing.T) {
	p := valid()
	v := partsOf(p)
	if v.scope.Profiles().Len() != 3 || v.cpu.Samples().Len() != 2 || v.mapping().MemoryStart() != 0x1000 || v.location().Lines().Len() != 2 {
		t.Fatal("valid is not what the mutations think")
	}
	if err := conformance.Check(p); err != nil {
		t.Error(err)
	}
	text, err := (&pprofile.JSONMarshaler{}).MarshalProfiles(valid())
	if err != nil {
		t.Fatal(err)
	}
	if err := conformance.CheckJSON(bytes.Join([][]byte{text, text, nil}, []byte("\n"))); err != nil {
		t.Error(err)
	}
	if err := conformance.CheckBytes(marshal(t, p)); err != nil {
		t.Error(err)
	}
}

func marshal(t testing.TB, p pprofile.Profiles) []byte {
	t.Helper()
	b, err := (&pprofile.ProtoMarshaler{}).MarshalProfiles(p)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// mutation breaks the valid profile; the check must say want.
type mutation struct {
	name  string
	want  string
	apply func(v parts)
}

func testMutations(t *testing.T, c conformance.Checker, mutations []mutation) {
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			p := valid()
			m.apply(partsOf(p))
			err := c.Check(p)
			if err == nil || !strings.Contains(err.Error(), m.want) {
				t.Errorf("got %v\nwant %q", err, m.want)
			}
			p = valid()
			m.apply(partsOf(p))
			if err := c.CheckBytes(marshal(t, p)); err == nil {
				t.Error("not found when marshalled")
			}
		})
	}
}

func TestDictionaryMutations(t *testing.T) {
	testMutations(t, conformance.Checker{}, []mutation{
		{"no strings", "dictionary.string_table: has no entry", func(v parts) { v.d.StringTable().FromRaw(nil) }},
		{"no mappings", "dictionary.mapping_table: has no entry", func(v parts) {
			v.d.MappingTable().RemoveIf(func(pprofile.Mapping) bool { return true })
		}},
		{"string zero", "dictionary.string_table[0]: is not the empty", func(v parts) { v.d.StringTable().SetAt(0, "x") }},
		{"attribute zero", "dictionary.attribute_table[0]: is not the empty", func(v parts) { v.d.AttributeTable().At(0).Value().SetBool(false) }},
		{"function zero", "dictionary.function_table[0]: is not the empty", func(v parts) { v.d.FunctionTable().At(0).SetStartLine(1) }},
		{"mapping zero", "dictionary.mapping_table[0]: is not the empty", func(v parts) { v.d.MappingTable().At(0).SetFileOffset(1) }},
		{"location zero", "dictionary.location_table[0]: is not the empty", func(v parts) { v.d.LocationTable().At(0).SetAddress(1) }},
		{"link zero", "dictionary.link_table[0]: is not the empty", func(v parts) { v.d.LinkTable().At(0).SetSpanID([8]byte{1}) }},
		{"stack zero", "dictionary.stack_table[0]: is not the empty", func(v parts) { v.d.StackTable().At(0).LocationIndices().Append(1) }},

		{"attribute key range", "key_strindex 9999 is out of range", func(v parts) { v.d.AttributeTable().At(1).SetKeyStrindex(9999) }},
		{"attribute key empty", "attribute has an empty key", func(v parts) { v.d.AttributeTable().At(1).SetKeyStrindex(0) }},
		{"attribute unit range", "unit_strindex -1 is out of range", func(v parts) { v.d.AttributeTable().At(1).SetUnitStrindex(-1) }},
		{"attribute without value", "value is missing", func(v parts) { pcommon.NewValueEmpty().MoveTo(v.d.AttributeTable().At(1).Value()) }},
		{"attribute with half a list", "value is missing", func(v parts) { v.d.AttributeTable().At(1).Value().SetEmptySlice().AppendEmpty() }},
		{"attribute with half a map", "value is missing", func(v parts) { v.d.AttributeTable().At(1).Value().SetEmptyMap().PutEmpty("k") }},
		{"function name range", "name_strindex 9999 is out of range", func(v parts) { v.d.FunctionTable().At(1).SetNameStrindex(9999) }},
		{"function system name range", "system_name_strindex 9999 is out of range", func(v parts) { v.d.FunctionTable().At(1).SetSystemNameStrindex(9999) }},
		{"function file range", "filename_strindex -7 is out of range", func(v parts) { v.d.FunctionTable().At(1).SetFilenameStrindex(-7) }},
		{"function without strings", "neither name, system name nor filename", func(v parts) {
			v.d.FunctionTable().At(1).SetNameStrindex(0)
			v.d.FunctionTable().At(1).SetFilenameStrindex(0)
		}},
		{"function start", "start_line -1 is negative", func(v parts) { v.d.FunctionTable().At(1).SetStartLine(-1) }},
		{"half a link", "both a trace id and a span id", func(v parts) { v.d.LinkTable().At(1).SetSpanID([8]byte{}) }},
		{"stack range", "location index 99 is out of range", func(v parts) { v.d.StackTable().At(1).LocationIndices().SetAt(0, 99) }},
		{"stack without location", "location index is 0", func(v parts) { v.d.StackTable().At(1).LocationIndices().SetAt(0, 0) }},
		{"mapping file range", "filename_strindex 9999 is out of range", func(v parts) { v.mapping().SetFilenameStrindex(9999) }},
		{"mapping empty", "memory_start 0x9000 is not below", func(v parts) { v.mapping().SetMemoryStart(0x9000) }},
		{"mapping without build id", "mapping has no build id", func(v parts) { v.mapping().AttributeIndices().FromRaw(nil) }},
		{"mapping attribute range", "attribute index 99 is out of range", func(v parts) { v.mapping().AttributeIndices().SetAt(0, 99) }},
		{"mapping attribute none", "attribute index is 0", func(v parts) { v.mapping().AttributeIndices().Append(0) }},
		{"mapping attribute twice", "build_id.gnu is there twice", func(v parts) {
			value, i := v.attribute("process.executable.build_id.gnu")
			value.SetStr("0123")
			v.mapping().AttributeIndices().Append(i)
		}},
		{"location mapping range", "mapping_index 9 is out of range", func(v parts) { v.location().SetMappingIndex(9) }},
		{"location below mapping", "outside of its mapping", func(v parts) { v.location().SetAddress(0xfff) }},
		{"location above mapping", "outside of its mapping", func(v parts) { v.location().SetAddress(0x9001) }},
		{"location in no mapping's attributes", "hostprofiles.mapping.filename does not belong on a mapping", func(v parts) {
			value, i := v.attribute("hostprofiles.mapping.filename")
			value.SetStr("x")
			v.mapping().AttributeIndices().Append(i)
		}},
		{"location without type", "location has no profile.frame.type", func(v parts) { v.location().AttributeIndices().FromRaw(nil) }},
		{"line function range", "function_index 99 is out of range", func(v parts) { v.location().Lines().At(0).SetFunctionIndex(99) }},
		{"line without function", "line has no function", func(v parts) { v.location().Lines().At(0).SetFunctionIndex(0) }},
		{"line negative", "line -1 is negative", func(v parts) { v.location().Lines().At(0).SetLine(-1) }},
		{"column negative", "column -1 is negative", func(v parts) { v.location().Lines().At(0).SetColumn(-1) }},
		{"functions that are not", "has_functions is true, but", func(v parts) {
			for _, l := range v.d.LocationTable().All() {
				l.Lines().RemoveIf(func(pprofile.Line) bool { return true })
			}
		}},
	})
}

func TestDuplicateAndOrphanMutations(t *testing.T) {
	swap := func(s pcommon.Int32Slice, from, to int32) {
		for i, v := range s.All() {
			if v == from {
				s.SetAt(i, to)
			}
		}
	}
	testMutations(t, conformance.Checker{}, []mutation{
		{"string twice", "is a duplicate of index 1", func(v parts) { v.d.StringTable().Append(v.d.StringTable().At(1)) }},
		{"empty string twice", "is a duplicate of index 0", func(v parts) { v.d.StringTable().Append("") }},
		{"attribute twice", "is a duplicate of index 1", func(v parts) { v.d.AttributeTable().At(1).CopyTo(v.d.AttributeTable().AppendEmpty()) }},
		{"list twice", "is a duplicate of index", func(v parts) {
			for range 2 {
				a := v.d.AttributeTable().AppendEmpty()
				v.d.AttributeTable().At(1).CopyTo(a)
				a.Value().SetEmptySlice().AppendEmpty().SetDouble(0)
			}
		}},
		{"function twice", "dictionary.function_table[3]: is a duplicate of index 1", func(v parts) { v.d.FunctionTable().At(1).CopyTo(v.d.FunctionTable().AppendEmpty()) }},
		{"mapping twice, attributes in another order", "dictionary.mapping_table[3]: is a duplicate of index 2", func(v parts) {
			m := v.d.MappingTable().AppendEmpty()
			v.mapping().CopyTo(m)
			a, b := m.AttributeIndices().At(0), m.AttributeIndices().At(1)
			m.AttributeIndices().SetAt(0, b)
			m.AttributeIndices().SetAt(1, a)
		}},
		{"location twice, over equal functions", "dictionary.location_table[4]: is a duplicate of index 2", func(v parts) {
			v.d.FunctionTable().At(1).CopyTo(v.d.FunctionTable().AppendEmpty())
			l := v.d.LocationTable().AppendEmpty()
			v.location().CopyTo(l)
			l.Lines().At(0).SetFunctionIndex(3)
		}},
		{"link twice", "dictionary.link_table[2]: is a duplicate of index 1", func(v parts) { v.d.LinkTable().At(1).CopyTo(v.d.LinkTable().AppendEmpty()) }},
		{"stack twice, over equal locations", "dictionary.stack_table[3]: is a duplicate of index 1", func(v parts) {
			v.location().CopyTo(v.d.LocationTable().AppendEmpty())
			s := v.d.StackTable().AppendEmpty()
			v.d.StackTable().At(1).CopyTo(s)
			swap(s.LocationIndices(), 2, 4)
		}},
		{"empty stack", "dictionary.stack_table[3]: is a duplicate of index 0", func(v parts) { v.d.StackTable().AppendEmpty() }},
		{"string orphan", "dictionary.string_table[", func(v parts) { v.d.StringTable().Append("nobody's") }},
		{"attribute orphan", "dictionary.attribute_table[", func(v parts) {
			value, _ := v.attribute("nobody's")
			value.SetInt(1)
		}},
		{"function orphan", "dictionary.function_table[3]: is an orphan", func(v parts) { v.d.FunctionTable().AppendEmpty().SetNameStrindex(1) }},
		{"mapping orphan", "dictionary.mapping_table[3]: is an orphan", func(v parts) { v.d.MappingTable().AppendEmpty().SetFileOffset(5) }},
		{"location orphan", "dictionary.location_table[4]: is an orphan", func(v parts) { v.d.LocationTable().AppendEmpty().SetAddress(5) }},
		{"link orphan", "dictionary.link_table[2]: is an orphan", func(v parts) {
			l := v.d.LinkTable().AppendEmpty()
			l.SetTraceID([16]byte{9})
			l.SetSpanID([8]byte{9})
		}},
		{"stack orphan", "dictionary.stack_table[3]: is an orphan", func(v parts) { v.d.StackTable().AppendEmpty().LocationIndices().Append(1, 1) }},
		{"function of an orphan", "dictionary.function_table[3]: is an orphan", func(v parts) {
			v.d.FunctionTable().AppendEmpty().SetNameStrindex(1)
			l := v.d.LocationTable().AppendEmpty()
			l.SetAddress(5)
			l.Lines().AppendEmpty().SetFunctionIndex(3)
		}},
	})
}

func TestSignalMutations(t *testing.T) {
	testMutations(t, conformance.Checker{}, []mutation{
		{"no resources", "resource_profiles: there are none", func(v parts) {
			v.p.ResourceProfiles().RemoveIf(func(pprofile.ResourceProfiles) bool { return true })
		}},
		{"no scopes", "scope_profiles: there are none", func(v parts) {
			v.rp.ScopeProfiles().RemoveIf(func(pprofile.ScopeProfiles) bool { return true })
		}},
		{"no profiles", "profiles: there are none", func(v parts) {
			v.scope.Profiles().RemoveIf(func(pprofile.Profile) bool { return true })
		}},
		{"no samples", "samples: there are none", func(v parts) {
			v.cpu.Samples().RemoveIf(func(pprofile.Sample) bool { return true })
		}},
		{"no schema", "schema_url is empty", func(v parts) { v.rp.SetSchemaUrl("") }},
		{"no scope name", "scope: name is empty", func(v parts) { v.scope.Scope().SetName("") }},
		{"no pid", "process.pid is missing", func(v parts) { v.resource.Remove("process.pid") }},
		{"no creation time", "process.creation.time is missing", func(v parts) { v.resource.Remove("process.creation.time") }},
		{"the same resource twice", "is the same resource as resource_profiles[0]", func(v parts) {
			v.resource.CopyTo(v.p.ResourceProfiles().At(1).Resource().Attributes())
		}},
		{"pid as text", "process.pid is of type Str", func(v parts) { v.resource.PutStr("process.pid", "1") }},
		{"pid negative", "process.pid has the invalid value", func(v parts) { v.resource.PutInt("process.pid", -1) }},
		{"creation time in local time", "process.creation.time has the invalid value", func(v parts) {
			v.resource.PutStr("process.creation.time", "2026-03-01T12:00:00+01:00")
		}},
		{"creation time not a time", "process.creation.time has the invalid value", func(v parts) {
			v.resource.PutStr("process.creation.time", "yesterday")
		}},
		{"resource attribute without key", "empty key", func(v parts) { v.resource.PutStr("", "x") }},
		{"resource attribute without value", "value is missing", func(v parts) { v.resource.PutEmpty("x") }},
		{"resource with code", "code.function.name must not be used", func(v parts) { v.resource.PutStr("code.function.name", "x") }},
		{"resource with a thread", "thread.name does not belong on a resource", func(v parts) { v.resource.PutStr("thread.name", "x") }},
		{"scope attribute on the resource", "does not belong on a resource", func(v parts) { v.resource.PutStr("pprof.scope.default_sample_type", "x") }},
		{"resource attribute on the scope", "does not belong on a scope", func(v parts) { v.scope.Scope().Attributes().PutStr("container.id", "x") }},

		{"sample type range", "sample_type.type_strindex 9999 is out of range", func(v parts) { v.cpu.SampleType().SetTypeStrindex(9999) }},
		{"period unit range", "period_type.unit_strindex -1 is out of range", func(v parts) { v.cpu.PeriodType().SetUnitStrindex(-1) }},
		{"no sample type", "sample_type needs a type and a unit", func(v parts) { v.off.SampleType().SetTypeStrindex(0) }},
		{"no sample unit", "sample_type needs a type and a unit", func(v parts) { v.off.SampleType().SetUnitStrindex(0) }},
		{"no period unit", "period_type needs both", func(v parts) { v.sum.PeriodType().SetUnitStrindex(0) }},
		{"negative period", "period -1 is negative", func(v parts) { v.cpu.SetPeriod(-1) }},
		{"no period", "period 0 with the period type", func(v parts) { v.cpu.SetPeriod(0) }},
		{"no period type", "period 50000000 with the period type", func(v parts) {
			v.cpu.PeriodType().SetTypeStrindex(0)
			v.cpu.PeriodType().SetUnitStrindex(0)
		}},
		{"on-CPU unit", "on-CPU samples are", func(v parts) { v.cpu.PeriodType().SetUnitStrindex(v.text("milliseconds")) }},
		{"off-CPU unit", "off-CPU samples are", func(v parts) { v.off.SampleType().SetUnitStrindex(v.text("count")) }},
		{"no profile id", "profile_id is missing", func(v parts) { v.cpu.SetProfileID(pprofile.NewProfileIDEmpty()) }},
		{"profile id twice", "profile_id is that of", func(v parts) { v.cpu.SetProfileID(v.off.ProfileID()) }},
		{"payload without format", "belong together", func(v parts) { v.cpu.OriginalPayload().Append(1) }},
		{"format without payload", "belong together", func(v parts) { v.cpu.SetOriginalPayloadFormat("pprof") }},
		{"no time", "time_unix_nano is 0", func(v parts) { v.cpu.SetTime(0) }},
		{"duration overflows", "overflows", func(v parts) { v.cpu.SetDurationNano(1<<64 - 1) }},
		{"profile attribute range", "attribute index 99 is out of range", func(v parts) { v.cpu.AttributeIndices().Append(99) }},
		{"profile attribute on the wrong place", "does not belong on a profile", func(v parts) { v.cpu.AttributeIndices().Append(v.indexOf("thread.name")) }},

		{"stack range", "stack_index 99 is out of range", func(v parts) { v.sample.SetStackIndex(99) }},
		{"stack negative", "stack_index -1 is out of range", func(v parts) { v.sample.SetStackIndex(-1) }},
		{"link range", "link_index 99 is out of range", func(v parts) { v.sample.SetLinkIndex(99) }},
		{"sample attribute range", "attribute index 99 is out of range", func(v parts) { v.sample.AttributeIndices().SetAt(0, 99) }},
		{"sample attribute twice", "is there twice", func(v parts) { v.sample.AttributeIndices().Append(v.sample.AttributeIndices().At(0)) }},
		{"time before", "is outside of the profile's", func(v parts) { v.sample.TimestampsUnixNano().SetAt(0, uint64(v.cpu.Time())-1) }},
		{"time at the end", "is outside of the profile's", func(v parts) {
			v.sample.TimestampsUnixNano().SetAt(0, uint64(v.cpu.Time())+v.cpu.DurationNano())
		}},
		{"times unsorted", "follows", func(v parts) {
			ts := v.cpu.Samples().At(1).TimestampsUnixNano()
			a, b := ts.At(0), ts.At(1)
			ts.SetAt(0, b)
			ts.SetAt(1, a)
		}},
		{"neither values nor times", "has neither values nor timestamps", func(v parts) { v.sample.TimestampsUnixNano().FromRaw(nil) }},
		{"two values", "has 2 values without timestamps", func(v parts) { v.sum.Samples().At(0).Values().Append(1) }},
		{"more values than times", "has 1 timestamps, but 2 values", func(v parts) { v.off.Samples().At(0).Values().Append(1) }},
		{"two shapes", "but the samples before have", func(v parts) { v.cpu.Samples().At(1).Values().Append(1, 1) }},
		{"on-CPU without times", "an on-CPU sample needs timestamps", func(v parts) {
			for _, s := range v.cpu.Samples().All() {
				s.TimestampsUnixNano().FromRaw(nil)
				s.Values().Append(1)
			}
		}},
		{"period and several values", "with a period of space there must be 1", func(v parts) {
			s := v.sum.Samples().At(0)
			s.TimestampsUnixNano().Append(uint64(v.sum.Time()), uint64(v.sum.Time()))
			s.Values().Append(1)
		}},
		{"the same sample twice", "same stack, attributes and link as samples[0]", func(v parts) {
			s := v.cpu.Samples().At(1)
			s.SetStackIndex(v.sample.StackIndex())
			s.SetLinkIndex(v.sample.LinkIndex())
			reversed := v.sample.AttributeIndices().AsRaw()
			reversed[0], reversed[1] = reversed[1], reversed[0]
			s.AttributeIndices().FromRaw(reversed)
		}},
		{"the same sample over equal stacks", "same stack, attributes and link as samples[0]", func(v parts) {
			v.d.StackTable().At(1).CopyTo(v.d.StackTable().AppendEmpty())
			s := v.cpu.Samples().At(1)
			v.sample.CopyTo(s)
			s.SetStackIndex(3)
		}},
	})
}

func TestAttributeMutations(t *testing.T) {
	testMutations(t, conformance.Checker{}, []mutation{
		{"thread id as text", "thread.id is of type Str, not Int", func(v parts) { v.valueOf("thread.id").SetStr("1") }},
		{"thread name as number", "thread.name is of type Int, not Str", func(v parts) { v.valueOf("thread.name").SetInt(1) }},
		{"frame type as number", "profile.frame.type is of type Int", func(v parts) { v.valueOf("profile.frame.type").SetInt(1) }},
		{"frame type unheard of", "profile.frame.type has the invalid value", func(v parts) { v.valueOf("profile.frame.type").SetStr("cobol") }},
		{"build id in capitals", "build_id.gnu has the invalid value", func(v parts) { v.valueOf("process.executable.build_id.gnu").SetStr("ABCD") }},
		{"build id half a byte", "build_id.gnu has the invalid value", func(v parts) { v.valueOf("process.executable.build_id.gnu").SetStr("abc") }},
		{"build id empty", "build_id.go has the invalid value", func(v parts) { v.valueOf("process.executable.build_id.go").SetStr("") }},
		{"htlhash too short", "htlhash has the invalid value", func(v parts) { v.valueOf("process.executable.build_id.htlhash").SetStr("abcd") }},
		{"has_functions as text", "has_functions is of type Str", func(v parts) { v.valueOf("pprof.mapping.has_functions").SetStr("true") }},
		{"frame type on a sample", "profile.frame.type does not belong on a sample", func(v parts) { v.sample.AttributeIndices().Append(v.indexOf("profile.frame.type")) }},
		{"thread on a location", "thread.name does not belong on a location", func(v parts) { v.location().AttributeIndices().Append(v.indexOf("thread.name")) }},
		{"thread on a mapping", "thread.name does not belong on a mapping", func(v parts) { v.mapping().AttributeIndices().Append(v.indexOf("thread.name")) }},
		{"code on a location", "code.line.number must not be used", func(v parts) {
			value, i := v.attribute("code.line.number")
			value.SetInt(1)
			v.location().AttributeIndices().Append(i)
		}},
		{"coordination key", "threadlocal.schema_version must not be used", func(v parts) {
			value, i := v.attribute("threadlocal.schema_version")
			value.SetStr("x")
			v.sample.AttributeIndices().Append(i)
		}},
	})
}

// TestInvalidText is apart: what is not UTF-8 cannot be marshalled as such by everyone.
func TestInvalidText(t *testing.T) {
	for _, m := range []mutation{
		{"string table", "is not UTF-8", func(v parts) { v.d.StringTable().SetAt(1, "\xff") }},
		{"attribute value", "is not UTF-8", func(v parts) { v.valueOf("thread.name").SetStr("\xff") }},
		{"resource key", "is not UTF-8", func(v parts) { v.resource.PutInt("\xff", 1) }},
		{"resource value", "is not UTF-8", func(v parts) { v.resource.PutEmptySlice("x").AppendEmpty().SetStr("\xff") }},
	} {
		p := valid()
		m.apply(partsOf(p))
		if err := conformance.Check(p); err == nil || !strings.Contains(err.Error(), m.want) {
			t.Errorf("%s: got %v", m.name, err)
		}
	}
}

// TestResourceKeyTwice: pdata's own setters prevent it, so it is made by unmarshalling.
func TestResourceKeyTwice(t *testing.T) {
	text, err := (&pprofile.JSONMarshaler{}).MarshalProfiles(valid())
	if err != nil {
		t.Fatal(err)
	}
	twice := bytes.Replace(text, []byte(`"attributes":[`), []byte(`"attributes":[{"key":"a","value":{"intValue":"1"}},{"key":"a","value":{"intValue":"2"}},`), 1)
	if err := conformance.CheckJSON(twice); err == nil || !strings.Contains(err.Error(), "attribute a is there twice") {
		t.Errorf("got %v", err)
	}
}

func TestDevfiler(t *testing.T) {
	testMutations(t, conformance.Checker{Devfiler: true}, []mutation{
		{"rust", `devfiler does not know the frame type "rust"`, func(parts) {}},
		{"no htlhash", "dictionary.mapping_table[1]: devfiler needs an htlhash", func(parts) {}},
	})
}

func TestAnyResource(t *testing.T) {
	p := valid()
	partsOf(p).resource.Remove("process.pid")
	if err := (conformance.Checker{AnyResource: true}).Check(p); err != nil {
		t.Error(err)
	}
}

func TestMaxViolations(t *testing.T) {
	p := valid()
	for range 20 {
		p.Dictionary().StringTable().Append("")
	}
	err := conformance.Checker{MaxViolations: 3}.Check(p)
	if got := strings.Split(err.Error(), "\n"); len(got) != 4 || got[3] != "and 37 more" {
		t.Errorf("got %q", got)
	}
	if got := strings.Count(conformance.Check(p).Error(), "\n"); got != 39 {
		t.Errorf("got %d lines", got)
	}
}

func TestCheckJSON(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"nothing":       {"\n \n", "has no profiles"},
		"not JSON":      {"{\n", "line 1: unmarshalling"},
		"unknown field": {`{"dictionary":{"x":1}}`, "unmarshalling"},
		"second line":   {"\n{}\n", "line 2: dictionary.string_table: has no entry"},
	} {
		if err := conformance.CheckJSON([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
