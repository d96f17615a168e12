package flamegraph

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// manyStacks is a profile that stacks of depth 20 are in, all different.
func manyStacks(stacks, names int) pprofile.Profiles {
	p := pprofile.NewProfiles()
	d := p.Dictionary()
	d.StringTable().Append("", "samples", "count", "cpu", "nanoseconds")
	d.AttributeTable().AppendEmpty()
	d.FunctionTable().AppendEmpty()
	d.MappingTable().AppendEmpty()
	d.LocationTable().AppendEmpty()
	d.LinkTable().AppendEmpty()
	d.StackTable().AppendEmpty()
	for i := range names {
		d.StringTable().Append(fmt.Sprintf("an_ordinary_function_name_of_fifty_bytes_number_%d", i))
		d.FunctionTable().AppendEmpty().SetNameStrindex(int32(d.StringTable().Len() - 1))
		d.LocationTable().AppendEmpty().Lines().AppendEmpty().SetFunctionIndex(int32(i + 1))
	}
	pr := p.ResourceProfiles().AppendEmpty().ScopeProfiles().AppendEmpty().Profiles().AppendEmpty()
	pr.SampleType().SetTypeStrindex(1)
	pr.SampleType().SetUnitStrindex(2)
	pr.PeriodType().SetTypeStrindex(3)
	pr.PeriodType().SetUnitStrindex(4)
	pr.SetPeriod(20e6)
	pr.SetTime(pcommon.NewTimestampFromTime(epoch))
	for i := range stacks {
		st := d.StackTable().AppendEmpty()
		for k := range 20 {
			st.LocationIndices().Append(int32(1 + (i*(k%3+1)+k*7)%names))
		}
		sample := pr.Samples().AppendEmpty()
		sample.SetStackIndex(int32(d.StackTable().Len() - 1))
		sample.TimestampsUnixNano().Append(uint64(epoch.UnixNano()) + uint64(i))
	}
	return p
}

// handler answers without a network, at a time that the test sets.
func handler(t *testing.T, memoryMiB int, now func() time.Time) (*flameExporter, http.Handler) {
	cfg := createDefaultConfig().(*Config)
	cfg.MemoryMiB = memoryMiB
	e := newFlameExporter(cfg, componenttest.NewNopTelemetrySettings(), component.BuildInfo{}, now)
	h, err := newAPI(e)
	require.NoError(t, err)
	return e, h
}

func ask(t *testing.T, h http.Handler, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return w
}

// TestWindowIsOver: what was asked for before is not there any more either.
func TestWindowIsOver(t *testing.T) {
	now := epoch.Add(10 * time.Second)
	e, h := handler(t, 128, func() time.Time { return now })
	require.NoError(t, e.consume(t.Context(), testProfiles()))
	require.Equal(t, 200, ask(t, h, "/api/table").Code)
	require.Equal(t, 200, ask(t, h, "/api/table").Code)
	now = now.Add(time.Hour)
	require.Equal(t, 404, ask(t, h, "/api/table").Code)
	require.Empty(t, e.trees.entries)
}

// slowly asks for something and does not read the answer.
func slowly(t *testing.T, address, path string) net.Conn {
	c, err := net.Dial("tcp", address)
	require.NoError(t, err)
	require.NoError(t, c.(*net.TCPConn).SetReadBuffer(1024))
	_, err = fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path)
	require.NoError(t, err)
	_, err = bufio.NewReaderSize(c, 16).ReadByte()
	require.NoError(t, err)
	return c
}

func TestSlowReaders(t *testing.T) {
	s := startServer(t, nil)
	require.NoError(t, s.consume(t.Context(), manyStacks(40_000, 5000)))
	address := strings.TrimPrefix(s.url, "http://")
	for range 2 * workers {
		defer slowly(t, address, "/api/flamegraph?max_nodes=100000").Close()
	}
	defer slowly(t, address, "/folded").Close()
	// None of them is given up before its time is up, half a minute.
	done := make(chan struct{})
	go func() {
		defer close(done)
		res, err := http.Get(s.url + "/api/heatmap?columns=1&rows=1")
		if err == nil {
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
		}
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("slow readers keep others waiting")
	}
}

func TestShutdownDuringDownload(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	cfg.Server.NetAddr.Endpoint = "127.0.0.1:0"
	core, logs := observer.New(zap.InfoLevel)
	set := componenttest.NewNopTelemetrySettings()
	set.Logger = zap.New(core)
	e := newFlameExporter(cfg, set, component.BuildInfo{}, func() time.Time { return epoch.Add(10 * time.Second) })
	require.NoError(t, e.start(t.Context(), componenttest.NewNopHost()))
	require.NoError(t, e.consume(t.Context(), manyStacks(40_000, 5000)))
	defer slowly(t, strings.TrimPrefix(pageURL(t, logs), "http://"), "/folded").Close()
	done := make(chan error)
	go func() { done <- e.shutdown(context.Background()) }()
	select {
	case err := <-done:
		require.NoError(t, err)
	case <-time.After(20 * time.Second):
		t.Fatal("a download keeps the exporter from ending")
	}
}

// TestTwoFrequencies: what hosts sample at different frequencies adds up to the same time everywhere.
func TestTwoFrequencies(t *testing.T) {
	s := withProfiles(t, nil)
	p := testProfiles()
	p.ResourceProfiles().RemoveIf(func(r pprofile.ResourceProfiles) bool {
		v, _ := r.Resource().Attributes().Get("process.executable.name")
		return v.AsString() == "web"
	})
	p.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().At(0).SetPeriod(10e6)
	require.NoError(t, s.consume(t.Context(), p))
	var table tableAnswer
	s.json(t, "/api/table?group=none", 200, &table)
	require.EqualValues(t, (100+50)*20e6+50*10e6, table.Total)
	require.Equal(t, "nanoseconds", table.Unit)
	require.EqualValues(t, 1, table.Period)
	var status statusAnswer
	s.json(t, "/api/status", 200, &status)
	require.Equal(t, []typeAnswer{{"samples:count:cpu:nanoseconds", "samples", "nanoseconds", "cpu", "nanoseconds", 1, 200}}, status.Types)
	for _, path := range []string{"/pprof", "/pprof?timestamps=1"} {
		_, b := s.get(t, path)
		got, err := profile.ParseData(b)
		require.NoError(t, err)
		require.NoError(t, got.CheckValid())
		total := int64(0)
		for _, sample := range got.Sample {
			total += sample.Value[0]
		}
		require.Equal(t, table.Total, total)
		require.Equal(t, profile.ValueType{Type: "cpu", Unit: "nanoseconds"}, *got.SampleType[0])
	}
	_, folded := s.get(t, "/folded?group=none")
	require.Contains(t, string(folded), fmt.Sprintf("main;scan %d\n", int64(50*20e6+50*10e6)))
}

func TestSearchesAreBounded(t *testing.T) {
	s := startServer(t, nil)
	require.NoError(t, s.consume(t.Context(), manyStacks(20_000, 20_000)))
	var answer map[string]string
	s.json(t, "/api/table?search="+url.QueryEscape("/"+strings.Repeat("(.?){1000}", 90)+"/"), 400, &answer)
	require.Contains(t, answer["error"], "repeats too much")
	// As large as may be, and slow for each name.
	s.json(t, "/api/table?search="+url.QueryEscape("/"+strings.Repeat("(.?){120}", 4)+"\x01/"), 400, &answer)
	require.Contains(t, answer["error"], "takes too long")
	filters := strings.Repeat("pid=1&", maxFilters)
	res, b := s.get(t, "/api/labels?"+filters)
	require.Equal(t, 200, res.StatusCode, "%s", b)
	s.json(t, "/api/labels?"+filters+"filter=a=b", 400, &answer)
	require.Contains(t, answer["error"], "at most 100 filters")
}

// TestStrangersPages: another site's page has a browser ask for nothing but this page itself.
func TestStrangersPages(t *testing.T) {
	s := withProfiles(t, nil)
	for _, tt := range []struct {
		site, mode string
		status     int
	}{
		{"cross-site", "no-cors", 403}, {"cross-site", "cors", 403}, {"cross-site", "navigate", 200},
		{"same-origin", "cors", 200}, {"none", "navigate", 200}, {"", "", 200},
	} {
		res, _ := s.get(t, "/api/status", "Sec-Fetch-Site", tt.site, "Sec-Fetch-Mode", tt.mode)
		require.Equal(t, tt.status, res.StatusCode, "%s %s", tt.site, tt.mode)
	}
	require.True(t, newHostGuard("", nil, true, nil).strangers)
}

func TestNothingHere(t *testing.T) {
	s := withProfiles(t, nil)
	var answer map[string]string
	s.json(t, "/api/nothing", 404, &answer)
	require.NotEmpty(t, answer["error"])
	s.json(t, "/api/table?proces=web", 400, &answer)
	require.Contains(t, answer["error"], `no parameter "proces"`)
	s.json(t, "/api/table?seconds=0", 400, &answer)
	_, b := s.get(t, "/api/table?process=nobody")
	require.NotContains(t, string(b), "null")
	s.json(t, "/profile.pb.gz?process=nobody", 404, &answer)
	require.Contains(t, answer["error"], "in this selection")
	require.ErrorContains(t, func() error {
		c := createDefaultConfig().(*Config)
		c.Server.NetAddr.Endpoint = ""
		return c.Validate()
	}(), "endpoint is empty")
}

func TestSkew(t *testing.T) {
	s := startServer(t, nil)
	p := testProfiles()
	for _, rp := range p.ResourceProfiles().All() {
		at := rp.ScopeProfiles().At(0).Profiles().At(0)
		at.SetTime(at.Time() + pcommon.Timestamp(24*time.Hour))
		for _, sample := range at.Samples().All() {
			for i, stamp := range sample.TimestampsUnixNano().All() {
				sample.TimestampsUnixNano().SetAt(i, stamp+uint64(24*time.Hour))
			}
		}
	}
	require.NoError(t, s.consume(t.Context(), p))
	var got statusAnswer
	s.json(t, "/api/status", 200, &got)
	require.EqualValues(t, 2, got.Payloads.SkewedProfiles)
	require.EqualValues(t, (24 * time.Hour).Milliseconds(), got.Payloads.SkewMs)
	require.LessOrEqual(t, got.Window.To, epoch.Add(10*time.Second).UnixMilli()+1)
}

// TestTogether has payloads, questions and time go on at once; the race detector looks on.
func TestTogether(t *testing.T) {
	var tick atomic.Int64
	e, h := handler(t, 16, func() time.Time { return epoch.Add(time.Duration(10+tick.Load()) * time.Second) })
	var group sync.WaitGroup
	stop := make(chan struct{})
	for _, path := range []string{"/api/status", "/api/flamegraph?search=number_7", "/api/table?group=process.pid", "/api/labels", "/api/heatmap", "/pprof", "/folded",
		"/api/flamegraph?group=none&base_seconds=5", "/profile.otlp.json"} {
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					require.Contains(t, []int{200, 404, 413}, ask(t, h, path).Code, path)
				}
			}
		})
	}
	for i := range 40 {
		tick.Add(60)
		require.NoError(t, e.consume(t.Context(), manyStacks(500, 100+100*i)))
		require.NoError(t, e.consume(t.Context(), testProfiles()))
	}
	close(stop)
	group.Wait()
}

// TestBudgetOfAnswers: with a window full to its budget every answer, and another that is asked for at the same time, are made within it, or refused.
func TestBudgetOfAnswers(t *testing.T) {
	t.Run("rows", func(t *testing.T) { budgetOfAnswers(t, 100) })
	t.Run("stacks", func(t *testing.T) { budgetOfAnswers(t, 3000) })
}

func budgetOfAnswers(t *testing.T, names int) {
	const memory = 48
	now := epoch.Add(10 * time.Second)
	e, h := handler(t, memory, func() time.Time { return now })
	// What the collection found in use: on a busy machine much is allocated until one gets to look at the heap.
	live := func() int64 {
		runtime.GC()
		found := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(found)
		return int64(found[0].Value.Uint64())
	}
	before := live()
	for i := range 60 { // rows of few stacks fill the window, or many stacks do
		now = now.Add(time.Second)
		require.NoError(t, e.consume(t.Context(), manyStacks(20_000, names+i*names/1000)))
	}
	w := e.store.Snapshot(now).Window()
	require.NotZero(t, w.DroppedUntil, "the window is full")
	var table struct{ Functions struct{ Key []string } }
	require.NoError(t, json.Unmarshal(ask(t, h, "/api/table?sort=total&limit=1").Body.Bytes(), &table))
	require.NotEmpty(t, table.Functions.Key)
	function := "&function=" + table.Functions.Key[0]
	for _, path := range []string{"/api/flamegraph", "/api/flamegraph?lines=1&base_seconds=3600", "/api/flamegraph?view=callees&lines=1&base_seconds=3600" + function,
		"/api/flamegraph?view=callers&lines=1&base_seconds=3600" + function, "/api/labels", "/api/heatmap", "/api/table?limit=100000", "/folded", "/profile.speedscope.json",
		"/profile.otlp.json", "/profile.otlp.json?timestamps=0", "/pprof", "/pprof?timestamps=1", "/pprof?from=1"} {
		peak := live()
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for {
				select {
				case <-stop:
					return
				case <-time.After(2 * time.Millisecond):
					peak = max(peak, live())
				}
			}
		}()
		var codes [2]int
		var group sync.WaitGroup
		for i := range codes {
			group.Go(func() {
				sink := &sink{ResponseRecorder: httptest.NewRecorder()}
				h.ServeHTTP(sink, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
				codes[i] = sink.Code
			})
		}
		group.Wait()
		close(stop)
		<-stopped
		t.Logf("%-32s %d  %d MiB of %d", path, codes[0], (peak-before)>>20, memory)
		require.Contains(t, []int{200, 413}, codes[0])
		// What is let go while the collector of garbage runs counts, too.
		require.LessOrEqual(t, peak-before, int64(memory)<<20*5/4, path)
	}
}

// sink keeps no body: what is being sent counts once.
type sink struct{ *httptest.ResponseRecorder }

func (s *sink) Write(b []byte) (int, error) { return len(b), nil }
