package e2e

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hostprofiles/hostprofiles/test/e2e/analysis"
	"github.com/hostprofiles/hostprofiles/test/e2e/harness"
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
	more := pyenv(t)
	if !full() { // the oldest and the newest version that Debian's suites have not, of the rest
		more = slices.DeleteFunc(more, func(c cpython) bool {
			return slices.ContainsFunc(all, func(o cpython) bool { return o.version == c.version })
		})
		if len(more) > 2 {
			more = []cpython{more[0], more[len(more)-1]}
		}
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

// TestPythonWithoutGIL finds the functions of threads that have released the GIL, to compress in C: the interpreter's own idea of what
// runs is that of another thread then, or none.
func TestPythonWithoutGIL(t *testing.T) {
	all := slices.DeleteFunc(append(pythons(t), pyenv(t)...), func(c cpython) bool { return c.version == "2.7" }) // docs/runtimes.md
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
				if len(user) == 0 || !strings.HasPrefix(filepath.Base(user[0].Mapping), "libz.") {
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

// pythonChains are the functions behind each that burns, as far as rounds; names before 3.11 are not qualified.
func pythonChains() map[string][]string {
	return map[string][]string{
		"hotSixty":  {"callSixty.<locals>.<lambda>", "callSixty", "rounds"},
		"hotThirty": {"generate", "callThirty", "rounds"},
		"hotTen":    {"Ten.callTen", "Ten.__init__", "rounds"},
	}
}

// checkPython wants the frames of Python from a function that burns on to be all that there should be, in order, down to the module, and
// each to be at its line: that of the loop for the function itself.
func checkPython(t *testing.T, samples analysis.Samples) {
	lines := pythonLines(t)
	good, total := 0, 0
	wrong := map[string]int{}
	for _, s := range samples {
		var python []analysis.Frame
		for _, f := range s.User() {
			if f.Type == "cpython" {
				python = append(python, f)
			}
		}
		i := slices.IndexFunc(python, func(f analysis.Frame) bool { return strings.HasPrefix(f.Name(), "hot") })
		if i < 0 {
			continue
		}
		total += s.Count
		want := append([]string{python[i].Name()}, pythonChains()[python[i].Name()]...)
		want = append(want, "main", "<module>")
		got := python[i:]
		ok := len(got) == len(want)
		for n := 0; ok && n < len(want); n++ {
			name := got[n].Name()
			ok = name == want[n] || strings.HasSuffix(want[n], "."+name) || strings.HasSuffix(want[n], name)
			if n > 0 && ok { // at the call
				ok = len(got[n].Lines) > 0 && strings.Contains(lines[got[n].Lines[0].Line-1], "(")
			}
		}
		if ok {
			good += s.Count
			continue
		}
		var text []string
		for _, f := range got {
			text = append(text, f.Name())
		}
		wrong[strings.Join(text, " < ")] += s.Count
	}
	atLeast(t, "samples with exactly the true chain of Python functions", good, total, 0.995)
	for stack, n := range wrong {
		t.Logf("%d times: %s", n, stack)
	}
}

// pythonLines are those of the program.
func pythonLines(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(source(t, "python/threeway.py"))
	if err != nil {
		t.Fatal(err)
	}
	return append(strings.Split(string(text), "\n"), make([]string, 10)...)
}
