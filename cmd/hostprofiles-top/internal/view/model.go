package view

import (
	"errors"
	"reflect"
	"slices"
	"time"

	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/api"
	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/live"
	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/text"
)

// Windows are the lengths of time to choose from.
func Windows() []time.Duration {
	return []time.Duration{10 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute}
}

// Orders of functions, as the server takes them.
func Orders() []string { return []string{"self", "total", "diff", "name"} }

// Options are what a model starts with.
type Options struct {
	Address  text.Safe // the server's, to be shown
	Interval time.Duration
	Request  live.Request
}

// Message is what changes a model: Key, Resize, Tick or Result.
type Message any

// Resize says how large the screen is.
type Resize struct{ Width, Height int }

// Tick says that time went by.
type Tick struct{}

// Result is the answer to a Fetch.
type Result struct {
	Seq  int
	Data *live.Data
	Err  error
}

// Effect is what a model wants to be done.
type Effect struct {
	Fetch   *live.Request // ask; the Result has Seq
	Seq     int
	Cancel  bool // give up what is being asked for; its Result comes all the same
	Redraw  bool // everything: the screen was spoilt
	Suspend bool
	Quit    bool
}

// Views.
const (
	functionsView = iota
	processesView
)

// overlay is what covers the list.
type overlay int

const (
	noOverlay overlay = iota
	helpOverlay
	healthOverlay
	pickOverlay
	promptOverlay // does not cover it, but takes the keys
)

// focus is a function whose callers and callees are shown.
type focus struct {
	key     string
	name    text.Safe
	filters []api.Filter // as they were before
	list    list         // where the cursor is
}

// Model is what is shown and why. Update changes it, View shows it.
type Model struct {
	options       Options
	width, height int
	now           time.Time

	view         int
	request      live.Request // without what the view adds
	processOrder string
	processName  string // what names of processes are searched for
	paused       bool
	stack        []focus // of functions that were entered, the one that is shown last

	seq      int
	asked    live.Request // by the request that is under way or was answered last
	asking   bool
	stale    bool // what is wanted is not what was asked for
	started  time.Time
	due      time.Time
	problem  error
	since    time.Time // of the problem
	answered time.Time

	status    *live.Data // the latest
	reports   map[text.Safe]report
	main      *live.Data // of the lists
	mainKnown live.Generation
	around    *live.Data // of the function that is shown

	functions, processes list
	overlay              overlay
	scrolled             int // rows of an overlay that is text
	pick                 picker
	prompt               prompt
	note                 text.Safe // about the last key
}

// New makes a model. Nothing is known yet, not even how large the screen is.
func New(o Options) *Model {
	m := &Model{options: o, width: 80, height: 24, request: o.Request, processOrder: "total"}
	if m.request.Order == "" {
		m.request.Order = "self"
	}
	if m.request.Window == 0 {
		m.request.Window = time.Minute
	}
	return m
}

// Update takes a message that came at a time, and says what is to be done.
func (m *Model) Update(now time.Time, msg Message) (e Effect) {
	m.now = now
	switch msg := msg.(type) {
	case Resize:
		m.width, m.height = max(msg.Width, 1), max(msg.Height, 1)
	case Result:
		m.result(msg)
	case Key:
		m.note = ""
		m.key(msg, &e)
	}
	m.ask(&e)
	return e
}

// wanted is the request that the view needs now.
func (m *Model) wanted() live.Request {
	r := m.request
	r.Filters = slices.Clone(r.Filters)
	if r.Order == "diff" && !r.Compare {
		r.Order = "self"
	}
	if len(m.stack) > 0 {
		r.Function, r.Search = m.stack[len(m.stack)-1].key, ""
	}
	if m.view != processesView || len(m.stack) > 0 {
		r.Expanded, r.ByPID = nil, false
	}
	return r
}

// ask starts what is due, or gives up what nobody wants any more.
func (m *Model) ask(e *Effect) {
	w := m.wanted()
	changed := !same(w, m.asked)
	if m.asking {
		if changed && !m.stale {
			m.stale, e.Cancel = true, true
		}
		return
	}
	if !changed && (m.paused && m.problem == nil || m.now.Before(m.due)) {
		return
	}
	m.seq++
	m.asked, m.asking, m.stale, m.started = w, true, false, m.now
	if !changed && m.problem == nil {
		w.Known = m.mainKnown
	}
	e.Fetch, e.Seq = &w, m.seq
}

// same tells whether two requests are for the same.
func same(a, b live.Request) bool {
	a.Known, b.Known = live.Generation{}, live.Generation{}
	return len(a.Filters) == len(b.Filters) && slices.Equal(a.Filters, b.Filters) && reflect.DeepEqual(without(a), without(b))
}

func without(r live.Request) live.Request {
	r.Filters = nil
	return r
}

// Slowdown is how many times longer than an answer takes the next request waits at least: looking must not become load.
const Slowdown = 20

func (m *Model) result(r Result) {
	if r.Seq != m.seq || !m.asking {
		return
	}
	m.asking = false
	m.due = m.started.Add(max(m.options.Interval, Slowdown*m.now.Sub(m.started)))
	if m.stale { // what is wanted now is asked at once
		m.asked = live.Request{}
		return
	}
	if r.Err != nil {
		if m.problem == nil {
			m.since = m.now
		}
		m.problem = r.Err
		return
	}
	m.problem, m.answered, m.status = nil, m.now, r.Data
	m.heard(r.Data.Status)
	m.mainKnown = r.Data.Generation
	if r.Data.Unchanged {
		return
	}
	if m.asked.Function != "" {
		m.around = r.Data
	} else {
		m.main = r.Data
	}
	m.reselect()
}

// kind is what kind of problem there is.
func (m *Model) kind() api.Kind {
	var p *api.Problem
	if errors.As(m.problem, &p) {
		return p.Kind
	}
	return api.Other
}

// sentence says what the problem is.
func (m *Model) sentence() text.Safe {
	var p *api.Problem
	if errors.As(m.problem, &p) {
		return p.Sentence
	}
	return text.Clean(m.problem.Error())
}

// shown is the data of what is looked at, nil if there is none yet.
func (m *Model) shown() *live.Data {
	if len(m.stack) > 0 {
		return m.around
	}
	return m.main
}

// age is how old the latest data is, by the server's clock.
func (m *Model) age() time.Duration {
	s := m.status.Status
	return max(millis(s.Now-s.Window.To)+m.now.Sub(m.answered), 0)
}
