package pprof

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/pprof/profile"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"

	ownprofile "github.com/hostprofiles/hostprofiles/internal/profile"
)

const testTime = 1772366400000000000 // 2026-03-01 12:00 UTC

// world makes random payloads and profiles from a limited stock, so that things repeat.
type world struct {
	*rand.Rand
	t testing.TB
	// odd makes what is allowed in one format but not in the other, so that it comes back only in normal form.
	odd bool
}

func newWorld(t testing.TB, seed uint64) *world {
	return &world{Rand: rand.New(rand.NewPCG(seed, 7)), t: t}
}

func (w *world) one(of ...string) string { return of[w.IntN(len(of))] }

func (w *world) chance(n int) bool { return w.IntN(n) == 0 }

func (w *world) value(depth int) pcommon.Value {
	switch n := w.IntN(12); {
	case n < 4:
		return pcommon.NewValueStr(w.one("", "a", "b:json", "naïve \u2028 <b>", `"quoted"\`, "null", "1"))
	case n < 6:
		return pcommon.NewValueInt([]int64{0, 1, -1, math.MaxInt64, math.MinInt64}[w.IntN(5)])
	case n < 7:
		return pcommon.NewValueBool(w.chance(2))
	case n < 8:
		return pcommon.NewValueDouble([]float64{0, 1, -1.5, 1e300, math.Inf(1), math.NaN(), math.Copysign(0, -1), 0.1}[w.IntN(8)])
	case n < 9:
		v := pcommon.NewValueBytes()
		v.Bytes().FromRaw([]byte{0, 255, byte(w.IntN(256))}[:w.IntN(4)])
		return v
	case n < 10 || depth > 3:
		return pcommon.NewValueEmpty()
	case n < 11:
		v := pcommon.NewValueSlice()
		for range w.IntN(4) {
			w.value(depth + 1).CopyTo(v.Slice().AppendEmpty())
		}
		return v
	default:
		v := pcommon.NewValueMap()
		for range w.IntN(4) {
			w.value(depth + 1).CopyTo(v.Map().PutEmpty(w.one("", "k", "$k", "$bytes", "$double", "$unit", "$value", "l")))
		}
		return v
	}
}

func (w *world) attributes(m pcommon.Map, keys ...string) {
	for _, k := range keys {
		if w.chance(2) {
			w.value(0).CopyTo(m.PutEmpty(k))
		}
	}
}

// payload is a payload in the making.
type payload struct {
	*world
	out  pprofile.Profiles
	dict pprofile.ProfilesDictionary
}

func newPayload(w *world) *payload {
	p := &payload{world: w, out: pprofile.NewProfiles()}
	p.dict = p.out.Dictionary()
	p.dict.StringTable().Append("")
	p.dict.AttributeTable().AppendEmpty()
	p.dict.FunctionTable().AppendEmpty()
	p.dict.MappingTable().AppendEmpty()
	p.dict.LocationTable().AppendEmpty()
	p.dict.StackTable().AppendEmpty()
	p.dict.LinkTable().AppendEmpty()
	return p
}

func (p *payload) text(s string) int32 {
	i, err := pprofile.SetString(p.dict.StringTable(), s)
	if err != nil {
		p.t.Fatal(err)
	}
	return i
}

func (p *payload) attribute(list pcommon.Int32Slice, key string, v pcommon.Value, unit string) {
	table := p.dict.AttributeTable()
	a := pprofile.NewKeyValueAndUnit()
	a.SetKeyStrindex(p.text(key))
	a.SetUnitStrindex(p.text(unit))
	v.CopyTo(a.Value())
	for i := range table.Len() {
		if i > 0 && table.At(i).Equal(a) {
			list.Append(int32(i))
			return
		}
	}
	a.MoveTo(table.AppendEmpty())
	list.Append(int32(table.Len() - 1))
}

func (p *payload) str(list pcommon.Int32Slice, key, value string) {
	p.attribute(list, key, pcommon.NewValueStr(value), "")
}

func (p *payload) yes(list pcommon.Int32Slice, key string) {
	p.attribute(list, key, pcommon.NewValueBool(true), "")
}

func (p *payload) dictionary() {
	for i := range 12 {
		f := p.dict.FunctionTable().AppendEmpty()
		f.SetNameStrindex(p.text(fmt.Sprint("function", i)))
		f.SetSystemNameStrindex(p.text(p.one("", fmt.Sprint("_Z", i))))
		f.SetFilenameStrindex(p.text(p.one("", "main.go", "app.py", "x.cc", "lib.rs", "no.")))
		f.SetStartLine(int64(p.IntN(3)))
	}
	for i := range 6 {
		p.mapping(i)
	}
	for range 40 {
		p.location()
	}
	for range 20 {
		s := p.dict.StackTable().AppendEmpty().LocationIndices()
		for range p.IntN(6) {
			s.Append(int32(1 + p.IntN(40)))
		}
	}
	for range 3 {
		l := p.dict.LinkTable().AppendEmpty()
		l.SetTraceID(pcommon.TraceID{byte(p.IntN(4)), 1})
		l.SetSpanID(pcommon.SpanID{byte(p.IntN(4)), 2})
	}
}

func (p *payload) mapping(i int) {
	m := p.dict.MappingTable().AppendEmpty()
	m.SetFilenameStrindex(p.text(p.one("/bin/app", "/lib/libc.so.6", "[kernel.kallsyms]", "[jvm]", fmt.Sprint("/lib/", i))))
	if !p.chance(4) {
		m.SetMemoryStart(0x1000)
		m.SetMemoryLimit(0x9000)
		m.SetFileOffset(uint64(p.IntN(3)) << 12)
	}
	list := m.AttributeIndices()
	which := 1 + p.IntN(7)
	if p.odd {
		which = p.IntN(8)
	}
	if which&1 != 0 {
		p.str(list, attrBuildIDGNU, fmt.Sprintf("%040x", i))
	}
	if which&2 != 0 {
		p.str(list, attrBuildIDGo, fmt.Sprintf("go%d/a:b/c", i))
	}
	if which&4 != 0 {
		p.str(list, attrHTLHash, fmt.Sprintf("%032x", i))
	}
	for _, key := range []string{attrHasFilenames, attrHasLines, attrHasInlines, attrHasFunctions} {
		if p.chance(3) {
			p.yes(list, key)
		}
	}
	if p.chance(4) {
		p.attribute(list, "some.key", p.value(0), p.one("", "By"))
	}
}

func (p *payload) location() {
	l := p.dict.LocationTable().AppendEmpty()
	l.SetAddress(uint64(0x1000 + p.IntN(0x8000)))
	if p.odd && p.chance(4) {
		l.SetAddress(math.MaxUint64 - uint64(p.IntN(3)))
	}
	if p.chance(2) {
		l.SetMappingIndex(int32(1 + p.IntN(6)))
	}
	for range p.IntN(3) {
		n := l.Lines().AppendEmpty()
		n.SetFunctionIndex(int32(1 + p.IntN(12)))
		n.SetLine(int64(p.IntN(100)) << p.IntN(40))
		n.SetColumn(int64(p.IntN(100)))
	}
	list := l.AttributeIndices()
	if !p.odd || !p.chance(4) {
		p.str(list, attrFrameType, p.one("native", "kernel", "go", "rust", "cpython", "jvm", "abort-marker", "v8js"))
	}
	if p.chance(8) {
		p.yes(list, attrFolded)
	}
	if p.chance(6) {
		p.yes(list, ownprofile.AttrGuessed)
	}
	if l.MappingIndex() == 0 && p.chance(6) {
		p.str(list, attrMappingFile, p.one("/gone", "/lib/x.so"))
	}
	if p.chance(4) {
		p.attribute(list, attrFunction, pcommon.NewValueInt(int64(p.IntN(3)-1)), p.one("", "", "s"))
	}
	if p.chance(8) {
		p.attribute(list, "location.key", p.value(0), p.one("", "s"))
	}
}

// randomPayload makes a payload that keeps the rules of OTLP.
func randomPayload(w *world) pprofile.Profiles {
	p := newPayload(w)
	p.dictionary()
	comment, docURL, defaultType := pcommon.NewValueSlice(), "", ""
	if w.chance(2) {
		comment.Slice().AppendEmpty().SetStr("a comment")
		docURL, defaultType = "https://example.com", "samples"
	}
	for r := range 1 + w.IntN(3) {
		rp := p.out.ResourceProfiles().AppendEmpty()
		rp.SetSchemaUrl(w.one(ownprofile.SchemaURL, "https://example.com/other"))
		rp.Resource().Attributes().PutInt("process.pid", int64(r))
		if w.chance(2) {
			rp.Resource().Attributes().PutStr(attrExecutable, w.one("/bin/app", "/lib/libc.so.6", "/gone", "/other", "[jvm]"))
		}
		w.attributes(rp.Resource().Attributes(), "service.name", "team", "process.command_args", "otel.scope.name", "x:json",
			"schema_url", "trace_id")
		for s := range 1 + w.IntN(2) {
			sp := rp.ScopeProfiles().AppendEmpty()
			sp.SetSchemaUrl(w.one(ownprofile.SchemaURL, "https://example.com/scope"))
			sp.Scope().SetName(fmt.Sprint("scope", s))
			sp.Scope().SetVersion(w.one("", "1.2"))
			w.attributes(sp.Scope().Attributes(), "a", "name", "version", "process.pid")
			if defaultType != "" {
				sp.Scope().Attributes().PutStr(attrDefaultType, defaultType)
			}
			for range 1 + w.IntN(4) {
				v := sp.Profiles().AppendEmpty()
				p.profile(v)
				if comment.Slice().Len() > 0 {
					p.attribute(v.AttributeIndices(), attrComment, comment, "")
					p.str(v.AttributeIndices(), attrDocURL, docURL)
				}
			}
		}
	}
	return p.out
}

func (p *payload) profile(v pprofile.Profile) {
	v.SampleType().SetTypeStrindex(p.text(p.one("samples", "cpu", "off_cpu")))
	v.SampleType().SetUnitStrindex(p.text(p.one("count", "nanoseconds")))
	if p.chance(2) {
		v.PeriodType().SetTypeStrindex(p.text("cpu"))
		v.PeriodType().SetUnitStrindex(p.text("nanoseconds"))
		v.SetPeriod(int64(1 + p.IntN(2)))
	}
	v.SetTime(testTime)
	v.SetDurationNano(1000)
	list := v.AttributeIndices()
	if p.chance(6) {
		p.str(list, attrDropFrames, "drop")
		p.str(list, attrKeepFrames, "keep")
	}
	if p.chance(4) {
		p.attribute(list, "of.profile", p.value(0), p.one("", "s"))
	}
	shape := p.IntN(3)
	for range 1 + p.IntN(20) {
		p.sample(v.Samples().AppendEmpty(), shape)
	}
}

func (p *payload) sample(s pprofile.Sample, shape int) {
	s.SetStackIndex(int32(p.IntN(p.dict.StackTable().Len())))
	if p.chance(4) {
		s.SetLinkIndex(int32(1 + p.IntN(3)))
	}
	for _, key := range []string{
		"thread.name", "thread.id", "process.pid", "otel.scope.name", "otel.sample.x", "x:json", "end_timestamp_ns", "trace_id", "k",
	} {
		if p.chance(9) {
			p.attribute(s.AttributeIndices(), key, p.value(0), p.one("", "", "", "ms"))
		}
	}
	if p.chance(20) {
		p.str(s.AttributeIndices(), labelSpanID, "00f067aa0ba902b7")
		if p.chance(2) && len(s.AttributeIndices().AsRaw()) == 1 {
			p.str(s.AttributeIndices(), labelTraceID, "4bf92f3577b34da6a3ce929d0e0e4736")
		}
	}
	n := 1
	if shape > 0 {
		n = 1 + p.IntN(4)
		for range n {
			s.TimestampsUnixNano().Append(uint64(testTime + p.IntN(1000)))
		}
	}
	if shape < 2 {
		for range n {
			s.Values().Append(int64(p.IntN(5)) - 1)
		}
	}
}

// randomPprof makes a profile with everything that pprof can hold.
func randomPprof(w *world) *profile.Profile {
	p := &profile.Profile{
		TimeNanos: []int64{0, -1, testTime, testTime}[w.IntN(4)], DurationNanos: []int64{0, -1, 1000, math.MaxInt64}[w.IntN(4)],
		Period:            []int64{0, 1, 100, -1}[w.IntN(4)],
		PeriodType:        &profile.ValueType{Type: w.one("", "cpu", "space"), Unit: w.one("", "bytes")},
		DefaultSampleType: w.one("", "", "a", "b", "other"), DocURL: w.one("", "https://example.com"),
		DropFrames: w.one("", "drop.*"), KeepFrames: w.one("", "keep.*"),
	}
	for range w.IntN(3) {
		p.Comments = append(p.Comments, w.one("one", "two", ""))
	}
	for range 1 + w.IntN(4) {
		t := &profile.ValueType{Type: w.one("", "a", "b", "c", "c\xff", "c\xfe"), Unit: w.one("", "count", "bytes")}
		p.SampleType = append(p.SampleType, t)
	}
	for i := range 4 {
		p.Mapping = append(p.Mapping, w.pprofMapping(uint64(i+1)))
	}
	for i := range 10 {
		f := &profile.Function{
			ID: uint64(i+1) << w.IntN(20), Name: w.one("", "f", "0x1", "x.so+0x1", "bad\xff", carrier), StartLine: int64(w.IntN(4) - 1),
			SystemName: w.one("", "_Zf", attrFrameType, attrFunction, attrFunction, attrFolded+suffixJSON, attrMappingFile, attrMapping+suffixJSON, "k"+suffixJSON),
			Filename:   w.one("", "a.go", "b.py", "c.c", "jvm", "true", `{"main":true}`, `{"$unit":"s","$value":1}`),
		}
		for _, other := range p.Function {
			if other.ID == f.ID {
				f.ID = uint64(i + 1<<40)
			}
		}
		p.Function = append(p.Function, f)
	}
	for i := range 20 {
		l := &profile.Location{ID: uint64(i + 1), Address: uint64(w.IntN(0x3000)), IsFolded: w.chance(5)}
		if !w.chance(3) {
			l.Mapping = p.Mapping[w.IntN(4)]
		}
		for range w.IntN(4) {
			n := profile.Line{Function: p.Function[w.IntN(10)], Line: int64(w.IntN(10) - 1), Column: int64(w.IntN(3) - 1)}
			l.Line = append(l.Line, n)
		}
		p.Location = append(p.Location, l)
	}
	for range 1 + w.IntN(30) {
		p.Sample = append(p.Sample, w.pprofSample(p))
	}
	if w.chance(4) {
		executable := w.one("/bin/app", "[jvm]", "[vdso]", "bad\xff", "/other")
		for _, s := range p.Sample {
			if s.Label == nil {
				s.Label = map[string][]string{}
			}
			s.Label[attrExecutable] = []string{executable}
		}
	}
	return p
}

func (w *world) pprofMapping(id uint64) *profile.Mapping {
	m := &profile.Mapping{
		ID: id, File: w.one("", "/bin/app", "[vdso]", "[jvm]", "[cpython]", "[kernel.kallsyms]_text", "bad\xff"),
		BuildID: w.one("", "c0ffee", "C0FFEE", "go:a/b", "go:", "htlhash:00", "htlhash:000102030405060708090a0b0c0d0e0f", "bad\xff"),
	}
	if w.chance(4) {
		m.File = carrier + " " + w.one("x", "x:json", attrBuildIDGNU, attrBuildIDGo, attrHTLHash, attrMain+suffixJSON,
			attrHasLines+suffixJSON)
		m.BuildID = w.one("", "c0ffee", "C0FFEE", "true", `{"$unit":"s","$value":1}`, "000102030405060708090a0b0c0d0e0f")
	}
	if w.chance(2) {
		m.Start, m.Limit, m.Offset = uint64(w.IntN(3))<<12, uint64(w.IntN(3))<<12, uint64(w.IntN(2))
	}
	if w.chance(3) {
		m.HasFunctions, m.HasFilenames, m.HasLineNumbers, m.HasInlineFrames = w.chance(2), w.chance(2), w.chance(2), w.chance(2)
	}
	return m
}

func (w *world) pprofSample(p *profile.Profile) *profile.Sample {
	s := &profile.Sample{}
	for range w.IntN(5) {
		s.Location = append(s.Location, p.Location[w.IntN(len(p.Location))])
	}
	for range p.SampleType {
		s.Value = append(s.Value, []int64{0, 0, 1, 1, -3, 1 << 50}[w.IntN(6)])
	}
	for _, key := range []string{
		"", "thread", "process.pid", "trace_id", "span_id", "trace_id:json", "span_id:json", "otel.scope.name",
		"otel.scope.version", "otel.resource.process.pid", "otel.resource.team", "otel.profile.x", "otel.sample.thread", "x:json",
		attrLabel + "thread", "end_timestamp_ns", "bad\xff", "bad\xfe", "otel.profile." + attrDocURL, "otel.scope." + attrTypeOrder,
	} {
		if w.chance(8) {
			w.label(s, key)
		}
	}
	if w.chance(6) {
		s.Label = map[string][]string{
			labelTraceID: {"4bf92f3577b34da6a3ce929d0e0e4736"}, labelSpanID: {w.one("00f067aa0ba902b7", "", "00")},
		}
	}
	if w.chance(3) {
		if s.NumLabel == nil {
			s.NumLabel, s.NumUnit = map[string][]int64{}, map[string][]string{}
		}
		s.NumLabel[labelTimestamp] = []int64{testTime + int64(w.IntN(2000)) - 500}
		s.NumUnit[labelTimestamp] = []string{unitNanoseconds}
	}
	return s
}

func (w *world) label(s *profile.Sample, key string) {
	if s.Label == nil {
		s.Label, s.NumLabel, s.NumUnit = map[string][]string{}, map[string][]int64{}, map[string][]string{}
	}
	text := w.one("", "v", "w", `"v"`, "true", `"4bf92f3577b34da6a3ce929d0e0e4736"`, "1.0", `{"a":1}`,
		`{"a": 1}`, `{"$bytes":"AA=="}`, `{"$unit":"s","$value":1}`, `[[[[1]]]]`, "bad\xff",
		"4bf92f3577b34da6a3ce929d0e0e4736", ScopeName)
	switch w.IntN(6) {
	case 0:
		s.Label[key] = []string{text, w.one("v", "w")}
	case 1:
		s.NumLabel[key] = []int64{int64(w.IntN(3))}
	case 2:
		s.NumLabel[key], s.NumUnit[key] = []int64{int64(w.IntN(3))}, []string{w.one("bytes", "ms", "")}
	case 3:
		s.NumLabel[key], s.NumUnit[key] = []int64{1, 2}, []string{"", "bytes"}
		s.Label[key] = []string{text}
	default:
		s.Label[key] = []string{text}
	}
}
