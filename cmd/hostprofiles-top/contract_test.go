package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/exporter/exportertest"
	"go.opentelemetry.io/collector/exporter/xexporter"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/api"
	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/live"
	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/text"
	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/view"
	"github.com/hostprofiles/hostprofiles/exporter/flamegraph"
	"github.com/hostprofiles/hostprofiles/internal/health"
	"github.com/hostprofiles/hostprofiles/internal/stopreason"
)

// payload builds profiles of one process, in which every entry of the tables is its own.
type payload struct {
	p pprofile.Profiles
	d pprofile.ProfilesDictionary
	s pprofile.Profile
}

func newPayload(process string, end time.Time, seconds int) *payload {
	p := pprofile.NewProfiles()
	b := &payload{p: p, d: p.Dictionary()}
	b.str("")
	b.d.AttributeTable().AppendEmpty()
	b.d.FunctionTable().AppendEmpty()
	b.d.MappingTable().AppendEmpty()
	b.d.LocationTable().AppendEmpty()
	b.d.LinkTable().AppendEmpty()
	b.d.StackTable().AppendEmpty()
	r := p.ResourceProfiles().AppendEmpty()
	r.Resource().Attributes().PutStr("process.executable.name", process)
	b.s = r.ScopeProfiles().AppendEmpty().Profiles().AppendEmpty()
	b.s.SampleType().SetTypeStrindex(b.str("samples"))
	b.s.SampleType().SetUnitStrindex(b.str("count"))
	b.s.PeriodType().SetTypeStrindex(b.str("cpu"))
	b.s.PeriodType().SetUnitStrindex(b.str("nanoseconds"))
	b.s.SetPeriod(20e6)
	b.s.SetTime(pcommon.NewTimestampFromTime(end.Add(-time.Duration(seconds) * time.Second)))
	b.s.SetDurationNano(uint64(seconds) * 1e9)
	return b
}

func (b *payload) str(s string) int32 {
	b.d.StringTable().Append(s)
	return int32(b.d.StringTable().Len() - 1)
}

// location is of a function, or if that has no name of an address in a file.
func (b *payload) location(name, frameType, file string, address uint64) int32 {
	kv := b.d.AttributeTable().AppendEmpty()
	kv.SetKeyStrindex(b.str("profile.frame.type"))
	kv.Value().SetStr(frameType)
	attribute := int32(b.d.AttributeTable().Len() - 1)
	b.d.MappingTable().AppendEmpty().SetFilenameStrindex(b.str(file))
	l := b.d.LocationTable().AppendEmpty()
	l.SetMappingIndex(int32(b.d.MappingTable().Len() - 1))
	l.SetAddress(address)
	l.AttributeIndices().Append(attribute)
	if name != "" {
		f := b.d.FunctionTable().AppendEmpty()
		f.SetNameStrindex(b.str(name))
		f.SetFilenameStrindex(b.str("/src/" + name + ".c"))
		f.SetStartLine(7)
		l.Lines().AppendEmpty().SetFunctionIndex(int32(b.d.FunctionTable().Len() - 1))
	}
	return int32(b.d.LocationTable().Len() - 1)
}

// attribute gives a location, or a sample, an attribute.
func (b *payload) attribute(to pcommon.Int32Slice, key string, set func(pcommon.Value)) {
	kv := b.d.AttributeTable().AppendEmpty()
	kv.SetKeyStrindex(b.str(key))
	set(kv.Value())
	to.Append(int32(b.d.AttributeTable().Len() - 1))
}

// stopped gives the last sample's stacks a reason for which they end.
func (b *payload) stopped(reason string) {
	b.attribute(b.s.Samples().At(b.s.Samples().Len()-1).AttributeIndices(), stopreason.Attribute, func(v pcommon.Value) { v.SetStr(reason) })
}

// samples adds n of a stack, innermost first, spread over the profile's time.
func (b *payload) samples(n int, stack ...int32) {
	b.d.StackTable().AppendEmpty().LocationIndices().FromRaw(stack)
	s := b.s.Samples().AppendEmpty()
	s.SetStackIndex(int32(b.d.StackTable().Len() - 1))
	for i := range n {
		s.TimestampsUnixNano().Append(uint64(b.s.Time()) + b.s.DurationNano()/uint64(n)*uint64(i))
	}
}

// startExporter starts the real one.
func startExporter(t *testing.T) (xexporter.Profiles, *api.Client) {
	factory := flamegraph.NewFactory()
	cfg := factory.CreateDefaultConfig()
	require.NoError(t, confmap.NewFromStringMap(map[string]any{"endpoint": "127.0.0.1:0"}).Unmarshal(cfg))
	core, logs := observer.New(zap.InfoLevel)
	set := exportertest.NewNopSettings(component.MustNewType("flamegraph"))
	set.Logger = zap.New(core)
	e, err := factory.(xexporter.Factory).CreateProfiles(t.Context(), set, cfg)
	require.NoError(t, err)
	require.NoError(t, e.Start(t.Context(), componenttest.NewNopHost()))
	t.Cleanup(func() { require.NoError(t, e.Shutdown(context.Background())) })
	const at = "The live flame graph is at "
	client, err := api.New(strings.TrimPrefix(logs.FilterMessageSnippet(at).All()[0].Message, at), patience)
	require.NoError(t, err)
	return e, client
}

// TestAgainstTheExporter asks the real exporter: what the fake server answers in other tests is what that does.
func TestAgainstTheExporter(t *testing.T) {
	e, client := startExporter(t)
	fetch := func(r live.Request) *live.Data {
		r.Window, r.Order = 10*time.Second, "self"
		d, err := live.Fetch(t.Context(), client, r)
		require.NoError(t, err)
		return d
	}
	d := fetch(live.Request{})
	require.Empty(t, d.Functions)
	require.Equal(t, text.Safe("No profiles yet."), view.Waiting(d.Status)[0])

	now := time.Now().Truncate(time.Second)
	for i, weight := range []int{100, 300} { // the window before, and this one
		b := newPayload("web", now.Add(time.Duration(i-1)*10*time.Second), 10)
		main, recurse := b.location("main", "native", "/bin/web", 1), b.location("recurse", "native", "/bin/web", 2)
		parse, write := b.location("parse", "native", "/bin/web", 3), b.location("ksys_write", "kernel", "", 4)
		b.samples(weight, parse, recurse, recurse, main)
		b.samples(50, write, main)
		b.samples(25, recurse, main)
		for k := range 5 {
			b.samples(5, b.location("", "native", "/lib/libstripped.so", uint64(0x100+k)), b.location("", "native", "/lib/libstripped.so", 0x999), main)
		}
		require.NoError(t, e.ConsumeProfiles(t.Context(), b.p))
	}
	d = fetch(live.Request{Compare: true})
	require.True(t, d.Compared)
	got := map[text.Safe]string{}
	for _, f := range d.Functions {
		got[f.Name] = fmt.Sprint(f.Type, " ", f.Self, " ", f.Total, " ", f.BaseSelf, " ", f.BaseTotal, " ", f.Processes[0].Name, " ", f.Line)
	}
	require.Equal(t, map[text.Safe]string{
		"parse": "native 300 300 100 100 web 7", "main": "native 0 400 0 200 web 7", "recurse": "native 25 325 25 125 web 7",
		"ksys_write": "kernel 50 50 50 50 web 7", "libstripped.so (no symbols)": "native 25 25 25 25 web 0",
	}, got)
	require.Equal(t, int64(400), d.Total)
	require.Equal(t, int64(50), d.Kernel)
	require.Equal(t, live.Process{Raw: "web", Name: "web", Total: 400, BaseTotal: 200, Kernel: 50, Hottest: "parse", HottestSelf: 300}, d.Processes[0])
	require.Equal(t, text.Safe("parse"), d.Functions[0].Name)

	key := func(name text.Safe) string {
		for _, f := range d.Functions {
			if f.Name == name {
				return f.Key
			}
		}
		return ""
	}
	around := func(name text.Safe) (a *live.Around, callers, callees map[text.Safe]int64) {
		a = fetch(live.Request{Function: key(name), Filters: []api.Filter{{Key: live.KeyProcess, Value: "web"}}}).Around
		require.NotNil(t, a)
		callers, callees = map[text.Safe]int64{}, map[text.Safe]int64{}
		for _, n := range a.Callers {
			callers[live.DisplayName(&n.Function)] = n.Value
		}
		for _, n := range a.Callees {
			callees[n.Name] = n.Value
		}
		return a, callers, callees
	}
	a, callers, callees := around("recurse")
	require.Equal(t, int64(325), a.Total)
	require.Equal(t, int64(25), a.Self)
	require.Equal(t, map[text.Safe]int64{"main": 325}, callers)
	require.Equal(t, map[text.Safe]int64{"recurse": 300}, callees)
	require.Equal(t, []text.Safe{"[web]"}, a.Callers[0].Way)
	_, callers, callees = around("main")
	require.Equal(t, map[text.Safe]int64{"[web]": 400}, callers)
	require.Equal(t, map[text.Safe]int64{"recurse": 325, "ksys_write": 50, "libstripped.so (no symbols)": 25}, callees)
	_, callers, callees = around("libstripped.so (no symbols)")
	require.Equal(t, map[text.Safe]int64{"main": 25}, callers)
	require.Empty(t, callees)

	d = fetch(live.Request{Search: "stripped"})
	require.Len(t, d.Functions, 1)
	require.Equal(t, int64(25), d.Matching)
	_, err := live.Fetch(t.Context(), client, live.Request{Search: "/(/", Window: time.Minute, Order: "self"})
	require.ErrorContains(t, err, "search is not understood")
}

// seen is the screen after some keys.
func seen(t *testing.T, client *api.Client, keys string) string {
	m := view.New(view.Options{Address: client.Address(), Interval: time.Second, Request: live.Request{Window: time.Minute, Order: "self"}})
	send := func(msg view.Message) {
		for e := m.Update(time.Now(), msg); e.Fetch != nil; {
			d, err := live.Fetch(t.Context(), client, *e.Fetch)
			e = m.Update(time.Now(), view.Result{Seq: e.Seq, Data: d, Err: err})
		}
	}
	send(view.Resize{Width: 120, Height: 40})
	for _, k := range keys {
		key := view.Key{Code: view.Rune, Rune: k}
		if k == '\r' {
			key = view.Key{Code: view.Enter}
		}
		send(key)
	}
	var b strings.Builder
	for _, l := range m.View() {
		b.WriteString(string(l.Text()) + "\n")
	}
	return b.String()
}

// TestHostsWithOtherClocks shows that a host whose clock is far ahead hides nobody, and that it is told.
func TestHostsWithOtherClocks(t *testing.T) {
	e, client := startExporter(t)
	b := newPayload("web", time.Now(), 10)
	b.samples(500, b.location("busy", "native", "/bin/web", 1))
	require.NoError(t, e.ConsumeProfiles(t.Context(), b.p))
	b = newPayload("other", time.Now().Add(10*time.Minute+55*time.Second), 1) // at most 10 min are taken for true, and time goes by
	b.samples(1, b.location("skewed", "native", "/bin/other", 1))
	require.NoError(t, e.ConsumeProfiles(t.Context(), b.p))
	screen := seen(t, client, "")
	require.Contains(t, screen, "501 samples")
	screen = seen(t, client, "i")
	require.Contains(t, screen, "1 profile with times that cannot be true, the last 10 min ahead")
}

// TestHostsWithOtherFrequencies shows that CPUs are CPUs where some hosts take 49 samples a second and others 99.
func TestHostsWithOtherFrequencies(t *testing.T) {
	e, client := startExporter(t)
	now := time.Now() // for both, however long it takes until the second
	for i, hertz := range []int{49, 99} {
		b := newPayload(fmt.Sprintf("process%d", i), now, 10)
		b.s.SetPeriod(int64(1e9) / int64(hertz))
		b.samples(hertz*5, b.location(fmt.Sprintf("function%d", i), "native", "/bin/x", 1)) // half a CPU
		require.NoError(t, e.ConsumeProfiles(t.Context(), b.p))
	}
	screen := seen(t, client, "")
	require.Regexp(t, `(?m)^1\.0[01] CPUs `, screen)
	require.Contains(t, screen, "CPUS  SELF%")
	for i := range 2 {
		require.Regexp(t, fmt.Sprintf(`(?m)^ +0\.5[01] +\d\d\.\d%% +\d\d\.\d%% function%d `, i), screen)
	}
	d, err := live.Fetch(t.Context(), client, live.Request{Window: time.Minute, Order: "self"})
	require.NoError(t, err)
	require.Regexp(t, `  1\.0[01] CPUs  kernel`, view.Plain(d, live.Request{Window: time.Minute, Order: "self"}, 2, 0)[0])
}

// TestManyProcesses shows that those of which the server tells only how many they are can be counted and chosen.
func TestManyProcesses(t *testing.T) {
	e, client := startExporter(t)
	now := time.Now()
	for i := range 350 {
		b := newPayload(fmt.Sprintf("process%03d", i), now, 10)
		b.p.ResourceProfiles().At(0).Resource().Attributes().PutInt("process.pid", int64(10_000+i))
		b.samples(400-i, b.location("busy", "native", "/bin/web", 1))
		require.NoError(t, e.ConsumeProfiles(t.Context(), b.p))
	}
	screen := seen(t, client, "")
	require.Contains(t, screen, " 350 processes")
	screen = seen(t, client, "p")
	require.Contains(t, screen, "+150 more: type the name")
	screen = seen(t, client, "p10349")
	require.Contains(t, screen, "not listed  pid 10349")
	screen = seen(t, client, "p10349\r")
	require.Contains(t, screen, "  pid 10349")
	require.Contains(t, screen, "  51 samples")
	screen = seen(t, client, "pprocess349\r")
	require.Contains(t, screen, "  51 samples")
	screen = seen(t, client, "2")
	require.Contains(t, screen, "1/350\n")
	screen = seen(t, client, "2P\r")
	require.Contains(t, screen, "PROCESSES by total, one by one")
	require.Contains(t, screen, "1/351\n")
	require.Regexp(t, ` - 10000 +(process000 +)?busy`, screen) // exporters from before hints tell no names
}

// TestSharesOfIncompleteStacks shows that those of a selection are told, with the attribute that the receiver gives them.
func TestSharesOfIncompleteStacks(t *testing.T) {
	e, client := startExporter(t)
	b := newPayload("web", time.Now(), 10)
	b.samples(300, b.location("whole", "native", "/bin/web", 1))
	b.samples(100, b.location("broken", "native", "/bin/web", 2))
	b.stopped("no_rule")
	for _, reason := range stopreason.All() {
		if reason.Complete { // whoever sends profiles may say it
			b.samples(100, b.location("whole", "native", "/bin/web", 1))
			b.stopped(reason.Name)
		}
	}
	require.NoError(t, e.ConsumeProfiles(t.Context(), b.p))
	require.Contains(t, seen(t, client, ""), "  incomplete 14.3%") // one of seven hundred
	require.Contains(t, seen(t, client, "pnone\r"), "  incomplete -")
	require.NotContains(t, seen(t, client, ""), "truncated", "a marker is no function")
	reason, _ := stopreason.Of("no_rule")
	require.Contains(t, strings.Join(strings.Fields(seen(t, client, "i")), " "), "no_rule: "+reason.Means+" ("+reason.When+"). To do: "+reason.Do)
	around := seen(t, client, "j\r")
	require.Contains(t, around, "AROUND broken")
	require.Contains(t, around, "[truncated: no_rule]")
}

// TestManyIncompleteStacks shows that the server says how many processes it does not list.
func TestManyIncompleteStacks(t *testing.T) {
	e, client := startExporter(t)
	now := time.Now()
	for i := range 130 {
		b := newPayload(fmt.Sprintf("process%03d", i), now, 10)
		b.samples(200-i, b.location("broken", "native", "/bin/web", 2))
		b.stopped("no_rule")
		require.NoError(t, e.ConsumeProfiles(t.Context(), b.p))
	}
	screen := seen(t, client, "iG")
	require.Contains(t, screen, "  +30 more, with fewer samples")
	require.NotContains(t, screen, "process100")
}

// TestSamplesWithoutFrames shows that they are samples: -once prints what there is, and blames no filter.
func TestSamplesWithoutFrames(t *testing.T) {
	e, client := startExporter(t)
	b := newPayload("wine", time.Now(), 10)
	b.samples(40)
	b.stopped("abi")
	require.NoError(t, e.ConsumeProfiles(t.Context(), b.p))
	once := func(r live.Request) (out, say string, err error) {
		var o, s strings.Builder
		r.Window, r.Order = time.Minute, "self"
		p := printer{client: client, settings: settings{once: true, rows: 5, request: r}, out: &o, say: &s, utf8: true}
		err = p.run(t.Context())
		return o.String(), s.String(), err
	}
	wine, other := api.Filter{Key: live.KeyProcess, Value: "wine"}, api.Filter{Key: live.KeyThread, Value: "nobody"}
	out, say, err := once(live.Request{Filters: []api.Filter{wine}})
	require.NoError(t, err)
	require.Empty(t, say)
	require.Contains(t, out, "40 samples")
	require.Contains(t, out, "None of these samples has a frame.")
	require.Contains(t, seen(t, client, ""), "None of these samples has a frame.")
	_, say, err = once(live.Request{Filters: []api.Filter{wine, other}})
	require.EqualError(t, err, errNothingSelected.Error())
	require.Contains(t, say, "nobody")
	require.NotContains(t, say, "wine")
	_, say, err = once(live.Request{Filters: []api.Filter{wine}, Search: "main"})
	require.EqualError(t, err, errNothingSelected.Error())
	require.Contains(t, say, "main")
	require.NotContains(t, say, "wine")
}

// TestFunctionsWithoutNames shows that stripped functions are rows of their own, with all of their addresses, and that only code of
// which nobody knows in which function it is makes one row a file.
func TestFunctionsWithoutNames(t *testing.T) {
	e, client := startExporter(t)
	b := newPayload("web", time.Now(), 10)
	main := b.location("main", "native", "/bin/web", 1)
	for i, start := range []int64{0x1000, 0x1000, 0x1000, 0x2000, 0, 0} { // of the function; 0: it is not known
		l := b.location("", "native", "/lib/libstripped.so", uint64(0x1010+16*i))
		if start != 0 {
			b.attribute(b.d.LocationTable().At(int(l)).AttributeIndices(), "hostprofiles.function.address", func(v pcommon.Value) { v.SetInt(start) })
		}
		b.samples(10, l, main)
	}
	require.NoError(t, e.ConsumeProfiles(t.Context(), b.p))
	rows := func(apart bool) map[text.Safe]int64 {
		d, err := live.Fetch(t.Context(), client, live.Request{Window: time.Minute, Order: "self", Apart: apart})
		require.NoError(t, err)
		out := map[text.Safe]int64{}
		for _, f := range d.Functions {
			out[f.Name] = f.Self
		}
		return out
	}
	require.Equal(t, map[text.Safe]int64{"main": 0, "libstripped.so+0x1000": 30, "libstripped.so+0x2000": 10, "libstripped.so (no symbols)": 20}, rows(false))
	require.Equal(t, map[text.Safe]int64{"main": 0, "libstripped.so+0x1000": 30, "libstripped.so+0x2000": 10, "libstripped.so+0x1050": 10,
		"libstripped.so+0x1060": 10}, rows(true))
	require.Contains(t, seen(t, client, ""), "libstripped.so+0x1000")
}

// TestReceiversAtFault shows that what a receiver says is wrong is seen with profiles and without, and how old it is.
func TestReceiversAtFault(t *testing.T) {
	e, client := startExporter(t)
	tell := func(problem string, ago time.Duration, p pprofile.Profiles) {
		r := &health.Report{Name: "hostprofiles", Time: time.Now().Add(-ago), Taken: 5, Problem: problem}
		require.NoError(t, e.ConsumeProfiles(health.NewContext(t.Context(), r), p))
	}
	empty := pprofile.NewProfiles()
	tell("this process lacks CAP_BPF", 0, empty)
	screen := seen(t, client, "")
	require.Contains(t, screen, "hostprofiles: this process lacks CAP_BPF")
	require.Contains(t, screen, "No profiles yet.")
	b := newPayload("web", time.Now(), 10)
	b.samples(500, b.location("busy", "native", "/bin/web", 1))
	tell("this process lacks CAP_BPF", 0, b.p)
	screen = seen(t, client, "")
	require.Contains(t, screen, "hostprofiles: this process lacks CAP_BPF")
	require.Contains(t, screen, "busy")
	tell("", 10*time.Minute, empty)
	screen = seen(t, client, "")
	require.NotContains(t, screen, "CAP_BPF")
	require.Contains(t, screen, "lost 0 told 10 min ago")
	screen = seen(t, client, "i")
	require.Contains(t, screen, "all this was 10 min ago; it has told nothing since")
}
