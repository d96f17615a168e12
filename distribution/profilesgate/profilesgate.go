// Package profilesgate switches the collector's feature gate for the profiles signal on in the distributions that list
// it, so that their users need no command-line flag. docs/decisions/0002-profiles-feature-gate.md says why it looks like
// a converter.
package profilesgate

import (
	"context"

	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/featuregate"
)

// Gate is the identifier of the feature gate, as go.opentelemetry.io/collector/service v0.164.0 registers it.
const Gate = "service.profilesSupport"

// NewFactory switches the gate on and returns a converter that changes nothing. A distribution calls it when it starts,
// before it parses its flags: --feature-gates=-service.profilesSupport still switches profiles off.
func NewFactory() confmap.ConverterFactory {
	enable(featuregate.GlobalRegistry())
	return confmap.NewConverterFactory(func(confmap.ConverterSettings) confmap.Converter { return unchanged{} })
}

// enable leaves out the error: a collector that no longer knows the gate, or no longer lets it change, supports profiles
// without.
func enable(registry *featuregate.Registry) {
	_ = registry.Set(Gate, true)
}

type unchanged struct{}

func (unchanged) Convert(context.Context, *confmap.Conf) error { return nil }
