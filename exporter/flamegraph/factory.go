package flamegraph

import (
	"context"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exporterhelper"
	"go.opentelemetry.io/collector/exporter/exporterhelper/xexporterhelper"
	"go.opentelemetry.io/collector/exporter/xexporter"

	"github.com/hostprofiles/hostprofiles/exporter/flamegraph/internal/metadata"
)

// NewFactory creates the factory of the flamegraph exporter.
func NewFactory() exporter.Factory {
	return xexporter.NewFactory(metadata.Type, createDefaultConfig,
		xexporter.WithProfiles(createProfiles, metadata.ProfilesStability))
}

func createProfiles(ctx context.Context, set exporter.Settings, cfg component.Config) (xexporter.Profiles, error) {
	e := newFlameExporter(cfg.(*Config), set.TelemetrySettings, set.BuildInfo, time.Now)
	return xexporterhelper.NewProfiles(ctx, set, cfg, e.consume,
		exporterhelper.WithStart(e.start), exporterhelper.WithShutdown(e.shutdown),
		// Taking profiles up is a matter of milliseconds and waits for nothing.
		exporterhelper.WithTimeout(exporterhelper.TimeoutConfig{Timeout: 0}))
}
