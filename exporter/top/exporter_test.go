package top

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/exporter/exportertest"
	"go.opentelemetry.io/collector/exporter/xexporter"
	"go.uber.org/zap"

	"github.com/hostprofiles/hostprofiles/exporter/top/internal/metadata"
)

// output collects what is printed.
type output struct {
	mu   sync.Mutex
	text strings.Builder
	err  error
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return 0, o.err
	}
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func testExporter(interval time.Duration, out *output) *topExporter {
	cfg := createDefaultConfig().(*Config)
	cfg.Interval = interval
	return newTopExporter(cfg, zap.NewNop(), out, style{}, time.Now)
}

func TestPrintsEveryInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &output{}
		e := testExporter(5*time.Second, out)
		require.NoError(t, e.start(t.Context(), componenttest.NewNopHost()))
		tables := func() int { return strings.Count(out.String(), "SHARE      CPUS") }
		pass := func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		}
		// A source that always sends just after the interval: each payload gets a table of its own, none is empty.
		pass(5*time.Second + time.Millisecond)
		require.Empty(t, out.String())
		pass(5 * time.Second)
		require.Contains(t, out.String(), "waiting for the first profiles")
		for i := range 3 {
			require.NoError(t, e.consume(t.Context(), typical()))
			require.NoError(t, e.consume(t.Context(), typical()))
			pass(5 * time.Second)
			require.Equal(t, i+1, tables())
		}
		require.Equal(t, 3, strings.Count(out.String(), "492 samples"))
		// A source that has nothing more to say.
		pass(time.Minute)
		require.Contains(t, out.String(), "no profiles in 10.0s")
		require.NoError(t, e.consume(t.Context(), typical()))
		pass(10 * time.Second)
		require.Equal(t, 4, tables())
		require.NoError(t, e.shutdown(t.Context()))
	})
}

func TestShutdownPrintsTheRest(t *testing.T) {
	out := &output{}
	e := testExporter(time.Hour, out)
	require.NoError(t, e.start(t.Context(), componenttest.NewNopHost()))
	require.NoError(t, e.consume(t.Context(), typical()))
	require.NoError(t, e.shutdown(t.Context()))
	require.Contains(t, out.String(), "sha256_block")
	require.NoError(t, e.shutdown(t.Context()), "repeated")
}

func TestShutdownPrintsNothingAboutNothing(t *testing.T) {
	out := &output{}
	e := testExporter(time.Hour, out)
	require.NoError(t, e.start(t.Context(), componenttest.NewNopHost()))
	require.NoError(t, e.shutdown(t.Context()))
	require.Empty(t, out.String())
}

func TestShutdownHonoursItsContext(t *testing.T) {
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	defer writer.Close()
	e := newTopExporter(createDefaultConfig().(*Config), zap.NewNop(), writer, style{}, time.Now)
	fill := make([]byte, 1<<16)
	_, err = writer.Write(fill) // a pipe holds 64 KiB: the table finds no room
	require.NoError(t, err)
	require.NoError(t, e.start(t.Context(), componenttest.NewNopHost()))
	require.NoError(t, e.consume(t.Context(), typical()))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, e.shutdown(ctx), context.DeadlineExceeded)
	require.NoError(t, reader.Close())
	<-e.done
}

func TestFailedWriteEndsPrintingOnly(t *testing.T) {
	out := &output{err: errors.New("closed")}
	e := testExporter(time.Millisecond, out)
	require.NoError(t, e.start(t.Context(), componenttest.NewNopHost()))
	<-e.done
	require.NoError(t, e.consume(t.Context(), typical()))
	require.NoError(t, e.shutdown(t.Context()))
}

func TestLifecycleThroughFactory(t *testing.T) {
	create := func() xexporter.Profiles {
		e, err := NewFactory().(xexporter.Factory).CreateProfiles(t.Context(), exportertest.NewNopSettings(metadata.Type), createDefaultConfig())
		require.NoError(t, err)
		return e
	}
	require.NoError(t, create().Shutdown(t.Context()), "without Start")
	for range 2 {
		e := create()
		require.NoError(t, e.Start(t.Context(), componenttest.NewNopHost()))
		p := typical()
		p.MarkReadOnly()
		require.NoError(t, e.ConsumeProfiles(t.Context(), p))
		require.False(t, e.Capabilities().MutatesData)
		require.NoError(t, e.Shutdown(t.Context()))
	}
}

func TestConfigBounds(t *testing.T) {
	for interval, ok := range map[time.Duration]bool{
		minInterval: true, maxInterval: true, minInterval - 1: false, maxInterval + 1: false,
	} {
		cfg := createDefaultConfig().(*Config)
		cfg.Interval = interval
		err := confmap.Validate(cfg)
		if ok {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, "interval is")
		}
	}
}
