package e2e

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostprofiles/hostprofiles/test/e2e/analysis"
	"github.com/hostprofiles/hostprofiles/test/e2e/harness"
	"github.com/hostprofiles/hostprofiles/test/e2e/levels"
)

// cpython is an interpreter.
type cpython struct {
	name    string // of tests
	version string
	root    string // of its own; empty: the machine's
	path    string // in the root
}

// pythons unpacks interpreters of several versions, oldest first.
func pythons(t testing.TB) (all []cpython) {
	t.Helper()
	for _, line := range scriptLines(t, 2, "pythons.sh") {
		all = append(all, cpython{line[0], line[0], line[1], "/usr/bin/python" + line[0]})
	}
	return all
}

// standalones are builds as uv installs them: the newest goes from instruction to instruction by tail calls.
func standalones(t testing.TB) (all []cpython) {
	t.Helper()
	for _, line := range scriptLines(t, 2, "standalones.sh") {
		all = append(all, cpython{name: "standalone " + line[0], version: line[0], path: line[1]})
	}
	return all
}

// pyenv's interpreters, oldest first, are of more versions than Debian's suites have. Where there are none, a test of that name says so.
func pyenv(t *testing.T) (all []cpython) {
	t.Helper()
	root := os.Getenv("PYENV_ROOT")
	if root == "" {
		root = filepath.Join(os.Getenv("HOME"), ".pyenv")
	}
	found, err := filepath.Glob(filepath.Join(root, "versions/*/bin/python[23].*"))
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`/python(\d\.\d+)$`)
	for _, path := range found {
		if m := version.FindStringSubmatch(path); m != nil {
			patch := filepath.Base(filepath.Dir(filepath.Dir(path)))
			all = append(all, cpython{name: "pyenv " + patch, version: m[1], path: path})
		}
	}
	slices.SortFunc(all, func(a, b cpython) int {
		return cmp.Or(cmp.Compare(len(a.version), len(b.version)), cmp.Compare(a.version, b.version)) // 3.9, 3.10
	})
	if len(all) == 0 {
		t.Run("pyenv", func(t *testing.T) { t.Skipf("%v: pyenv has no CPython on this machine", harness.ErrNotSupported) })
	}
	return all
}

// command is how a program of testdata/workloads/python is run, which is put into the interpreter's root.
func (c cpython) command(t testing.TB, program string) []string {
	t.Helper()
	if c.root == "" {
		return []string{c.path, source(t, "python/"+program)}
	}
	text, err := os.ReadFile(source(t, "python/"+program))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(c.root, program), text, 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"chroot", c.root, c.path, "/" + program}
}

// TestPython names the functions of stripped interpreters of several versions, with lines, in the right places between native frames.
func TestPython(t *testing.T) {
	all := pythons(t)
	more := append(pyenv(t), standalones(t)...)
	if !full() { // of the rest, the oldest and the newest version that Debian's suites have not, and the tail-calling one
		last := more[len(more)-1]
		more = slices.DeleteFunc(more[:len(more)-1], func(c cpython) bool {
			return slices.ContainsFunc(all, func(o cpython) bool { return o.version == c.version })
		})
		if len(more) > 2 {
			more = []cpython{more[0], more[len(more)-1]}
		}
		more = append(more, last)
	}
	for _, c := range append(all, more...) {
		t.Run(c.name, func(t *testing.T) { runPython(t, c) })
	}
}

func runPython(t *testing.T, c cpython) {
	runJIT(t, jitRun{
		name: "CPython " + c.name, command: c.command(t, "threeway.py"), executable: "python" + c.version,
		kind: "cpython", file: "threeway.py", named: 0.9, lines: 0.999, complete: 0.97, // its own check wants more than direct callers
		check: checkPython,
	})
}

// TestPythonTrampolines: -X perf leads to each Python function through code of its own, which has the function's name in a perf map. Each is
// shown once all the same.
func TestPythonTrampolines(t *testing.T) {
	all := slices.DeleteFunc(append(pyenv(t), pythons(t)...), func(c cpython) bool {
		return !slices.Contains([]string{"3.12", "3.13", "3.14", "3.15"}, c.version) || !full() && c.version != "3.13"
	})
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			runJIT(t, jitRun{
				name: "CPython " + c.name, command: c.command(t, "threeway.py"), executable: "python" + c.version, env: []string{"PYTHONPERFSUPPORT=1"},
				kind: "cpython", file: "threeway.py", named: 0.9, lines: 0.99, complete: 0.97, chainsByCheck: true,
				// until the interpreter is known, a function is named by the perf map, and its trampoline shown: what can be known before is
				before: firstRun(c.command(t, "threeway.py"), 0),
				during: func(t *testing.T, pid int) {
					t.Helper()
					names := filepath.Join(c.root, "/tmp", fmt.Sprintf("perf-%d.map", pid))
					t.Cleanup(func() { _ = os.Remove(names) })
					time.Sleep(time.Second)
					if text, err := os.ReadFile(names); err != nil || !strings.Contains(string(text), "py::hotSixty") {
						t.Errorf("there are no trampolines: %v", err)
					}
				},
				check: func(t *testing.T, samples analysis.Samples) {
					t.Helper()
					checkPython(t, samples)
					without := samples.Where(func(s analysis.Sample) bool {
						return !slices.ContainsFunc(s.User(), func(f analysis.Frame) bool { return anonymous(f.Mapping) })
					})
					atLeast(t, "samples without a trampoline's frame", without.Count(), samples.Count(), 0.99)
				},
			})
		})
	}
}

// TestPythonWithoutGIL finds the functions of threads that have released the GIL, to compress in C: the interpreter's own idea of what
// runs is that of another thread then, or none.
func TestPythonWithoutGIL(t *testing.T) {
	all := slices.DeleteFunc(append(append(pythons(t), pyenv(t)...), standalones(t)...), func(c cpython) bool { return c.version == "2.7" }) // docs/runtimes.md
	if !full() {
		all = slices.DeleteFunc(all, func(c cpython) bool { return c.root == "" })
		all = []cpython{all[0], all[len(all)-1]}
	}
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			j := jitRun{name: "CPython " + c.name, command: c.command(t, "nogil.py"), executable: "python" + c.version}
			s := start(t, harness.Options{Keep: j.keep(t)})
			warmUp()
			pid, cpu, _ := j.run(t)
			samples := stop(t, s).Samples.PID(pid)
			delivered(t, j.name, samples.Count(), cpu)
			compressing, right, wrong := 0, 0, map[string]int{}
			for _, sample := range samples {
				user := sample.User()
				// zlib is a library, or in the executable
				if len(user) == 0 || user[0].Type != "native" ||
					!strings.HasPrefix(filepath.Base(user[0].Mapping), "libz.") && !strings.HasPrefix(c.name, "standalone") {
					continue
				}
				compressing += sample.Count
				var names []string
				for _, f := range user {
					if f.Type == "cpython" {
						names = append(names, simple(f))
					}
				}
				if slices.Equal(names, []string{"compress", "work", "run", "_bootstrap_inner", "_bootstrap"}) {
					right += sample.Count
				} else {
					wrong[strings.Join(names, " < ")+" "+sample.StopReason] += sample.Count
				}
			}
			for stack, n := range wrong {
				t.Logf("%d times: %s", n, stack)
			}
			atLeast(t, "samples in the compressor", compressing, samples.Count(), 0.8)
			atLeast(t, "of them with the thread's functions", right, compressing, 0.9)
		})
	}
}

// TestPythonAwaits: of a coroutine that runs the callers are those that await it, as far as its task, then those of the event loop.
func TestPythonAwaits(t *testing.T) {
	all := slices.DeleteFunc(append(pyenv(t), pythons(t)...), func(c cpython) bool { return c.version == "2.7" })
	if !full() {
		all = slices.DeleteFunc(all, func(c cpython) bool { return c.version != "3.13" || c.root == "" })
	}
	loop := []string{"_run", "_run_once", "run_forever", "run_until_complete", "<module>"}
	chains := map[string][]string{
		"hotSixty": append([]string{"inner", "call", "sixty"}, loop...),
		"hotForty": append([]string{"generate", "consume", "forty"}, loop...),
	}
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			j := jitRun{name: "CPython " + c.name, command: c.command(t, "awaits.py"), executable: "python" + c.version}
			s := start(t, harness.Options{Keep: j.keep(t)})
			warmUp()
			_, _, _ = j.run(t) // what is sampled before a library's table is made has native frames only
			pid, cpu, _ := j.run(t)
			samples := stop(t, s).Samples.PID(pid)
			delivered(t, j.name, samples.Count(), cpu)
			burning, right, wrong := map[string]int{}, 0, map[string]int{}
			for _, sample := range samples {
				var names []string
				for _, f := range sample.User() {
					if f.Type == "cpython" {
						names = append(names, simple(f))
					}
				}
				i := slices.IndexFunc(names, func(name string) bool { return chains[name] != nil })
				if i < 0 {
					continue
				}
				burning[names[i]] += sample.Count
				if slices.Equal(names[i+1:], chains[names[i]]) {
					right += sample.Count
				} else {
					text := sample.StopReason
					for _, f := range sample.User() {
						text += fmt.Sprintf("\n\t%x %s %s %s", f.Address, f.Type, f.Mapping, f.Name())
					}
					wrong[text] += sample.Count
				}
			}
			logFrequent(t, wrong)
			all := burning["hotSixty"] + burning["hotForty"]
			atLeast(t, "samples in the two functions", all, samples.Count(), 0.85)
			atLeast(t, "of them with exactly those that await, and the event loop", right, all, 0.99)
			atLeast(t, "of them in hotForty", burning["hotForty"], all, 0.3)
			atLeast(t, "of them in hotSixty", burning["hotSixty"], all, 0.5)
		})
	}
}

// checkPython wants each sample that burns to have exactly its functions, each at its line.
func checkPython(t *testing.T, samples analysis.Samples) {
	t.Helper()
	r := levels.Python(samples, sourceLines(t, "python/threeway.py"))
	atLeast(t, "samples with exactly the true chain of Python functions and lines", r.Placed, r.Samples, 0.995)
	logFrequent(t, r.Wrong)
}

// logFrequent shows the most frequent ones.
func logFrequent(t *testing.T, counts map[string]int) {
	t.Helper()
	for _, text := range levels.Frequent(counts, 6) {
		t.Log(text)
	}
}
