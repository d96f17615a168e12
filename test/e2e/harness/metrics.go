package harness

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// Metrics are the receiver's own metrics: a name with its attributes (without the receiver's id) to the value, as in
// "samples_lost{reason=ring_full}".
type Metrics map[string]float64

// metricPrefix ends the part of a metric's name that is the same for all of the receiver's own.
const metricPrefix = "hostprofiles_"

// Metrics reads the receiver's own metrics.
func (s *Session) Metrics() (Metrics, error) {
	var rm metricdata.ResourceMetrics
	if err := s.telemetry.Reader.Collect(context.Background(), &rm); err != nil {
		return nil, fmt.Errorf("collecting metrics: %w", err)
	}
	m := Metrics{}
	for _, scope := range rm.ScopeMetrics {
		for _, metric := range scope.Metrics {
			m.add(metric)
		}
	}
	return m, nil
}

func (m Metrics) add(metric metricdata.Metrics) {
	name := metric.Name
	if _, rest, ok := strings.Cut(name, metricPrefix); ok {
		name = rest
	}
	switch data := metric.Data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range data.DataPoints {
			m[key(name, p.Attributes)] = float64(p.Value)
		}
	case metricdata.Sum[float64]:
		for _, p := range data.DataPoints {
			m[key(name, p.Attributes)] = p.Value
		}
	case metricdata.Gauge[int64]:
		for _, p := range data.DataPoints {
			m[key(name, p.Attributes)] = float64(p.Value)
		}
	}
}

func key(name string, attrs attribute.Set) string {
	var pairs []string
	for _, kv := range attrs.ToSlice() {
		if kv.Key != "receiver" {
			pairs = append(pairs, string(kv.Key)+"="+kv.Value.String())
		}
	}
	if len(pairs) == 0 {
		return name
	}
	sort.Strings(pairs)
	return name + "{" + strings.Join(pairs, ",") + "}"
}

// Sum adds up a metric over its attributes.
func (m Metrics) Sum(name string) float64 {
	total := 0.0
	for k, v := range m {
		if k == name || strings.HasPrefix(k, name+"{") {
			total += v
		}
	}
	return total
}

func (m Metrics) String() string {
	var lines []string
	for k, v := range m {
		if v != 0 {
			lines = append(lines, fmt.Sprintf("%s = %v", k, v))
		}
	}
	sort.Strings(lines)
	return strings.Join(lines, "\n")
}

// logBuffer keeps the lines of a log; it is a zapcore.WriteSyncer.
type logBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func newLogBuffer() *logBuffer { return &logBuffer{} }

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) Sync() error { return nil }

func (b *logBuffer) lines() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Split(strings.TrimSpace(b.text.String()), "\n")
}
