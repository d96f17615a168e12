package receiver

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"github.com/hostprofiles/hostprofiles/internal/engine"
)

// runner is what the receiver needs of an engine.
type runner interface {
	// Start begins to profile. After an error nothing runs and nothing is held.
	Start(ctx context.Context) error
	// Shutdown stops, drains and flushes within the context's deadline. It is safe without Start and when repeated.
	Shutdown(ctx context.Context) error
	// Stats returns a snapshot; it is cheap and safe from any goroutine.
	Stats() engine.Stats
}

// newRunner creates an engine. status is called on every change of health while it runs: nil means recovered.
type newRunner func(cfg engine.Config, logger *zap.Logger, sink engine.Sink, status func(error)) (runner, error)

func newEngine(cfg engine.Config, logger *zap.Logger, sink engine.Sink, status func(error)) (runner, error) {
	e, err := engine.New(cfg, logger, sink, engine.WithStatus(status))
	if err != nil {
		return nil, fmt.Errorf("creating the engine: %w", err)
	}
	return e, nil
}
