// Package worker runs what a target can delay: reads of its files, its memory and its /proc entries. Jobs have deadlines.
// A read that hangs in the kernel cannot be called back, so a job that passes its deadline is reported, its goroutine is
// abandoned and another takes its place; for the target that it was for nothing else is run until it returns.
//
// Results come as values over a channel, so that the one goroutine that owns all state stays the only one to touch it.
package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime/debug"
	"sync"
	"time"
)

var (
	// ErrTimeout: the job passed its deadline. What it returns later is dropped.
	ErrTimeout = errors.New("deadline passed")
	// ErrStuck: an earlier job for the same key passed its deadline and has not returned yet; or so many have that no
	// worker is left.
	ErrStuck = errors.New("an earlier read is stuck")
	// ErrFull: too many jobs wait, or too many results were not taken yet.
	ErrFull = errors.New("too many jobs")
	// ErrClosed: the pool was closed.
	ErrClosed = errors.New("pool is closed")
	// ErrPanic: the job panicked.
	ErrPanic = errors.New("panic")
)

// Options size a Pool. A zero field means its default.
type Options struct {
	Workers  int // jobs at a time, not counting stuck ones; default 2
	MaxStuck int // stuck goroutines that are replaced; default 16. Beyond, workers become fewer.
	Jobs     int // jobs that wait, run, or whose results were not taken; default 1,024
}

func (o Options) withDefaults() Options {
	if o.Workers <= 0 {
		o.Workers = 2
	}
	if o.MaxStuck <= 0 {
		o.MaxStuck = 16
	}
	if o.Jobs <= 0 {
		o.Jobs = 1024
	}
	return o
}

// Result is what became of a job.
type Result[K comparable, V any] struct {
	ID    uint64 // as Submit returned it
	Key   K
	Value V
	Err   error
	Took  time.Duration // from its start; zero if it never started
}

// Stats counts what a Pool did. Stuck, Running and Queued are current.
type Stats struct {
	Submitted, Done, Refused uint64 // accepted; ended with a result, an error included; not accepted
	Timeouts                 uint64
	Panics                   uint64
	LateResults              uint64 // dropped because their job had timed out
	Stuck, Running, Queued   int
}

// Pool runs jobs, at most one at a time for each key.
type Pool[K comparable, V any] struct {
	options Options
	results chan Result[K, V]
	ctx     context.Context
	cancel  context.CancelFunc

	mu      sync.Mutex
	wake    sync.Cond // there is work, or the pool was closed
	idle    sync.Cond // a worker has ended
	ready   []*job[K, V]
	keys    map[K]*keyState[K, V]
	workers int // goroutines that are not stuck
	waiting int // of these, those without a job
	stats   Stats
	nextID  uint64
	closed  bool
}

// keyState is there while a key has a job that waits for a worker, runs or is stuck.
type keyState[K comparable, V any] struct {
	running *job[K, V] // nil while it waits for a worker
	stuck   bool
	waiting []*job[K, V]
}

type job[K comparable, V any] struct {
	id      uint64
	key     K
	timeout time.Duration
	run     func(context.Context) (V, error)
	started time.Time
	expired bool // reported as ErrTimeout, its goroutine is stuck
}

// New returns a pool. Goroutines start as they are needed.
func New[K comparable, V any](o Options) *Pool[K, V] {
	o = o.withDefaults()
	p := &Pool[K, V]{options: o, results: make(chan Result[K, V], o.Jobs), keys: make(map[K]*keyState[K, V])}
	p.wake.L, p.idle.L = &p.mu, &p.mu
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Results returns the channel on which every accepted job's result comes, exactly one each. It is closed by Close.
func (p *Pool[K, V]) Results() <-chan Result[K, V] { return p.results }

// Submit accepts a job that may run for timeout, counted from its start, and returns its id. Jobs for one key run one
// after the other in the order of submission. The context passed to run is cancelled at the deadline and by Close. If
// run's value is an io.Closer and comes too late, it is closed. Submit never blocks; it fails with ErrStuck, ErrFull or
// ErrClosed, and then no result comes.
func (p *Pool[K, V]) Submit(key K, timeout time.Duration, run func(context.Context) (V, error)) (id uint64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.refusal(key); err != nil {
		p.stats.Refused++
		return 0, err
	}
	p.nextID++
	p.stats.Submitted++
	p.stats.Queued++
	j := &job[K, V]{id: p.nextID, key: key, timeout: timeout, run: run}
	if k := p.keys[key]; k != nil {
		k.waiting = append(k.waiting, j)
		return j.id, nil
	}
	p.keys[key] = &keyState[K, V]{}
	p.enqueue(j)
	return j.id, nil
}

func (p *Pool[K, V]) refusal(key K) error {
	switch k := p.keys[key]; {
	case p.closed:
		return ErrClosed
	case k != nil && k.stuck, p.workers == 0 && !p.mayStart():
		return ErrStuck
	case p.stats.Queued+p.stats.Running+len(p.results) >= cap(p.results):
		return ErrFull
	}
	return nil
}

// Stats returns the counters.
func (p *Pool[K, V]) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}

// enqueue makes a job whose key is free ready to run, by a new goroutine if no other waits.
func (p *Pool[K, V]) enqueue(j *job[K, V]) {
	p.ready = append(p.ready, j)
	if p.waiting >= len(p.ready) {
		p.wake.Signal()
		return
	}
	if p.mayStart() {
		p.workers++
		go p.work()
	}
}

// mayStart tells whether one more goroutine is within bounds.
func (p *Pool[K, V]) mayStart() bool {
	return p.workers < p.options.Workers-max(0, p.stats.Stuck-p.options.MaxStuck)
}

// work runs jobs until the pool is closed or there are enough other workers.
func (p *Pool[K, V]) work() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		for len(p.ready) == 0 && !p.closed {
			p.waiting++
			p.wake.Wait()
			p.waiting--
		}
		if len(p.ready) == 0 {
			break
		}
		j := p.ready[0]
		p.ready[0] = nil
		p.ready = p.ready[1:]
		p.stats.Queued--
		if !p.runLocked(j) {
			return // it was stuck, and others do its work
		}
	}
	p.workers--
	p.idle.Broadcast()
}

// runLocked runs a job. It returns false if the goroutine has lost its place in the meantime.
func (p *Pool[K, V]) runLocked(j *job[K, V]) bool {
	p.stats.Running++
	p.keys[j.key].running = j
	j.started = time.Now()
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(p.ctx, j.timeout)
	stop := context.AfterFunc(ctx, func() { p.expire(ctx, j) })
	value, err := runSafely(ctx, j.run)
	stop()
	timedOut := err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded)
	cancel()
	if timedOut {
		// It noticed the deadline itself; the timer may or may not have been handled yet.
		drop(value)
		var none V
		value, err = none, fmt.Errorf("%w: %w", ErrTimeout, err)
	}

	p.mu.Lock()
	if j.expired {
		p.mu.Unlock()
		drop(value) // may hang like any call that touches the target
		p.mu.Lock()
		return p.returned(j)
	}
	p.stats.Running--
	if timedOut {
		p.stats.Timeouts++
	}
	if errors.Is(err, ErrPanic) {
		p.stats.Panics++
	}
	p.deliver(j, value, err)
	p.release(j.key)
	return true
}

// runSafely calls run and makes an error of a panic: what it reads is hostile, and a mistake in one parser is not to end
// the collector.
func runSafely[V any](ctx context.Context, run func(context.Context) (V, error)) (value V, err error) {
	defer func() {
		if r := recover(); r != nil {
			var none V
			value, err = none, fmt.Errorf("%w: %v\n%s", ErrPanic, r, debug.Stack())
		}
	}()
	return run(ctx)
}

// drop closes a result that nobody will see.
func drop(value any) {
	if c, ok := value.(io.Closer); ok && !isNil(value) {
		_ = c.Close() // nobody is left to tell
	}
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
func (p *Pool[K, V]) deliver(j *job[K, V], value V, err error) {
	r := Result[K, V]{ID: j.id, Key: j.key, Value: value, Err: err}
	if !j.started.IsZero() {
		r.Took = time.Since(j.started)
	}
	p.stats.Done++
	p.results <- r
}

// release lets the next job for a key run.
func (p *Pool[K, V]) release(key K) {
	k := p.keys[key]
	k.running, k.stuck = nil, false
	if len(k.waiting) == 0 {
		delete(p.keys, key)
		return
	}
	next := k.waiting[0]
	k.waiting[0] = nil
	k.waiting = k.waiting[1:]
	p.enqueue(next)
}

// failWaiting reports the jobs that wait for a key's running one.
func (p *Pool[K, V]) failWaiting(k *keyState[K, V], err error) {
	var none V
	for _, w := range k.waiting {
		p.stats.Queued--
		p.deliver(w, none, err)
	}
	k.waiting = nil
}

// failReady reports the jobs that wait for a worker.
func (p *Pool[K, V]) failReady(err error) {
	var none V
	for _, j := range p.ready {
		p.stats.Queued--
		p.deliver(j, none, err)
		p.failWaiting(p.keys[j.key], err)
		delete(p.keys, j.key)
	}
	p.ready = nil
}

// expire reports a job that has passed its deadline and replaces its goroutine.
func (p *Pool[K, V]) expire(ctx context.Context, j *job[K, V]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.keys[j.key]
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) || k == nil || k.running != j || j.expired {
		return // the pool was closed, or the job has just ended
	}
	p.stats.Timeouts++
	p.giveUp(k, j, ErrTimeout)
	if p.mayStart() && len(p.ready) > 0 {
		p.workers++
		go p.work()
	}
	if p.workers == 0 && !p.mayStart() {
		p.failReady(ErrStuck) // nobody is left to run them
	}
	p.idle.Broadcast()
}

// giveUp reports a running job and regards its goroutine as stuck.
func (p *Pool[K, V]) giveUp(k *keyState[K, V], j *job[K, V], err error) {
	var none V
	j.expired, k.stuck = true, true
	p.stats.Running--
	p.stats.Stuck++
	p.workers--
	p.deliver(j, none, err)
	p.failWaiting(k, ErrStuck)
}

// returned notes that a stuck job came back after all. It returns whether its goroutine goes on as a worker.
func (p *Pool[K, V]) returned(j *job[K, V]) bool {
	p.stats.Stuck--
	p.stats.LateResults++
	delete(p.keys, j.key)
	if p.closed || !p.mayStart() {
		return false
	}
	p.workers++
	return true
}

// Close refuses further jobs, reports those that wait as ErrClosed, cancels the contexts of those that run and waits for
// them until ctx is done; what runs then is reported as ErrClosed too. It does not wait for stuck jobs: their goroutines
// end whenever the kernel lets them. Afterwards Results is closed, once what it holds has been taken. Calling it again
// does nothing.
func (p *Pool[K, V]) Close(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.idle.Broadcast()
	})
	defer stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.closed = true
	p.failReady(ErrClosed)
	for _, k := range p.keys {
		p.failWaiting(k, ErrClosed)
	}
	p.cancel()
	p.wake.Broadcast()
	for p.workers > 0 && ctx.Err() == nil {
		p.idle.Wait()
	}
	for _, k := range p.keys {
		if k.running != nil && !k.stuck {
			p.giveUp(k, k.running, ErrClosed)
		}
	}
	close(p.results)
}
