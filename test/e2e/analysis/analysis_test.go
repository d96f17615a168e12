package analysis

import (
	"slices"
	"testing"

	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/hostprofiles/hostprofiles/test/e2e/workloads"
)

// TestJudge builds the C program and feeds stacks made from its own symbols: right ones, and each kind of wrong one.
func TestJudge(t *testing.T) {
	b, err := workloads.NewBuilder()
	if err != nil {
		t.Fatal(err)
	}
	p, ok := workloads.Find("c")
	if !ok {
		t.Fatal("there is no program c")
	}
	built, err := b.Build(p)
	if err != nil {
		t.Fatal(err)
	}
	frame := func(name string) Frame {
		addr, ok := workloads.AddressOf(built.Full, name)
		if !ok {
			t.Fatalf("no symbol %s", name)
		}
		return Frame{Type: "native", Address: addr + 1, Mapping: built.Path, Lines: []Line{{Name: name}}}
	}
	stack := func(names ...string) []Frame {
		var s []Frame
		for _, n := range names {
			s = append(s, frame(n))
		}
		slices.Reverse(s)
		return s
	}
	ten := []string{"_start", "main", "rounds", "ten_1", "hot_ten"}
	thirty := append([]string{"_start"}, p.Truth[1].Chain...)
	sixty := append([]string{"_start"}, p.Truth[0].Chain...)
	good := Samples{{Count: 6, Frames: stack(sixty...)}, {Count: 3, Frames: stack(thirty...)}, {Count: 1, Frames: stack(ten...)}}
	kernel := Sample{Count: 2, Frames: append([]Frame{{Type: "kernel", Lines: []Line{{Name: "read_zero"}}}}, stack(ten[:3]...)...)}
	r := Judge(built, append(good, kernel))
	if r.Samples != 12 || r.Covered != 10 || r.Chains != 10 || r.Complete != 12 || r.Kernel != 2 || r.KernelComplete != 2 ||
		r.Named != r.Nameable || r.Nameable != len(sixty)+len(thirty)+len(ten)+3 || r.ShareError(p.Truth) > 0.001 || len(r.Wrong) != 0 {
		t.Errorf("right stacks: %v\n%v", r, r.Wrong)
	}
	unnamed := stack(ten...)
	unnamed[0].Lines = nil
	for name, s := range map[string]Sample{
		"a frame is missing":    {Frames: stack("_start", "main", "ten_1", "hot_ten")},
		"the root is missing":   {Frames: stack("rounds", "ten_1", "hot_ten")},
		"the walk was stopped":  {Frames: stack(ten...), StopReason: "memory"},
		"a function is unnamed": {Frames: unnamed},
		"the root is that of coroutines, which the program has none of": {
			Frames: append(stack(ten[1:]...), Frame{Type: "native", Lines: []Line{{Name: "make_fcontext"}}})},
		"there is no stack": {},
	} {
		s.Count = 1
		if r := Judge(built, Samples{s}); len(r.Wrong) == 0 || r.Chains == 1 && r.Complete == 1 && r.Named == r.Nameable {
			t.Errorf("%s: %v", name, r)
		}
	}
	built.Roots = []string{"rounds"}
	if r := Judge(built, Samples{{Count: 1, Frames: stack("rounds", "ten_1", "hot_ten")}}); r.Complete != 1 {
		t.Errorf("a root of the program's own: %v", r)
	}
}

func TestFlatten(t *testing.T) {
	p := pprofile.NewProfiles()
	d := p.Dictionary()
	d.StringTable().Append("", "thread.name", "profile.frame.type", "/bin/x", "f", "hostprofiles.stack.stop_reason")
	d.MappingTable().AppendEmpty()
	d.MappingTable().AppendEmpty().SetFilenameStrindex(3)
	d.FunctionTable().AppendEmpty()
	d.FunctionTable().AppendEmpty().SetNameStrindex(4)
	d.AttributeTable().AppendEmpty()
	for i, v := range []string{"thread", "native", "memory"} {
		a := d.AttributeTable().AppendEmpty()
		a.SetKeyStrindex([]int32{1, 2, 5}[i])
		a.Value().SetStr(v)
	}
	d.LocationTable().AppendEmpty()
	l := d.LocationTable().AppendEmpty()
	l.SetAddress(7)
	l.SetMappingIndex(1)
	l.AttributeIndices().Append(2)
	l.Lines().AppendEmpty().SetFunctionIndex(1)
	d.StackTable().AppendEmpty()
	d.StackTable().AppendEmpty().LocationIndices().Append(1)
	rp := p.ResourceProfiles().AppendEmpty()
	rp.Resource().Attributes().PutInt("process.pid", 42)
	s := rp.ScopeProfiles().AppendEmpty().Profiles().AppendEmpty().Samples().AppendEmpty()
	s.SetStackIndex(1)
	s.AttributeIndices().Append(1, 3)
	s.TimestampsUnixNano().Append(5, 3, 4)
	got := Flatten(p)
	if len(got) != 1 || got.Count() != 3 || got.PID(42).Count() != 3 || got.PID(1).Count() != 0 {
		t.Fatalf("got %+v", got)
	}
	g := got[0]
	if g.Thread != "thread" || g.StopReason != "memory" || g.First != 3 || g.Last != 5 || g.Kernel() || len(g.User()) != 1 ||
		g.Frames[0].Name() != "f" || g.Frames[0].Mapping != "/bin/x" || g.Frames[0].Address != 7 {
		t.Errorf("got %+v", g)
	}
}
