package pprof

import (
	"fmt"
	"math"
	"testing"

	"github.com/google/pprof/profile"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

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
