package mix

import (
	"testing"

	"github.com/hostprofiles/hostprofiles/test/e2e/analysis"
)

// The aims for applications in languages whose functions are named, as parts of their stacks and of the language's frames.
const (
	completeApplication = 0.99
	namedApplication    = 0.97 // a compiler runs for two seconds, of which it is known for all but the first 50 to 150 ms
	linedApplication    = 0.95 // V8's builtins and stubs, HotSpot's stubs and native methods have no lines
)

// TestApplications profiles servers under load and tools in Python, JavaScript and Java, and writes a table of what came of their frames.
func TestApplications(t *testing.T) {
	needFull(t)
	if err := Modules(); err != nil {
		t.Fatal(err)
	}
	files, dir := Files{}, workDir(t)
	var tallies []*Tally
	for _, p := range chosen(t, Applications(), Applications()) {
		t.Run(p.Name, func(t *testing.T) {
			_, tally := measure(t, p, dir, files)
			judgeApplication(t, tally)
			tallies = append(tallies, tally)
		})
	}
	table := ApplicationTable(tallies)
	t.Log("\n" + table)
	write(t, "applications.md", table)
}

func judgeApplication(t *testing.T, tally *Tally) {
	t.Helper()
	if tally.Samples < enough {
		t.Errorf("%d samples, want %d", tally.Samples, enough)
	}
	for _, aim := range []struct {
		what string
		is   Ratio
		want float64
	}{
		{"stacks are complete", tally.All(), completeApplication},
		{"of the language's frames have a name", tally.LanguageNamed, namedApplication},
		{"of the language's frames have a line", tally.LanguageLined, linedApplication},
	} {
		if aim.is.Share() < aim.want || aim.is.All == 0 {
			t.Errorf("%v %s, want %.2f %%", aim.is, aim.what, 100*aim.want)
		}
	}
	for kind := Described; kind <= Made; kind++ {
		for _, line := range tally.Worst(kind, 5) {
			t.Log(line)
		}
	}
	for _, line := range tally.WithoutLine(12) {
		t.Log(line)
	}
}

// TestLanguageFrames counts frames of a runtime's, and those in code made at run time that nobody has named.
func TestLanguageFrames(t *testing.T) {
	named := func(kind string, line int64) analysis.Frame {
		return analysis.Frame{Type: kind, Lines: []analysis.Line{{Name: "f", Line: line}}}
	}
	s := analysis.Sample{Count: 2, Frames: []analysis.Frame{
		named("jvm", 3), named("jvm", 0), {Type: "native", Mapping: "[jit]", Address: 1}, named("native", 0), named("cpython", 1),
	}}
	s.Frames[3].Mapping = "[vdso]"
	tally := Count("x", analysis.Samples{s}, Files{})
	if tally.LanguageNamed != (Ratio{6, 8}) || tally.LanguageLined != (Ratio{4, 8}) {
		t.Errorf("%+v %+v", tally.LanguageNamed, tally.LanguageLined)
	}
}
