package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostprofiles/hostprofiles/test/e2e/analysis"
	"github.com/hostprofiles/hostprofiles/test/e2e/harness"
	"github.com/hostprofiles/hostprofiles/test/e2e/workloads"
)

// edge builds one program of workloads.Edges; there may be none of that name for this machine.
func edge(t *testing.T, name string) workloads.Built {
	t.Helper()
	all := workloads.Edges()
	i := slices.IndexFunc(all, func(p workloads.Program) bool { return p.Name == name })
	if i < 0 {
		t.Fatalf("there is no program %s in workloads.Edges", name)
	}
	b, err := workloads.NewBuilder()
	if err != nil {
		t.Fatal(err)
	}
	built, err := b.Build(all[i])
	if errors.Is(err, workloads.ErrNotHere) {
		t.Skipf("not supported: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return built
}

// of lets the samples of a program through, whatever process they are of.
func of(samples analysis.Samples, b workloads.Built) analysis.Samples {
	return samples.Where(func(s analysis.Sample) bool { return s.Executable == b.Path })
}

// inFunction returns the samples with a function in their stack.
func inFunction(samples analysis.Samples, name string) analysis.Samples {
	return samples.Where(func(s analysis.Sample) bool { return hasName(s, name) })
}

// TestEdgesOfProcesses starts children that share their parent's memory, processes that live for a few milliseconds, that spend
// their life in the dynamic linker, that have libraries take each other's place, that run what another one has mapped, and
// that are 32-bit: nothing of them is lost, unknown or wrong.
func TestEdgesOfProcesses(t *testing.T) {
	vforks, brief, swaps := edge(t, "vforks"), edge(t, "brief"), edge(t, "swaps")
	var relocs workloads.Built
	if full() {
		relocs = edge(t, "relocs")
	}
	s := start(t, harness.Options{Keep: ours(cache(t))})
	warmUp()
	var old []*workloads.Running
	for _, b := range edges(t, "i386") { // none on arm64
		if r := run32(t, b); r != nil {
			old = append(old, r)
		}
	}
	family := wait(t, vforks, workloads.Limits{Wall: 2 * edgeCPU()})
	briefly := wait(t, brief, workloads.Limits{})
	var oldCPU time.Duration
	for _, r := range old {
		oldCPU = r.Stop()
	}
	var linked time.Duration
	if full() { // of few samples one in two hundred is too many
		linked = link(t, relocs, 60)
	}
	swapped := wait(t, swaps, workloads.Limits{CPU: 3 * edgeCPU()})
	vforks.Args = append(vforks.Args, "-arg", "1", "-slice", "20000")
	later := wait(t, vforks, workloads.Limits{Wall: 1800 * time.Millisecond})
	time.Sleep(time.Second)
	all := stop(t, s)
	t.Run("vfork", func(t *testing.T) {
		samples := of(all.Samples, vforks).Where(func(s analysis.Sample) bool { return s.PID != later.pid && s.PID != pidOf(later, "cloned") })
		judgeVforks(t, family, samples)
	})
	t.Run("brief", func(t *testing.T) { judgeBrief(t, brief, of(all.Samples, brief), briefly.cpu) })
	if full() {
		t.Run("relocs", func(t *testing.T) { judgeLinked(t, relocs, of(all.Samples, relocs), linked) })
	}
	t.Run("swaps", func(t *testing.T) { judgeSwaps(t, swapped, all.Samples.PID(swapped.pid)) })
	t.Run("later", func(t *testing.T) { judgeLater(t, vforks, all.Samples.PID(pidOf(later, "cloned"))) })
	for _, r := range old {
		t.Run("i386", func(t *testing.T) { judgeI386(t, all.Samples.PID(r.PID()), oldCPU) })
	}
}

// run32 starts a 32-bit program; none where the kernel executes no such programs, and then a test of its name is skipped.
func run32(t *testing.T, b workloads.Built) *workloads.Running {
	t.Helper()
	r, err := b.Start(workloads.Limits{})
	if errors.Is(err, unix.ENOEXEC) {
		t.Run(b.Name, func(t *testing.T) { t.Skipf("not supported: 32-bit programs: %v", err) })
		return nil
	}
	return launched(t)(r, err)
}

// ended is a process that has ended, and what it said.
type ended struct {
	ran
	report map[string]any
}

// pidOf is a pid that a program has reported.
func pidOf(e ended, key string) int {
	pid, _ := e.report[key].(float64)
	return int(pid)
}

// wait runs a program to its end.
func wait(t *testing.T, b workloads.Built, l workloads.Limits) ended {
	t.Helper()
	r := run(t, b, l)
	result, err := r.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return ended{ran{built: b, pid: r.PID(), cpu: result.CPU}, result.Report}
}

func judgeVforks(t *testing.T, r ended, samples analysis.Samples) {
	delivered(t, r.built.Name, samples.Count(), r.cpu)
	samples = copied(t, samples)
	report := analysis.Judge(r.built, samples)
	atLeast(t, "stacks that end at the root", report.Complete, report.Samples, 0.995)
	atLeast(t, "samples in the functions that burn", report.Covered, report.Samples, r.built.Covered)
	atLeast(t, "stacks with the true chain of calls", report.Chains, report.Covered, 0.995)
	if report.Named != report.Nameable {
		t.Errorf("frames in functions with symbols: %d, named: %d", report.Nameable, report.Named)
	}
	// Shares depend on what starting a process costs; each of the three is there, in processes of their own.
	for _, name := range []string{"hot_vfork", "hot_exec", "hot_clone"} {
		in := inFunction(samples, name)
		atLeast(t, "samples in "+name, in.Count(), report.Samples, 0.15)
		if n := in.PID(r.pid).Count(); n > 0 {
			t.Errorf("%d samples in %s are said to be the parent's", n, name)
		}
	}
	show(t, report)
}

func judgeBrief(t *testing.T, b workloads.Built, samples analysis.Samples, cpu time.Duration) {
	delivered(t, b.Name, samples.Count(), cpu)
	samples = copied(t, samples)
	report := analysis.Judge(b, samples)
	atLeast(t, "stacks that end at the root", report.Complete, report.Samples, 0.995)
	withPath(t, samples)
	// In exit there is nothing left of the stack but its last frame, where that is known.
	there := analysis.Judge(b, samples.Where(func(s analysis.Sample) bool { return s.StopReason == "" && !hasName(s, "do_exit") }))
	atLeast(t, "stacks with the true chain of calls", there.Chains, there.Covered, 0.995)
	if report.Gone == 0 {
		t.Error("no sample is in exec or exit: this test says nothing of them")
	}
	pids := map[int]bool{}
	for _, s := range samples {
		pids[s.PID] = true
	}
	if len(pids) < 140 {
		t.Errorf("%d processes have samples, of 150 that lived for some milliseconds", len(pids))
	}
	show(t, report)
}

// link runs a program again and again that binds all of its symbols at once, and returns the CPU time.
func link(t *testing.T, b workloads.Built, times int) (cpu time.Duration) {
	t.Helper()
	for range times {
		cmd := exec.Command(b.Path)
		cmd.Env = append(os.Environ(), "LD_BIND_NOW=1")
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		cpu += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	return cpu
}

func judgeLinked(t *testing.T, b workloads.Built, samples analysis.Samples, cpu time.Duration) {
	delivered(t, b.Name, samples.Count(), cpu)
	samples = copied(t, samples)
	report := analysis.Judge(b, samples)
	atLeast(t, "stacks that end at the root", report.Complete, report.Samples, 0.995)
	if report.Named != report.Nameable {
		t.Errorf("frames in functions with symbols: %d, named: %d", report.Nameable, report.Named)
	}
	linker := samples.Where(func(s analysis.Sample) bool {
		user := s.User()
		return len(user) > 0 && strings.HasPrefix(filepath.Base(user[0].Mapping), "ld-")
	})
	atLeast(t, "samples whose leaf is in the dynamic linker", linker.Count(), report.Samples, 0.5)
	show(t, report)
}

// judgeSwaps looks at libraries that take turns at one address.
func judgeSwaps(t *testing.T, r ended, samples analysis.Samples) {
	t.Helper()
	same, ok := r.report["same"].(float64)
	rounds, too := r.report["rounds"].(float64)
	if !ok || !too || rounds == 0 || same != rounds {
		t.Errorf("%s reports %v: the libraries were not at the same address in each round", r.built.Name, r.report)
	}
	delivered(t, r.built.Name, samples.Count(), r.cpu)
	samples = copied(t, samples)
	report := analysis.Judge(r.built, samples)
	atLeast(t, "stacks that end at the root", report.Complete, report.Samples, 0.995)
	atLeast(t, "stacks with the true chain of calls", report.Chains, report.Covered, 0.995)
	for caller, other := range map[string]string{"call_left": "libswap1.so", "call_right": "libswap0.so"} {
		wrong := inFunction(samples, caller).Where(func(s analysis.Sample) bool { return hasMapping(s, other) })
		if n := wrong.Count(); n > 0 {
			t.Errorf("%d samples below %s are said to be in %s", n, caller, other)
		}
	}
	t.Log(r.report)
	show(t, report)
}

// judgeLater looks at a process that runs what another one has mapped into the memory of both: nobody tells of that, but the
// first sample there shows it, and then all are walked.
func judgeLater(t *testing.T, b workloads.Built, samples analysis.Samples) {
	t.Helper()
	samples = copied(t, samples)
	report := analysis.Judge(b, samples)
	plugin := inFunction(samples, "plugin_burn")
	atLeast(t, "samples in the library that another process opened", plugin.Count(), samples.Count(), 0.6)
	atLeast(t, "stacks that end at the root", report.Complete, report.Samples, 0.97)
	show(t, report)
}

func hasMapping(s analysis.Sample, name string) bool {
	for _, f := range s.User() {
		if filepath.Base(f.Mapping) == name {
			return true
		}
	}
	return false
}

// judgeI386 looks at a 32-bit process: its kernel stacks are there, and it is said why there is nothing else.
func judgeI386(t *testing.T, samples analysis.Samples, cpu time.Duration) {
	t.Helper()
	delivered(t, "i386", samples.Count(), cpu)
	withPath(t, samples)
	stops := stopsOf(samples)
	atLeast(t, "stacks that stop for the ABI", stops["abi"], samples.Count(), 0.99)
	kernel := samples.Where(analysis.Sample.Kernel)
	atLeast(t, "samples in kernel mode", kernel.Count(), samples.Count(), 0.1)
	named := kernel.Where(func(s analysis.Sample) bool { return hasName(s, "read_zero") })
	atLeast(t, "of these, in read_zero", named.Count(), kernel.Count(), 0.7)
	for _, sample := range samples {
		if n := len(sample.User()); n > 0 {
			t.Errorf("a sample has %d user frames", n)
			break
		}
	}
	t.Logf("%d samples, %d in kernel mode, %d in read_zero, stops %v", samples.Count(), kernel.Count(), named.Count(), stops)
}
