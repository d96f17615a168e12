package receiver

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/confmaptest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/hostprofiles/hostprofiles/internal/engine"
	"github.com/hostprofiles/hostprofiles/internal/symbolize/debugfile"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// points returns all values of a metric by their attributes.
func (f *fixture) points(t *testing.T, name string) map[attribute.Set]float64 {
	m, err := f.tel.GetMetric(name)
	require.NoError(t, err)
	points := map[attribute.Set]float64{}
	switch data := m.Data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range data.DataPoints {
			points[p.Attributes] = float64(p.Value)
		}
	case metricdata.Gauge[int64]:
		for _, p := range data.DataPoints {
			points[p.Attributes] = float64(p.Value)
		}
	case metricdata.Sum[float64]:
		for _, p := range data.DataPoints {
			points[p.Attributes] = p.Value
		}
	default:
		require.Failf(t, "unknown kind of metric", "%s: %T", name, m.Data)
	}
	return points
}

func (f *fixture) sum(t *testing.T, name string) (sum float64) {
	for _, v := range f.points(t, name) {
		sum += v
	}
	return sum
}

// everyField returns statistics in which each number is different, so that none can be mistaken for another.
func everyField(t *testing.T) engine.Stats {
	var s engine.Stats
	n := uint64(0)
	next := func() uint64 { n++; return n }
	v := reflect.ValueOf(&s).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.Uint64:
			f.SetUint(next())
		case reflect.Int64: // a time.Duration
			f.SetInt(int64(next()) * int64(time.Second))
		case reflect.Array:
			for j := range f.Len() {
				f.Index(j).SetUint(next())
			}
		case reflect.Map:
			switch m := f.Addr().Interface().(type) {
			case *map[string]uint64:
				*m = map[string]uint64{"native": next(), "kernel": next()}
			case *map[engine.UnwindError]uint64:
				*m = map[engine.UnwindError]uint64{{Runtime: "native", Reason: "memory"}: next(), {Runtime: "cpython", Reason: "stale"}: next()}
			default:
				require.Failf(t, "a field that no metric can show", "%s", v.Type().Field(i).Name)
			}
		default:
			require.Failf(t, "a field that no metric can show", "%s", v.Type().Field(i).Name)
		}
	}
	return s
}

func TestEveryCounterIsAMetric(t *testing.T) {
	e := &fakeEngine{stats: everyField(t)}
	f := newFixture(t, consumertest.NewNop(), creating(e))
	f.start(t)
	id := attribute.String("receiver", "hostprofiles")
	value := func(name string, attrs ...attribute.KeyValue) float64 {
		points := f.points(t, "otelcol_receiver_hostprofiles_"+name)
		v, ok := points[attribute.NewSet(append(attrs, id)...)]
		require.True(t, ok, "%s has no point with %v: %v", name, attrs, points)
		return v
	}
	s := e.stats
	shown := map[string]float64{
		"Taken":           value("samples_taken"),
		"Delivered":       value("samples_delivered"),
		"KernelSkipped":   value("kernel_skipped"),
		"TablesBuilt":     value("unwind_tables"),
		"TableTime":       value("unwind_table_time") * float64(time.Second),
		"SymbolHits":      value("symbol_lookups", attribute.String("result", "hit")),
		"SymbolMisses":    value("symbol_lookups", attribute.String("result", "miss")),
		"SymbolErrors":    value("symbol_errors"),
		"RuntimeErrors":   value("runtime_errors"),
		"SidebandLost":    value("sideband_lost"),
		"WorkerTimeout":   value("worker_timeouts"),
		"WorkerPanics":    value("worker_panics"),
		"WorkerStuck":     value("worker_stuck"),
		"FilesUnclosed":   value("files_unclosed"),
		"DebugErrors":     value("debug_info_errors"),
		"DebuginfodBytes": value("debuginfod_cache_size"),
		"UserWalks":       value("user_walks"),
		"MapBytes":        value("kernel_map_size"),
		"RingBytes":       value("ring_capacity"),
		"RingUsedBytes":   value("ring_used"),
		"HeapBytes":       value("cache_size"),
		"Processes":       value("processes"),
		"Executables":     value("executables"),
		"Evictions":       value("evictions"),
	}
	v := reflect.ValueOf(s)
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		switch f := v.Field(i); f.Kind() {
		case reflect.Uint64:
			require.InDelta(t, float64(f.Uint()), shown[name], 0, name)
		case reflect.Int64:
			require.InDelta(t, float64(f.Int()), shown[name], 0, name)
		}
	}
	for i, n := range s.Lost {
		require.InDelta(t, float64(n), value("samples_lost", attribute.String("reason", engine.LossReason(i).String())), 0)
	}
	for i, n := range s.WorkerRefused {
		require.InDelta(t, float64(n), value("worker_refused", attribute.String("reason", engine.Refusal(i).String())), 0)
	}
	for i, n := range s.Stops {
		require.InDelta(t, float64(n), value("stacks", attribute.String("stop_reason", unwind.StopReason(i).String())), 0)
	}
	for i, n := range s.DebugInfo {
		require.InDelta(t, float64(n), value("debug_info", attribute.String("source", debugfile.Source(i).String())), 0)
	}
	for i, n := range s.Debuginfod {
		require.InDelta(t, float64(n), value("debuginfod_requests", attribute.String("result", engine.FetchResult(i).String())), 0)
	}
	for i, n := range s.TableErrors {
		require.InDelta(t, float64(n), value("unwind_table_errors", attribute.String("reason", engine.TableError(i).String())), 0)
	}
	for kind, n := range s.Frames {
		require.InDelta(t, float64(n), value("frames", attribute.String("frame_type", kind)), 0)
	}
	for e, n := range s.UnwindErrors {
		require.InDelta(t, float64(n), value("unwind_errors", attribute.String("frame_type", e.Runtime), attribute.String("reason", e.Reason), attribute.Int("line", e.Line)), 0)
	}
	f.shutdown(t)
	_, err := f.tel.GetMetric("otelcol_receiver_hostprofiles_samples_taken")
	require.Error(t, err, "nothing is observed after Shutdown")
}

// TestValuesOfAttributes: what the documentation lists as an attribute's values are those that there are.
func TestValuesOfAttributes(t *testing.T) {
	conf, err := confmaptest.LoadConf("metadata.yaml")
	require.NoError(t, err)
	var documented struct {
		Attributes map[string]struct {
			Name string   `mapstructure:"name_override"`
			Enum []string `mapstructure:"enum"`
		} `mapstructure:"attributes"`
		Telemetry struct {
			Metrics map[string]struct {
				Attributes []string `mapstructure:"attributes"`
			} `mapstructure:"metrics"`
		} `mapstructure:"telemetry"`
	}
	require.NoError(t, conf.Unmarshal(&documented, confmap.WithIgnoreUnused()))
	f := newFixture(t, consumertest.NewNop(), creating(&fakeEngine{stats: everyField(t)}))
	f.start(t)
	compared := []string{}
	for metric, m := range documented.Telemetry.Metrics {
		for _, key := range m.Attributes {
			a := documented.Attributes[key]
			if a.Enum == nil {
				continue
			}
			values := []string{}
			for point := range f.points(t, "otelcol_"+metric) {
				v, ok := point.Value(attribute.Key(a.Name))
				require.True(t, ok, "%s has no %s", metric, a.Name)
				values = append(values, v.AsString())
			}
			require.ElementsMatch(t, a.Enum, values, "%s of %s", a.Name, metric)
			compared = append(compared, metric)
		}
	}
	require.Contains(t, compared, "receiver_hostprofiles_debug_info")
	f.shutdown(t)
}

func TestMetricsWithoutAnEngine(t *testing.T) {
	f := newFixture(t, consumertest.NewNop(), creating(&fakeEngine{startErr: errNoBPF}))
	f.start(t)
	require.Zero(t, f.sum(t, "otelcol_receiver_hostprofiles_samples_taken"))
	f.shutdown(t)
}

func TestAcceptedSamplesAreCounted(t *testing.T) {
	e := &fakeEngine{}
	f := newFixture(t, consumertest.NewNop(), creating(e))
	f.start(t)
	require.NoError(t, e.sink(t.Context(), pprofile.NewProfiles(), 7))
	f.shutdown(t)
	require.InDelta(t, 7, f.sum(t, "otelcol_receiver_accepted_profile_samples"), 0)
}
