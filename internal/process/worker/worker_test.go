package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const long = 30 * time.Second // a deadline that no test reaches

// take returns the next result or fails.
func take[V any](t *testing.T, p *Pool[string, string, V]) Result[string, V] {
	t.Helper()
	select {
	case r, ok := <-p.Results():
		if !ok {
			t.Fatal("results are closed")
		}
		return r
	case <-time.After(10 * time.Second):
		t.Fatalf("no result; %+v", p.Stats())
	}
	panic("unreachable")
}

// eventually waits for a condition that another goroutine brings about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in 10 s: %s", what)
		}
	}
}

func closePool[V any](t *testing.T, p *Pool[string, string, V]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	p.Close(ctx)
	for range p.Results() {
		continue
	}
}

// submit submits a job whose group is its key up to a slash.
func submit[V any](p *Pool[string, string, V], key string, d time.Duration, run func(context.Context) (V, error)) (uint64, error) {
	group, _, _ := strings.Cut(key, "/")
	return p.Submit(Job[string, string, V]{Key: key, Group: group, Timeout: d, What: "job of " + key, Run: run})
}

func mustSubmit[V any](t *testing.T, p *Pool[string, string, V], key string, d time.Duration, run func(context.Context) (V, error)) uint64 {
	t.Helper()
	id, err := submit(p, key, d, run)
	if err != nil {
		t.Fatalf("submitting for %s: %v", key, err)
	}
	return id
}

func TestResults(t *testing.T) {
	p := New[string, string, int](Options{Workers: 3})
	defer closePool(t, p)
	failure := errors.New("no")
	want := map[uint64]int{}
	for i := range 100 {
		id := mustSubmit(t, p, fmt.Sprint(i%7), long, func(context.Context) (int, error) {
			if i == 50 {
				return 0, failure
			}
			return i, nil
		})
		want[id] = i
	}
	for range 100 {
		r := take(t, p)
		i, ok := want[r.ID]
		delete(want, r.ID)
		switch {
		case !ok:
			t.Fatalf("unknown or repeated id %d", r.ID)
		case i == 50 && !errors.Is(r.Err, failure), i != 50 && (r.Err != nil || r.Value != i), r.Key != fmt.Sprint(i%7):
			t.Fatalf("job %d: %+v", i, r)
		}
	}
	if s := p.Stats(); s.Submitted != 100 || s.Done != 100 || s.Queued != 0 || s.Running != 0 || s.Timeouts != 0 {
		t.Fatalf("%+v", s)
	}
}

func TestOneJobPerKeyInOrder(t *testing.T) {
	p := New[string, string, int](Options{Workers: 8})
	defer closePool(t, p)
	var running [3]atomic.Int32
	for i := range 300 {
		k := i % 3
		mustSubmit(t, p, fmt.Sprint("g/", k), long, func(context.Context) (int, error) {
			if running[k].Add(1) != 1 {
				return 0, errors.New("two at a time")
			}
			time.Sleep(10 * time.Microsecond)
			running[k].Add(-1)
			return i, nil
		})
	}
	last := [3]int{-1, -1, -1}
	for range 300 {
		r := take(t, p)
		k := r.Value % 3
		if r.Err != nil || r.Value <= last[k] {
			t.Fatalf("%+v after %d", r, last[k])
		}
		last[k] = r.Value
	}
}

type closer struct{ closed atomic.Int32 }

func (c *closer) Close() error { c.closed.Add(1); return nil }

func TestStuck(t *testing.T) {
	p := New[string, string, *closer](Options{Workers: 1})
	defer closePool(t, p)
	hang := make(chan struct{})
	late := new(closer)
	id := mustSubmit(t, p, "a", 20*time.Millisecond, func(context.Context) (*closer, error) {
		<-hang // like a read in the kernel, it does not look at the context
		return late, nil
	})
	behind := mustSubmit(t, p, "a", long, func(context.Context) (*closer, error) { return nil, nil })
	other := mustSubmit(t, p, "b", long, func(context.Context) (*closer, error) { return new(closer), nil })

	if r := take(t, p); r.ID != id || r.Err != ErrTimeout || r.Took < 20*time.Millisecond {
		t.Fatalf("%+v", r)
	}
	if r := take(t, p); r.ID != behind || r.Err != ErrStuck || r.Took != 0 {
		t.Fatalf("%+v", r)
	}
	if r := take(t, p); r.ID != other || r.Err != nil || r.Value == nil {
		t.Fatalf("%+v", r)
	}
	if _, err := submit(p, "a", long, nil); err != ErrStuck {
		t.Fatalf("a second job for a stuck key: %v", err)
	}
	if s := p.Stats(); s.Stuck != 1 || s.Timeouts != 1 || s.Refused != [Refusals]uint64{RefusedStuck: 2} {
		t.Fatalf("%+v", s)
	}

	close(hang)
	eventually(t, "the stuck job returns", func() bool { return p.Stats().Stuck == 0 })
	if late.closed.Load() != 1 {
		t.Fatal("the late result was not closed")
	}
	mustSubmit(t, p, "a", long, func(context.Context) (*closer, error) { return nil, nil })
	if r := take(t, p); r.Err != nil {
		t.Fatalf("%+v", r)
	}
	if s := p.Stats(); s.LateResults != 1 || s.Timeouts != 1 {
		t.Fatalf("%+v", s)
	}
}

// TestAllStuck lets more jobs hang than are replaced: the pool refuses instead of growing, and recovers.
func TestAllStuck(t *testing.T) {
	p := New[string, string, int](Options{Workers: 2, MaxStuck: 3})
	defer closePool(t, p)
	hang := make(chan struct{})
	for i := range 7 {
		// The first 3 are replaced, 2 more use up the workers, the last 2 find none.
		mustSubmit(t, p, fmt.Sprint(i), 10*time.Millisecond, func(context.Context) (int, error) { <-hang; return 0, nil })
	}
	got := map[error]int{}
	for range 7 {
		got[take(t, p).Err]++
	}
	if got[ErrTimeout] != 5 || got[ErrExhausted] != 2 {
		t.Fatalf("%v", got)
	}
	if _, err := submit(p, "new", long, nil); err != ErrExhausted {
		t.Fatalf("submitting without a worker: %v", err)
	}
	close(hang)
	eventually(t, "stuck jobs return", func() bool { return p.Stats().Stuck == 0 })
	for i := range 20 {
		mustSubmit(t, p, fmt.Sprint(i), long, func(context.Context) (int, error) { return i, nil })
	}
	for range 20 {
		if r := take(t, p); r.Err != nil {
			t.Fatalf("%+v", r)
		}
	}
}

// TestDeadlineNoticed is a job that watches its context: it is no stuck one.
func TestDeadlineNoticed(t *testing.T) {
	p := New[string, string, *closer](Options{})
	defer closePool(t, p)
	c := new(closer)
	for range 50 {
		mustSubmit(t, p, "a", time.Millisecond, func(ctx context.Context) (*closer, error) {
			<-ctx.Done()
			return c, ctx.Err()
		})
		if r := take(t, p); !errors.Is(r.Err, ErrTimeout) || r.Value != nil {
			t.Fatalf("%+v", r)
		}
		eventually(t, "the job returns", func() bool { return p.Stats().Stuck == 0 })
	}
	if s := p.Stats(); s.Timeouts != 50 || s.Done != 50 {
		t.Fatalf("%+v", s)
	}
	if c.closed.Load() != 50 {
		t.Fatalf("closed %d results", c.closed.Load())
	}
}

// spend computes for so much CPU time, and sleeps as often as it is told for each millisecond of that.
func spend(ctx context.Context, cpu, pause time.Duration) {
	tid := unix.Gettid()
	for begun := ThreadCPU(tid); time.Duration(ThreadCPU(tid)-begun) < cpu && ctx.Err() == nil; {
		for from := ThreadCPU(tid); time.Duration(ThreadCPU(tid)-from) < time.Millisecond; {
		}
		time.Sleep(pause)
	}
}

// TestHungry: a job that computes gets the time that its deadline says of a CPU, one that waits gets that time and no more.
func TestHungry(t *testing.T) {
	const timeout = 40 * time.Millisecond
	p := New[string, string, int](Options{Workers: 1})
	defer closePool(t, p)
	mustSubmit(t, p, "starved", timeout, func(ctx context.Context) (int, error) {
		spend(ctx, timeout/4, timeout/5) // ten times
		return 7, ctx.Err()
	})
	if r := take(t, p); r.Err != nil || r.Value != 7 || r.Took < 3*timeout/2 {
		t.Errorf("%+v", r)
	}
	mustSubmit(t, p, "endless", timeout, func(ctx context.Context) (int, error) {
		spend(ctx, time.Hour, 0)
		return 0, ctx.Err()
	})
	if r := take(t, p); !errors.Is(r.Err, ErrTimeout) || r.Took > maxExtended*timeout {
		t.Errorf("%+v", r)
	}
	mustSubmit(t, p, "slow", timeout, func(ctx context.Context) (int, error) {
		spend(ctx, timeout/4, 2*timeout) // it is at work for a hundredth of its time
		return 0, ctx.Err()
	})
	if r := take(t, p); !errors.Is(r.Err, ErrTimeout) {
		t.Errorf("%+v", r)
	}
	mustSubmit(t, p, "patient", timeout, func(ctx context.Context) (int, error) {
		spend(ctx, timeout-5*time.Millisecond, timeout) // 35 times, of which it gets ten
		return 0, ctx.Err()
	})
	if r := take(t, p); !errors.Is(r.Err, ErrTimeout) || r.Took > 2*(maxExtended+1)*timeout {
		t.Errorf("%+v", r)
	}
}

func TestFull(t *testing.T) {
	p := New[string, string, int](Options{Workers: 1, Jobs: 3})
	defer closePool(t, p)
	job := func(context.Context) (int, error) { return 0, nil }
	for range 3 {
		mustSubmit(t, p, "a", long, job)
	}
	eventually(t, "jobs end", func() bool { return p.Stats().Done == 3 })
	if _, err := submit(p, "a", long, job); err != ErrFull {
		t.Fatalf("with three results not taken: %v", err)
	}
	take(t, p)
	mustSubmit(t, p, "a", long, job)
}

func TestPanic(t *testing.T) {
	told := make(chan string, 3)
	p := New[string, string, int](Options{Workers: 1, Panicked: func(what string, err *PanicError) {
		told <- fmt.Sprintf("%s: %v\n%s", what, err, err.Stack)
	}})
	defer closePool(t, p)
	mustSubmit(t, p, "a", long, func(context.Context) (int, error) { var s []int; return s[3], nil })
	mustSubmit(t, p, "a", long, func(context.Context) (int, error) { return 1, nil })
	if r := take(t, p); !errors.Is(r.Err, ErrPanic) {
		t.Fatalf("%+v", r)
	}
	if r := take(t, p); r.Err != nil || r.Value != 1 {
		t.Fatalf("%+v", r)
	}
	if s := p.Stats(); s.Panics != 1 {
		t.Fatalf("%+v", s)
	}
	for _, part := range []string{"job of a: panic: ", "index out of range", "worker_test.go"} {
		if text := <-told; !strings.Contains(text, part) {
			t.Errorf("told of %q, which lacks %q", text, part)
		} else {
			told <- text
		}
	}
}

// panics panics when it is closed.
type panics struct{}

func (*panics) Close() error { panic("closing") }

// TestLatePanic has a job panic after its deadline, and another's late result when it is closed.
func TestLatePanic(t *testing.T) {
	told := make(chan string, 2)
	p := New[string, string, *panics](Options{Panicked: func(what string, err *PanicError) { told <- what + " " + err.Error() }})
	defer closePool(t, p)
	hang := make(chan struct{})
	mustSubmit(t, p, "run", time.Millisecond, func(context.Context) (*panics, error) { <-hang; panic("late") })
	mustSubmit(t, p, "close", time.Millisecond, func(context.Context) (*panics, error) { <-hang; return new(panics), nil })
	take(t, p)
	take(t, p)
	close(hang)
	got := map[string]bool{<-told: true, <-told: true}
	if !got["job of run panic: late"] || !got["job of close panic: closing"] {
		t.Errorf("%v", got)
	}
	eventually(t, "stuck jobs return", func() bool { return p.Stats().Stuck == 0 && p.Stats().Panics == 2 })
}

func TestClose(t *testing.T) {
	p := New[string, string, *closer](Options{Workers: 3})
	hang, started := make(chan struct{}), make(chan struct{}, 3)
	stuck := new(closer)
	mustSubmit(t, p, "stuck", time.Millisecond, func(context.Context) (*closer, error) { <-hang; return stuck, nil })
	if r := take(t, p); r.Err != ErrTimeout {
		t.Fatalf("%+v", r)
	}
	polite := mustSubmit(t, p, "polite", long, func(ctx context.Context) (*closer, error) {
		started <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	})
	deaf := mustSubmit(t, p, "deaf", long, func(context.Context) (*closer, error) {
		started <- struct{}{}
		<-hang
		return stuck, nil
	})
	behind := mustSubmit(t, p, "deaf", long, func(context.Context) (*closer, error) { return nil, nil })
	<-started
	<-started

	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	begin := time.Now()
	p.Close(ctx)
	if d := time.Since(begin); d > 5*time.Second {
		t.Fatalf("closing took %v", d)
	}
	got := map[uint64]error{}
	for r := range p.Results() {
		got[r.ID] = r.Err
	}
	if len(got) != 3 || !errors.Is(got[polite], context.Canceled) || got[deaf] != ErrClosed || got[behind] != ErrClosed {
		t.Fatalf("%v", got)
	}
	if _, err := submit(p, "x", long, nil); err != ErrClosed {
		t.Fatalf("after closing: %v", err)
	}
	p.Close(ctx) // again
	close(hang)
	eventually(t, "stuck jobs return", func() bool { return p.Stats().Stuck == 0 })
	if stuck.closed.Load() != 2 {
		t.Fatalf("closed %d late results", stuck.closed.Load())
	}
}

// TestStorm has everything happen at once; every accepted job has exactly one result.
func TestStorm(t *testing.T) {
	p := New[string, string, int](Options{Workers: 4, MaxStuck: 6, Jobs: 64, Patience: 4 * time.Millisecond, Probe: time.Millisecond})
	var accepted atomic.Int64
	results := make(chan map[uint64]int)
	go func() {
		seen := map[uint64]int{}
		for r := range p.Results() {
			seen[r.ID]++
		}
		results <- seen
	}()
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range 500 {
				_, err := submit(p, fmt.Sprint((g*500+i)%17%5, "/", (g*500+i)%17), time.Millisecond, func(ctx context.Context) (int, error) {
					switch i % 10 {
					case 0:
						time.Sleep(3 * time.Millisecond)
					case 1:
						<-ctx.Done()
						return 0, ctx.Err()
					case 2:
						panic("storm")
					}
					return i, nil
				})
				if err == nil {
					accepted.Add(1)
				}
				if i%50 == 0 {
					time.Sleep(time.Millisecond)
				}
			}
		}()
	}
	wg.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	p.Close(ctx)
	seen := <-results
	if int64(len(seen)) != accepted.Load() {
		t.Fatalf("%d jobs, %d results", accepted.Load(), len(seen))
	}
	for id, n := range seen {
		if n != 1 {
			t.Fatalf("job %d has %d results", id, n)
		}
	}
	eventually(t, "stuck jobs return", func() bool { return p.Stats().Stuck == 0 })
	if s := p.Stats(); s.Done != s.Submitted || s.Queued != 0 || s.Running != 0 {
		t.Fatalf("%+v", s)
	}
}

func BenchmarkJob(b *testing.B) {
	p := New[string, string, int](Options{})
	for b.Loop() {
		if _, err := submit(p, "a", time.Second, func(context.Context) (int, error) { return 1, nil }); err != nil {
			b.Fatal(err)
		}
		<-p.Results()
	}
	p.Close(context.Background())
}
