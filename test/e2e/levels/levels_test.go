package levels

import (
	"slices"
	"strings"
	"testing"

	"github.com/hostprofiles/hostprofiles/test/e2e/analysis"
)

// stack is a sample of frames "NAME:LINE"; what is behind a "+" is in the frame before it.
func stack(kind, file string, frames ...string) analysis.Sample {
	s := analysis.Sample{Count: 1}
	for _, text := range frames {
		i := strings.LastIndexByte(text, ':')
		line := analysis.Line{Name: strings.TrimPrefix(text[:i], "+"), File: file}
		for _, c := range text[i+1:] {
			line.Line = 10*line.Line + int64(c-'0')
		}
		if strings.HasPrefix(text, "+") {
			last := &s.Frames[len(s.Frames)-1]
			last.Lines = append(last.Lines, line)
		} else {
			s.Frames = append(s.Frames, analysis.Frame{Type: kind, Lines: []analysis.Line{line}})
		}
	}
	return s
}

type step struct {
	what                    string
	change                  func(s *analysis.Sample)
	samples, chains, placed int
}

func check(t *testing.T, good analysis.Sample, judge func(analysis.Samples) *Report, steps []step) {
	t.Helper()
	for _, tt := range steps {
		s := good
		s.Frames = slices.Clone(good.Frames)
		for i := range s.Frames {
			s.Frames[i].Lines = slices.Clone(s.Frames[i].Lines)
		}
		tt.change(&s)
		r := judge(analysis.Samples{s})
		if r.Samples != tt.samples || r.Chains != tt.chains || r.Placed != tt.placed || len(r.Wrong) != tt.samples-tt.placed {
			t.Errorf("%s: %v, %v", tt.what, r, r.Wrong)
		}
	}
}

func none(*analysis.Sample) {}

func at(i int, line int64) func(s *analysis.Sample) {
	return func(s *analysis.Sample) { s.Frames[i].Lines[0].Line = line }
}

func drop(i int) func(s *analysis.Sample) {
	return func(s *analysis.Sample) { s.Frames = slices.Delete(s.Frames, i, i+1) }
}

func TestPython(t *testing.T) {
	source := Lines([]byte("def hotTen(n):\n for i in range(n):\n  x = 1  # line of hotTen\nself.callTen(n)\nreturn hotTen(n)\nb[0](n)\nrounds(until)\nmain(sys.argv)"))
	good := stack("cpython", "", "hotTen:3", "Ten.callTen:5", "Ten.__init__:4", "rounds:6", "main:7", "<module>:8")
	check(t, good, func(s analysis.Samples) *Report { return Python(s, source) }, []step{
		{"good", none, 1, 1, 1},
		{"at the for statement", at(0, 2), 1, 1, 1},
		{"at the def statement", at(0, 1), 1, 1, 0},
		{"at another call", at(2, 5), 1, 1, 0},
		{"at no line", at(3, 0), 1, 1, 0},
		{"at a line behind all", at(3, 1<<40), 1, 1, 0},
		{"without rounds", drop(3), 1, 0, 0},
		{"without the function", drop(0), 0, 0, 0},
		{"a caller without a line", func(s *analysis.Sample) { s.Frames[1].Lines = nil }, 1, 0, 0},
		{"native code between", func(s *analysis.Sample) {
			s.Frames = slices.Insert(s.Frames, 1, analysis.Frame{Type: "native"})
		}, 1, 1, 1},
	})
}

func TestJava(t *testing.T) {
	source := Lines([]byte("x; // line of hotThirty\n// calls hotThirty\n// calls Thirty.call\n// calls callThirty\n// calls round\n// calls rounds"))
	good := stack("jvm", "", "Levels.hotThirty:1", "+Levels$Thirty.call:2", "Levels.callThirty:3", "Levels.round:4", "Levels.rounds:5", "Levels.main:6")
	judge := func(s analysis.Samples) *Report { return Java(s, source, false) }
	check(t, good, judge, []step{
		{"good", none, 1, 1, 1},
		{"at a call", at(0, 2), 1, 1, 0},
		{"at another call", at(1, 5), 1, 1, 0},
		{"without main", drop(4), 1, 0, 0},
		{"without the function", drop(0), 0, 0, 0},
		{"more behind it", func(s *analysis.Sample) { s.Frames = append(s.Frames, s.Frames[0]) }, 1, 0, 0},
	})
	check(t, good, func(s analysis.Samples) *Report { return Java(s, source, true) }, []step{
		{"another end", func(s *analysis.Sample) { s.Frames[4].Lines[0].Name = "java.lang.VirtualThread.run" }, 1, 1, 1},
	})
}

func TestNode(t *testing.T) {
	source := Lines([]byte("Math.imul\nhotTen(x)\n[n].map(x)\ntenth(1)\nrounds(order)\nmain(1)"))
	good := stack("v8js", "/x/levels.js", "hotTen:1", "+each:2", "Builtins_ArrayMap:0", "tenth:3", "rounds:4", "main:5", "(anonymous):6")
	check(t, good, func(s analysis.Samples) *Report { return Node(s, source) }, []step{
		{"good", none, 1, 1, 1},
		{"another line", at(0, 2), 1, 1, 0},
		{"without map", drop(1), 1, 1, 1}, // it may have been put in place of its call
		{"without rounds", drop(3), 1, 0, 0},
		{"a native function", func(s *analysis.Sample) { s.Frames[2].Type = "native" }, 1, 0, 0},
		{"another file", func(s *analysis.Sample) { s.Frames[3].Lines[0].File = "other.js" }, 1, 0, 0},
		{"without the function", drop(0), 0, 0, 0},
	})
}

func TestShares(t *testing.T) {
	r := newReport()
	r.Samples, r.ByFunction = 100, map[string]int{"hotSixty": 55, "hotThirty": 32, "hotTen": 13}
	if e := r.ShareError(); e < 0.0499 || e > 0.0501 {
		t.Error(e)
	}
}
