package store

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/hostprofiles/hostprofiles/internal/stopreason"
)

// stopped has a stack that is complete and the same one without its root, for two reasons.
func stopped() *payload {
	p := newPayload()
	a := p.process("web", 1)
	p.sample(a, "main serve parse", "", times(60)...)
	p.stop(p.sample(a, "serve parse", "", times(6)...), "no_rule")
	p.stop(p.sample(a, "serve write@kernel", "", times(4)...), "no_rule")
	p.stop(p.sample(a, "serve parse", "", times(3)...), "memory")
	p.stop(p.sample(a, "main serve", "", times(2)...), "root")
	b := p.process("db", 2)
	p.stop(p.sample(b, "parse", "", times(5)...), "no_rule")
	return p
}

func (p *payload) stop(s pprofile.Sample, reason any) {
	s.AttributeIndices().Append(p.attr(stopreason.Attribute, reason))
}

// guess marks a location as guessed.
func (p *payload) guess(text string) {
	p.Dictionary().LocationTable().At(int(p.location(text))).AttributeIndices().Append(p.attr(stopreason.GuessedAttribute, true))
}

func TestMarkers(t *testing.T) {
	s := testStore(t, stopped())
	pid := func(value string) Selection {
		return Selection{Filters: []Filter{{Key: "process.pid", Value: value}}}
	}
	for _, tt := range []struct {
		name string
		q    Query
		v    View
		want string
	}{
		{"by reason, below the group", Query{Group: "process.executable.name"}, View{}, `
			all 0 80
			 db 0 5
			  [truncated: no_rule] 0 5
			   parse 5 5
			 web 0 75
			  [truncated: memory] 0 3
			   serve 0 3
			    parse 3 3
			  [truncated: no_rule] 0 10
			   serve 0 10
			    parse 6 6
			    write 4 4
			  main 0 62
			   serve 2 62
			    parse 60 60`},
		{"without groups", Query{Selection: pid("2")}, View{}, `
			all 0 5
			 [truncated: no_rule] 0 5
			  parse 5 5`},
		{"only a reason", Query{Selection: Selection{Filters: []Filter{{Key: stopreason.Attribute, Value: "memory"}}}}, View{}, `
			all 0 3
			 [truncated: memory] 0 3
			  serve 0 3
			   parse 3 3`},
		{"without a reason", Query{Selection: Selection{Filters: []Filter{{Key: stopreason.Attribute, Value: "no_rule", Not: true}}}}, View{}, `
			all 0 65
			 [truncated: memory] 0 3
			  serve 0 3
			   parse 3 3
			 main 0 62
			  serve 2 62
			   parse 60 60`},
		{"complete ones", Query{Selection: Selection{Filters: []Filter{{Key: stopreason.Attribute}}}}, View{}, `
			all 0 60
			 main 0 60
			  serve 0 60
			   parse 60 60`},
		{"no markers", Query{Selection: pid("1"), NoMarkers: true}, View{}, `
			all 0 75
			 main 0 62
			  serve 2 62
			   parse 60 60
			 serve 0 13
			  parse 9 9
			  write 4 4`},
		{"compared", Query{Selection: pid("1"), Base: &Selection{Filters: []Filter{{Key: "process.pid", Value: "2"}}}}, View{}, `
			all 0 75 / 0 5
			 [truncated: memory] 0 3 / 0 0
			  serve 0 3 / 0 0
			   parse 3 3 / 0 0
			 [truncated: no_rule] 0 10 / 0 5
			  parse 0 0 / 5 5
			  serve 0 10 / 0 0
			   parse 6 6 / 0 0
			   write 4 4 / 0 0
			 main 0 62 / 0 0
			  serve 2 62 / 0 0
			   parse 60 60 / 0 0`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, want := show(flame(t, s, tt.q, tt.v)), unindent(tt.want); got != want {
				t.Errorf("got\n%swant\n%s", got, want)
			}
		})
	}
}

// TestMarkersAreNoFunctions: they are in no table and found by no search, and who calls a function ends with them.
func TestMarkersAreNoFunctions(t *testing.T) {
	s := testStore(t, stopped()).Snapshot(epoch)
	tree, _ := s.Tree(Query{Group: "process.executable.name"})
	for _, f := range tree.Functions(nil) {
		if f.FrameType == TypeTruncated {
			t.Errorf("%s is in the table", f.Name)
		}
	}
	m, _ := NewMatcher("no_rule")
	f, _ := tree.Flame(View{Match: m})
	if f.Search != (Found{}) {
		t.Errorf("a search finds %+v", f.Search)
	}
	d := tree.Describe()
	at := func(name string) Function {
		return d.Functions[slices.IndexFunc(d.Functions, func(f Function) bool { return f.Name == name })]
	}
	if f := at("[truncated: memory]"); f.SystemName != "memory" || f.FrameType != TypeTruncated || f.Mapping != "" {
		t.Errorf("%+v", f)
	}
	callers, _ := tree.Callers(at("write").Key, 100, 1<<30)
	f, _ = callers.Flame(View{})
	want := unindent(`
		all 0 4
		 write 0 4
		  serve 0 4
		   [truncated: no_rule] 0 4
		    web 4 4`)
	if got := show(f); got != want {
		t.Errorf("got\n%s", got)
	}
}

// TestMarkersOfOthers: whatever stands in the attribute, there is one marker a value, of bounded length.
func TestMarkersOfOthers(t *testing.T) {
	p := newPayload()
	a := p.process("web", 1)
	for i, reason := range []any{"", "<script>", 7, strings.Repeat("ä", 9999), true, []byte{0xff}, "<script>"} {
		p.stop(p.sample(a, fmt.Sprint("f", i), "", 1), reason)
	}
	p.stop(p.sample(a, "", "", 1, 2), "no_process")
	var got []string
	f := flame(t, testStore(t, p), Query{}, View{})
	for i := range f.ID {
		if name := f.Functions[f.Function[i]].Name; f.Parent[i] == 0 {
			got = append(got, fmt.Sprintf("%.22s %d %d", name, f.Self[i], f.Sum[i]))
			if len(name) > 250 {
				t.Errorf("a marker's name has %d bytes", len(name))
			}
		}
	}
	want := []string{"[truncated: 7] 0 1", "[truncated: <script>] 0 2", "[truncated: no_process 2 2", "[truncated: true] 0 1",
		"[truncated: ääääääääää 0 1", "[truncated: \uFFFD] 0 1", "f0 1 1"}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// TestMarkersWithoutRoom: a tree that is too large leaves stacks out below their marker.
func TestMarkersWithoutRoom(t *testing.T) {
	s := testStore(t, stopped()).Snapshot(epoch)
	tree := treeOf(s, Query{Group: "process.executable.name"}, 5)
	f, _ := tree.Flame(View{})
	total := map[string]int64{}
	for i := range f.ID {
		total[f.Functions[f.Function[i]].Name] += f.Sum[i]
	}
	if total["all"] != 80 || total["[truncated: no_rule]"] != 15 || total["[truncated: memory]"] != 3 || total["web"] != 75 {
		t.Errorf("%v", total)
	}
}

func TestGuessed(t *testing.T) {
	p := newPayload()
	a := p.process("web", 1)
	p.sample(a, "main jit<inner libc", "", 1)
	p.sample(a, "main jit<inner", "", 1)
	p.sample(a, "main other", "", 1)
	p.guess("jit<inner")
	s := testStore(t, p)
	tree, _ := s.Snapshot(epoch).Tree(Query{})
	guessed := func(tree *Tree) (out []string) {
		f, _ := tree.Flame(View{})
		for _, i := range f.Guessed {
			out = append(out, f.Functions[f.Function[i]].Name)
		}
		return out
	}
	if got := fmt.Sprint(guessed(tree)); got != "[jit inner]" {
		t.Error(got)
	}
	d := tree.Describe()
	key := func(name string) string {
		return d.Functions[slices.IndexFunc(d.Functions, func(f Function) bool { return f.Name == name })].Key
	}
	callers, _ := tree.Callers(key("libc"), 100, 1<<30)
	callees, _ := tree.Callees(key("main"), 1<<30)
	for _, tree := range []*Tree{callers, callees} {
		if got := guessed(tree); len(got) != 2 || !slices.Contains(got, "jit") || !slices.Contains(got, "inner") {
			t.Error(got)
		}
	}
	// It is kept when the tables are made anew, and what is exported says it again.
	s.mu.Lock()
	s.compact()
	s.mu.Unlock()
	out, _ := s.Snapshot(epoch).Export(Export{})
	again := New(Options{Window: time.Hour, Bytes: 64 << 20})
	if _, err := again.Add(out, epoch.Add(10*time.Second)); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Store{s, again} {
		tree, _ := s.Snapshot(epoch).Tree(Query{})
		if got := fmt.Sprint(guessed(tree)); got != "[jit inner]" {
			t.Error(got)
		}
	}
	// Only true is true.
	p = newPayload()
	p.Dictionary().LocationTable().At(int(p.location("main"))).AttributeIndices().Append(p.attr(stopreason.GuessedAttribute, "true"))
	p.sample(p.process("web", 1), "main", "", 1)
	if f := flame(t, testStore(t, p), Query{}, View{}); f.Guessed != nil {
		t.Errorf("%v", f.Guessed)
	}
}

func TestIncomplete(t *testing.T) {
	p := newPayload()
	a := p.process("web", 1)
	p.sample(a, "main", "", times(9)...)
	p.sample(a, "main x", "", 1).AttributeIndices().Append(p.attr(stopreason.Attribute, "no_rule"))
	s := testStore(t, p).Snapshot(epoch)
	got, more := s.Incomplete(9)
	if want := []Incomplete{{"web", "1", "no_rule", 1, 10}}; !slices.Equal(got, want) || more != 0 {
		t.Errorf("%+v, %d more", got, more)
	}
	if got, more = s.Incomplete(0); len(got) != 0 || more != 1 {
		t.Errorf("%+v, %d more", got, more)
	}
}
