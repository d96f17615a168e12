package e2e

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
	"github.com/hostprofiles/hostprofiles/test/e2e/analysis"
)

// nodeRuns are ways to run a program: what V8 makes of it.
func nodeRuns() map[string][]string {
	return map[string][]string{
		"default":     nil,
		"interpreted": {"--no-opt", "--no-sparkplug", "--no-use-osr"},
		"baseline":    {"--no-opt", "--always-sparkplug"},
		"noinlining":  {"--no-turbo-inlining"},
	}
}

// TestNode names the functions of the Node.js that is installed, however V8 runs them: those that it puts in place of calls, too.
func TestNode(t *testing.T) {
	node := unwindtest.Node(t)
	for name, flags := range nodeRuns() {
		if full() || name == "default" || name == "interpreted" {
			t.Run(name, func(t *testing.T) { runNode(t, node, "", name, flags) })
		}
	}
}

// TestNodeVersions does the same with the Node.js of other versions.
func TestNodeVersions(t *testing.T) {
	needsFull(t)
	unwindtest.Need(t, "npm")
	for _, line := range scriptLines(t, 2, "nodes.sh") {
		version, path := line[0], line[1]
		for name, flags := range nodeRuns() {
			if name == "baseline" && (version == "12" || version == "14") {
				continue // there is none yet
			}
			switch {
			case version == "12" || version == "14":
				flags = slices.DeleteFunc(slices.Clone(flags), func(f string) bool { return strings.Contains(f, "sparkplug") })
			case version >= "22" && flags != nil: // Maglev compiles what TurboFan may not, in its own way
				flags = append(slices.Clone(flags), "--no-maglev")
			}
			t.Run(version+"/"+name, func(t *testing.T) { runNode(t, path, version, name, flags) })
		}
	}
}

func runNode(t *testing.T, node, version, mode string, flags []string) {
	t.Helper()
	named, lines := 0.93, 0.999 // the rest is node's start
	if version == "14" {
		named = 0.8 // of loops that were put into their callers, one sample in ten is the caller's by V8's own tables
	}
	if mode == "interpreted" { // some handlers have their place in the bytecode where it is not found
		lines = 0.95
	}
	runJIT(t, jitRun{
		name: "Node.js", command: append(append([]string{node}, flags...), source(t, "js/levels.js")), executable: "node",
		kind: "v8js", file: "levels.js", named: named, lines: lines, complete: 0.99, chainsByCheck: true,
		before: func(t *testing.T) { // the first that is seen of such a large file is walked before its table is made
			t.Helper()
			if err := exec.Command(node, source(t, "js/levels.js"), "1").Run(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(6 * time.Second)
		},
		check: func(t *testing.T, samples analysis.Samples) {
			t.Helper()
			lines := min(lines, 0.98)
			if (version == "24" || version == "26") && flags == nil { // Maglev, which repeats the positions of loops' ends in loops that it peels
				lines = min(lines, 0.85)
			}
			checkNode(t, samples, lines)
		},
	})
}

// nodeChains are the functions behind each that burns, as far as main.
func nodeChains() map[string][]string {
	return map[string][]string{
		"hotSixty":  {"call", "start", "rounds"},
		"hotThirty": {"inner", "outer", "rounds"},
		"hotTen":    {"each", "map", "tenth", "rounds"},
	}
}

// nodeCall is a call of a source: in the physical frame that has it, or inlined there.
type nodeCall struct {
	analysis.Line
	kind string
}

// checkNode wants the frames of JavaScript from a function that burns on to be all that there should be, in order, down to the module, and
// each to be at its line: that of the loop for the function itself, that of a call of the next one for the others.
func checkNode(t *testing.T, samples analysis.Samples, wantLines float64) {
	text, err := os.ReadFile(source(t, "js/levels.js"))
	if err != nil {
		t.Fatal(err)
	}
	lines := append(strings.Split(string(text), "\n"), make([]string, 10)...)
	named, good, total, inlined := 0, 0, 0, 0
	wrong, without := map[string]int{}, map[string]int{}
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
			without[s.StopReason+" "+text] += s.Count
			continue
		}
		if slices.ContainsFunc(s.User(), func(f analysis.Frame) bool { return len(f.Lines) > 1 && f.Type == "v8js" }) {
			inlined += s.Count
		}
		total += s.Count
		if trueNodeChain(calls[i:], nil) {
			named += s.Count
		}
		if trueNodeChain(calls[i:], lines) {
			good += s.Count
			continue
		}
		var names []string
		for _, c := range calls {
			names = append(names, c.Name+":"+strings.TrimSpace(lines[int(max(c.Line.Line-1, 0))%len(lines)]))
		}
		wrong[strings.Join(names, " < ")] += s.Count
	}
	t.Logf("%d of %d samples have inlined calls", inlined, total)
	atLeast(t, "samples with exactly the true chain of functions", named, total, 0.98)
	atLeast(t, "samples with exactly the true chain of functions and lines", good, total, wantLines)
	for n, stack := range frequent(without) {
		if n < 6 {
			t.Logf("%d times without: %s", without[stack], stack)
		}
	}
	for n, stack := range frequent(wrong) {
		if n < 6 {
			t.Logf("%d times: %s", wrong[stack], stack)
		}
	}
}

// frequent are the keys, those with the largest values first.
func frequent(m map[string]int) []string {
	return slices.SortedFunc(maps.Keys(m), func(a, b string) int { return m[b] - m[a] })
}

// trueNodeChain tells whether the calls begin with the true ones, the innermost first; lines are those of the source, nil if they do not
// matter.
func trueNodeChain(calls []nodeCall, lines []string) bool {
	want := append(append([]string{calls[0].Name}, nodeChains()[calls[0].Name]...), "main", "(anonymous)")
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
		if lines == nil {
			continue
		}
		if c.Line.Line <= 0 || c.Line.Line > int64(len(lines)) {
			return false
		}
		switch text := lines[c.Line.Line-1]; {
		case n == 0 && !strings.Contains(text, "Math.imul"):
			return false
		case n > 0 && want[n-1] != "map" && !strings.Contains(text, want[n-1]+"("):
			return false
		case n > 0 && want[n-1] == "map" && !strings.Contains(text, "map("):
			return false
		}
	}
	return true
}
