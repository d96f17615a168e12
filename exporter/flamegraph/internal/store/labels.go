package store

import (
	"cmp"
	"slices"
	"strings"
)

// Label is an attribute's key with the values by which a selection can be narrowed, biggest first.
type Label struct {
	Key    string
	Values []LabelValue
	More   int // values that were left out
}

// LabelValue is one value of a key.
type LabelValue struct {
	Value string
	Total int64
	// Hint says what the value stands for: of a pid the name of its executable. Empty if that is not known, or not one.
	Hint string
}

// Labels lists what the selection can be filtered by, with at most limit values a key. A key's own filters do not apply to
// its values, so that another one can be chosen.
func (s *Snapshot) Labels(sel Selection, limit int) []Label {
	totals := s.labelTotals(sel, "")
	done := map[string]bool{}
	for _, f := range sel.Filters {
		if done[f.Key] {
			continue
		}
		done[f.Key] = true
		others := sel
		others.Filters = slices.DeleteFunc(slices.Clone(sel.Filters), func(g Filter) bool { return g.Key == f.Key })
		if only := s.labelTotals(others, f.Key); only[f.Key] != nil {
			totals[f.Key] = only[f.Key]
		}
	}
	out := make([]Label, 0, len(totals))
	for key, values := range totals {
		l := Label{Key: key, Values: make([]LabelValue, 0, len(values))}
		for v, total := range values {
			l.Values = append(l.Values, LabelValue{Value: v, Total: total})
		}
		slices.SortFunc(l.Values, func(a, b LabelValue) int {
			return cmp.Or(cmp.Compare(b.Total, a.Total), strings.Compare(a.Value, b.Value))
		})
		if len(l.Values) > limit {
			l.More = len(l.Values) - limit
			l.Values = l.Values[:limit:limit]
		}
		if key == pidKey {
			hints := s.executables()
			for i := range l.Values {
				l.Values[i].Hint = hints[l.Values[i].Value]
			}
		}
		out = append(out, l)
	}
	slices.SortFunc(out, func(a, b Label) int { return strings.Compare(a.Key, b.Key) })
	return out
}

// Attributes of processes (OpenTelemetry semantic conventions 1.44).
const (
	pidKey        = "process.pid"
	executableKey = "process.executable.name"
)

// executables names the executable of each pid that has one name.
func (s *Snapshot) executables() map[string]string {
	out := map[string]string{}
	for i := range s.series {
		pid, ok := s.attribute(&s.series[i], pidKey)
		if !ok {
			continue
		}
		v, _ := s.attribute(&s.series[i], executableKey)
		name, text := s.strings[v.text], s.strings[pid.text]
		if have, known := out[text]; known && have != name {
			name = "" // several hosts have one of that number, or it has executed another file
		}
		out[text] = name
	}
	return out
}

// labelTotals sums the selection up by key and value: of all keys, or one.
func (s *Snapshot) labelTotals(sel Selection, only string) map[string]map[string]int64 {
	out := map[string]map[string]int64{}
	w, ok := s.work(sel)
	if !ok {
		return out
	}
	bySeries := make([]int64, len(s.series))
	byType := map[uint32]int64{}
	w.rows(func(g *segment, i int, value int64) {
		bySeries[g.series[i]] = saturatingAdd(bySeries[g.series[i]], value)
		leaf := s.frameTypes[s.nodes[g.node[i]].location]
		byType[leaf] = saturatingAdd(byType[leaf], value)
	})
	add := func(key, value string, total int64) {
		if only != "" && key != only {
			return
		}
		if out[key] == nil {
			out[key] = map[string]int64{}
		}
		out[key][value] = saturatingAdd(out[key][value], total)
	}
	for i, total := range bySeries {
		if total != 0 {
			s.keys(&s.series[i], func(key, text uint32) { add(s.strings[key], s.strings[text], total) })
		}
	}
	for t, total := range byType {
		if s.strings[t] != "" {
			add(FrameType, s.strings[t], total)
		}
	}
	return out
}

// Incomplete says how many samples of a process have no complete stack, and why.
type Incomplete struct {
	Process, PID, Reason string
	Samples, Of          int
}

// Incomplete lists processes with incomplete stacks, those with most first, and counts those beyond the limit.
func (s *Snapshot) Incomplete(limit int) (list []Incomplete, more int) {
	type process struct{ name, pid string }
	type broken struct {
		process
		reason string
	}
	bySeries := make([]int, len(s.series))
	for _, g := range s.segments {
		for _, i := range g.series {
			bySeries[i]++
		}
	}
	all, incomplete := map[process]int{}, map[broken]int{}
	stops := s.stops()
	for i, n := range bySeries {
		if n == 0 {
			continue
		}
		of := &s.series[i]
		p := process{s.first(of, "process.executable.name", "service.name", "process.executable.path", "thread.name"), s.first(of, "process.pid")}
		all[p] += n
		if reason := stops(of); reason != 0 {
			incomplete[broken{p, s.strings[reason]}] += n
		}
	}
	out := make([]Incomplete, 0, len(incomplete))
	for b, n := range incomplete {
		out = append(out, Incomplete{b.name, b.pid, b.reason, n, all[b.process]})
	}
	slices.SortFunc(out, func(a, b Incomplete) int {
		return cmp.Or(cmp.Compare(b.Samples, a.Samples), strings.Compare(a.Process, b.Process), strings.Compare(a.PID, b.PID),
			strings.Compare(a.Reason, b.Reason))
	})
	n := min(len(out), limit)
	return out[:n], len(out) - n
}

// first is what the first of the attributes that a series has reads.
func (s *Snapshot) first(of *series, keys ...string) string {
	for _, key := range keys {
		if v, ok := s.attribute(of, key); ok {
			return s.strings[v.text]
		}
	}
	return ""
}
