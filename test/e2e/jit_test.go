package e2e

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
	"github.com/hostprofiles/hostprofiles/test/e2e/analysis"
	"github.com/hostprofiles/hostprofiles/test/e2e/harness"
	"github.com/hostprofiles/hostprofiles/test/e2e/workloads"
)

// jitSeconds is how much CPU time the programs of JIT compilers use.
const jitSeconds = 6

// script runs a program of testdata/workloads, waits until it has used up its CPU time, and returns its pid and what it used.
func script(t *testing.T, file string, argv ...string) (pid int, cpu time.Duration) {
	t.Helper()
	root, err := workloads.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	args := append(argv[1:], filepath.Join(root, "testdata", "workloads", file), fmt.Sprint(jitSeconds))
	cmd := command(t, argv[0], args...)
	cmd.Stderr = os.Stderr
	cmd.Dir = t.TempDir() // node leaves a log of what it compiled
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid = cmd.Process.Pid
	t.Cleanup(func() { _ = os.Remove(fmt.Sprintf("/tmp/perf-%d.map", pid)) })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "READY\n" {
		t.Errorf("%q, %v", line, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	u := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	return pid, time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// runs lets the samples of an executable through.
func runs(name string) func(analysis.Sample) bool {
	return func(s analysis.Sample) bool { return filepath.Base(s.Executable) == name || s.Executable == "" }
}

// TestNodeWithPerfMap names the functions of a program whose runtime has no unwinder here, by its perf map.
func TestNodeWithPerfMap(t *testing.T) {
	unwindtest.Need(t, "node")
	s := start(t, harness.Options{Keep: runs("node")})
	warmUp()
	pid, cpu := script(t, "js/threeway.js", "node", "--perf-basic-prof", "--no-turbo-inlining")
	samples := stop(t, s).Samples.PID(pid)
	delivered(t, "node", samples.Count(), cpu)
	names := []string{"hotSixty", "hotThirty", "hotTen"}
	byName, total, chains, lines := map[string]int{}, 0, 0, 0
	for _, sample := range samples {
		for i, f := range sample.User() {
			name := f.Name()
			if !strings.HasPrefix(name, "hot") {
				continue
			}
			byName[name] += sample.Count
			total += sample.Count
			if f.Type == "v8js" && filepath.Base(f.Lines[0].File) == "threeway.js" {
				lines += sample.Count
			}
			if under(sample.User()[i:], "rounds") {
				chains += sample.Count
			}
			break
		}
	}
	atLeast(t, "samples in the program's functions", total, samples.Count(), 0.9) // the rest is node's start
	atLeast(t, "samples with the function's file and runtime", lines, total, 0.999)
	atLeast(t, "samples with the caller", chains, total, 0.97) // not before the first look at the map
	for i, want := range []float64{0.6, 0.3, 0.1} {
		if got := float64(byName[names[i]]) / float64(max(total, 1)); got < want-0.03 || got > want+0.03 {
			t.Errorf("%s has %.1f %%, want %.1f %%", names[i], 100*got, 100*want)
		}
	}
	t.Logf("%d samples, by function %v, with the caller %d, stops %v", samples.Count(), byName, chains, stopsOf(samples))
}

// under tells whether a function is among the callers.
func under(frames []analysis.Frame, name string) bool {
	for _, f := range frames {
		if f.Name() == name {
			return true
		}
	}
	return false
}

func stopsOf(samples analysis.Samples) map[string]int {
	stops := map[string]int{}
	for _, s := range samples {
		stops[s.StopReason] += s.Count
	}
	return stops
}

// TestLuaJIT loses no sample in traces, which have neither names nor unwind information nor frame pointers, and walks on to the
// root from most of them.
func TestLuaJIT(t *testing.T) {
	unwindtest.Need(t, "luajit")
	s := start(t, harness.Options{Keep: runs("luajit")})
	warmUp()
	pid, cpu := script(t, "lua/threeway.lua", "luajit")
	samples := stop(t, s).Samples.PID(pid)
	delivered(t, "luajit", samples.Count(), cpu)
	inTraces, complete := 0, 0
	for _, sample := range samples {
		user := sample.User()
		if len(user) == 0 {
			continue
		}
		if len(user[0].Lines) == 0 && user[0].Mapping == "[jit]" {
			inTraces += sample.Count
		}
		if sample.StopReason == "" {
			complete += sample.Count
		}
	}
	atLeast(t, "samples in traces", inTraces, samples.Count(), 0.9)
	atLeast(t, "stacks that end at the root", complete, samples.Count(), 0.95)
	t.Logf("%d samples, %d in traces, stops %v", samples.Count(), inTraces, stopsOf(samples))
}
