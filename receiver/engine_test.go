package receiver

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer/consumertest"
)

// startReal starts a receiver with a real engine. It skips the test only where profiling is not permitted or not
// supported at all.
func startReal(t *testing.T, sink *consumertest.ProfilesSink, interval time.Duration) *fixture {
	f := newFixture(t, sink, newEngine)
	f.receiver.(*profilesReceiver).config.ReportInterval = interval
	f.start(t)
	if len(f.host.statuses()) > 0 {
		err := f.host.events[0].Err()
		f.shutdown(t)
		if errors.Is(err, os.ErrPermission) || errors.Is(err, errors.ErrUnsupported) {
			t.Skipf("not supported: %v", err)
		}
		require.NoError(t, err)
	}
	return f
}

// burn keeps a CPU busy, so that there is something to sample.
func burn(t *testing.T, d time.Duration) {
	n := uint64(1)
	for end := time.Now().Add(d); time.Now().Before(end); {
		for range 1000 {
			n = n*6364136223846793005 + 1442695040888963407
		}
	}
	require.NotZero(t, n)
}

// Each receiver has perf events and maps of its own: several in one collector do not disturb each other, and each
// accounts for every sample it took.
func TestTwoReceiversAtOnce(t *testing.T) {
	sinks := [2]*consumertest.ProfilesSink{{}, {}}
	var fixtures [2]*fixture
	for i := range sinks {
		fixtures[i] = startReal(t, sinks[i], 200*time.Millisecond)
	}
	burn(t, time.Second)
	fixtures[0].shutdown(t)
	before := sinks[1].SampleCount()
	burn(t, 500*time.Millisecond)
	fixtures[1].shutdown(t)
	require.Greater(t, sinks[1].SampleCount(), before, "the second goes on without the first")

	for i, f := range fixtures {
		require.Positive(t, sinks[i].SampleCount())
		s := f.receiver.(*profilesReceiver).stats()
		lost := uint64(0)
		for _, n := range s.Lost {
			lost += n
		}
		require.Positive(t, s.Delivered)
		require.Equal(t, s.Taken, s.Delivered+lost, "receiver %d: %+v", i, s)
	}
}

// Samples that were taken since the last payload are delivered by Shutdown.
func TestShutdownFlushes(t *testing.T) {
	sink := new(consumertest.ProfilesSink)
	f := startReal(t, sink, time.Hour)
	burn(t, 500*time.Millisecond)
	require.Zero(t, sink.SampleCount())
	f.shutdown(t)
	require.Positive(t, sink.SampleCount())
}
