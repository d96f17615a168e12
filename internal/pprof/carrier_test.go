package pprof

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
	"go.opentelemetry.io/collector/pdata/pcommon"
)

// TestCarriers: only what stands behind a location of a sample, at the same address, is an attribute of it.
func TestCarriers(t *testing.T) {
	plain := &profile.Function{ID: 1, Name: "f"}
	carries := func(key, value string) *profile.Location {
		f := &profile.Function{ID: 2, Name: carrier, SystemName: key, Filename: value}
		return &profile.Location{Address: 0x10, Line: []profile.Line{{Function: f}}}
	}
	const native, abort = `"profile.frame.type"=Str "native" ""`, `"profile.frame.type"=Str "abort-marker" ""`
	for _, c := range []struct {
		name   string
		behind []*profile.Location
		want   string
	}{
		{"its own", []*profile.Location{carries(attrFrameType, "abort-marker")}, abort},
		{"two", []*profile.Location{carries(attrFrameType, "abort-marker"), carries("k:json", "1")}, `"k"=Int "1" "",` + abort},
		{"the same key twice", []*profile.Location{carries("k", "1"), carries("k", "2")}, `"k"=Str "1" "",` + native},
		{"at another address", []*profile.Location{{Address: 0x11, Line: carries("k", "1").Line}}, native},
		{"with a mapping", []*profile.Location{
			{Address: 0x10, Line: carries("k", "1").Line, Mapping: &profile.Mapping{ID: 1}},
		}, native},
		{"with another line", []*profile.Location{
			{Address: 0x10, Line: append(carries("k", "1").Line, profile.Line{Function: plain})},
		}, native},
		{"of a location without samples", []*profile.Location{
			{Address: 0x10, Line: []profile.Line{{Function: plain}}}, carries("k", "1"),
		}, native},
		{"no JSON", []*profile.Location{carries("k:json", "{")}, native},
		// What a field says, or could say, nothing else does.
		{"folded", []*profile.Location{carries(attrFolded+suffixJSON, "true")}, native},
		{"folded, no flag", []*profile.Location{carries(attrFolded, "x")}, `"pprof.location.is_folded"=Str "x" "",` + native},
		{"type of a mapping", []*profile.Location{carries(attrFrameType, "jvm")}, native},
		{"mapping", []*profile.Location{carries(attrMappingFile, "/x")}, native},
		{"rest of a mapping", []*profile.Location{carries(attrMapping+suffixJSON, `{"start":1}`)}, native},
		{"no rest of a mapping", []*profile.Location{carries(attrMapping+suffixJSON, `{"start":true}`)},
			`"hostprofiles.pprof.mapping"=mapmap["start":"Bool \"true\""] "",` + native},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := simple(1, 1)
			p.Location = append([]*profile.Location{{Address: 0x10}}, c.behind...)
			p.Sample[0].Location = p.Location[:1]
			functions := map[*profile.Function]bool{}
			for i, l := range p.Location {
				l.ID = uint64(i + 1)
				if l.Mapping != nil {
					p.Mapping = append(p.Mapping, l.Mapping)
				}
				for _, n := range l.Line {
					if !functions[n.Function] {
						functions[n.Function] = true
						n.Function.ID = uint64(len(functions))
						p.Function = append(p.Function, n.Function)
					}
				}
			}
			out, err := ToOTLP(p, ToOptions{})
			if err != nil {
				t.Fatal(err)
			}
			r := reader{out.Dictionary()}
			if got := r.attributes(r.t.LocationTable().At(1).AttributeIndices()); got != c.want {
				t.Errorf("%s, not %s", got, c.want)
			}
			comesBack(t, p)
		})
	}
}

// withMappings makes a profile whose mappings each have one location; they are needed in the order of the locations.
func withMappings(mappings []*profile.Mapping, locations ...int) *profile.Profile {
	p := simple(1, 1)
	for i, m := range mappings {
		m.ID = uint64(i + 1)
	}
	p.Mapping = mappings
	for i, m := range locations {
		l := &profile.Location{ID: uint64(i + 1), Address: uint64(0x1000 + i), Mapping: mappings[m]}
		p.Location = append(p.Location, l)
		p.Sample[0].Location = append(p.Sample[0].Location, l)
	}
	return p
}

// TestMappingCarriers: only what stands behind a mapping of a sample, with the same range, is an attribute of it.
func TestMappingCarriers(t *testing.T) {
	carries := func(key, value string) *profile.Mapping {
		return &profile.Mapping{File: carrier + " " + key, BuildID: value}
	}
	const gnu = `"process.executable.build_id.gnu"=Str "c0ffee" ""`
	app := func() *profile.Mapping { return &profile.Mapping{File: "/bin/app", BuildID: "c0ffee"} }
	for _, c := range []struct {
		name   string
		behind []*profile.Mapping
		want   string
	}{
		{"its own", []*profile.Mapping{carries(attrBuildIDGo, "a/b"), carries("k:json", "1")},
			`"k"=Int "1" "",` + gnu + `,"process.executable.build_id.go"=Str "a/b" ""`},
		{"the same key twice", []*profile.Mapping{carries("k", "1"), carries("k", "2")}, `"k"=Str "1" "",` + gnu},
		{"another range", []*profile.Mapping{{File: carrier + " k", BuildID: "1", Limit: 1}}, gnu},
		{"of a mapping without samples", []*profile.Mapping{{File: "/bin/other"}, carries("k", "1")}, gnu},
		{"a better build id", []*profile.Mapping{carries(attrBuildIDGNU, "aa")}, gnu},
		{"a flag", []*profile.Mapping{carries(attrHasLines+suffixJSON, "true")}, gnu},
		{"main", []*profile.Mapping{carries(attrMain+suffixJSON, "true")}, gnu},
		{"no flag", []*profile.Mapping{carries(attrHasLines, "x")}, `"pprof.mapping.has_line_numbers"=Str "x" "",` + gnu},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := withMappings(append([]*profile.Mapping{app()}, c.behind...), 0)
			out, err := ToOTLP(p, ToOptions{})
			if err != nil {
				t.Fatal(err)
			}
			r := reader{out.Dictionary()}
			if got := r.attributes(r.t.MappingTable().At(1).AttributeIndices()); got != c.want {
				t.Errorf("%s, not %s", got, c.want)
			}
			comesBack(t, p)
		})
	}
}

// TestTooManyCarriers: FromOTLP takes everything that ToOTLP makes, so that has a bound too.
func TestTooManyCarriers(t *testing.T) {
	for _, c := range []struct {
		n  int
		ok bool
	}{{maxCarried, true}, {maxCarried + 1, false}} {
		app := &profile.Mapping{File: "/bin/app", HasFunctions: true, HasFilenames: true, HasLineNumbers: true, HasInlineFrames: true}
		mappings := []*profile.Mapping{app}
		for i := range c.n {
			mappings = append(mappings, &profile.Mapping{File: fmt.Sprint(carrier, " k", i), BuildID: "x"})
		}
		if ok := comesBack(t, withMappings(mappings, 0)); ok != c.ok {
			t.Errorf("%d: taken is %v", c.n, ok)
		}
	}
}

// TestMainMapping: ToOTLP says which mapping is the main binary's where OTLP does not tell by itself, and only there.
func TestMainMapping(t *testing.T) {
	full := func(file string) *profile.Mapping { return &profile.Mapping{File: file, BuildID: "c0ffee"} }
	plain := func(file string) *profile.Mapping { return &profile.Mapping{File: file} }
	for _, c := range []struct {
		name       string
		mappings   []*profile.Mapping
		locations  []int
		executable string
		says       int // locations that are said to be in it
	}{
		{"the only one", []*profile.Mapping{plain("/a")}, []int{0}, "", 0},
		{"first in the table", []*profile.Mapping{full("/a"), full("/b")}, []int{1, 0}, "", 0},
		{"before what is in no table", []*profile.Mapping{full("/a"), plain("/b")}, []int{1, 0}, "", 0},
		{"first of the locations", []*profile.Mapping{plain("/a"), plain("/b")}, []int{0, 1}, "", 0},
		{"second of the locations", []*profile.Mapping{plain("/a"), plain("/b")}, []int{1, 0}, "", 1},
		{"behind the table", []*profile.Mapping{plain("/a"), full("/b")}, []int{0, 1}, "", 1},
		{"twice", []*profile.Mapping{plain("/a"), plain("/b"), plain("/a")}, []int{1, 0, 2}, "", 2},
		{"nobody's", []*profile.Mapping{plain("/a"), plain("/b"), plain("/c")}, []int{2, 1}, "", 1},
		{"a type", []*profile.Mapping{plain("[jvm]"), plain("/b")}, []int{1, 0}, "", 1},
		{"the executable", []*profile.Mapping{plain("/a"), full("/b")}, []int{1, 0}, "/a", 0},
		{"another executable", []*profile.Mapping{plain("/a"), plain("/b")}, []int{0, 1}, "/b", 1},
		{"another executable, in the table", []*profile.Mapping{full("/a"), full("/b")}, []int{0, 1}, "/b", 1},
		{"an unknown executable", []*profile.Mapping{plain("/a"), plain("/b")}, []int{0, 1}, "/x", 0},
		{"executable that is no text", []*profile.Mapping{plain("/a\xff"), plain("/b")}, []int{1, 0}, "/a\xff", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := withMappings(c.mappings, c.locations...)
			if c.executable != "" {
				p.Sample[0].Label = map[string][]string{attrExecutable: {c.executable}}
			}
			out, err := ToOTLP(p, ToOptions{})
			if err != nil {
				t.Fatal(err)
			}
			r, says := reader{out.Dictionary()}, 0
			for i := range r.t.LocationTable().Len() {
				if s := r.location(i); strings.Contains(s, `"main":`) || strings.Contains(s, attrMain) {
					says++
				}
			}
			if says != c.says {
				t.Errorf("%d locations say it, not %d", says, c.says)
			}
			comesBack(t, p)
		})
	}
	p := withMappings([]*profile.Mapping{plain("/a"), plain("/b")}, 1, 0)
	for _, file := range []string{"/a", "/b"} { // two executables tell nothing
		p.Sample = append(p.Sample, &profile.Sample{
			Value: []int64{1, 1}, Location: p.Location, Label: map[string][]string{attrExecutable: {file}},
		})
	}
	p.Sample = p.Sample[1:]
	comesBack(t, p)
}

// TestForbiddenMappingKeepsAll: what a mapping that OTLP forbids carries comes back, with its units.
func TestForbiddenMappingKeepsAll(t *testing.T) {
	p := minimal(t)
	m := p.dict.MappingTable().At(1)
	m.AttributeIndices().FromRaw(nil) // no build id
	p.attribute(m.AttributeIndices(), "size", pcommon.NewValueInt(7), "By")
	p.str(m.AttributeIndices(), "kind", "x")
	p.attribute(m.AttributeIndices(), attrMain, pcommon.NewValueBool(false), "")
	profiles, err := FromOTLP(p.out, FromOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		all := carriersOf(profiles[0])
		if want := `["[attribute] kind x" "[attribute] size:json {\"$unit\":\"By\",\"$value\":7}"]`; fmt.Sprintf("%q", all) != want {
			t.Fatalf("%q, not %s", all, want)
		}
		if profiles, err = FromOTLP(back(t, profiles)[0], FromOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMappingOfAttributesOnly: a mapping that has nothing but attributes that pprof has no field for is there.
func TestMappingOfAttributesOnly(t *testing.T) {
	p := minimal(t)
	m := p.dict.MappingTable().At(1)
	m.SetFilenameStrindex(0)
	m.SetMemoryStart(0)
	m.SetMemoryLimit(0)
	m.AttributeIndices().FromRaw(nil)
	p.str(m.AttributeIndices(), attrBuildIDGNU, "C0FFEE") // not as the conventions write it, so it is no build id of pprof's
	profiles, err := FromOTLP(p.out, FromOptions{})
	if err != nil {
		t.Fatal(err)
	}
	sameFacts(t, otlpFacts(false, back(t, profiles)...), otlpFacts(false, p.out))
}

func carriersOf(p *profile.Profile) (all []string) {
	for _, m := range p.Mapping {
		if strings.HasPrefix(m.File, carrier) {
			all = append(all, m.File+" "+m.BuildID)
		}
	}
	slices.Sort(all)
	return all
}

// TestMainOfPayload: what the payload says of the main binary is kept, at an address outside of its mapping too.
func TestMainOfPayload(t *testing.T) {
	p := minimal(t)
	m := p.dict.MappingTable().AppendEmpty()
	m.SetFilenameStrindex(p.text("/bin/main"))
	p.str(m.AttributeIndices(), attrBuildIDGNU, "aa")
	p.yes(m.AttributeIndices(), attrMain)
	l := p.dict.LocationTable().AppendEmpty()
	l.SetMappingIndex(2)
	l.SetAddress(math.MaxUint64)
	p.dict.StackTable().At(1).LocationIndices().Append(2)
	profiles, err := FromOTLP(p.out, FromOptions{})
	if err != nil || profiles[0].Mapping[0].File != "/bin/main" {
		t.Fatalf("%v, %v", profiles, err)
	}
	comesBack(t, profiles[0])
}
