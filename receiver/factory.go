package receiver

import (
	"context"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer/xconsumer"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/xreceiver"

	"github.com/hostprofiles/hostprofiles/receiver/internal/metadata"
)

// NewFactory creates the factory of the hostprofiles receiver.
func NewFactory() receiver.Factory {
	return newFactory(newEngine)
}

func newFactory(create newRunner) receiver.Factory {
	return xreceiver.NewFactory(metadata.Type, createDefaultConfig, xreceiver.WithProfiles(
		func(_ context.Context, set receiver.Settings, cfg component.Config, next xconsumer.Profiles) (xreceiver.Profiles, error) {
			return newProfilesReceiver(set, cfg.(*Config), next, create)
		}, metadata.ProfilesStability))
}
