package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.uber.org/zap/zaptest"
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
	s := shutDown(t, func(context.Context, pprofile.Profiles, int) error { return errors.New("no") }, 10*time.Second)
	if s.Delivered != 0 || s.Lost[LostRefused] != s.Taken {
		t.Errorf("delivered %d, lost %v of %d", s.Delivered, s.Lost, s.Taken)
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
