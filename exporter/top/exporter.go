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

// settleTime is how long a table that waited for a payload waits for more of them.
const settleTime = 100 * time.Millisecond

// topExporter sums up what arrives and prints it at every interval.
type topExporter struct {
	config *Config
	logger *zap.Logger
	out    io.Writer
	style  style
	now    func() time.Time

	arrived chan struct{}      // holds at most one
	cancel  context.CancelFunc // nil without Start
	done    chan struct{}      // closed when nothing will be printed any more

	mu     sync.Mutex
	window *window
}

func newTopExporter(cfg *Config, logger *zap.Logger, out io.Writer, st style, now func() time.Time) *topExporter {
	return &topExporter{config: cfg, logger: logger, out: out, style: st, now: now, arrived: make(chan struct{}, 1), window: newWindow(now())}
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

// printUntil prints at every interval, and what came since at the end. A window in which nothing arrived waits for the next
// payload: sources send at intervals of their own, just before or just after this one's, and half the tables would be
// empty. Only after two intervals it says that nothing came, or that it waits for the first.
func (e *topExporter) printUntil(ctx context.Context) {
	ticker := time.NewTicker(e.config.Interval)
	defer ticker.Stop()
	waiting := false
	for {
		select {
		case <-ctx.Done():
			if e.empty() {
				return
			}
			if err := e.print(); err != nil {
				e.logger.Error("Printing the last table failed", zap.Error(err))
			}
			return
		case <-ticker.C:
			if e.empty() && !waiting {
				waiting = true
				continue
			}
		case <-e.arrived:
			if !waiting {
				continue
			}
			e.settle(ctx)
			ticker.Reset(e.config.Interval)
		}
		waiting = false
		if err := e.print(); err != nil {
			e.logger.Error("Printing stops", zap.Error(err))
			return
		}
	}
}

// settle waits for the rest of what a source sends in several payloads.
func (e *topExporter) settle(ctx context.Context) {
	select {
	case <-time.After(settleTime):
	case <-ctx.Done():
	}
}

func (e *topExporter) empty() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.window.empty()
}

// print writes the window's tables and begins a new window. The lock is not held meanwhile: whoever reads the output may
// be slow, and profiles arrive.
func (e *topExporter) print() error {
	now := e.now()
	e.mu.Lock()
	w := e.window
	e.window = w.next(now)
	e.mu.Unlock()
	if _, err := io.WriteString(e.out, render(w, now, e.config.Rows, e.style)); err != nil {
		return fmt.Errorf("writing the table: %w", err)
	}
	return nil
}

func (e *topExporter) consume(_ context.Context, p pprofile.Profiles) error {
	e.mu.Lock()
	e.window.add(p)
	e.mu.Unlock()
	select {
	case e.arrived <- struct{}{}:
	default: // it is known already
	}
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
