package profilesgate

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/featuregate"
)

func TestEnable(t *testing.T) {
	registry := featuregate.NewRegistry()
	gate, err := registry.Register(Gate, featuregate.StageAlpha)
	require.NoError(t, err)
	require.False(t, gate.IsEnabled())
	enable(registry)
	require.True(t, gate.IsEnabled())
}

func TestEnableWithoutGate(t *testing.T) {
	registry := featuregate.NewRegistry()
	require.NotPanics(t, func() { enable(registry) })
}

func TestConverterChangesNothing(t *testing.T) {
	before := map[string]any{"receivers": map[string]any{"hostprofiles": nil}}
	conf := confmap.NewFromStringMap(before)
	require.NoError(t, NewFactory().Create(confmap.ConverterSettings{}).Convert(t.Context(), conf))
	require.Equal(t, before, conf.ToStringMap())
}
