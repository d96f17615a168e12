package view

import (
	"cmp"
	"slices"
	"time"

	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/api"
	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/text"
	"github.com/hostprofiles/hostprofiles/internal/stopreason"
)

// losses says how many samples the receivers lost, of all they took since they started.
func losses(s *api.Status) (Style, text.Safe) {
	if len(s.Receivers) == 0 {
		return Dim, "losses unknown"
	}
	var taken, lost float64 // counts are what somebody sent, and their sum need not fit
	var worst text.Safe
	most := uint64(0)
	for i := range s.Receivers {
		r := &s.Receivers[i]
		taken += float64(r.Taken)
		for reason, n := range r.Lost {
			lost += float64(n)
			if n > most || n == most && n > 0 && reason.Safe < worst {
				most, worst = n, reason.Safe
			}
		}
	}
	if lost == 0 {
		return Normal, "lost 0"
	}
	style := Normal
	if lost*100 >= taken {
		style = Warn
	}
	share := percent(lost, taken)
	if share == "0.0%" {
		share = "<0.1%"
	}
	return style, "lost " + share + " (" + worst + ")"
}

// Troubles are what receivers say is wrong with them now.
func Troubles(s *api.Status) (out []text.Safe) {
	for i := range s.Receivers {
		if r := &s.Receivers[i]; r.Problem.Safe != "" {
			out = append(out, r.Name.Safe+": "+r.Problem.Safe)
		}
	}
	return out
}

// report is when a receiver told last how it is.
type report struct {
	seen     int64         // Unix ms, the server's
	interval time.Duration // since the one before; 0: not known
}

// heard notes the receivers' reports, from which one knows how often they come.
func (m *Model) heard(s *api.Status) {
	next := make(map[text.Safe]report, len(s.Receivers))
	for i := range s.Receivers {
		r := &s.Receivers[i]
		of := m.reports[r.Name.Safe]
		if of.seen > 0 && r.Seen > of.seen {
			of.interval = millis(r.Seen - of.seen)
		}
		of.seen = r.Seen
		next[r.Name.Safe] = of
	}
	m.reports = next
}

// silence is how long ago a receiver told how it is, if that is longer than it takes two reports to come; else 0.
func (m *Model) silence(r *api.Receiver) time.Duration {
	if r.Seen <= 0 { // it is not told
		return 0
	}
	ago := millis(m.status.Status.Now - r.Seen)
	if ago <= max(2*m.reports[r.Name.Safe].interval, old) {
		return 0
	}
	return ago
}

// lossesNow is losses with how long ago they were told, if that was long ago.
func (m *Model) lossesNow() (Style, text.Safe) {
	s := m.status.Status
	style, out := losses(s)
	longest := time.Duration(0)
	for i := range s.Receivers {
		longest = max(longest, m.silence(&s.Receivers[i]))
	}
	if longest > 0 {
		style, out = Warn, out+" told "+duration(longest)+" ago"
	}
	return style, out
}

// troubleRows is how many rows there are above the list for what is wrong with receivers: without data the place of the list has it.
func (m *Model) troubleRows() int {
	if m.status == nil || m.status.Status.Window.To == 0 || m.height < forTrouble || len(Troubles(m.status.Status)) == 0 {
		return 0
	}
	return 1
}

// forTrouble is the height from which on there is room for a row about receivers' troubles.
const forTrouble = 8

// troubleLine says what is wrong with receivers; the rest of it is on the health screen.
func (m *Model) troubleLine() Line {
	all := Troubles(m.status.Status)
	left, right := styledLine(Warn, all[0]), Line{}
	if len(all) > 1 {
		right.add(Warn, "+"+count(len(all)-1)+" ")
	}
	if m.overlay != healthOverlay {
		right.add(Dim, "i health")
	}
	return both(left, right, m.width)
}

// healthLines are what the server and the receivers say of themselves.
func (m *Model) healthLines() []Line {
	if m.status == nil {
		return []Line{{}, styledLine(Dim, "  no answer yet")}
	}
	s := m.status.Status
	var out []Line
	say := func(style Style, t text.Safe) {
		for _, line := range text.Wrap(t, m.width) {
			out = append(out, styledLine(style, line))
		}
	}
	detail := func(style Style, t text.Safe) {
		for _, line := range text.Wrap(t, max(m.width-2, 1)) {
			out = append(out, styledLine(style, "  "+line))
		}
	}
	say(Normal, "server "+m.options.Address+" version "+s.Version.Safe+": "+count(s.Payloads.Accepted)+" payloads accepted, "+
		count(s.Payloads.Refused)+" refused")
	if s.Payloads.LastError.Safe != "" {
		detail(Warn, "last refused: "+s.Payloads.LastError.Safe)
	}
	if n := s.Payloads.SkewedProfiles; n > 0 {
		detail(Warn, plural(n, "profile", "profiles")+" with times that cannot be true, the last "+skew(s.Payloads.SkewMs)+
			": shown at the time of arrival. Is a host's clock wrong?")
	}
	if s.Window.DroppedUntil > 0 {
		detail(Warn, "memory was short: samples older than "+ago(s.Now-s.Window.DroppedUntil)+" were dropped (memory_mib)")
	}
	if len(s.Receivers) == 0 {
		say(Dim, "no receiver in the server's collector tells how it is")
	}
	for i := range s.Receivers {
		r := &s.Receivers[i]
		say(Strong, r.Name.Safe+": "+count(r.Taken)+" taken, "+count(r.Delivered)+" delivered, "+count(r.KernelSkipped)+
			" skipped by the kernel")
		if r.Problem.Safe != "" {
			detail(Warn, r.Problem.Safe)
		}
		if silence := m.silence(r); silence > 0 {
			detail(Warn, "all this was "+duration(silence)+" ago; it has told nothing since")
		}
		detail(Normal, plural(r.Processes, "process", "processes")+", "+plural(r.Executables, "executable", "executables"))
		for _, reason := range sortedReasons(r.Lost) {
			detail(Warn, "lost "+count(r.Lost[reason])+": "+reason.Safe)
		}
	}
	return append(out, incompleteLines(s, m.width)...)
}

// incompleteLines are the reasons for which stacks are incomplete, and the processes that have them, those with most first.
func incompleteLines(s *api.Status, width int) (out []Line) {
	if len(s.Incomplete) == 0 {
		return nil
	}
	out = append(out, styledLine(Strong, "incomplete stacks, of all that is held (see docs/unwinding.md)"))
	out = append(out, reasonLines(s, width)...)
	row := func(share, samples, reason, pid, process text.Safe) {
		out = append(out, styledLine(Normal, text.Right(share, 8)+" "+text.Right(samples, 9)+"  "+text.Left(reason, 20)+" "+
			text.Left(pid, max(pidWidth, text.Width(pid)))+" "+process))
	}
	row("OF ITS", "SAMPLES", "REASON", "PID", "PROCESS")
	out[len(out)-1].Fill = Heading
	for i := range s.Incomplete {
		p := &s.Incomplete[i]
		row(percent(p.Samples, p.Of), count(p.Samples), p.Reason.Safe, p.PID.Safe, processName(p.Process.Safe))
	}
	if s.IncompleteMore > 0 {
		out = append(out, styledLine(Dim, "  +"+count(s.IncompleteMore)+" more, with fewer samples"))
	}
	return out
}

// reasonLines say of the reasons that occur how many stacks they ended, what they mean and what to do.
func reasonLines(s *api.Status, width int) (out []Line) {
	samples := map[text.Safe]float64{} // as somebody sent them: their sum need not fit an integer
	var reasons []stopreason.Reason
	for i := range s.Incomplete {
		p := &s.Incomplete[i]
		r, known := stopreason.Of(string(p.Reason.Safe))
		if _, seen := samples[p.Reason.Safe]; known && !seen {
			reasons = append(reasons, r)
		}
		samples[p.Reason.Safe] += float64(p.Samples)
	}
	slices.SortStableFunc(reasons, func(a, b stopreason.Reason) int {
		return cmp.Compare(samples[text.Safe(b.Name)], samples[text.Safe(a.Name)])
	})
	for _, r := range reasons {
		words := text.Clean(r.Name + ": " + r.Means + " (" + r.When + "). To do: " + r.Do)
		for i, line := range text.Wrap(words, max(width-4, 1)) {
			indent := text.Safe("  ")
			if i > 0 {
				indent = "    "
			}
			out = append(out, styledLine(Normal, indent+line))
		}
	}
	return out
}

// skew says by how much a time is wrong.
func skew(ms int64) text.Safe {
	if ms < 0 {
		return duration(-millis(ms)) + " too old"
	}
	return duration(millis(ms)) + " ahead"
}

func ago(ms int64) text.Safe { return duration(millis(ms)) + " ago" }

func sortedReasons(lost map[api.Name]uint64) []api.Name {
	var out []api.Name
	for reason, n := range lost {
		if n > 0 {
			out = append(out, reason)
		}
	}
	slices.SortFunc(out, func(a, b api.Name) int { return cmp.Or(cmp.Compare(lost[b], lost[a]), cmp.Compare(a.Safe, b.Safe)) })
	return out
}
