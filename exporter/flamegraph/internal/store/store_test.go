package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/hostprofiles/hostprofiles/internal/profile/conformance"
)

func testStore(t testing.TB, p ...*payload) *Store {
	t.Helper()
	s := New(Options{Window: 15 * time.Minute, Bytes: 64 << 20})
	for _, p := range p {
		if _, err := s.Add(p.Profiles, epoch.Add(10*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// show prints a flame graph, a line for each node.
func show(f *Flame) string {
	var b strings.Builder
	depth := make([]int, len(f.ID))
	for i := range f.ID {
		if i > 0 {
			depth[i] = depth[f.Parent[i]] + 1
		}
		fmt.Fprintf(&b, "%s%s %d %d", strings.Repeat(" ", depth[i]), f.Functions[f.Function[i]].Name, f.Self[i], f.Sum[i])
		if f.Line[i] != 0 {
			fmt.Fprintf(&b, " line %d", f.Line[i])
		}
		if f.Compared {
			fmt.Fprintf(&b, " / %d %d", f.BaseSelf[i], f.BaseSum[i])
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func flame(t testing.TB, s *Store, q Query, v View) *Flame {
	t.Helper()
	tree, ok := s.Snapshot(epoch).Tree(q)
	if !ok {
		t.Fatal("no tree")
	}
	f, ok := tree.Flame(v)
	if !ok {
		t.Fatal("no such frame")
	}
	return f
}

func unindent(s string) string {
	lines := strings.Split(strings.Trim(s, "\n"), "\n")
	cut := len(lines[0]) - len(strings.TrimLeft(lines[0], "\t"))
	for i := range lines {
		lines[i] = strings.TrimPrefix(lines[i], strings.Repeat("\t", cut))
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n\t") + "\n"
}

func TestFlame(t *testing.T) {
	s := testStore(t, twoProcesses())
	for _, tt := range []struct {
		name string
		q    Query
		v    View
		want string
	}{
		{"grouped", Query{Group: "process.executable.name"}, View{}, `
			all 0 150
			 db 0 50
			  main 0 50
			   query 0 50
			    scan 50 50
			 web 0 100
			  main 0 100
			   serve 0 100
			    parse 60 70
			     serve 0 10
			      parse 10 10
			    write 30 30`},
		{"merged", Query{}, View{}, `
			all 0 150
			 main 0 150
			  query 0 50
			   scan 50 50
			  serve 0 100
			   parse 60 70
			    serve 0 10
			     parse 10 10
			   write 30 30`},
		{"thread", Query{Selection: Selection{Filters: []Filter{{Key: "thread.name", Value: "other"}}}}, View{}, `
			all 0 10
			 main 0 10
			  serve 0 10
			   parse 0 10
			    serve 0 10
			     parse 10 10`},
		{"alternatives", Query{Selection: Selection{Filters: []Filter{{Key: "process.pid", Value: "2"}, {Key: "process.pid", Value: "3"}}}}, View{}, `
			all 0 50
			 main 0 50
			  query 0 50
			   scan 50 50`},
		{"frame type", Query{Selection: Selection{Filters: []Filter{{Key: FrameType, Value: "kernel"}}}}, View{}, `
			all 0 30
			 main 0 30
			  serve 0 30
			   write 30 30`},
		{"not", Query{Selection: Selection{Filters: []Filter{{Key: FrameType, Value: "kernel", Not: true}, {Key: "process.executable.name", Value: "db", Not: true}}}}, View{}, `
			all 0 70
			 main 0 70
			  serve 0 70
			   parse 60 70
			    serve 0 10
			     parse 10 10`},
		{"nothing", Query{Selection: Selection{Filters: []Filter{{Key: "x", Value: "y"}}}}, View{}, `
			all 0 0`},
		{"range", Query{Selection: Selection{From: epoch.UnixMilli() + 4950, To: epoch.UnixMilli() + 5000}}, View{}, `
			all 0 0`},
		{"first half second", Query{Selection: Selection{To: epoch.UnixMilli() + 401}}, View{}, `
			all 0 20
			 main 0 20
			  query 0 5
			   scan 5 5
			  serve 0 15
			   parse 5 10
			    serve 0 5
			     parse 5 5
			   write 5 5`},
		{"diff", Query{Selection: Selection{Filters: []Filter{{Key: "process.pid", Value: "1"}}}, Base: &Selection{Filters: []Filter{{Key: "process.pid", Value: "2"}}}}, View{}, `
			all 0 100 / 0 50
			 main 0 100 / 0 50
			  query 0 0 / 0 50
			   scan 0 0 / 50 50
			  serve 0 100 / 0 0
			   parse 60 70 / 0 0
			    serve 0 10 / 0 0
			     parse 10 10 / 0 0
			   write 30 30 / 0 0`},
		{"pruned", Query{}, View{MaxNodes: 5}, `
			all 0 150
			 main 0 150
			  query 0 50
			  serve 0 100
			   parse 60 70`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, want := show(flame(t, s, tt.q, tt.v)), unindent(tt.want); got != want {
				t.Errorf("got\n%swant\n%s", got, want)
			}
		})
	}
	if f := flame(t, s, Query{}, View{MaxNodes: 5}); f.Pruned != (Pruned{4, 90}) {
		t.Errorf("pruned %+v", f.Pruned)
	}
}

func TestFocusAndSearch(t *testing.T) {
	s := testStore(t, twoProcesses())
	all := flame(t, s, Query{}, View{})
	i := slices.IndexFunc(all.Function, func(k int32) bool { return all.Functions[k].Name == "serve" })
	want := unindent(`
		all 0 150
		 main 0 150
		  serve 0 100
		   parse 60 70
		    serve 0 10
		     parse 10 10
		   write 30 30`)
	if got := show(flame(t, s, Query{}, View{Focus: all.ID[i]})); got != want {
		t.Errorf("got\n%s", got)
	}
	tree, _ := s.Snapshot(epoch).Tree(Query{})
	for _, id := range []string{"nonsense!", "1", strings.Repeat("z", 99)} {
		if _, ok := tree.Flame(View{Focus: id}); ok {
			t.Errorf("focus on %q", id)
		}
	}
	for text, found := range map[string]Found{"PARSE": {70, 0, 1}, "/^(scan|write)$/": {80, 0, 2}, "main": {150, 0, 1}, "prog": {150, 0, 6}, "absent": {}} {
		m, err := NewMatcher(text)
		if err != nil {
			t.Fatal(err)
		}
		if f := flame(t, s, Query{Group: "process.executable.name"}, View{Match: m}); f.Search != found {
			t.Errorf("%s: %+v, want %+v", text, f.Search, found)
		}
	}
	if _, err := NewMatcher("/(/"); err == nil {
		t.Error("a broken regular expression is understood")
	}
}

func TestFunctions(t *testing.T) {
	tree, _ := testStore(t, twoProcesses()).Snapshot(epoch).Tree(Query{Group: "process.executable.name"})
	list := tree.Functions(nil)
	SortFunctions(list, BySelf, 150, 0)
	var got []string
	for _, f := range list {
		got = append(got, fmt.Sprint(f.Name, " ", f.Self, " ", f.Total))
	}
	want := []string{"parse 70 70", "scan 50 50", "write 30 30", "main 0 150", "serve 0 100", "query 0 50"}
	if !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

func TestSandwich(t *testing.T) {
	tree, _ := testStore(t, twoProcesses()).Snapshot(epoch).Tree(Query{})
	d := tree.Describe()
	key := d.Functions[slices.IndexFunc(d.Functions, func(f Function) bool { return f.Name == "parse" })].Key
	callees, ok1 := tree.Callees(key, 1<<30)
	callers, ok2 := tree.Callers(key, 10_000, 1<<30)
	if !ok1 || !ok2 {
		t.Fatal("not found")
	}
	for _, tt := range []struct {
		tree *Tree
		want string
	}{{callees, `
		all 0 70
		 parse 60 70
		  serve 0 10
		   parse 10 10`}, {callers, `
		all 0 70
		 parse 0 70
		  serve 0 70
		   main 70 70`}} {
		f, _ := tt.tree.Flame(View{})
		if got := show(f); got != unindent(tt.want) {
			t.Errorf("got\n%s", got)
		}
	}
	if _, ok := tree.Callees("1", 1<<30); ok {
		t.Error("found a function that is not there")
	}
}

func TestLines(t *testing.T) {
	p := newPayload()
	a := p.process("web", 1)
	p.sample(a, "main:3 work:7", "", 1, 2)
	p.sample(a, "main:3 work:8", "", 3)
	s := testStore(t, p)
	want := unindent(`
		all 0 3
		 main 0 3 line 3
		  work 2 2 line 7
		  work 1 1 line 8`)
	if got := show(flame(t, s, Query{Lines: true}, View{})); got != want {
		t.Errorf("got\n%s", got)
	}
	if got := show(flame(t, s, Query{}, View{})); got != "all 0 3\n main 0 3\n  work 3 3\n" {
		t.Errorf("got\n%s", got)
	}
}

func TestUnnamedCode(t *testing.T) {
	p := newPayload()
	p.sample(p.process("web", 1), "main +x", "", 1)
	f := flame(t, testStore(t, p), Query{}, View{})
	if at := f.Functions[f.Function[2]]; at.Name != "prog+0x1010" || !at.Part || f.Functions[f.Function[1]].Part {
		t.Errorf("code without a name is %+v", at)
	}
	// two addresses of one function, whose start is known, and one of another
	p = newPayload()
	for i, text := range []string{"main +x", "main +y", "main +z"} {
		p.Dictionary().LocationTable().At(int(p.location(text[5:]))).AttributeIndices().Append(p.attr("hostprofiles.function.address", 0x1000+i/2))
		p.sample(p.process("web", 1), text, "", 1)
	}
	f = flame(t, testStore(t, p), Query{}, View{})
	if got := show(f); got != "all 0 3\n main 0 3\n  prog+0x1000 2 2\n  prog+0x1001 1 1\n" {
		t.Errorf("got\n%s", got)
	}
	for _, at := range f.Functions {
		if at.Part {
			t.Errorf("%s is a function", at.Name)
		}
	}
}

func TestLabels(t *testing.T) {
	s := testStore(t, twoProcesses()).Snapshot(epoch)
	got := fmt.Sprint(s.Labels(Selection{Filters: []Filter{{Key: "process.executable.name", Value: "web"}}}, 1))
	want := "[{frame_type [{native 70 }] 1} {process.creation.time [{2026-01-02T03:04:05Z 100 }] 0} {process.executable.name [{web 100 }] 1} " +
		"{process.pid [{1 100 web}] 0} {thread.name [{worker 90 }] 1}]"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestHints: a pid that several executables had, on hosts or one after the other, has no name.
func TestHints(t *testing.T) {
	p := newPayload()
	p.sample(p.process("web", 1), "main", "", 1)
	p.sample(p.process("db", 1), "main", "", 1)
	p.sample(p.process("web", 2), "main", "", 1)
	p.sample(p.process("web", 2), "main", "x", 1)
	if got := fmt.Sprint(testStore(t, p).Snapshot(epoch).executables()); got != "map[1: 2:web]" {
		t.Error(got)
	}
}

func TestHeatmap(t *testing.T) {
	p := twoProcesses()
	untimed := p.process("cron", 3)
	u := p.sample(untimed, "main", "")
	u.Values().Append(7)
	s := testStore(t, p).Snapshot(epoch)
	from := epoch.UnixMilli()
	h, _ := s.Heatmap(Selection{From: from - 500, To: from + 6000}, 3, 2)
	if want := []int64{47, 30, 30, 20, 20, 10}; h.ColumnMicros != 1967e3 || h.RowMicros != 983500 || h.Untimed != 7 || h.Max != 47 ||
		fmt.Sprint(h.Values) != fmt.Sprint(want) {
		t.Errorf("%+v", h)
	}
}

func TestPeriods(t *testing.T) {
	p := newPayload()
	p.sample(p.process("web", 1), "main", "", times(100)...)
	b := p.process("db", 2)
	b.SetPeriod(10e6)
	p.sample(b, "main", "", times(60)...) // as much CPU time as 30 of the others
	s := testStore(t, p)
	f := flame(t, s, Query{}, View{})
	if f.Total != 100*20e6+60*10e6 || f.Info.SampleUnit != "nanoseconds" || f.Info.Period != 1 {
		t.Errorf("%d %s, period %d", f.Total, f.Info.SampleUnit, f.Info.Period)
	}
	// One of them alone is counted.
	s = testStore(t)
	if _, err := s.Add(twoProcesses().Profiles, epoch.Add(10*time.Second)); err != nil {
		t.Fatal(err)
	}
	if f := flame(t, s, Query{}, View{}); f.Total != 150 || f.Info.SampleUnit != "count" || f.Info.Period != 20e6 {
		t.Errorf("%d %s, period %d", f.Total, f.Info.SampleUnit, f.Info.Period)
	}
}

// TestExport: what comes out says the same, conforms to the specification, and can be taken up again.
func TestExport(t *testing.T) {
	p := twoProcesses()
	pr := p.process("linked", 4)
	sample := p.sample(pr, "main a<b<c", "t", 5, 6)
	sample.SetLinkIndex(1)
	l := p.Dictionary().LinkTable().AppendEmpty()
	l.SetTraceID(pcommon.TraceID{1})
	l.SetSpanID(pcommon.SpanID{2})
	attrs := p.ResourceProfiles().At(2).Resource().Attributes()
	attrs.PutBool("b", true)
	attrs.PutDouble("d", 1.5)
	attrs.PutEmptyBytes("y").FromRaw([]byte{0, 255})
	attrs.PutEmptySlice("s").AppendEmpty().SetInt(3)
	attrs.PutEmptyMap("m").PutStr("k", "v")
	values := p.sample(pr, "main", "t", 9)
	values.Values().Append(4)
	s := testStore(t, p)
	first, ok := s.Snapshot(epoch).Export(Export{})
	if !ok {
		t.Fatal("nothing to export")
	}
	if err := conformance.Check(first); err != nil {
		t.Error(err)
	}
	again := New(Options{Window: time.Hour, Bytes: 64 << 20})
	if _, err := again.Add(first, epoch.Add(10*time.Second)); err != nil {
		t.Fatal(err)
	}
	second, _ := again.Snapshot(epoch).Export(Export{})
	if at := first.ResourceProfiles().At(2).Resource().Attributes(); !at.Equal(attrs) {
		t.Errorf("attributes %v, want %v", at.AsRaw(), attrs.AsRaw())
	}
	a, _ := new(pprofile.JSONMarshaler).MarshalProfiles(first)
	b, _ := new(pprofile.JSONMarshaler).MarshalProfiles(second)
	if string(a) != string(b) {
		t.Errorf("exported and taken up again:\n%s\n%s", a, b)
	}
	q, v := Query{Group: "process.pid"}, View{}
	if got, want := show(flame(t, again, q, v)), show(flame(t, s, q, v)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestMalformed: what contradicts itself is refused as a whole and changes nothing.
func TestMalformed(t *testing.T) {
	for name, damage := range map[string]func(*payload, pprofile.Sample){
		"stack":     func(_ *payload, s pprofile.Sample) { s.SetStackIndex(99) },
		"negative":  func(_ *payload, s pprofile.Sample) { s.SetStackIndex(-1) },
		"attribute": func(_ *payload, s pprofile.Sample) { s.AttributeIndices().Append(99) },
		"link":      func(_ *payload, s pprofile.Sample) { s.SetLinkIndex(7) },
		"values":    func(_ *payload, s pprofile.Sample) { s.Values().Append(1); s.TimestampsUnixNano().Append(1) },
		"location":  func(p *payload, _ pprofile.Sample) { p.Dictionary().StackTable().At(1).LocationIndices().Append(77) },
		"function": func(p *payload, _ pprofile.Sample) {
			p.Dictionary().LocationTable().At(1).Lines().At(0).SetFunctionIndex(77)
		},
		"mapping": func(p *payload, _ pprofile.Sample) { p.Dictionary().LocationTable().At(1).SetMappingIndex(77) },
		"name":    func(p *payload, _ pprofile.Sample) { p.Dictionary().FunctionTable().At(1).SetNameStrindex(777) },
		"deep": func(p *payload, _ pprofile.Sample) {
			for range 1_000_000 {
				p.Dictionary().StackTable().At(1).LocationIndices().Append(1)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPayload()
			pr := p.process("web", 1)
			p.sample(pr, "good", "", 1)
			s := p.sample(pr, "main work", "", 1)
			p.Dictionary().StackTable().At(1).LocationIndices().At(0)
			damage(p, s)
			st := testStore(t, twoProcesses())
			if _, err := st.Add(p.Profiles, epoch); !errors.Is(err, ErrMalformed) {
				t.Errorf("error %v", err)
			}
			if f := flame(t, st, Query{}, View{}); f.Total != 150 {
				t.Errorf("then there are %d samples", f.Total)
			}
		})
	}
}

// TestHostileStrings: long and broken ones are cut and mended.
func TestHostileStrings(t *testing.T) {
	p := newPayload()
	pr := p.process("web", 1)
	p.sample(pr, strings.Repeat("ä", 10<<20), "\xff\xfe<script>", 1)
	s := testStore(t, p)
	if size := s.Snapshot(epoch).Window().Bytes; size > 1<<20 {
		t.Errorf("%d bytes are held", size)
	}
	f := flame(t, s, Query{Group: "thread.name"}, View{})
	if n := len(f.Functions[f.Function[2]].Name); n > maxString+8 {
		t.Errorf("a name has %d bytes", n)
	}
	if name := f.Functions[f.Function[1]].Name; name != "\uFFFD<script>" {
		t.Errorf("a thread is %q", name)
	}
}

// TestCompaction: tables that are made anew say the same, and what was taken before stays as it was.
func TestCompaction(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	s := New(Options{Window: time.Minute, Bytes: 1 << 30})
	for i := range 200 {
		if _, err := s.Add(randomPayload(r, i, 20, 12).Profiles, epoch.Add(time.Duration(i)*time.Second)); err != nil {
			t.Fatal(err)
		}
		if i%20 != 0 {
			continue
		}
		snapshot := s.Snapshot(epoch)
		before, _ := snapshot.Tree(Query{Group: "thread.name"})
		f, _ := before.Flame(View{})
		s.mu.Lock()
		size := s.size()
		s.compact()
		if s.size() > size {
			t.Errorf("made anew, tables take %d bytes instead of %d", s.size(), size)
		}
		s.mu.Unlock()
		if got, want := show(flame(t, s, Query{Group: "thread.name"}, View{})), show(f); got != want {
			t.Fatalf("got\n%s\nwant\n%s", got, want)
		}
		again, _ := snapshot.Tree(Query{Group: "thread.name"})
		if f2, _ := again.Flame(View{}); show(f2) != show(f) {
			t.Fatal("a snapshot has changed")
		}
	}
	// What is older than the window, which is counted by arrival, is gone; what is left of it is small.
	w := s.Snapshot(epoch.Add(200 * time.Second)).Window()
	if held := (w.To - w.From) / 1000; held < 60 || held > 85 {
		t.Errorf("%d s are held", held)
	}
	s.Snapshot(epoch.Add(time.Hour))
	if s.Snapshot(epoch.Add(time.Hour)).Window().Samples != 0 || s.size() > 10<<10 {
		t.Errorf("an hour later %d bytes are held", s.size())
	}
}

// TestEmpty: without profiles there is nothing, and nothing goes wrong.
func TestEmpty(t *testing.T) {
	s := testStore(t).Snapshot(epoch)
	_, tree := s.Tree(Query{})
	_, heatmap := s.Heatmap(Selection{}, 3, 3)
	_, export := s.Export(Export{})
	incomplete, _ := s.Incomplete(9)
	if tree || heatmap || export || len(s.Types()) != 0 || len(s.Labels(Selection{}, 9)) != 0 || len(incomplete) != 0 || s.Window().From != 0 {
		t.Error("there is something")
	}
}
