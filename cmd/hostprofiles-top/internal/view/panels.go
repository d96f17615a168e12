package view

import (
	"slices"
	"strings"

	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/api"
	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/live"
	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/text"
)

// incomplete says how much of the selection has stacks that do not reach their root.
func incomplete(d *live.Data) (Style, text.Safe) {
	total := float64(d.Total)
	style := Normal
	if d.Incomplete*20 >= total && d.Incomplete > 0 {
		style = Warn
	}
	return style, "incomplete " + percent(d.Incomplete, total)
}

// message says why there is no list, and what is being waited for.
func (m *Model) message() []Line {
	var out []Line
	say := func(style Style, t text.Safe) {
		for _, line := range text.Wrap(t, max(m.width-4, 1)) {
			out = append(out, styledLine(style, "  "+line))
		}
	}
	d := m.shown()
	switch {
	case m.problem != nil && m.status == nil:
		say(Warn, m.sentence())
		say(Normal, "")
		for _, t := range Advice(m.kind()) {
			say(Normal, t)
		}
		say(Dim, "Asking again every "+duration(m.options.Interval)+".")
	case d == nil && m.problem == nil:
		say(Dim, "Asking "+m.options.Address+" ...")
	case d == nil:
		say(Warn, m.sentence())
	case d.Status.Window.To == 0 || len(*d.Status.Types) == 0:
		for i, t := range Waiting(m.status.Status) {
			say([]Style{Strong, Normal}[min(i, 1)], t)
		}
	default:
		m.nothing(d, say)
	}
	return out
}

// frameless is said of samples, but without functions: of 32-bit processes, and of those outside the collector's pid namespace.
const frameless = "None of these samples has a frame."

// nothing says why a selection is empty.
func (m *Model) nothing(d *live.Data, say func(Style, text.Safe)) {
	where := "in the last " + windowName(m.request.Window)
	if m.paused {
		where = "in the " + windowName(m.request.Window) + " before the pause"
	}
	switch {
	case len(m.stack) > 0:
		say(Strong, text.Cut(m.stack[len(m.stack)-1].name, m.width/2)+" has no samples "+where+".")
		say(Normal, "It may run again; Escape goes back.")
	case m.view == processesView && m.processName != "":
		say(Strong, "No process "+where+" has "+text.Clean(m.processName)+" in its name.")
		if m.ofThread(m.processName) {
			say(Normal, "A thread has: t chooses it. Scripts run in the process of their interpreter.")
		}
		say(Normal, "Escape drops the search.")
	case m.view == functionsView && m.request.Search != "":
		say(Strong, "No function "+where+" matches "+text.Clean(m.request.Search)+".")
		say(Normal, "Escape drops the search, + takes a longer window.")
	case m.view == functionsView && !d.Nothing(m.request):
		say(Strong, frameless)
		say(Normal, "i says why their stacks are incomplete.")
	case len(m.request.Filters) > 0:
		say(Strong, "No samples pass the filters "+where+".")
		say(Normal, "Escape drops the last filter, + takes a longer window.")
	default:
		say(Strong, "No samples "+where+".")
		say(Normal, "+ takes a longer window.")
	}
}

// ofThread tells whether a thread has what is searched for in its name.
func (m *Model) ofThread(part string) bool {
	return slices.ContainsFunc(live.Values(m.shown().Labels, live.KeyThread), func(v api.Value) bool {
		return strings.Contains(strings.ToLower(string(v.Shown)), strings.ToLower(part))
	})
}

// Advice says what to do about a kind of problem.
func Advice(k api.Kind) []text.Safe {
	switch k {
	case api.Nobody:
		return []text.Safe{
			"Start a collector with the flamegraph exporter on that machine: make run, or otelcol-hostprofiles with examples/run.yaml.",
			"If it has another address: hostprofiles-top -url http://HOST:PORT. If it is another machine: ssh -L 4041:127.0.0.1:4041 HOST first.",
		}
	case api.Stranger:
		return []text.Safe{"The flamegraph exporter listens at 127.0.0.1:4041 unless its endpoint says otherwise; -url says where to look."}
	}
	return nil
}

// Waiting says what is being waited for as long as there is nothing.
func Waiting(s *api.Status) []text.Safe {
	out := []text.Safe{"No profiles yet."}
	if s.Payloads.Refused > 0 {
		out = append(out, plural(s.Payloads.Refused, "payload was", "payloads were")+" refused; the last: "+s.Payloads.LastError.Safe)
	}
	if len(s.Receivers) == 0 {
		return append(out, "The server is there. No receiver of its collector tells how it is: either it has just started, or profiles "+
			"are to come over the network. Waiting for the first.")
	}
	for i := range s.Receivers {
		r := &s.Receivers[i]
		if r.Problem.Safe != "" {
			out = append(out, r.Name.Safe+": "+r.Problem.Safe)
			continue
		}
		waiting := r.Name.Safe + " has taken " + plural(r.Taken, "sample", "samples") + " of " + plural(r.Processes, "process", "processes") +
			". Waiting for its next report; they come every report_interval."
		if silence := millis(s.Now - r.Seen); r.Seen > 0 && silence > old {
			waiting += " It told this " + duration(silence) + " ago."
		}
		out = append(out, waiting)
	}
	return out
}

func helpLines() []Line {
	var out []Line
	for _, h := range [][2]text.Safe{
		{"arrows j k", "move; PageUp PageDown, g G for the ends"},
		{"Enter", "callers and callees of a function; functions of a process"},
		{"Escape", "back; in a list: drop the last filter"},
		{"1 2 Tab", "functions, processes"},
		{"P", "processes one by one (each pid), or all of a name as one"},
		{"/", "search functions: part of a name, file or library, or /re/"},
		{"p t", "only one process or pid; only one thread"},
		{"s", "sort by self, total, name (difference when comparing)"},
		{"c", "compare with the window before: DIFF"},
		{"+ -", "window: 10 s, 1 min, 5 min, 15 min"},
		{"space", "pause: time stands still, everything else works"},
		{"a", "code of unknown functions: each address, or one row a file"},
		{"T", "type of profiles, if there are several"},
		{"i", "health: losses by reason, incomplete stacks"},
		{"^L ^Z q ^C", "draw anew, suspend, quit"},
	} {
		l := Line{}
		l.add(Strong, "  "+text.Left(h[0], 12))
		l.add(Normal, h[1])
		out = append(out, l)
	}
	for _, t := range []text.Safe{
		"",
		"  CPUS: CPUs kept busy, by the function itself (by all it calls, too, when",
		"  sorted by total). SELF%, TOTAL%: shares of the samples that are selected.",
		"  PROCESS: where a function ran most, + how many others.",
	} {
		out = append(out, styledLine(Dim, t))
	}
	return out
}
