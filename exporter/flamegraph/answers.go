package flamegraph

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"github.com/hostprofiles/hostprofiles/exporter/flamegraph/internal/store"
)

// What the API answers, as docs/live-view.md tells.

type statusAnswer struct {
	Now        int64              `json:"now"`
	Version    string             `json:"version"`
	Window     windowAnswer       `json:"window"`
	Types      []typeAnswer       `json:"types"`
	Payloads   payloadsAnswer     `json:"payloads"`
	Receivers  []receiverAnswer   `json:"receivers"`
	Incomplete []incompleteAnswer `json:"incomplete"`
	// IncompleteMore have fewer samples than those.
	IncompleteMore int `json:"incomplete_more"`
}

type windowAnswer struct {
	From         int64   `json:"from"`
	To           int64   `json:"to"`
	Seconds      float64 `json:"seconds"`
	Bytes        int     `json:"bytes"`
	BudgetBytes  int     `json:"budget_bytes"`
	Samples      int     `json:"samples"`
	Stacks       int     `json:"stacks"`
	DroppedUntil *int64  `json:"dropped_until"`
}

type typeAnswer struct {
	ID         string `json:"id"`
	SampleType string `json:"sample_type"`
	SampleUnit string `json:"sample_unit"`
	PeriodType string `json:"period_type"`
	PeriodUnit string `json:"period_unit"`
	Period     int64  `json:"period"`
	Samples    int    `json:"samples"`
}

type payloadsAnswer struct {
	Accepted  uint64 `json:"accepted"`
	Refused   uint64 `json:"refused"`
	LastError string `json:"last_error"`
	// SkewedProfiles have times that cannot be true, the last of them by SkewMs.
	SkewedProfiles uint64 `json:"skewed_profiles"`
	SkewMs         int64  `json:"skew_ms"`
}

type receiverAnswer struct {
	Name          string            `json:"name"`
	Seen          int64             `json:"seen"`
	Taken         uint64            `json:"taken"`
	Delivered     uint64            `json:"delivered"`
	Lost          map[string]uint64 `json:"lost"`
	KernelSkipped uint64            `json:"kernel_skipped"`
	Stops         map[string]uint64 `json:"stops"`
	Processes     uint64            `json:"processes"`
	Executables   uint64            `json:"executables"`
	Problem       string            `json:"problem"`
	Lacks         []string          `json:"lacks"`
}

type incompleteAnswer struct {
	Process string `json:"process"`
	PID     string `json:"pid"`
	Reason  string `json:"reason"`
	Samples int    `json:"samples"`
	Of      int    `json:"of"`
}

// reasonsAnswer has what is to be said of the reasons for which stacks end, and of frames that were guessed.
type reasonsAnswer struct {
	Reasons []reasonAnswer `json:"reasons"`
	Guessed string         `json:"guessed"`
}

type reasonAnswer struct {
	Reason   string `json:"reason"`
	Complete bool   `json:"complete"`
	Means    string `json:"means"`
	When     string `json:"when"`
	Do       string `json:"do"`
}

type labelsAnswer struct {
	Labels []labelAnswer `json:"labels"`
}

type labelAnswer struct {
	Key    string        `json:"key"`
	Values []valueAnswer `json:"values"`
	More   int           `json:"more"`
}

type valueAnswer struct {
	Value string `json:"value"`
	Total int64  `json:"total"`
	Hint  string `json:"hint,omitempty"`
}

// functionsAnswer has a column for each of a function's properties.
type functionsAnswer struct {
	Key        []string `json:"key"`
	Name       []string `json:"name"`
	SystemName []string `json:"system_name"`
	File       []string `json:"file"`
	Line       []int64  `json:"line"`
	Type       []string `json:"type"`
	Mapping    []string `json:"mapping"`
	Part       []bool   `json:"part"`
	Match      []bool   `json:"match"`
}

func newFunctionsAnswer() functionsAnswer {
	return functionsAnswer{Key: []string{}, Name: []string{}, SystemName: []string{}, File: []string{}, Line: []int64{}, Type: []string{},
		Mapping: []string{}, Part: []bool{}, Match: []bool{}}
}

func (a *functionsAnswer) add(f *store.Function, match bool) {
	a.Key, a.Name = append(a.Key, f.Key), append(a.Name, f.Name)
	a.SystemName, a.File = append(a.SystemName, f.SystemName), append(a.File, f.File)
	a.Line, a.Type = append(a.Line, f.StartLine), append(a.Type, f.FrameType)
	a.Mapping, a.Part, a.Match = append(a.Mapping, f.Mapping), append(a.Part, f.Part), append(a.Match, match)
}

type flameAnswer struct {
	From      int64           `json:"from"`
	To        int64           `json:"to"`
	Total     int64           `json:"total"`
	BaseTotal int64           `json:"base_total"`
	Unit      string          `json:"unit"`
	Period    int64           `json:"period"`
	Functions functionsAnswer `json:"functions"`
	Nodes     nodesAnswer     `json:"nodes"`
	Pruned    prunedAnswer    `json:"pruned"`
	Search    searchAnswer    `json:"search"`
}

type nodesAnswer struct {
	ID        []string `json:"id"`
	Parent    []int32  `json:"parent"`
	Function  []int32  `json:"function"`
	Line      []int64  `json:"line"`
	Self      []int64  `json:"self"`
	Total     []int64  `json:"total"`
	BaseSelf  []int64  `json:"base_self"`
	BaseTotal []int64  `json:"base_total"`
	Guessed   []int32  `json:"guessed"`
}

type prunedAnswer struct {
	Nodes int   `json:"nodes"`
	Self  int64 `json:"self"`
}

type searchAnswer struct {
	Total     int64 `json:"total"`
	BaseTotal int64 `json:"base_total"`
	Functions int   `json:"functions"`
}

type tableAnswer struct {
	Total              int64           `json:"total"`
	BaseTotal          int64           `json:"base_total"`
	Unit               string          `json:"unit"`
	Period             int64           `json:"period"`
	Functions          functionsAnswer `json:"functions"`
	Self               []int64         `json:"self"`
	FunctionsTotal     []int64         `json:"functions_total"`
	BaseSelf           []int64         `json:"base_self"`
	BaseFunctionsTotal []int64         `json:"base_functions_total"`
	More               int             `json:"more"`
}

type heatmapAnswer struct {
	From     int64      `json:"from"`
	To       int64      `json:"to"`
	ColumnMs float64    `json:"column_ms"`
	RowMs    float64    `json:"row_ms"`
	Columns  int        `json:"columns"`
	Rows     int        `json:"rows"`
	Values   [][3]int64 `json:"values"`
	Max      int64      `json:"max"`
	Untimed  int64      `json:"untimed"`
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // whoever asked may be gone
}

// writeError answers with one sentence.
func writeError(w http.ResponseWriter, r *http.Request, status int, sentence string) {
	if !errorsAsText(r) {
		writeJSON(w, status, map[string]string{"error": sentence})
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Go-Pprof", "1")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, sentence+"\n") // whoever asked may be gone
}

// errorsAsText tells whether an error is for `go tool pprof`, which keeps to itself what an answer says that is not text or lacks
// the header X-Go-Pprof (statusCodeError in internal/driver/fetch.go of github.com/google/pprof). It asks without the header Accept;
// pages and most programs have that.
func errorsAsText(r *http.Request) bool {
	accept := strings.Join(r.Header.Values("Accept"), ",")
	switch r.URL.Path {
	case "/pprof":
		return !strings.Contains(accept, "application/json")
	case "/profile.pb.gz", "/profile":
		return accept == ""
	}
	return false
}
