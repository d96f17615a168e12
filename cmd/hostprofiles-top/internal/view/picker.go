package view

import (
	"slices"
	"strings"

	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/api"
	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/live"
	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/text"
)

// picker is a list to choose one of: values of attributes, or profile types. Typing narrows it.
type picker struct {
	title text.Safe
	keys  []string // attributes; none: profile types
	typed string
	list  list
}

// choice is a row of a picker.
type choice struct {
	key, value string // the filter; an empty key is for all
	shown      text.Safe
	total      int64
	all        bool
	unlisted   text.Safe // why total is not known; empty: it is
}

func (m *Model) startPick(what, title text.Safe, keys ...string) {
	d := m.shown()
	if d == nil || len(live.Values(d.Labels, keys[0])) == 0 && !m.filtered(keys...) {
		m.note = "no samples tell their " + what
		return
	}
	m.overlay, m.pick = pickOverlay, picker{title: title, keys: keys}
}

func (m *Model) startTypes() {
	if m.status == nil || len(*m.status.Status.Types) < 2 {
		m.note = "there is one type of profiles only"
		return
	}
	m.overlay, m.pick = pickOverlay, picker{title: "Choose a type of profiles"}
}

func (m *Model) filtered(keys ...string) bool {
	for _, f := range m.request.Filters {
		for _, k := range keys {
			if f.Key == k {
				return true
			}
		}
	}
	return false
}

// choices are the rows that are left by what is typed.
func (m *Model) choices() []choice {
	var out []choice
	typed := strings.ToLower(m.pick.typed)
	add := func(c choice) {
		if c.all && typed == "" || !c.all && strings.Contains(strings.ToLower(string(c.shown)), typed) {
			out = append(out, c)
		}
	}
	if len(m.pick.keys) == 0 {
		for _, t := range *m.status.Status.Types {
			add(choice{value: t.ID, shown: t.SampleType.Safe + " " + t.SampleUnit.Safe + " of " + t.PeriodType.Safe})
		}
		return out
	}
	add(choice{shown: "(all)", all: true})
	d := m.shown()
	if d == nil {
		return out
	}
	for i, key := range m.pick.keys {
		for _, v := range live.Values(d.Labels, key) {
			c := choice{key: key, value: v.Raw, shown: withHint(v), total: v.Total}
			if i > 0 {
				c.shown = pidPrefix + c.shown
			}
			add(c)
		}
	}
	if len(out) == 0 && m.pick.keys[0] == live.KeyProcess {
		out = m.threadChoices(d.Labels)
	}
	return append(out, m.typedChoices(d.Labels)...)
}

// threadChoices are threads of the name that is typed, offered where no process has it: a script is a thread's name, and runs in
// the process of its interpreter.
func (m *Model) threadChoices(labels []api.Label) (out []choice) {
	typed := strings.ToLower(m.pick.typed)
	for _, v := range live.Values(labels, live.KeyThread) {
		if strings.Contains(strings.ToLower(string(v.Shown)), typed) {
			out = append(out, choice{key: live.KeyThread, value: v.Raw, shown: threadPrefix + v.Shown, total: v.Total})
		}
	}
	return out
}

// anyThread is a thread of the name that is typed, which may be there though it is not listed: not all are, and of those of
// processes that do not pass the filters nobody knows here.
func (m *Model) anyThread(labels []api.Label) []choice {
	typed := m.pick.typed
	if m.pick.keys[0] != live.KeyProcess || typed == "" || isNumber(typed) || len(m.threadChoices(labels)) > 0 ||
		!m.filtered(m.pick.keys...) && live.More(labels, live.KeyThread) == 0 {
		return nil
	}
	return []choice{{key: live.KeyThread, value: typed, shown: threadPrefix + text.Clean(typed), unlisted: notListed}}
}

func isNumber(s string) bool { return strings.Trim(s, "0123456789") == "" }

// threadPrefix tells threads from processes.
const threadPrefix = "thread "

// withHint is a value and what it stands for: a pid and its executable's name.
func withHint(v api.Value) text.Safe {
	if v.Hint == "" {
		return v.Shown
	}
	return v.Shown + " " + v.Hint
}

// pidPrefix tells pids from names.
const pidPrefix = "pid "

// notListed stands beside what may have samples.
const notListed = "not listed"

// typedChoices are what is typed, as it is: a pid or a name that is not listed since others are larger, or since nothing of it ran.
func (m *Model) typedChoices(labels []api.Label) (out []choice) {
	unknown := func(key string) bool { // the server does not tell all values, or tells them for the filters that would be dropped
		return live.More(labels, key) > 0 || slices.ContainsFunc(m.pick.keys, func(k string) bool { return k != key && m.filtered(k) })
	}
	listed := func(key, value string) bool {
		return slices.ContainsFunc(live.Values(labels, key), func(v api.Value) bool { return v.Raw == value })
	}
	add := func(key, value string, shown text.Safe) {
		if value == "" || listed(key, value) {
			return
		}
		why := text.Safe("no samples")
		if unknown(key) {
			why = notListed
		}
		out = append(out, choice{key: key, value: value, shown: shown, unlisted: why})
	}
	typed := m.pick.typed
	for _, key := range m.pick.keys[1:] {
		if pid := strings.TrimPrefix(typed, pidPrefix); isNumber(pid) {
			add(key, pid, pidPrefix+text.Clean(pid))
		}
	}
	add(m.pick.keys[0], typed, text.Clean(typed))
	threads := m.anyThread(labels)
	if unknown(m.pick.keys[0]) || listed(m.pick.keys[0], typed) {
		return append(out, threads...)
	}
	return append(threads, out...) // there is surely no such process
}

func (m *Model) pickKey(k Key) {
	p := &m.pick
	choices := m.choices()
	page := max(m.bodyRows()-1, 1)
	switch k.Code {
	case Escape:
		m.overlay = noOverlay
	case Enter:
		m.overlay = noOverlay
		if p.list.cursor < len(choices) {
			m.choose(choices[p.list.cursor])
		} else {
			m.note = "nothing has that in its name"
		}
	case ArrowUp:
		p.list.cursor--
	case ArrowDown, Tab:
		p.list.cursor++
	case PageUp:
		p.list.cursor -= page
	case PageDown:
		p.list.cursor += page
	case Home:
		p.list.cursor = 0
	case End:
		p.list.cursor = len(choices) - 1
	default:
		if typed := edit(p.typed, k); typed != p.typed {
			p.typed, p.list = typed, list{}
		}
	}
	p.list.cursor = max(min(p.list.cursor, len(m.choices())-1), 0)
}

// choose sets the filter, or the type, that was chosen.
func (m *Model) choose(c choice) {
	if len(m.pick.keys) == 0 {
		m.request.Type, m.main, m.around, m.mainKnown = c.value, nil, nil, live.Generation{}
		m.stack = nil
		return
	}
	for _, key := range m.pick.keys {
		m.dropFilter(key)
	}
	if !c.all {
		m.setFilter(c.key, c.value)
	}
	l := m.current()
	l.cursor, l.key = 0, ""
}

// pickTitle has what is typed, and how many there are beside those that are listed.
func (m *Model) pickTitle() Line {
	left, right := Line{Fill: Heading}, Line{}
	left.add(Heading, m.pick.title+": "+text.Clean(m.pick.typed))
	left.add(Selected, " ")
	if d := m.shown(); d != nil && len(m.pick.keys) > 0 {
		if n := live.More(d.Labels, m.pick.keys[0]); n > 0 {
			right.add(Heading, "+"+count(n)+" more: type the name")
		}
	}
	return both(left, right, m.width)
}

func (m *Model) pickLines(rows int) []Line {
	p := &m.pick
	choices := m.choices()
	from := p.list.scroll(len(choices), rows)
	total := int64(0)
	if d := m.shown(); d != nil && len(p.keys) > 0 {
		for _, v := range live.Values(d.Labels, p.keys[0]) {
			total += v.Total
		}
		total = max(total, d.Total) // which has those that are not listed, too
	}
	var out []Line
	for i := from; i < min(from+rows, len(choices)); i++ {
		c := choices[i]
		var l Line
		switch {
		case len(p.keys) == 0:
			l.add(Normal, "  ")
		case c.all:
			l.add(Dim, text.Spaces(17))
		case c.unlisted != "":
			l.add(Dim, text.Right(c.unlisted, 15)+"  ")
		default:
			l.add(Normal, text.Right(percent(c.total, total), 7)+text.Right(meterOf(m.shown()).rate(c.total), 8)+"  ")
		}
		l.add(Normal, c.shown)
		if i == p.list.cursor {
			l.Fill = Selected
		}
		out = append(out, l)
	}
	if len(choices) == 0 {
		out = append(out, styledLine(Dim, "  nothing has that in its name"))
	}
	return out
}
