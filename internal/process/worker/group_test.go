package worker

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"
)

// TestHangingGroup has forty jobs of one group hang, as the files of a file system that does not answer do: a few of them
// are tried, the rest fails long before the deadline, and the jobs of other groups hardly wait.
func TestHangingGroup(t *testing.T) {
	const patience = time.Second
	p := New[string, string, int](Options{Workers: 4, Patience: patience})
	defer closePool(t, p)
	hang := make(chan struct{})
	var tried atomic.Int32
	for i := range 40 {
		mustSubmit(t, p, fmt.Sprint("nfs/", i), long, func(context.Context) (int, error) { tried.Add(1); <-hang; return i, nil })
	}
	began := time.Now()
	for i := range 200 { // some while the group has all workers that it may have, some when it is known to hang
		mustSubmit(t, p, fmt.Sprint("disk/", i), long, func(context.Context) (int, error) { time.Sleep(patience / 100); return -1, nil })
	}
	failed := 0
	for healthy := 0; healthy < 200 || failed < 37; {
		switch r := take(t, p); {
		case r.Err == ErrGroupStuck:
			failed++
		case r.Err == nil && r.Value == -1:
			healthy++
		default:
			t.Fatalf("%+v", r)
		}
	}
	if d := time.Since(began); d > 10*patience {
		t.Errorf("it took %v until those that hang were known and all others done", d)
	}
	eventually(t, "all that were tried are stuck", func() bool { return p.Stats().Stuck == 3 })
	if n := tried.Load(); n != 3 || failed != 37 {
		t.Errorf("%d jobs of a group that hangs were tried, %d failed", n, failed)
	}
	if _, err := submit(p, "nfs/new", long, nil); err != ErrGroupStuck {
		t.Errorf("another job of the group: %v", err)
	}
	if s := p.Stats(); s.Stuck != 3 || s.Running != 0 || s.Timeouts != 0 || s.Refused != [Refusals]uint64{RefusedGroupStuck: 38} {
		t.Errorf("%+v", s)
	}
	close(hang) // the file system answers: what hung before its deadline has its result
	for range 3 {
		if r := take(t, p); r.Err != nil || r.Value < 0 {
			t.Errorf("%+v", r)
		}
	}
	mustSubmit(t, p, "nfs/new", long, func(context.Context) (int, error) { return 7, nil })
	if r := take(t, p); r.Err != nil || r.Value != 7 {
		t.Errorf("afterwards: %+v", r)
	}
}

// TestWaitingIsNotHanging has jobs wait for each other for longer than the patience: others take their places, and nobody
// takes their group to hang.
func TestWaitingIsNotHanging(t *testing.T) {
	p := New[string, string, int](Options{Workers: 4, Patience: 40 * time.Millisecond})
	defer closePool(t, p)
	turn := make(chan struct{})
	for i := range 3 { // one more than makes a group hang
		mustSubmit(t, p, fmt.Sprint("disk/", i), long, func(ctx context.Context) (int, error) {
			Waiting(ctx, func() { <-turn })
			return i, nil
		})
	}
	for deadline := time.Now().Add(long); p.Stats().Stuck < 3; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("nobody took their places: %+v", p.Stats())
		}
	}
	for i := range 8 { // more than there are workers: all places are free
		mustSubmit(t, p, fmt.Sprint("disk/more", i), long, func(context.Context) (int, error) { return 100, nil })
	}
	for range 8 {
		if r := take(t, p); r.Err != nil || r.Value != 100 {
			t.Errorf("beside those that wait: %+v", r)
		}
	}
	close(turn)
	for range 3 {
		if r := take(t, p); r.Err != nil || r.Value > 2 {
			t.Errorf("after the wait: %+v", r)
		}
	}
	if s := p.Stats(); s.Stuck != 0 || s.Refused != [Refusals]uint64{} {
		t.Errorf("%+v", s)
	}
}

// TestComputingIsNotHanging has jobs compute until after their deadlines: nobody takes their group to hang.
func TestComputingIsNotHanging(t *testing.T) {
	p := New[string, string, int](Options{Workers: 4, Patience: 2 * time.Second})
	defer closePool(t, p)
	var end atomic.Bool
	defer end.Store(true)
	for i := range 3 { // one more than makes a group hang
		mustSubmit(t, p, fmt.Sprint("disk/", i), 1300*time.Millisecond, func(context.Context) (n int, _ error) {
			for !end.Load() {
				n++
			}
			return n, nil
		})
	}
	for range 3 {
		if r := take(t, p); r.Err != ErrTimeout {
			t.Errorf("%+v", r)
		}
	}
	mustSubmit(t, p, "disk/more", long, func(context.Context) (int, error) { return 100, nil })
	if r := take(t, p); r.Err != nil || r.Value != 100 {
		t.Errorf("afterwards: %+v", r)
	}
	if s := p.Stats(); s.Stuck != 3 || s.Timeouts != 3 || s.Refused != [Refusals]uint64{} {
		t.Errorf("%+v", s)
	}
	end.Store(true)
	eventually(t, "they return", func() bool { return p.Stats().Stuck == 0 })
}

// TestManyHangingGroups has more groups hang than there are workers: each of them costs two of them for a while, no more.
func TestManyHangingGroups(t *testing.T) {
	p := New[string, string, int](Options{Workers: 4, Patience: 50 * time.Millisecond})
	hang := make(chan struct{})
	for i := range 200 {
		mustSubmit(t, p, fmt.Sprint(i%10, "/", i), long, func(context.Context) (int, error) { <-hang; return i, nil })
	}
	mustSubmit(t, p, "disk", long, func(context.Context) (int, error) { return -1, nil })
	for {
		if r := take(t, p); r.Err == nil {
			break
		} else if r.Err != ErrGroupStuck {
			t.Fatalf("%+v", r)
		}
	}
	if n := p.Stats().Stuck; n > 30 {
		t.Errorf("%d goroutines are stuck for ten groups", n)
	}
	begin := time.Now()
	closePool(t, p)
	if d := time.Since(begin); d > 3*time.Second {
		t.Errorf("closing took %v", d)
	}
	close(hang)
	eventually(t, "stuck jobs return", func() bool { return p.Stats().Stuck == 0 })
}

// TestBusyIsNotStuck runs jobs that take long, but do something: computing, or reading a file system that is slow.
func TestBusyIsNotStuck(t *testing.T) {
	const patience = time.Second
	p := New[string, string, int](Options{Workers: 3, Patience: patience})
	defer closePool(t, p)
	end := time.Now().Add(2 * patience)
	mustSubmit(t, p, "disk/compute", long, func(context.Context) (n int, _ error) {
		for ; time.Now().Before(end); n++ {
		}
		return n, nil
	})
	mustSubmit(t, p, "disk/slow", long, func(context.Context) (int, error) {
		for time.Now().Before(end) {
			time.Sleep(patience / 50)
		}
		return 0, nil
	})
	for done := 0; done < 2; {
		select {
		case r := <-p.Results():
			if r.Err != nil {
				t.Fatalf("%+v", r)
			}
			done++
		case <-time.After(patience / 10):
			if s := p.Stats(); s.Stuck != 0 {
				t.Fatalf("%+v", s)
			}
		}
	}
}

// TestGoesOn has a job hang for a while: its worker is replaced, its result comes, and there are as many workers as before.
func TestGoesOn(t *testing.T) {
	p := New[string, string, int](Options{Workers: 1, Patience: 20 * time.Millisecond})
	defer closePool(t, p)
	for range 5 {
		hang := make(chan struct{})
		mustSubmit(t, p, "slow", long, func(context.Context) (int, error) { <-hang; return 1, nil })
		mustSubmit(t, p, "other", long, func(context.Context) (int, error) { return 2, nil })
		if r := take(t, p); r.Err != nil || r.Value != 2 {
			t.Fatalf("%+v", r)
		}
		close(hang)
		if r := take(t, p); r.Err != nil || r.Value != 1 {
			t.Fatalf("%+v", r)
		}
	}
	eventually(t, "there is one worker", func() bool { p.mu.Lock(); defer p.mu.Unlock(); return p.workers == 1 && p.waiting == 1 })
	if s := p.Stats(); s.Stuck != 0 || s.Running != 0 || s.Done != 10 || s.LateResults != 0 || len(p.groups) != 0 || p.suspects != 0 {
		t.Fatalf("%+v, %d groups, %d suspects", s, len(p.groups), p.suspects)
	}
}

// TestProbe: a group that hangs is tried again now and then, and one file that can be read clears it; but if there is no end
// of files that hang, it is given up for good.
func TestProbe(t *testing.T) {
	const probe = 500 * time.Millisecond
	p := New[string, string, int](Options{Workers: 3, Patience: 20 * time.Millisecond, Probe: probe, GroupMax: 5})
	defer closePool(t, p)
	hang := make(chan struct{})
	hanging := func(context.Context) (int, error) { <-hang; return 0, nil }
	mustSubmit(t, p, "disk/0", long, hanging)
	mustSubmit(t, p, "disk/1", long, hanging)
	eventually(t, "two are stuck", func() bool { return p.Stats().Stuck == 2 })
	if _, err := submit(p, "disk/good", long, hanging); err != ErrGroupStuck {
		t.Fatal(err)
	}
	time.Sleep(probe)
	mustSubmit(t, p, "disk/good", long, func(context.Context) (int, error) { return 1, nil })
	if r := take(t, p); r.Err != nil || r.Value != 1 {
		t.Fatalf("%+v", r)
	}
	stuck := 2
	for end := time.Now().Add(4 * probe); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if _, err := submit(p, fmt.Sprint("disk/bad", stuck), long, hanging); err == nil {
			stuck++
		} else if !errors.Is(err, ErrGroupStuck) {
			t.Fatal(err)
		}
	}
	for len(p.Results()) > 0 {
		if r := take(t, p); r.Err != ErrGroupStuck {
			t.Fatalf("%+v", r)
		}
		stuck--
	}
	// The bound is looked at when a job is submitted, and two run at a time.
	if n := p.Stats().Stuck; n != stuck || n < 5 || n > 6 {
		t.Errorf("%d are stuck, of %d that were not refused", n, stuck)
	}
	close(hang)
	eventually(t, "stuck jobs return", func() bool { return p.Stats().Stuck == 0 })
}
