package ebpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"
	"golang.org/x/sys/unix"
)

// TestLiveness reads from a pipe what an event says in its life.
func TestLiveness(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var l liveness
	for _, look := range []struct {
		enabled uint64
		want    bool
	}{{5, true}, {6, true}, {6, false}} {
		b := binary.NativeEndian.AppendUint64(nil, 1234)
		if _, err := w.Write(binary.NativeEndian.AppendUint64(b, look.enabled)); err != nil {
			t.Fatal(err)
		}
		if got := l.check(int(r.Fd())); got != look.want {
			t.Errorf("%d ns: %v", look.enabled, got)
		}
	}
	w.Close()
	if l.check(int(r.Fd())) {
		t.Error("alive at the end of the file")
	}
	if l.check(-1) {
		t.Error("alive without a file")
	}
}

// ownCPU is a CPU that this process may run on.
func ownCPU(t *testing.T) int {
	t.Helper()
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	for cpu := range 1024 { // that many a CPUSet has
		if set.IsSet(cpu) {
			return cpu
		}
	}
	t.Fatal("this process may run on no CPU")
	return 0
}

// off leaves an event as the kernel leaves those of a CPU that goes offline.
func off(t *testing.T, fd int) {
	t.Helper()
	if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_DISABLE, 0); err != nil {
		t.Fatal(err)
	}
}

// twice looks for dead events as often as it takes to see that they are.
func twice(t *testing.T, follow func() error) {
	t.Helper()
	for range 2 {
		if err := follow(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOnCPUReplacesDeadEvents has the event of one CPU die.
func TestOnCPUReplacesDeadEvents(t *testing.T) {
	needsBPF(t)
	k, err := Load(zaptest.NewLogger(t), Options{MaxFrames: 1024, MemoryBytes: 256 << 20})
	if err != nil {
		t.Fatalf("%+v", err)
	}
	defer k.Close()
	o, err := k.StartOnCPU(997)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	first := maps.Clone(o.events)
	for range 2 {
		if err := o.Follow(); err != nil || !maps.Equal(o.events, first) {
			t.Fatalf("%v: events that live were replaced", err)
		}
	}
	cpu := ownCPU(t)
	off(t, o.events[cpu].fd)
	before := o.taken(cpu)
	busy(t, cpu)
	if n := o.taken(cpu) - before; n != 0 {
		t.Fatalf("%d samples by an event that is off", n)
	}
	twice(t, o.Follow)
	for c, e := range o.events {
		if replaced := e != first[c]; replaced != (c == cpu) {
			t.Errorf("CPU %d: replaced: %v", c, replaced)
		}
	}
	before = o.taken(cpu)
	busy(t, cpu)
	if n := o.taken(cpu) - before; n < 100 {
		t.Errorf("%d samples only by the new event", n)
	}
}

// busy keeps a CPU from idling for a fifth of a second.
func busy(t *testing.T, cpu int) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		var set unix.CPUSet
		set.Set(cpu)
		err := unix.SchedSetaffinity(0, &set)
		for end := time.Now().Add(200 * time.Millisecond); time.Now().Before(end); {
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// runOn runs /bin/true on one CPU and returns its pid.
func runOn(t *testing.T, cpu int) int {
	t.Helper()
	cmd := exec.Command("taskset", "-c", strconv.Itoa(cpu), "/bin/true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}

// TestSidebandReplacesDeadRings has the ring of one CPU die: what it held is read, what may have been missed is said, and
// what comes is recorded.
func TestSidebandReplacesDeadRings(t *testing.T) {
	needsBPF(t)
	s, err := OpenSideband(zaptest.NewLogger(t), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	first := maps.Clone(s.rings)
	for range 2 {
		if err := s.Follow(); err != nil || !maps.Equal(s.rings, first) {
			t.Fatalf("%v: rings that live were replaced", err)
		}
	}
	cpu := ownCPU(t)
	held := runOn(t, cpu)
	off(t, s.rings[cpu].fd)
	missed := runOn(t, cpu)
	twice(t, s.Follow)
	for c, r := range s.rings {
		if replaced := r != first[c]; replaced != (c == cpu) {
			t.Errorf("CPU %d: replaced: %v", c, replaced)
		}
	}
	seen := runOn(t, cpu)
	var lost uint64
	execs := map[int]bool{}
	for _, e := range s.Read(nil) {
		switch e.Kind {
		case EventLost:
			lost += e.Lost
		case EventExec:
			execs[int(e.PID)] = execs[int(e.PID)] || e.Comm == "true"
		}
	}
	if lost != 1 || !execs[held] || execs[missed] || !execs[seen] {
		t.Errorf("lost %d; executions before the death %v, then %v, then %v", lost, execs[held], execs[missed], execs[seen])
	}
	for _, e := range s.Read(nil) {
		if e.Kind == EventLost {
			t.Error("the same loss twice")
		}
	}
}

// TestCPUErrors: a machine with many CPUs says the same thing once.
func TestCPUErrors(t *testing.T) {
	c := cpuErrors{doing: "sampling"}
	if err := c.join(); err != nil {
		t.Errorf("nothing failed: %v", err)
	}
	for cpu := range 64 {
		c.add(cpu, fmt.Errorf("opening a perf event: %w", os.ErrPermission))
	}
	c.add(64, unix.EMFILE)
	err := c.join()
	const want = "sampling CPU 0, and 63 more: opening a perf event: permission denied\nsampling CPU 64: too many open files"
	if err.Error() != want || !errors.Is(err, os.ErrPermission) || !errors.Is(err, unix.EMFILE) {
		t.Errorf("got %v", err)
	}
}
