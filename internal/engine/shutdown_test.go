package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.uber.org/zap/zaptest"

	"github.com/hostprofiles/hostprofiles/internal/profile"
)

// shutDown runs an engine at a high frequency over the sink for a second, ends it within limit and checks the balance.
func shutDown(t *testing.T, sink Sink, limit time.Duration) Stats {
	t.Helper()
	needsBPF(t)
	cfg := testConfig()
	cfg.ReportInterval = 100 * time.Millisecond
	e, err := New(cfg, zaptest.NewLogger(t), sink)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	began := time.Now()
	if err := e.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > limit+5*time.Second {
		t.Errorf("shutting down took %v", took)
	}
	if err := e.Shutdown(ctx); err != nil {
		t.Errorf("the second time: %v", err)
	}
	s := e.Stats()
	lost := uint64(0)
	for _, n := range s.Lost {
		lost += n
	}
	if s.Taken == 0 || s.Taken != s.Delivered+lost {
		t.Errorf("taken %d, delivered %d, lost %v", s.Taken, s.Delivered, s.Lost)
	}
	return s
}

func TestHangingConsumer(t *testing.T) {
	var calls, ended atomic.Int32
	s := shutDown(t, func(ctx context.Context, _ pprofile.Profiles, _ int) error {
		calls.Add(1)
		<-ctx.Done()
		ended.Add(1)
		return ctx.Err()
	}, time.Second)
	if s.Delivered != 0 || s.Lost[LostShutdown] == 0 {
		t.Errorf("delivered %d, lost %v", s.Delivered, s.Lost)
	}
	before := calls.Load()
	time.Sleep(300 * time.Millisecond)
	if after := calls.Load(); after != before || ended.Load() != after {
		t.Errorf("the consumer was called %d times, then %d; %d calls ended", before, after, ended.Load())
	}
}

func TestRefusingConsumer(t *testing.T) {
	s := shutDown(t, func(context.Context, pprofile.Profiles, int) error { return ErrPermanent }, 10*time.Second)
	if s.Delivered != 0 || s.Lost[LostRefused] != s.Taken {
		t.Errorf("delivered %d, lost %v of %d", s.Delivered, s.Lost, s.Taken)
	}
}

// TestConsumerThatRefusesForAWhile loses nothing if the consumer takes payloads again, and little time if it never does.
func TestConsumerThatRefusesForAWhile(t *testing.T) {
	began := time.Now()
	s := shutDown(t, func(context.Context, pprofile.Profiles, int) error {
		if time.Since(began) < 700*time.Millisecond {
			return errors.New("not now")
		}
		return nil
	}, 10*time.Second)
	if s.Delivered != s.Taken {
		t.Errorf("delivered %d of %d, lost %v", s.Delivered, s.Taken, s.Lost)
	}
	began = time.Now()
	s = shutDown(t, func(context.Context, pprofile.Profiles, int) error { return errors.New("not now, and never") }, 30*time.Second)
	if s.Delivered != 0 || s.Lost[LostRefused]+s.Lost[LostShutdown]+s.Lost[LostQueueFull] != s.Taken {
		t.Errorf("delivered %d, lost %v of %d", s.Delivered, s.Lost, s.Taken)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
}

// TestSenderRetries offers a payload again until it is taken.
func TestSenderRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refuse := errors.New("not now")
		var began time.Time
		calls := 0
		var verdict func() error
		s := newSender(func(context.Context, pprofile.Profiles, int) error { calls++; return verdict() }, 2)
		for name, tt := range map[string]struct {
			verdict func() error
			want    error
			calls   int
			took    time.Duration // at most
		}{
			"taken at the third try": {func() error {
				if calls < 3 {
					return refuse
				}
				return nil
			}, nil, 3, time.Second},
			"refused for good": {func() error { return ErrPermanent }, ErrPermanent, 1, 0},
			"never taken":      {func() error { return refuse }, refuse, 18, retryFor + lastRetry},
		} {
			began, calls, verdict = time.Now(), 0, tt.verdict
			s.send(profile.Payload{Samples: 5})
			time.Sleep(firstRetry / 2)
			synctest.Wait()
			if trouble := s.trouble(); tt.calls > 1 && !errors.Is(trouble, refuse) {
				t.Errorf("%s: trouble is %v", name, trouble)
			}
			d := <-s.done()
			s.answered(d)
			if !errors.Is(d.err, tt.want) || d.err == nil != (tt.want == nil) || calls != tt.calls || time.Since(began) > tt.took+firstRetry {
				t.Errorf("%s: %v after %d tries and %v", name, d.err, calls, time.Since(began))
			}
			synctest.Wait()
			if trouble := s.trouble(); trouble != nil {
				t.Errorf("%s: trouble afterwards is %v", name, trouble)
			}
		}
		s.close()
	})
}

// TestDefect lets the engine's loop panic while it samples: everything is closed, every sample is counted, and the status
// says what happened.
func TestDefect(t *testing.T) {
	needsBPF(t)
	statuses := make(chan error, 8)
	e, err := New(testConfig(), zaptest.NewLogger(t), func(context.Context, pprofile.Profiles, int) error { return nil },
		WithStatus(func(err error) { statuses <- err }))
	if err != nil {
		t.Fatal(err)
	}
	if err := e.open(); err != nil {
		t.Fatal(err)
	}
	e.stop, e.done, e.running = make(chan context.Context, 1), make(chan struct{}), true
	for end := time.Now().Add(200 * time.Millisecond); time.Now().Before(end); {
	}
	e.guarded(func() {
		e.poll(time.Now())
		var none *stack
		e.deliver(none)
	})
	e.close()
	close(e.done)
	if err := <-statuses; !errors.Is(err, ErrCrashed) {
		t.Errorf("the status is %v", err)
	}
	if err := e.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	s, lost := e.Stats(), uint64(0)
	for _, n := range s.Lost {
		lost += n
	}
	if s.Taken == 0 || s.Lost[LostCrash] == 0 || s.Taken != s.Delivered+lost {
		t.Errorf("taken %d, delivered %d, lost %v", s.Taken, s.Delivered, s.Lost)
	}
}

func TestShutdownWithoutStart(t *testing.T) {
	e, err := New(testConfig(), zaptest.NewLogger(t), func(context.Context, pprofile.Profiles, int) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
}
