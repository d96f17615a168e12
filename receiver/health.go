package receiver

import (
	"time"

	"github.com/hostprofiles/hostprofiles/internal/engine"
	"github.com/hostprofiles/hostprofiles/internal/health"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// health tells those who show the profiles how the receiver is.
func (r *profilesReceiver) health() *health.Report {
	r.mu.Lock()
	problem := r.reason
	r.mu.Unlock()
	h := healthReport(r.name, r.stats(), problem, time.Now())
	h.Lacks = r.lacks()
	return h
}

// healthReport leaves out what is 0.
func healthReport(name string, s engine.Stats, problem string, now time.Time) *health.Report {
	h := &health.Report{
		Name: name, Time: now, Taken: s.Taken, Delivered: s.Delivered, KernelSkipped: s.KernelSkipped,
		Lost: map[string]uint64{}, Stops: map[string]uint64{}, Processes: s.Processes, Executables: s.Executables, Problem: problem,
	}
	for reason, n := range s.Lost {
		if n > 0 {
			h.Lost[engine.LossReason(reason).String()] = n
		}
	}
	for reason, n := range s.Stops {
		if n > 0 {
			h.Stops[unwind.StopReason(reason).String()] = n
		}
	}
	return h
}
