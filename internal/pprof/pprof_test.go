package pprof

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"

	ownprofile "github.com/hostprofiles/hostprofiles/internal/profile"
)

// TestLabels shows the labels of attributes by where they stand.
func TestLabels(t *testing.T) {
	list := pcommon.NewValueSlice()
	list.Slice().AppendEmpty().SetStr("-v")
	list.Slice().AppendEmpty().SetInt(1)
	binary := pcommon.NewValueBytes()
	binary.Bytes().FromRaw([]byte{0, 1})
	for _, c := range []struct {
		at    place
		key   string
		value pcommon.Value
		unit  string
		want  tag
	}{
		{onResource, "service.name", pcommon.NewValueStr("web"), "", tag{key: "service.name", str: "web"}},
		{onResource, "process.pid", pcommon.NewValueInt(7), "", tag{key: "process.pid", num: 7, numeric: true}},
		{onResource, "process.pid", pcommon.NewValueInt(0), "", tag{key: "process.pid:json", str: "0"}},
		{onResource, "team", pcommon.NewValueStr("a"), "", tag{key: "otel.resource.team", str: "a"}},
		{onResource, "process.command_args", list, "", tag{key: "process.command_args:json", str: `["-v",1]`}},
		{onScope, "name", pcommon.NewValueStr("a"), "", tag{key: "otel.scope.name:json", str: `"a"`}},
		{onScope, "x", pcommon.NewValueStr("a"), "", tag{key: "otel.scope.x", str: "a"}},
		{onProfile, "x", pcommon.NewValueDouble(1), "s", tag{key: "otel.profile.x:json", str: `{"$unit":"s","$value":1.0}`}},
		{onSample, "thread.name", pcommon.NewValueStr("main"), "", tag{key: "thread.name", str: "main"}},
		{onSample, "thread.name", pcommon.NewValueStr(""), "", tag{key: "thread.name:json", str: `""`}},
		{onSample, "bytes", pcommon.NewValueInt(0), "By", tag{key: "bytes", unit: "By", numeric: true}},
		{onSample, "on", pcommon.NewValueBool(true), "", tag{key: "on:json", str: "true"}},
		{onSample, "raw", binary, "", tag{key: "raw:json", str: `{"$bytes":"AAE="}`}},
		{onSample, "none", pcommon.NewValueEmpty(), "", tag{key: "none:json", str: "null"}},
		{onSample, "x:json", pcommon.NewValueStr("1"), "", tag{key: "x:json:json", str: `"1"`}},
		{onSample, "service.name", pcommon.NewValueStr("a"), "", tag{key: "otel.sample.service.name", str: "a"}},
		{onSample, "otel.scope.name", pcommon.NewValueStr("a"), "", tag{key: "otel.sample.otel.scope.name", str: "a"}},
		{onSample, "process.context_switch.type", pcommon.NewValueStr("a"), "", tag{key: "process.context_switch.type", str: "a"}},
		{onSample, "end_timestamp_ns", pcommon.NewValueInt(1), "", tag{key: "end_timestamp_ns:json", str: "1"}},
	} {
		got, err := newTag(c.at, c.key, c.value, c.unit)
		if err != nil || got != c.want {
			t.Errorf("%s: %+v, %v", c.key, got, err)
		}
		a, ok := got.attribute(false)
		if !ok || a.at != c.at || a.key != c.key || render(a.value) != render(c.value) || a.unit != c.unit {
			t.Errorf("%+v came back as %+v, %v", got, a, ok)
		}
	}
}

func TestImpliedType(t *testing.T) {
	for _, c := range []struct {
		mapping, source string
		want            ownprofile.FrameType
	}{
		{"", "", ownprofile.FrameNative},
		{"/bin/app", "main.cc", ownprofile.FrameNative},
		{"/bin/app", "/src/main.go", ownprofile.FrameGo},
		{"[kernel.kallsyms]", "", ownprofile.FrameKernel},
		{"[kernel.kallsyms]_text", "", ownprofile.FrameKernel},
		{"/lib/modules/nf_tables.ko", "a.c", ownprofile.FrameKernel},
		{"", "app.py", ownprofile.FramePython},
		{"[jvm]", "", ownprofile.FrameJVM},
		{"[vdso]", "", ownprofile.FrameNative},
		{"", "a.groovy", ownprofile.FrameJVM},
		{"", strings.Repeat("x", 100) + ".rs", ownprofile.FrameRust},
		{"", "dir.py/x", ownprofile.FrameNative},
	} {
		if got := impliedType(c.mapping, c.source); got != c.want {
			t.Errorf("%s, %s: %s, not %s", c.mapping, c.source, got, c.want)
		}
	}
	if _, ok := typeOfMapping("[vdso]"); ok || knownType("abort-marker") {
		t.Error("unknown types are known")
	}
}

// TestBuildIDs: GNU's is pprof's, the others stand behind it; without it the next best does.
func TestBuildIDs(t *testing.T) {
	const htlhash = "000102030405060708090a0b0c0d0e0f"
	for _, c := range []struct {
		gnu, golang, htlhash string
		want                 string
		carried              []string
	}{
		{"c0ffee", "a/b", htlhash, "c0ffee", []string{attrBuildIDGo + " a/b", attrHTLHash + " " + htlhash}},
		{"", "a/b", htlhash, "go:a/b", []string{attrHTLHash + " " + htlhash}},
		{"", "", htlhash, "htlhash:" + htlhash, nil},
		{"C0FFEE", "", htlhash, "htlhash:" + htlhash, []string{attrBuildIDGNU + " C0FFEE"}}, // not as the conventions write it
		{"", "", "short", "", []string{attrHTLHash + " short"}},
	} {
		p := minimal(t)
		m := p.dict.MappingTable().At(1)
		m.AttributeIndices().FromRaw(nil)
		for key, value := range map[string]string{attrBuildIDGNU: c.gnu, attrBuildIDGo: c.golang, attrHTLHash: c.htlhash} {
			if value != "" {
				p.str(m.AttributeIndices(), key, value)
			}
		}
		profiles, err := FromOTLP(p.out, FromOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var carried []string
		for _, m := range profiles[0].Mapping[1:] {
			carried = append(carried, strings.TrimPrefix(m.File, carrier+" ")+" "+m.BuildID)
		}
		slices.Sort(carried)
		slices.Sort(c.carried)
		if got := profiles[0].Mapping[0].BuildID; got != c.want || !slices.Equal(carried, c.carried) {
			t.Errorf("%+v: %s and %q", c, got, carried)
		}
		sameFacts(t, otlpFacts(false, back(t, profiles)...), otlpFacts(false, p.out))
	}
}

// typed adds a profile of another type to the first scope of a payload, with a copy of its sample if same.
func (p *payload) typed(kind string, same bool) pprofile.Profile {
	profiles := p.out.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles()
	v := profiles.AppendEmpty()
	profiles.At(0).CopyTo(v)
	v.SampleType().SetTypeStrindex(p.text(kind))
	if !same {
		v.Samples().At(0).SetStackIndex(0)
	}
	return v
}

func columns(p *profile.Profile) (all []string) {
	for _, t := range p.SampleType {
		all = append(all, t.Type)
	}
	return all
}

// TestColumns: types that the same samples have are columns of one profile, and those of which the scope says so.
func TestColumns(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(p *payload)
		want string
	}{
		{"same samples", func(p *payload) { p.typed("b", true); p.typed("c", true) }, "[[cpu b c]]"},
		{"other samples", func(p *payload) { p.typed("b", false); p.typed("c", true) }, "[[cpu c] [b]]"},
		{"through another", func(p *payload) {
			v := p.typed("b", false)
			v.Samples().At(0).CopyTo(p.typed("c", true).Samples().AppendEmpty())
		}, "[[cpu b c]]"},
		{"the scope says so", func(p *payload) {
			p.typed("b", false)
			p.typed("c", false)
			p.order(2, 1, 0)
		}, "[[c b cpu]]"},
		{"the scope says too little", func(p *payload) {
			p.typed("b", false)
			p.order(0)
		}, "[[cpu] [b]]"},
		{"another period", func(p *payload) { p.typed("b", true).SetPeriod(7) }, "[[cpu] [b]]"},
		{"another period type", func(p *payload) { p.typed("b", true).PeriodType().SetTypeStrindex(p.text("x")) }, "[[cpu] [b]]"},
		{"other frames dropped", func(p *payload) {
			p.str(p.typed("b", true).AttributeIndices(), attrDropFrames, "x")
		}, "[[cpu] [b]]"},
		{"the same type", func(p *payload) { p.typed("cpu", true) }, "[[cpu]]"},
		{"the same type of another resource", func(p *payload) {
			p.out.ResourceProfiles().At(0).CopyTo(p.out.ResourceProfiles().AppendEmpty())
			p.out.ResourceProfiles().At(1).Resource().Attributes().PutStr("host.name", "other")
		}, "[[cpu]]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := minimal(t)
			c.make(p)
			profiles, err := FromOTLP(p.out, FromOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var got [][]string
			sums := map[string]int64{}
			for _, v := range profiles {
				got = append(got, columns(v))
				for _, s := range v.Sample {
					for i, n := range s.Value {
						sums[v.SampleType[i].Type] += n
					}
				}
			}
			if fmt.Sprint(got) != c.want {
				t.Errorf("%v", got)
			}
			want := map[string]int64{}
			for _, rp := range p.out.ResourceProfiles().All() {
				for _, v := range rp.ScopeProfiles().At(0).Profiles().All() {
					want[p.dict.StringTable().At(int(v.SampleType().TypeStrindex()))] += int64(v.Samples().Len())
				}
			}
			if fmt.Sprint(sums) != fmt.Sprint(want) {
				t.Errorf("sums %v, not %v", sums, want)
			}
		})
	}
}

func (p *payload) order(order ...int64) {
	list := p.out.ResourceProfiles().At(0).ScopeProfiles().At(0).Scope().Attributes().PutEmptySlice(attrTypeOrder)
	for _, n := range order {
		list.AppendEmpty().SetInt(n)
	}
}

// TestHeads: what profiles say once is joined where they become one.
func TestHeads(t *testing.T) {
	p := minimal(t)
	v, other := firstProfile(p.out), p.typed("b", true)
	v.SetDurationNano(100)
	other.SetTime(testTime - 50)
	other.SetDurationNano(60)
	p.typed("c", true).SetTime(testTime + 10)
	for i, v := range []pprofile.Profile{v, other} {
		comments := pcommon.NewValueSlice()
		comments.Slice().AppendEmpty().SetStr("both")
		comments.Slice().AppendEmpty().SetStr(fmt.Sprint("of ", i))
		p.attribute(v.AttributeIndices(), attrComment, comments, "")
		p.str(v.AttributeIndices(), attrDocURL, fmt.Sprint("https://example.com/", i))
	}
	profiles, err := FromOTLP(p.out, FromOptions{})
	if err != nil || len(profiles) != 1 {
		t.Fatalf("%d profiles, %v", len(profiles), err)
	}
	got := profiles[0]
	if got.TimeNanos != testTime-50 || got.DurationNanos != 160 {
		t.Errorf("from %d for %d", got.TimeNanos, got.DurationNanos)
	}
	if fmt.Sprintf("%q", got.Comments) != `["both" "of 0" "of 1"]` || got.DocURL != "https://example.com/0" {
		t.Errorf("comments %q, documentation %s", got.Comments, got.DocURL)
	}
}

// TestLinks: two valid ids are a link, anything else is as it is.
func TestLinks(t *testing.T) {
	const trace, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	for _, c := range []struct {
		trace, span string
		link        bool
	}{
		{trace, span, true}, {trace, "", false}, {"", span, false}, {strings.ToUpper(trace), span, false}, {trace, span[1:], false},
		{strings.Repeat("0", 32), span, false}, {trace, strings.Repeat("0", 16), false}, {trace, span + "00", false},
		{trace[:31] + "x", span, false},
	} {
		p := simple(1, 1)
		p.Sample[0].Label = map[string][]string{}
		for key, id := range map[string]string{labelTraceID: c.trace, labelSpanID: c.span} {
			if id != "" {
				p.Sample[0].Label[key] = []string{id}
			}
		}
		out, err := ToOTLP(p, ToOptions{})
		if err != nil {
			t.Fatal(err)
		}
		s := firstProfile(out).Samples().At(0)
		if s.LinkIndex() != 0 != c.link || s.AttributeIndices().Len() > 0 == c.link {
			t.Errorf("%+v: link %d, %d attributes", c, s.LinkIndex(), s.AttributeIndices().Len())
		}
		comesBack(t, p)
	}
}

// TestOddLabels: the attribute of labels that no other can stand for becomes those, whatever they are.
func TestOddLabels(t *testing.T) {
	for _, key := range []string{labelTimestamp, labelTraceID, "host.name", "x:json", ""} {
		p := minimal(t)
		s := firstProfile(p.out).Samples().At(0)
		s.TimestampsUnixNano().Append(testTime)
		odd := newOddLabel(key, []string{"a", ""}, []int64{1, 0}, []string{"", "ms"})
		p.attribute(s.AttributeIndices(), odd.key, odd.value, "")
		profiles, err := FromOTLP(p.out, FromOptions{Timestamps: true})
		if err != nil {
			t.Fatal(err)
		}
		got := profiles[0].Sample[0]
		if n := got.NumLabel[key]; len(n) < 2 || n[0] != 1 || len(got.NumUnit[key]) != len(n) || got.NumUnit[key][1] != "ms" {
			t.Errorf("%s: %v, units %v", key, n, got.NumUnit[key])
		}
		if texts := got.Label[key]; len(texts) < 2 || !slices.Contains(texts, "a") {
			t.Errorf("%s: %q", key, texts)
		}
		if !comesBack(t, profiles[0]) {
			t.Errorf("%s is not taken", key)
		}
	}
}

// TestEqualSamples: samples with the same attributes in another order, or of equal entries, are one.
func TestEqualSamples(t *testing.T) {
	p := minimal(t)
	v := firstProfile(p.out)
	s := v.Samples().At(0)
	p.str(s.AttributeIndices(), "a", "1")
	p.str(s.AttributeIndices(), "b", "2")
	other := v.Samples().AppendEmpty()
	s.CopyTo(other)
	p.dict.StackTable().At(1).CopyTo(p.dict.StackTable().AppendEmpty())
	other.SetStackIndex(2)
	list := other.AttributeIndices().AsRaw()
	slices.Reverse(list)
	other.AttributeIndices().FromRaw(list)
	profiles, err := FromOTLP(p.out, FromOptions{})
	if err != nil || len(profiles[0].Sample) != 1 || profiles[0].Sample[0].Value[0] != 2 {
		t.Errorf("%v, %v", profiles[0], err)
	}
}

// TestCarriers: only what stands behind a location at the same address is an attribute of it.
func TestCarriers(t *testing.T) {
	f := &profile.Function{ID: 1, Name: carrier, SystemName: attrFrameType, Filename: "rust"}
	for _, c := range []struct {
		address uint64
		mapping *profile.Mapping
		want    string
	}{{0x10, nil, "rust"}, {0x11, nil, "native"}, {0x10, &profile.Mapping{ID: 1, File: "x"}, "native"}} {
		p := simple(1, 1)
		p.Function = []*profile.Function{f}
		p.Location = []*profile.Location{
			{ID: 1, Address: 0x10}, {ID: 2, Address: c.address, Mapping: c.mapping, Line: []profile.Line{{Function: f}}},
		}
		if c.mapping != nil {
			p.Mapping = []*profile.Mapping{c.mapping}
		}
		p.Sample[0].Location = p.Location[:1]
		out, err := ToOTLP(p, ToOptions{})
		if err != nil {
			t.Fatal(err)
		}
		r := reader{out.Dictionary()}
		if got := r.only(r.t.LocationTable().At(1).AttributeIndices(), attrFrameType); got != fmt.Sprintf("Str %q", c.want) {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

func TestMainBinaryIsFirst(t *testing.T) {
	p := minimal(t)
	m := p.dict.MappingTable().AppendEmpty()
	m.SetFilenameStrindex(p.text("/bin/main"))
	p.str(m.AttributeIndices(), attrBuildIDGNU, "aa")
	p.dict.LocationTable().AppendEmpty().SetMappingIndex(2)
	p.dict.StackTable().At(1).LocationIndices().Append(2)
	first := func() string {
		profiles, err := FromOTLP(p.out, FromOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return profiles[0].Mapping[0].File
	}
	if got := first(); got != "/bin/app" {
		t.Errorf("first is %s, not that of the dictionary", got)
	}
	p.out.ResourceProfiles().At(0).Resource().Attributes().PutStr(attrExecutable, "/bin/main")
	if got := first(); got != "/bin/main" {
		t.Errorf("first is %s, not the resource's executable", got)
	}
	p.out.ResourceProfiles().At(0).CopyTo(p.out.ResourceProfiles().AppendEmpty())
	p.out.ResourceProfiles().At(1).Resource().Attributes().PutStr(attrExecutable, "/bin/other")
	if got := first(); got != "/bin/app" {
		t.Errorf("first is %s although there are two executables", got)
	}
}

func TestMaxBytes(t *testing.T) {
	p := minimal(t)
	if _, err := FromOTLP(p.out, FromOptions{MaxBytes: 500}); err == nil || !strings.Contains(err.Error(), "more than 500 bytes") {
		t.Errorf("error %v", err)
	}
	if _, err := FromOTLP(p.out, FromOptions{MaxBytes: 5000}); err != nil {
		t.Error(err)
	}
}

func TestNothing(t *testing.T) {
	profiles, err := FromOTLP(pprofile.NewProfiles(), FromOptions{})
	if len(profiles) != 0 || err != nil {
		t.Errorf("%v, %v", profiles, err)
	}
	out, err := ToOTLP(&profile.Profile{SampleType: []*profile.ValueType{{Type: "a", Unit: "b"}}}, ToOptions{})
	if err != nil || out.ResourceProfiles().Len() != 0 || out.Dictionary().StringTable().Len() != 1 {
		t.Errorf("%d resources, %v", out.ResourceProfiles().Len(), err)
	}
}

// simple makes a profile of two types with one sample.
func simple(values ...int64) *profile.Profile {
	return &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "a", Unit: "count"}, {Type: "b", Unit: "bytes"}},
		Sample:     []*profile.Sample{{Value: values}}, TimeNanos: testTime,
	}
}

// written returns type and values of each Profile of a payload.
func written(p pprofile.Profiles) (all []string) {
	r := reader{p.Dictionary()}
	for _, rp := range p.ResourceProfiles().All() {
		for _, v := range rp.ScopeProfiles().At(0).Profiles().All() {
			s := r.text(v.SampleType().TypeStrindex())
			for _, x := range v.Samples().All() {
				s += fmt.Sprint(x.TimestampsUnixNano().AsRaw()) + fmt.Sprint(x.Values().AsRaw())
			}
			all = append(all, s)
		}
	}
	return all
}

func TestProfilesOfColumns(t *testing.T) {
	at := func(s *profile.Sample, time int64) *profile.Sample {
		s.NumLabel = map[string][]int64{labelTimestamp: {time}}
		return s
	}
	for _, c := range []struct {
		name string
		p    *profile.Profile
		make func(p *profile.Profile)
		want string
	}{
		{"the last type is the default", simple(1, 2), func(*profile.Profile) {}, "[b[][2] a[][1]]"},
		{"another is", simple(1, 2), func(p *profile.Profile) { p.DefaultSampleType = "a" }, "[a[][1] b[][2]]"},
		{"nothing in a type", simple(1, 0), func(*profile.Profile) {}, "[b[][0] a[][1]]"},
		{"nothing at all", simple(0, 0), func(*profile.Profile) {}, "[b[][0] a[][0]]"},
		{"zeros are left out", simple(1, 2), func(p *profile.Profile) {
			p.Sample = append(p.Sample, &profile.Sample{Value: []int64{3, 0}, Label: map[string][]string{"x": {"y"}}})
		}, "[b[][2] a[][1][][3]]"},
		{"the same sample twice", simple(1, 2), func(p *profile.Profile) {
			p.Sample = append(p.Sample, p.Sample[0])
		}, "[b[][4] a[][2]]"},
		{"times", simple(1, 7), func(p *profile.Profile) {
			at(p.Sample[0], testTime+9)
			p.Sample = append(p.Sample, at(&profile.Sample{Value: []int64{1, 8}}, testTime+3))
		}, fmt.Sprintf("[b[%[1]d %[2]d][8 7] a[%[1]d %[2]d][]]", testTime+3, testTime+9)},
		{"with and without times", simple(1, 7), func(p *profile.Profile) {
			p.Sample = append(p.Sample, at(&profile.Sample{Value: []int64{1, 8}}, testTime))
		}, fmt.Sprintf("[b[][7] a[][1] b[%[1]d][8] a[%[1]d][]]", testTime)},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.make(c.p)
			out, err := ToOTLP(c.p, ToOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(written(out)); got != c.want {
				t.Errorf("%s, not %s", got, c.want)
			}
			comesBack(t, c.p)
		})
	}
}

// TestWindow: the window covers the timestamps, and pprof's own comes back.
func TestWindow(t *testing.T) {
	for _, c := range []struct {
		time, duration int64
		stamps         []int64
		start, length  uint64
	}{
		{testTime, 100, nil, testTime, 100},
		{testTime, 100, []int64{testTime, testTime + 99}, testTime, 100},
		{testTime, 100, []int64{testTime + 100}, testTime, 101},
		{testTime, 100, []int64{testTime - 5}, testTime - 5, 105},
		{0, 0, []int64{testTime - 5, testTime}, testTime - 5, 6},
		{0, 10, nil, testTime + 1, 10}, // as the options say
		{-7, -8, nil, testTime + 1, 0},
		{testTime, math.MaxInt64, nil, testTime, math.MaxInt64 - testTime},
	} {
		p := &profile.Profile{
			SampleType: []*profile.ValueType{{Type: "a", Unit: "count"}}, Sample: []*profile.Sample{{Value: []int64{1}}},
			TimeNanos: c.time, DurationNanos: c.duration,
		}
		for i, n := range c.stamps {
			if i > 0 {
				p.Sample = append(p.Sample, &profile.Sample{Value: []int64{1}})
			}
			p.Sample[i].NumLabel = map[string][]int64{labelTimestamp: {n}}
		}
		out, err := ToOTLP(p, ToOptions{Time: ownTime().Add(1)})
		if err != nil {
			t.Fatal(err)
		}
		if v := firstProfile(out); uint64(v.Time()) != c.start || v.DurationNano() != c.length {
			t.Errorf("%+v: from %d for %d", c, v.Time(), v.DurationNano())
		}
		comesBack(t, p)
	}
	p := simple(1, 2)
	p.TimeNanos = 0
	out, err := ToOTLP(p, ToOptions{})
	if err != nil || firstProfile(out).Time() != 0 {
		t.Errorf("an unknown time is %d, %v", firstProfile(out).Time(), err)
	}
}

// TestSame: equal input gives equal bytes.
func TestSame(t *testing.T) {
	for seed := range uint64(20) {
		var first [2][]byte
		for i := range 3 {
			w := newWorld(t, seed)
			profiles, err := FromOTLP(randomPayload(w), FromOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			for _, p := range profiles {
				if err := p.WriteUncompressed(&b); err != nil {
					t.Fatal(err)
				}
			}
			p := randomPprof(newWorld(t, seed))
			for _, s := range p.Sample {
				delete(s.Label, "bad\xff") // two keys that are the same once mended have no order
				delete(s.NumLabel, "bad\xff")
			}
			out, err := ToOTLP(p, usual())
			if err != nil {
				t.Fatal(err)
			}
			got := [2][]byte{b.Bytes(), marshal(t, out)}
			if i == 0 {
				first = got
			} else if !bytes.Equal(got[0], first[0]) || !bytes.Equal(got[1], first[1]) {
				t.Fatalf("seed %d: not the same", seed)
			}
		}
	}
}
