package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"go.uber.org/zap"
)

// shutdownPatience is how long a consumer has for the last samples if whoever calls Shutdown sets no deadline.
const shutdownPatience = 15 * time.Second

// run is the one goroutine that owns all state.
func (e *Engine) run() {
	defer close(e.done)
	defer e.close()
	e.guarded(e.loop)
}

// guarded runs f. If that panics, profiling is over, but not the collector: the status says so, and what was sampled and not
// delivered is counted.
func (e *Engine) guarded(f func()) {
	defer func() {
		cause := recover()
		if cause == nil {
			return
		}
		e.log.Error("Profiling stops: this is a defect, please report it", zap.Any("panic", cause), zap.ByteString("stack", debug.Stack()))
		if e.kernel != nil {
			if e.cpus != nil {
				e.cpus.Close()
			}
			taken, ring := e.kernel.Counts()
			accounted := e.count.Delivered + ring
			for _, n := range e.count.Lost {
				accounted += n
			}
			e.count.Lost[LostCrash] += taken - accounted
			e.publishStats()
		}
		e.status(fmt.Errorf("%w: %v", ErrCrashed, cause))
	}()
	f()
}

// loop serves until Shutdown.
func (e *Engine) loop() {
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	report := time.NewTicker(e.cfg.ReportInterval)
	defer report.Stop()
	follow := time.NewTicker(followInterval)
	defer follow.Stop()
	house := time.NewTicker(houseInterval(e.cfg.ReportInterval))
	defer house.Stop()
	attach, at := time.NewTimer(pollInterval), time.Time{}
	defer attach.Stop()
	for {
		if next := e.managed.next; !next.IsZero() && !next.Equal(at) {
			attach.Reset(time.Until(next))
			at = next
		}
		select {
		case <-poll.C:
			e.poll(time.Now())
		case <-e.wake.C():
			e.poll(time.Now())
		case r := <-e.jobs.processes.results():
			e.jobs.finish(e.jobs.processes, r)
			e.settle()
		case r := <-e.jobs.files.results():
			e.jobs.finish(e.jobs.files, r)
			e.settle()
		case r := <-e.jobs.lines.results():
			e.jobs.finish(e.jobs.lines, r)
			e.settle()
		case r := <-e.fetches.done:
			e.fetched(r)
		case d := <-e.out.done():
			e.delivered(d)
		case <-attach.C:
			e.settle()
		case <-follow.C:
			e.follow()
		case <-house.C:
			e.keepHouse(time.Now())
		case <-report.C:
			e.tick(time.Now())
		case ctx := <-e.stop:
			e.shutdown(ctx)
			return
		}
	}
}

// poll takes in what the kernel has recorded and hands on what is complete.
func (e *Engine) poll(now time.Time) {
	if e.cpus != nil {
		e.cpus.Jitter(now)
	}
	e.ingest()
	e.settle()
	e.followKernel(now)
	e.held.expire(e, now)
	e.publish()
	e.flushReady(now)
	if e.builder.Bytes()+e.said.replaced > int(e.cfg.MemoryBytes/4) {
		e.beginFlush(now)
	}
}

// settle goes on with samples that waited for what the workers found out.
func (e *Engine) settle() {
	for {
		more := e.jobs.drain()
		e.held.retry(e)
		if !more {
			break
		}
	}
	if len(e.in.later) > 0 {
		e.ingest() // once: where processes begin all the time there is no end to it
		e.held.retry(e)
	}
	e.publishDirty() // every sample until BPF knows costs a copy
	e.startSymbolJobs()
	e.startLineJobs(time.Now())
	e.startJITJobs(time.Now(), false)
	e.startManagedJobs(time.Now())
}

// tick ends a report interval.
func (e *Engine) tick(now time.Time) {
	e.poll(now)
	e.beginFlush(now)
	e.publishStats()
}

// Processes and executables count time in ticks: how long what ended is remembered, when something is tried again. A tick is
// a report interval within these bounds, the lower of which leaves held samples (holdFor) their processes.
const (
	minHouseInterval = 3 * time.Second
	maxHouseInterval = 10 * time.Second
)

func houseInterval(report time.Duration) time.Duration {
	return min(max(report, minHouseInterval), maxHouseInterval)
}

// keepHouse ends a tick of processes and executables: what ended is forgotten, what nothing needs is let go.
func (e *Engine) keepHouse(now time.Time) {
	e.poll(now)
	e.table.Tick()
	e.executables.Tick()
	e.ticks++
	e.forgetRemoved()
	e.letGo()
	e.steady()
	e.identifyAgain()
	e.sweep()
	e.loadUnwindersLater()
	e.refreshKernelSymbols(now)
	e.forgetKernel(now)
	e.forgetGoneJIT(now)
	e.symbols.forgetGone(now, e.untilReported())
	if e.ticks%trimTicks == 0 {
		e.trimTables()
	}
	e.publishStats()
}

// trimTicks is after how many ticks kernel memory that holds no table any more is given back.
const trimTicks = 6

func (e *Engine) trimTables() {
	tables := e.kernel.Tables
	e.jobs.submit(aboutSelf(trimSerial, "kernel memory without tables"), time.Minute,
		func(context.Context) (any, error) { tables.Trim(); return nil, nil }, func(any, error) {})
}

// follow looks for CPUs that came or went and publishes the counters.
func (e *Engine) follow() {
	var err error
	if e.cpus != nil {
		err = e.cpus.Follow()
		if idle, err := e.proc.IdleTimes(); err == nil {
			e.count.KernelSkipped = e.cpus.Skipped(idle)
		}
	}
	e.reportStatus(errors.Join(err, e.sideband.Follow(), e.out.trouble()))
	e.wake.Watch(e.sideband)
	e.followModules(time.Now())
	e.keepBudget()
	e.giveBack(time.Now())
	e.warnOfLoss(time.Now())
	e.publishStats()
}

// warnOfLoss says, at most once a minute, that the ring was full: nothing else does.
func (e *Engine) warnOfLoss(now time.Time) {
	_, lost := e.kernel.Counts()
	if lost == e.lossWarned || now.Sub(e.lossWarnedAt) < time.Minute {
		return
	}
	e.log.Warn("Samples were lost: the ring was full before they were read. Give the collector CPU time, lower the frequency,"+
		" or raise limits.memory_mib, of which the ring is a part", zap.Uint64("samples", lost-e.lossWarned))
	e.lossWarned, e.lossWarnedAt = lost, now
}

// shutdown delivers everything that was sampled, as far as ctx allows.
func (e *Engine) shutdown(ctx context.Context) {
	if e.cpus != nil {
		e.cpus.Close()
	}
	e.out.hurryUp()
	e.ingest()
	// what waits for workers gets a little of the time that there is
	patience := time.Now().Add(3 * time.Second)
	if d, ok := ctx.Deadline(); ok {
		if half := time.Now().Add(time.Until(d) / 2); half.Before(patience) {
			patience = half
		}
	}
	e.settle()
	e.await(ctx, patience, e.held.empty)
	e.held.finishAll(e)
	e.beginFlush(time.Now())
	e.startSymbolJobs()
	e.await(ctx, patience, func() bool { return e.symbols.idle() && len(e.unidentified()) == 0 })
	e.held.finishAll(e) // what came in meanwhile
	// without a deadline of the caller's, a consumer that hangs has this long
	limit := time.Now().Add(shutdownPatience)
	if d, ok := ctx.Deadline(); ok {
		limit = d
	}
	e.flushAll(time.Now(), func(done func() bool) { e.await(ctx, limit, done) })
	e.await(ctx, limit, e.out.idle)
	for more := true; more; {
		select {
		case d := <-e.out.done():
			e.delivered(d)
		default:
			more = false
		}
	}
	e.count.Lost[LostShutdown] += uint64(e.out.abandon())
	e.publishStats()
	s, lost := e.stats.Load(), uint64(0)
	for _, n := range s.Lost {
		lost += n
	}
	e.log.Info("profiling has ended", zap.Uint64("samples_taken", s.Taken), zap.Uint64("samples_delivered", s.Delivered),
		zap.Uint64("samples_lost", lost))
}

// await keeps working until done, the deadline or the end of ctx.
func (e *Engine) await(ctx context.Context, deadline time.Time, done func() bool) {
	timeout := time.NewTimer(time.Until(deadline))
	defer timeout.Stop()
	for !done() {
		select {
		case r := <-e.jobs.processes.results():
			e.jobs.finish(e.jobs.processes, r)
			e.settle()
		case r := <-e.jobs.files.results():
			e.jobs.finish(e.jobs.files, r)
			e.settle()
		case r := <-e.jobs.lines.results():
			e.jobs.finish(e.jobs.lines, r)
			e.settle()
		case d := <-e.out.done():
			e.delivered(d)
		case <-timeout.C:
			return
		case <-ctx.Done():
			return
		}
	}
}
