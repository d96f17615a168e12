package store

import (
	"errors"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/hostprofiles/hostprofiles/internal/profile/conformance"
)

// FuzzAdd: payloads are understood or refused, the budget is kept, and all views of what was understood can be made.
func FuzzAdd(f *testing.F) {
	seed := func(p *payload) {
		b, err := new(pprofile.ProtoMarshaler).MarshalProfiles(p.Profiles)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	seed(twoProcesses())
	p := newPayload()
	s := p.sample(p.process("x", 1), "a b<c +d", "t", 1, 2)
	s.Values().FromRaw([]int64{-5, 1 << 62})
	seed(p)
	seed(newPayload())
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := new(pprofile.ProtoUnmarshaler).UnmarshalProfiles(b)
		if err != nil {
			return
		}
		conforms := (conformance.Checker{AnyResource: true}).Check(p) == nil
		s := New(Options{Window: time.Minute, Bytes: 4 << 20})
		for range 2 {
			if _, err := s.Add(p, epoch); err != nil && !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrTooLarge) {
				t.Fatal(err)
			}
		}
		snapshot := s.Snapshot(epoch)
		if w := snapshot.Window(); w.Bytes > w.Budget {
			t.Fatalf("%+v", w)
		}
		viewAll(t, snapshot, conforms)
		s.compact()
		viewAll(t, s.Snapshot(epoch), conforms)
	})
}

// viewAll makes everything that can be made of a snapshot. conforms tells that what went into it keeps all rules.
func viewAll(t *testing.T, s *Snapshot, conforms bool) {
	s.Labels(Selection{Filters: []Filter{{Key: FrameType, Value: "native", Not: true}}}, 3)
	s.Incomplete(3)
	s.Heatmap(Selection{}, 7, 3)
	for _, info := range s.Types() {
		tree, ok := s.Tree(Query{Selection: Selection{Type: info.ID}, Base: &Selection{}, Group: "process.pid", Lines: true})
		if !ok {
			t.Fatal("no tree of a type that is there")
		}
		total, _ := tree.Totals()
		for _, f := range tree.Functions(nil) {
			if f.Self < 0 || f.Self > f.Total || f.Total > total {
				t.Fatalf("%+v of %d", f, total)
			}
			if callers, ok := tree.Callers(f.Key, 10_000, 1<<30); !ok || callers.total[0] > total {
				t.Fatalf("callers of %+v", f)
			}
			tree.Callees(f.Key, 1<<30)
		}
		for _, limit := range []int{1, 3, 0} {
			f, ok := tree.Flame(View{MaxNodes: limit})
			if !ok || limit > 0 && len(f.ID) > limit {
				t.Fatalf("%d nodes of %d", len(f.ID), limit)
			}
			for i := range f.ID {
				if p := f.Parent[i]; p >= int32(i) || i > 0 && f.Sum[i] > f.Sum[p] {
					t.Fatalf("node %d below %d: %d of %d", i, p, f.Sum[i], f.Sum[max(p, 0)])
				}
			}
		}
		out, ok := s.Export(Export{Selection: Selection{Type: info.ID}})
		if !ok {
			t.Fatal("no export of a type that is there")
		}
		if _, err := New(Options{Window: time.Minute, Bytes: 64 << 20}).Add(out, epoch); err != nil {
			t.Fatal(err)
		}
		if conforms {
			if err := (conformance.Checker{AnyResource: true}).Check(out); err != nil {
				t.Fatalf("what conformed does no longer: %v", err)
			}
		}
	}
}
