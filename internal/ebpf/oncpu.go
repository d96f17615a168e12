package ebpf

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"
)

// jitter is how far a period may lie from the mean, either way.
const jitter = 0.10

// OnCPU samples every CPU at a mean frequency, whatever the periods of the programs that run there.
//
// The period of each event is changed a few times a second, by up to jitter, so that no program stays in step with it.
// A change restarts the event's timer, which costs half a period on average; the periods are shorter by just as much, so
// that the mean number of samples a second is the frequency. It is used by one goroutine.
type OnCPU struct {
	log       *zap.Logger
	program   *ebpf.Program
	frequency float64
	changes   float64 // a second and CPU
	events    map[int]*onCPUEvent
	random    *rand.Rand
	skipped   uint64
	taken     func(cpu int) uint64
}

type onCPUEvent struct {
	fd     int
	link   *link.RawLink
	alive  liveness
	period uint64
	next   time.Time // of the next change

	// for the count of events for which no program ran
	count   uint64 // the event's own, ns
	taken   uint64
	idle    uint64
	missing int64 // events without a program run since the last call of Skipped
}

// StartOnCPU attaches the on-CPU program to a cpu-clock event on every online CPU. frequency in Hz.
func (k *Kernel) StartOnCPU(frequency int) (*OnCPU, error) {
	o := &OnCPU{
		log: k.log, program: k.onCPU, frequency: float64(frequency),
		// a dozen samples between changes at low frequencies
		changes: min(8, float64(frequency)/12),
		events:  map[int]*onCPUEvent{},
		random:  rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), uint64(frequency))),
		taken: func(cpu int) uint64 {
			if cpu >= len(k.counters) {
				return 0
			}
			t, _ := loadCounters(&k.counters[cpu])
			return t
		},
	}
	if err := o.Follow(); err != nil {
		o.Close()
		return nil, err
	}
	if len(o.events) == 0 {
		return nil, errors.New("no CPU could be sampled")
	}
	return o, nil
}

// Period is the mean time between two samples of a CPU, in ns.
func (o *OnCPU) Period() int64 { return int64(1e9 / o.frequency) }

// Len is how many CPUs are sampled.
func (o *OnCPU) Len() int {
	if o == nil {
		return 0
	}
	return len(o.events)
}

// Follow opens events on CPUs that came and closes those of CPUs that went. A CPU that went and came back between two
// calls gets a new event at the next call but one at the latest: the one that it had is dead, see liveness.
func (o *OnCPU) Follow() error {
	cpus, err := onlineCPUs()
	if err != nil {
		return err
	}
	errs := cpuErrors{doing: "sampling"}
	for cpu, e := range o.events {
		if !slices.Contains(cpus, cpu) || !e.alive.check(e.fd) {
			e.close()
			delete(o.events, cpu)
		}
	}
	for _, cpu := range cpus {
		if _, ok := o.events[cpu]; ok {
			continue
		}
		e, err := o.open(cpu)
		if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENXIO) {
			continue // it went offline just now
		}
		if err != nil {
			errs.add(cpu, err) // the others are sampled all the same
			continue
		}
		o.events[cpu] = e
	}
	return errs.join()
}

// newPeriod draws a period in ns, see OnCPU.
func (o *OnCPU) newPeriod() uint64 {
	mean := 1e9 / (o.frequency + o.changes/2)
	return uint64(mean * (1 + jitter*(2*o.random.Float64()-1)))
}

func (o *OnCPU) open(cpu int) (*onCPUEvent, error) {
	e := &onCPUEvent{period: o.newPeriod(), next: o.nextChange(time.Now())}
	attr := unix.PerfEventAttr{
		Type:   unix.PERF_TYPE_SOFTWARE,
		Config: unix.PERF_COUNT_SW_CPU_CLOCK,
		Size:   perfAttrSize,
		Sample: e.period,
		Bits:   unix.PerfBitDisabled | unix.PerfBitExcludeIdle,
		// see liveness
		Read_format: unix.PERF_FORMAT_TOTAL_TIME_ENABLED,
	}
	fd, err := unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
			return nil, fmt.Errorf("opening a perf event needs CAP_PERFMON (or CAP_SYS_ADMIN): %w", err)
		}
		return nil, fmt.Errorf("opening a perf event: %w", err)
	}
	e.fd = fd
	if err := e.attach(o.program); err != nil {
		unix.Close(fd)
		return nil, err
	}
	if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_ENABLE, 0); err != nil {
		e.close()
		return nil, fmt.Errorf("enabling a perf event: %w", err)
	}
	e.taken = o.taken(cpu)
	return e, nil
}

// attach uses a bpf_link where the kernel has it for perf events (5.15), the ioctl elsewhere.
func (e *onCPUEvent) attach(p *ebpf.Program) (err error) {
	e.link, err = link.AttachRawLink(link.RawLinkOptions{Target: e.fd, Program: p, Attach: ebpf.AttachPerfEvent})
	if err == nil {
		return nil
	}
	if err2 := unix.IoctlSetInt(e.fd, unix.PERF_EVENT_IOC_SET_BPF, p.FD()); err2 != nil {
		return fmt.Errorf("attaching to a perf event: %w", errors.Join(err2, err))
	}
	return nil
}

func (e *onCPUEvent) close() {
	_ = unix.IoctlSetInt(e.fd, unix.PERF_EVENT_IOC_DISABLE, 0)
	if e.link != nil {
		e.link.Close()
	}
	unix.Close(e.fd)
}

// nextChange is exponentially distributed (bounded), so that the changes have no period either.
func (o *OnCPU) nextChange(now time.Time) time.Time {
	wait := min(3, o.random.ExpFloat64()) / o.changes
	return now.Add(time.Duration(wait * 1e9))
}

// Jitter changes the periods that are due; call it some ten times a second.
func (o *OnCPU) Jitter(now time.Time) {
	for cpu, e := range o.events {
		if now.Before(e.next) {
			continue
		}
		o.account(cpu, e)
		e.period = o.newPeriod()
		e.next = o.nextChange(now)
		if err := setPeriod(e.fd, e.period); err != nil {
			o.log.Debug("changing a sampling period", zap.Int("cpu", cpu), zap.Error(err))
		}
	}
}

// account counts the events of the period that ends now for which the kernel ran no program: those that the event's own
// clock says there were, less those taken. Only if the CPU never idled: events of the idle task are left out.
func (o *OnCPU) account(cpu int, e *onCPUEvent) {
	count, _, err := readEvent(e.fd)
	if err != nil {
		return
	}
	taken := o.taken(cpu)
	// Each change restarts the timer, so whole periods since the last one count. Single events may be counted in the
	// neighbouring period; over a second that cancels out.
	e.missing += int64((count-e.count)/e.period) - int64(taken-e.taken)
	e.count, e.taken = count, taken
}

// Skipped counts, per CPU, over the time since the last call in which the CPU was never idle (idle: its idle time so far,
// any unit), the events for which the kernel ran no program.
func (o *OnCPU) Skipped(idle map[int]uint64) uint64 {
	for cpu, e := range o.events {
		now, ok := idle[cpu]
		if ok && now == e.idle && e.missing > 0 {
			o.skipped += uint64(e.missing)
		}
		e.missing, e.idle = 0, now
	}
	return o.skipped
}

// Close ends sampling; records already in the ring stay there.
func (o *OnCPU) Close() {
	for cpu, e := range o.events {
		e.close()
		delete(o.events, cpu)
	}
}
