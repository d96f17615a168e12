package engine

import (
	"context"
	"time"

	"github.com/hostprofiles/hostprofiles/internal/process/worker"
)

// jobKey is what a job reads: of the jobs with one key, one runs at a time, and none after one got stuck.
type jobKey struct {
	pid        uint32 // a process
	executable uint64 // or an executable's serial
}

type (
	pool      = worker.Pool[jobKey, any]
	jobResult = worker.Result[jobKey, any]
)

// jobs runs what may hang on the workers, and what to do with the result on the engine's goroutine.
type jobs struct {
	pool    *pool
	waiting map[uint64]func(any, error)
}

func newJobs() *jobs {
	return &jobs{
		pool:    worker.New[jobKey, any](worker.Options{Workers: 4, Jobs: 8192}),
		waiting: map[uint64]func(any, error){},
	}
}

// submit runs work on a worker; then gets its result on the engine's goroutine, or at once why it could not be submitted.
func (j *jobs) submit(key jobKey, timeout time.Duration, work func(context.Context) (any, error), then func(any, error)) {
	id, err := j.pool.Submit(key, timeout, work)
	if err != nil {
		then(nil, err)
		return
	}
	j.waiting[id] = then
}

// idle tells whether nothing is being worked on.
func (j *jobs) idle() bool { return len(j.waiting) == 0 }

func (j *jobs) results() <-chan jobResult { return j.pool.Results() }

// finish hands a result to whom it is for.
func (j *jobs) finish(r jobResult) {
	if then, ok := j.waiting[r.ID]; ok {
		delete(j.waiting, r.ID)
		then(r.Value, r.Err)
	}
}

// drain finishes what is ready; false if nothing was.
func (j *jobs) drain() (some bool) {
	for {
		select {
		case r := <-j.results():
			j.finish(r)
			some = true
		default:
			return some
		}
	}
}

// close waits a little for what runs; what hangs is left behind. Nothing is done with the results any more.
func (j *jobs) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	j.pool.Close(ctx)
}
