package store

import (
	"cmp"
	"math"
	"slices"
)

// FrameType is the key of filters on the type of the innermost frame.
const FrameType = "frame_type"

// Filter is a condition on an attribute.
type Filter struct {
	Key, Value string
	Not        bool
}

// Selection says which samples are looked at.
type Selection struct {
	Type     string   // as TypeInfo.ID; empty: the first
	From, To int64    // Unix ms, From inclusive, To exclusive; 0: no bound
	Filters  []Filter // values of one key are alternatives (not: none of them), keys have to hold together
}

// TypeInfo is a profile type.
type TypeInfo struct {
	ID                                             string
	SampleType, SampleUnit, PeriodType, PeriodUnit string
	// Period is that of all samples. Where hosts sample at different periods, values are sums of periods: SampleUnit is
	// PeriodUnit then, and Period is 1.
	Period  int64
	Samples int
	mixed   bool
}

func (s *Snapshot) typeInfo(t profileType) TypeInfo {
	i := TypeInfo{SampleType: s.strings[t.sampleType], SampleUnit: s.strings[t.sampleUnit], PeriodType: s.strings[t.periodType],
		PeriodUnit: s.strings[t.periodUnit], Period: t.period}
	i.ID = i.SampleType + ":" + i.SampleUnit + ":" + i.PeriodType + ":" + i.PeriodUnit
	return i
}

// Types are the profile types that samples have, those of running threads first.
func (s *Snapshot) Types() []TypeInfo {
	count := make([]int, len(s.types))
	for _, g := range s.segments {
		for _, i := range g.series {
			count[s.series[i].profileType]++
		}
	}
	byID := map[string]*TypeInfo{}
	for i, n := range count {
		if n == 0 {
			continue
		}
		info := s.typeInfo(s.types[i])
		have, ok := byID[info.ID]
		if !ok {
			have = &info
			byID[info.ID] = have
		}
		have.Samples += n
		switch {
		case info.Period <= 0 || info.Period == have.Period:
		case have.Period <= 0:
			have.Period = info.Period
		default:
			have.mixed = true
		}
	}
	out := make([]TypeInfo, 0, len(byID))
	for _, t := range byID {
		if t.mixed && t.SampleUnit != t.PeriodUnit { // else values are sums of periods already
			t.SampleUnit, t.Period = t.PeriodUnit, 1
		} else {
			t.mixed = false
		}
		out = append(out, *t)
	}
	slices.SortFunc(out, func(a, b TypeInfo) int {
		return cmp.Or(cmp.Compare(cpuLast(a), cpuLast(b)), cmp.Compare(b.Samples, a.Samples), cmp.Compare(a.ID, b.ID))
	})
	return out
}

func cpuLast(t TypeInfo) int {
	if t.PeriodType == "cpu" || t.SampleType == "cpu" {
		return 0
	}
	return 1
}

// selected is a selection, worked out for a snapshot.
type selected struct {
	s        *Snapshot
	info     TypeInfo
	from, to int64   // Unix µs
	weight   []int64 // of a value, by profile type: 0 not selected
	series   []bool
	leaf     map[uint32]bool // by string of the innermost frame's type; nil: any
	leafNot  map[uint32]bool
}

// work finds out what a selection means. ok is false if there is no such profile type.
func (s *Snapshot) work(sel Selection) (w selected, ok bool) {
	w = selected{s: s, from: math.MinInt64, to: math.MaxInt64, weight: make([]int64, len(s.types))}
	for _, t := range s.Types() {
		if sel.Type == "" || sel.Type == t.ID {
			w.info, ok = t, true
			break
		}
	}
	if !ok {
		return w, false
	}
	for i, t := range s.types {
		if s.typeInfo(t).ID != w.info.ID {
			continue
		}
		w.weight[i] = 1
		if w.info.mixed {
			w.weight[i] = max(t.period, 1)
		}
	}
	if sel.From != 0 {
		w.from = sel.From * 1000
	}
	if sel.To != 0 {
		w.to = sel.To * 1000
	}
	w.filter(sel.Filters)
	return w, true
}

// filter finds the series and frame types that pass.
func (w *selected) filter(filters []Filter) {
	byKey := map[string][]Filter{}
	for _, f := range filters {
		byKey[f.Key] = append(byKey[f.Key], f)
	}
	for _, f := range byKey[FrameType] {
		i := slices.Index(w.s.strings, f.Value)
		set := &w.leaf
		if f.Not {
			set = &w.leafNot
		}
		if *set == nil {
			*set = map[uint32]bool{}
		}
		if i >= 0 {
			(*set)[uint32(i)] = true
		}
	}
	delete(byKey, FrameType)
	w.series = make([]bool, len(w.s.series))
	for i := range w.s.series {
		w.series[i] = w.weight[w.s.series[i].profileType] != 0 && w.s.passes(&w.s.series[i], byKey)
	}
}

// passes tells whether a series meets all conditions.
func (s *Snapshot) passes(of *series, byKey map[string][]Filter) bool {
	for key, filters := range byKey {
		v, _ := s.attribute(of, key)
		text := s.strings[v.text]
		wanted, found := false, false
		for _, f := range filters {
			if f.Not {
				if text == f.Value {
					return false
				}
				continue
			}
			wanted = true
			found = found || text == f.Value
		}
		if wanted && !found {
			return false
		}
	}
	return true
}

// rows calls fn with every row that is selected. value is in the unit of w.info; what is below 0 is not part of any whole.
func (w *selected) rows(fn func(g *segment, i int, value int64)) {
	leaves := w.leaf != nil || w.leafNot != nil
	for k := range w.s.segments {
		g := &w.s.segments[k]
		if g.to <= w.from || g.from >= w.to {
			continue
		}
		whole := g.from >= w.from && g.to <= w.to
		for i, series := range g.series {
			if !w.series[series] {
				continue
			}
			if at := g.base + int64(g.at[i]); !whole && (at < w.from || at >= w.to) {
				continue
			}
			if leaves && !w.passesLeaf(g.node[i]) {
				continue
			}
			fn(g, i, saturatingMul(max(g.value[i], 0), w.weight[w.s.series[series].profileType]))
		}
	}
}

func (w *selected) passesLeaf(node uint32) bool {
	t := w.s.frameTypes[w.s.nodes[node].location]
	return (w.leaf == nil || w.leaf[t]) && !w.leafNot[t]
}
