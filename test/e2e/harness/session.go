// Package harness runs the receiver inside a test, or the collector beside it, and collects what it delivers.
package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/xconsumer"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"go.opentelemetry.io/collector/receiver/xreceiver"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sys/unix"

	"github.com/hostprofiles/hostprofiles/internal/profile/conformance"
	"github.com/hostprofiles/hostprofiles/receiver"
	"github.com/hostprofiles/hostprofiles/test/e2e/analysis"
)

// ErrNotSupported is wrapped by Start's error where this process or this kernel cannot profile at all.
var ErrNotSupported = errors.New("profiling is not possible here")

// shutdownTimeout bounds a Shutdown, flush included.
const shutdownTimeout = 20 * time.Second

// Session is a receiver that runs in this process. Its next consumer checks every payload for conformance and keeps the
// samples.
type Session struct {
	receiver  xreceiver.Profiles
	telemetry *componenttest.Telemetry
	logs      *logBuffer
	keep      func(analysis.Sample) bool
	gate      func() error

	mu       sync.Mutex
	result   Result
	statuses []*componentstatus.Event
}

// Result is what a session delivered.
type Result struct {
	Samples    analysis.Samples // those that Options.Keep let through
	Total      int              // events in all payloads
	Payloads   int
	MaxPayload int     // bytes, marshalled
	Problems   []error // violations of conformance
	Metrics    Metrics // just before the end
	Balance    Balance // after it
	Logs       []string
}

// Balance is what the receiver says at its end of all samples.
type Balance struct {
	Taken     int `json:"samples_taken"`
	Delivered int `json:"samples_delivered"`
	Lost      int `json:"samples_lost"`
}

// balance reads it from the receiver's last words.
func balance(logs []string) (b Balance, err error) {
	for _, line := range logs {
		if _, fields, ok := strings.Cut(line, "profiling has ended"); ok {
			if err := json.Unmarshal([]byte(strings.TrimSpace(fields)), &b); err != nil {
				return b, fmt.Errorf("reading the balance %q: %w", fields, err)
			}
			return b, nil
		}
	}
	return b, errors.New("the receiver's log has no balance")
}

// Options say how to start a session.
type Options struct {
	Frequency      int           // Hz; 0 means 997
	ReportInterval time.Duration // 0 means 1 s
	// Configure changes the configuration further.
	Configure func(*receiver.Config)
	// Keep chooses the samples to remember; nil means all.
	Keep func(analysis.Sample) bool
	// Refuse, when it returns an error, has the consumer refuse a payload with it.
	Refuse func() error
}

// Start starts a receiver and returns when it profiles.
func Start(ctx context.Context, o Options) (*Session, error) {
	s := &Session{telemetry: componenttest.NewTelemetry(), logs: newLogBuffer(), keep: o.Keep, gate: o.Refuse}
	factory := receiver.NewFactory()
	cfg := factory.CreateDefaultConfig().(*receiver.Config)
	cfg.OnCPU.Frequency, cfg.ReportInterval = 997, time.Second
	if o.Frequency != 0 {
		cfg.OnCPU.Frequency = o.Frequency
	}
	if o.ReportInterval != 0 {
		cfg.ReportInterval = o.ReportInterval
	}
	if o.Configure != nil {
		o.Configure(cfg)
	}
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("validating the test's configuration: %w", err)
	}
	settings := receivertest.NewNopSettings(factory.Type())
	settings.TelemetrySettings = s.telemetry.NewTelemetrySettings()
	settings.Logger = zap.New(zapcore.NewCore(zapcore.NewConsoleEncoder(zap.NewDevelopmentEncoderConfig()), s.logs, zap.DebugLevel))
	next, err := xconsumer.NewProfiles(s.consume, consumer.WithCapabilities(consumer.Capabilities{}))
	if err != nil {
		return nil, fmt.Errorf("creating the test's consumer: %w", err)
	}
	x, ok := factory.(xreceiver.Factory)
	if !ok {
		return nil, errors.New("creating the receiver: its factory makes no profiles receivers")
	}
	if s.receiver, err = x.CreateProfiles(ctx, settings, cfg, next); err != nil {
		return nil, fmt.Errorf("creating the receiver: %w", err)
	}
	if err := s.receiver.Start(ctx, s); err != nil {
		return nil, fmt.Errorf("starting the receiver: %w", err)
	}
	if err := s.health(); err != nil {
		_, stopErr := s.Stop()
		return nil, fmt.Errorf("starting the receiver: %w", errors.Join(err, stopErr))
	}
	return s, nil
}

// GetExtensions makes the session a component.Host.
func (s *Session) GetExtensions() map[component.ID]component.Component { return nil }

// Report makes the session a componentstatus.Reporter.
func (s *Session) Report(e *componentstatus.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.statuses = append(s.statuses, e)
}

// health returns the error of the last status.
func (s *Session) health() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.statuses) == 0 {
		return nil
	}
	err := s.statuses[len(s.statuses)-1].Err()
	if err != nil && (errors.Is(err, os.ErrPermission) && !mayProfile() || errors.Is(err, errors.ErrUnsupported) && !hasBTF()) {
		return fmt.Errorf("%w: %w", ErrNotSupported, err)
	}
	return err
}

// mayProfile tells whether this process has what loading and sampling take: then being refused is a fault.
func mayProfile() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return true
	}
	has := func(c uint) bool { return sets[c/32].Effective&(1<<(c%32)) != 0 }
	return has(unix.CAP_SYS_ADMIN) || has(unix.CAP_BPF) && has(unix.CAP_PERFMON)
}

// hasBTF tells whether the kernel can load the programs at all.
func hasBTF() bool {
	_, err := os.Stat("/sys/kernel/btf/vmlinux")
	return err == nil
}

func (s *Session) consume(_ context.Context, p pprofile.Profiles) error {
	if s.gate != nil {
		if err := s.gate(); err != nil {
			return err
		}
	}
	p.MarkReadOnly()
	problem := conformance.Checker{MayBeEmpty: true}.Check(p)
	size := (&pprofile.ProtoMarshaler{}).ProfilesSize(p)
	var samples analysis.Samples
	if problem == nil {
		samples = analysis.Flatten(p)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &s.result
	r.Payloads++
	r.MaxPayload = max(r.MaxPayload, size)
	if problem != nil {
		r.Problems = append(r.Problems, fmt.Errorf("payload %d: %w", r.Payloads, problem))
	}
	r.Total += samples.Count()
	if s.keep != nil {
		samples = samples.Where(s.keep)
	}
	r.Samples = append(r.Samples, samples...)
	return nil
}

// Samples returns what was delivered so far.
func (s *Session) Samples() analysis.Samples {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.result.Samples[:len(s.result.Samples):len(s.result.Samples)]
}

// Stop shuts the receiver down and returns all that it delivered. It may be called again.
func (s *Session) Stop() (Result, error) {
	metrics, metricsErr := s.Metrics()
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	err := s.receiver.Shutdown(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.result.Logs = s.logs.lines()
	s.result.Metrics = metrics
	var balanceErr error
	s.result.Balance, balanceErr = balance(s.result.Logs)
	return s.result, errors.Join(metricsErr, err, balanceErr)
}
