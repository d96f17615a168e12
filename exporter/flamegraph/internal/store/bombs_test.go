package store

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// Payloads and questions that are small to write and large to work out.

// refused adds a payload that would take more than there is, and tells how much the tables grew for it.
func refused(t *testing.T, p *payload) {
	t.Helper()
	const budget = 16 << 20
	s := New(Options{Window: time.Minute, Bytes: budget})
	if _, err := s.Add(twoProcesses().Profiles, epoch); err != nil {
		t.Fatal(err)
	}
	before := heapBytes()
	if _, err := s.Add(p.Profiles, epoch); !errors.Is(err, ErrTooLarge) {
		t.Fatalf("error %v", err)
	}
	if grown := cap(s.t.lists.items)*16 + cap(s.t.strings.items)*16 + s.t.bytes; grown > budget {
		t.Errorf("%d bytes are held", grown)
	}
	if after := heapBytes(); after-before > budget/4 {
		t.Errorf("%d bytes are left behind", after-before)
	}
	if f := flame(t, s, Query{}, View{}); f.Total != 150 {
		t.Errorf("then there are %d samples", f.Total)
	}
}

func TestAttributesOfManySamples(t *testing.T) {
	p := newPayload()
	pr := p.process("x", 1)
	for i := range 4000 {
		pr.AttributeIndices().Append(p.attr(fmt.Sprint("k", i), "v"))
	}
	for i := range 2000 {
		p.sample(pr, "main", "", 1).AttributeIndices().Append(p.attr("n", fmt.Sprint(i)))
	}
	s := New(Options{Window: time.Minute, Bytes: 16 << 20})
	if _, err := s.Add(p.Profiles, epoch.Add(10*time.Second)); err != nil {
		t.Fatal(err) // the list of the profile is there once
	}
	snapshot := s.Snapshot(epoch)
	if tree, _ := snapshot.Tree(Query{Selection: Selection{Filters: []Filter{{Key: "k17", Value: "v"}, {Key: "n", Value: "3"}}}}); tree.total[0] != 1 {
		t.Errorf("%d samples", tree.total[0])
	}
	out, _ := snapshot.Export(Export{})
	if at := out.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().At(0); at.AttributeIndices().Len() != 4000 || at.Samples().Len() != 2000 {
		t.Errorf("exported: %d attributes, %d samples", at.AttributeIndices().Len(), at.Samples().Len())
	}
	// Lists of their own are too much.
	p = newPayload()
	pr = p.process("x", 1)
	var list []int32
	for i := range 4000 {
		list = append(list, p.attr(fmt.Sprint("k", i), "v"))
	}
	for i := range 2000 {
		sample := p.sample(pr, "main", "", 1)
		sample.AttributeIndices().FromRaw(list)
		sample.AttributeIndices().SetAt(0, p.attr("n", fmt.Sprint(i)))
	}
	refused(t, p)
}

func TestLongMappingNames(t *testing.T) {
	p := newPayload()
	pr := p.process("x", 1)
	d := p.Dictionary()
	m := p.mapping("/" + strings.Repeat("m", 16000))
	for i := range 2000 {
		l := d.LocationTable().AppendEmpty()
		l.SetMappingIndex(m)
		l.SetAddress(uint64(i))
		d.StackTable().AppendEmpty().LocationIndices().Append(int32(d.LocationTable().Len() - 1))
		sample := pr.Samples().AppendEmpty()
		sample.SetStackIndex(int32(d.StackTable().Len() - 1))
		sample.TimestampsUnixNano().Append(uint64(epoch.UnixNano()))
	}
	s := New(Options{Window: time.Minute, Bytes: 16 << 20})
	if _, err := s.Add(p.Profiles, epoch.Add(10*time.Second)); err != nil {
		t.Fatal(err)
	}
	if n := s.size(); n > 2<<20 {
		t.Errorf("%d bytes are held", n)
	}
	f := flame(t, s, Query{}, View{})
	if name := f.Functions[7].Name; len(f.Functions) != 2001 || len(name) > 220 || !strings.Contains(name, "…+0x") {
		t.Errorf("%d functions, one is %q", len(f.Functions), name)
	}
}

// withArgs has processes with a list as attribute, as process.command_args of the semantic conventions is.
func withArgs(n, args int) *payload {
	p := newPayload()
	for i := range n {
		p.sample(p.process("x", int64(i)), "main", "", 1)
		list := p.ResourceProfiles().At(i).Resource().Attributes().PutEmptySlice("process.command_args")
		for k := range args {
			list.AppendEmpty().SetStr(fmt.Sprintf("--argument-%d=%d", k, i))
		}
	}
	return p
}

func TestLists(t *testing.T) {
	s := testStore(t, withArgs(20_000, 2))
	s.compact() // either is over in no time, or takes longer than a test may
	snapshot := s.Snapshot(epoch)
	tree, _ := snapshot.Tree(Query{Selection: Selection{Filters: []Filter{{Key: "process.command_args", Value: `["--argument-0=777","--argument-1=777"]`}}}})
	if tree.total[0] != 1 {
		t.Errorf("%d samples", tree.total[0])
	}
	refused(t, withArgs(6000, 60))
}

func TestLinksOfManySamples(t *testing.T) {
	p := newPayload()
	pr := p.process("x", 1)
	for i := range 200_000 {
		l := p.Dictionary().LinkTable().AppendEmpty()
		l.SetSpanID(pcommon.SpanID{byte(i), byte(i >> 8), byte(i >> 16), 1})
		p.sample(pr, "main", "", 1).SetLinkIndex(int32(i + 1))
	}
	refused(t, p)
}

// TestManyTimes: a few bytes each, in one payload.
func TestManyTimes(t *testing.T) {
	p := newPayload()
	stamps := p.sample(p.process("x", 1), "main", "").TimestampsUnixNano()
	for range 1 << 20 {
		stamps.Append(uint64(epoch.UnixNano()))
	}
	refused(t, p)
	s := New(Options{Window: time.Minute, Bytes: 256 << 20})
	before := heapBytes()
	if _, err := s.Add(p.Profiles, epoch); err != nil {
		t.Fatal(err)
	}
	if held, is := s.size(), heapBytes()-before; is > held*5/4 {
		t.Errorf("%d bytes are held, %d by its own count", is, held)
	}
}

func TestManyFilters(t *testing.T) {
	s := testStore(t, twoProcesses()).Snapshot(epoch)
	sel := Selection{}
	for i := range 2000 {
		sel.Filters = append(sel.Filters, Filter{Key: "process.pid", Value: fmt.Sprint(1 + i%2)})
	}
	began := time.Now()
	s.Labels(Selection{Filters: sel.Filters[:1]}, 10)
	one := time.Since(began)
	began = time.Now()
	labels := s.Labels(sel, 10)
	if took := time.Since(began); took > 100*one+time.Second {
		t.Errorf("%v, one filter %v", took, one)
	}
	for _, l := range labels {
		if l.Key == "process.pid" && len(l.Values) != 2 {
			t.Errorf("%+v", l)
		}
	}
}

func TestRegularExpressionsAreBounded(t *testing.T) {
	for _, text := range []string{"/" + strings.Repeat(".{0,1000}", 111) + "/", "/" + strings.Repeat("(.?){1000}", 99) + "/", "/(a{500}){5}/"} {
		if _, err := NewMatcher(text); err == nil {
			t.Errorf("%.20s… is taken", text)
		}
	}
	m, err := NewMatcher(`/^std::(vec|map)\b.*push_(back|front)$/`)
	if err != nil || !m(&Function{Name: "std::vector<int>::push_back"}) && !m(&Function{Name: "std::map::push_back"}) {
		t.Errorf("error %v", err)
	}
}

func TestClocks(t *testing.T) {
	now := epoch.Add(time.Hour)
	at := func(stamps ...time.Time) *payload {
		p := newPayload()
		sample := p.sample(p.process("x", 1), "main", "")
		for _, s := range stamps {
			sample.TimestampsUnixNano().Append(uint64(s.UnixNano()))
		}
		return p
	}
	none := newPayload()
	pr := none.process("x", 1)
	pr.SetTime(0)
	pr.SetDurationNano(0)
	none.sample(pr, "main", "").Values().Append(7)
	long := newPayload() // a profile of an hour, as heap profiles are
	pr = long.process("x", 1)
	pr.SetTime(pcommon.NewTimestampFromTime(now.Add(-time.Hour)))
	pr.SetDurationNano(uint64(time.Hour))
	long.sample(pr, "main", "").Values().Append(7)
	const second = time.Second
	for _, tt := range []struct {
		name     string
		p        *payload
		from, to time.Duration // of the window, from now
		skew     time.Duration
	}{
		{"true", at(now.Add(-9*second), now.Add(-second)), -9 * second, -second, 0},
		{"a little ahead", at(now.Add(-second), now.Add(4*second)), -second, 4 * second, 0},
		{"a day ahead", at(now.Add(24*time.Hour-9*second), now.Add(24*time.Hour)), -9 * second, 0, 24 * time.Hour},
		{"a day behind", at(now.Add(-24*time.Hour-9*second), now.Add(-24*time.Hour)), -9 * second, 0, -24 * time.Hour},
		{"no time", none, 0, 0, 0},
		{"a long profile", long, -15 * time.Minute, -15 * time.Minute, 0},
		{"zero and now", at(time.Unix(0, 0), now), -15 * time.Minute, 0, 0},
		{"the end of time", at(time.Unix(0, -1)), 0, 0, time.Duration(maxMicros-now.UnixMicro()) * time.Microsecond},
	} {
		s := New(Options{Window: 15 * time.Minute, Bytes: 16 << 20})
		// What tells time by stamps has no other time.
		if p := tt.p.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().At(0); p.Samples().At(0).TimestampsUnixNano().Len() > 0 {
			p.SetTime(0)
		}
		added, err := s.Add(tt.p.Profiles, now)
		if err != nil {
			t.Fatal(err)
		}
		w := s.Snapshot(now).Window()
		from, to := time.UnixMilli(w.From).Sub(now), time.UnixMilli(w.To).Sub(now)
		if from != tt.from || to != tt.to+time.Millisecond || added.Skew != tt.skew || (added.Skewed != 0) != (tt.skew != 0) {
			t.Errorf("%s: from %v to %v, %+v", tt.name, from, to, added)
		}
	}
}

func TestDroppedUntilEnds(t *testing.T) {
	s := New(Options{Window: time.Minute, Bytes: 4 << 20})
	for i := range 100 {
		p := newPayload()
		pr := p.process("x", 1)
		for k := range 300 {
			p.sample(pr, fmt.Sprintf("a%d_%d b c d", i, k), "", i*1000)
		}
		if _, err := s.Add(p.Profiles, epoch.Add(time.Duration(i+10)*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	if w := s.Snapshot(epoch.Add(111 * time.Second)).Window(); w.DroppedUntil == 0 {
		t.Fatal("nothing was dropped")
	}
	if w := s.Snapshot(epoch.Add(time.Hour)).Window(); w.DroppedUntil != 0 || w.Samples != 0 {
		t.Errorf("an hour later: %+v", w)
	}
}

// TestSerial: whatever changes what is held gives snapshots another serial.
func TestSerial(t *testing.T) {
	s := testStore(t, twoProcesses())
	a, b, c := s.Snapshot(epoch), s.Snapshot(epoch.Add(time.Second)), s.Snapshot(epoch.Add(time.Hour))
	if a.Serial != b.Serial || b.Serial == c.Serial || c.window.Samples != 0 || s.Serial() != c.Serial {
		t.Errorf("serials %d, %d, %d", a.Serial, b.Serial, c.Serial)
	}
}

// TestOddSamples: values below 0 are no part of a whole, anywhere; a key of many attributes counts once.
func TestOddSamples(t *testing.T) {
	p := newPayload()
	pr := p.process("x", 1)
	p.sample(pr, "main a", "").Values().Append(10)
	odd := p.sample(pr, "main b", "")
	odd.Values().Append(-5)
	for range 2 {
		for i := range 100 {
			odd.AttributeIndices().Append(p.attr(fmt.Sprint("k", i), "v"))
		}
	}
	s := testStore(t, p).Snapshot(epoch)
	tree, _ := s.Tree(Query{})
	heat, _ := s.Heatmap(Selection{}, 1, 1)
	if tree.total[0] != 10 || heat.Values[0] != 10 {
		t.Errorf("tree %d, heatmap %d", tree.total[0], heat.Values[0])
	}
	for _, l := range s.Labels(Selection{}, 10) {
		if l.Key == "process.pid" && l.Values[0].Total != 10 {
			t.Errorf("%+v", l)
		}
	}
	n := map[uint32]int{}
	for i := range s.series {
		clear(n)
		s.keys(&s.series[i], func(key, _ uint32) { n[key]++ })
		for key, times := range n {
			if times != 1 {
				t.Errorf("%s: %d times", s.strings[key], times)
			}
		}
	}
}
