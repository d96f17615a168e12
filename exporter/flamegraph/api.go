package flamegraph

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/hostprofiles/hostprofiles/exporter/flamegraph/internal/assets"
	"github.com/hostprofiles/hostprofiles/exporter/flamegraph/internal/store"
	"github.com/hostprofiles/hostprofiles/internal/health"
	"github.com/hostprofiles/hostprofiles/internal/stopreason"
)

// Bounds of answers.
const (
	maxLabelValues = 200
	maxIncomplete  = 100
	defaultNodes   = 20_000
	maxNodes       = 200_000
	defaultRows    = 1000
	maxRows        = 100_000

	maxFilters = 100
	// workers is how many answers are worked out at a time, beside one download: each takes memory, and CPU from what is profiled.
	workers = 1
)

// api answers requests.
type api struct {
	e       *flameExporter
	work    chan struct{}
	export  chan struct{} // held by the one download that is made and sent
	pending atomic.Int64  // bytes of answers that are being sent, but for those whose senders hold a place in work
}

func newAPI(e *flameExporter) (http.Handler, error) {
	page, err := assets.Handler()
	if err != nil {
		return nil, fmt.Errorf("reading the page: %w", err)
	}
	a := &api{e: e, work: make(chan struct{}, workers), export: make(chan struct{}, 1)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/status", checked(a.status))
	mux.HandleFunc("GET /api/reasons", checked(reasons))
	for path, fn := range map[string]func(*request) error{
		"/api/labels": labels, "/api/flamegraph": flamegraph, "/api/table": table, "/api/heatmap": heatmap,
	} {
		mux.HandleFunc("GET "+path, a.answer(fn))
	}
	for path, fn := range map[string]func(*request) error{
		"/pprof": pprofDownload, "/profile.pb.gz": pprofDownload, "/folded": foldedDownload, "/profile.folded": foldedDownload,
		"/profile.speedscope.json": speedscopeDownload, "/profile.otlp.json": otlpDownload, "/profile": anyDownload,
	} {
		mux.HandleFunc("GET "+path, a.download(fn))
	}
	mux.HandleFunc("POST /symbolz", symbolz)
	mux.HandleFunc("GET /api/", func(w http.ResponseWriter, r *http.Request) {
		writeError(w, r, http.StatusNotFound, "there is nothing here; docs/live-view.md has what there is")
	})
	mux.Handle("GET /", page)
	return sentences(mux), nil
}

// request is one that is being answered.
type request struct {
	*params
	api      *api
	w        http.ResponseWriter
	r        *http.Request
	snapshot *store.Snapshot
	patient  bool     // it waits for memory
	done     []func() // to be called at its end
}

// reply is an answer that was not sent yet.
type reply struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *reply) Header() http.Header         { return r.header }
func (r *reply) WriteHeader(status int)      { r.status = status }
func (r *reply) Write(b []byte) (int, error) { return r.body.Write(b) }

func (r *reply) send(w http.ResponseWriter) {
	maps.Copy(w.Header(), r.header)
	w.Header().Set("Content-Length", strconv.Itoa(r.body.Len()))
	w.WriteHeader(r.status)
	_, _ = w.Write(r.body.Bytes()) // whoever asked may be gone
}

// failure is an error with the status of its answer.
type failure struct {
	status   int
	sentence string
}

func (f *failure) Error() string { return f.sentence }

// answer has fn answer once there is room for one more.
func (a *api) answer(fn func(*request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case a.work <- struct{}{}:
		case <-r.Context().Done():
			return
		}
		working := sync.OnceFunc(func() { <-a.work })
		defer working()
		out := &reply{header: http.Header{}, status: http.StatusOK}
		if err := a.ask(out, r, false, fn); err != nil {
			out = &reply{header: http.Header{}}
			fail(out, r, err)
		}
		// Whoever reads slowly keeps nobody else waiting, unless many do: what they are sent takes memory.
		n := int64(out.body.Len())
		if a.pending.Add(n) <= int64(a.e.config.MemoryMiB)<<20/pendingShare {
			working()
		}
		defer a.pending.Add(-n)
		out.send(w)
	}
}

// pendingShare is the part of the memory that answers may take while they are sent.
const pendingShare = 8

// download has fn answer with what may be large, and is sent as it is made.
func (a *api) download(fn func(*request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case a.export <- struct{}{}:
			defer func() { <-a.export }()
		case <-r.Context().Done():
			return
		}
		if err := a.ask(w, r, true, fn); err != nil {
			fail(w, r, err)
		}
	}
}

// ask has fn work on what is held now. After an error nothing was written.
func (a *api) ask(w http.ResponseWriter, r *http.Request, patient bool, fn func(*request) error) error {
	values, err := parametersOf(r)
	if err != nil {
		return err
	}
	now := a.e.now()
	s := a.e.store.Snapshot(now)
	a.e.trees.forget(s.Serial)
	q := &request{params: &params{values: values, now: now}, api: a, w: w, r: r, snapshot: s, patient: patient}
	defer q.end()
	return fn(q)
}

// end gives the memory back that the answer has taken.
func (q *request) end() {
	for _, done := range q.done {
		done()
	}
}

// take takes memory for the answer, up to most bytes.
func (q *request) take(most int) int {
	n := q.api.e.trees.take(most, most)
	q.done = append(q.done, func() { q.api.e.trees.give(n) })
	return n
}

// takeAll takes n bytes of those that the window leaves, beside what the answer uses already. It waits for other answers, and refuses
// what is too much.
func (q *request) takeAll(n, own int) error {
	memory := q.api.e.config.MemoryMiB << 20
	most := memory - memory/pendingShare - q.snapshot.Window().Bytes
	if !q.api.e.trees.takeAll(n, own, most) {
		return &failure{http.StatusRequestEntityTooLarge, fmt.Sprintf("this would take some %d MiB, and memory_mib leaves %d: "+
			"choose a shorter range (seconds=60), a filter, or timestamps=0", n>>20, most>>20)}
	}
	q.done = append(q.done, func() { q.api.e.trees.give(n) })
	return nil
}

// fail answers with an error.
func fail(w http.ResponseWriter, r *http.Request, err error) {
	status := http.StatusInternalServerError
	if f, ok := err.(*failure); ok {
		status = f.status
	}
	writeError(w, r, status, err.Error())
}

// bad says what is wrong with the parameters, nil if nothing is.
func (q *request) bad() error {
	if q.err == nil {
		return nil
	}
	return &failure{http.StatusBadRequest, q.err.Error()}
}

// errNoProfiles is the answer as long as there is nothing of the kind.
func errNoProfiles() error {
	return &failure{http.StatusNotFound, "there are no profiles of this type yet"}
}

func (a *api) status(w http.ResponseWriter, _ *http.Request) {
	now := a.e.now()
	s := a.e.store.Snapshot(now)
	a.e.trees.forget(s.Serial)
	win := s.Window()
	out := statusAnswer{
		Now: now.UnixMilli(), Version: a.e.info.Version,
		Window: windowAnswer{From: win.From, To: win.To, Seconds: win.Length.Seconds(), Bytes: win.Bytes, BudgetBytes: win.Budget,
			Samples: win.Samples, Stacks: s.Stacks()},
		Types: []typeAnswer{}, Receivers: []receiverAnswer{}, Incomplete: []incompleteAnswer{},
	}
	if win.DroppedUntil != 0 {
		out.Window.DroppedUntil = &win.DroppedUntil
	}
	for _, t := range s.Types() {
		out.Types = append(out.Types, typeAnswer{ID: t.ID, SampleType: t.SampleType, SampleUnit: t.SampleUnit, PeriodType: t.PeriodType,
			PeriodUnit: t.PeriodUnit, Period: t.Period, Samples: t.Samples})
	}
	incomplete, more := s.Incomplete(maxIncomplete)
	out.IncompleteMore = more
	for _, i := range incomplete {
		out.Incomplete = append(out.Incomplete, incompleteAnswer(i))
	}
	a.e.mu.Lock()
	out.Payloads = a.e.payloads
	for _, r := range slices.SortedFunc(maps.Values(a.e.reports), func(x, y *health.Report) int { return cmp.Compare(x.Name, y.Name) }) {
		out.Receivers = append(out.Receivers, receiverAnswer{
			Name: r.Name, Seen: r.Time.UnixMilli(), Taken: r.Taken, Delivered: r.Delivered, Lost: orEmpty(r.Lost),
			KernelSkipped: r.KernelSkipped, Stops: orEmpty(r.Stops), Processes: r.Processes, Executables: r.Executables, Problem: r.Problem,
			Lacks: append([]string{}, r.Lacks...),
		})
	}
	a.e.mu.Unlock()
	writeJSON(w, http.StatusOK, out)
}

func orEmpty(m map[string]uint64) map[string]uint64 {
	if m == nil {
		return map[string]uint64{}
	}
	return m
}

// reasons says what the reasons mean for which stacks end: it is the same at any time.
func reasons(w http.ResponseWriter, _ *http.Request) {
	out := reasonsAnswer{Guessed: stopreason.Guessed}
	for _, r := range stopreason.All() {
		out.Reasons = append(out.Reasons, reasonAnswer{Reason: r.Name, Complete: r.Complete, Means: r.Means, When: r.When, Do: r.Do})
	}
	writeJSON(w, http.StatusOK, out)
}

func labels(q *request) error {
	sel := q.selection("")
	if err := q.bad(); err != nil {
		return err
	}
	out := labelsAnswer{Labels: []labelAnswer{}}
	for _, l := range q.snapshot.Labels(sel, maxLabelValues) {
		a := labelAnswer{Key: l.Key, Values: []valueAnswer{}, More: l.More}
		for _, v := range l.Values {
			a.Values = append(a.Values, valueAnswer(v))
		}
		out.Labels = append(out.Labels, a)
	}
	writeJSON(q.w, http.StatusOK, out)
	return nil
}

// tree makes the tree that is asked for, or the part of it around a function.
func (q *request) tree() (*store.Tree, store.Query, error) {
	query := q.query()
	if err := q.bad(); err != nil {
		return nil, query, err
	}
	t, done, ok := q.api.e.trees.get(q.snapshot, query, q.patient)
	if !ok {
		return nil, query, errNoProfiles()
	}
	q.done = append(q.done, done)
	return t, query, nil
}

func flamegraph(q *request) error {
	view := store.View{Focus: q.values.Get("focus"), Match: q.matcher(), MaxNodes: int(q.number("max_nodes", defaultNodes, 1, maxNodes))}
	kind := q.choice("view", "flame", "callers", "callees")
	t, query, err := q.tree()
	if err != nil {
		return err
	}
	ok := true
	drawn := q.take(store.DrawnBytes(view.MaxNodes))
	view.MaxNodes = min(view.MaxNodes, store.Drawable(drawn))
	switch kind {
	case "callers":
		t, ok = t.Callers(q.values.Get("function"), view.MaxNodes, q.take(t.Bytes()+t.ViewBytes()))
	case "callees":
		t, ok = t.Callees(q.values.Get("function"), q.take(2*(t.Bytes()+t.ViewBytes())))
	}
	if !ok {
		return &failure{http.StatusNotFound, "the function is not in this selection"}
	}
	f, ok := t.Flame(view)
	if !ok {
		return &failure{http.StatusNotFound, "the frame to focus on is not in this selection"}
	}
	if err := q.bad(); err != nil {
		return err
	}
	out := flameAnswer{
		Total: f.Total, BaseTotal: f.BaseTotal, Unit: f.Info.SampleUnit, Period: f.Info.Period, Functions: newFunctionsAnswer(),
		Nodes: nodesAnswer{ID: f.ID, Parent: f.Parent, Function: f.Function, Line: f.Line, Self: f.Self, Total: f.Sum,
			BaseSelf: append([]int64{}, f.BaseSelf...), BaseTotal: append([]int64{}, f.BaseSum...), Guessed: append([]int32{}, f.Guessed...)},
		Pruned: prunedAnswer(f.Pruned), Search: searchAnswer(f.Search),
	}
	out.From, out.To = q.snapshot.Bounds(query.Selection)
	for i := range f.Functions {
		out.Functions.add(&f.Functions[i], f.Match != nil && f.Match[i])
	}
	writeJSON(q.w, http.StatusOK, out)
	return nil
}

func table(q *request) error {
	match, limit := q.matcher(), int(q.number("limit", defaultRows, 1, maxRows))
	order := q.choice("sort", store.BySelf, store.ByTotal, store.ByDiff, store.ByName)
	t, _, err := q.tree()
	if err != nil {
		return err
	}
	total, base := t.Totals()
	list := t.Functions(match)
	if err := q.bad(); err != nil {
		return err
	}
	if match != nil {
		list = slices.DeleteFunc(list, func(f store.FunctionSum) bool { return !f.Match })
	}
	store.SortFunctions(list, order, total, base)
	out := tableAnswer{Total: total, BaseTotal: base, Unit: t.Info.SampleUnit, Period: t.Info.Period, Self: []int64{},
		FunctionsTotal: []int64{}, BaseSelf: []int64{}, BaseFunctionsTotal: []int64{}, Functions: newFunctionsAnswer()}
	if len(list) > limit {
		out.More, list = len(list)-limit, list[:limit]
	}
	for i := range list {
		f := &list[i]
		out.Functions.add(&f.Function, f.Match)
		out.Self, out.FunctionsTotal = append(out.Self, f.Self), append(out.FunctionsTotal, f.Total)
		if t.Compared {
			out.BaseSelf, out.BaseFunctionsTotal = append(out.BaseSelf, f.BaseSelf), append(out.BaseFunctionsTotal, f.BaseTotal)
		}
	}
	writeJSON(q.w, http.StatusOK, out)
	return nil
}

func heatmap(q *request) error {
	sel := q.selection("")
	columns, rows := int(q.number("columns", 300, 1, 2000)), int(q.number("rows", 20, 1, 200))
	if err := q.bad(); err != nil {
		return err
	}
	h, ok := q.snapshot.Heatmap(sel, columns, rows)
	if !ok {
		return errNoProfiles()
	}
	out := heatmapAnswer{From: h.From, To: h.To, Columns: columns, Rows: rows, Max: h.Max, Untimed: h.Untimed, Values: [][3]int64{},
		ColumnMs: float64(h.ColumnMicros) / 1000, RowMs: float64(h.RowMicros) / 1000}
	for i, v := range h.Values {
		if v != 0 {
			out.Values = append(out.Values, [3]int64{int64(i / rows), int64(i % rows), v})
		}
	}
	writeJSON(q.w, http.StatusOK, out)
	return nil
}
