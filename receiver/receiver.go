package receiver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/consumer/xconsumer"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/receiverhelper"
	"go.uber.org/zap"

	"github.com/hostprofiles/hostprofiles/internal/engine"
	"github.com/hostprofiles/hostprofiles/internal/health"
	"github.com/hostprofiles/hostprofiles/internal/profile"
	"github.com/hostprofiles/hostprofiles/receiver/internal/metadata"
)

// Bounds of the wait before an engine that could not start, or had crashed, is tried again; it doubles in between.
const (
	firstRetry = time.Second
	lastRetry  = time.Minute

	// soundAfter is how long an engine has to run for the waits to begin anew when it crashes.
	soundAfter = 10 * time.Minute
)

// profilesReceiver runs one engine. Where profiling is not possible it does not fail the collector: the other pipelines
// go on, and log and status say what is missing.
type profilesReceiver struct {
	name   string
	config engine.Config
	logger *zap.Logger
	next   xconsumer.Profiles
	create newRunner
	obs    *receiverhelper.ObsReport
	meters *meters
	lacks  func() []string // privileges, and what there is less of without them

	starting sync.Mutex // held while an engine is created and started

	mu     sync.Mutex
	retry  time.Duration      // the wait before the next start
	ctx    context.Context    // of what goes on beside everything else
	cancel context.CancelFunc // of ctx
	done   chan struct{}      // closed when nothing of that goes on any more; nil if nothing did
	engine runner             // the one that runs; nil before
	since  time.Time          // when it started
	host   component.Host
	status componentstatus.Status
	reason string
	closed bool
}

func newProfilesReceiver(set receiver.Settings, cfg *Config, next xconsumer.Profiles, create newRunner) (*profilesReceiver, error) {
	obs, err := receiverhelper.NewObsReport(receiverhelper.ObsReportSettings{ReceiverID: set.ID, ReceiverCreateSettings: set})
	if err != nil {
		return nil, fmt.Errorf("creating the receiver's own metrics: %w", err)
	}
	r := &profilesReceiver{
		name:   set.ID.String(),
		config: cfg.engineConfig(set.BuildInfo.Version),
		// What is logged is addressed to users: stack traces would only hide it.
		logger: set.Logger.WithOptions(zap.AddStacktrace(zap.FatalLevel + 1)),
		next:   next,
		create: create,
		obs:    obs,
		retry:  firstRetry,
		lacks: func() []string {
			_, optional := privilegeHint()
			return optional
		},
	}
	r.meters, err = newMeters(set, r.stats)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Start begins to profile. It fails only for what no privilege and no kernel could mend.
func (r *profilesReceiver) Start(ctx context.Context, host component.Host) error {
	r.mu.Lock()
	r.host = host
	r.mu.Unlock()
	if err := r.meters.register(); err != nil {
		return err
	}
	err := r.startEngine(ctx)
	if err == nil {
		r.warnOfReducedPrivileges()
		return nil
	}
	if isPermanent(err) {
		r.giveUp(err)
		r.background(r.tell)
		return nil
	}
	r.logger.Error("Profiling could not start; trying again", zap.Error(err), zap.Stringer("after", firstRetry))
	r.report(componentstatus.StatusRecoverableError, err)
	r.startLater(false)
	return nil
}

// startLater tries to start an engine until one runs or Shutdown comes. One that crashed is brought to its end first.
func (r *profilesReceiver) startLater(crashed bool) {
	r.background(func(ctx context.Context) {
		if crashed {
			r.cleanUp(ctx)
		}
		r.tell(ctx)
		r.retryStart(ctx)
	})
}

// background runs f beside everything else, until Shutdown comes at the latest.
func (r *profilesReceiver) background(f func(context.Context)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	if r.cancel == nil {
		r.ctx, r.cancel = context.WithCancel(context.Background())
	}
	ctx, before, done := r.ctx, r.done, make(chan struct{})
	r.done = done
	go func() {
		defer close(done)
		if before != nil {
			<-before // one after the other
		}
		f(ctx)
	}()
}

// tellTimeout bounds how long whoever shows the profiles may take to hear of a change.
const tellTimeout = 5 * time.Second

// tell has those who show profiles know of a change although there are none: without profiles nothing else would reach them.
func (r *profilesReceiver) tell(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, tellTimeout)
	defer cancel()
	if err := r.next.ConsumeProfiles(health.NewContext(ctx, r.health()), profile.Empty()); err != nil {
		r.logger.Debug("Telling how the receiver is", zap.Error(err))
	}
}

// cleanUp brings the engine that crashed to its end, and has the waits begin anew if it had been sound before.
func (r *profilesReceiver) cleanUp(ctx context.Context) {
	r.starting.Lock() // it may have crashed before it was known to have started
	r.mu.Lock()
	e := r.engine
	if time.Since(r.since) > soundAfter {
		r.retry = firstRetry
	}
	r.mu.Unlock()
	r.starting.Unlock()
	if err := e.Shutdown(ctx); err != nil {
		r.logger.Warn("Cleaning up behind an engine that had stopped", zap.Error(err))
	}
}

// nextWait is how long to wait before the next start, and doubles for the one after.
func (r *profilesReceiver) nextWait() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	wait := r.retry
	r.retry = min(2*wait, lastRetry)
	return wait
}

// startEngine creates an engine and starts it. Each attempt takes a new one, since a failed Start leaves nothing usable.
func (r *profilesReceiver) startEngine(ctx context.Context) error {
	r.starting.Lock()
	defer r.starting.Unlock()
	e, err := r.create(r.config, r.logger, r.consume, r.engineStatus)
	if err != nil {
		return err
	}
	if err := e.Start(ctx); err != nil {
		return errors.Join(err, e.Shutdown(ctx))
	}
	r.mu.Lock()
	r.engine, r.since = e, time.Now()
	r.mu.Unlock()
	return nil
}

func (r *profilesReceiver) retryStart(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(r.nextWait()):
		}
		err := r.startEngine(ctx)
		switch {
		case err == nil:
			if r.report(componentstatus.StatusOK, nil) {
				r.tell(ctx)
			}
			return
		case ctx.Err() != nil:
			return
		case isPermanent(err):
			r.giveUp(err)
			r.tell(ctx)
			return
		}
		r.logger.Warn("Profiling could not start; trying again", zap.Error(err))
		if r.report(componentstatus.StatusRecoverableError, err) {
			r.tell(ctx)
		}
	}
}

// isPermanent tells errors that waiting does not mend: a privilege or a feature of the kernel is missing.
func isPermanent(err error) bool {
	return errors.Is(err, os.ErrPermission) || errors.Is(err, errors.ErrUnsupported)
}

// giveUp says once, in words a user can act on, why nothing is profiled.
func (r *profilesReceiver) giveUp(err error) {
	required, _ := privilegeHint()
	if errors.Is(err, os.ErrPermission) && len(required) > 0 {
		err = fmt.Errorf("this process lacks %s: %w", joinAnd(required), err)
	}
	r.logger.Error("Profiling is off; the rest of the collector goes on", zap.Error(err))
	r.report(componentstatus.StatusPermanentError, err)
}

func (r *profilesReceiver) warnOfReducedPrivileges() {
	if lacks := r.lacks(); len(lacks) > 0 {
		r.logger.Warn("Profiling runs with less detail: this process lacks " + joinAnd(lacks))
	}
}

// engineStatus is how a running engine tells of trouble (err) and of its end (nil).
func (r *profilesReceiver) engineStatus(err error) {
	if err == nil {
		r.report(componentstatus.StatusOK, nil)
		return
	}
	r.report(componentstatus.StatusRecoverableError, err)
	if errors.Is(err, engine.ErrCrashed) {
		r.startLater(true)
	}
}

// report tells the collector about a change, and whether it was one; the collector would pass on every repetition. During start-up and
// shutdown it has a say of its own about what is fine, so the first "OK" is left to it.
func (r *profilesReceiver) report(status componentstatus.Status, err error) (changed bool) {
	var reason string
	if err != nil {
		reason = err.Error()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	unchanged := status == r.status && reason == r.reason
	initial := status == componentstatus.StatusOK && r.status == componentstatus.StatusNone
	if r.closed || r.host == nil || unchanged || initial {
		return false
	}
	r.status, r.reason = status, reason
	event := componentstatus.NewEvent(status)
	if err != nil {
		event = errorEvent(status, err)
	}
	componentstatus.ReportStatus(r.host, event)
	return true
}

func errorEvent(status componentstatus.Status, err error) *componentstatus.Event {
	if status == componentstatus.StatusPermanentError {
		return componentstatus.NewPermanentErrorEvent(err)
	}
	return componentstatus.NewRecoverableErrorEvent(err)
}

// consume is the engine's sink.
func (r *profilesReceiver) consume(ctx context.Context, p pprofile.Profiles, samples int) error {
	if r.next.Capabilities().MutatesData { // what is refused is offered again, as it was
		original := p
		p = pprofile.NewProfiles()
		original.CopyTo(p)
	}
	ctx = r.obs.StartProfilesOp(ctx)
	err := r.next.ConsumeProfiles(health.NewContext(ctx, r.health()), p)
	r.obs.EndProfilesOp(ctx, metadata.Type.String(), samples, err)
	if consumererror.IsPermanent(err) {
		return fmt.Errorf("%w: %w", engine.ErrPermanent, err)
	}
	return err
}

func (r *profilesReceiver) stats() engine.Stats {
	r.mu.Lock()
	e := r.engine
	r.mu.Unlock()
	if e == nil {
		return engine.Stats{}
	}
	return e.Stats()
}

// Shutdown stops the engine, which flushes what it has, within the context's deadline. It is safe without Start and when
// repeated.
func (r *profilesReceiver) Shutdown(ctx context.Context) error {
	r.mu.Lock()
	r.closed = true
	cancel, done := r.cancel, r.done
	r.mu.Unlock()
	if cancel != nil {
		cancel()
	}
	var err error
	if done != nil {
		select {
		case <-done:
		case <-ctx.Done():
			err = fmt.Errorf("waiting for an attempt to start: %w", ctx.Err())
		}
	}
	r.mu.Lock()
	e := r.engine
	r.mu.Unlock()
	if e != nil {
		err = errors.Join(err, e.Shutdown(ctx))
	}
	return errors.Join(err, r.meters.unregister())
}
