package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"go.uber.org/zap"

	"github.com/hostprofiles/hostprofiles/internal/process"
	"github.com/hostprofiles/hostprofiles/internal/process/worker"
)

// jobKey is what a job reads: of the jobs with one key, one runs at a time, and none after one got stuck.
type jobKey struct {
	pid        uint32 // a process
	executable uint64 // or an executable's serial
	lists      bool   // its functions, beside lines or names
}

// jobGroup is what hangs together: a file system, or a process.
type jobGroup struct {
	device device
	pid    uint32
	own    uint64 // key of a job that belongs to no target
}

// device is the number of a file system.
type device struct{ major, minor uint32 }

func deviceOf(id process.FileID) device { return device{id.Major, id.Minor} }

// String returns the number as /proc/PID/mountinfo shows it.
func (d device) String() string { return fmt.Sprintf("%d:%d", d.major, d.minor) }

// subject is what a job is about.
type subject struct {
	key   jobKey
	group jobGroup
	what  string // in words
	opens bool   // a file, which has to be closed again
	lines bool   // in debug information, or something else that takes long
	// unbegun, if it is not nil, is called on the engine's goroutine if the job will never run: before its end is told, or instead of
	// that at the engine's.
	unbegun func()
}

// aboutProcesses is for the list of all processes.
func aboutProcesses() subject { return subject{what: "list of processes"} }

// aboutProcess is for jobs that read what /proc says of a process.
func aboutProcess(pid uint32, what string) subject {
	return subject{key: jobKey{pid: pid}, group: jobGroup{pid: pid}, what: fmt.Sprintf("%s of process %d", what, pid)}
}

// aboutOpening is for jobs that open a mapped file, and read its unwind information.
func aboutOpening(serial uint64, f *process.File) subject {
	s := aboutFile(serial, f, "unwind table")
	s.opens = true
	return s
}

// aboutFile is for jobs that read a mapped file that is open.
func aboutFile(serial uint64, f *process.File, what string) subject {
	return subject{
		key: jobKey{executable: serial}, group: jobGroup{device: deviceOf(f.ID)}, what: what + " of " + f.Path,
	}
}

// aboutLines is for jobs that read debug information of a mapped file that is open, and may open other files.
func aboutLines(serial uint64, f *process.File) subject {
	s := aboutFile(serial, f, "debug information")
	s.lines = true
	return s
}

// aboutFunctions is for jobs that list the functions of a mapped file that is open.
func aboutFunctions(serial uint64, f *process.File) subject {
	s := aboutFile(serial, f, "functions")
	s.lines, s.key.lists = true, true
	return s
}

// aboutSelf is for jobs that have nothing to do with a target.
func aboutSelf(serial uint64, what string) subject {
	return subject{key: jobKey{executable: serial}, group: jobGroup{own: serial}, what: what}
}

type (
	pool      = worker.Pool[jobKey, jobGroup, any]
	jobResult = worker.Result[jobKey, any]
)

// Refusal says why a job of a worker was not run.
type Refusal = worker.Refusal

// Refusals is how many reasons there are.
const Refusals = worker.Refusals

// procPatience is how long a read of /proc may stand still before another worker takes over: it needs no disk.
const procPatience = 500 * time.Millisecond

// jobs runs what may hang on the workers, and what to do with the result on the engine's goroutine. Reads of /proc have
// workers of their own: a file system that hangs keeps none of them. So has debug information, which takes long.
type jobs struct {
	log       *zap.Logger
	closer    *closer
	processes *queue
	files     *queue
	lines     *queue
	hanging   map[device]struct{} // that was logged
	exhausted bool                // that was logged
}

// queue is a pool, and what to do with its results.
type queue struct {
	pool    *pool
	waiting map[uint64]pending
}

type pending struct {
	subject
	then func(any, error)
}

func newJobs(log *zap.Logger, c *closer) *jobs {
	queueOf := func(o worker.Options) *queue {
		o.Jobs = 8192
		o.Panicked = func(what string, err *worker.PanicError) {
			log.Error("a worker panicked; this is a defect of the profiler, and what it worked on stays unread",
				zap.String("job", what), zap.Any("panic", err.Value), zap.ByteString("stack", err.Stack))
		}
		return &queue{worker.New[jobKey, jobGroup, any](o), map[uint64]pending{}}
	}
	return &jobs{
		log:       log,
		closer:    c,
		processes: queueOf(worker.Options{Workers: 2, Patience: procPatience}),
		files:     queueOf(worker.Options{Workers: 4}),
		lines:     queueOf(worker.Options{Workers: 3}), // two of a file system: a batch of lines, which may take long, and functions
		hanging:   map[device]struct{}{},
	}
}

// submit runs work on a worker; then gets its result on the engine's goroutine, or at once why it could not be submitted.
func (j *jobs) submit(about subject, timeout time.Duration, work func(context.Context) (any, error), then func(any, error)) {
	q := j.files
	switch {
	case about.lines:
		q = j.lines
	case about.key.executable == 0:
		q = j.processes
	}
	if about.opens && j.closer.hangs(about.group.device) {
		about.neverRuns()
		then(nil, errUnclosed)
		return
	}
	id, err := q.pool.Submit(worker.Job[jobKey, jobGroup, any]{
		Key: about.key, Group: about.group, Timeout: timeout, What: about.what, Run: work,
	})
	if err != nil {
		j.note(about, err)
		about.neverRuns()
		then(nil, err)
		return
	}
	q.waiting[id] = pending{about, then}
}

// idle tells whether nothing is being worked on.
func (j *jobs) idle() bool {
	return len(j.processes.waiting)+len(j.files.waiting)+len(j.lines.waiting) == 0
}

func (q *queue) results() <-chan jobResult { return q.pool.Results() }

// finish hands a result to whom it is for.
func (j *jobs) finish(q *queue, r jobResult) {
	if p, ok := q.waiting[r.ID]; ok {
		delete(q.waiting, r.ID)
		j.note(p.subject, r.Err)
		if neverRan(r) {
			p.neverRuns()
		}
		p.then(r.Value, r.Err)
	}
}

// neverRan tells whether a job ended before it began.
func neverRan(r jobResult) bool { return r.Err != nil && r.Took == 0 }

func (s subject) neverRuns() {
	if s.unbegun != nil {
		s.unbegun()
	}
}

// drain finishes what is ready; false if nothing was.
func (j *jobs) drain() (some bool) {
	for {
		select {
		case r := <-j.processes.results():
			j.finish(j.processes, r)
			some = true
		case r := <-j.files.results():
			j.finish(j.files, r)
			some = true
		case r := <-j.lines.results():
			j.finish(j.lines, r)
			some = true
		default:
			return some
		}
	}
}

// count adds what the workers did.
func (j *jobs) count(s *Stats) {
	for _, q := range []*queue{j.processes, j.files, j.lines} {
		w := q.pool.Stats()
		s.WorkerTimeout += w.Timeouts
		s.WorkerPanics += w.Panics
		s.WorkerStuck += uint64(w.Stuck)
		for why, n := range w.Refused {
			s.WorkerRefused[why] += n
		}
	}
}

// note logs that a file system hangs, that too many do, and when that is over; each once.
func (j *jobs) note(about subject, err error) {
	d := about.group.device
	_, known := j.hanging[d]
	switch {
	case errors.Is(err, worker.ErrExhausted):
		if !j.exhausted {
			j.exhausted = true
			j.log.Warn("so many reads hang that nothing more is read until some of them return", zap.String("job", about.what),
				zap.Stringer("device", d))
		}
	case errors.Is(err, worker.ErrGroupStuck):
		if !known && d != (device{}) {
			j.hanging[d] = struct{}{}
			j.log.Warn("a file system does not answer: its files stay unread until it does", zap.Stringer("device", d),
				zap.String("job", about.what))
		}
	case errors.Is(err, worker.ErrTimeout), errors.Is(err, worker.ErrStuck), errors.Is(err, worker.ErrFull):
	default:
		j.exhausted = false
		if known {
			delete(j.hanging, d)
			j.log.Info("the file system answers again", zap.Stringer("device", d))
		}
	}
}

// close waits a little for what runs; what hangs is left behind. Results are closed, if they can be, and forgotten.
func (j *jobs) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, q := range []*queue{j.processes, j.files, j.lines} {
		q.pool.Close(ctx)
		for r := range q.results() {
			if c, ok := r.Value.(io.Closer); ok {
				j.closer.close(q.waiting[r.ID].group.device, c)
			}
			if neverRan(r) {
				q.waiting[r.ID].neverRuns()
			}
		}
	}
}
