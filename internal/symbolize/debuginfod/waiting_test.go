package debuginfod

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestStalled has servers that never answer, that stop in the middle, and that send a byte now and then.
func TestStalled(t *testing.T) {
	id := testID(1)
	body := testFile(t, id, 1<<20)
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   Reason
	}{
		"no answer": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, stalled},
		"stops": {func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write(body[:500<<10]) // the client may have gone
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, stalled},
		"drips": {func(w http.ResponseWriter, r *http.Request) {
			for n := 0; n < len(body) && r.Context().Err() == nil; n++ {
				_, _ = w.Write(body[n : n+1]) // the client may have gone
				w.(http.Flusher).Flush()
				time.Sleep(5 * time.Millisecond)
			}
		}, stalled},
		"endless": {func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = w.Write(body[:110<<10]) // the client may have gone
				w.(http.Flusher).Flush()
				time.Sleep(20 * time.Millisecond)
			}
		}, tooLong},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			s.answers(c.answer)
			client := client(t, Options{ProgressTimeout: 300 * time.Millisecond, Timeout: time.Second}, s)
			start := time.Now()
			refused(t, client, id, c.want)
			if took := time.Since(start); took > 10*time.Second {
				t.Errorf("took %v", took)
			}
			if client.servers[0].failures != 1 {
				t.Error("the server is not left alone")
			}
		})
	}
}

// TestSlow is patient with a server that is slow and makes progress.
func TestSlow(t *testing.T) {
	s := newServer(t)
	id, body := s.put(t, 1, 1<<20)
	s.answers(func(w http.ResponseWriter, _ *http.Request) {
		for b := range slices.Chunk(body, 120<<10) {
			_, _ = w.Write(b) // the client may have gone
			w.(http.Flusher).Flush()
			time.Sleep(100 * time.Millisecond)
		}
	})
	wantContent(t, client(t, Options{ProgressTimeout: 600 * time.Millisecond}, s), id, body)
}

// TestSingleFlight has many ask for the same at once.
func TestSingleFlight(t *testing.T) {
	s := newServer(t)
	id, body := s.put(t, 1, 10000)
	const callers = 20
	begun, release := make(chan struct{}), make(chan struct{})
	s.answers(func(w http.ResponseWriter, _ *http.Request) {
		close(begun)
		<-release
		_, _ = w.Write(body) // the client may have gone
	})
	c := client(t, Options{}, s)
	var wait sync.WaitGroup
	for range callers {
		wait.Go(func() { wantContent(t, c, id, body) })
	}
	<-begun
	waitFor(t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.flights[id].waiting == callers
	})
	close(release)
	wait.Wait()
	if got := c.Stats(); s.requests.Load() != 1 || got.Downloads != 1 || got.Misses != 1 {
		t.Errorf("%d requests, %+v", s.requests.Load(), got)
	}
}

func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not come to that")
		}
	}
}

// TestConcurrency counts the downloads at a time.
func TestConcurrency(t *testing.T) {
	s := newServer(t)
	var now, most atomic.Int64
	s.answers(func(w http.ResponseWriter, r *http.Request) {
		n := now.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		time.Sleep(10 * time.Millisecond)
		now.Add(-1)
		http.NotFound(w, r)
	})
	c := client(t, Options{}, s)
	var wait sync.WaitGroup
	for n := range 12 {
		wait.Go(func() {
			if _, err := c.Debuginfo(context.Background(), testID(n)); !errors.Is(err, ErrNotFound) {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if most.Load() != 2 || s.requests.Load() != 12 {
		t.Errorf("%d at a time, %d requests", most.Load(), s.requests.Load())
	}
}

// TestAbandoned stops a download when the last one who waits goes, and not before.
func TestAbandoned(t *testing.T) {
	s := newServer(t)
	id, body := s.put(t, 1, 10000)
	begun, release, gone := make(chan struct{}, 4), make(chan struct{}), make(chan struct{}, 4)
	s.answers(func(w http.ResponseWriter, r *http.Request) {
		begun <- struct{}{}
		select {
		case <-release:
			_, _ = w.Write(body) // the client may have gone
		case <-r.Context().Done():
			gone <- struct{}{}
		}
	})
	c := client(t, Options{Concurrency: 1}, s)
	ctx, cancel := context.WithCancelCause(context.Background())
	reason := errors.New("process has gone")
	result := make(chan error, 4)
	ask := func(ctx context.Context, id string) {
		f, err := c.Debuginfo(ctx, id)
		if err == nil {
			f.Close()
		}
		result <- err
	}
	go ask(ctx, id)
	<-begun
	go ask(ctx, testID(2)) // waits for its turn
	waitFor(t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.flights) == 2
	})
	cancel(reason)
	for range 2 {
		if err := <-result; !errors.Is(err, reason) {
			t.Error(err)
		}
	}
	<-gone
	waitFor(t, func() bool { return c.Stats().Failures[abandoned] == 1 })
	if c.servers[0].failures != 0 || s.requests.Load() != 1 {
		t.Errorf("%d failures, %d requests", c.servers[0].failures, s.requests.Load())
	}

	// Of two one goes.
	ctx, cancel = context.WithCancelCause(context.Background())
	go ask(context.Background(), id)
	<-begun
	go ask(ctx, id)
	waitFor(t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.flights[id].waiting == 2
	})
	cancel(reason)
	if err := <-result; !errors.Is(err, reason) {
		t.Error(err)
	}
	close(release)
	if err := <-result; err != nil {
		t.Error(err)
	}
	if len(gone) != 0 {
		t.Error("the download was stopped")
	}
}

func TestClose(t *testing.T) {
	s := newServer(t)
	begun := make(chan struct{})
	s.answers(func(_ http.ResponseWriter, r *http.Request) {
		close(begun)
		<-r.Context().Done()
	})
	c := client(t, Options{}, s)
	result := make(chan error)
	go func() {
		_, err := c.Debuginfo(context.Background(), testID(1))
		result <- err
	}()
	<-begun
	if err := errors.Join(c.Close(t.Context()), c.Close(t.Context())); err != nil {
		t.Error(err)
	}
	if err := <-result; !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if _, err := c.Debuginfo(t.Context(), testID(2)); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

// TestManyClients has several processes' clients, which evict from under each other, share a directory.
func TestManyClients(t *testing.T) {
	s := newServer(t)
	const files, size = 12, 20000
	var ids []string
	var bodies [][]byte
	for n := range files {
		id, body := s.put(t, n, size)
		ids, bodies = append(ids, id), append(bodies, body)
	}
	dir := t.TempDir()
	var wait sync.WaitGroup
	for n := range 3 {
		c := client(t, Options{Dir: dir, MaxBytes: 6 * (size + 1000)}, s)
		wait.Go(func() {
			for k := range 5 * files {
				k = (k*7 + n*5) % files
				f, err := c.Debuginfo(context.Background(), ids[k])
				if errors.Is(err, ErrUnavailable) && c.Stats().Failures[noSpace] > 0 {
					continue // the others' downloads took all of it
				}
				if err != nil {
					t.Error(err)
					continue
				}
				if got, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<40)); err != nil || !bytes.Equal(got, bodies[k]) {
					t.Errorf("%d bytes, %v", len(got), err)
				}
				f.Close()
			}
		})
	}
	wait.Wait()
	c := client(t, Options{Dir: dir, MaxBytes: 6 * (size + 1000)}, s)
	firstUse(t, c)
	if got := c.Stats(); got.CacheBytes > 6*(size+1000) || got.CacheFiles == 0 || got.Corrupt != 0 {
		t.Errorf("%+v", got)
	}
}
