// Package worker runs what a target can delay: reads of its files, its memory and its /proc entries. Jobs have deadlines.
// A read that hangs in the kernel cannot be called back, so the goroutine of a job that hangs is given up and another takes
// its place; for the target that it was for nothing else is run until it returns.
//
// What hangs rarely hangs alone: behind one file system may be hundreds of files. So jobs belong to groups, and once a few
// of a group hang the others fail at once, instead of each taking a worker's time and a thread. A group never has all
// workers, so that meanwhile the others go on.
//
// Results come as values over a channel, so that the one goroutine that owns all state stays the only one to touch it.
package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

var (
	// ErrTimeout: the job passed its deadline. What it returns later is dropped.
	ErrTimeout = errors.New("deadline passed")
	// ErrStuck: an earlier job for the same key passed its deadline and has not returned yet.
	ErrStuck = errors.New("an earlier read is stuck")
	// ErrGroupStuck: so many jobs of the same group hang that it is taken to hang altogether.
	ErrGroupStuck = errors.New("other reads of the same group are stuck")
	// ErrExhausted: so many jobs hang, of all groups, that no worker is left.
	ErrExhausted = errors.New("no worker is left: too many reads are stuck")
	// ErrFull: too many jobs wait, or too many results were not taken yet.
	ErrFull = errors.New("too many jobs")
	// ErrClosed: the pool was closed.
	ErrClosed = errors.New("pool is closed")
	// ErrPanic: the job panicked; the error is a *PanicError.
	ErrPanic = errors.New("panic")
)

// PanicError is a panic of a job.
type PanicError struct {
	Value any
	Stack []byte
}

// Error returns the value, without the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("%v: %v", ErrPanic, e.Value) }

// Unwrap returns ErrPanic.
func (e *PanicError) Unwrap() error { return ErrPanic }

// Refusal says why a job was not run.
type Refusal uint8

// The reasons; refusals has the error of each.
const (
	RefusedStuck Refusal = iota
	RefusedGroupStuck
	RefusedExhausted
	RefusedFull

	Refusals // how many there are
)

var refusals = [Refusals]struct {
	name string
	err  error
}{{"stuck", ErrStuck}, {"group_stuck", ErrGroupStuck}, {"exhausted", ErrExhausted}, {"full", ErrFull}}

// String returns the reason in one word.
func (r Refusal) String() string {
	if r < Refusals {
		return refusals[r].name
	}
	return "unknown"
}

// Options size a Pool. A zero field means its default.
type Options struct {
	Workers    int           // jobs at a time, not counting stuck ones; default 2. One group has at most all but one.
	MaxStuck   int           // stuck goroutines that are replaced; default 128. Beyond, workers become fewer.
	Patience   time.Duration // a job whose thread does nothing for so long is stuck; default 3 s
	GroupStuck int           // stuck jobs of a group after which it is taken to hang; default 2
	GroupMax   int           // stuck jobs of a group after which it is not even tried any more; default 16
	Probe      time.Duration // until a group that hangs is tried again, by one job; default 30 s
	Jobs       int           // jobs that wait, run, or whose results were not taken; default 1,024
	// Panicked is told what a job that panicked was for. It is called from the workers. Default: nobody is.
	Panicked func(what string, err *PanicError)
}

func (o Options) withDefaults() Options {
	def := func(n *int, value int) {
		if *n <= 0 {
			*n = value
		}
	}
	def(&o.Workers, 2)
	def(&o.MaxStuck, 128)
	def(&o.GroupStuck, 2)
	def(&o.GroupMax, 16)
	def(&o.Jobs, 1024)
	if o.Patience <= 0 {
		o.Patience = 3 * time.Second
	}
	if o.Probe <= 0 {
		o.Probe = 30 * time.Second
	}
	if o.Panicked == nil {
		o.Panicked = func(string, *PanicError) {}
	}
	return o
}

// Job is something to run.
type Job[K, G comparable, V any] struct {
	Key     K             // jobs for one key run one after the other, in the order of submission
	Group   G             // what else hangs when this does; all jobs of a key are of one group
	Timeout time.Duration // counted from its start; up to ten times as much for a job that computes, and has had less CPU time than this
	What    string        // what it is for, in words
	// Run's context is cancelled at the deadline and by Close. If its value is an io.Closer and comes too late, it is
	// closed.
	Run func(context.Context) (V, error)
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
	Submitted, Done uint64           // accepted; ended with a result, an error included
	Refused         [Refusals]uint64 // not run, whether they had been accepted or not
	Timeouts        uint64
	Panics          uint64
	LateResults     uint64 // dropped because their job had timed out

	Stuck, Running, Queued int // stuck: see Options.Patience, or past its deadline; they count as not running
}

// Pool runs jobs, at most one at a time for each key.
type Pool[K, G comparable, V any] struct {
	options Options
	results chan Result[K, V]
	ctx     context.Context
	cancel  context.CancelFunc

	mu      sync.Mutex
	wake    sync.Cond // there is work, or the pool was closed
	idle    sync.Cond // a worker has ended
	ready   []*group[K, G, V]
	groups  map[G]*group[K, G, V]
	keys    map[K]*keyState[K, G, V]
	workers int // goroutines that are not stuck
	waiting int // of these, those without a job
	stats   Stats
	nextID  uint64
	closed  bool

	suspects int // jobs that are stuck, but have not passed their deadline: they may still have a result
}

// keyState is there while a key has a job that waits for a worker, runs or is stuck.
type keyState[K, G comparable, V any] struct {
	group   *group[K, G, V]
	running *job[K, G, V] // nil while it waits for a worker
	expired bool          // running has passed its deadline
	waiting []*job[K, G, V]
}

type job[K, G comparable, V any] struct {
	Job[K, G, V]
	id      uint64
	group   *group[K, G, V]
	started time.Time
	stuck   bool
	expired bool // reported as ErrTimeout or ErrClosed, its goroutine is given up
	watch   watch

	deadline *time.Timer
	extended int // how often it was put off
}

// New returns a pool. Goroutines start as they are needed.
func New[K, G comparable, V any](o Options) *Pool[K, G, V] {
	o = o.withDefaults()
	p := &Pool[K, G, V]{
		options: o, results: make(chan Result[K, V], o.Jobs),
		keys: make(map[K]*keyState[K, G, V]), groups: make(map[G]*group[K, G, V]),
	}
	p.wake.L, p.idle.L = &p.mu, &p.mu
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Results returns the channel on which every accepted job's result comes, exactly one each. It is closed by Close.
func (p *Pool[K, G, V]) Results() <-chan Result[K, V] { return p.results }

// Submit accepts a job and returns its id. It never blocks; it fails with ErrStuck, ErrGroupStuck, ErrExhausted, ErrFull
// or ErrClosed, and then no result comes. A job that was accepted may end with one of these, too.
func (p *Pool[K, G, V]) Submit(task Job[K, G, V]) (id uint64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return 0, ErrClosed
	}
	if why, refused := p.refusal(task.Key, task.Group); refused {
		p.stats.Refused[why]++
		return 0, refusals[why].err
	}
	p.nextID++
	p.stats.Submitted++
	p.stats.Queued++
	j := &job[K, G, V]{Job: task, id: p.nextID, group: p.groupOf(task.Group)}
	j.group.jobs++
	if k := p.keys[j.Key]; k != nil {
		k.waiting = append(k.waiting, j)
		return j.id, nil
	}
	p.keys[j.Key] = &keyState[K, G, V]{group: j.group}
	p.enqueue(j)
	return j.id, nil
}

func (p *Pool[K, G, V]) refusal(key K, in G) (Refusal, bool) {
	switch k := p.keys[key]; {
	case k != nil && k.expired:
		return RefusedStuck, true
	case p.exhausted():
		return RefusedExhausted, true
	case p.stats.Queued+p.stats.Running+p.suspects+len(p.results) >= cap(p.results):
		return RefusedFull, true
	case !p.groups[in].admits(p.options, time.Now()):
		return RefusedGroupStuck, true
	}
	return 0, false
}

// Stats returns the counters.
func (p *Pool[K, G, V]) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}

// Close refuses further jobs, reports those that wait as ErrClosed, cancels the contexts of those that run and waits for
// them until ctx is done; what runs then is reported as ErrClosed too. It does not wait for stuck jobs: their goroutines
// end whenever the kernel lets them. Afterwards Results is closed, once what it holds has been taken. Calling it again
// does nothing.
func (p *Pool[K, G, V]) Close(ctx context.Context) {
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
	p.failAll(ErrClosed)
	p.cancel()
	p.wake.Broadcast()
	for p.workers > 0 && ctx.Err() == nil {
		p.idle.Wait()
	}
	for _, k := range p.keys {
		if k.running != nil && !k.expired {
			p.giveUp(k, k.running, ErrClosed)
		}
	}
	close(p.results)
}
