package engine

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"github.com/hostprofiles/hostprofiles/internal/process"
	"github.com/hostprofiles/hostprofiles/internal/symbolize/debugfile"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// TestFunctionsDoNotWaitForLines has a batch of lines of a file take long: its functions, and those of others, are listed meanwhile.
func TestFunctionsDoNotWaitForLines(t *testing.T) {
	log := zaptest.NewLogger(t)
	j := newJobs(log, newCloser(log))
	defer j.close()
	f := &process.File{ID: process.FileID{Major: 8, Minor: 1}, Path: "/bin/program"}
	j.submit(aboutLines(1, f), time.Minute, func(ctx context.Context) (any, error) {
		for ctx.Err() == nil { // one that did nothing would lose its place
		}
		return nil, ctx.Err()
	}, func(any, error) {})
	eventually(t, "lines are read", func() bool { return j.lines.pool.Stats().Running == 1 })
	done := 0
	for serial := range uint64(2) {
		j.submit(aboutFunctions(serial+1, f), time.Minute, func(context.Context) (any, error) { return nil, nil }, func(_ any, err error) {
			if done++; err != nil {
				t.Error(err)
			}
		})
	}
	eventually(t, "functions are listed", func() bool { j.drain(); return done == 2 })
}

// TestUnbegunLines has an engine end while lines wait for their turn: what is open of the debug information is closed, once.
func TestUnbegunLines(t *testing.T) {
	e, x := newFileEngine(t)
	w := wanting{x, x.Payload}
	d := x.Payload.debug
	submit := func() (closed *atomic.Int32) {
		closed = &atomic.Int32{}
		d.open = &openDebug{found: &debugfile.Found{}, roots: []io.Closer{fakeFile(func() { closed.Add(1) })}, bytes: 1}
		e.keepDebug(d)
		d.wanted = []unwind.FileAddr{1}
		e.startLineJob(w)
		return closed
	}
	block := make(chan struct{})
	defer close(block)
	e.jobs.submit(aboutLines(x.Payload.serial, x.File), time.Millisecond, func(context.Context) (any, error) { <-block; return nil, nil }, func(any, error) {})
	eventually(t, "its place is given up", func() bool { return e.jobs.lines.pool.Stats().Timeouts == 1 })
	refused := submit()
	if d.failed != 1 || d.open != nil || e.lines.bytes != 0 {
		t.Errorf("%d failed, %d bytes open", d.failed, e.lines.bytes)
	}
	eventually(t, "what a refused job had is closed", func() bool { return refused.Load() == 1 })

	e, x = newFileEngine(t)
	w, d = wanting{x, x.Payload}, x.Payload.debug
	e.jobs.submit(aboutLines(x.Payload.serial, x.File), time.Minute, func(ctx context.Context) (any, error) { <-ctx.Done(); return nil, nil }, func(any, error) {})
	waiting := submit()
	e.jobs.close()
	eventually(t, "what a job had that never ran is closed", func() bool { return waiting.Load() == 1 })
	e.closeExecutables()
	e.closer.wait(closeWait)
	if n := waiting.Load(); n != 1 {
		t.Errorf("closed %d times", n)
	}
}

// TestFetchedWhileFailing has a file arrive while a batch hangs: all is looked up again, without delay.
func TestFetchedWhileFailing(t *testing.T) {
	e, x := newFileEngine(t)
	w, d, xs := wanting{x, x.Payload}, x.Payload.debug, x.Payload.symbols
	xs.lru.Add(1, &symbolized{progress: linesKnown})
	xs.lru.Add(2, &symbolized{progress: linesAsked})
	e.fetches.under["id"] = []wanting{w}
	d.running = true
	e.fetched(fetched{id: "id"})
	d.running = false
	e.linesFailed(w, []unwind.FileAddr{2}, errors.New("deadline passed"))
	for a := range unwind.FileAddr(2) {
		if s, _ := xs.lru.Peek(a + 1); s.progress != named {
			t.Errorf("%d has progress %d", a+1, s.progress)
		}
	}
	if d.retry != 0 || d.stale {
		t.Errorf("not before tick %d", d.retry)
	}
	e.linesFailed(w, nil, errors.New("deadline passed"))
	if d.retry == 0 {
		t.Error("a file that hangs is tried again at once")
	}
}
