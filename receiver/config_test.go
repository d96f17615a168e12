package receiver

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/confmaptest"

	"github.com/hostprofiles/hostprofiles/internal/engine"
	"github.com/hostprofiles/hostprofiles/internal/symbolize/debuginfod"
)

var errNoBPF = errors.Join(errors.New("no BPF"), os.ErrPermission)

func load(t *testing.T, yaml string) (*Config, error) {
	retrieved, err := confmap.NewRetrievedFromYAML([]byte(yaml))
	require.NoError(t, err)
	conf, err := retrieved.AsConf()
	require.NoError(t, err)
	cfg := createDefaultConfig().(*Config)
	if err := conf.Unmarshal(cfg); err != nil {
		return nil, err
	}
	return cfg, confmap.Validate(cfg)
}

func TestDefaults(t *testing.T) {
	cfg, err := load(t, "{}")
	require.NoError(t, err)
	require.Equal(t, engine.Config{
		Version:        "1.2.3",
		OnCPUEnabled:   true,
		OnCPUFrequency: 49,
		ReportInterval: 10 * time.Second,
		MaxFrames:      1024,
		Symbolize:      true,
		SourceLines:    true,
		MemoryBytes:    256 << 20,
		PayloadBytes:   4_000_000,
	}, cfg.engineConfig("1.2.3"))
}

func TestEveryKeyReachesTheEngine(t *testing.T) {
	conf, err := confmaptest.LoadConf("testdata/config.yaml")
	require.NoError(t, err)
	sub, err := conf.Sub("hostprofiles/all")
	require.NoError(t, err)
	cfg := createDefaultConfig().(*Config)
	require.NoError(t, sub.Unmarshal(cfg))
	require.NoError(t, confmap.Validate(cfg))
	require.Equal(t, engine.Config{
		Version:        "1.2.3",
		OnCPUEnabled:   true,
		OnCPUFrequency: 97,
		ReportInterval: 2 * time.Second,
		MaxFrames:      128,
		Symbolize:      false,
		SourceLines:    false,
		Debuginfod: &debuginfod.Options{
			URLs: []string{"https://debuginfod.example.org", "file:///srv/debuginfod"}, Dir: "/var/lib/debuginfod", MaxBytes: 100 << 20, Timeout: time.Minute,
		},
		ThreadIDs:    true,
		MemoryBytes:  512 << 20,
		PayloadBytes: 1 << 20,
	}, cfg.engineConfig("1.2.3"))
}

// TestDebuginfodEnvironment has the servers of the standard variable, which count only if they were asked for.
func TestDebuginfodEnvironment(t *testing.T) {
	t.Setenv("DEBUGINFOD_URLS", "https://one.example.org https://two.example.org/")
	t.Setenv("XDG_CACHE_HOME", "/home/user/cache")
	cfg, err := load(t, "{}")
	require.NoError(t, err)
	require.Nil(t, cfg.engineConfig("").Debuginfod)
	cfg, err = load(t, "symbolization: {debuginfod: {enabled: true}}")
	require.NoError(t, err)
	require.Equal(t, &debuginfod.Options{
		URLs: []string{"https://one.example.org", "https://two.example.org/"}, Dir: "/home/user/cache/hostprofiles/debuginfod",
		MaxBytes: 4 << 30, Timeout: 15 * time.Minute,
	}, cfg.engineConfig("").Debuginfod)
	cfg, err = load(t, "symbolization: {debuginfod: {enabled: true, urls: [https://three.example.org]}}")
	require.NoError(t, err)
	require.Equal(t, []string{"https://three.example.org"}, cfg.engineConfig("").Debuginfod.URLs)
	t.Setenv("DEBUGINFOD_URLS", "one.example.org")
	_, err = load(t, "symbolization: {debuginfod: {enabled: true}}")
	require.ErrorContains(t, err, "DEBUGINFOD_URLS")
}

func TestInvalidValuesNameTheirKey(t *testing.T) {
	t.Setenv("DEBUGINFOD_URLS", "")
	for yaml, want := range map[string]string{
		"on_cpu: {frequency: 0}":                       "on_cpu: frequency value must be greater than or equal to 1",
		"on_cpu: {frequency: 10001}":                   "on_cpu: frequency value must be less than or equal to 10000",
		"on_cpu: {enabled: false}":                     "on_cpu::enabled is false",
		"report_interval: 99ms":                        "report_interval is 99ms; it must be from 100ms to 1h0m0s",
		"report_interval: 61m":                         "report_interval is 1h1m0s",
		"report_interval: soon":                        "report_interval",
		"max_frames: 0":                                "max_frames value must be greater than or equal to 1",
		"max_frames: 1025":                             "max_frames value must be less than or equal to 1024",
		"limits: {memory_mib: 31}":                     "limits: memory_mib value must be greater than or equal to 32",
		"limits: {payload_bytes: 65535}":               "limits: payload_bytes value must be greater than or equal to 65536",
		"symbolization: {enable: true}":                "symbolization",
		"symbolization: {debuginfod: {enabled: true}}": "no server is named",
		"symbolization: {debuginfod: {enabled: true, urls: [gopher://x]}}": `symbolization::debuginfod::urls: URL "gopher://x"`,
		"symbolization: {debuginfod: {enabled: true, urls: [https://]}}":   "no host",
		"symbolization: {debuginfod: {cache_mib: 63}}":                     "cache_mib value must be greater than or equal to 64",
		"symbolization: {debuginfod: {timeout: 999ms}}":                    "timeout is 999ms; it must be at least 1s",
		"off_cpu: {enabled: true}":                                         "off_cpu",
		"thread_id: {enabled: 3.5}":                                        "thread_id",
		"on_cpu: {frequency: [49]}":                                        "on_cpu",
		"on_cpu: {enabled: true, hertz: 49}":                               "hertz",
	} {
		t.Run(yaml, func(t *testing.T) {
			_, err := load(t, yaml)
			require.ErrorContains(t, err, want)
		})
	}
}

// schema is the part of JSON Schema that config.schema.json uses.
type schema struct {
	Type       string            `json:"type"`
	Default    any               `json:"default"`
	Minimum    *int              `json:"minimum"`
	Maximum    *int              `json:"maximum"`
	Properties map[string]schema `json:"properties"`
}

// The schema is generated from the same source as the configuration; this compares what they say in the end.
func TestSchemaAgreesWithConfig(t *testing.T) {
	raw, err := os.ReadFile("config.schema.json")
	require.NoError(t, err)
	var root schema
	require.NoError(t, json.Unmarshal(raw, &root))

	conf := confmap.New()
	require.NoError(t, conf.Marshal(createDefaultConfig()))
	compareSchema(t, nil, root, conf.ToStringMap())
}

// emptyByDefault are the options that are left out of a configuration if they are empty, as they are by default.
var emptyByDefault = []string{"symbolization::debuginfod::urls", "symbolization::debuginfod::cache_dir"}

func compareSchema(t *testing.T, path []string, s schema, value any) {
	key := strings.Join(path, "::")
	if s.Type == "object" {
		m, ok := value.(map[string]any)
		require.True(t, ok, key)
		shown := 0
		for name, property := range s.Properties {
			if at := strings.Join(append(path, name), "::"); slices.Contains(emptyByDefault, at) {
				require.NotContains(t, m, name)
				require.Nil(t, property.Default, at)
				continue
			}
			shown++
			require.Contains(t, m, name)
			compareSchema(t, append(path, name), property, m[name])
		}
		require.Len(t, m, shown, "keys of %q", key)
		return
	}
	if d, ok := s.Default.(string); ok { // a duration
		want, err := time.ParseDuration(d)
		require.NoError(t, err, key)
		require.EqualValues(t, want, value, key)
		return
	}
	require.EqualValues(t, s.Default, value, key)
	for n, ok := range bounds(s) {
		conf := confmap.New()
		require.NoError(t, conf.Merge(confmap.NewFromStringMap(nest(path, n))))
		cfg := createDefaultConfig().(*Config)
		require.NoError(t, conf.Unmarshal(cfg))
		if ok {
			require.NoError(t, confmap.Validate(cfg), "%s: %d", key, n)
		} else {
			require.Error(t, confmap.Validate(cfg), "%s: %d", key, n)
		}
	}
}

// bounds returns numbers on and just over a schema's bounds, and whether they are allowed.
func bounds(s schema) map[int]bool {
	b := map[int]bool{}
	if s.Minimum != nil {
		b[*s.Minimum], b[*s.Minimum-1] = true, false
	}
	if s.Maximum != nil {
		b[*s.Maximum], b[*s.Maximum+1] = true, false
	}
	return b
}

func nest(path []string, value any) map[string]any {
	for i := len(path) - 1; i >= 0; i-- {
		value = map[string]any{path[i]: value}
	}
	return value.(map[string]any)
}
