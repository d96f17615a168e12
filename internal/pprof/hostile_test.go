package pprof

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"

	ownprofile "github.com/hostprofiles/hostprofiles/internal/profile"
)

// minimal makes a payload with one entry in each table and a sample that refers to them.
func minimal(t *testing.T) *payload {
	p := newPayload(newWorld(t, 1))
	f := p.dict.FunctionTable().AppendEmpty()
	f.SetNameStrindex(p.text("f"))
	m := p.dict.MappingTable().AppendEmpty()
	m.SetFilenameStrindex(p.text("/bin/app"))
	p.str(m.AttributeIndices(), attrBuildIDGNU, "c0ffee")
	l := p.dict.LocationTable().AppendEmpty()
	l.SetMappingIndex(1)
	l.Lines().AppendEmpty().SetFunctionIndex(1)
	p.str(l.AttributeIndices(), attrFrameType, "native")
	p.dict.StackTable().AppendEmpty().LocationIndices().Append(1)
	k := p.dict.LinkTable().AppendEmpty()
	k.SetTraceID(pcommon.TraceID{1})
	k.SetSpanID(pcommon.SpanID{1})
	rp := p.out.ResourceProfiles().AppendEmpty()
	rp.SetSchemaUrl(ownprofile.SchemaURL)
	rp.Resource().Attributes().PutStr("host.name", "h")
	sp := rp.ScopeProfiles().AppendEmpty()
	sp.SetSchemaUrl(ownprofile.SchemaURL)
	sp.Scope().SetName(ScopeName)
	v := sp.Profiles().AppendEmpty()
	v.SampleType().SetTypeStrindex(p.text("cpu"))
	v.SampleType().SetUnitStrindex(p.text("nanoseconds"))
	v.SetTime(testTime)
	s := v.Samples().AppendEmpty()
	s.SetStackIndex(1)
	s.SetLinkIndex(1)
	s.Values().Append(1)
	return p
}

func firstProfile(p pprofile.Profiles) pprofile.Profile {
	return p.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().At(0)
}

func TestMalformedPayloads(t *testing.T) {
	deep := pcommon.NewValueSlice()
	for range 100 {
		outer := pcommon.NewValueSlice()
		deep.MoveTo(outer.Slice().AppendEmpty())
		deep = outer
	}
	const beyond = math.MaxInt32
	for _, c := range []struct {
		name string
		make func(p *payload, v pprofile.Profile, s pprofile.Sample)
		want string
	}{
		{"none", func(*payload, pprofile.Profile, pprofile.Sample) {}, ""},
		{"stack", func(_ *payload, _ pprofile.Profile, s pprofile.Sample) { s.SetStackIndex(2) },
			"reading resource_profiles[0]: scope_profiles[0]: profiles[0]: samples[0]: stack_index 2 is out of range (2 entries)"},
		{"negative stack", func(_ *payload, _ pprofile.Profile, s pprofile.Sample) { s.SetStackIndex(-1) },
			"stack_index -1 is out of range"},
		{"link", func(_ *payload, _ pprofile.Profile, s pprofile.Sample) { s.SetLinkIndex(beyond) },
			"link_index 2147483647 is out of range"},
		{"sample's attribute", func(_ *payload, _ pprofile.Profile, s pprofile.Sample) { s.AttributeIndices().Append(9) },
			"attribute index 9 is out"},
		{"profile's attribute", func(_ *payload, v pprofile.Profile, _ pprofile.Sample) { v.AttributeIndices().Append(9) },
			"attribute index 9 is out"},
		{"sample type", func(_ *payload, v pprofile.Profile, _ pprofile.Sample) { v.SampleType().SetTypeStrindex(beyond) },
			"sample_type.type_strindex 2147483647 is out of range"},
		{"period unit", func(_ *payload, v pprofile.Profile, _ pprofile.Sample) { v.PeriodType().SetUnitStrindex(-2) },
			"period_type.unit_strindex -2 is out of range"},
		{"location in a stack", func(p *payload, _ pprofile.Profile, _ pprofile.Sample) {
			p.dict.StackTable().At(1).LocationIndices().Append(2)
		}, "reading stack_table[1]: location index 2 is out of range (2 entries)"},
		{"mapping", func(p *payload, _ pprofile.Profile, _ pprofile.Sample) {
			p.dict.LocationTable().At(1).SetMappingIndex(2)
		},
			"reading location_table[1]: mapping_index 2 is out of range"},
		{"function", func(p *payload, _ pprofile.Profile, _ pprofile.Sample) {
			p.dict.LocationTable().At(1).Lines().At(0).SetFunctionIndex(-1)
		}, "reading location_table[1]: lines[0]: function_index -1 is out of range"},
		{"name", func(p *payload, _ pprofile.Profile, _ pprofile.Sample) {
			p.dict.FunctionTable().At(1).SetNameStrindex(beyond)
		},
			"reading function_table[1]: name_strindex 2147483647 is out of range"},
		{"file", func(p *payload, _ pprofile.Profile, _ pprofile.Sample) {
			p.dict.MappingTable().At(1).SetFilenameStrindex(-1)
		},
			"reading mapping_table[1]: filename_strindex -1 is out of range"},
		{"key", func(p *payload, _ pprofile.Profile, _ pprofile.Sample) {
			p.dict.AttributeTable().At(1).SetKeyStrindex(-1)
		},
			"reading attribute_table[1]: key_strindex -1 is out of range"},
		{"no key", func(p *payload, _ pprofile.Profile, _ pprofile.Sample) {
			p.dict.AttributeTable().At(1).SetKeyStrindex(0)
		},
			"reading attribute_table[1]: attribute has no key"},
		{"zero entry", func(p *payload, _ pprofile.Profile, _ pprofile.Sample) { p.dict.LocationTable().At(0).SetAddress(1) },
			"reading location_table[0]: it is not empty"},
		{"zero string", func(p *payload, _ pprofile.Profile, _ pprofile.Sample) { p.dict.StringTable().SetAt(0, "x") },
			"reading string_table[0]: it is not empty"},
		{"UTF-8", func(p *payload, _ pprofile.Profile, _ pprofile.Sample) { p.text("bad\xff") }, `string "bad\xff" is not UTF-8`},
		{"UTF-8 in a resource", func(p *payload, _ pprofile.Profile, _ pprofile.Sample) {
			p.out.ResourceProfiles().At(0).Resource().Attributes().PutStr("x", "bad\xff")
		}, `reading resource_profiles[0]: resource: string "bad\xff" is not UTF-8`},
		{"UTF-8 in a map", func(p *payload, _ pprofile.Profile, _ pprofile.Sample) {
			p.out.ResourceProfiles().At(0).Resource().Attributes().PutEmptyMap("x").PutInt("bad\xff", 1)
		}, "is not UTF-8"},
		{"long string", func(p *payload, _ pprofile.Profile, _ pprofile.Sample) { p.text(strings.Repeat("x", 20<<20)) },
			"has 20971520 bytes, more than 1048576"},
		{"long key", func(p *payload, _ pprofile.Profile, _ pprofile.Sample) {
			p.out.ResourceProfiles().At(0).Resource().Attributes().PutStr(strings.Repeat("k", 2000), "")
		}, "key has 2000 bytes, more than 1024"},
		{"depth", func(p *payload, _ pprofile.Profile, s pprofile.Sample) {
			p.attribute(s.AttributeIndices(), "deep", deep, "")
		},
			"value is nested more than 32 deep"},
		{"attributes", func(p *payload, _ pprofile.Profile, s pprofile.Sample) {
			for i := range 300 {
				p.attribute(s.AttributeIndices(), fmt.Sprint(i), pcommon.NewValueInt(1), "")
			}
		}, "there are more than 256 keys"},
		{"key twice", func(p *payload, _ pprofile.Profile, s pprofile.Sample) {
			p.str(s.AttributeIndices(), "k", "a")
			p.str(s.AttributeIndices(), "k", "b")
		}, `attribute "k" is there twice`},
		{"index twice", func(p *payload, _ pprofile.Profile, s pprofile.Sample) {
			p.str(s.AttributeIndices(), "k", "a")
			p.str(s.AttributeIndices(), "k", "a")
		}, `attribute "k" is there twice`},
		{"nothing in a sample", func(_ *payload, _ pprofile.Profile, s pprofile.Sample) { s.Values().FromRaw(nil) },
			"it has neither values nor timestamps"},
		{"two values", func(_ *payload, _ pprofile.Profile, s pprofile.Sample) { s.Values().Append(2) },
			"it has 2 values without timestamps, not 1"},
		{"lengths", func(_ *payload, _ pprofile.Profile, s pprofile.Sample) { s.TimestampsUnixNano().Append(1, 2) },
			"it has 2 timestamps, but 1 values"},
		{"late timestamp", func(_ *payload, _ pprofile.Profile, s pprofile.Sample) { s.TimestampsUnixNano().Append(math.MaxUint64) },
			"timestamp 18446744073709551615 is beyond the year 2262"},
		{"late profile", func(_ *payload, v pprofile.Profile, _ pprofile.Sample) { v.SetTime(math.MaxUint64) },
			"go beyond the year 2262"},
		{"long profile", func(_ *payload, v pprofile.Profile, _ pprofile.Sample) { v.SetDurationNano(math.MaxInt64) },
			"go beyond the year 2262"},
		{"overflow", func(_ *payload, v pprofile.Profile, s pprofile.Sample) {
			s.Values().SetAt(0, math.MaxInt64)
			s.CopyTo(v.Samples().AppendEmpty())
		}, "sum of the values overflows"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := minimal(t)
			v := firstProfile(p.out)
			c.make(p, v, v.Samples().At(0))
			out, err := FromOTLP(p.out, FromOptions{Timestamps: true})
			if c.want == "" && (err != nil || len(out) != 1) {
				t.Errorf("%d profiles, error %v", len(out), err)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 500) {
				t.Errorf("error %.1000v, want %s", err, c.want)
			}
		})
	}
}

// TestDuplicateKeys: pdata has a key twice only when it unmarshalled it.
func TestDuplicateKeys(t *testing.T) {
	for _, attributes := range []string{
		`"attributes":[{"key":"k","value":{"intValue":"1"}},{"key":"k","value":{"intValue":"2"}}]`,
		`"attributes":[{"key":"m","value":{"kvlistValue":{"values":[{"key":"k"},{"key":"k"}]}}}]`,
	} {
		p, err := (&pprofile.JSONUnmarshaler{}).UnmarshalProfiles([]byte(`{"resourceProfiles":[{"resource":{` + attributes + `}}]}`))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := FromOTLP(p, FromOptions{}); err == nil || !strings.Contains(err.Error(), `"k" is there twice`) {
			t.Errorf("error %v", err)
		}
	}
}

// allocated returns how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestSmallPayloadsOfHugeProfiles: what OTLP's dictionary shares and pprof repeats ends at the budget, soon.
func TestSmallPayloadsOfHugeProfiles(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(p *payload, v pprofile.Profile, s pprofile.Sample)
	}{
		{"a stack of a million frames in 100,000 samples", func(p *payload, v pprofile.Profile, s pprofile.Sample) {
			frames := p.dict.StackTable().At(1).LocationIndices()
			for range 1_000_000 {
				frames.Append(1)
			}
			for i := range 100_000 {
				s.TimestampsUnixNano().Append(uint64(testTime + i))
			}
			s.Values().FromRaw(nil)
		}},
		{"250 labels of a resource on 100,000 samples", func(p *payload, v pprofile.Profile, s pprofile.Sample) {
			for i := range 250 {
				p.out.ResourceProfiles().At(0).Resource().Attributes().PutStr(fmt.Sprint("key", i), "v")
			}
			manyAttributes(p, v, s, 100_000)
		}},
		{"100,000 sample types of a dictionary of 100,000 locations", func(p *payload, v pprofile.Profile, s pprofile.Sample) {
			for i := range 100_000 {
				p.dict.LocationTable().AppendEmpty().SetAddress(uint64(i))
			}
			profiles := p.out.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles()
			for i := range 100_000 {
				other := profiles.AppendEmpty()
				v.CopyTo(other)
				other.SetPeriod(int64(i))
			}
		}},
		{"1,000 columns of 100,000 samples", func(p *payload, v pprofile.Profile, s pprofile.Sample) {
			manyAttributes(p, v, s, 100_000)
			profiles := p.out.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles()
			for i := range 1000 {
				other := profiles.AppendEmpty()
				v.SampleType().CopyTo(other.SampleType())
				p.attribute(other.AttributeIndices(), attrColumn, pcommon.NewValueInt(int64(i)), "")
				s.CopyTo(other.Samples().AppendEmpty())
			}
		}},
		{"a string of a MiB in 10,000 lists", func(p *payload, v pprofile.Profile, s pprofile.Sample) {
			long := strings.Repeat("x", 1<<20-10)
			table := p.dict.AttributeTable()
			for range 10_000 {
				a := table.AppendEmpty()
				a.SetKeyStrindex(1)
				a.Value().SetEmptySlice().AppendEmpty().SetStr(long)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := minimal(t)
			v := firstProfile(p.out)
			c.make(p, v, v.Samples().At(0))
			limit := 64<<20 + 64*payloadSize(p.out)
			var err error
			start := time.Now()
			// What is read takes room beside what is made.
			if n := allocated(func() { _, err = FromOTLP(p.out, FromOptions{Timestamps: true}) }); n > 4*uint64(limit) {
				t.Errorf("%d bytes for a limit of %d", n, limit)
			}
			if d := time.Since(start); d > time.Minute {
				t.Errorf("it took %v", d)
			}
			if err == nil || !strings.Contains(err.Error(), "the result would take more than") {
				t.Errorf("error %v", err)
			}
		})
	}
}

// manyAttributes makes n samples with an attribute of their own.
func manyAttributes(p *payload, v pprofile.Profile, s pprofile.Sample, n int) {
	key := p.text("own")
	for i := range n {
		a := p.dict.AttributeTable().AppendEmpty()
		a.SetKeyStrindex(key)
		a.Value().SetInt(int64(i + 1))
		other := v.Samples().AppendEmpty()
		s.CopyTo(other)
		other.AttributeIndices().Append(int32(p.dict.AttributeTable().Len() - 1))
	}
}

func TestDeepStack(t *testing.T) {
	p := minimal(t)
	frames := p.dict.StackTable().At(1).LocationIndices()
	for range 999_999 {
		frames.Append(1)
	}
	out, err := FromOTLP(p.out, FromOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(out[0].Sample[0].Location); n != 1_000_000 || len(out[0].Location) != 1 {
		t.Errorf("%d frames of %d locations", n, len(out[0].Location))
	}
	back, err := ToOTLP(out[0], usual())
	if err != nil {
		t.Fatal(err)
	}
	if n := back.Dictionary().StackTable().At(1).LocationIndices().Len(); n != 1_000_000 {
		t.Errorf("%d frames came back", n)
	}
}

// TestMutatedPayloads sets indices of random payloads to anything: there is an error, or a valid profile that comes back.
func TestMutatedPayloads(t *testing.T) {
	good := 0
	for seed := range uint64(150) {
		w := newWorld(t, seed)
		p := randomPayload(w)
		for range 1 + w.IntN(3) {
			w.mutate(p)
		}
		out, err := FromOTLP(p, FromOptions{Timestamps: w.chance(2)})
		if err != nil {
			continue
		}
		good++
		for _, v := range out {
			comesBack(t, throughFile(t, v))
		}
	}
	if good < 20 || good > 130 {
		t.Errorf("%d payloads are good", good)
	}
}

func (w *world) mutate(p pprofile.Profiles) {
	d := p.Dictionary()
	index := []int32{-1, 0, 1, 2, int32(w.IntN(50)), math.MaxInt32, math.MinInt32}[w.IntN(7)]
	rp := p.ResourceProfiles().At(w.IntN(p.ResourceProfiles().Len()))
	sp := rp.ScopeProfiles().At(w.IntN(rp.ScopeProfiles().Len()))
	v := sp.Profiles().At(w.IntN(sp.Profiles().Len()))
	s := v.Samples().At(w.IntN(v.Samples().Len()))
	l := d.LocationTable().At(w.IntN(d.LocationTable().Len()))
	switch w.IntN(12) {
	case 0:
		s.SetStackIndex(index)
	case 1:
		s.SetLinkIndex(index)
	case 2:
		s.AttributeIndices().Append(index)
	case 3:
		l.SetMappingIndex(index)
	case 4:
		l.AttributeIndices().Append(index)
	case 5:
		l.Lines().AppendEmpty().SetFunctionIndex(index)
	case 6:
		d.StackTable().At(w.IntN(d.StackTable().Len())).LocationIndices().Append(index)
	case 7:
		d.MappingTable().At(1).SetFilenameStrindex(index)
	case 8:
		d.AttributeTable().At(w.IntN(d.AttributeTable().Len())).SetKeyStrindex(index)
	case 9:
		v.PeriodType().SetTypeStrindex(index)
	case 10:
		v.AttributeIndices().Append(index)
	case 11:
		s.Values().Append(int64(index))
	}
}

func TestMalformedProfiles(t *testing.T) {
	good := func() *profile.Profile {
		f := &profile.Function{ID: 1, Name: "f"}
		l := &profile.Location{ID: 1, Line: []profile.Line{{Function: f}}}
		return &profile.Profile{
			SampleType: []*profile.ValueType{{Type: "a", Unit: "b"}},
			Function:   []*profile.Function{f}, Location: []*profile.Location{l},
			Sample: []*profile.Sample{{Location: []*profile.Location{l}, Value: []int64{1}}},
		}
	}
	for _, c := range []struct {
		name string
		make func(p *profile.Profile)
		want string
	}{
		{"none", func(*profile.Profile) {}, ""},
		{"invalid", func(p *profile.Profile) { p.Sample[0].Value = nil }, "checking the pprof profile: mismatch"},
		{"foreign location", func(p *profile.Profile) { p.Sample[0].Location[0] = &profile.Location{ID: 1} },
			"reading sample 0: location 1 is not in the profile's table"},
		{"unknown location", func(p *profile.Profile) { p.Sample[0].Location[0] = &profile.Location{ID: 1 << 60} },
			"reading sample 0: location 1152921504606846976 is not in the profile's table"},
		{"units", func(p *profile.Profile) {
			p.Sample[0].NumLabel = map[string][]int64{"x": {1, 2}}
			p.Sample[0].NumUnit = map[string][]string{"x": {"s"}}
		}, `label "x" has 2 values, but 1 units`},
		{"long string", func(p *profile.Profile) { p.Function[0].Name = strings.Repeat("x", 20<<20) },
			"has 20971520 bytes, more than 1048576"},
		{"long value of a label", func(p *profile.Profile) {
			p.Sample[0].Label = map[string][]string{"x": {strings.Repeat("x", 20<<20)}}
		}, "has 20971520 bytes, more than 1048576"},
		{"long key", func(p *profile.Profile) {
			p.Sample[0].Label = map[string][]string{strings.Repeat("x", 2000): {"x"}}
		}, "key of a label has 2000 bytes, more than 1056"},
		{"labels", func(p *profile.Profile) {
			p.Sample[0].Label = map[string][]string{}
			for i := range 2000 {
				p.Sample[0].Label[fmt.Sprint(i)] = []string{"x"}
			}
		}, "it has 2000 labels, more than 1032"},
		{"overflow", func(p *profile.Profile) {
			p.Sample[0].Value[0] = math.MaxInt64
			p.Sample = append(p.Sample, p.Sample[0])
		}, "reading sample 1: sum of the values overflows"},
		{"end of time", func(p *profile.Profile) {
			p.Sample[0].NumLabel = map[string][]int64{labelTimestamp: {math.MaxInt64}}
		}, "no room for the end of the profile"},
		{"comments", func(p *profile.Profile) { p.Comments = []string{strings.Repeat("x", 1<<20), "x"} },
			"attribute \"pprof.profile.comment\": value takes more than 1048576 bytes as text"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := good()
			c.make(p)
			_, err := ToOTLP(p, usual())
			if c.want == "" && err != nil {
				t.Error(err)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 500) {
				t.Errorf("error %.1000v, want %s", err, c.want)
			}
		})
	}
	if _, err := ToOTLP(nil, ToOptions{}); err == nil {
		t.Error("no profile is taken")
	}
}

func readGolden(t testing.TB) pprofile.Profiles {
	t.Helper()
	b, err := os.ReadFile("../../testdata/profiles/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	p, err := (&pprofile.JSONUnmarshaler{}).UnmarshalProfiles(b)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestLargeProfiles: what makes many Profiles, columns or labels takes time and memory in proportion.
func TestLargeProfiles(t *testing.T) {
	for _, c := range []struct {
		name            string
		samples, labels int
		columns         int
		key             string
	}{
		{"50,000 resources", 50_000, 1, 1, "process.pid"},
		{"50,000 scopes", 50_000, 1, 1, "otel.scope.x"},
		{"50,000 profiles", 50_000, 1, 1, "otel.profile.x"},
		{"200 resources with 1,000 attributes", 200, 1000, 1, "process."},
		{"200 samples with 1,000 odd labels", 200, 1000, 1, attrLabel},
		{"1,000 types", 1000, 1, 1000, "x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &profile.Profile{TimeNanos: testTime}
			for i := range c.columns {
				p.SampleType = append(p.SampleType, &profile.ValueType{Type: fmt.Sprint("type", i%2), Unit: "count"})
			}
			for i := range c.samples {
				s := &profile.Sample{NumLabel: map[string][]int64{}}
				for range c.columns {
					s.Value = append(s.Value, int64(i+1))
				}
				for k := range c.labels {
					key := c.key
					if c.labels > 1 {
						key += fmt.Sprint(k)
					}
					s.NumLabel[key] = []int64{int64(i + 1)}
				}
				p.Sample = append(p.Sample, s)
			}
			// The least that pprof writes for all of it: some bytes for each value and label.
			size := uint64(c.samples * (c.columns + 10*c.labels))
			var out pprofile.Profiles
			var err error
			start := time.Now()
			if n := allocated(func() { out, err = ToOTLP(p, ToOptions{}) }); n > 600*size+1<<20 {
				t.Errorf("%d bytes for a profile of about %d", n, size)
			}
			if d := time.Since(start); d > time.Minute {
				t.Errorf("it took %v", d)
			}
			if err != nil || out.SampleCount() != c.samples*c.columns {
				t.Errorf("%d samples, %v", out.SampleCount(), err)
			}
		})
	}
}
