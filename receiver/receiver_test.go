package receiver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/consumer/xconsumer"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"go.opentelemetry.io/collector/receiver/xreceiver"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/hostprofiles/hostprofiles/internal/engine"
	"github.com/hostprofiles/hostprofiles/internal/health"
	"github.com/hostprofiles/hostprofiles/internal/profile/conformance"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/receiver/internal/metadata"
)

// fakeEngine stands in for an engine.
type fakeEngine struct {
	startErr error
	hang     bool // Shutdown waits for its context
	stats    engine.Stats
	onStart  func() // what happens while it starts

	config engine.Config
	sink   engine.Sink
	status func(error)

	mu        sync.Mutex
	started   int
	shutdowns int
}

func (f *fakeEngine) Start(context.Context) error {
	f.mu.Lock()
	f.started++
	f.mu.Unlock()
	if f.onStart != nil {
		f.onStart()
	}
	return f.startErr
}

// starts is how often it was started.
func (f *fakeEngine) starts() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.started
}

func (f *fakeEngine) Shutdown(ctx context.Context) error {
	f.mu.Lock()
	f.shutdowns++
	f.mu.Unlock()
	if f.hang {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func (f *fakeEngine) Stats() engine.Stats { return f.stats }

// creating returns a constructor that hands out the engines one after the other.
func creating(engines ...*fakeEngine) newRunner {
	return func(cfg engine.Config, _ *zap.Logger, sink engine.Sink, status func(error)) (runner, error) {
		if len(engines) == 0 {
			return nil, errors.New("no more engines")
		}
		e := engines[0]
		engines = engines[1:]
		e.config, e.sink, e.status = cfg, sink, status
		return e, nil
	}
}

// statusHost remembers what is reported to the collector.
type statusHost struct {
	component.Host
	mu     sync.Mutex
	events []*componentstatus.Event
}

func newStatusHost() *statusHost { return &statusHost{Host: componenttest.NewNopHost()} }

func (h *statusHost) Report(e *componentstatus.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
}

func (h *statusHost) statuses() (s []componentstatus.Status) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.events {
		s = append(s, e.Status())
	}
	return s
}

type fixture struct {
	receiver xreceiver.Profiles
	host     *statusHost
	logs     *observer.ObservedLogs
	tel      *componenttest.Telemetry
}

func newFixture(t *testing.T, next xconsumer.Profiles, create newRunner) *fixture {
	core, logs := observer.New(zap.DebugLevel)
	tel := componenttest.NewTelemetry()
	t.Cleanup(func() { require.NoError(t, tel.Shutdown(context.Background())) })
	set := receiver.Settings{ID: component.NewID(metadata.Type), TelemetrySettings: tel.NewTelemetrySettings()}
	set.Logger = zap.New(core)
	r, err := newFactory(create).(xreceiver.Factory).CreateProfiles(t.Context(), set, createDefaultConfig(), next)
	require.NoError(t, err)
	return &fixture{receiver: r, host: newStatusHost(), logs: logs, tel: tel}
}

func (f *fixture) start(t *testing.T) {
	require.NoError(t, f.receiver.Start(t.Context(), f.host))
}

func (f *fixture) shutdown(t *testing.T) {
	require.NoError(t, f.receiver.Shutdown(t.Context()))
}

func TestSamplesReachTheNextConsumer(t *testing.T) {
	e, sink := &fakeEngine{}, new(consumertest.ProfilesSink)
	f := newFixture(t, sink, creating(e))
	f.start(t)
	require.Equal(t, 1, e.starts())
	require.Equal(t, 49, e.config.OnCPUFrequency)
	require.NoError(t, e.sink(t.Context(), pprofile.NewProfiles(), 7))
	require.Len(t, sink.AllProfiles(), 1)
	f.shutdown(t)
	require.Empty(t, f.host.statuses(), "the collector itself says that a start went well")
}

// TestHealthTravelsWithProfiles: whoever shows the profiles learns how the receiver is.
func TestHealthTravelsWithProfiles(t *testing.T) {
	var got *health.Report
	next, err := xconsumer.NewProfiles(func(ctx context.Context, _ pprofile.Profiles) error {
		got = health.FromContext(ctx)
		return nil
	})
	require.NoError(t, err)
	e := &fakeEngine{stats: engine.Stats{Taken: 5, Delivered: 3, KernelSkipped: 1, Processes: 9, Executables: 8}}
	e.stats.Lost[engine.LostRingFull] = 2
	e.stats.Stops[unwind.StopRoot] = 3
	f := newFixture(t, next, creating(e))
	f.receiver.(*profilesReceiver).lacks = func() []string { return []string{"CAP_SYSLOG (naming kernel functions)"} }
	f.start(t)
	e.status(errors.New("the ring is too small"))
	require.NoError(t, e.sink(t.Context(), pprofile.NewProfiles(), 7))
	require.NotNil(t, got)
	require.WithinDuration(t, time.Now(), got.Time, time.Minute)
	got.Time = time.Time{}
	require.Equal(t, &health.Report{
		Name: "hostprofiles", Taken: 5, Delivered: 3, KernelSkipped: 1, Lost: map[string]uint64{engine.LostRingFull.String(): 2},
		Stops: map[string]uint64{"root": 3}, Processes: 9, Executables: 8, Problem: "the ring is too small",
		Lacks: []string{"CAP_SYSLOG (naming kernel functions)"},
	}, got)
	f.shutdown(t)
	require.Nil(t, health.FromContext(t.Context()))
}

// TestProblemsAreTold: whoever shows the profiles learns why there are none.
func TestProblemsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var problems []string
		next, err := xconsumer.NewProfiles(func(ctx context.Context, p pprofile.Profiles) error {
			problems = append(problems, health.FromContext(ctx).Problem)
			require.NoError(t, conformance.Checker{MayBeEmpty: true}.Check(p))
			require.Zero(t, p.SampleCount())
			return errors.New("not now")
		})
		require.NoError(t, err)
		trouble := errors.New("cannot allocate memory")
		good := &fakeEngine{}
		f := newFixture(t, next, creating(&fakeEngine{startErr: trouble}, &fakeEngine{startErr: trouble}, good,
			&fakeEngine{startErr: fmt.Errorf("loading programs: %w", os.ErrPermission)}))
		f.start(t)
		time.Sleep(firstRetry + 2*firstRetry + time.Millisecond)
		synctest.Wait()
		require.Equal(t, []string{"cannot allocate memory", ""}, problems, "the same trouble is told once")
		good.status(fmt.Errorf("%w: index out of range", engine.ErrCrashed))
		time.Sleep(4*firstRetry + time.Millisecond)
		synctest.Wait()
		require.Len(t, problems, 4)
		require.Contains(t, problems[2], "index out of range")
		require.Contains(t, problems[3], "loading programs")
		f.shutdown(t)
	})
	// Nor is it forgotten when it is so from the start.
	told := make(chan string, 1)
	next, err := xconsumer.NewProfiles(func(ctx context.Context, _ pprofile.Profiles) error {
		told <- health.FromContext(ctx).Problem
		return nil
	})
	require.NoError(t, err)
	f := newFixture(t, next, creating(&fakeEngine{startErr: fmt.Errorf("loading programs: %w", os.ErrPermission)}))
	f.start(t)
	require.Contains(t, <-told, "loading programs")
	f.shutdown(t)
}

func TestRefusedPayloadIsReportedToTheEngine(t *testing.T) {
	refusal := errors.New("queue is full")
	e := &fakeEngine{}
	f := newFixture(t, consumertest.NewErr(refusal), creating(e))
	f.start(t)
	require.ErrorIs(t, e.sink(t.Context(), pprofile.NewProfiles(), 7), refusal)
	f.shutdown(t)
	require.EqualValues(t, 7, f.sum(t, "otelcol_receiver_refused_profile_samples"))
	require.EqualValues(t, 0, f.sum(t, "otelcol_receiver_accepted_profile_samples"))
}

func TestShutdownWithoutStartAndRepeated(t *testing.T) {
	e := &fakeEngine{}
	f := newFixture(t, consumertest.NewNop(), creating(e))
	f.shutdown(t)
	f.shutdown(t)
	require.Zero(t, e.starts())

	f = newFixture(t, consumertest.NewNop(), creating(e))
	f.start(t)
	f.shutdown(t)
	f.shutdown(t)
	require.Equal(t, 2, e.shutdowns, "the engine knows how to be shut down twice")
}

func TestShutdownHonoursItsContext(t *testing.T) {
	f := newFixture(t, consumertest.NewNop(), creating(&fakeEngine{hang: true}))
	f.start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, f.receiver.Shutdown(ctx), context.DeadlineExceeded)
}

func TestMissingPrivilegeDoesNotStopTheCollector(t *testing.T) {
	for name, cause := range map[string]error{
		"not permitted": fmt.Errorf("loading programs: %w", os.ErrPermission),
		"not supported": fmt.Errorf("kernel without BTF: %w", errors.ErrUnsupported),
	} {
		t.Run(name, func(t *testing.T) {
			e := &fakeEngine{startErr: cause}
			f := newFixture(t, consumertest.NewNop(), creating(e))
			f.start(t)
			require.Equal(t, []componentstatus.Status{componentstatus.StatusPermanentError}, f.host.statuses())
			require.ErrorIs(t, f.host.events[0].Err(), cause)
			errs := f.logs.FilterLevelExact(zap.ErrorLevel).All()
			require.Len(t, errs, 1, "one line, not many")
			require.Contains(t, errs[0].ContextMap()["error"], cause.Error())
			require.Equal(t, 1, e.shutdowns, "what a failed start holds is let go")
			require.Empty(t, f.receiver.(*profilesReceiver).stats())
			f.shutdown(t)
		})
	}
}

func TestPassingTroubleIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		trouble := errors.New("cannot allocate memory")
		good := &fakeEngine{}
		f := newFixture(t, consumertest.NewNop(), creating(&fakeEngine{startErr: trouble}, &fakeEngine{startErr: trouble}, good))
		f.start(t)
		time.Sleep(firstRetry + 2*firstRetry + time.Millisecond)
		synctest.Wait()
		require.Equal(t, 1, good.starts())
		require.Equal(t, []componentstatus.Status{componentstatus.StatusRecoverableError, componentstatus.StatusOK}, f.host.statuses(),
			"the same trouble is reported once")
		f.shutdown(t)
		require.Equal(t, 1, good.shutdowns)
	})
}

// TestCrashedEngineIsReplaced has an engine end by a defect: another one takes its place, and the collector goes on.
func TestCrashedEngineIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		crashing, next := &fakeEngine{}, &fakeEngine{}
		f := newFixture(t, consumertest.NewNop(), creating(crashing, next))
		f.start(t)
		crashing.status(fmt.Errorf("%w: index out of range", engine.ErrCrashed))
		time.Sleep(firstRetry + time.Millisecond)
		synctest.Wait()
		require.Equal(t, 1, crashing.shutdowns)
		require.Equal(t, 1, next.starts())
		require.Equal(t, []componentstatus.Status{componentstatus.StatusRecoverableError, componentstatus.StatusOK}, f.host.statuses())
		f.shutdown(t)
		require.Equal(t, 1, next.shutdowns)
		next.status(engine.ErrCrashed) // too late
		synctest.Wait()
	})
}

// TestCrashesInARow: what crashes again and again is started less and less often, until it has run soundly for a while.
func TestCrashesInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engines := make([]*fakeEngine, 12)
		for i := range engines {
			engines[i] = new(fakeEngine)
		}
		f := newFixture(t, consumertest.NewNop(), creating(engines...))
		f.start(t)
		i, crash := 0, fmt.Errorf("%w: index out of range", engine.ErrCrashed)
		replacedAfter := func(wait time.Duration) {
			t.Helper()
			engines[i].status(crash)
			time.Sleep(wait - time.Millisecond)
			synctest.Wait()
			require.Zero(t, engines[i+1].starts())
			time.Sleep(2 * time.Millisecond)
			synctest.Wait()
			i++
			require.Equal(t, 1, engines[i].starts())
		}
		for _, seconds := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
			replacedAfter(seconds * time.Second)
		}
		time.Sleep(soundAfter)
		replacedAfter(firstRetry)
		replacedAfter(2 * firstRetry)
		f.shutdown(t)
	})
}

// TestCrashWhileItStarts has an engine crash before the receiver knows that it runs: that one is cleaned up behind.
func TestCrashWhileItStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		crashing, next := &fakeEngine{}, &fakeEngine{}
		crashing.onStart = func() { crashing.status(engine.ErrCrashed) }
		f := newFixture(t, consumertest.NewNop(), creating(crashing, next))
		f.start(t)
		time.Sleep(firstRetry + time.Millisecond)
		synctest.Wait()
		require.Equal(t, 1, crashing.shutdowns)
		require.Equal(t, 1, next.starts())
		f.shutdown(t)
	})
}

func TestTroubleThatTurnsOutPermanent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, consumertest.NewNop(), creating(&fakeEngine{startErr: errors.New("busy")}, &fakeEngine{startErr: os.ErrPermission}))
		f.start(t)
		time.Sleep(time.Hour)
		require.Equal(t, []componentstatus.Status{componentstatus.StatusRecoverableError, componentstatus.StatusPermanentError}, f.host.statuses())
		f.shutdown(t)
	})
}

func TestShutdownEndsTheRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, consumertest.NewNop(), creating()) // cannot even be created
		f.start(t)
		begin := time.Now()
		f.shutdown(t)
		require.Zero(t, time.Since(begin))
	})
}

func TestHealthOfARunningEngine(t *testing.T) {
	e := &fakeEngine{}
	f := newFixture(t, consumertest.NewNop(), creating(e))
	f.start(t)
	trouble := errors.New("the side-band is lost")
	for range 3 {
		e.status(trouble)
	}
	e.status(errors.New("something else"))
	e.status(nil)
	e.status(nil)
	require.Equal(t, []componentstatus.Status{
		componentstatus.StatusRecoverableError, componentstatus.StatusRecoverableError, componentstatus.StatusOK,
	}, f.host.statuses())
	f.shutdown(t)
	e.status(trouble)
	require.Len(t, f.host.statuses(), 3, "nothing is reported after Shutdown")
}

func TestFactorySupportsProfilesOnly(t *testing.T) {
	factory := NewFactory()
	require.Equal(t, component.StabilityLevelDevelopment, factory.(xreceiver.Factory).ProfilesStability())
	_, err := factory.CreateTraces(t.Context(), receivertest.NewNopSettings(metadata.Type), createDefaultConfig(), consumertest.NewNop())
	require.Error(t, err)
}
