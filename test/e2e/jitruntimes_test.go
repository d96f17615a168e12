package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"

	"github.com/hostprofiles/hostprofiles/test/e2e/analysis"
	"github.com/hostprofiles/hostprofiles/test/e2e/harness"
	"github.com/hostprofiles/hostprofiles/test/e2e/workloads"
)

// jitRun is a program whose runtime compiles hotSixty, hotThirty and hotTen, which are called by callSixty, callThirty and callTen,
// and these by rounds.
type jitRun struct {
	name    string
	command []string // the CPU time in seconds is appended
	// executable is the base name of the file whose samples count; empty: the command's.
	executable string
	env        []string
	// before is called when the receiver runs, and the program does not yet.
	before func(t *testing.T)
	// during is called when the program has begun to work.
	during func(t *testing.T, pid int)

	// What is expected. Shares are of all samples, where not said otherwise.
	named   float64  // in the three functions; 0: without names
	kind    string   // of their frames
	file    string   // base name of the file that they are in; empty if nobody says
	lines   float64  // of those in the three functions: with a line
	callers []string // of the three functions, behind the one that calls them directly; nil: rounds
	// chainsByCheck: check looks at the callers.
	chainsByCheck bool
	chains        float64 // of those in the three functions: with the callers
	complete      float64
	unnamed       float64                   // in code without a name that tells its mapping and address
	memory        func(mapping string) bool // what such a mapping is called; nil: there is none
	// check looks at the samples further.
	check func(t *testing.T, samples analysis.Samples)
}

// jitReport is what was delivered of one.
type jitReport struct {
	samples, named, lines, chains, complete, unnamed int
	byFunction                                       map[string]int
	memory, stops, kinds                             map[string]int
	examples                                         map[string]string // a stack by the reason why it ends, of those that are most frequent
}

func (r jitReport) String() string {
	return fmt.Sprintf("%d samples, by function %v, with a line %d, with callers %d, without a name %d in %v, kinds %v, complete %.2f %%, stops %v",
		r.samples, r.byFunction, r.lines, r.chains, r.unnamed, r.memory, r.kinds, 100*float64(r.complete)/float64(max(r.samples, 1)), r.stops)
}

// runJIT runs the program under a receiver of its own and compares.
func runJIT(t *testing.T, j jitRun) {
	t.Helper()
	s := start(t, harness.Options{Keep: j.keep(t)})
	warmUp()
	if j.before != nil {
		j.before(t)
	}
	pid, cpu, said := j.run(t)
	samples := stop(t, s).Samples.PID(pid)
	delivered(t, j.name, samples.Count(), cpu)
	r := j.report(samples)
	t.Log(r)
	defer func() {
		if t.Failed() {
			for stop, example := range r.examples {
				t.Logf("the most frequent stack that ends with %q:%s", stop, example)
			}
		}
	}()
	if r.samples < 4000 {
		t.Errorf("%d samples are too few to judge shares", r.samples)
	}
	atLeast(t, "stacks that end at the root", r.complete, r.samples, j.complete)
	if j.named == 0 {
		if r.named > 0 {
			t.Errorf("%d samples have names that nobody told", r.named)
		}
		atLeast(t, "samples in code without a name that say where", r.unnamed, r.samples, j.unnamed)
		return
	}
	atLeast(t, "samples in the three functions", r.named, r.samples, j.named)
	atLeast(t, "samples in them with a line", r.lines, r.named, j.lines)
	if !j.chainsByCheck {
		atLeast(t, "samples in them with the true callers", r.chains, r.named, j.chains)
	}
	if n := r.kinds[j.kind]; n != r.named {
		t.Errorf("of %d frames %d are of the kind %q", r.named, n, j.kind)
	}
	if j.check != nil {
		j.check(t, samples)
	}
	for name, want := range shares(t, said) {
		if got := float64(r.byFunction[name]) / float64(max(r.named, 1)); math.Abs(got-want) > 0.03 {
			t.Errorf("%s has %.1f %%, want %.1f %%", name, 100*got, 100*want)
		}
	}
}

// firstRun runs a command for a second and then rests: what can be known of its files is known afterwards.
func firstRun(command []string, rest time.Duration) func(*testing.T) {
	return func(t *testing.T) {
		t.Helper()
		if err := exec.Command(command[0], append(command[1:len(command):len(command)], "1")...).Run(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(rest)
	}
}

// keep lets the samples of the file through that the command executes.
func (j jitRun) keep(t *testing.T) func(analysis.Sample) bool {
	t.Helper()
	if j.executable != "" {
		return runs(j.executable)
	}
	path, err := exec.LookPath(j.command[0])
	if err != nil {
		t.Fatal(err)
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		t.Fatal(err)
	}
	return runs(filepath.Base(path))
}

// shares are those of the three functions: by what the program says at its end, "TOOK" and how long it was in each (ns), else by how
// often it lets each loop. How fast the same loop runs differs by where compilers put it.
func shares(t *testing.T, said string) map[string]float64 {
	t.Helper()
	all := map[string]float64{"hotSixty": 0.6, "hotThirty": 0.3, "hotTen": 0.1}
	_, took, ok := strings.Cut(said, "TOOK ")
	if !ok {
		return all
	}
	var sixty, thirty, ten float64
	if _, err := fmt.Sscan(took, &sixty, &thirty, &ten); err != nil {
		t.Fatalf("%q: %v", said, err)
	}
	sum := sixty + thirty + ten
	t.Logf("the program was %.1f, %.1f and %.1f %% of the time in them", 100*sixty/sum, 100*thirty/sum, 100*ten/sum)
	told := map[string]float64{"hotSixty": sixty / sum, "hotThirty": thirty / sum, "hotTen": ten / sum}
	for name, share := range told {
		if math.Abs(share-all[name]) > 0.06 {
			t.Errorf("the program says that %s took %.1f %%", name, 100*share)
		}
	}
	return told
}

// run runs the program, and returns what it has said after it began to work.
func (j jitRun) run(t *testing.T) (pid int, cpu time.Duration, said string) {
	t.Helper()
	cmd := command(t, j.command[0], append(j.command[1:len(j.command):len(j.command)], fmt.Sprint(jitSeconds))...)
	cmd.Env = append(os.Environ(), j.env...)
	cmd.Stderr = os.Stderr
	cmd.Dir = t.TempDir()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid = cmd.Process.Pid
	t.Cleanup(func() {
		for _, name := range []string{"perf-%d.map", "perfinfo-%d.map", "jit-%d.dump"} {
			_ = os.Remove(filepath.Join("/tmp", fmt.Sprintf(name, pid)))
		}
	})
	r := bufio.NewReader(out)
	if line, err := r.ReadString('\n'); line != "READY\n" {
		t.Errorf("%q, %v", line, err)
	} else if j.during != nil {
		j.during(t, pid)
	}
	rest, err := io.ReadAll(r)
	if err := errors.Join(err, cmd.Wait()); err != nil {
		t.Fatal(err)
	}
	u := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	return pid, time.Duration(u.Utime.Nano() + u.Stime.Nano()), string(rest)
}

func (j jitRun) report(samples analysis.Samples) jitReport {
	r := jitReport{samples: samples.Count(), byFunction: map[string]int{}, memory: map[string]int{}, stops: stopsOf(samples), kinds: map[string]int{}}
	r.complete = r.stops[""]
	r.examples = examples(samples)
	for _, sample := range samples {
		user := analysis.Spread(sample.User())
		if len(user) == 0 {
			continue
		}
		if i := slices.IndexFunc(user, func(f analysis.Frame) bool { return hot(f) != "" }); i >= 0 {
			f := user[i]
			r.named += sample.Count
			r.byFunction[hot(f)] += sample.Count
			r.kinds[f.Type] += sample.Count
			if l := hotLine(f); l.Line > 0 && filepath.Base(l.File) == j.file {
				r.lines += sample.Count
			}
			callers := j.callers
			if callers == nil {
				callers = []string{"rounds"}
			}
			if calledBy(user[i+1:], append([]string{"call" + strings.TrimPrefix(hot(f), "hot")}, callers...)...) {
				r.chains += sample.Count
			}
			continue
		}
		i := slices.IndexFunc(user, func(f analysis.Frame) bool {
			return j.memory != nil && len(f.Lines) == 0 && f.Address != 0 && j.memory(f.Mapping)
		})
		if i >= 0 {
			r.unnamed += sample.Count
			r.memory[user[i].Mapping] += sample.Count
		}
	}
	return r
}

// examples shows the most frequent stack for each reason why stacks end.
func examples(samples analysis.Samples) map[string]string {
	counts, most := map[string]map[string]int{}, map[string]string{}
	for _, sample := range samples {
		text := ""
		for _, f := range analysis.Spread(sample.User()) {
			text += fmt.Sprintf("\n\t%x %s %s guessed %v", f.Address, f.Mapping, f.Name(), f.Guessed)
		}
		stop := sample.StopReason
		if counts[stop] == nil {
			counts[stop] = map[string]int{}
		}
		counts[stop][text] += sample.Count
		if counts[stop][text] > counts[stop][most[stop]] {
			most[stop] = text
		}
	}
	return most
}

// simple is a function's name without its class, beginning with a small letter.
func simple(f analysis.Frame) string { return simpleName(f.Name()) }

func simpleName(name string) string {
	name = name[strings.LastIndexByte(name, '.')+1:]
	for i, c := range name {
		return string(unicode.ToLower(c)) + name[i+len(string(c)):]
	}
	return ""
}

// hot is which of the three functions a frame is, or has in place of a call; empty if none.
func hot(f analysis.Frame) string { return simpleName(hotLine(f).Name) }

// hotLine is that of one of the three functions.
func hotLine(f analysis.Frame) analysis.Line {
	for _, l := range f.Lines {
		if name := simpleName(l.Name); name == "hotSixty" || name == "hotThirty" || name == "hotTen" {
			return l
		}
	}
	return analysis.Line{}
}

// calledBy tells whether the first frames are those of functions.
func calledBy(frames []analysis.Frame, functions ...string) bool {
	for i, name := range functions {
		if i >= len(frames) || simple(frames[i]) != name {
			return false
		}
	}
	return true
}

// anonymous tells whether a name is one that anonymous memory has.
func anonymous(mapping string) bool {
	return mapping == "[jit]" || strings.HasPrefix(mapping, "[anon") || strings.HasPrefix(mapping, "memfd:")
}

// compiled compiles one of workloads.JIT.
func compiled(t testing.TB, name string) string {
	t.Helper()
	i := slices.IndexFunc(workloads.JIT(), func(p workloads.Program) bool { return p.Name == name })
	if i < 0 {
		t.Fatalf("there is no program %s", name)
	}
	return buildProgram(t, workloads.JIT()[i]).Path
}

// wasmModule writes the module that burns into a file.
func wasmModule(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "threeway.wasm")
	if err := os.WriteFile(path, workloads.Threeway(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// source is a file of testdata/workloads.
func source(t testing.TB, file string) string {
	t.Helper()
	root, err := workloads.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(root, "testdata", "workloads", file)
}
