package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostprofiles/hostprofiles/test/e2e/analysis"
	"github.com/hostprofiles/hostprofiles/test/e2e/harness"
	"github.com/hostprofiles/hostprofiles/test/e2e/workloads"
)

func startChild(t *testing.T, o harness.ChildOptions, change func(*exec.Cmd)) *harness.Child {
	t.Helper()
	c, err := harness.StartChild(o, change)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Kill)
	return c
}

func stopChild(t *testing.T, c *harness.Child) harness.ChildResult {
	t.Helper()
	r, err := c.Stop()
	if errors.Is(err, harness.ErrNotSupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if r.Problem != "" {
		t.Errorf("a payload is not conformant: %s", r.Problem)
	}
	return r
}

// everybodys copies the test's executable to where any user may execute it.
func everybodys(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "hostprofiles-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return copyTo(t, workloads.Built{Path: self}, dir).Path
}

// TestCapabilities profiles as a user that is not root, with six capabilities.
func TestCapabilities(t *testing.T) {
	if unix.Geteuid() != 0 {
		t.Skip("not supported: giving another user capabilities takes root")
	}
	program, self := build(t, "c"), everybodys(t)
	c := startChild(t, harness.ChildOptions{Below: cache(t)}, func(cmd *exec.Cmd) {
		cmd.Path = self
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Credential: &syscall.Credential{Uid: 65534, Gid: 65534},
			AmbientCaps: []uintptr{
				unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_SYS_PTRACE, unix.CAP_DAC_READ_SEARCH, unix.CAP_SYSLOG,
				unix.CAP_CHECKPOINT_RESTORE,
			},
		}
	})
	warmUp()
	ran := runOne(program, truthCPU)
	r := stopChild(t, c)
	if ran.err != nil {
		t.Fatal(ran.err)
	}
	judge(t, ran, r.Samples.PID(ran.pid))
	if !slices.ContainsFunc(r.Samples, func(s analysis.Sample) bool { return s.Kernel() && s.Frames[0].Name() != "" }) {
		t.Error("no kernel frame has a name")
	}
}

// TestPIDNamespace profiles from within a pid namespace: processes there have the pids that they have there. Of processes
// outside there is nothing but their share of the CPUs.
func TestPIDNamespace(t *testing.T) {
	if unix.Geteuid() != 0 {
		t.Skip("not supported: a new pid namespace takes root")
	}
	program := build(t, "c")
	outside := run(t, build(t, "c-static"), workloads.Limits{})
	c := startChild(t, harness.ChildOptions{
		Below: cache(t), MountProc: true, Run: program.Path, Limits: workloads.Limits{CPU: truthCPU},
	}, func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID, Unshareflags: syscall.CLONE_NEWNS}
	})
	r := stopChild(t, c)
	if r.PID == 0 || r.PID > 1000 {
		t.Errorf("the workload's pid is %d, not one of a new namespace", r.PID)
	}
	judge(t, ran{built: program, pid: r.PID, cpu: r.CPU}, r.Samples.PID(r.PID))
	others := r.Samples.PID(outside.PID())
	if others.Count() < frequency {
		t.Errorf("%d samples of a process outside", others.Count())
	}
	for _, s := range others {
		if s.StopReason != "other_pid_namespace" || len(s.User()) > 0 {
			t.Errorf("a sample of a process outside stops for %q, after %d user frames", s.StopReason, len(s.User()))
			break
		}
	}
}

// bpfObjects lists what the kernel holds.
func bpfObjects(t *testing.T) map[string][]int {
	t.Helper()
	out, err := exec.Command(build(t, "bpfobjects").Path).Output()
	if err != nil {
		t.Fatal(err)
	}
	var ids map[string][]int
	if err := json.Unmarshal(out, &ids); err != nil {
		t.Fatal(err)
	}
	return ids
}

// leftOver lists the objects that are there and were not before.
func leftOver(t *testing.T, before map[string][]int) (left []string) {
	t.Helper()
	for kind, ids := range bpfObjects(t) {
		for _, id := range ids {
			if !slices.Contains(before[kind], id) {
				left = append(left, fmt.Sprintf("%s %d", kind, id))
			}
		}
	}
	return left
}

// nothingLeft waits until the kernel has freed everything: it does so in the background.
func nothingLeft(t *testing.T, before map[string][]int) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		left := leftOver(t, before)
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the kernel still holds the BPF objects %q", left)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// TestKill kills the profiler: nothing of it stays in the kernel, and the next one just works.
func TestKill(t *testing.T) {
	before := bpfObjects(t)
	c := startChild(t, harness.ChildOptions{Below: cache(t)}, nil)
	time.Sleep(time.Second)
	if len(leftOver(t, before)) == 0 {
		r := stopChild(t, c)
		t.Fatalf("the profiler made no BPF objects: %v", r.Logs)
	}
	c.Kill()
	nothingLeft(t, before)
	again := startChild(t, harness.ChildOptions{Below: cache(t)}, nil)
	ran := runOne(build(t, "c"), time.Second)
	r := stopChild(t, again)
	if ran.err != nil {
		t.Fatal(ran.err)
	}
	delivered(t, "after a restart", r.Samples.PID(ran.pid).Count(), ran.cpu)
	nothingLeft(t, before)
}

// TestRestarts starts and stops the receiver again and again in one process, and two at once.
func TestRestarts(t *testing.T) {
	before := bpfObjects(t)
	program := build(t, "c")
	for range 3 {
		s := start(t, harness.Options{Keep: ours(cache(t))})
		ran := runOne(program, 200*time.Millisecond)
		r := stop(t, s)
		if ran.err != nil {
			t.Fatal(ran.err)
		}
		delivered(t, "after a restart", r.Samples.PID(ran.pid).Count(), ran.cpu)
	}
	first, second := start(t, harness.Options{Keep: ours(cache(t))}), start(t, harness.Options{Keep: ours(cache(t))})
	ran := runOne(program, time.Second)
	if ran.err != nil {
		t.Fatal(ran.err)
	}
	for _, s := range []*harness.Session{first, second} {
		delivered(t, "beside another receiver", stop(t, s).Samples.PID(ran.pid).Count(), ran.cpu)
	}
	nothingLeft(t, before)
}

// TestFlush delivers the samples of an interval that did not end.
func TestFlush(t *testing.T) {
	s := start(t, harness.Options{ReportInterval: time.Hour, Keep: ours(cache(t))})
	ran := runOne(build(t, "c"), time.Second)
	if ran.err != nil {
		t.Fatal(ran.err)
	}
	if n := len(s.Samples()); n != 0 {
		t.Errorf("%d samples came before the interval ended", n)
	}
	delivered(t, "at shutdown", stop(t, s).Samples.PID(ran.pid).Count(), ran.cpu)
}
