package pprof

import (
	"strings"
	"testing"

	"github.com/google/pprof/profile"
	"go.opentelemetry.io/collector/pdata/pcommon"

	ownprofile "github.com/hostprofiles/hostprofiles/internal/profile"
)

// TestFunctionsWithoutNames: two addresses of one function and one of another, all without a line, are two functions in pprof. Back
// in OTLP they have the attribute and no line.
func TestFunctionsWithoutNames(t *testing.T) {
	p := newPayload(newWorld(t, 1))
	m := p.dict.MappingTable().AppendEmpty()
	m.SetFilenameStrindex(p.text("/usr/lib/libfoo.so"))
	m.SetMemoryStart(0x1000)
	m.SetMemoryLimit(0x9000)
	p.str(m.AttributeIndices(), attrBuildIDGNU, strings.Repeat("ab", 20))
	rp := p.out.ResourceProfiles().AppendEmpty()
	rp.SetSchemaUrl(ownprofile.SchemaURL)
	sp := rp.ScopeProfiles().AppendEmpty()
	sp.SetSchemaUrl(ownprofile.SchemaURL)
	sp.Scope().SetName(ScopeName)
	v := sp.Profiles().AppendEmpty()
	v.SampleType().SetTypeStrindex(p.text("samples"))
	v.SampleType().SetUnitStrindex(p.text("count"))
	for i, start := range []int64{0x1100, 0x1100, 0x1200} {
		l := p.dict.LocationTable().AppendEmpty()
		l.SetMappingIndex(1)
		l.SetAddress(uint64(0x1204 + 4*i))
		p.str(l.AttributeIndices(), attrFrameType, "native")
		p.attribute(l.AttributeIndices(), attrFunction, pcommon.NewValueInt(start), "")
		p.dict.StackTable().AppendEmpty().LocationIndices().Append(int32(i + 1))
		s := v.Samples().AppendEmpty()
		s.SetStackIndex(int32(i + 1))
		s.Values().Append(1)
	}
	all, err := FromOTLP(p.out, FromOptions{})
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	got := map[string]int64{}
	for _, s := range all[0].Sample {
		got[s.Location[0].Line[0].Function.Name] += s.Value[0]
	}
	if len(all[0].Function) != 2 || got["libfoo.so+0x1100"] != 2 || got["libfoo.so+0x1200"] != 1 || all[0].Mapping[0].HasFunctions {
		t.Fatalf("%v in\n%v", got, all[0])
	}
	back, err := ToOTLP(throughFile(t, all[0]), usual())
	if err != nil {
		t.Fatal(err)
	}
	if n := back.Dictionary().FunctionTable().Len(); n != 1 {
		t.Errorf("%d functions", n-1)
	}
	sameFacts(t, otlpFacts(false, back), otlpFacts(false, p.out))
}

// TestNamesLikeAddresses: what others have named stays a name.
func TestNamesLikeAddresses(t *testing.T) {
	foo := &profile.Mapping{File: "/usr/lib/libfoo.so"}
	own := profile.Function{Name: "libfoo.so+0x1100", SystemName: attrFunction}
	for name, change := range map[string]func(l *profile.Location){
		"another system name": func(l *profile.Location) { l.Line[0].Function.SystemName = "" },
		"another file":        func(l *profile.Location) { l.Mapping = &profile.Mapping{File: "libbar.so"} },
		"no file":             func(l *profile.Location) { l.Mapping = nil },
		"upper case":          func(l *profile.Location) { l.Line[0].Function.Name = "libfoo.so+0x1A" },
		"a line":              func(l *profile.Location) { l.Line[0].Line = 7 },
		"a source":            func(l *profile.Location) { l.Line[0].Function.Filename = "x.c" },
		"inlined":             func(l *profile.Location) { l.Line = append(l.Line, l.Line[0]) },
		"a long file":         func(l *profile.Location) { l.Mapping = &profile.Mapping{File: strings.Repeat("x", maxAddressFile+1)} },
	} {
		f := own
		l := &profile.Location{Mapping: foo, Line: []profile.Line{{Function: &f}}}
		if address, ok := functionAddress(l); !ok || address != 0x1100 {
			t.Fatalf("%x, %v", address, ok)
		}
		if change(l); len(linesOf(l)) == 0 {
			t.Errorf("%s: the function is gone", name)
		}
	}
}
