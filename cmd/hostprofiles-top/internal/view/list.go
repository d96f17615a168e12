package view

import (
	"cmp"
	"slices"
	"strings"

	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/live"
	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/text"
)

// item is a row of a list: one of the pointers is set, or it is a heading.
type item struct {
	key       string // the same after a refresh
	function  *live.Function
	nested    bool // below its process
	process   *live.Process
	neighbour *live.Neighbour
	callee    bool
	self      bool // the function itself, between its callers and callees
	heading   text.Safe
}

func (i *item) selectable() bool { return i.heading == "" }

// list is where somebody is in a list.
type list struct {
	cursor, offset int
	key            string // of the row at the cursor, which it follows; empty: it stays at the top
}

// items are the rows of what is looked at.
func (m *Model) items() []item {
	d := m.shown()
	switch {
	case d == nil:
		return nil
	case len(m.stack) > 0:
		return aroundItems(d)
	case m.view == processesView:
		return m.processItems(d)
	}
	return m.functionItems(d)
}

func (m *Model) functionItems(d *live.Data) []item {
	out := make([]item, len(d.Functions))
	for i := range out {
		out[i] = item{key: d.Functions[i].Key, function: &d.Functions[i]}
	}
	if m.asked.Order == "diff" && d.Compared { // the server compares shares, here are CPUs
		meter := meterOf(d)
		change := func(i item) float64 {
			c := meter.change(i.function.Self, i.function.BaseSelf)
			return max(c, -c)
		}
		slices.SortStableFunc(out, func(a, b item) int { return cmp.Compare(change(b), change(a)) })
	}
	return out
}

// maxNested is how many functions are shown below a process; all are in the list of functions.
const maxNested = 50

func (m *Model) processItems(d *live.Data) []item {
	order := make([]*live.Process, 0, len(d.Processes))
	for i := range d.Processes {
		if strings.Contains(strings.ToLower(string(processTitle(&d.Processes[i], 0))), strings.ToLower(m.processName)) {
			order = append(order, &d.Processes[i])
		}
	}
	meter := meterOf(d)
	slices.SortStableFunc(order, func(a, b *live.Process) int {
		switch {
		case m.processOrder == "name":
			return strings.Compare(string(a.Name), string(b.Name))
		case m.processOrder == "diff" && d.Compared:
			x, y := meter.change(a.Total, a.BaseTotal), meter.change(b.Total, b.BaseTotal)
			return cmp.Compare(max(y, -y), max(x, -x))
		}
		return cmp.Compare(b.Total, a.Total)
	})
	var out []item
	for _, p := range order {
		out = append(out, item{key: "process " + p.Raw, process: p})
		if !m.expanded(p) || d.ExpandedOf == nil || *d.ExpandedOf != p.Raw {
			continue
		}
		for k := range d.Expanded[:min(len(d.Expanded), maxNested)] {
			f := &d.Expanded[k]
			out = append(out, item{key: "nested " + f.Key, function: f, nested: true, process: p})
		}
	}
	return out
}

// expanded tells whether a process is to show its functions.
func (m *Model) expanded(p *live.Process) bool {
	return m.request.Expanded != nil && *m.request.Expanded == p.Raw
}

func aroundItems(d *live.Data) []item {
	a := d.Around
	if a == nil {
		return nil
	}
	var out []item
	add := func(of []live.Neighbour, callee bool, key string) {
		for i := range of {
			out = append(out, item{key: key + of[i].Key, neighbour: &of[i], callee: callee})
		}
	}
	out = append(out, item{heading: "CALLERS"})
	add(a.Callers, false, "caller ")
	out = append(out, item{key: "self", self: true}, item{heading: "CALLEES"})
	add(a.Callees, true, "callee ")
	return out
}

// current is the list that keys move in.
func (m *Model) current() *list {
	switch {
	case len(m.stack) > 0:
		return &m.stack[len(m.stack)-1].list
	case m.view == processesView:
		return &m.processes
	}
	return &m.functions
}

// move puts the cursor on the nearest row that can be chosen, in the direction of by.
func (m *Model) move(by int) {
	items, l := m.items(), m.current()
	if len(items) == 0 {
		return
	}
	at := min(max(l.cursor+by, 0), len(items)-1)
	step := 1
	if by < 0 {
		step = -1
	}
	for at+step >= 0 && at+step < len(items) && !items[at].selectable() {
		at += step
	}
	for at > 0 && !items[at].selectable() {
		at--
	}
	for at < len(items)-1 && !items[at].selectable() {
		at++
	}
	l.cursor, l.key = at, items[at].key
	if at == 0 { // the top stays the top
		l.key = ""
	}
}

// reselect finds the row again that the cursor was on.
func (m *Model) reselect() {
	items, l := m.items(), m.current()
	entered := l.key == "" && len(m.stack) > 0
	if entered {
		l.key = "self"
	}
	if l.key == "" {
		l.cursor = 0
		return
	}
	if i := slices.IndexFunc(items, func(i item) bool { return i.key == l.key }); i >= 0 {
		l.cursor = i
		if entered { // callers above, callees below
			l.offset = max(i-m.bodyRows()/2, 0)
		}
		return
	}
	l.cursor = min(l.cursor, max(len(items)-1, 0))
}

// chosen is the row at the cursor.
func (m *Model) chosen() (item, bool) {
	items, l := m.items(), m.current()
	if l.cursor >= len(items) || !items[l.cursor].selectable() {
		return item{}, false
	}
	return items[l.cursor], true
}

// scroll moves the part that is shown so that the cursor is in it, and tells where that starts.
func (l *list) scroll(n, rows int) int {
	l.offset = min(l.offset, max(n-rows, 0))
	l.offset = max(min(l.offset, l.cursor-1), l.cursor-rows+1, 0) // what is above may be a heading
	return l.offset
}
