package ebpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// onlineCPUs reads which CPUs run, as "0-3,8" in /sys/devices/system/cpu/online.
func onlineCPUs() ([]int, error) {
	b, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		return nil, fmt.Errorf("reading which CPUs are online: %w", err)
	}
	return parseCPUList(strings.TrimSpace(string(b)))
}

func parseCPUList(s string) ([]int, error) {
	var cpus []int
	for part := range strings.SplitSeq(s, ",") {
		lo, hi, isRange := strings.Cut(part, "-")
		if !isRange {
			hi = lo
		}
		first, err1 := strconv.Atoi(lo)
		last, err2 := strconv.Atoi(hi)
		if err1 != nil || err2 != nil || first < 0 || last < first || last > 1<<16 {
			return nil, fmt.Errorf("bad CPU list %q", s)
		}
		for c := first; c <= last; c++ {
			cpus = append(cpus, c)
		}
	}
	return cpus, nil
}

// errNoCount: the kernel has nothing to say of a perf event.
var errNoCount = errors.New("the event has no count")

// readEvent reads a perf event whose read format is PERF_FORMAT_TOTAL_TIME_ENABLED: its count, and for how long it has been
// on, in ns.
func readEvent(fd int) (count, enabled uint64, err error) {
	var b [16]byte
	n, err := unix.Read(fd, b[:])
	if err == nil && n != len(b) {
		err = errNoCount // end of file: it is in error (perf_read, kernel/events/core.c)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("reading a perf event: %w", err)
	}
	return binary.NativeEndian.Uint64(b[:]), binary.NativeEndian.Uint64(b[8:]), nil
}

// liveness tells whether an event that is bound to a CPU is still at work there.
//
// When a CPU goes offline, the kernel takes its events out of the CPU's context for good and leaves them switched off
// (perf_event_exit_cpu_context and list_del_event, kernel/events/core.c, Linux 5.10 to 6.18). The CPU's return does not
// bring them back, and nothing says so: read(2) gives the last count, poll(2) no error, and PERF_EVENT_IOC_ENABLE succeeds
// without effect. But the time for which an event has been on stands still from then on, which it never does otherwise: the
// second look after the end sees it at the latest.
type liveness struct{ enabled uint64 } // at the last look, ns

func (l *liveness) check(fd int) bool {
	_, enabled, err := readEvent(fd)
	alive := err == nil && enabled > l.enabled
	l.enabled = enabled
	return alive
}

// cpuErrors collects what failed on which CPUs. Many fail for the same reason, which is said once.
type cpuErrors struct {
	doing string
	all   []cpuError
}

type cpuError struct {
	cpu  int
	err  error
	more int // CPUs
}

func (c *cpuErrors) add(cpu int, err error) {
	for i := range c.all {
		if c.all[i].err.Error() == err.Error() {
			c.all[i].more++
			return
		}
	}
	c.all = append(c.all, cpuError{cpu: cpu, err: err})
}

func (c *cpuErrors) join() error {
	var errs []error
	for _, e := range c.all {
		if e.more > 0 {
			errs = append(errs, fmt.Errorf("%s CPU %d, and %d more: %w", c.doing, e.cpu, e.more, e.err))
		} else {
			errs = append(errs, fmt.Errorf("%s CPU %d: %w", c.doing, e.cpu, e.err))
		}
	}
	return errors.Join(errs...)
}
