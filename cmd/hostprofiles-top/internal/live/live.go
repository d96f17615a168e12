// Package live asks the server for what a view shows and joins the answers: pure values, made anew at each refresh.
package live

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/api"
	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/text"
	"github.com/hostprofiles/hostprofiles/internal/stopreason"
)

// Attributes by which selections are narrowed.
const (
	KeyProcess   = "process.executable.name"
	KeyPID       = "process.pid"
	KeyThread    = "thread.name"
	keyFrameType = "frame_type"
	keyStop      = stopreason.Attribute
)

// Bounds of what is asked for.
const (
	maxRows  = 500    // that are shown
	maxAsked = 20_000 // that are asked for: where functions are not known there is a row for each address
	maxNodes = 20_000
)

// Source answers; api.Client does.
type Source interface {
	Status(context.Context) (*api.Status, error)
	Labels(context.Context, api.Selection) ([]api.Label, error)
	Table(ctx context.Context, s api.Selection, order, search string, limit int) (*api.Table, error)
	Tree(ctx context.Context, s api.Selection, group, search string, limit int) (*api.Tree, error)
	Around(ctx context.Context, s api.Selection, view, function string, limit int) (*api.Tree, error)
}

// Request is what a view needs.
type Request struct {
	Type     string // id of a profile type; empty: the server's first
	Filters  []api.Filter
	Search   string
	Order    string // as api.Client.Table takes it
	Window   time.Duration
	Compare  bool    // with the window before
	Apart    bool    // the addresses of code whose functions are not known, one by one
	Function string  // key of the one whose callers and callees are wanted; empty: none
	ByPID    bool    // processes one by one, not all of a name as one
	Expanded *string // process whose functions are wanted too, as Process.Raw
	// Until is the end of the window if time stands still, Unix ms. 0: the latest data.
	Until int64
	// Known is the generation of what the view has already: if it is still that, only the status is asked for.
	Known Generation
}

// Generation tells contents of the server from each other.
type Generation struct {
	To       int64
	Accepted uint64
}

// Data is what the server answered.
type Data struct {
	Status     *api.Status
	Generation Generation
	Unchanged  bool // nothing but the status is here, since the rest is as it was
	Type       api.Type
	Range      api.Range
	Seconds    float64 // that the window covers: less than was asked for if the server has not been running for long
	Base       float64 // the same of what it is compared with; 0: there is nothing before
	Compared   bool
	Total      int64
	BaseTotal  int64
	Matching   int64 // value of the samples with a function that is searched for
	Kernel     int64
	Incomplete float64 // value of the samples whose stack does not reach its root
	Labels     []api.Label
	Functions  []Function
	More       int
	Processes  []Process
	ByPID      bool // Processes are pids
	// MoreProcesses were too small to be told.
	MoreProcesses int
	Expanded      []Function // of the process ExpandedOf, those that ran by themselves
	ExpandedOf    *string
	Around        *Around
}

// Function is a row of a list of functions.
type Function struct {
	api.Row
	Processes []Share // in which it ran, as far as the tree tells, the largest first
}

// Share is what something has of a function.
type Share struct {
	Name  text.Safe
	Value int64
}

// Process is a row of the list of processes: all of a name, or one pid.
type Process struct {
	Raw              string    // as it can be asked for
	PID              text.Safe // empty: all of the name
	Name             text.Safe // of the executable; of a pid it may not be known
	Total, BaseTotal int64
	Kernel           int64     // of that; as far as the tree tells
	Hottest          text.Safe // function by itself
	HottestSelf      int64
}

// Nothing tells whether nothing is selected, in neither of the windows that are compared. Samples need not have a function: of 32-bit
// processes and of those outside the collector's pid namespace there may be none. What is searched for are functions.
func (d *Data) Nothing(r Request) bool {
	return len(d.Functions) == 0 && (r.Search != "" || d.Total == 0 && d.BaseTotal == 0)
}

// Fetch asks for all that r needs, one request after the other. Without any profiles only the status is set.
func Fetch(ctx context.Context, source Source, r Request) (*Data, error) {
	status, err := source.Status(ctx)
	if err != nil {
		return nil, err
	}
	d := &Data{Status: status, Generation: Generation{latest(status), status.Payloads.Accepted}}
	if !d.chooseType(r.Type) {
		return d, nil
	}
	if d.Generation == r.Known {
		d.Unchanged = true
		return d, nil
	}
	sel := d.selection(r)
	if err := d.load(ctx, source, r, sel); err != nil {
		var p *api.Problem
		if errors.As(err, &p) && p.Kind == api.Missing { // what there was is gone meanwhile
			return d, nil
		}
		return nil, err
	}
	return d, nil
}

func (d *Data) chooseType(id string) bool {
	types := *d.Status.Types
	i := slices.IndexFunc(types, func(t api.Type) bool { return id == "" || t.ID == id })
	if i < 0 {
		return false
	}
	d.Type = types[i]
	return true
}

// latest is the end of the data, but not after now: one host whose clock is ahead would hide all others.
func latest(s *api.Status) int64 {
	if s.Now > 0 {
		return min(s.Window.To, s.Now)
	}
	return s.Window.To
}

// selection finds the range of time. It ends with the data, not now: a profiler sends every few seconds, and the time since
// would look idle.
func (d *Data) selection(r Request) api.Selection {
	w := d.Status.Window
	to := r.Until
	if to == 0 {
		to = latest(d.Status)
	}
	length := r.Window.Milliseconds()
	d.Range = api.Range{From: max(to-length, 1), To: to}
	d.Seconds = seconds(w, d.Range)
	sel := api.Selection{Type: d.Type.ID, Range: d.Range, Filters: r.Filters}
	if r.Compare {
		base := api.Range{From: max(d.Range.From-length, 1), To: d.Range.From}
		d.Base = seconds(w, base)
		if base.To > base.From && d.Base > 0 {
			sel.Base, d.Compared = &base, true
		}
	}
	return sel
}

// seconds is how much of a range the server has data of.
func seconds(w *api.Window, r api.Range) float64 {
	return float64(max(min(r.To, w.To)-max(r.From, w.From), 0)) / 1000
}

// processKey is the attribute whose values are the rows of the list of processes.
func (r *Request) processKey() string {
	if r.ByPID {
		return KeyPID
	}
	return KeyProcess
}

func (d *Data) load(ctx context.Context, source Source, r Request, sel api.Selection) (err error) {
	if d.Labels, err = source.Labels(ctx, sel); err != nil {
		return err
	}
	for _, v := range Values(d.Labels, keyFrameType) {
		if v.Raw == "kernel" {
			d.Kernel = v.Total
		}
	}
	for _, v := range Values(d.Labels, keyStop) {
		if !stopreason.IsComplete(v.Raw) {
			d.Incomplete += float64(v.Total) // a sum of what somebody sent need not fit
		}
	}
	if r.Function != "" {
		return d.loadAround(ctx, source, r, sel)
	}
	table, err := source.Table(ctx, sel, r.Order, r.Search, maxAsked)
	if err != nil {
		return err
	}
	key := r.processKey()
	tree, err := source.Tree(ctx, sel, key, r.Search, maxNodes)
	if err != nil {
		return err
	}
	if !r.Apart {
		tree = foldTree(tree)
	}
	d.Total, d.BaseTotal, d.More, d.Matching = table.Total, table.BaseTotal, table.More, tree.SearchTotal
	in, totals, processes := attribute(tree, r.ByPID)
	named := label(d.Labels, key)
	d.Processes, d.ByPID = processes, r.ByPID
	if !slices.ContainsFunc(r.Filters, func(f api.Filter) bool { return f.Key == key }) { // else the label has others, too
		d.Processes = complete(processes, named.Values, r.ByPID)
		d.MoreProcesses = max(named.More-beside(processes, named.Values), 0)
	}
	rows := table.Rows
	if !r.Apart {
		rows = foldRows(rows, totals)
		order(rows, r.Order, d.Total, d.BaseTotal)
	}
	if n := len(rows) - maxRows; n > 0 {
		d.More, rows = d.More+n, rows[:maxRows]
	}
	for _, row := range rows {
		d.Functions = append(d.Functions, Function{row, in[row.Key]})
	}
	if r.Expanded == nil {
		return nil
	}
	return d.expand(ctx, source, r, sel)
}

// beside counts the processes with a name that are not among the values, but in the selection, not only in what it is compared with.
func beside(processes []Process, values []api.Value) (n int) {
	listed := make(map[string]bool, len(values))
	for _, v := range values {
		listed[v.Raw] = true
	}
	for i := range processes {
		if p := &processes[i]; p.Raw != "" && p.Total != 0 && !listed[p.Raw] {
			n++
		}
	}
	return n
}

// expand asks for the functions of one process.
func (d *Data) expand(ctx context.Context, source Source, r Request, sel api.Selection) error {
	sel.Filters = append(slices.Clone(sel.Filters), api.Filter{Key: r.processKey(), Value: *r.Expanded})
	table, err := source.Table(ctx, sel, "self", "", maxAsked)
	if err != nil {
		return err
	}
	rows := table.Rows
	if !r.Apart {
		rows = foldRows(rows, nil)
		order(rows, "self", table.Total, table.BaseTotal)
	}
	d.ExpandedOf = r.Expanded
	for _, row := range rows[:min(len(rows), maxRows)] {
		if row.Self != 0 || row.BaseSelf != 0 {
			d.Expanded = append(d.Expanded, Function{Row: row})
		}
	}
	return nil
}

// Values are a label's, the largest; More counts the others.
func Values(labels []api.Label, key string) []api.Value { return label(labels, key).Values }

// More is how many values a label has beside those that are told.
func More(labels []api.Label, key string) int { return max(label(labels, key).More, 0) }

func label(labels []api.Label, key string) api.Label {
	for _, l := range labels {
		if l.Key == key {
			return l
		}
	}
	return api.Label{}
}
