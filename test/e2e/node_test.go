package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
	"github.com/hostprofiles/hostprofiles/test/e2e/analysis"
	"github.com/hostprofiles/hostprofiles/test/e2e/levels"
)

// nodeRest is how long the table of such a large file may take.
const nodeRest = 6 * time.Second

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

// TestNodeOfDebian does the same with builds that have V8 in a stripped library.
func TestNodeOfDebian(t *testing.T) {
	needsFull(t)
	for _, line := range scriptLines(t, 2, "debnodes.sh") {
		version, root := line[0], line[1]
		text, err := os.ReadFile(source(t, "js/levels.js"))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, "levels.js"), text, 0o600); err != nil {
			t.Fatal(err)
		}
		for name, flags := range nodeRuns() {
			t.Run(version+"/"+name, func(t *testing.T) {
				command := append([]string{"chroot", root, "/usr/bin/node"}, flags...)
				runNodeProgram(t, append(command, "/levels.js"), version, name, flags)
			})
		}
	}
}

// TestDeno: V8 without constants for debuggers. It does not keep where in the source code is from, so that what was put in place of calls is
// not told apart: only code without that is judged.
func TestDeno(t *testing.T) {
	needsFull(t)
	unwindtest.Need(t, "npm")
	deno := scriptLines(t, 2, "nodes.sh", "deno")[0][1]
	for _, name := range []string{"interpreted", "baseline"} {
		t.Run(name, func(t *testing.T) {
			command := []string{deno, "run", "--allow-all", "--no-lock", "--v8-flags=" + strings.Join(append(nodeRuns()[name], "--no-maglev"), ","), source(t, "js/levels.js")}
			t.Setenv("DENO_DIR", t.TempDir())
			runJIT(t, jitRun{
				name: "Deno", command: command, executable: "deno", kind: "v8js", file: "levels.js",
				named: 0.93, lines: 0, complete: 0.98, chainsByCheck: true, // Deno has no unwind information: its start is guessed
				before: firstRun(command, nodeRest),
				check:  func(t *testing.T, samples analysis.Samples) { t.Helper(); checkNode(t, samples, 0) },
			})
		})
	}
}

func runNode(t *testing.T, node, version, mode string, flags []string) {
	t.Helper()
	runNodeProgram(t, append(append([]string{node}, flags...), source(t, "js/levels.js")), version, mode, flags)
}

func runNodeProgram(t *testing.T, command []string, version, mode string, flags []string) {
	t.Helper()
	named, lines := 0.93, 0.999 // the rest is node's start
	if version == "14" {
		named = 0.8 // of loops that were put into their callers, one sample in ten is the caller's by V8's own tables
	}
	if mode == "interpreted" { // some handlers have their place in the bytecode where it is not found
		lines = 0.95
	}
	runJIT(t, jitRun{
		name: "Node.js", command: command, executable: "node",
		kind: "v8js", file: "levels.js", named: named, lines: lines, complete: 0.99, chainsByCheck: true,
		before: firstRun(command, nodeRest),
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

// checkNode wants the samples that burn to have exactly their functions, and each at its line.
func checkNode(t *testing.T, samples analysis.Samples, wantLines float64) {
	t.Helper()
	r := levels.Node(samples, sourceLines(t, "js/levels.js"))
	t.Logf("%d of %d samples have inlined calls", r.Inlined, r.Samples)
	atLeast(t, "samples with exactly the true chain of functions", r.Chains, r.Samples, 0.98)
	atLeast(t, "samples with exactly the true chain of functions and lines", r.Placed, r.Samples, wantLines)
	t.Log("without a function that burns:")
	logFrequent(t, r.Without)
	t.Log("with others:")
	logFrequent(t, r.Wrong)
}
