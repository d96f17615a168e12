package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostprofiles/hostprofiles/test/e2e/analysis"
	"github.com/hostprofiles/hostprofiles/test/e2e/harness"
	"github.com/hostprofiles/hostprofiles/test/e2e/workloads"
)

// needRoot skips a test that mounts or changes roots.
func needRoot(t *testing.T) {
	t.Helper()
	if unix.Geteuid() != 0 {
		t.Skip("not supported: this takes root")
	}
}

// enough is how many samples a program that ran for a second has at least: four fifths of what its CPU time makes, since the
// sampling period changes by up to 10 %, and timers miss ticks.
func enough(r ran) int { return int(0.8 * r.cpu.Seconds() * frequency) }

// survives checks that a session still works, after whatever was done to it: a program of known truth comes out right.
func survives(t *testing.T, s *harness.Session) {
	t.Helper()
	program := build(t, "c")
	ran := runOne(program, time.Second)
	if ran.err != nil {
		t.Fatal(ran.err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		report := analysis.Judge(program, s.Samples().PID(ran.pid))
		if report.Samples >= enough(ran) {
			atLeast(t, "afterwards, true chains of calls", report.Chains, report.Covered, 0.98)
			show(t, report)
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("afterwards, only %d samples of a program were delivered, which used %v", report.Samples, ran.cpu)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// TestFilesThatChange profiles executables that are replaced, deleted, in no file system, or in another root: all of them
// are walked and named as ever.
func TestFilesThatChange(t *testing.T) {
	needRoot(t)
	c, other, static := build(t, "c"), build(t, "c-static"), build(t, "c-static")
	dir := t.TempDir()
	root := filepath.Join(dir, "root")
	for _, d := range []string{"replaced", "deleted", "root"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s := start(t, harness.Options{})
	running := map[string]*workloads.Running{}
	running["replaced"] = run(t, copyTo(t, c, filepath.Join(dir, "replaced")), workloads.Limits{})
	if err := os.Remove(running["replaced"].Path); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(copyTo(t, other, dir).Path, running["replaced"].Path); err != nil {
		t.Fatal(err)
	}
	running["deleted"] = run(t, copyTo(t, c, filepath.Join(dir, "deleted")), workloads.Limits{})
	if err := os.Remove(running["deleted"].Path); err != nil {
		t.Fatal(err)
	}
	running["memfd"] = launched(t)(c.Launch(exec.Command(build(t, "memfd").Path, c.Path)))
	inRoot := copyTo(t, static, root)
	cmd := exec.Command("/" + filepath.Base(inRoot.Path))
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Cloneflags: syscall.CLONE_NEWNS}
	running["chroot"] = launched(t)(inRoot.Launch(cmd))
	time.Sleep(4 * time.Second)
	cpu := map[string]time.Duration{}
	for name, r := range running {
		cpu[name] = r.Stop()
	}
	all := stop(t, s)
	for name, r := range running {
		t.Run(name, func(t *testing.T) {
			report := analysis.Judge(r.Built, all.Samples.PID(r.PID()))
			delivered(t, name, report.Samples, cpu[name])
			// The first samples after the change may come before the file was read through /proc.
			atLeast(t, "stacks with the true chain of calls", report.Chains, report.Covered, 0.98)
			names := analysis.Samples.Where(all.Samples.PID(r.PID()), func(s analysis.Sample) bool { return hasName(s, "main") })
			atLeast(t, "stacks with a frame that is named main", names.Count(), report.Samples, 0.98)
			show(t, report)
		})
	}
}

// TestFilesLetGo has a program come and go on a file system of its own: while it does not run, no file of it is open, so
// that the file system can be unmounted; when it runs again, its functions have names again.
func TestFilesLetGo(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	if err := unix.Mount("hostprofiles", dir, "tmpfs", 0, ""); err != nil {
		t.Fatalf("mounting a tmpfs: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) }) // it may be unmounted already
	s := start(t, harness.Options{Keep: ours(dir)})
	warmUp()
	program := copyTo(t, build(t, "c"), dir)
	var runs []ran
	for range 2 {
		r := runOne(program, time.Second)
		if r.err != nil {
			t.Fatal(r.err)
		}
		runs = append(runs, r)
		within(t, 40*time.Second, "files of programs that ended are still open", func() bool { return !holdsOpen(t, dir) })
	}
	if err := unix.Unmount(dir, 0); err != nil {
		t.Errorf("unmounting what nothing uses any more: %v", err)
	}
	all := stop(t, s)
	for i, r := range runs {
		samples := all.Samples.PID(r.pid)
		delivered(t, fmt.Sprintf("run %d", i), samples.Count(), r.cpu)
		// in user mode: exec and exit take longer on a busy machine
		samples = samples.Where(func(s analysis.Sample) bool { return !s.Kernel() })
		named := samples.Where(func(s analysis.Sample) bool { return hasName(s, "main") })
		atLeast(t, "stacks with a frame that is named main", named.Count(), samples.Count(), 0.97)
		show(t, analysis.Judge(program, samples))
	}
}

// holdsOpen tells whether this process, with the profiler in it, has a file below dir open.
func holdsOpen(t *testing.T, dir string) bool {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		path, err := os.Readlink("/proc/self/fd/" + fd.Name())
		if err == nil && strings.HasPrefix(path, dir+"/") {
			return true
		}
	}
	return false
}

// within waits for something to become true.
func within(t *testing.T, limit time.Duration, otherwise string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !ok(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(otherwise)
		}
	}
}

func hasName(s analysis.Sample, name string) bool {
	for _, f := range s.Frames {
		if f.Name() == name {
			return true
		}
	}
	return false
}

// TestTruncated cuts a library short while it is mapped.
func TestTruncated(t *testing.T) {
	libs := build(t, "libs")
	dir := t.TempDir()
	s := start(t, harness.Options{})
	moved := copyTo(t, libs, dir)
	var library string
	for _, l := range libs.Libraries {
		copyTo(t, workloads.Built{Path: l}, dir)
		if strings.HasSuffix(l, "libhot.so") {
			library = filepath.Join(dir, "libhot.so")
		}
	}
	for _, size := range []int64{13000, 4096, 100, 0} {
		r := run(t, moved, workloads.Limits{})
		if err := os.Truncate(library, size); err != nil {
			t.Fatal(err)
		}
		time.Sleep(500 * time.Millisecond)
		r.Stop()
		copyTo(t, workloads.Built{Path: libs.Libraries[0]}, dir)
	}
	survives(t, s)
	stop(t, s)
}

// TestCorrupt runs executables whose tables and symbols are spoiled.
func TestCorrupt(t *testing.T) {
	static := build(t, "c-static")
	text, err := os.ReadFile(static.Path)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	s := start(t, harness.Options{})
	want := map[string]time.Duration{}
	pids := map[string]int{}
	for _, how := range harness.Corruptions() {
		for seed := range uint64(3) {
			spoiled, err := harness.Corrupt(text, how, seed)
			if err != nil {
				t.Fatal(err)
			}
			name := fmt.Sprintf("%s %d", how, seed)
			b := static
			b.Path = filepath.Join(dir, strings.ReplaceAll(name, " ", "_"))
			if err := os.WriteFile(b.Path, spoiled, 0o755); err != nil {
				t.Fatal(err)
			}
			ran := runOne(b, 150*time.Millisecond)
			if ran.err != nil {
				t.Fatalf("%s: %v", name, ran.err)
			}
			want[name], pids[name] = ran.cpu, ran.pid
		}
	}
	survives(t, s)
	all := stop(t, s)
	if n := all.Metrics.Sum("unwind_table_errors"); n < 5 {
		t.Errorf("%v tables could not be built", n)
	}
	for name, cpu := range want {
		report := analysis.Judge(static, all.Samples.PID(pids[name]))
		delivered(t, name, report.Samples, cpu)
		t.Log(name, report)
	}
}

// hangingFiles is more than the profiler has workers, or would give up.
const hangingFiles = 40

// TestHangingFileSystem runs programs from a file system that stops answering: nobody waits for it, and files that come
// later on other file systems are read as ever.
func TestHangingFileSystem(t *testing.T) {
	needRoot(t)
	program := build(t, "c-static")
	text, err := os.ReadFile(program.Path)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	fs, err := harness.MountFUSE(dir, text)
	if errors.Is(err, harness.ErrNoFUSE) {
		t.Skipf("not supported: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	closeOnce := sync.OnceValue(fs.Close) // before the programs are waited for: they may hang in a page fault
	t.Cleanup(func() {
		if err := closeOnce(); err != nil {
			t.Error(err)
		}
	})
	pids := map[int]bool{}
	for i := range hangingFiles {
		// A shell executes the program: a Go process that forks waits for its child's exec with a processor in its hands,
		// which the file system's server may need.
		r := launched(t)(program.Launch(exec.Command("sh", "-c", fmt.Sprintf("exec %s/%d", dir, i))))
		pids[r.PID()] = true
		schedule(t, r.PID(), unix.SCHED_IDLE) // it takes what the programs of known truth leave
	}
	time.Sleep(2 * time.Second) // by now they have all of their pages
	fs.Hang()
	s := start(t, harness.Options{ReportInterval: 500 * time.Millisecond})
	// Until the file system is known to hang it has most of the workers, and the copied stacks of its programs much of the
	// ring: others may lose a quarter of their stacks in the first second.
	waitForMetric(t, s, "worker_stuck", 15*time.Second)
	waitForMetric(t, s, "worker_refused", 15*time.Second)
	survives(t, s)
	for range 3 {
		profilesNew(t, s)
	}
	began := time.Now()
	all := stop(t, s)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("stopping took %v", took)
	}
	// They are not judged: that would read their files, and hang.
	if n := all.Samples.Where(func(s analysis.Sample) bool { return pids[s.PID] }).Count(); n < 500 {
		t.Errorf("only %d samples of the programs whose files hang", n)
	}
	// One file at a time may be tried again every half minute.
	if n := all.Metrics.Sum("worker_stuck"); n < 1 || n > 6 {
		t.Errorf("%v reads are stuck", n)
	}
	named := 0
	for _, line := range all.Logs {
		if strings.Contains(line, "a file system does not answer") {
			named++
		}
	}
	if named != 1 {
		t.Errorf("the file system is named %d times in the log", named)
	}
	if err := closeOnce(); err != nil {
		t.Error(err)
	}
	for pid := range pids {
		schedule(t, pid, unix.SCHED_NORMAL) // ending takes time, too
	}
}

// schedule sets the scheduling policy of a process's first thread.
func schedule(t *testing.T, pid int, policy uint32) {
	t.Helper()
	if err := unix.SchedSetAttr(pid, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: policy}, 0); err != nil {
		t.Fatalf("setting the scheduling policy of process %d: %v", pid, err)
	}
}

// profilesNew checks that a program in a file of its own is read and named, and that its process is known.
func profilesNew(t *testing.T, s *harness.Session) {
	t.Helper()
	fresh := copyTo(t, build(t, "c"), t.TempDir())
	ran := runOne(fresh, time.Second)
	if ran.err != nil {
		t.Fatal(ran.err)
	}
	samples := func() analysis.Samples { return s.Samples().PID(ran.pid) }
	within(t, 10*time.Second, "too few samples of a new program were delivered", func() bool { return samples().Count() >= enough(ran) })
	report := analysis.Judge(fresh, samples())
	atLeast(t, "true chains of calls of a new program", report.Chains, report.Covered, 0.98)
	atLeast(t, "samples of a new program with its path", samples().Where(func(s analysis.Sample) bool { return s.Executable == fresh.Path }).Count(),
		report.Samples, 0.98)
	atLeast(t, "stacks of a new program with a frame that is named main",
		samples().Where(func(s analysis.Sample) bool { return hasName(s, "main") }).Count(), report.Samples, 0.95)
	show(t, report)
}

// waitForMetric waits until one of the receiver's own metrics is not zero.
func waitForMetric(t *testing.T, s *harness.Session, name string, patience time.Duration) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(500 * time.Millisecond) {
		m, err := s.Metrics()
		if err != nil {
			t.Fatal(err)
		}
		if m.Sum(name) > 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("%s is still 0 after %v", name, patience)
			return
		}
	}
}

// TestNoStack profiles a process that has no stack any more: the sample says that memory could not be read.
func TestNoStack(t *testing.T) {
	all, leaf := build(t, "nostack"), build(t, "nostack-leaf")
	s := start(t, harness.Options{Keep: ours(cache(t))})
	running := []*workloads.Running{run(t, all, workloads.Limits{}), run(t, leaf, workloads.Limits{})}
	time.Sleep(3 * time.Second)
	var cpu []time.Duration
	for _, r := range running {
		cpu = append(cpu, r.Stop())
	}
	survives(t, s)
	got := stop(t, s)
	for i, r := range running {
		report := analysis.Judge(r.Built, got.Samples.PID(r.PID()))
		delivered(t, r.Name, report.Samples, cpu[i])
		atLeast(t, "stacks that stop where memory ends", report.Stops["memory"], report.Samples, 0.8)
		if i == 1 {
			named := got.Samples.PID(r.PID()).Where(func(s analysis.Sample) bool { return hasName(s, "burn_without_stack") })
			atLeast(t, "stacks with the leaf", named.Count(), report.Samples, 0.9)
		}
		show(t, report)
	}
}

// TestManyMappings profiles a process with 20,000 executable mappings in all of which it runs.
func TestManyMappings(t *testing.T) {
	many := build(t, "manymaps")
	s := start(t, harness.Options{Keep: ours(cache(t))})
	r := runOne(many, 3*time.Second)
	if r.err != nil {
		t.Fatal(r.err)
	}
	survives(t, s)
	all := stop(t, s)
	report := analysis.Judge(many, all.Samples.PID(r.pid))
	delivered(t, many.Name, report.Samples, r.cpu)
	atLeast(t, "samples in the mapped page", report.Covered, report.Samples, many.Covered)
	atLeast(t, "stacks with the true chain of calls", report.Chains, report.Covered, 0.9)
	show(t, report)
	if lost := all.Metrics.Sum("samples_lost"); lost != 0 {
		t.Errorf("%v samples were lost", lost)
	}
}

// TestJIT walks through code that is in no file: with a frame pointer to the root, without one as far as it goes.
func TestJIT(t *testing.T) {
	with, without := build(t, "jit"), build(t, "jit-nofp")
	s := start(t, harness.Options{Keep: ours(cache(t))})
	runs := runAll([]workloads.Built{with, without}, 2, 2*time.Second)
	all := stop(t, s)
	for _, r := range runs {
		if r.err != nil {
			t.Fatal(r.err)
		}
		report := analysis.Judge(r.built, all.Samples.PID(r.pid))
		delivered(t, r.built.Name, report.Samples, r.cpu)
		atLeast(t, "samples in the functions that burn", report.Covered, report.Samples, r.built.Covered)
		if !r.built.Exotic {
			atLeast(t, "stacks with the true chain of calls", report.Chains, report.Covered, 0.995)
		}
		if worst := report.ShareError(r.built.Truth); worst > 0.05 {
			t.Errorf("a share is wrong by %.1f points", 100*worst)
		}
		show(t, report)
	}
}

// TestMemoryBound profiles many different executables within the smallest budget.
func TestMemoryBound(t *testing.T) {
	static := build(t, "c-static")
	dir := t.TempDir()
	s := start(t, harness.Options{Configure: smallest, Keep: ours(dir)})
	for i := range 120 {
		fresh := filepath.Join(dir, fmt.Sprint(i))
		if err := os.Mkdir(fresh, 0o755); err != nil {
			t.Fatal(err)
		}
		if r := runOne(copyTo(t, static, fresh), 30*time.Millisecond); r.err != nil {
			t.Fatal(r.err)
		}
		if err := os.RemoveAll(fresh); err != nil {
			t.Fatal(err)
		}
	}
	m := settle(t, s)
	if used := m.Sum("cache_size") + m.Sum("kernel_map_size"); used > 32<<20 {
		t.Errorf("caches and maps take %.1f MiB, the budget is 32", used/(1<<20))
	}
	stop(t, s)

}
