// Package levels judges stacks of the programs in Python, JavaScript and Java that burn 60, 30 and 10 % of their time in hotSixty, hotThirty and
// hotTen, each called through levels of calls: python/threeway.py, js/levels.js and java/Levels.java of testdata/workloads.
package levels

import (
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hostprofiles/hostprofiles/test/e2e/analysis"
)

// Report is what samples show of a program.
type Report struct {
	Samples    int            // in one of the three functions
	ByFunction map[string]int // of these, by function
	Chains     int            // of these, with exactly the true functions from there to the program's first
	Placed     int            // of these, with each at its line
	Inlined    int            // samples with functions in place of calls
	Carried    int            // in virtual threads: with the frames of the carrier
	Wrong      map[string]int // the other stacks, and how often each was there
	Without    map[string]int // stacks without one of the three
}

func newReport() *Report {
	return &Report{ByFunction: map[string]int{}, Wrong: map[string]int{}, Without: map[string]int{}}
}

// Shares are what the three functions should have.
func Shares() map[string]float64 {
	return map[string]float64{"hotSixty": 0.6, "hotThirty": 0.3, "hotTen": 0.1}
}

// ShareError is the largest difference of a function's share from what it should be.
func (r *Report) ShareError() (worst float64) {
	for name, want := range Shares() {
		worst = max(worst, math.Abs(float64(r.ByFunction[name])/float64(max(r.Samples, 1))-want))
	}
	return worst
}

func (r *Report) String() string {
	return fmt.Sprintf("%d samples in the three functions, %v, %d with the true chain, %d of them with each at its line", r.Samples, r.ByFunction, r.Chains, r.Placed)
}

// Lines are a source's, from the first, with room behind the last.
func Lines(source []byte) []string {
	return append(append([]string{""}, strings.Split(string(source), "\n")...), make([]string, 1<<16)...)
}

// Frequent describes the n stacks that were there most often.
func Frequent(counts map[string]int, n int) (text []string) {
	keys := slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return counts[b] - counts[a] })
	for _, k := range keys[:min(len(keys), n)] {
		text = append(text, fmt.Sprintf("%d times: %s", counts[k], k))
	}
	return text
}

// add counts a stack with one of the functions.
func (r *Report) add(function string, count int, chain, placed bool, describe func() string) {
	r.Samples += count
	r.ByFunction[function] += count
	if chain {
		r.Chains += count
	}
	if chain && placed {
		r.Placed += count
		return
	}
	r.Wrong[describe()] += count
}

// lineOf is a source's line that a frame is at, empty if there is none.
func lineOf(source []string, line int64) string {
	if line <= 0 || line >= int64(len(source)) {
		return ""
	}
	return source[line]
}

// pythonChains are the functions behind each that burns; names before 3.11 are not qualified.
func pythonChains() map[string][]string {
	return map[string][]string{
		"hotSixty":  {"callSixty.<locals>.<lambda>", "callSixty", "rounds", "main", "<module>"},
		"hotThirty": {"generate", "callThirty", "rounds", "main", "<module>"},
		"hotTen":    {"Ten.callTen", "Ten.__init__", "rounds", "main", "<module>"},
	}
}

// pythonCall is what a function's line has when it calls another.
func pythonCall(name string) string {
	switch name[strings.LastIndexByte(name, '.')+1:] {
	case "<lambda>":
		return ": hotSixty("
	case "callSixty":
		return "sorted("
	case "generate":
		return "yield hotThirty("
	case "callThirty":
		return "sum(generate("
	case "callTen":
		return "hotTen("
	case "__init__":
		return "self.callTen("
	case "rounds":
		return "b[0](n)"
	case "main":
		return "rounds(until)"
	}
	return "main(sys.argv)"
}

// Python wants the frames of Python to be all that there should be, in order, and each to be at its line: that of the loop for the
// function itself, that of a call of the next one for the others.
func Python(samples analysis.Samples, source []string) *Report {
	r := newReport()
	for _, s := range samples {
		python := slices.DeleteFunc(analysis.Spread(s.User()), func(f analysis.Frame) bool { return f.Type != "cpython" })
		i := slices.IndexFunc(python, func(f analysis.Frame) bool { return strings.HasPrefix(f.Name(), "hot") })
		if i < 0 {
			continue
		}
		got := python[i:]
		want := append([]string{got[0].Name()}, pythonChains()[got[0].Name()]...)
		chain, placed := len(got) == len(want), true
		for n := 0; chain && n < len(want); n++ {
			if chain = strings.HasSuffix(want[n], got[n].Name()) && len(got[n].Lines) > 0; !chain {
				break
			}
			at := got[n].Lines[0].Line
			if has := "line of " + want[0]; n == 0 { // or the for statement above it
				placed = strings.HasSuffix(lineOf(source, at), has) || strings.HasSuffix(lineOf(source, at+1), has)
			} else {
				placed = placed && strings.Contains(lineOf(source, at), pythonCall(want[n]))
			}
		}
		r.add(got[0].Name(), s.Count, chain, placed, func() string { return describe(got) })
	}
	return r
}

func describe(frames []analysis.Frame) (text string) {
	for _, f := range frames {
		line := int64(0)
		if len(f.Lines) > 0 {
			line = f.Lines[0].Line
		}
		text += fmt.Sprintf("\n\t%s:%d", f.Name(), line)
	}
	return text
}

// javaChains are the methods behind each that burns, as far as rounds. The lambda's own class is not there once it is inlined.
func javaChains() map[string][]string {
	return map[string][]string{
		"Levels.hotSixty":  {"Levels.lambda$callSixty$0", "Levels.apply", "Levels.callSixty", "Levels.round", "Levels.rounds"},
		"Levels.hotThirty": {"Levels$Thirty.call", "Levels.callThirty", "Levels.round", "Levels.rounds"},
		"Levels.hotTen":    {"Levels$Ten.<init>", "Levels.callTen", "Levels.round", "Levels.rounds"},
	}
}

// javaCall is what the program's comments call a method.
func javaCall(method string) string {
	switch method {
	case "Levels.lambda$callSixty$0":
		return "callSixty's lambda"
	case "Levels$Ten.<init>":
		return "Ten's constructor"
	case "Levels$Thirty.call":
		return "Thirty.call"
	}
	return strings.TrimPrefix(method, "Levels.")
}

// Java wants the frames of Java to be all that there should be, in order, and each to be at its line: that of the loop for the method
// itself, else one that says what it calls. A virtual thread has others behind them.
func Java(samples analysis.Samples, source []string, virtual bool) *Report {
	r := newReport()
	for _, s := range samples {
		java := slices.DeleteFunc(analysis.Spread(s.User()), func(f analysis.Frame) bool { return f.Type != "jvm" })
		i := slices.IndexFunc(java, func(f analysis.Frame) bool { return strings.HasPrefix(f.Name(), "Levels.hot") })
		if i < 0 {
			continue
		}
		want := append([]string{java[i].Name()}, javaChains()[java[i].Name()]...)
		if !virtual {
			want = append(want, "Levels.main")
		}
		got := slices.DeleteFunc(slices.Clone(java[i:]), func(f analysis.Frame) bool {
			return strings.HasPrefix(f.Name(), "Levels$$Lambda") // the object that calls the lambda's body
		})
		chain, placed := len(got) == len(want) || virtual && len(got) > len(want), true
		for n := 0; chain && n < len(want); n++ {
			if chain = got[n].Name() == want[n] && len(got[n].Lines) > 0; !chain {
				break
			}
			text := lineOf(source, got[n].Lines[0].Line)
			if n == 0 {
				placed = placed && strings.Contains(text, "of "+strings.TrimPrefix(want[0], "Levels."))
			} else {
				placed = placed && strings.HasSuffix(text, "// calls "+javaCall(want[n-1]))
			}
		}
		if slices.ContainsFunc(java[i:], func(f analysis.Frame) bool { return f.Name() == "java.util.concurrent.ForkJoinWorkerThread.run" }) {
			r.Carried += s.Count
		}
		r.add(strings.TrimPrefix(java[i].Name(), "Levels."), s.Count, chain, placed, func() string { return describe(java) })
	}
	return r
}

// nodeChains are the functions behind each that burns; map is V8's own.
func nodeChains() map[string][]string {
	return map[string][]string{
		"hotSixty":  {"call", "start", "rounds", "main", "(anonymous)"},
		"hotThirty": {"inner", "outer", "rounds", "main", "(anonymous)"},
		"hotTen":    {"each", "map", "tenth", "rounds", "main", "(anonymous)"},
	}
}

// nodeCall is a call of a source: in the physical frame that has it, or inlined there.
type nodeCall struct {
	analysis.Line
	kind string
}

// Node wants the frames of JavaScript to be all that there should be, in order, down to the module, and each to be at its line: that of
// the loop for the function itself, that of a call of the next one for the others.
func Node(samples analysis.Samples, source []string) *Report {
	r := newReport()
	for _, s := range samples {
		var calls []nodeCall
		for _, f := range s.User() {
			for _, l := range f.Lines {
				if f.Type == "v8js" || len(calls) > 0 {
					calls = append(calls, nodeCall{l, f.Type})
				}
			}
		}
		i := slices.IndexFunc(calls, func(c nodeCall) bool { return strings.HasPrefix(c.Name, "hot") })
		if i < 0 {
			text := ""
			for _, f := range s.User() {
				text += "\n\t" + f.Type + " " + f.Mapping + " " + f.Name()
			}
			r.Without[s.StopReason+" "+text] += s.Count
			continue
		}
		if slices.ContainsFunc(s.User(), func(f analysis.Frame) bool { return len(f.Lines) > 1 && f.Type == "v8js" }) {
			r.Inlined += s.Count
		}
		calls = calls[i:]
		r.add(calls[0].Name, s.Count, nodeChain(calls, nil), nodeChain(calls, source), func() string {
			var names []string
			for _, c := range calls {
				names = append(names, c.Name+":"+strings.TrimSpace(lineOf(source, c.Line.Line)))
			}
			return strings.Join(names, " < ")
		})
	}
	return r
}

// nodeChain tells whether the calls begin with the true ones, the innermost first; source is nil if lines do not matter.
func nodeChain(calls []nodeCall, source []string) bool {
	want := append([]string{calls[0].Name}, nodeChains()[calls[0].Name]...)
	at := 0
	for n, name := range want {
		if at >= len(calls) {
			return false
		}
		c := calls[at]
		if name == "map" { // V8's own: Builtins_ArrayMap, perhaps with another
			for at < len(calls) && strings.HasPrefix(calls[at].Name, "Builtins_") {
				at++
			}
			continue
		}
		at++
		if c.Name != name || c.kind != "v8js" || filepath.Base(c.File) != "levels.js" {
			return false
		}
		if source == nil {
			continue
		}
		text, has := lineOf(source, c.Line.Line), "Math.imul"
		switch {
		case n > 0 && want[n-1] == "map":
			has = "map("
		case n > 0:
			has = want[n-1] + "("
		}
		if !strings.Contains(text, has) {
			return false
		}
	}
	return true
}
