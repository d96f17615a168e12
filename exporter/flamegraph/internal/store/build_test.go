package store

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pprofile"
)

// deepBelowMany is a function that many others call, which one deep stack calls.
func deepBelowMany(n, depth int) *payload {
	p := newPayload()
	pr := p.process("web", 1)
	var deep []string
	for i := range depth {
		deep = append(deep, fmt.Sprint("d", i%50))
	}
	base := strings.Join(deep, " ")
	for i := range n {
		p.sample(pr, fmt.Sprintf("%s c%d malloc", base, i), "", i%900)
	}
	p.sample(pr, base+" c7 malloc", "", 1, 2, 3)
	return p
}

func TestCallersAreBounded(t *testing.T) {
	s := testStore(t, deepBelowMany(2000, 500)).Snapshot(epoch)
	tree, _ := s.Tree(Query{})
	var key string
	for _, f := range tree.Functions(nil) {
		if f.Name == "malloc" {
			key = f.Key
		}
	}
	const limit = 5000
	callers, ok := tree.Callers(key, limit, 1<<30)
	if !ok || callers.Len() > 2*limit || callers.Len() < limit {
		t.Fatalf("%d nodes", callers.Len())
	}
	f, _ := callers.Flame(View{})
	if f.Total != 2003 || f.Pruned.Self < 1000 || f.Pruned.Nodes == 0 {
		t.Errorf("%d samples, %+v", f.Total, f.Pruned)
	}
	// The largest caller is there to the end, and its part adds up.
	depth := make([]int, len(f.ID))
	complete := false
	for i := 1; i < len(f.ID); i++ {
		depth[i] = depth[f.Parent[i]] + 1
		complete = complete || depth[i] == 502 && f.Sum[i] == 4 && f.Self[i] == 4
	}
	if !complete {
		t.Error("the largest caller is not there to its end")
	}
	// Without a limit in the way it is the whole of it.
	all, _ := tree.Callers(key, 1<<30, 1<<30)
	if want := 1 + 1 + 2000*501; all.Len() != want || all.total[0] != 2003 || all.missing != nil {
		t.Errorf("%d nodes, want %d; %d samples", all.Len(), want, all.total[0])
	}
}

// treeOf makes a tree of at most so many nodes.
func treeOf(s *Snapshot, q Query, nodes int) *Tree {
	b, leaves, _ := s.builder(q, 1<<30)
	b.limit = nodes
	b.build(leaves)
	return b.t
}

func TestTreesAreBounded(t *testing.T) {
	p := newPayload()
	for i := range 400 {
		pr := p.process("web", int64(i))
		var names []string
		for d := range 100 {
			names = append(names, fmt.Sprint("f", d))
		}
		p.sample(pr, strings.Join(names, " "), "", make([]int, 1+i)...)
	}
	s := testStore(t, p).Snapshot(epoch)
	whole, tree := treeOf(s, Query{Group: GroupNone}, 10_000), treeOf(s, Query{Group: "process.pid"}, 10_000)
	if want := int64(400 * 401 / 2); whole.total[0] != want || tree.total[0] != want {
		t.Errorf("%d and %d samples, want %d", whole.total[0], tree.total[0], want)
	}
	f, _ := tree.Flame(View{})
	// Beside the root there is room for 99 stacks; the groups do not count.
	if tree.Len() != 1+99*100+400 || f.Pruned.Nodes != 400-99 || f.Pruned.Self != 301*302/2 || whole.missing != nil {
		t.Errorf("%d nodes, %+v", tree.Len(), f.Pruned)
	}
	for i := range f.ID {
		// The largest are whole.
		if got := f.Functions[f.Function[i]]; got.Name == "f99" && f.Self[i] <= 301 {
			t.Errorf("a stack of %d samples is there", f.Self[i])
		}
	}
	groups := 0
	for i, at := range f.Parent {
		if at == 0 {
			groups++
			if f.Functions[f.Function[i]].Name == "399" && f.Self[i] != 0 {
				t.Error("what is missing is no group's own")
			}
		}
	}
	if groups != 400 {
		t.Errorf("%d groups", groups)
	}
	if found := tree.found(tree.describe(), tree.describe().matches(func(f *Function) bool { return f.Name == "f99" })); found.Total <= 0 || found.Total >= tree.total[0] {
		t.Errorf("%+v", found)
	}
}

// TestDeepStacksAreWhole: the stacks of a busy host are there to the end within the memory that is the default for all.
func TestDeepStacksAreWhole(t *testing.T) {
	const budget = 128 << 20
	s := New(Options{Window: time.Hour, Bytes: budget})
	const parts = 16 // all at once would be too large a payload
	p := manyStacks(100_000)
	var samples []pprofile.SampleSlice
	for _, r := range p.ResourceProfiles().All() {
		samples = append(samples, pprofile.NewSampleSlice())
		r.ScopeProfiles().At(0).Profiles().At(0).Samples().MoveAndAppendTo(samples[len(samples)-1])
	}
	for part := range parts {
		for i, all := range samples {
			to := p.ResourceProfiles().At(i).ScopeProfiles().At(0).Profiles().At(0).Samples()
			to.RemoveIf(func(pprofile.Sample) bool { return true })
			for k := part; k < all.Len(); k += parts {
				all.At(k).CopyTo(to.AppendEmpty())
			}
		}
		if _, err := s.Add(p, epoch); err != nil {
			t.Fatal(err)
		}
	}
	snapshot := s.Snapshot(epoch)
	if w := snapshot.Window(); w.DroppedUntil != 0 || len(snapshot.nodes) < 1_000_000 {
		t.Fatalf("%d nodes, %+v", len(snapshot.nodes), w)
	}
	for _, tt := range []struct {
		query  Query
		fewest int // nodes; 0: all
	}{
		{Query{Group: GroupNone}, 0}, {Query{Group: "process.executable.name"}, 1_400_000}, // each group has what others have, too
		{Query{Group: GroupNone, Lines: true, Base: &Selection{}}, 800_000},
	} {
		tt.query.Bytes = budget - budget/8 - s.Held() // as the exporter has it
		before := heapBytes()
		tree, _ := snapshot.Tree(tt.query)
		if tree.Cut() != (tt.fewest != 0) || tree.Len() < tt.fewest {
			t.Errorf("%v: %d nodes, %d left out", tt.query, tree.Len(), tree.cut)
		}
		if is := heapBytes() - before; is > tree.Bytes()*21/20+1<<20 {
			t.Errorf("%v: %d bytes, %d by its own count", tt.query, is, tree.Bytes())
		}
		if tree.Bytes()+tree.ViewBytes() > tt.query.Bytes {
			t.Errorf("%v: %d bytes, more than %d", tt.query, tree.Bytes(), tt.query.Bytes)
		}
	}
}

// TestManyLeaves: what there is no room for is summed up by branch, the smallest first.
func TestManyLeaves(t *testing.T) {
	l := leafSums{most: 3000}
	want := sums{}
	for round := range 3 {
		for i := range 10_000 {
			v := sums{value: int64(1 + i%7), base: int64(round)}
			if i < 500 {
				v.value = 1000
			}
			l.add(leafKey{uint32(i % 2), uint32(i)}, v)
			want = want.plus(v)
		}
	}
	got, large, leaves := sums{}, 0, 0
	list := l.all()
	for _, x := range list {
		got = got.plus(x.sums)
		if x.node < 500 && x.value == 3000 {
			large++
		}
	}
	for _, r := range l.rest {
		got, leaves = got.plus(r.sums), leaves+r.leaves
	}
	if got != want || large != 500 || cap(l.list) > 3000 || len(l.rest) != 2 || leaves < 5000 {
		t.Errorf("%+v, want %+v; %d large, room for %d, %v", got, want, large, cap(l.list), l.rest)
	}
}

// TestSandwichesAreBounded: within less memory there are the largest nodes, and all values.
func TestSandwichesAreBounded(t *testing.T) {
	p := newPayload()
	pr := p.process("web", 1)
	for i := range 4000 {
		p.sample(pr, fmt.Sprintf("main by%d hub to%d end%d", i, i, i), "", make([]int, 1+i%40)...)
	}
	s := testStore(t, p).Snapshot(epoch)
	tree, _ := s.Tree(Query{})
	key := ""
	for _, f := range tree.Functions(nil) {
		if f.Name == "hub" {
			key = f.Key
		}
	}
	callees, _ := tree.Callees(key, 1)
	callers, _ := tree.Callers(key, 1<<20, 1)
	for name, of := range map[string]*Tree{"callees": callees, "callers": callers} {
		if of.Len() > 3*fewestNodes || of.Len() < fewestNodes/2 || !of.Cut() {
			t.Errorf("%s: %d nodes, %d left out", name, of.Len(), of.cut)
		}
		f, _ := of.Flame(View{})
		if f.Total != 4000*41/2 || f.Sum[1] != f.Total || f.Functions[f.Function[1]].Name != "hub" {
			t.Errorf("%s: %d samples, %d of %+v", name, f.Total, f.Sum[1], f.Functions[f.Function[1]])
		}
		for i := range f.ID {
			if d := f.Functions[f.Function[i]].Name; (strings.HasPrefix(d, "to") || strings.HasPrefix(d, "by")) && f.Sum[i] < 30 {
				t.Errorf("%s: %s has %d samples and is there", name, d, f.Sum[i])
			}
		}
	}
	if all, _ := tree.Callees(key, 1<<30); all.Cut() || all.Len() != 2+2*4000 {
		t.Errorf("%d nodes", all.Len())
	}
}
