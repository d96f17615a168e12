package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/hostprofiles/hostprofiles/internal/process"
	"github.com/hostprofiles/hostprofiles/internal/process/procfs"
)

// procTimeout bounds a read of /proc: a process that holds its own mmap lock can delay it.
const procTimeout = 2 * time.Second

// sweepTicks is how often /proc is compared with what the side-band told.
const sweepTicks = 3

// mapsRead is what a worker read of a process.
type mapsRead struct {
	maps  []process.MmapInfo
	start uint64 // of the process, ns of CLOCK_BOOTTIME
	time  uint64 // before the read, CLOCK_MONOTONIC
	until uint64 // after it
}

// mapsReader reads what /proc says of a process.
type mapsReader interface {
	Stat(pid uint32) (procfs.Stat, error)
	Maps(pid uint32) ([]process.MmapInfo, error)
}

// readMapsOf reads the mappings of one process: the pid is no other's when the read ends. Of one that has exited by then they are what
// it had.
func readMapsOf(proc mapsReader, clock clock, pid uint32) (mapsRead, error) {
	r := mapsRead{time: clock.monotonic()}
	stat, err := proc.Stat(pid)
	if err != nil {
		return r, err
	}
	r.start = stat.StartTime
	if r.maps, err = proc.Maps(pid); err != nil {
		return r, err
	}
	if stat, err = proc.Stat(pid); err == nil && stat.StartTime != r.start {
		return r, fmt.Errorf("reading mappings of process %d: %w", pid, procfs.ErrGone)
	}
	r.until = clock.monotonic()
	return r, nil
}

// mapsReady tells whether the process's mappings are as known as they will be; if not, they are being read.
func (e *Engine) mapsReady(st *processState) bool {
	if st.kernel || st.elsewhere {
		return true
	}
	if st.p.WantsMaps() {
		e.readMaps(st.p)
	}
	return !st.p.Reading()
}

// readMaps reads /proc/PID/maps.
func (e *Engine) readMaps(p *process.Process) {
	e.table.ReadStarted(p)
	proc, clock, pid := e.proc, e.clock, p.PID
	e.jobs.submit(aboutProcess(pid, "mappings"), procTimeout,
		func(context.Context) (any, error) { return readMapsOf(proc, clock, pid) },
		func(v any, err error) {
			if err != nil {
				e.held.wake(p)
				e.table.ReadFailed(p)
				if !errors.Is(err, procfs.ErrGone) {
					e.log.Debug("reading mappings", zap.Uint32("pid", pid), zap.Error(err))
				}
				return
			}
			r := v.(mapsRead)
			// If the process began another program before the end of the read, that has to be known.
			e.afterEvents(r.until, func() {
				e.held.wake(p)
				e.table.SetMaps(p, r.maps, r.time, r.start)
			})
		})
}

// scanProcesses reads the mappings of all processes that run already.
func (e *Engine) scanProcesses() {
	e.listProcesses(func(pids []uint32, at uint64) {
		for _, pid := range pids {
			if p := e.table.Add(pid, at); p.WantsMaps() {
				e.readMaps(p)
			}
		}
	})
}

// sweep compares the table with /proc now and then, and always after side-band records were lost.
func (e *Engine) sweep() {
	if e.ticks%sweepTicks != 0 && e.sweptLost == e.count.SidebandLost {
		return
	}
	e.sweptLost = e.count.SidebandLost
	e.listProcesses(func(pids []uint32, at uint64) {
		for _, pid := range e.table.Reconcile(pids, at) {
			e.table.Add(pid, at)
		}
	})
}

func (e *Engine) listProcesses(then func(pids []uint32, at uint64)) {
	proc, at := e.proc, e.clock.monotonic()
	e.jobs.submit(aboutProcesses(), procTimeout,
		func(context.Context) (any, error) { return proc.PIDs() },
		func(v any, err error) {
			if err != nil {
				e.log.Warn("listing processes", zap.Error(err))
				return
			}
			then(v.([]uint32), at)
		})
}

// identity is what says who a process is.
type identity struct {
	exe, command, container string
	group                   uint64 // id of the control group, 0 if unknown
	time                    uint64 // when all was read, CLOCK_MONOTONIC, ns
}

// maxIdentifyTries is how often it is tried to identify a process.
const maxIdentifyTries = 5

// identifyAgain tries once more where something went wrong: a container.id that is missing is missing for as long as the
// process lives.
func (e *Engine) identifyAgain() {
	for _, st := range e.states {
		if st.identifyAgain && st.p.State() == process.Live && st.identifyTries < maxIdentifyTries {
			e.identify(st)
		}
	}
}

// identify reads who the process is. If it is gone already, its mappings tell what it ran.
func (e *Engine) identify(st *processState) {
	if st.kernel || st.elsewhere {
		return
	}
	st.identifyTries++
	st.identifyAgain = false
	st.identifying++
	proc, clock, pid, start := e.proc, e.clock, st.p.PID, st.p.StartTime()
	e.jobs.submit(aboutProcess(pid, "identity"), procTimeout,
		func(context.Context) (any, error) {
			var id identity
			var errs [3]error
			id.exe, errs[0] = proc.Exe(pid)
			id.command, errs[1] = proc.Command(pid)
			var group procfs.Cgroup
			group, errs[2] = proc.Cgroup(pid)
			id.container = group.ContainerID
			if id.container != "" {
				id.group, _ = proc.CgroupID(group.Path) // 0 where it is not in the unified hierarchy
			}
			// after the rest, so that what was read is this process's
			stat, err := proc.Stat(pid)
			if err != nil {
				return nil, err
			}
			if stat.StartTime/1e7 != start/1e7 {
				return nil, fmt.Errorf("identifying process %d: %w", pid, procfs.ErrGone)
			}
			id.time = clock.monotonic()
			return id, errors.Join(errs[:]...)
		},
		func(v any, err error) {
			id, _ := v.(identity)
			// If the process began another program before that was read, that has to be known.
			e.afterEvents(id.time, func() { e.identified(st, id, err) })
		})
}

// identified takes what was read of who the process is; id.time is 0 if nothing was.
func (e *Engine) identified(st *processState, id identity, err error) {
	st.identifying--
	if id.time != 0 {
		st.resource.ContainerID = id.container
		e.containers.learn(id.group, id.container)
		if !st.succeeded(id.time) {
			st.resource.ExecutablePath, st.resource.Command = process.Undeleted(id.exe), id.command
			st.identified = id.time
		}
	}
	if st.resource.ContainerID == "" { // gone, or a zombie, which has left its control group
		e.containerByGroup(st)
	}
	if err != nil && !errors.Is(err, procfs.ErrGone) {
		st.identifyAgain = true
		e.log.Debug("identifying a process", zap.Uint32("pid", st.p.PID), zap.Error(err))
	}
	if st.resource.ExecutablePath != "" {
		st.resource.ExecutableName = baseName(st.resource.ExecutablePath)
	}
}

// succeeded tells whether the pid stood for another program or process at the time: what was read then is that one's.
func (st *processState) succeeded(time uint64) bool {
	ended := st.p.Ended()
	return ended != 0 && ended <= time
}

// fallBack names a process that was gone before it could be identified by the first file that it mapped: exec maps the
// program before its interpreter and libraries. So is one of which it turned out late that it was succeeded by then.
func (st *processState) fallBack() {
	r := st.resource
	if st.identified != 0 && st.succeeded(st.identified) {
		r.ExecutableName, r.ExecutablePath, r.Command, st.identified = "", "", "", 0
	}
	if r.ExecutableName != "" {
		return
	}
	var first *process.MappedFile
	maps := st.p.Mappings()
	for i := range maps {
		m := &maps[i]
		if m.File == nil || m.File.VDSO() || first != nil && first.Time <= m.Time {
			continue
		}
		first = m
	}
	if first != nil {
		r.ExecutablePath = process.Undeleted(first.File.Path)
		r.ExecutableName = baseName(r.ExecutablePath)
		return
	}
	r.ExecutableName = st.p.Comm()
}
