package view

import (
	"time"

	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/api"
	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/live"
	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/text"
)

// Heights of the parts around the list.
const (
	headRows   = 4 // with the heads of the columns
	detailRows = 2 // about the chosen row, if there is room
	roomy      = 14
	footRows   = 1
)

// View is the screen: as many lines as it is high, none wider than it is.
func (m *Model) View() []Line {
	lines := []Line{m.firstLine(), m.secondLine(), m.thirdLine()}
	if m.troubleRows() > 0 {
		lines = append(lines, m.troubleLine())
	}
	rows := m.bodyRows()
	var body []Line
	switch m.overlay {
	case helpOverlay:
		body = m.wholeBody(helpLines(), "KEYS", rows)
	case healthOverlay:
		body = m.wholeBody(m.healthLines(), "HEALTH", rows)
	case pickOverlay:
		body = append([]Line{m.pickTitle()}, m.pickLines(rows)...)
	default:
		body = m.body(rows)
	}
	lines = append(lines, body...)
	for len(lines) < m.height-m.detail()-footRows {
		lines = append(lines, Line{})
	}
	if m.detail() > 0 {
		lines = append(lines, m.detailLines()...)
	}
	lines = append(lines[:max(min(len(lines), m.height-footRows), 0)], m.footLine())
	for i := range lines {
		lines[i] = lines[i].cut(m.width)
	}
	return lines[:min(len(lines), m.height)]
}

// bodyRows is how many rows the list has.
func (m *Model) bodyRows() int { return max(m.height-headRows-m.troubleRows()-m.detail()-footRows, 1) }

func (m *Model) detail() int {
	if m.height < roomy || m.overlay == helpOverlay || m.overlay == healthOverlay || m.overlay == pickOverlay {
		return 0
	}
	return detailRows
}

// wholeBody is text instead of a list, of which there may be more than fits.
func (m *Model) wholeBody(lines []Line, title text.Safe, rows int) []Line {
	m.scrolled = max(min(m.scrolled, len(lines)-rows), 0)
	left, right := Line{Fill: Heading}, Line{}
	left.add(Heading, title)
	if len(lines) > rows {
		if below := len(lines) - m.scrolled - rows; below > 0 {
			right.add(Heading, "+"+count(below)+" more below: arrows  ")
		}
		right.add(Heading, count(m.scrolled+rows)+"/"+count(len(lines)))
	}
	return append([]Line{both(left, right, m.width)}, lines[m.scrolled:min(m.scrolled+rows, len(lines))]...)
}

// body is the heads of the columns and the rows that are in sight.
func (m *Model) body(rows int) []Line {
	d, items := m.shown(), m.items()
	if len(items) == 0 {
		return append([]Line{{}}, m.message()...)
	}
	c := m.columns(d)
	out := []Line{c.heads(m)}
	l := m.current()
	from := l.scroll(len(items), rows)
	for i := from; i < min(from+rows, len(items)); i++ {
		line := c.row(m, &items[i])
		if i == l.cursor {
			line.Fill = Selected
		}
		out = append(out, line)
	}
	return out
}

// firstLine says what is shown, of when, and how old it is.
func (m *Model) firstLine() Line {
	left := Line{}
	left.add(Strong, "hostprofiles-top ")
	left.add(Normal, m.options.Address)
	left.add(Dim, "  last ")
	left.add(Strong, windowName(m.request.Window))
	if d := m.shown(); d != nil && d.Range.To > 0 && d.Seconds < 0.95*m.request.Window.Seconds() && m.asked.Window == m.request.Window {
		left.add(Dim, " ("+duration(time.Duration(d.Seconds*float64(time.Second)))+" so far)")
	}
	right := Line{}
	if m.paused {
		right.add(Strong, "PAUSED  ")
	}
	switch {
	case m.problem != nil && m.status != nil && m.kind() != api.Rejected:
		right.add(Warn, "NO ANSWER for "+duration(m.now.Sub(m.since)))
	case m.problem != nil && m.kind() != api.Rejected:
		right.add(Warn, "NO ANSWER")
	case m.status == nil:
		right.add(Dim, "asking")
	case m.status.Status.Window.To == 0:
		right.add(Dim, "no data yet")
	default:
		style := Normal
		if m.age() > old {
			style = Warn
		}
		right.add(style, "data "+duration(m.age())+" old")
	}
	return both(left, right, m.width)
}

// old is the age at which data is no picture of now.
const old = 30 * time.Second

// secondLine sums the selection up. What matters less is left out if there is no room.
func (m *Model) secondLine() Line {
	out := Line{}
	add := func(style Style, t text.Safe) {
		if gap := 2 * min(len(out.Spans), 1); out.width()+gap+text.Width(t) <= m.width {
			if gap > 0 {
				out.add(Normal, "  ")
			}
			out.add(style, t)
		}
	}
	d := m.shown()
	if d == nil || d.Range.To == 0 {
		return out
	}
	meter := meterOf(d)
	_, cpu := meter.scale()
	if cpu {
		add(Strong, meter.rate(d.Total)+" CPUs")
	} else {
		add(Strong, d.Type.SampleType.Safe+" "+meter.rate(d.Total)+" "+meter.unit())
	}
	add(Normal, "kernel "+percent(d.Kernel, d.Total))
	if d.Type.SampleUnit.Safe == "count" {
		add(Normal, plural(d.Total, "sample", "samples"))
	}
	add(m.lossesNow())
	add(incomplete(d))
	if n := len(live.Values(d.Labels, live.KeyProcess)) + live.More(d.Labels, live.KeyProcess); n > 0 && !m.filtered(live.KeyProcess) {
		add(Normal, plural(n, "process", "processes"))
	}
	return out
}

// thirdLine says what is listed and how, what is filtered, and where the cursor is.
func (m *Model) thirdLine() Line {
	left := Line{}
	switch {
	case len(m.stack) > 0:
		left.add(Strong, "AROUND ")
		left.add(Normal, text.Name(m.stack[len(m.stack)-1].name, max(m.width/2, 10)))
	case m.view == processesView:
		left.add(Strong, "PROCESSES")
		left.add(Dim, " by "+text.Safe(m.processOrder))
		if m.request.ByPID {
			left.add(Dim, ", one by one")
		}
	default:
		left.add(Strong, "FUNCTIONS")
		left.add(Dim, " by "+text.Safe(m.request.Order))
	}
	for _, f := range m.request.Filters {
		left.add(Dim, "  "+filterName(f.Key)+" ")
		left.add(Strong, text.Cut(m.filterValue(f), 20))
	}
	if s := *m.searched(); s != "" && len(m.stack) == 0 {
		left.add(Dim, "  search ")
		left.add(Strong, text.Cut(text.Clean(s), 20))
		if d := m.main; d != nil && m.view == functionsView && m.asked.Search == s && !m.asking && m.problem == nil {
			left.add(Dim, " on "+percent(d.Matching, d.Total)+" of stacks")
		}
	}
	if m.request.Compare {
		left.add(Dim, "  "+m.comparison())
	}
	right := Line{}
	if d := m.around; len(m.stack) > 0 && d != nil && d.Around != nil {
		right.add(Dim, "self "+percent(d.Around.Self, d.Total)+"  total "+percent(d.Around.Total, d.Total))
	}
	if items := m.items(); len(items) > 0 && len(m.stack) == 0 && m.overlay == noOverlay {
		right.add(Dim, count(m.current().cursor+1)+"/"+count(len(items)))
		more := m.main.More
		if m.view == processesView {
			more = m.main.MoreProcesses
		}
		if more > 0 {
			right.add(Dim, "+"+count(more))
		}
	}
	return both(left, right, m.width)
}

// filterValue is what is filtered by, of a pid with its executable's name if that is known.
func (m *Model) filterValue(f api.Filter) text.Safe {
	if d := m.shown(); d != nil {
		for _, v := range live.Values(d.Labels, f.Key) {
			if v.Raw == f.Value {
				return withHint(v)
			}
		}
	}
	return text.Clean(f.Value)
}

func filterName(key string) text.Safe {
	switch key {
	case live.KeyProcess:
		return "process"
	case live.KeyPID:
		return "pid"
	case live.KeyThread:
		return "thread"
	}
	return text.Clean(key)
}

// comparison says with what the window is compared.
func (m *Model) comparison() text.Safe {
	d := m.shown()
	switch {
	case d == nil || m.asked.Compare != m.request.Compare:
		return "comparing"
	case !d.Compared:
		return "nothing before to compare with yet"
	case d.Base < 0.95*m.request.Window.Seconds():
		return "vs the " + duration(time.Duration(d.Base*float64(time.Second))) + " before"
	}
	return "vs the " + windowName(m.request.Window) + " before"
}

// detailLines are about the chosen row: what did not fit.
func (m *Model) detailLines() []Line {
	first, second := Line{}, Line{}
	i, ok := m.chosen()
	switch {
	case !ok || m.shown() == nil:
	case i.function != nil:
		first.add(Strong, text.Cut(i.function.Name, m.width))
		second.add(Dim, whereabouts(&i.function.Function))
		second = both(second, sharesLine(i.function), m.width)
	case i.neighbour != nil:
		first.add(Strong, text.Cut(live.DisplayName(&i.neighbour.Function), m.width))
		second.add(Dim, whereabouts(&i.neighbour.Function))
	case i.self:
		f := &m.around.Around.Function
		first.add(Strong, text.Cut(f.Name, m.width))
		second.add(Dim, whereabouts(f))
	case i.process != nil:
		first.add(Strong, text.Cut(processTitle(i.process, 0), m.width))
		if i.process.Hottest != "" {
			second.add(Dim, "hottest: "+i.process.Hottest+" "+percent(i.process.HottestSelf, i.process.Total)+" of it")
		}
	}
	return []Line{first, second}
}

// whereabouts is a function's place and what it was loaded from.
func whereabouts(f *api.Function) text.Safe {
	out := place(f)
	if f.File != "" && f.Mapping != "" {
		out += " (" + base(f.Mapping) + ")"
	}
	return out
}

// sharesLine names the processes that a function ran in.
func sharesLine(f *live.Function) Line {
	l := Line{}
	sum := int64(0)
	for _, s := range f.Processes {
		sum += s.Value
	}
	for i, s := range f.Processes {
		if i == 3 {
			l.add(Dim, " +"+count(len(f.Processes)-i))
			break
		}
		if i > 0 {
			l.add(Dim, ", ")
		}
		l.add(Normal, text.Cut(processName(s.Name), 16))
		if len(f.Processes) > 1 {
			l.add(Dim, " "+percent(s.Value, sum))
		}
	}
	return l
}

// processName is what a process is called; some have no name.
func processName(name text.Safe) text.Safe {
	if name == "" {
		return "(no process)"
	}
	return name
}

// processTitle is what a row of the list of processes is called; a pid takes at least width columns.
func processTitle(p *live.Process, width int) text.Safe {
	switch {
	case p.PID == "":
		return processName(p.Name)
	case p.Name == "":
		return p.PID
	}
	return text.Left(p.PID, max(width, text.Width(p.PID))) + " " + p.Name
}

// footLine says what can be done, or what is wrong.
func (m *Model) footLine() Line {
	switch {
	case m.overlay == promptOverlay:
		return m.promptLine()
	case m.problem != nil && m.status != nil:
		return styledLine(Warn, m.sentence())
	case m.note != "":
		return styledLine(Warn, m.note)
	case m.overlay == pickOverlay:
		return hints("type", "narrow", "Enter", "choose", "Escape", "back")
	case m.overlay != noOverlay:
		return hints("arrows", "move", "any other key", "back", "q", "quit")
	case len(m.stack) > 0:
		return hints("Escape", "back", "Enter", "go there", "c", "diff", "+-", "window", "space", "pause", "?", "help", "q", "quit")
	case m.view == processesView:
		by := text.Safe("by pid")
		if m.request.ByPID {
			by = "by name"
		}
		return hints("Enter", "its functions", "1", "all functions", "P", by, "/", "find", "s", "sort", "c", "diff", "?", "help", "q", "quit")
	}
	return hints("Enter", "callers", "/", "find", "p", "process", "t", "thread", "2", "processes", "s", "sort", "c", "diff", "?", "help", "q", "quit")
}

func hints(keys ...text.Safe) Line {
	l := Line{}
	for i := 0; i+1 < len(keys); i += 2 {
		if i > 0 {
			l.add(Dim, " ")
		}
		l.add(Strong, keys[i])
		l.add(Dim, " "+keys[i+1])
	}
	return l
}
