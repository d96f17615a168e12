package profile

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/hostprofiles/hostprofiles/internal/profile/conformance"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestRandomSamples(t *testing.T) {
	for _, limit := range []int{3000, 5000, 20_000, 200_000, DefaultPayloadBytes} {
		for seed := range uint64(6) {
			t.Run(fmt.Sprint(limit, "/", seed), func(t *testing.T) {
				w := newWorld(seed, 1+int(seed)*3, 40, 30)
				b := New(Options{PayloadBytes: limit, ThreadIDs: seed%2 == 0, Version: "1.2.3"})
				for round := range 2 { // the second with reused memory
					const n = 2000
					for range n {
						if !b.Add(w.sample()) {
							t.Fatal("sample was refused")
						}
					}
					if b.Samples() != n {
						t.Fatalf("builder has %d samples", b.Samples())
					}
					payloads, lost := b.Flush(resolve, t0, t0.Add(5*time.Second))
					if got := checkPayloads(t, payloads, limit); got+lost != n {
						t.Fatalf("round %d: %d in payloads + %d lost, %d added", round, got, lost, n)
					}
					if limit >= 5000 && lost > 0 {
						t.Errorf("%d lost", lost)
					}
					if b.Samples() != 0 {
						t.Errorf("after a flush %d samples", b.Samples())
					}
				}
			})
		}
	}
}

// TestExactSizes: the sizes by which payloads are split are those that pdata computes.
func TestExactSizes(t *testing.T) {
	for seed := range uint64(20) {
		w := newWorld(seed, 8, 60, 40)
		b := New(Options{ThreadIDs: true, Version: "1.2.3"})
		for range 2000 {
			b.Add(w.sample())
		}
		f := b.newFlush(resolve, t0, t0.Add(5*time.Second))
		p := newPlan(f)
		check := func() {
			t.Helper()
			out := f.emit(p, 0).Profiles
			if got, want := p.size.exact(), (&pprofile.ProtoMarshaler{}).ProfilesSize(out); got != want {
				t.Fatalf("seed %d, %d processes: planned %d bytes, pdata says %d", seed, len(p.resources), got, want)
			}
			if got, bound := len(marshal(t, out)), p.size.bound(); got > bound || got < bound*3/4 {
				t.Fatalf("seed %d, %d processes: %d bytes marshalled, bound %d", seed, len(p.resources), got, bound)
			}
		}
		for _, r := range f.groups {
			before := p.size
			if !p.addResource(r) {
				t.Fatal("does not fit")
			}
			after := p.size
			check()
			f.limit = 0 // nothing fits: everything is taken back
			for _, other := range f.groups {
				if p.addResource(other) {
					t.Fatal("fits")
				}
			}
			f.limit = DefaultPayloadBytes
			if p.size != after || p.size == before {
				t.Fatalf("after taking back: %+v, before %+v", p.size, after)
			}
			check()
		}
	}
}

func TestMeasuredTooLarge(t *testing.T) {
	w := newWorld(1, 5, 40, 20)
	b := New(Options{PayloadBytes: 20_000})
	for range 2000 {
		b.Add(w.sample())
	}
	f := b.newFlush(resolve, t0, t0.Add(time.Second))
	real := f.measure
	f.measure = func(p pprofile.Profiles) int { return real(p) * 3 / 2 } // as if pdata had got wordier
	payloads, lost := f.run()
	if got := checkPayloads(t, payloads, 20_000*2/3); got+lost != 2000 || lost > 0 {
		t.Errorf("%d in payloads, %d lost", got, lost)
	}
	f.measure = func(pprofile.Profiles) int { return 1 << 30 }
	if payloads, lost := f.run(); len(payloads) != 0 || lost != 2000 {
		t.Errorf("%d payloads, %d lost", len(payloads), lost)
	}
}

func TestTooLargeSampleIsLostAndCounted(t *testing.T) {
	for _, shape := range []Shape{ShapeTimes, ShapeTimesValues, ShapeSum} {
		b := New(Options{PayloadBytes: 3000})
		r := newResource(1)
		o := Origin{Type: "x", Unit: "y", Shape: shape}
		deep := make([]Location, 2000)
		for i := range deep {
			deep[i].Address = uint64(i)
		}
		for i := range 5 {
			b.Add(o, &Sample{Resource: r, Time: uint64(t0.UnixNano()) + uint64(i), Stack: deep})
			b.Add(o, &Sample{Resource: r, Time: uint64(t0.UnixNano()) + uint64(i), Stack: deep[:10]})
		}
		payloads, lost := b.Flush(nil, t0, t0.Add(time.Second))
		if got := checkPayloads(t, payloads, 3000); got != 5 || lost != 5 {
			t.Errorf("shape %d: %d in payloads, %d lost", shape, got, lost)
		}
	}
}

// TestManyTimes: one sample's timestamps alone need several payloads.
func TestManyTimes(t *testing.T) {
	for _, o := range []Origin{onCPU(), OffCPU()} {
		b := New(Options{PayloadBytes: 5000})
		s := Sample{Resource: newResource(1), Stack: []Location{{Address: 1}}}
		const n = 10_000
		for i := range n {
			s.Time, s.Value = uint64(t0.UnixNano())+uint64(i*7919%n), int64(i)
			b.Add(o, &s)
		}
		payloads, lost := b.Flush(nil, t0, t0.Add(time.Second))
		got := checkPayloads(t, payloads, 5000)
		if got != n || lost != 0 || len(payloads) < n*8/5000 || len(payloads) > n*8/5000*3 {
			t.Errorf("%d in %d payloads, %d lost", got, len(payloads), lost)
		}
		last := uint64(0)
		for _, p := range payloads {
			for _, ts := range p.Profiles.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().At(0).Samples().At(0).
				TimestampsUnixNano().All() {
				if ts < last {
					t.Fatalf("time %d after %d", ts, last)
				}
				last = ts
			}
		}
	}
}

func TestDeterministic(t *testing.T) {
	flush := func() (out [][]byte) {
		w := newWorld(7, 20, 100, 30)
		b := New(Options{PayloadBytes: 50_000, IDSeed: "boot"})
		for range 5000 {
			b.Add(w.sample())
		}
		payloads, _ := b.Flush(resolve, t0, t0.Add(5*time.Second))
		for _, p := range payloads {
			out = append(out, marshal(t, p.Profiles))
		}
		return out
	}
	a, b := flush(), flush()
	if len(a) != len(b) || len(a) < 2 {
		t.Fatalf("%d and %d payloads", len(a), len(b))
	}
	for i := range a {
		if !bytes.Equal(a[i], b[i]) {
			t.Errorf("payload %d differs", i)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	w := newWorld(3, 10, 100, 30)
	b := New(Options{ThreadIDs: true})
	for range 5000 {
		b.Add(w.sample())
	}
	payloads, _ := b.Flush(resolve, t0, t0.Add(5*time.Second))
	p := payloads[0].Profiles
	wire := marshal(t, p)
	back, err := (&pprofile.ProtoUnmarshaler{}).UnmarshalProfiles(wire)
	if err != nil {
		t.Fatal(err)
	}
	if err := conformance.Check(back); err != nil {
		t.Error(err)
	}
	if got := marshal(t, back); !bytes.Equal(got, wire) {
		t.Errorf("marshalled again: %d bytes, before %d", len(got), len(wire))
	}
	c := pprofile.NewProfiles()
	p.CopyTo(c)
	text, err := (&pprofile.JSONMarshaler{}).MarshalProfiles(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := conformance.CheckJSON(append(text, '\n')); err != nil {
		t.Error(err)
	}
	if p.IsReadOnly() {
		t.Error("a payload is read-only")
	}
}

// goldenSamples shows every feature once.
func goldenSamples(b *Builder) {
	at := func(ms int) uint64 { return uint64(t0.Add(time.Duration(ms) * time.Millisecond).UnixNano()) }
	web := newResource(4711)
	web.Extra = []Attribute{{"service.name", String("web")}, {"process.pid", Int(1)}}
	job := &Resource{PID: 2, CreationTime: t0.Add(-24 * time.Hour), ExecutableName: "kthreadd"}
	exe, kernel := newMapping(1), &Mapping{Start: 0x9000, Limit: 0xa000, File: "[kernel.kallsyms]", BuildIDGNU: "c0ffee"}
	gone := &Mapping{Start: 0x1000, Limit: 0x2000, File: "/tmp/gone"}
	python := &Symbol{Lines: []unwind.Line{{Function: unwind.Function{Name: "handle", File: "app.py", StartLine: 10}, Line: 12}}}
	stack := []Location{
		{Type: FrameKernel, Mapping: kernel, Address: 0x9100},
		{Type: FrameGo, Mapping: exe, Address: 0x1234},
		{Type: FrameNative, Mapping: exe, Address: 0x1334, Guessed: true},
		{Type: FramePython, Symbol: python},
		{Type: FrameNative, Mapping: gone, Address: 0x1800},
	}
	s := Sample{Resource: web, ThreadID: 4712, ThreadName: "worker-1", Time: at(200), Stack: stack}
	b.Add(OffCPU(), &Sample{Resource: web, Time: at(50), Value: 1500, Stack: stack[:2], ThreadName: "worker-1"})
	b.Add(onCPU(), &s)
	s.Time = at(100)
	b.Add(onCPU(), &s)
	s.StopReason, s.Stack, s.Time = unwind.StopNoRule.String(), stack[1:3], at(6000)
	s.Link = Link{TraceID: [16]byte{1, 2}, SpanID: [8]byte{3, 4}}
	s.Attributes = []Attribute{{"tenant", String("blue")}, {"cpu.logical_number", Int(3)}}
	b.Add(onCPU(), &s)
	b.Add(onCPU(), &Sample{Resource: job, Time: at(10), Stack: stack[:1]})
	b.Add(onCPU(), &Sample{Resource: job, Time: at(11), StopReason: unwind.StopGone.String()})
}

func goldenResolve(dst []unwind.Line, l *Location) []unwind.Line {
	switch l.Address {
	case 0x9100:
		dst = append(dst, unwind.Line{Function: unwind.Function{Name: "do_syscall_64"}})
	case 0x1234:
		dst = append(dst, unwind.Line{Function: unwind.Function{Name: "inner", SystemName: "_Z5innerv", File: "a.go", StartLine: 3}, Line: 4, Column: 7},
			unwind.Line{Function: unwind.Function{Name: "outer", File: "a.go", StartLine: 8}, Line: 9})
	}
	return dst
}

func TestGolden(t *testing.T) {
	b := New(Options{ThreadIDs: true, Version: "0.1.0", IDSeed: "host"})
	goldenSamples(b)
	payloads, lost := b.Flush(goldenResolve, t0, t0.Add(5*time.Second))
	if len(payloads) != 1 || lost != 0 {
		t.Fatalf("%d payloads, %d lost", len(payloads), lost)
	}
	checkPayloads(t, payloads, DefaultPayloadBytes)
	raw, err := (&pprofile.JSONMarshaler{}).MarshalProfiles(payloads[0].Profiles)
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if err := json.Indent(&got, raw, "", "  "); err != nil {
		t.Fatal(err)
	}
	got.WriteByte('\n')
	name := filepath.Join("..", "..", "testdata", "profiles", "golden.json")
	if *update {
		if err := os.WriteFile(name, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("differs from %s (-update writes it anew):\n%s", name, got.Bytes())
	}
}

func TestExtremes(t *testing.T) {
	if got, lost := New(Options{}).Flush(nil, t0, t0); got != nil || lost != 0 {
		t.Errorf("empty builder: %d payloads, %d lost", len(got), lost)
	}
	b := New(Options{})
	if b.Add(onCPU(), &Sample{}) || b.Samples() != 0 {
		t.Error("a sample without resource was counted")
	}
	long := strings.Repeat("\u20ac", 10_000)
	r := newResource(1)
	r.ExecutableName, r.Extra = "\xff", []Attribute{{long, String(long)}}
	sum := Origin{Type: "x", Unit: "y", Shape: ShapeSum}
	for _, ts := range []uint64{0, 1, math.MaxInt64, math.MaxUint64} {
		s := &Sample{Resource: r, Time: ts, ThreadName: long, Value: math.MaxInt64, Stack: []Location{
			{Type: "unheard\xff"}, {Type: FrameNative, Address: math.MaxUint64, Mapping: newMapping(1)},
			{Symbol: &Symbol{Lines: []unwind.Line{{Function: unwind.Function{Name: long}, Line: -1, Column: -1}}}},
		}}
		b.Add(onCPU(), s)
		b.Add(sum, s)
	}
	payloads, lost := b.Flush(nil, time.Time{}, time.Time{})
	if len(payloads) != 1 || lost != 0 || payloads[0].Samples != 8 {
		t.Fatalf("%d payloads, %d lost", len(payloads), lost)
	}
	p := payloads[0].Profiles.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles()
	if d := p.At(0).DurationNano(); d != math.MaxInt64 {
		t.Errorf("duration %d", d)
	}
	if v := p.At(1).Samples().At(0).Values().At(0); v != math.MaxInt64 {
		t.Errorf("sum %d", v)
	}
	for _, s := range payloads[0].Profiles.Dictionary().StringTable().All() {
		if len(s) > maxString {
			t.Errorf("string of %d bytes", len(s))
		}
	}
	if got := payloads[0].Profiles.Dictionary().LocationTable(); got.At(2).MappingIndex() != 0 {
		t.Error("an address outside of its mapping refers to it")
	}
	if _, err := (&pprofile.ProtoUnmarshaler{}).UnmarshalProfiles(marshal(t, payloads[0].Profiles)); err != nil {
		t.Error(err)
	}
}

func TestMergesWhatIsEqual(t *testing.T) {
	b := New(Options{})
	stack := func() []Location {
		return []Location{{Address: 0x1500, Mapping: newMapping(1)}, {Symbol: &Symbol{Lines: []unwind.Line{{Function: unwind.Function{Name: "f"}}}}}}
	}
	a, c := Attribute{"a", Int(1)}, Attribute{"b", Bool(true)}
	for i, s := range []Sample{
		{ThreadName: "\xfe", Attributes: []Attribute{a, c}}, {ThreadName: "\xff", Attributes: []Attribute{c, a, a}},
	} {
		s.Resource, s.Stack, s.Time = newResource(1), stack(), uint64(t0.UnixNano())+uint64(10-i)
		b.Add(onCPU(), &s)
	}
	payloads, _ := b.Flush(nil, t0, t0.Add(time.Second))
	checkPayloads(t, payloads, DefaultPayloadBytes)
	if n := payloads[0].Profiles.ResourceProfiles().Len(); n != 1 {
		t.Errorf("%d resources", n)
	}
	samples := payloads[0].Profiles.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().At(0).Samples()
	if samples.Len() != 1 || samples.At(0).TimestampsUnixNano().Len() != 2 {
		t.Errorf("%d samples", samples.Len())
	}
}

// TestSymbolized: pprof's flags say that nothing is left to symbolize.
func TestSymbolized(t *testing.T) {
	for _, c := range []struct {
		name string
		two  []unwind.Line
		want []string
	}{
		{"all", []unwind.Line{{Function: unwind.Function{Name: "g", File: "y"}, Line: 2}, {Function: unwind.Function{Name: "h", File: "y"}, Line: 2}},
			[]string{attrHasFunctions, attrHasFilenames, attrHasLines, attrHasInlines}},
		{"no line", []unwind.Line{{Function: unwind.Function{Name: "g", File: "y"}}}, []string{attrHasFunctions, attrHasFilenames}},
		{"name only", []unwind.Line{{Function: unwind.Function{SystemName: "g"}}}, []string{attrHasFunctions}},
		{"partly", nil, nil},
	} {
		b := New(Options{})
		m := &Mapping{BuildIDGNU: "ab", File: "x"}
		b.Add(onCPU(), &Sample{Resource: newResource(1), Time: 1, Stack: []Location{{Mapping: m, Address: 1}, {Mapping: m, Address: 2}}})
		payloads, _ := b.Flush(func(dst []unwind.Line, l *Location) []unwind.Line {
			if l.Address == 1 {
				return append(dst, unwind.Line{Function: unwind.Function{Name: "f", File: "x"}, Line: 1})
			}
			return append(dst, c.two...)
		}, t0, t0)
		d := payloads[0].Profiles.Dictionary()
		var got []string
		for _, a := range d.MappingTable().At(1).AttributeIndices().All() {
			if v := d.AttributeTable().At(int(a)); v.Value().Type() == pcommon.ValueTypeBool {
				got = append(got, d.StringTable().At(int(v.KeyStrindex())))
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestResolverRefinesType(t *testing.T) {
	b := New(Options{})
	b.Add(onCPU(), &Sample{Resource: newResource(1), Time: 1, Stack: []Location{{Type: FrameNative, Address: 1}}})
	payloads, _ := b.Flush(func(dst []unwind.Line, l *Location) []unwind.Line { l.Type = FrameRust; return dst }, t0, t0)
	d := payloads[0].Profiles.Dictionary()
	a := d.AttributeTable().At(int(d.LocationTable().At(1).AttributeIndices().At(0)))
	if got := a.Value().Str(); got != "rust" {
		t.Errorf("frame type %q", got)
	}
}

func TestBytesGrowsWithWhatIsHeld(t *testing.T) {
	w := newWorld(1, 50, 2000, 40)
	b := New(Options{})
	empty := b.Bytes()
	for range 20_000 {
		b.Add(w.sample())
	}
	if full := b.Bytes(); full < 20_000*24 || full > 20_000*24*20 {
		t.Errorf("%d bytes, empty %d", full, empty)
	}
	b.Flush(nil, t0, t0)
	b.Flush(nil, t0, t0)
	b.Add(w.sample())
	b.Flush(nil, t0, t0)
	b.Flush(nil, t0, t0)
	if again := b.Bytes(); again > empty+chunkEvents*24 {
		t.Errorf("%d bytes after flushes, empty %d", again, empty)
	}
}

func TestAddDoesNotAllocate(t *testing.T) {
	b := New(Options{ThreadIDs: true})
	w := newWorld(1, 5, 50, 40)
	w.origins = w.origins[:1]
	samples := make([]*Sample, 2000)
	for i := range samples {
		_, samples[i] = w.sample()
		b.Add(onCPU(), samples[i])
	}
	i := 0
	if n := testing.AllocsPerRun(20_000, func() {
		b.Add(onCPU(), samples[i%len(samples)])
		i++
	}); n != 0 {
		t.Errorf("%v allocations per sample", n)
	}
}
