package worker

import (
	"context"
	"time"

	"golang.org/x/sys/unix"
)

// looks is how many times in Options.Patience it is looked whether a job does something. They are counted, rather than
// time: a machine that was suspended is no reason to suspect its files.
const looks = 4

// watch is how a job's thread is seen to do something: its CPU time grows. A read that takes long because the file system
// is slow, or because there is much to decode, is told apart from one that hangs without the job's help.
type watch struct {
	timer *time.Timer
	tid   int
	begun int64 // its CPU time at the beginning, ns
	cpu   int64 // ns, at the last look
	looks int   // since the job began
	still int   // looks since the time grew
	waits bool  // for something of this process
}

// busy tells whether the thread was at work when it was last looked at. Each job does something at first, so that the first
// look says nothing.
func (w *watch) busy() bool { return w.looks > 1 && w.still == 0 }

type waitsKey struct{}

// Waiting calls wait, on behalf of the job whose ctx it is: what that waits for is this process's own, a turn among jobs, say.
// If it takes long another worker takes the job's place, as for one that is stuck, but its group is not suspected.
func Waiting(ctx context.Context, wait func()) {
	if waits, ok := ctx.Value(waitsKey{}).(func(bool)); ok {
		waits(true)
		defer waits(false)
	}
	wait()
}

// waits is what Waiting finds in a job's context.
func (p *Pool[K, G, V]) waits(j *job[K, G, V]) func(bool) {
	return func(on bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		j.watch.waits = on
	}
}

// startWatch is called on the job's thread.
func (p *Pool[K, G, V]) startWatch(j *job[K, G, V]) {
	tid := unix.Gettid()
	j.watch = watch{tid: tid, begun: ThreadCPU(tid)}
	j.watch.cpu = j.watch.begun
	j.watch.timer = time.AfterFunc(p.options.Patience/looks, func() { p.look(j) })
}

// stopWatch ends the watch over a job that has returned or was given up.
func (p *Pool[K, G, V]) stopWatch(j *job[K, G, V]) {
	if j.watch.timer == nil {
		return
	}
	j.watch.timer.Stop()
	j.watch.timer = nil
	if j.stuck && !j.expired {
		p.goesOn(j) // it has returned
	}
}

// look judges whether a job is stuck.
func (p *Pool[K, G, V]) look(j *job[K, G, V]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := &j.watch
	if w.timer == nil {
		return
	}
	w.looks++
	switch cpu := ThreadCPU(w.tid); {
	case cpu != w.cpu:
		w.cpu, w.still = cpu, 0
		if j.stuck {
			p.goesOn(j)
		}
	default:
		w.still++
		if w.still >= looks && !j.stuck {
			p.getsStuck(j)
		}
	}
	w.timer.Reset(p.options.Patience / looks)
}

// ThreadCPU is the CPU time that a thread of this process has used, in ns; always the same where that is not to be known.
// The clock's number is that of include/linux/posix-timers_types.h in Linux 6.18 (MAKE_THREAD_CPUCLOCK, CPUCLOCK_SCHED), and
// the same in 5.10.
func ThreadCPU(tid int) int64 {
	const perThread, sched = 4, 2
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^tid<<3|perThread|sched), &t); err != nil {
		return 0 // then only time counts
	}
	return t.Nano()
}
