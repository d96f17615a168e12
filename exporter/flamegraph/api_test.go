package flamegraph

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/exporter/exportertest"
	"go.opentelemetry.io/collector/exporter/xexporter"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/hostprofiles/hostprofiles/exporter/flamegraph/internal/metadata"
	"github.com/hostprofiles/hostprofiles/internal/health"
	"github.com/hostprofiles/hostprofiles/internal/profile/conformance"
)

var epoch = time.Unix(1_700_000_000, 0)

// testProfiles has two processes: web spends 60 of 100 samples in parse, 30 in the kernel's write and 10 in <script>, db 50 in scan.
func testProfiles() pprofile.Profiles {
	p := pprofile.NewProfiles()
	d := p.Dictionary()
	d.StringTable().Append("")
	d.AttributeTable().AppendEmpty()
	d.FunctionTable().AppendEmpty()
	d.MappingTable().AppendEmpty()
	d.LocationTable().AppendEmpty()
	d.LinkTable().AppendEmpty()
	d.StackTable().AppendEmpty()
	str := func(s string) int32 {
		if i := slices.Index(d.StringTable().AsRaw(), s); i >= 0 {
			return int32(i)
		}
		d.StringTable().Append(s)
		return int32(d.StringTable().Len() - 1)
	}
	attr := func(key, value string) int32 {
		kv := d.AttributeTable().AppendEmpty()
		kv.SetKeyStrindex(str(key))
		kv.Value().SetStr(value)
		return int32(d.AttributeTable().Len() - 1)
	}
	native, kernel := attr("profile.frame.type", "native"), attr("profile.frame.type", "kernel")
	m := d.MappingTable().AppendEmpty()
	m.SetFilenameStrindex(str("/usr/bin/prog"))
	m.AttributeIndices().Append(attr("process.executable.build_id.htlhash", "0123456789abcdef0123456789abcdef"))
	location := func(name string, kind int32) int32 {
		f := d.FunctionTable().AppendEmpty()
		f.SetNameStrindex(str(name))
		f.SetFilenameStrindex(str("prog.c"))
		f.SetStartLine(10)
		l := d.LocationTable().AppendEmpty()
		l.SetMappingIndex(1)
		l.SetAddress(uint64(0x1000 * d.LocationTable().Len()))
		l.AttributeIndices().Append(kind)
		line := l.Lines().AppendEmpty()
		line.SetFunctionIndex(int32(d.FunctionTable().Len() - 1))
		line.SetLine(12)
		return int32(d.LocationTable().Len() - 1)
	}
	stack := func(leafFirst ...int32) int32 {
		d.StackTable().AppendEmpty().LocationIndices().FromRaw(leafFirst)
		return int32(d.StackTable().Len() - 1)
	}
	main := location("main", native)
	profile := func(name string, pid int64) pprofile.Profile {
		r := p.ResourceProfiles().AppendEmpty()
		r.SetSchemaUrl("https://opentelemetry.io/schemas/1.44.0")
		r.Resource().Attributes().PutStr("process.executable.name", name)
		r.Resource().Attributes().PutStr("process.creation.time", "2026-01-02T03:04:05Z")
		r.Resource().Attributes().PutInt("process.pid", pid)
		s := r.ScopeProfiles().AppendEmpty()
		s.Scope().SetName("test")
		pr := s.Profiles().AppendEmpty()
		pr.SampleType().SetTypeStrindex(str("samples"))
		pr.SampleType().SetUnitStrindex(str("count"))
		pr.PeriodType().SetTypeStrindex(str("cpu"))
		pr.PeriodType().SetUnitStrindex(str("nanoseconds"))
		pr.SetPeriod(20e6)
		pr.SetTime(pcommon.NewTimestampFromTime(epoch))
		pr.SetDurationNano(uint64(10 * time.Second))
		return pr
	}
	sample := func(pr pprofile.Profile, stack int32, n int) {
		s := pr.Samples().AppendEmpty()
		s.SetStackIndex(stack)
		for i := range n {
			s.TimestampsUnixNano().Append(uint64(epoch.UnixNano() + int64(i)*1e8))
		}
	}
	web := profile("web", 1)
	sample(web, stack(location("parse", native), main), 60)
	sample(web, stack(location("write", kernel), main), 30)
	sample(web, stack(location("<script>alert(1)</script>;\n", native), main), 10)
	sample(profile("db", 2), stack(location("scan", native), main), 50)
	return p
}

// testServer is an exporter that serves.
type testServer struct {
	*flameExporter
	url  string
	logs *observer.ObservedLogs
}

func startServer(t *testing.T, change func(*Config)) *testServer {
	cfg := createDefaultConfig().(*Config)
	cfg.Server.NetAddr.Endpoint = "127.0.0.1:0"
	if change != nil {
		change(cfg)
	}
	require.NoError(t, cfg.Validate())
	core, logs := observer.New(zap.InfoLevel)
	set := componenttest.NewNopTelemetrySettings()
	set.Logger = zap.New(core)
	e := newFlameExporter(cfg, set, component.BuildInfo{Version: "1.2.3"}, func() time.Time { return epoch.Add(10 * time.Second) })
	require.NoError(t, e.start(t.Context(), componenttest.NewNopHost()))
	t.Cleanup(func() { require.NoError(t, e.shutdown(context.Background())) })
	return &testServer{e, pageURL(t, logs), logs}
}

// pageURL is where the page is, as the log says.
func pageURL(t *testing.T, logs *observer.ObservedLogs) string {
	lines := logs.FilterMessageSnippet("The live flame graph is at").All()
	require.Len(t, lines, 1)
	all := strings.TrimPrefix(lines[0].Message, "The live flame graph is at ")
	first, _, _ := strings.Cut(all, " and ")
	return strings.TrimSuffix(first, "/")
}

func (s *testServer) get(t *testing.T, path string, header ...string) (*http.Response, []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+path, nil)
	require.NoError(t, err)
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
		r.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res, b
}

// json asks for an answer that must be of status.
func (s *testServer) json(t *testing.T, path string, status int, v any) {
	t.Helper()
	res, b := s.get(t, path, "Accept", "*/*") // as browsers and curl ask
	require.Equal(t, status, res.StatusCode, "%s: %s", path, b)
	require.Equal(t, "application/json; charset=utf-8", res.Header.Get("Content-Type"))
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(v), "%s: %s", path, b)
}

func withProfiles(t *testing.T, change func(*Config)) *testServer {
	s := startServer(t, change)
	require.NoError(t, s.consume(t.Context(), testProfiles()))
	return s
}

func TestStatus(t *testing.T) {
	s := startServer(t, nil)
	var empty statusAnswer
	s.json(t, "/api/status", 200, &empty)
	require.Empty(t, empty.Types)
	require.NotNil(t, empty.Types, "an empty list is no null")
	require.Nil(t, empty.Window.DroppedUntil)

	ctx := health.NewContext(t.Context(), &health.Report{Name: "hostprofiles", Time: epoch, Taken: 9, Lost: map[string]uint64{"ring_full": 2},
		Lacks: []string{"CAP_SYSLOG"}})
	require.NoError(t, s.consume(ctx, testProfiles()))
	require.NoError(t, s.consume(ctx, pprofile.NewProfiles()), "only to tell")
	bad := testProfiles()
	bad.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().At(0).Samples().At(0).SetStackIndex(99)
	err := s.consume(t.Context(), bad)
	require.Error(t, err)
	require.True(t, consumererror.IsPermanent(err))
	var got statusAnswer
	s.json(t, "/api/status", 200, &got)
	require.Equal(t, []typeAnswer{{"samples:count:cpu:nanoseconds", "samples", "count", "cpu", "nanoseconds", 20e6, 150}}, got.Types)
	require.Equal(t, windowAnswer{From: epoch.UnixMilli(), To: epoch.UnixMilli() + 5901, Seconds: 900, Bytes: got.Window.Bytes,
		BudgetBytes: 128 << 20 * 2 / 5, Samples: 150, Stacks: 4}, got.Window)
	require.EqualValues(t, 1, got.Payloads.Accepted)
	require.EqualValues(t, 1, got.Payloads.Refused)
	require.Contains(t, got.Payloads.LastError, "stack 99")
	require.Equal(t, []receiverAnswer{{Name: "hostprofiles", Seen: epoch.UnixMilli(), Taken: 9, Lost: map[string]uint64{"ring_full": 2},
		Stops: map[string]uint64{}, Lacks: []string{"CAP_SYSLOG"}}}, got.Receivers)
}

func TestAnswers(t *testing.T) {
	s := withProfiles(t, nil)
	var f flameAnswer
	s.json(t, "/api/flamegraph?search=write", 200, &f)
	require.Equal(t, []string{"all", "db", "main", "scan", "web", "<script>alert(1)</script>;\n", "parse", "write"}, f.Functions.Name)
	require.Equal(t, []int64{150, 50, 50, 50, 100, 100, 10, 60, 30}, f.Nodes.Total)
	require.Equal(t, []int32{-1, 0, 1, 2, 0, 4, 5, 5, 5}, f.Nodes.Parent)
	require.Equal(t, searchAnswer{Total: 30, Functions: 1}, f.Search)
	require.Equal(t, "count", f.Unit)
	require.EqualValues(t, 20e6, f.Period)
	require.Equal(t, epoch.UnixMilli(), f.From)

	var focused flameAnswer
	s.json(t, "/api/flamegraph?group=none&pid=1&focus="+flameID(t, s, "parse"), 200, &focused)
	require.Equal(t, []string{"all", "main", "parse"}, focused.Functions.Name)

	var callers flameAnswer
	s.json(t, "/api/flamegraph?view=callers&function="+f.Functions.Key[3], 200, &callers)
	require.Equal(t, []string{"all", "scan", "main", "db"}, callers.Functions.Name)

	var diff flameAnswer
	s.json(t, "/api/flamegraph?filter=process.pid%3D1&base_filter=process.pid%3D2", 200, &diff)
	require.EqualValues(t, 100, diff.Total)
	require.EqualValues(t, 50, diff.BaseTotal)
	require.Len(t, diff.Nodes.BaseTotal, len(diff.Nodes.Total))
	require.Equal(t, "main", diff.Functions.Name[diff.Nodes.Function[1]], "processes that are compared have no groups")

	var tab tableAnswer
	s.json(t, "/api/table?sort=total&limit=2&process=web", 200, &tab)
	require.Equal(t, []string{"main", "parse"}, tab.Functions.Name)
	require.Equal(t, []int64{100, 60}, tab.FunctionsTotal)
	require.Equal(t, 2, tab.More)

	var h heatmapAnswer
	from := epoch.UnixMilli()
	s.json(t, fmt.Sprintf("/api/heatmap?from=%d&to=%d&columns=3&rows=1", from-9000, from+6000), 200, &h)
	require.Equal(t, [][3]int64{{0, 0, 70}, {1, 0, 50}, {2, 0, 30}}, h.Values)

	var l labelsAnswer
	s.json(t, "/api/labels?process=web", 200, &l)
	require.Equal(t, labelAnswer{"process.executable.name", []valueAnswer{{"web", 100, ""}, {"db", 50, ""}}, 0}, l.Labels[2])

	require.Equal(t, labelAnswer{"process.pid", []valueAnswer{{"1", 100, "web"}}, 0}, l.Labels[3])
	var byPid flameAnswer
	s.json(t, "/api/flamegraph?group=process.pid", 200, &byPid)
	for pid, name := range map[string]string{"1": "web", "2": "db"} {
		require.Equal(t, name, byPid.Functions.Mapping[slices.Index(byPid.Functions.Name, pid)])
	}

	var last flameAnswer // now is 10 s after epoch
	s.json(t, "/api/flamegraph?group=none&seconds=6", 200, &last)
	require.EqualValues(t, 20+10, last.Total)
}

func flameID(t *testing.T, s *testServer, name string) string {
	var f flameAnswer
	s.json(t, "/api/flamegraph?group=none&pid=1", 200, &f)
	i := slices.IndexFunc(f.Nodes.Function, func(k int32) bool { return f.Functions.Name[k] == name })
	return f.Nodes.ID[i]
}

func TestBadRequests(t *testing.T) {
	empty := startServer(t, nil)
	s := withProfiles(t, nil)
	for path, status := range map[string]int{
		"/api/flamegraph?from=x":                              400,
		"/api/flamegraph?from=5&to=4":                         400,
		"/api/flamegraph?from=1&seconds=4":                    400,
		"/api/flamegraph?from=99999999999999999999":           400,
		"/api/flamegraph?filter=nonsense":                     400,
		"/api/flamegraph?search=/(/":                          400,
		"/api/flamegraph?search=" + strings.Repeat("a", 2000): 400,
		"/api/flamegraph?view=sideways":                       400,
		"/api/flamegraph?max_nodes=0":                         400,
		"/api/flamegraph?max_nodes=1000000000":                400,
		"/api/flamegraph?focus=zzz":                           404,
		"/api/flamegraph?view=callees&function=1":             404,
		"/api/flamegraph?type=wall":                           404,
		"/api/heatmap?columns=1000000":                        400,
		"/api/heatmap?type=wall":                              404,
		"/api/table?limit=-1":                                 400,
		"/api/table?base_from=7&base_to=6":                    400,
		"/api/labels?filter==x":                               400,
		"/api/labels?a=%zz":                                   400,
		"/api/labels?" + strings.Repeat("x", 20_000):          414,
		"/api/flamegraph?pid=abc":                             400,
		"/api/status?x=1":                                     400,
		"/api/status?a=%zz":                                   400,
		"/api/reasons?x=1":                                    400,
		"/nowhere":                                            404,
		"/assets/nothing.js":                                  404,
		"/profile.pb.gz?from=x":                               400,
		"/folded?type=wall":                                   404,
		"/profile.speedscope.json?type=wall":                  404,
	} {
		var e struct{ Error string }
		s.json(t, path, status, &e)
		require.NotEmpty(t, e.Error)
	}
	for _, path := range []string{"/api/flamegraph", "/api/table", "/api/heatmap", "/profile.pb.gz", "/folded", "/profile.otlp.json"} {
		var e struct{ Error string }
		empty.json(t, path, 404, &e)
		require.Equal(t, "there are no profiles of this type yet", e.Error)
	}
	for _, path := range []string{"/api/status", "/api/table", "/", "/folded"} {
		res, err := http.Post(s.url+path, "text/plain", strings.NewReader("x"))
		require.NoError(t, err)
		var e struct{ Error string }
		require.NoError(t, json.NewDecoder(res.Body).Decode(&e), path)
		res.Body.Close()
		require.Equal(t, http.StatusMethodNotAllowed, res.StatusCode)
		require.Equal(t, "this can only be asked for with GET, HEAD", e.Error)
		require.Equal(t, "GET, HEAD", res.Header.Get("Allow"))
	}
}

func TestFolded(t *testing.T) {
	s := withProfiles(t, nil)
	res, b := s.get(t, "/folded")
	require.Equal(t, `attachment; filename=profile.folded`, res.Header.Get("Content-Disposition"))
	require.Equal(t, "web;main;parse 60\nweb;main;write_[k] 30\nweb;main;<script>alert(1)</script>:? 10\ndb;main;scan 50\n", string(b))
}

func TestSpeedscope(t *testing.T) {
	s := withProfiles(t, nil)
	var f speedscopeFile
	s.json(t, "/profile.speedscope.json?group=none", 200, &f)
	require.Equal(t, "https://www.speedscope.app/file-format-schema.json", f.Schema)
	p := f.Profiles[0]
	require.Equal(t, "nanoseconds", p.Unit)
	require.InDelta(t, 150*20e6, p.EndValue, 1)
	require.Len(t, p.Weights, len(p.Samples))
	stacks := map[string]float64{}
	for i, stack := range p.Samples {
		var names []string
		for _, k := range stack {
			names = append(names, f.Shared.Frames[k].Name)
		}
		stacks[strings.Join(names, " ")] = p.Weights[i]
	}
	require.Equal(t, map[string]float64{"main parse": 60 * 20e6, "main write": 30 * 20e6, "main scan": 50 * 20e6, "main <script>alert(1)</script>;\n": 10 * 20e6}, stacks)
}

func TestOTLP(t *testing.T) {
	s := withProfiles(t, nil)
	_, b := s.get(t, "/profile.otlp.json?process=web")
	p, err := new(pprofile.JSONUnmarshaler).UnmarshalProfiles(b)
	require.NoError(t, err)
	require.NoError(t, conformance.Check(p))
	require.Equal(t, 1, p.ResourceProfiles().Len())
}

func TestAccept(t *testing.T) {
	s := withProfiles(t, nil)
	for accept, want := range map[string]string{
		"text/plain":             "text/plain; charset=utf-8",
		"application/json;q=0.9": "application/json; charset=utf-8",
		"image/png, application/vnd.speedscope+json": "application/json; charset=utf-8",
		"application/vnd.google.protobuf+gzip":       "application/vnd.google.protobuf+gzip",
		"*/*":                                        "application/vnd.google.protobuf+gzip",
		"":                                           "application/vnd.google.protobuf+gzip",
	} {
		res, _ := s.get(t, "/profile", "Accept", accept)
		require.Equal(t, 200, res.StatusCode)
		require.Equal(t, want, res.Header.Get("Content-Type"), accept)
	}
	res, _ := s.get(t, "/profile", "Accept", "image/png")
	require.Equal(t, http.StatusNotAcceptable, res.StatusCode)
}

func TestHostHeader(t *testing.T) {
	s := withProfiles(t, func(c *Config) { c.AllowedHosts = []string{"Profiles.Example.", ".svc.cluster.local"} })
	for host, ok := range map[string]bool{
		"127.0.0.1:4041": true, "localhost:9": true, "LOCALHOST": true, "[::1]:4041": true, "profiles.example:80": true, "10.1.2.3": true,
		"x.svc.cluster.local": true, "a.b.svc.cluster.local.": true, "app.localhost:3": true,
		"evil.example": false, "svc.cluster.local.evil.example": false, "localhost.evil.example": false, "127.0.0.1.evil.example": false,
		"xsvc.cluster.local": false,
	} {
		res, b := s.get(t, "/api/status", "Host", host)
		if ok {
			require.Equal(t, 200, res.StatusCode, host)
		} else {
			require.Equal(t, http.StatusMisdirectedRequest, res.StatusCode, host)
			require.Contains(t, string(b), "allowed_hosts")
		}
	}
	g := newHostGuard("", nil, false, nil)
	for _, host := range []string{"", ".", "a b", "*"} {
		require.False(t, g.allows(host), host)
	}
}

func TestPortTaken(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	cfg := createDefaultConfig().(*Config)
	cfg.Server.NetAddr.Endpoint = taken.Addr().String()
	e := newFlameExporter(cfg, componenttest.NewNopTelemetrySettings(), component.BuildInfo{}, time.Now)
	err = e.start(t.Context(), componenttest.NewNopHost())
	require.ErrorContains(t, err, "another program uses the port: set endpoint of the flamegraph exporter")
	require.NoError(t, e.shutdown(t.Context()))
}

func TestWarnsOfOpenAddress(t *testing.T) {
	open := startServer(t, func(c *Config) { c.Server.NetAddr.Endpoint = "0.0.0.0:0" })
	require.Equal(t, 1, open.logs.FilterMessageSnippet("open to everybody").Len())
	require.Zero(t, startServer(t, nil).logs.FilterMessageSnippet("open to everybody").Len())
}

func TestConfig(t *testing.T) {
	cfg := createDefaultConfig()
	require.NoError(t, confmap.NewFromStringMap(map[string]any{
		"endpoint": "localhost:99", "window": "1h", "memory_mib": 64, "allowed_hosts": []any{"a.example"}, "read_timeout": "7s",
	}).Unmarshal(cfg))
	c := cfg.(*Config)
	require.Equal(t, "localhost:99", c.Server.NetAddr.Endpoint)
	require.Equal(t, time.Hour, c.Window)
	require.Equal(t, 64, c.MemoryMiB)
	require.Equal(t, []string{"a.example"}, c.AllowedHosts)
	require.Equal(t, 7*time.Second, c.Server.ReadTimeout)
	require.NoError(t, c.Validate())
	for name, change := range map[string]func(*Config){
		"window is 1s":      func(c *Config) { c.Window = time.Second },
		"memory_mib is 1;":  func(c *Config) { c.MemoryMiB = 1 },
		`allowed_hosts has`: func(c *Config) { c.AllowedHosts = []string{"http://x"} },
	} {
		c := createDefaultConfig().(*Config)
		change(c)
		require.ErrorContains(t, c.Validate(), name)
	}
	require.Error(t, confmap.NewFromStringMap(map[string]any{"windows": "1h"}).Unmarshal(createDefaultConfig()))
}

// TestLifecycle goes through the factory: create, start, consume, shut down; and shut down without a start.
func TestLifecycle(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	cfg.Server.NetAddr.Endpoint = "127.0.0.1:0"
	f := NewFactory().(xexporter.Factory)
	e, err := f.CreateProfiles(t.Context(), exportertest.NewNopSettings(metadata.Type), cfg)
	require.NoError(t, err)
	require.NoError(t, e.Start(t.Context(), componenttest.NewNopHost()))
	require.NoError(t, e.ConsumeProfiles(t.Context(), testProfiles()))
	require.NoError(t, e.Shutdown(t.Context()))
	idle, err := f.CreateProfiles(t.Context(), exportertest.NewNopSettings(metadata.Type), cfg)
	require.NoError(t, err)
	require.NoError(t, idle.Shutdown(t.Context()))
}

// FuzzRequests: whatever is asked for, the answer is one, and valid JSON where it is no download.
func FuzzRequests(f *testing.F) {
	for _, s := range []string{"/api/flamegraph?from=1&to=2", "/api/table?search=/x/&sort=diff&base_seconds=3", "/api/labels?filter=a!=b",
		"/api/heatmap?columns=5&rows=7", "/folded?group=none&markers=0", "/api/reasons", "/api/flamegraph?view=callers&function=abc&lines=1", "/profile?seconds=9"} {
		f.Add(s)
	}
	e := newFlameExporter(createDefaultConfig().(*Config), componenttest.NewNopTelemetrySettings(), component.BuildInfo{}, func() time.Time { return epoch })
	if err := e.consume(context.Background(), testProfiles()); err != nil {
		f.Fatal(err)
	}
	h, err := newAPI(e)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, target string) {
		u, err := url.Parse(target)
		if err != nil || !strings.HasPrefix(u.Path, "/") {
			return
		}
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.URL = u
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Header().Get("Content-Type") == "application/json; charset=utf-8" && !json.Valid(w.Body.Bytes()) {
			t.Fatalf("%s: no JSON", target)
		}
		if w.Code >= 500 {
			t.Fatalf("%s: status %d", target, w.Code)
		}
	})
}
