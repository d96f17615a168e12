package pprof

import (
	"bytes"
	"fmt"
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
