package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostprofiles/hostprofiles/test/e2e/harness"
	"github.com/hostprofiles/hostprofiles/test/e2e/workloads"
)

const cpuDir = "/sys/devices/system/cpu"

// onlineSwitch finds the file that takes a CPU offline, one that this process may run on, and the CPU's number.
func onlineSwitch(t *testing.T) (file string, cpu int) {
	t.Helper()
	switches, err := filepath.Glob(cpuDir + "/cpu[1-9]*/online")
	if err != nil {
		t.Fatal(err)
	}
	var own unix.CPUSet
	if err := unix.SchedGetaffinity(0, &own); err != nil {
		t.Fatal(err)
	}
	for _, file := range switches {
		cpu, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(filepath.Dir(file)), "cpu"))
		if err != nil {
			t.Fatal(err)
		}
		if own.IsSet(cpu) {
			return file, cpu
		}
	}
	t.Skip("not supported: no CPU that this process may run on can go offline")
	return "", 0
}

// hotplug returns a function that takes a CPU of this machine offline or brings it back, and the CPU's number. When the
// test ends the CPU is there.
func hotplug(t *testing.T) (set func(online bool), cpu int) {
	t.Helper()
	file, cpu := onlineSwitch(t)
	if state, err := os.ReadFile(file); err != nil || string(state) != "1\n" {
		t.Skipf("not supported: CPU %d is not online: %q, %v", cpu, state, err)
	}
	// cpuset1_hotplug_update_tasks of kernel/cgroup/cpuset-v1.c, Linux 6.18.
	if groups, _ := filepath.Glob("/sys/fs/cgroup/cpuset/*/cpuset.cpus"); len(groups) > 0 {
		t.Skipf("not supported: %s would lose the CPU for good, as cgroups of version 1 do", filepath.Dir(groups[0]))
	}
	write := func(text string) error { return os.WriteFile(file, []byte(text), 0) }
	if err := write("1"); errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) {
		t.Skipf("not supported: %v", err)
	}
	t.Cleanup(func() {
		if err := write("1"); err != nil {
			t.Errorf("CPU %d stays offline: %v", cpu, err)
		}
	})
	return func(online bool) {
		t.Helper()
		text := map[bool]string{false: "0", true: "1"}[online]
		if err := write(text); err != nil {
			t.Fatalf("writing %s to %s: %v", text, file, err)
		}
	}, cpu
}

// pinned runs the program on one CPU until it has used some CPU time.
func pinned(t *testing.T, b workloads.Built, cpu int, limit time.Duration) ran {
	t.Helper()
	cmd := b.Command(workloads.Limits{CPU: limit})
	taskset, err := exec.LookPath("taskset")
	if err != nil {
		t.Fatal(err)
	}
	cmd.Path, cmd.Args = taskset, append([]string{"taskset", "-c", strconv.Itoa(cpu), cmd.Path}, cmd.Args[1:]...)
	r := launched(t)(b.Launch(cmd))
	result, err := r.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return ran{built: b, pid: r.PID(), cpu: result.CPU}
}

// TestHotplug takes a CPU away and brings it back, once while nobody looks and once for longer: programs that run there
// afterwards are sampled and walked like all others, and it is said that what processes did meanwhile may not be known.
func TestHotplug(t *testing.T) {
	set, cpu := hotplug(t)
	program := build(t, "c")
	s := start(t, harness.Options{Keep: ours(cache(t))})
	warmUp()
	var runs []ran
	for i, away := range []time.Duration{0, 2500 * time.Millisecond} {
		before := sidebandLost(t, s)
		set(false)
		time.Sleep(away)
		set(true)
		for end := time.Now().Add(5 * time.Second); sidebandLost(t, s) == before; time.Sleep(100 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("nobody noticed that CPU %d went and came back, time %d", cpu, i)
			}
		}
		runs = append(runs, pinned(t, program, cpu, truthCPU))
	}
	r := stop(t, s)
	for i, ran := range runs {
		t.Run(fmt.Sprint(i), func(t *testing.T) { judge(t, ran, r.Samples.PID(ran.pid)) })
	}
}

// sidebandLost is how many losses of records of processes the session has counted.
func sidebandLost(t *testing.T, s *harness.Session) float64 {
	t.Helper()
	m, err := s.Metrics()
	if err != nil {
		t.Fatal(err)
	}
	return m.Sum("sideband_lost")
}
