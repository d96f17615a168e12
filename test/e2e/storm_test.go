package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.opentelemetry.io/collector/consumer/consumererror"
	"golang.org/x/sys/unix"

	"github.com/hostprofiles/hostprofiles/test/e2e/analysis"
	"github.com/hostprofiles/hostprofiles/test/e2e/harness"
	"github.com/hostprofiles/hostprofiles/test/e2e/workloads"
)

// stormDir makes a folder with all programs that a storm starts, so that their samples are known by their path: the
// compiler's driver looks for cc1 and as beside it.
func stormDir(t *testing.T) (dir string, driver workloads.Built) {
	t.Helper()
	dir = t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	driver = copyTo(t, build(t, "storm"), dir)
	for name, from := range map[string]string{"gcc": "gcc", "as": "as", "true": "true", "cc1": ""} {
		path, err := exec.LookPath(from)
		if from == "" {
			var out []byte
			out, err = exec.Command("gcc", "-print-prog-name=cc1").Output()
			path = strings.TrimSpace(string(out))
		}
		if err != nil {
			t.Fatalf("finding %s: %v", name, err)
		}
		copyTo(t, workloads.Built{Path: path}, dir)
		if filepath.Base(path) != name {
			if err := os.Rename(filepath.Join(dir, filepath.Base(path)), filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir, driver
}

// storm runs drivers at once, each of which starts count programs and compiles a file before every third. It returns
// the number of processes and the CPU time of all.
func storm(t *testing.T, dir string, driver workloads.Built, drivers, count int) (processes int, cpu time.Duration) {
	t.Helper()
	var wg sync.WaitGroup
	var mu sync.Mutex
	for range drivers {
		wg.Go(func() {
			r, err := driver.Launch(exec.Command(driver.Path, dir, fmt.Sprint(count), "3"))
			if err != nil {
				t.Error(err)
				return
			}
			result, err := r.Wait()
			if err != nil || result.Report["failed"] != 0.0 {
				t.Errorf("storm: %v, %v", result.Report, err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			// A compilation counts one of those started, and is three processes.
			processes += 1 + count + 3*(count+2)/3
			cpu += result.CPU
		})
	}
	wg.Wait()
	return processes, cpu
}

// TestStorm has both CPUs busy with short-lived processes: everything is sampled, nothing is lost, nothing stays.
func TestStorm(t *testing.T) {
	dir, driver := stormDir(t)
	s := start(t, harness.Options{Keep: ours(dir)})
	// What stays known of the compiler's executables is there already.
	warmUp, warmUpCPU := storm(t, dir, driver, 2, 30)
	before := footprint(t, settle(t, s))
	began := time.Now()
	missed := watchTicks(t)
	processes, cpu := storm(t, dir, driver, 2, 1300)
	late := missed()
	took := time.Since(began)
	busy, err := s.Metrics()
	if err != nil {
		t.Fatal(err)
	}
	settle(t, s)
	after := noGrowth(t, s, before)
	all := stop(t, s)
	t.Logf("%d processes in %v used %v", processes, took, cpu)
	processes, cpu = processes+warmUp, cpu+warmUpCPU
	if processes < 5000 {
		t.Errorf("only %d processes", processes)
	}
	all.Samples = all.Samples.Where(func(s analysis.Sample) bool { return s.Executable != "" })
	report := analysis.Judge(driver, all.Samples)
	delivered(t, "storm", report.Samples, cpu)
	atLeast(t, "samples with a complete user stack", report.Complete, report.Samples, 0.95)
	if lost := after.Sum("samples_lost"); lost != 0 {
		t.Errorf("%v samples were lost", lost)
	}
	taken := busy.Sum("samples_taken") - before.Sum("samples_taken")
	fewSkipped(t, busy.Sum("kernel_skipped")-before.Sum("kernel_skipped"), taken, late)
	show(t, report)
}

// watchTicks begins to count the ticks that this machine's timers miss without any profiler; the function returned ends
// that and tells how many they were.
func watchTicks(t *testing.T) (missed func() float64) {
	t.Helper()
	r := run(t, build(t, "ticks"), workloads.Limits{})
	return func() float64 {
		t.Helper()
		if err := r.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		result, err := r.Wait()
		if err != nil {
			t.Fatal(err)
		}
		due, ticks := result.Report["due"].(float64), result.Report["ticks"].(float64)
		t.Logf("this machine's timers missed %.0f of %.0f ticks", due-ticks, due)
		return max(0, due-ticks)
	}
}

// fewSkipped fails the test if the kernel skipped more than 0.5 % of the samples for which it had a tick.
func fewSkipped(t *testing.T, skipped, taken, missed float64) {
	t.Helper()
	t.Logf("the kernel skipped %.0f of %.0f samples", skipped, taken)
	if skipped-missed > 0.005*taken {
		t.Errorf("the kernel skipped %v of %v samples, but missed only %v ticks", skipped, taken, missed)
	}
}

// settle waits until processes that ended are forgotten, and returns the metrics then.
func settle(t *testing.T, s *harness.Session) harness.Metrics {
	t.Helper()
	time.Sleep(4 * time.Second) // some report intervals
	m, err := s.Metrics()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// footprint adds to the receiver's own figures what this process, of which it is a part, really takes. Its heap says
// nothing: the test keeps all samples in it.
func footprint(t *testing.T, m harness.Metrics) harness.Metrics {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	m["process.fds"], m["process.goroutines"] = float64(len(fds)), float64(runtime.NumGoroutine())
	return m
}

// noGrowth waits until sizes are what they were before, and returns the metrics then. Other processes of the machine come and
// go; what has leaked stays.
func noGrowth(t *testing.T, s *harness.Session, before harness.Metrics) harness.Metrics {
	t.Helper()
	slack := map[string]float64{
		"processes": 40, "cache_size": 24 << 20, "kernel_map_size": 16 << 20,
		"process.goroutines": 20, "process.fds": 40,
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Second) {
		after, err := s.Metrics()
		if err != nil {
			t.Fatal(err)
		}
		var grown []string
		after = footprint(t, after)
		for name, limit := range slack {
			if n := after.Sum(name) - before.Sum(name); n > limit {
				grown = append(grown, fmt.Sprintf("%s grew by %v from %v", name, n, before.Sum(name)))
			}
		}
		if len(grown) == 0 {
			return after
		}
		if time.Now().After(deadline) {
			t.Error(strings.Join(grown, ", "))
			return after
		}
	}
}

// TestFirstSample starts programs from files that nobody has seen before: already their first sample has its user stack.
func TestFirstSample(t *testing.T) {
	late := build(t, "late")
	dir := t.TempDir()
	s := start(t, harness.Options{Keep: ours(dir)})
	time.Sleep(time.Second)
	pids := map[int]bool{}
	for i := range 25 {
		fresh := filepath.Join(dir, fmt.Sprint(i))
		if err := os.Mkdir(fresh, 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := copyTo(t, late, fresh).Command(workloads.Limits{CPU: 30 * time.Millisecond})
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		pids[cmd.Process.Pid] = true
	}
	all := stop(t, s)
	first := map[int]analysis.Sample{}
	for _, sample := range all.Samples {
		if f, ok := first[sample.PID]; !ok || sample.First < f.First {
			first[sample.PID] = sample
		}
	}
	var samples analysis.Samples
	for pid := range pids {
		if f, ok := first[pid]; ok {
			f.Count = 1
			samples = append(samples, f)
		} else {
			t.Errorf("no sample of process %d", pid)
		}
	}
	report := analysis.Judge(late, samples)
	// A sample in the middle of exec has no user stack: there is none yet, or none any more.
	atLeast(t, "first samples with their user stack", report.Complete, len(pids), 1)
	atLeast(t, "first samples outside exec", len(pids)-report.Gone, len(pids), 0.5)
	show(t, report)
}

// TestContainers runs short-lived processes in a control group like a container's: all are told to be in it, also those that
// were gone before anything could be read of them.
func TestContainers(t *testing.T) {
	needRoot(t)
	const id = "6c0e4f7e8a2b6d4c1e9a3b5c7d8e9f0a1b2c3d4e5f60718293a4b5c6d7e8f90a"
	group := cgroup(t, "docker-"+id+".scope")
	late := build(t, "late")
	s := start(t, harness.Options{Keep: ours(cache(t))})
	warmUp()
	var pids []int
	for range 50 {
		cmd := late.Command(workloads.Limits{CPU: 3 * time.Millisecond})
		cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(group.Fd())}
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		pids = append(pids, cmd.Process.Pid)
	}
	all := stop(t, s)
	samples := all.Samples.Where(func(s analysis.Sample) bool { return slices.Contains(pids, s.PID) })
	if samples.Count() < len(pids) {
		t.Errorf("%d samples of %d processes", samples.Count(), len(pids))
	}
	without := samples.Where(func(s analysis.Sample) bool { return s.Container != id })
	if n := without.Count(); n > 0 {
		t.Errorf("%d of %d samples are not said to be of the container, but of %q", n, samples.Count(), without[0].Container)
	}
}

// cgroup makes a control group in the unified hierarchy. One that is there already is what a run left that was killed.
func cgroup(t *testing.T, name string) *os.File {
	t.Helper()
	for _, mount := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		var st unix.Statfs_t
		if err := unix.Statfs(mount, &st); err != nil || st.Type != unix.CGROUP2_SUPER_MAGIC {
			continue
		}
		dir := filepath.Join(mount, name)
		err := os.Mkdir(dir, 0o755)
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) {
			t.Skipf("not supported: control groups cannot be made here: %v", err)
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Remove(dir) })
		f, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	t.Skip("not supported: no unified hierarchy of control groups is mounted")
	return nil
}

// TestKernelSkips sees the kernel skip samples while bpf(2) is hammered, and be reported. Only seconds in which a CPU never idles
// count, so every CPU has two hammers, for five seconds.
func TestKernelSkips(t *testing.T) {
	hammers := slices.Repeat([]workloads.Built{build(t, "bpfhammer")}, 2*runtime.NumCPU())
	s := start(t, harness.Options{Keep: ours(cache(t))})
	before := settle(t, s)
	runs := runAll(hammers, len(hammers), 2500*time.Millisecond)
	after, err := s.Metrics()
	if err != nil {
		t.Fatal(err)
	}
	all := stop(t, s)
	var cpu time.Duration
	samples := 0
	for _, r := range runs {
		if r.err != nil {
			t.Fatal(r.err)
		}
		cpu += r.cpu
		samples += all.Samples.PID(r.pid).Count()
	}
	missing := cpu.Seconds()*frequency - float64(samples)
	skipped := after.Sum("kernel_skipped") - before.Sum("kernel_skipped")
	t.Logf("%v of CPU time, %d samples, %.0f missing, %v reported as skipped", cpu, samples, missing, skipped)
	if skipped < 50 || skipped < missing/2 {
		t.Errorf("kernel_skipped rose by %v, and %.0f samples are missing", skipped, missing)
	}
}

// TestAccounting keeps both CPUs busy for a minute, or for a third of it when there is less time: what was taken is delivered.
func TestAccounting(t *testing.T) {
	c := build(t, "c")
	s := start(t, harness.Options{Keep: ours(cache(t))})
	before, err := s.Metrics()
	if err != nil {
		t.Fatal(err)
	}
	missed := watchTicks(t)
	span := 20 * time.Second
	if full() {
		span = time.Minute
	}
	runs := runAll([]workloads.Built{c, c}, 2, span)
	time.Sleep(3 * time.Second)
	late := missed()
	after, err := s.Metrics()
	if err != nil {
		t.Fatal(err)
	}
	all := stop(t, s)
	for _, r := range runs {
		if r.err != nil {
			t.Fatal(r.err)
		}
		delivered(t, c.Name, all.Samples.PID(r.pid).Count(), r.cpu)
	}
	if lost := after.Sum("samples_lost"); lost != 0 {
		t.Errorf("%v samples were lost", lost)
	}
	taken := after.Sum("samples_taken") - before.Sum("samples_taken")
	fewSkipped(t, after.Sum("kernel_skipped")-before.Sum("kernel_skipped"), taken, late)
}

// TestRefused counts what the next consumer refuses as lost, not as delivered.
func TestRefused(t *testing.T) {
	refuse := func() error { return consumererror.NewPermanent(os.ErrDeadlineExceeded) }
	s := start(t, harness.Options{ReportInterval: 200 * time.Millisecond, Refuse: refuse})
	r := runOne(build(t, "c"), time.Second)
	if r.err != nil {
		t.Fatal(r.err)
	}
	time.Sleep(time.Second)
	m, err := s.Metrics()
	if err != nil {
		t.Fatal(err)
	}
	if lost := m["samples_lost{reason=refused}"]; lost < 500 || m.Sum("samples_delivered") != 0 {
		t.Errorf("%v samples count as refused, %v as delivered", lost, m.Sum("samples_delivered"))
	}
}
