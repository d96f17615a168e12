package top

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.uber.org/zap"
)

// topExporter sums up what arrives and prints it at every interval.
type topExporter struct {
	config *Config
	logger *zap.Logger
	out    io.Writer
	style  style
	now    func() time.Time

	cancel context.CancelFunc // nil without Start
	done   chan struct{}      // closed when nothing will be printed any more

	mu     sync.Mutex
	window *window
}

func newTopExporter(cfg *Config, logger *zap.Logger, out io.Writer, st style, now func() time.Time) *topExporter {
	return &topExporter{config: cfg, logger: logger, out: out, style: st, now: now, window: newWindow(now())}
}

func (e *topExporter) start(context.Context, component.Host) error {
	ctx, cancel := context.WithCancel(context.Background())
	e.cancel, e.done = cancel, make(chan struct{})
	go func() {
		defer close(e.done)
		e.printUntil(ctx)
	}()
	return nil
}

// printUntil prints at every interval, and what came since at the end.
func (e *topExporter) printUntil(ctx context.Context) {
	ticker := time.NewTicker(e.config.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			if err := e.print(false); err != nil {
				e.logger.Error("Printing the last table failed", zap.Error(err))
			}
			return
		}
		if err := e.print(true); err != nil {
			e.logger.Error("Printing stops", zap.Error(err))
			return
		}
	}
}

// print writes the window's tables and begins a new window. The lock is not held meanwhile: whoever reads the output may
// be slow, and profiles arrive.
func (e *topExporter) print(whenEmpty bool) error {
	now := e.now()
	e.mu.Lock()
	w := e.window
	e.window = newWindow(now)
	e.mu.Unlock()
	if w.empty() && !whenEmpty {
		return nil
	}
	if _, err := io.WriteString(e.out, render(w, now, e.config.Rows, e.style)); err != nil {
		return fmt.Errorf("writing the table: %w", err)
	}
	return nil
}

func (e *topExporter) consume(_ context.Context, p pprofile.Profiles) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.window.add(p)
	return nil
}

func (e *topExporter) shutdown(ctx context.Context) error {
	if e.cancel == nil {
		return nil
	}
	e.cancel()
	select {
	case <-e.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for the last table to be written: %w", ctx.Err())
	}
}
