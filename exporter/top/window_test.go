package top

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/hostprofiles/hostprofiles/internal/stopreason"
)

func added(p pprofile.Profiles) *window {
	w := newWindow(at(0))
	w.add(p)
	return w
}

func TestSumsOfTypicalPayload(t *testing.T) {
	cpu := added(typical()).kinds[cpuTime]
	require.EqualValues(t, 246, cpu.samples)
	require.InDelta(t, 246*20e6, cpu.total, 0.5)
	require.InDelta(t, 30*20e6, cpu.kernel, 0.5)
	require.InDelta(t, 10*20e6, cpu.incomplete, 0.5)
	require.Len(t, cpu.processes, 2)
	require.InDelta(t, 200*20e6, cpu.rows[rowKey{process{1234, "sha256sum"}, function{name: "sha256_block"}}], 0.5)
	require.InDelta(t, 10*20e6, cpu.rows[rowKey{process{1234, "sha256sum"}, function{name: "libc.so.6 (no symbols)"}}], 0.5)
}

// Sources say the same in different ways: a second of CPU time each.
func TestCPUTimeInEveryForm(t *testing.T) {
	for name, build := range map[string]func(b *payload, s pprofile.ScopeProfiles){
		"timestamps": func(b *payload, s pprofile.ScopeProfiles) { b.events(b.onCPU(s), 0, 50) },
		"count":      func(b *payload, s pprofile.ScopeProfiles) { b.value(b.onCPU(s), 0, 50) },
		"nanoseconds": func(b *payload, s pprofile.ScopeProfiles) {
			b.value(b.profile(s, "cpu", "nanoseconds"), 0, 1e9)
		},
		"milliseconds": func(b *payload, s pprofile.ScopeProfiles) {
			b.value(b.profile(s, "cpu", "milliseconds"), 0, 1e3)
		},
		"values and timestamps": func(b *payload, s pprofile.ScopeProfiles) {
			p := b.profile(s, "cpu", "nanoseconds")
			b.events(p, 0, 2)
			p.Samples().At(0).Values().Append(4e8, 6e8)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newPayload()
			build(b, b.resource(map[string]any{attrPID: 1}))
			u := added(b.p).kinds[cpuTime]
			require.NotNil(t, u)
			require.InDelta(t, 1e9, u.total, 0.5)
		})
	}
}

func TestProcessOfSampleWhereResourceIsAHost(t *testing.T) {
	b := newPayload()
	p := b.onCPU(b.resource(map[string]any{attrServiceName: "fleet"}))
	b.events(p, 0, 1, b.attr(attrPID, 7), b.attr(attrExecutableName, "worker"))
	b.events(p, 0, 1, b.attr(attrPID, 8), b.attr(attrThreadName, "thread"))
	u := added(b.p).kinds[cpuTime]
	require.Contains(t, u.processes, process{7, "worker"})
	require.Contains(t, u.processes, process{8, "fleet"})
}

func TestFileOfALocationWithoutMapping(t *testing.T) {
	b := newPayload()
	l := b.location("", "native", "", 0x18d4)
	b.d.LocationTable().At(int(l)).AttributeIndices().Append(b.attr(attrMappingFile, "/opt/app/bin/app"))
	b.events(b.onCPU(b.resource(map[string]any{attrPID: 1})), b.stack(l), 1)
	require.Contains(t, added(b.p).kinds[cpuTime].rows, rowKey{process{pid: 1}, function{name: "app (no symbols)"}})
}

// TestFunctionWithoutName has two addresses of one function that nobody has named.
func TestFunctionWithoutName(t *testing.T) {
	b := newPayload()
	r := b.onCPU(b.resource(map[string]any{attrPID: 1}))
	for _, at := range []uint64{0x18d4, 0x18f0} {
		l := b.location("", "native", "", at)
		b.d.LocationTable().At(int(l)).AttributeIndices().Append(b.attr(attrMappingFile, "/opt/app/bin/app"), b.attr(attrFunction, 0x18c0))
		b.events(r, b.stack(l), 1)
	}
	rows := added(b.p).kinds[cpuTime].rows
	require.Len(t, rows, 1)
	require.Contains(t, rows, rowKey{process{pid: 1}, function{name: "app+0x18c0"}})
}

// TestReasons: a line for each reason that matters, in the words of the documentation; complete stacks are none.
func TestReasons(t *testing.T) {
	b := newPayload()
	p := b.onCPU(b.resource(map[string]any{attrPID: 1, attrExecutableName: "web"}))
	for reason, n := range map[string]int{"root": 100, "memory": 10, "no_rule": 20, "abi": 1, "<script>": 30} {
		b.events(p, b.stack(b.location(reason, "native", "", 1)), n, b.attr(attrStopReason, reason))
	}
	w := added(b.p)
	require.InDelta(t, 61*20e6, w.kinds[cpuTime].incomplete, 0.5)
	var got []string
	for line := range strings.Lines(render(w, at(5), 20, style{})) {
		if strings.HasPrefix(line, "incomplete ") {
			got = append(got, line)
		}
	}
	words := func(name string) string {
		r, _ := stopreason.Of(name)
		return r.Means
	}
	require.Equal(t, []string{"incomplete 12.4% no_rule: " + words("no_rule") + "\n", "incomplete 6.2% memory: " + words("memory") + "\n"}, got)
}

func TestPayloadsAddUp(t *testing.T) {
	w := newWindow(at(0))
	w.add(typical())
	w.add(typical())
	require.EqualValues(t, 2*246, w.kinds[cpuTime].samples)
	require.Equal(t, 5*time.Second, w.covered(cpuTime))
}

// report has a profile of n samples from start to end, in seconds, for each host.
func report(start, end, n int, hosts ...string) pprofile.Profiles {
	b := newPayload()
	for _, host := range hosts {
		p := b.onCPU(b.resource(map[string]any{attrPID: 1, attrHostName: host}))
		p.SetTime(pcommon.Timestamp(start) * 1e9)
		p.SetDurationNano(uint64(end-start) * 1e9)
		b.events(p, 0, n)
	}
	return b.p
}

// TestLateSamples: a report every 5 s, and the second has a sample of long before. Two CPUs stay two.
func TestLateSamples(t *testing.T) {
	w := newWindow(at(0))
	w.add(report(0, 5, 500, "a"))
	w = w.next(at(5))
	w.add(report(1, 10, 1, "a"))
	w.add(report(5, 10, 499, "a"))
	require.Contains(t, render(w, at(10), 20, style{}), "500 samples in 5.0s   2.00 CPUs")
	w = w.next(at(10)).next(at(15)) // a table without any
	w.add(report(15, 20, 500, "a"))
	require.Equal(t, 5*time.Second, w.covered(cpuTime), "what nothing was said of does not count")
	w = w.next(at(20))
	w.add(report(15, 20, 500, "a"))
	require.Equal(t, 5*time.Second, w.covered(cpuTime), "the same once more")
}

// TestHostsReportWhenTheyLike: each host's reports follow its own.
func TestHostsReportWhenTheyLike(t *testing.T) {
	w := newWindow(at(0))
	w.add(report(0, 60, 1, "slow", "fast"))
	w = w.next(at(60))
	w.add(report(100, 120, 1, "fast"))
	require.Equal(t, 20*time.Second, w.covered(cpuTime))
	w.add(report(60, 120, 1, "slow"))
	require.Equal(t, time.Minute, w.covered(cpuTime))
}

// TestEndsAreBounded: hosts come and go.
func TestEndsAreBounded(t *testing.T) {
	w := newWindow(at(0))
	for i := range maxEnds + 10 {
		w.add(report(0, 5, 1, fmt.Sprint("host", i)))
	}
	require.Len(t, w.kinds[cpuTime].spans, maxEnds)
	w = w.next(at(5))
	require.Len(t, w.ended, maxEnds)
	w.add(report(5, 10, 1, "another"))
	w = w.next(at(10))
	require.Len(t, w.ended, maxEnds)
	// Those that send no more are forgotten, and others remembered.
	w = w.next(at(5 + 3600))
	w.add(report(3605, 3610, 1, "another"))
	w = w.next(at(3610))
	require.Len(t, w.ended, 1)
	require.EqualValues(t, 3610, w.ended[source{cpuTime, "another"}].end.AsTime().Unix()-at(0).Unix())
}

func TestWrongIndicesAreSurvived(t *testing.T) {
	for _, i := range []int32{-1, math.MinInt32, 1000, math.MaxInt32} {
		b := newPayload()
		s := b.resource(map[string]any{attrPID: "not a number", attrExecutableName: 5})
		p := b.onCPU(s)
		p.SampleType().SetTypeStrindex(i)
		l := b.location("x", "native", "y", 1)
		d := b.d
		d.LocationTable().At(int(l)).SetMappingIndex(i)
		d.LocationTable().At(int(l)).AttributeIndices().Append(i)
		d.LocationTable().At(int(l)).Lines().At(0).SetFunctionIndex(i)
		d.AttributeTable().At(1).SetKeyStrindex(i)
		b.events(p, b.stack(l), 1, i)
		b.events(p, b.stack(i), 1)
		b.events(p, i, 1)
		p.SetDurationNano(math.MaxUint64)
		w := added(b.p)
		require.EqualValues(t, 3, w.kinds[cpuTime].samples)
		require.NotEmpty(t, render(w, at(5), 20, style{}))
	}
}

func TestWithoutAnyTable(t *testing.T) {
	p := pprofile.NewProfiles()
	sample := p.ResourceProfiles().AppendEmpty().ScopeProfiles().AppendEmpty().Profiles().AppendEmpty().Samples().AppendEmpty()
	sample.TimestampsUnixNano().Append(1)
	require.NotEmpty(t, render(added(p), at(5), 20, style{}))
	require.NotPanics(t, func() { added(pprofile.NewProfiles()) })
}

func TestMemoryIsBounded(t *testing.T) {
	b := newPayload()
	p := b.onCPU(b.resource(map[string]any{attrPID: 1}))
	for i := range maxRows + 100 {
		b.events(p, b.stack(b.location(fmt.Sprint("f", i), "native", "", uint64(i+1))), 1)
	}
	s := b.resource(map[string]any{attrPID: 1})
	for i := range 2 * maxKinds {
		b.value(b.profile(s, fmt.Sprint("kind", i), "count"), 0, 1)
	}
	w := added(b.p)
	require.Len(t, w.kinds, maxKinds)
	u := w.kinds[cpuTime]
	require.Len(t, u.rows, maxRows)
	require.InDelta(t, 100*20e6, u.beyond, 0.5)
	require.EqualValues(t, maxRows+100, u.samples)
}

func TestNegativeValuesDoNotCount(t *testing.T) {
	b := newPayload()
	p := b.profile(b.resource(nil), "cpu", "nanoseconds")
	b.value(p, 0, math.MinInt64)
	b.value(p, 0, math.MaxInt64)
	require.InEpsilon(t, float64(math.MaxInt64), added(b.p).kinds[cpuTime].total, 1e-9)
}

// Any bytes that pass for a payload must be survived.
func FuzzWindow(f *testing.F) {
	var m pprofile.ProtoMarshaler
	for _, p := range []pprofile.Profiles{typical(), pprofile.NewProfiles()} {
		seed, err := m.MarshalProfiles(p)
		require.NoError(f, err)
		f.Add(seed)
	}
	f.Fuzz(func(_ *testing.T, data []byte) {
		p, err := (&pprofile.ProtoUnmarshaler{}).UnmarshalProfiles(data)
		if err != nil {
			return
		}
		render(added(p), at(5), 5, style{width: 80, colours: true})
	})
}
