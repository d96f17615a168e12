package e2e

import (
	"flag"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hostprofiles/hostprofiles/test/e2e/analysis"
	"github.com/hostprofiles/hostprofiles/test/e2e/harness"
	"github.com/hostprofiles/hostprofiles/test/e2e/workloads"
)

var programsFlag = flag.String("programs", "", "run only these programs of the test that -run names, TestKnownTruth or TestCompiledLanguages, separated by commas")

// truthCPU makes 4,000 samples and some more.
const truthCPU = 4200 * time.Millisecond

// ran is a program that has run to its end.
type ran struct {
	built workloads.Built
	pid   int
	cpu   time.Duration
	err   error
}

// TestKnownTruth runs every program that can be walked to its root, four at a time: the shares of one process do not
// depend on the others.
func TestKnownTruth(t *testing.T) {
	walkable := slices.DeleteFunc(workloads.All(), func(p workloads.Program) bool {
		return p.Exotic || p.Name == "late" || p.Name == "manymaps"
	})
	var programs []workloads.Built
	for _, p := range chosen(t, walkable, func(p workloads.Program) string { return p.Name }) {
		programs = append(programs, buildProgram(t, p))
	}
	s := start(t, harness.Options{Keep: ours(cache(t))})
	warmUp()
	results := runAll(programs, 4, truthCPU)
	all := stop(t, s)
	judgeEach(t, results, all.Samples, judge)
}

// chosen are the programs that -programs names; without, all of the test's.
func chosen[P any](t *testing.T, all []P, name func(P) string) (some []P) {
	t.Helper()
	if *programsFlag == "" {
		return all
	}
	for _, wanted := range strings.Split(*programsFlag, ",") {
		i := slices.IndexFunc(all, func(p P) bool { return name(p) == wanted })
		if i < 0 {
			t.Fatalf("%s has no program %q", t.Name(), wanted)
		}
		some = append(some, all[i])
	}
	return some
}

// judgeEach judges the samples of each program that has run, in a test of its own.
func judgeEach(t *testing.T, results []ran, all analysis.Samples, judge func(*testing.T, ran, analysis.Samples)) {
	for _, r := range results {
		t.Run(r.built.Name, func(t *testing.T) {
			if r.err != nil {
				t.Fatal(r.err)
			}
			judge(t, r, all.PID(r.pid))
		})
	}
}

// runAll runs the programs for some CPU time each, several at once.
func runAll(programs []workloads.Built, atOnce int, cpu time.Duration) []ran {
	results := make([]ran, len(programs))
	slots := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for i, b := range programs {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			results[i] = runOne(b, cpu)
		})
	}
	wg.Wait()
	return results
}

func runOne(b workloads.Built, cpu time.Duration) ran {
	limits := workloads.Limits{CPU: cpu}
	if b.OtherStack {
		limits.CPU = 3 * cpu // its first samples, until BPF knows it, cannot be complete
	}
	if b.Name == "lockstep" {
		limits = workloads.Limits{Wall: 2 * cpu} // it has a CPU for half of the time
	}
	r, err := b.Start(limits)
	if err != nil {
		return ran{built: b, err: err}
	}
	result, err := r.Wait()
	return ran{built: b, pid: r.PID(), cpu: result.CPU, err: err}
}

// judge compares one process's samples with its truth.
func judge(t *testing.T, r ran, samples analysis.Samples) {
	t.Helper()
	delivered(t, r.built.Name, samples.Count(), r.cpu)
	judgeStacks(t, r, samples)
}

// judgeStacks is judge for some of a process's samples.
func judgeStacks(t *testing.T, r ran, samples analysis.Samples) {
	t.Helper()
	report := analysis.Judge(r.built, samples)
	withPath(t, samples)
	complete := r.built.Complete
	if complete == 0 {
		complete = 0.995
	}
	atLeast(t, "stacks that end at the root", report.Complete, report.Samples, complete)
	silent := strings.HasSuffix(r.built.Name, "static-stripped") // not one symbol is left in it
	if report.Named != report.Nameable || report.Nameable == 0 != silent {
		t.Errorf("frames in functions with symbols: %d, named: %d", report.Nameable, report.Named)
	}
	if r.built.Full != r.built.Path && !r.built.NamesItself {
		atLeast(t, "frames without a name that say where their function begins", report.Placed, report.Nameless, 0.99)
	}
	if len(r.built.Truth) > 0 {
		atLeast(t, "samples in the functions that burn", report.Covered, report.Samples, r.built.Covered)
		atLeast(t, "stacks with the true chain of calls", report.Chains, report.Covered, 0.995)
		// 3 points of 4,000 samples are four standard deviations; of fewer samples that is more.
		if worst := report.ShareError(r.built.Truth); worst > 0.03*math.Sqrt(max(1, 4000/float64(report.Covered))) {
			t.Errorf("a share is wrong by %.1f points", 100*worst)
		}
	}
	if strings.HasPrefix(r.built.Name, "kernelmode") {
		atLeast(t, "kernel-mode samples", report.Kernel, report.Samples, 0.9)
		atLeast(t, "kernel-mode samples with the complete user stack", report.KernelComplete, report.Kernel, 0.99)
	}
	show(t, report)
}

// warmUp lets a receiver get to know the machine, for tests of something else than its start.
func warmUp() { time.Sleep(2 * time.Second) }

// TestColdStart runs a program from the moment on at which the receiver has started: nothing is known yet of any process.
func TestColdStart(t *testing.T) {
	c := build(t, "c")
	for range 3 {
		s := start(t, harness.Options{Keep: ours(cache(t))})
		r := runOne(c, 500*time.Millisecond)
		all := stop(t, s)
		if r.err != nil {
			t.Fatal(r.err)
		}
		report := analysis.Judge(c, all.Samples.PID(r.pid))
		delivered(t, c.Name, report.Samples, r.cpu)
		atLeast(t, "stacks that end at the root", report.Complete, report.Samples, 0.95)
		show(t, report)
	}
}

// TestDepth walks 1,100 recursive calls: max_frames of them are there, and the sample says why it is not complete.
func TestDepth(t *testing.T) {
	deep := build(t, "recurse-1100")
	s := start(t, harness.Options{Keep: ours(cache(t))})
	warmUp()
	r := runOne(deep, time.Second)
	all := stop(t, s)
	if r.err != nil {
		t.Fatal(r.err)
	}
	samples := all.Samples.PID(r.pid)
	report := analysis.Judge(deep, samples)
	delivered(t, deep.Name, report.Samples, r.cpu)
	atLeast(t, "stacks cut at max_frames", report.Stops["max_frames"], report.Samples, 0.95)
	atLeast(t, "chains at the leaf", report.Chains, report.Covered, 0.995)
	for _, sample := range samples {
		if n := len(sample.User()); sample.StopReason == "max_frames" && n != 1024 {
			t.Errorf("a stack cut at max_frames has %d user frames, want 1024", n)
			break
		}
	}
	show(t, report)
}

// TestThreadNames tells the threads of a process apart by their names.
func TestThreadNames(t *testing.T) {
	threads := build(t, "threads")
	s := start(t, harness.Options{Keep: ours(cache(t))})
	warmUp()
	r := runOne(threads, 2*time.Second)
	all := stop(t, s)
	if r.err != nil {
		t.Fatal(r.err)
	}
	for name, function := range map[string]string{"sixty": "hot_sixty", "thirty": "hot_thirty", "ten": "hot_ten"} {
		// in user mode: how often a thread waits at the barrier, in the kernel, depends on the machine's load
		samples := all.Samples.PID(r.pid).Where(func(s analysis.Sample) bool { return s.Thread == name && !s.Kernel() })
		report := analysis.Judge(threads, samples)
		atLeast(t, "samples of thread "+name+" in its function", report.ByFunction[function], report.Samples, 0.97)
		show(t, report)
	}
}
