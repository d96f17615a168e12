// Package health carries what a receiver knows of its own state beside the profiles that it hands on, for those who show both.
// It travels in the context of the call, so that nothing of it gets into payloads: it reaches exporters of the same collector
// that are called synchronously, and nobody else.
package health

import (
	"context"
	"time"
)

// Report is a receiver's state at a time. Counts are since its start.
type Report struct {
	Name          string // component ID
	Time          time.Time
	Taken         uint64            // samples
	Delivered     uint64            // samples
	Lost          map[string]uint64 // samples by reason
	KernelSkipped uint64            // events that the kernel ran no program for
	Stops         map[string]uint64 // stacks by the reason for which their walk ended
	Processes     uint64            // known
	Executables   uint64            // known
	Problem       string            // what is wrong now, empty if nothing is
	Lacks         []string          // privileges, and in brackets what there is less of without them
}

type key struct{}

// NewContext returns a context that carries r, which must not be changed any more.
func NewContext(ctx context.Context, r *Report) context.Context {
	return context.WithValue(ctx, key{}, r)
}

// FromContext returns the report that ctx carries, nil if there is none.
func FromContext(ctx context.Context) *Report {
	r, _ := ctx.Value(key{}).(*Report)
	return r
}
