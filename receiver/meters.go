package receiver

import (
	"context"
	"fmt"

	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/hostprofiles/hostprofiles/internal/engine"
	"github.com/hostprofiles/hostprofiles/internal/symbolize/debugfile"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/receiver/internal/metadata"
)

// meters shows an engine's counters as metrics. All of a collection come from one snapshot, so that sums in it add up.
type meters struct {
	meter        metric.Meter
	builder      *metadata.TelemetryBuilder
	stats        func() engine.Stats
	receiver     attribute.KeyValue
	registration metric.Registration
}

func newMeters(set receiver.Settings, stats func() engine.Stats) (*meters, error) {
	builder, err := metadata.NewTelemetryBuilder(set.TelemetrySettings)
	if err != nil {
		return nil, fmt.Errorf("creating the receiver's own metrics: %w", err)
	}
	return &meters{
		meter:    metadata.Meter(set.TelemetrySettings),
		builder:  builder,
		stats:    stats,
		receiver: attribute.String("receiver", set.ID.String()),
	}, nil
}

func (m *meters) register() error {
	b := m.builder
	registration, err := m.meter.RegisterCallback(m.observe,
		b.ReceiverHostprofilesCacheSize,
		b.ReceiverHostprofilesDebugInfo,
		b.ReceiverHostprofilesDebugInfoErrors,
		b.ReceiverHostprofilesDebuginfodCacheSize,
		b.ReceiverHostprofilesDebuginfodRequests,
		b.ReceiverHostprofilesEvictions,
		b.ReceiverHostprofilesExecutables,
		b.ReceiverHostprofilesFilesUnclosed,
		b.ReceiverHostprofilesFrames,
		b.ReceiverHostprofilesKernelMapSize,
		b.ReceiverHostprofilesKernelSkipped,
		b.ReceiverHostprofilesProcesses,
		b.ReceiverHostprofilesRingCapacity,
		b.ReceiverHostprofilesRingUsed,
		b.ReceiverHostprofilesRuntimeErrors,
		b.ReceiverHostprofilesSamplesDelivered,
		b.ReceiverHostprofilesSamplesLost,
		b.ReceiverHostprofilesSamplesTaken,
		b.ReceiverHostprofilesSidebandLost,
		b.ReceiverHostprofilesStacks,
		b.ReceiverHostprofilesSymbolErrors,
		b.ReceiverHostprofilesSymbolLookups,
		b.ReceiverHostprofilesUnwindErrors,
		b.ReceiverHostprofilesUnwindTableErrors,
		b.ReceiverHostprofilesUnwindTableTime,
		b.ReceiverHostprofilesUnwindTables,
		b.ReceiverHostprofilesUserWalks,
		b.ReceiverHostprofilesWorkerPanics,
		b.ReceiverHostprofilesWorkerRefused,
		b.ReceiverHostprofilesWorkerStuck,
		b.ReceiverHostprofilesWorkerTimeouts,
	)
	if err != nil {
		return fmt.Errorf("registering the receiver's own metrics: %w", err)
	}
	m.registration = registration
	return nil
}

func (m *meters) unregister() error {
	if m.registration == nil {
		return nil
	}
	err := m.registration.Unregister()
	m.registration = nil
	return err
}

func (m *meters) observe(_ context.Context, o metric.Observer) error {
	s, b := m.stats(), m.builder
	put := func(i metric.Int64Observable, n uint64, attrs ...attribute.KeyValue) {
		o.ObserveInt64(i, int64(n), metric.WithAttributes(append(attrs, m.receiver)...))
	}
	put(b.ReceiverHostprofilesSamplesTaken, s.Taken)
	put(b.ReceiverHostprofilesSamplesDelivered, s.Delivered)
	for reason, n := range s.Lost {
		put(b.ReceiverHostprofilesSamplesLost, n, attribute.String("reason", engine.LossReason(reason).String()))
	}
	put(b.ReceiverHostprofilesKernelSkipped, s.KernelSkipped)
	put(b.ReceiverHostprofilesUserWalks, s.UserWalks)
	for reason, n := range s.Stops {
		put(b.ReceiverHostprofilesStacks, n, attribute.String("stop_reason", unwind.StopReason(reason).String()))
	}
	for kind, n := range s.Frames {
		put(b.ReceiverHostprofilesFrames, n, attribute.String("frame_type", kind))
	}
	for e, n := range s.UnwindErrors {
		put(b.ReceiverHostprofilesUnwindErrors, n, attribute.String("frame_type", e.Runtime), attribute.String("reason", e.Reason),
			attribute.Int("line", e.Line))
	}

	put(b.ReceiverHostprofilesUnwindTables, s.TablesBuilt)
	for reason, n := range s.TableErrors {
		put(b.ReceiverHostprofilesUnwindTableErrors, n, attribute.String("reason", engine.TableError(reason).String()))
	}
	o.ObserveFloat64(b.ReceiverHostprofilesUnwindTableTime, s.TableTime.Seconds(), metric.WithAttributes(m.receiver))
	put(b.ReceiverHostprofilesSymbolLookups, s.SymbolHits, attribute.String("result", "hit"))
	put(b.ReceiverHostprofilesSymbolLookups, s.SymbolMisses, attribute.String("result", "miss"))
	put(b.ReceiverHostprofilesSymbolErrors, s.SymbolErrors)
	put(b.ReceiverHostprofilesRuntimeErrors, s.RuntimeErrors)
	for source, n := range s.DebugInfo {
		put(b.ReceiverHostprofilesDebugInfo, n, attribute.String("source", debugfile.Source(source).String()))
	}
	put(b.ReceiverHostprofilesDebugInfoErrors, s.DebugErrors)
	for result, n := range s.Debuginfod {
		put(b.ReceiverHostprofilesDebuginfodRequests, n, attribute.String("result", engine.FetchResult(result).String()))
	}
	put(b.ReceiverHostprofilesDebuginfodCacheSize, s.DebuginfodBytes)
	put(b.ReceiverHostprofilesSidebandLost, s.SidebandLost)
	put(b.ReceiverHostprofilesWorkerTimeouts, s.WorkerTimeout)
	put(b.ReceiverHostprofilesWorkerPanics, s.WorkerPanics)
	for reason, n := range s.WorkerRefused {
		put(b.ReceiverHostprofilesWorkerRefused, n, attribute.String("reason", engine.Refusal(reason).String()))
	}
	put(b.ReceiverHostprofilesWorkerStuck, s.WorkerStuck)
	put(b.ReceiverHostprofilesFilesUnclosed, s.FilesUnclosed)
	put(b.ReceiverHostprofilesEvictions, s.Evictions)

	put(b.ReceiverHostprofilesKernelMapSize, s.MapBytes)
	put(b.ReceiverHostprofilesRingCapacity, s.RingBytes)
	put(b.ReceiverHostprofilesRingUsed, s.RingUsedBytes)
	put(b.ReceiverHostprofilesCacheSize, s.HeapBytes)
	put(b.ReceiverHostprofilesProcesses, s.Processes)
	put(b.ReceiverHostprofilesExecutables, s.Executables)
	return nil
}
