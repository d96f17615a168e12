package view

import (
	"slices"
	"time"

	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/api"
	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/live"
	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/text"
)

// Code is a key.
type Code int

// Keys that are no characters.
const (
	Rune Code = iota
	ArrowUp
	ArrowDown
	ArrowLeft
	ArrowRight
	PageUp
	PageDown
	Home
	End
	Enter
	Escape
	Tab
	Backspace
	CtrlC
	CtrlL
	CtrlU
	CtrlZ
)

// Key says that a key was pressed.
type Key struct {
	Code Code
	Rune rune
}

func (m *Model) key(k Key, e *Effect) {
	switch k.Code {
	case CtrlC:
		e.Quit = true
		return
	case CtrlZ:
		e.Suspend = true
		return
	case CtrlL:
		e.Redraw = true
		return
	}
	switch m.overlay {
	case promptOverlay:
		m.promptKey(k)
	case pickOverlay:
		m.pickKey(k)
	case helpOverlay, healthOverlay:
		m.textKey(k, e)
	default:
		if !m.moveKey(k) {
			m.listKey(k, e)
		}
	}
}

// textKey moves in help and health, which any other key leaves.
func (m *Model) textKey(k Key, e *Effect) {
	if by := m.motion(k); by != 0 {
		m.scrolled = max(m.scrolled+by, 0)
		return
	}
	m.overlay = noOverlay
	e.Quit = k == Key{Rune, 'q'}
}

// everything is more rows than there are of anything.
const everything = 1 << 30

// moveKey moves the cursor, if the key does that.
func (m *Model) moveKey(k Key) bool {
	by := m.motion(k)
	if by == 0 {
		return false
	}
	m.move(by)
	return true
}

// motion is by how many rows a key moves; 0: it does not.
func (m *Model) motion(k Key) int {
	page := max(m.bodyRows()-1, 1)
	switch {
	case k.Code == ArrowUp || k == Key{Rune, 'k'}:
		return -1
	case k.Code == ArrowDown || k == Key{Rune, 'j'}:
		return 1
	case k.Code == PageUp:
		return -page
	case k.Code == PageDown:
		return page
	case k.Code == Home || k == Key{Rune, 'g'}:
		return -everything
	case k.Code == End || k == Key{Rune, 'G'}:
		return everything
	}
	return 0
}

func (m *Model) listKey(k Key, e *Effect) {
	switch k.Code {
	case Enter, ArrowRight:
		m.enter()
		return
	case Escape, ArrowLeft, Backspace:
		m.leave(k.Code)
		return
	case Tab:
		m.show(1 - m.view)
		return
	}
	if k.Code != Rune {
		return
	}
	switch k.Rune {
	case 'q':
		e.Quit = true
	case '1':
		m.show(functionsView)
	case '2':
		m.show(processesView)
	case '/':
		m.startPrompt()
	case 'P':
		m.toggleByPID()
	case 'p':
		m.startPick("process", "Choose a process, or type a pid", live.KeyProcess, live.KeyPID)
	case 't':
		m.startPick("thread", "Choose a thread", live.KeyThread)
	case 'T':
		m.startTypes()
	case 's':
		m.nextOrder()
	case 'c':
		m.toggleCompare()
	case 'a':
		m.request.Apart = !m.request.Apart
		m.stack, m.around = nil, nil
	case ' ':
		m.togglePause()
	case '+', '=':
		m.zoom(1)
	case '-', '_':
		m.zoom(-1)
	case 'i':
		m.overlay, m.scrolled = healthOverlay, 0
	case '?', 'h':
		m.overlay, m.scrolled = helpOverlay, 0
	}
}

func (m *Model) show(view int) {
	m.stack, m.view = nil, view
	m.reselect()
}

// toggleByPID lists processes one by one, or all of a name as one.
func (m *Model) toggleByPID() {
	m.request.ByPID = m.view != processesView || !m.request.ByPID
	m.request.Expanded = nil
	m.processes = list{}
	m.show(processesView)
}

// enter opens the row at the cursor: a function's callers and callees, a process's functions.
func (m *Model) enter() {
	i, ok := m.chosen()
	if !ok {
		return
	}
	switch {
	case i.neighbour != nil && i.neighbour.Type == api.TypeGroup:
		m.note = "that is the process; there is nothing above"
	case i.neighbour != nil && i.neighbour.Type == api.TypeTruncated:
		m.note = "its callers are missing; i tells why"
	case i.neighbour != nil:
		m.push(i.neighbour.Key, i.neighbour.Name, nil)
	case i.function != nil:
		m.push(i.function.Key, i.function.Name, i.process)
	case i.process != nil && m.main.ByPID != m.request.ByPID:
		m.note = "the list is on its way"
	case i.process != nil && m.expanded(i.process):
		m.request.Expanded = nil
	case i.process != nil:
		raw := i.process.Raw
		m.request.Expanded = &raw
	}
}

// push shows the callers and callees of a function, within a process if one is given.
func (m *Model) push(key string, name text.Safe, process *live.Process) {
	m.stack = append(m.stack, focus{key: key, name: name, filters: m.request.Filters})
	switch {
	case process == nil:
	case process.PID != "":
		m.setFilter(live.KeyPID, process.Raw)
	default:
		m.setFilter(live.KeyProcess, process.Raw)
	}
	m.around = nil
}

// leave goes back one step, or drops the filter that was set last.
func (m *Model) leave(by Code) {
	if n := len(m.stack); n > 0 {
		m.request.Filters = m.stack[n-1].filters
		m.stack, m.around = m.stack[:n-1], nil
		return
	}
	if by == ArrowLeft {
		if i, ok := m.chosen(); ok && i.process != nil && m.expanded(i.process) {
			m.request.Expanded = nil
			m.processes.key = "process " + i.process.Raw
			m.reselect()
		}
		return
	}
	switch filters := m.request.Filters; {
	case m.view == processesView && m.processName != "":
		m.processName = ""
		m.reselect()
	case m.view == functionsView && m.request.Search != "":
		m.request.Search = ""
	case len(filters) > 0:
		m.request.Filters = slices.Clone(filters[:len(filters)-1])
	default:
		m.note = "there is no filter to drop; q quits"
	}
}

// setFilter sets the one filter on an attribute, which is the last then.
func (m *Model) setFilter(key, value string) {
	m.dropFilter(key)
	m.request.Filters = append(m.request.Filters, api.Filter{Key: key, Value: value})
}

func (m *Model) dropFilter(key string) {
	m.request.Filters = slices.DeleteFunc(slices.Clone(m.request.Filters), func(f api.Filter) bool { return f.Key == key })
}

func (m *Model) nextOrder() {
	if len(m.stack) > 0 {
		m.note = "callers and callees are sorted by what they have of the function"
		return
	}
	orders, at := Orders(), &m.request.Order
	if m.view == processesView {
		orders, at = []string{"total", "diff", "name"}, &m.processOrder
	}
	if !m.request.Compare {
		orders = slices.DeleteFunc(orders, func(o string) bool { return o == "diff" })
	}
	*at = orders[(slices.Index(orders, *at)+1)%len(orders)]
	l := m.current()
	l.cursor, l.key = 0, ""
}

func (m *Model) toggleCompare() {
	m.request.Compare = !m.request.Compare
	if !m.request.Compare {
		for _, o := range []struct {
			at *string
			to string
		}{{&m.request.Order, "self"}, {&m.processOrder, "total"}} {
			if *o.at == "diff" {
				*o.at = o.to
			}
		}
	}
}

func (m *Model) togglePause() {
	if m.paused {
		m.paused, m.request.Until = false, 0
		return
	}
	if d := m.shown(); d != nil && d.Range.To > 0 {
		m.paused, m.request.Until = true, d.Range.To
		return
	}
	m.note = "there is nothing yet to look at at rest"
}

// zoom chooses a longer window, or a shorter one.
func (m *Model) zoom(by int) {
	windows := Windows()
	at := slices.IndexFunc(windows, func(d time.Duration) bool { return d >= m.request.Window })
	if at < 0 {
		at = len(windows) - 1
	}
	next := at + by
	if next < 0 || next >= len(windows) {
		m.note = "the window goes from " + windowName(windows[0]) + " to " + windowName(windows[len(windows)-1])
		return
	}
	m.request.Window = windows[next]
}
