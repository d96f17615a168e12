package e2e

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostprofiles/hostprofiles/test/e2e/analysis"
	"github.com/hostprofiles/hostprofiles/test/e2e/harness"
	"github.com/hostprofiles/hostprofiles/test/e2e/workloads"
)

// edgeCPU makes enough samples to see one stack in two hundred that is wrong; in the full tests as many as TestKnownTruth has.
func edgeCPU() time.Duration {
	if full() {
		return truthCPU
	}
	return time.Second
}

// edges builds the programs of workloads.Edges whose names begin with one of the prefixes. Those that there are none of for this
// machine are left out, and named in the log.
func edges(t *testing.T, prefixes ...string) []workloads.Built {
	t.Helper()
	b, err := workloads.NewBuilder()
	if err != nil {
		t.Fatal(err)
	}
	var all []workloads.Built
	for _, prefix := range prefixes {
		known := false
		for _, p := range workloads.Edges() {
			if !strings.HasPrefix(p.Name, prefix) {
				continue
			}
			known = true
			built, err := b.Build(p)
			if errors.Is(err, workloads.ErrNotHere) {
				t.Logf("left out: %v", err)
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, built)
		}
		if !known {
			t.Fatalf("no program of workloads.Edges begins with %q", prefix)
		}
	}
	return all
}

// judgeEdge is judge for a process that may have lived for a second only. Its start is a larger part of its life then: two in a hundred
// samples more may be outside of the functions that burn, and its first samples, until BPF knows it, bring a copy of one stack
// along, for which there is no room where the machine is busy. These are not judged; they may be one in twenty.
func judgeEdge(t *testing.T, r ran, samples analysis.Samples) {
	t.Helper()
	if full() {
		judge(t, r, samples)
		return
	}
	delivered(t, r.built.Name, samples.Count(), r.cpu)
	r.built.Covered -= 0.02
	judgeStacks(t, r, copied(t, samples))
}

// copied drops the samples of which it says that their stack could not be copied in full.
func copied(t *testing.T, samples analysis.Samples) analysis.Samples {
	t.Helper()
	rest := samples.Where(func(s analysis.Sample) bool { return s.StopReason != "ring_busy" && s.StopReason != "copy_end" })
	atLeast(t, "stacks that were copied in full", rest.Count(), samples.Count(), 0.95)
	return rest
}

// TestEdgesOfCode runs programs that are compiled, linked and left in unusual ways: their stacks are as complete, and their
// functions as well named, as those of the usual ones.
func TestEdgesOfCode(t *testing.T) {
	needsFull(t)
	t.Setenv("GMON_OUT_PREFIX", t.TempDir()+"/gmon")                           // of -pg
	t.Setenv("ASAN_OPTIONS", "detect_stack_use_after_return=1:detect_leaks=0") // frames on a stack of its own
	programs := edges(t, "flag-", "link-", "ifunc", "throws", "rust-", "sigjump", "coroutines-", "boost-")
	s := start(t, harness.Options{Keep: ours(cache(t))})
	warmUp()
	results := runAll(programs, 2, truthCPU)
	judgeEach(t, results, stop(t, s).Samples, func(t *testing.T, r ran, samples analysis.Samples) {
		if r.built.Exotic {
			judgeBroken(t, r, samples)
			return
		}
		judge(t, r, samples)
	})
}

// judgeBroken looks at coroutines whose outermost frame says nothing of its caller, over a word that is no return address: the
// walk ends there and says so, and never goes over to the stack of another. The first samples are left out whose copy of a stack
// ends before: they say that reason.
func judgeBroken(t *testing.T, r ran, samples analysis.Samples) {
	t.Helper()
	delivered(t, r.built.Name, samples.Count(), r.cpu)
	samples = copied(t, samples)
	report := analysis.Judge(r.built, samples)
	atLeast(t, "samples in the functions that burn", report.Covered, report.Samples, r.built.Covered)
	atLeast(t, "stacks with the true chain of calls", report.Chains, report.Covered, 0.995)
	for _, s := range samples {
		user := s.User()
		at := slices.IndexFunc(user, func(f analysis.Frame) bool { return f.Name() == "coroutine" })
		if at >= 0 && (s.StopReason == "" || len(user)-at > 2) {
			t.Errorf("%d stacks end with %d frames above the coroutine, for the reason %q", s.Count, len(user)-at-1, s.StopReason)
		}
	}
	show(t, report)
}
