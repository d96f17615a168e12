package flamegraph

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"
)

// TestSchema: the schema has every key that is this exporter's own, with the default that the code has.
func TestSchema(t *testing.T) {
	b, err := os.ReadFile("config.schema.json")
	require.NoError(t, err)
	var schema struct {
		Properties map[string]struct {
			Default          any
			Minimum, Maximum int
		}
	}
	require.NoError(t, json.Unmarshal(b, &schema))
	own := []string{"endpoint", "window", "memory_mib", "allowed_hosts"}
	for key := range schema.Properties {
		require.Contains(t, own, key)
	}
	for _, key := range own {
		require.Contains(t, schema.Properties, key)
		require.True(t, slices.Contains(configKeys(), key), key)
	}
	require.Equal(t, minMemoryMiB, schema.Properties["memory_mib"].Minimum)
	require.Equal(t, maxMemoryMiB, schema.Properties["memory_mib"].Maximum)
	defaults := map[string]any{}
	for key, p := range schema.Properties {
		if p.Default != nil {
			defaults[key] = p.Default
		}
	}
	read := createDefaultConfig().(*Config)
	read.Window, read.MemoryMiB, read.Server.NetAddr.Endpoint = 0, 0, ""
	require.NoError(t, confmap.NewFromStringMap(defaults).Unmarshal(read))
	require.Equal(t, createDefaultConfig(), read)
}
