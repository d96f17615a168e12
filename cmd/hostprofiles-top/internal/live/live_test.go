package live

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/api"
	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/fakeserver"
	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/text"
)

func client(t *testing.T, server http.Handler) *api.Client {
	h := httptest.NewServer(server)
	t.Cleanup(h.Close)
	c, err := api.New(h.URL, time.Minute)
	require.NoError(t, err)
	return c
}

func fetch(t *testing.T, c *api.Client, r Request) *Data {
	t.Helper()
	if r.Window == 0 {
		r.Window = time.Minute
	}
	if r.Order == "" {
		r.Order = "self"
	}
	d, err := Fetch(t.Context(), c, r)
	require.NoError(t, err)
	return d
}

func find(d *Data, name text.Safe) *Function {
	i := slices.IndexFunc(d.Functions, func(f Function) bool { return f.Name == name })
	if i < 0 {
		return nil
	}
	return &d.Functions[i]
}

func TestFetch(t *testing.T) {
	c := client(t, fakeserver.Normal())
	d := fetch(t, c, Request{})
	require.Equal(t, int64(4200), d.Total)
	require.Equal(t, int64(750), d.Kernel)
	require.InDelta(t, 60, d.Seconds, 0)
	require.Equal(t, []Share{{"web", 700}, {"kworker/0:1", 50}}, find(d, "ksys_write").Processes)
	require.Equal(t, []Share{{"web", 2500}, {"db", 1500}}, find(d, "_start").Processes, "which only calls others: by what is below it")
	require.Equal(t, Process{Raw: "web", Name: "web", Total: 2500, Kernel: 700, Hottest: "parse_request", HottestSelf: 1500}, d.Processes[0])

	d = fetch(t, c, Request{Compare: true})
	require.True(t, d.Compared)
	require.InDelta(t, 60, d.Base, 0)
	require.Equal(t, int64(900), find(d, "old_loop").BaseSelf)
	require.Equal(t, int64(2170), d.Processes[0].BaseTotal)

	web := "web"
	d = fetch(t, c, Request{Expanded: &web})
	names := []text.Safe{}
	for _, f := range d.Expanded {
		names = append(names, f.Name)
	}
	require.Equal(t, []text.Safe{"parse_request", "ksys_write", "tolower"}, names)

	pid := "102"
	d = fetch(t, c, Request{ByPID: true, Expanded: &pid})
	require.True(t, d.ByPID)
	require.Equal(t, Process{Raw: "101", PID: "101", Name: "web", Total: 2200, Kernel: 700, Hottest: "parse_request", HottestSelf: 1500}, d.Processes[0])
	require.Len(t, d.Processes, 5)
	require.Len(t, d.Expanded, 1)
	require.Equal(t, text.Safe("tolower"), d.Expanded[0].Name)
	require.Equal(t, []Share{{"web", 700}, {"kworker/0:1", 50}}, find(d, "ksys_write").Processes, "functions have names of processes, as ever")
	few := complete(nil, []api.Value{{Raw: "7", Shown: "7", Hint: "x", Total: 5}}, true)
	require.Equal(t, []Process{{Raw: "7", PID: "7", Name: "x", Total: 5}}, few, "what is too small for the tree has its name, too")
	require.InDelta(t, 150, d.Incomplete, 0)

	d = fetch(t, c, Request{Known: d.Generation})
	require.True(t, d.Unchanged)
	d = fetch(t, c, Request{Type: "another"})
	require.Empty(t, d.Functions)
}

// TestWindows shows that rates are of the time that there is data of.
func TestWindows(t *testing.T) {
	s := fakeserver.Normal()
	s.From = s.To - 70_000
	c := client(t, s)
	d := fetch(t, c, Request{Compare: true})
	require.InDelta(t, 60, d.Seconds, 0)
	require.InDelta(t, 10, d.Base, 0)
	d = fetch(t, c, Request{Window: 5 * time.Minute, Compare: true})
	require.InDelta(t, 70, d.Seconds, 0)
	require.False(t, d.Compared)
	d = fetch(t, c, Request{Until: s.To - 20_000})
	require.Equal(t, api.Range{From: s.To - 80_000, To: s.To - 20_000}, d.Range)
	require.InDelta(t, 50, d.Seconds, 0)
}

// TestTheEndIsNotAfterNow shows that the window is the last minute although somebody's samples are from later.
func TestTheEndIsNotAfterNow(t *testing.T) {
	s := fakeserver.Normal()
	s.Now, s.To = fakeserver.Epoch, fakeserver.Epoch+600_000
	c := client(t, s)
	d := fetch(t, c, Request{})
	require.Equal(t, api.Range{From: s.Now - 60_000, To: s.Now}, d.Range)
	require.InDelta(t, 60, d.Seconds, 0)
	s.Change(func() { s.Now += 2000 })
	later := fetch(t, c, Request{Known: d.Generation})
	require.False(t, later.Unchanged, "time goes on through what is held")
	require.Equal(t, s.Now, later.Range.To)
}

// TestProcessesOfAFilter shows that other processes are not listed although the label has them.
func TestProcessesOfAFilter(t *testing.T) {
	c := client(t, fakeserver.Normal())
	require.Len(t, fetch(t, c, Request{}).Processes, 4)
	d := fetch(t, c, Request{Filters: []api.Filter{{Key: KeyProcess, Value: "web"}}})
	require.Len(t, d.Processes, 1)
	require.Equal(t, "web", d.Processes[0].Raw)
}

func TestAround(t *testing.T) {
	c := client(t, fakeserver.Normal())
	d := fetch(t, c, Request{Function: find(fetch(t, c, Request{}), "ksys_write").Key})
	require.Equal(t, int64(750), d.Around.Total)
	require.Equal(t, int64(750), d.Around.Self)
	require.Equal(t, text.Safe("do_syscall_64"), d.Around.Callers[0].Name)
	require.Equal(t, []text.Safe{"entry_SYSCALL_64_after_hwframe", "write", "event_loop", "main", "_start", "[web]"}, d.Around.Callers[0].Way)
	require.Equal(t, int64(50), d.Around.Callers[1].Value)
	require.Empty(t, d.Around.Callees)
	require.Nil(t, fetch(t, c, Request{Function: "1"}).Around, "it is not in the selection")
}

// stripped is a program without symbols that calls, and is called by, one that has some.
func stripped() *fakeserver.Server {
	at := func(n int) fakeserver.Frame {
		return fakeserver.Frame{Name: fmt.Sprintf("prog+0x%x", n), Type: "native", Part: true}
	}
	named := func(s string) fakeserver.Frame { return fakeserver.Frame{Name: s, Type: "native"} }
	s := &fakeserver.Server{Now: fakeserver.Epoch, From: fakeserver.Epoch - 60_000, To: fakeserver.Epoch}
	for i := range 100 {
		s.Samples = append(s.Samples,
			fakeserver.Sample{Process: "p", Stack: []fakeserver.Frame{named("main"), at(1), at(i), at(1000 + i)}, Value: 3},
			fakeserver.Sample{Process: "p", Stack: []fakeserver.Frame{named("main"), at(i), named("malloc"), at(5), named("memset")}, Value: 1})
	}
	s.Samples = append(s.Samples, fakeserver.Sample{Process: "p", Stack: []fakeserver.Frame{named("main"), named("malloc")}, Value: 7})
	return s
}

func TestCodeWithoutSymbolsIsOneFunction(t *testing.T) {
	c := client(t, stripped())
	d := fetch(t, c, Request{})
	f := find(d, "prog (no symbols)")
	require.Equal(t, int64(300), f.Self)
	require.Equal(t, int64(400), f.Total, "a sample counts once")
	require.Equal(t, []Share{{"p", 300}}, f.Processes)
	require.Len(t, d.Functions, 4)
	require.Equal(t, f, &d.Functions[0])
	require.Equal(t, text.Safe("prog (no symbols)"), d.Processes[0].Hottest)

	a := fetch(t, c, Request{Function: f.Key}).Around
	require.Equal(t, int64(400), a.Total)
	require.Equal(t, int64(300), a.Self)
	require.Equal(t, []Neighbour{{Function: find(d, "main").Function, Value: 400, Way: []text.Safe{"[p]"}}}, a.Callers)
	require.Equal(t, []Neighbour{{Function: find(d, "malloc").Function, Value: 100, Way: []text.Safe{"prog (no symbols)", "memset"}}}, a.Callees)
	a = fetch(t, c, Request{Function: find(d, "malloc").Key}).Around
	require.Equal(t, text.Safe("prog (no symbols)"), a.Callers[0].Name)
	require.Equal(t, int64(100), a.Callers[0].Value)

	d = fetch(t, c, Request{Apart: true})
	require.Len(t, d.Functions, 203)
	require.Equal(t, int64(3), find(d, "prog+0x3e8").Self)
}

// TestFunctionsWithoutNames are functions: what folds is code of which nobody knows in which function it is.
func TestFunctionsWithoutNames(t *testing.T) {
	s := stripped()
	for i := range s.Samples {
		for k := range s.Samples[i].Stack {
			if f := &s.Samples[i].Stack[k]; f.Name == "prog+0x5" {
				f.Part = false
			}
		}
	}
	d := fetch(t, client(t, s), Request{})
	require.Equal(t, int64(103), find(d, "prog+0x5").Total)
	require.Equal(t, int64(399), find(d, "prog (no symbols)").Total, "one has them in prog+0x5 only")
	require.Len(t, d.Functions, 5)
}

// TestAroundAgrees shows that the callers and callees that are found in the tree of everything are those that the server finds.
func TestAroundAgrees(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	s := &fakeserver.Server{Now: fakeserver.Epoch, From: fakeserver.Epoch - 60_000, To: fakeserver.Epoch}
	for range 200 {
		var stack []fakeserver.Frame
		for range 1 + r.IntN(8) {
			stack = append(stack, fakeserver.Frame{Name: string(rune('a' + r.IntN(8))), Type: "native"})
		}
		s.Samples = append(s.Samples, fakeserver.Sample{Process: string(rune('P' + r.IntN(3))), Stack: stack, Value: 1 + r.Int64N(9)})
	}
	c := client(t, s)
	all := fetch(t, c, Request{})
	tree, err := c.Tree(t.Context(), api.Selection{Range: all.Range}, "", "", 100_000)
	require.NoError(t, err)
	sums := func(of []Neighbour) map[string]int64 {
		out := map[string]int64{}
		for _, n := range of {
			out[n.Key] = n.Value
		}
		return out
	}
	for _, f := range all.Functions {
		server, own := fetch(t, c, Request{Function: f.Key}).Around, aroundIn(tree, f.Key)
		require.Equal(t, f.Total, own.Total)
		require.Equal(t, f.Self, own.Self)
		require.Equal(t, server.Total, own.Total)
		require.Equal(t, server.Self, own.Self)
		require.Equal(t, sums(server.Callers), sums(own.Callers))
		require.Equal(t, sums(server.Callees), sums(own.Callees))
		require.Equal(t, own.Total, sum(own.Callers))
	}
}

func sum(of []Neighbour) (out int64) {
	for _, n := range of {
		out += n.Value
	}
	return out
}

// TestDeepTrees shows that a chain of nodes takes time in proportion, whatever order nodes come in.
func TestDeepTrees(t *testing.T) {
	const n = 300_000
	tree := &api.Tree{Functions: []api.Function{{Key: "r", Type: api.TypeRoot}, {Key: "f"}, {Key: "g", Name: "0x1"}}, Nodes: make([]api.Node, n)}
	tree.Nodes[0].Parent = -1
	for i := 1; i < n; i++ {
		tree.Nodes[i] = api.Node{Parent: i - 1, Function: 1 + i%2, Self: 1, Total: int64(n - i)}
	}
	started := time.Now()
	_, totals, _ := attribute(foldTree(tree), false)
	require.Equal(t, int64(n-1), totals["f"].total+1)
	require.NotNil(t, aroundIn(tree, "f"))
	require.Less(t, time.Since(started), time.Minute)
}

// FuzzAnswers feeds answers of any kind to everything that is made of them.
func FuzzAnswers(f *testing.F) {
	normal := fakeserver.Normal()
	for _, path := range []string{"/api/status", "/api/labels", "/api/table?limit=100&base_from=1", "/api/flamegraph?base_from=1"} {
		w := httptest.NewRecorder()
		normal.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		f.Add(w.Body.Bytes(), uint8(len(path)))
	}
	f.Add([]byte(`{"functions":{"key":["a","b"],"name":["0x1","r"],"file":["",""],"line":[0,0],"type":["","root"],"mapping":["",""]},
		"nodes":{"parent":[-1,0,0],"function":[1,0,0],"self":[0,1,1],"total":[2,1,1]}}`), uint8(3))
	f.Fuzz(func(t *testing.T, body []byte, which uint8) {
		fuzzed := []string{"/api/status", "/api/labels", "/api/table", "/api/flamegraph"}[which%4]
		source := &fixed{normal: normal, path: fuzzed, body: body}
		c := api.NewWithTransport(source)
		process := ""
		for _, r := range []Request{{}, {Compare: true, Expanded: &process}, {ByPID: true, Expanded: &process}, {Function: "a"}, {Function: foldPrefix + " "}, {Apart: true}} {
			r.Window, r.Order = time.Minute, "self"
			d, err := Fetch(context.Background(), c, r)
			require.True(t, (d == nil) != (err == nil))
		}
	})
}

// fixed answers one path with given bytes.
type fixed struct {
	normal *fakeserver.Server
	path   string
	body   []byte
}

func (f *fixed) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	if r.URL.Path == f.path {
		_, _ = w.Write(f.body)
	} else {
		f.normal.ServeHTTP(w, r)
	}
	return w.Result(), nil
}

// TestMissing shows that what vanishes between two requests is not an error.
func TestMissing(t *testing.T) {
	s := fakeserver.Normal()
	status, err := json.Marshal(map[string]any{"window": map[string]any{"from": 1, "to": 2}, "types": []any{map[string]any{"id": "x"}}})
	require.NoError(t, err)
	s.Broken = func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/status" {
			_, _ = w.Write(status)
			return
		}
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"error": "there are no profiles of this type yet"}`))
	}
	d := fetch(t, client(t, s), Request{})
	require.Empty(t, d.Functions)
}
