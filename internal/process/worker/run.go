package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"runtime/debug"
	"time"
)

const (
	maxExtended = 9  // how often a job gets its time once more
	leastBusy   = 50 // the part of its time, 1/leastBusy, that a job at work has had of a CPU
)

// limit is how many goroutines that are not stuck there may be.
func (p *Pool[K, G, V]) limit() int {
	return p.options.Workers - max(0, p.stats.Stuck-p.options.MaxStuck)
}

// mayStart tells whether one more goroutine is within bounds.
func (p *Pool[K, G, V]) mayStart() bool { return p.workers < p.limit() }

// exhausted tells whether nobody is left to run a job.
func (p *Pool[K, G, V]) exhausted() bool { return p.workers <= 0 && !p.mayStart() }

// work runs jobs until the pool is closed or there are enough other workers.
func (p *Pool[K, G, V]) work() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.workers <= p.limit() {
		for len(p.ready) == 0 && !p.closed {
			p.waiting++
			p.wake.Wait()
			p.waiting--
		}
		if len(p.ready) == 0 {
			break
		}
		if !p.runLocked(p.next()) {
			return // it was stuck, and others do its work
		}
	}
	p.workers--
	p.idle.Broadcast()
}

// runLocked runs a job. It returns false if the goroutine has lost its place in the meantime.
func (p *Pool[K, G, V]) runLocked(j *job[K, G, V]) bool {
	// The thread tells whether the job does something, so it has to be the job's.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p.stats.Running++
	p.keys[j.Key].running = j
	j.started = time.Now()
	p.startWatch(j)
	ctx, cancel := context.WithCancelCause(p.ctx)
	j.deadline = time.AfterFunc(j.Timeout, func() { p.expire(j, cancel) })
	p.mu.Unlock()
	value, err := runSafely(context.WithValue(ctx, waitsKey{}, p.waits(j)), j.Run)
	j.deadline.Stop()
	timedOut := err != nil && errors.Is(context.Cause(ctx), ErrTimeout)
	cancel(nil)
	panics := p.report(j, err)
	if timedOut {
		// It noticed the deadline itself; the timer may or may not have been handled yet.
		panics += p.report(j, drop(value))
		var none V
		value, err = none, fmt.Errorf("%w: %w", ErrTimeout, err)
	}

	p.mu.Lock()
	p.stats.Panics += panics
	if j.expired {
		p.mu.Unlock()
		panics = p.report(j, drop(value)) // may hang like any call that touches the target
		p.mu.Lock()
		p.stats.Panics += panics
		return p.returned(j)
	}
	p.stopWatch(j)
	p.stats.Running--
	j.group.running--
	if timedOut {
		p.stats.Timeouts++
	} else {
		j.group.suspicion = 0
	}
	p.deliver(j, value, err)
	p.release(j.Key)
	p.list(j.group)
	p.left(j.group)
	return true
}

// runSafely calls run and makes an error of a panic: what it reads is hostile, and a mistake in one parser is not to end
// the collector.
func runSafely[V any](ctx context.Context, run func(context.Context) (V, error)) (value V, err error) {
	defer func() {
		if r := recover(); r != nil {
			var none V
			value, err = none, &PanicError{r, debug.Stack()}
		}
	}()
	return run(ctx)
}

// report tells of a panic, and returns how many there were.
func (p *Pool[K, G, V]) report(j *job[K, G, V], err error) uint64 {
	var panicked *PanicError
	if !errors.As(err, &panicked) {
		return 0
	}
	p.options.Panicked(j.What, panicked)
	return 1
}

// drop closes a result that nobody will see. Only a panic is an error that somebody wants to know of.
func drop(value any) error {
	c, ok := value.(io.Closer)
	if !ok || isNil(value) {
		return nil
	}
	_, err := runSafely(context.Background(), func(context.Context) (any, error) { return nil, c.Close() })
	return err
}

// isNil tells whether value is a nil pointer, as functions return next to an error.
func isNil(value any) bool {
	v := reflect.ValueOf(value)
	switch v.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice, reflect.Func, reflect.Chan, reflect.Interface:
		return v.IsNil()
	}
	return false
}

// deliver sends a result. There is room: Submit counts every job that has not been taken from the channel.
func (p *Pool[K, G, V]) deliver(j *job[K, G, V], value V, err error) {
	r := Result[K, V]{ID: j.id, Key: j.Key, Value: value, Err: err}
	if !j.started.IsZero() {
		r.Took = time.Since(j.started)
	}
	p.stats.Done++
	p.results <- r
}

// release lets the next job for a key run.
func (p *Pool[K, G, V]) release(key K) {
	k := p.keys[key]
	k.running = nil
	if len(k.waiting) == 0 {
		delete(p.keys, key)
		return
	}
	next := k.waiting[0]
	k.waiting[0] = nil
	k.waiting = k.waiting[1:]
	p.enqueue(next)
}

// expire reports a job that has passed its deadline, and replaces its goroutine, unless it is to have more time.
func (p *Pool[K, G, V]) expire(j *job[K, G, V], cancel context.CancelCauseFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.keys[j.Key]
	if k == nil || k.running != j || j.expired {
		return // the pool was closed, or the job has just ended
	}
	if p.hungry(j) {
		j.extended++
		j.deadline.Reset(j.Timeout)
		return
	}
	cancel(ErrTimeout)
	p.stats.Timeouts++
	p.giveUp(k, j, ErrTimeout)
}

// hungry tells whether a job has passed its deadline for want of CPU time only: where this process may use a tenth of a CPU, what takes
// two seconds takes twenty. It has not had as much of it as the deadline says, and is at work.
func (p *Pool[K, G, V]) hungry(j *job[K, G, V]) bool {
	used := time.Duration(ThreadCPU(j.watch.tid) - j.watch.begun)
	return j.extended < maxExtended && !j.stuck && used < j.Timeout && used > time.Since(j.started)/leastBusy
}

// giveUp reports a running job. Its goroutine is stuck until it returns.
func (p *Pool[K, G, V]) giveUp(k *keyState[K, G, V], j *job[K, G, V], err error) {
	if !j.stuck {
		p.getsStuck(j)
	}
	j.expired, k.expired = true, true
	p.suspects--
	p.stopWatch(j)
	var none V
	p.deliver(j, none, err)
	p.failWaiting(k, ErrStuck)
	p.idle.Broadcast()
}

// getsStuck notes that a job hangs, or has passed its deadline. Another goroutine takes its worker's place. Its group is
// suspected unless the job computes: a file that takes too long to decode says nothing about where it lies.
func (p *Pool[K, G, V]) getsStuck(j *job[K, G, V]) {
	g := j.group
	j.stuck = true
	p.stats.Running--
	p.stats.Stuck++
	p.suspects++
	p.workers--
	g.running--
	g.stuck++
	if !j.watch.waits && !j.watch.busy() {
		g.suspicion++
	}
	if g.suspicion >= p.options.GroupStuck {
		g.probeAt = time.Now().Add(p.options.Probe)
		p.failGroup(g, ErrGroupStuck)
	}
	p.list(g)
	p.call()
	if p.exhausted() {
		p.failAll(ErrExhausted)
	}
	p.idle.Broadcast()
}

// goesOn notes that a job does not hang any more. There may be a goroutine too many for a while.
func (p *Pool[K, G, V]) goesOn(j *job[K, G, V]) {
	g := j.group
	j.stuck = false
	p.stats.Running++
	p.stats.Stuck--
	p.suspects--
	p.workers++
	g.running++
	g.stuck--
	g.suspicion = min(g.suspicion, g.stuck)
}

// returned notes that a job came back that had been given up. It returns whether its goroutine goes on as a worker.
func (p *Pool[K, G, V]) returned(j *job[K, G, V]) bool {
	g := j.group
	p.stats.Stuck--
	p.stats.LateResults++
	g.stuck--
	g.suspicion = min(g.suspicion, g.stuck)
	delete(p.keys, j.Key)
	p.list(g)
	p.left(g)
	if p.closed || !p.mayStart() {
		return false
	}
	p.workers++
	return true
}
