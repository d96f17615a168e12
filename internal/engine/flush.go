package engine

import (
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/hostprofiles/hostprofiles/internal/profile"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// symbolPatience is how long a report waits for symbols that are being looked up, and for who its processes are.
const symbolPatience = 5 * time.Second

// untilReported is how long what is gone may be needed: reports may be about it that are still to come.
func (e *Engine) untilReported() time.Duration { return 2*e.cfg.ReportInterval + 2*symbolPatience }

// report is an interval's samples on their way out, waiting for symbols and identities.
type report struct {
	builder  *profile.Builder
	from, to time.Time
	asked    question // the last that it waits for
	names    int      // bytes of names that nothing else refers to

	unidentified []*processState // of which it was being found out who they are
}

// waits tells whether something is still being found out that the report is about.
func (r *report) waits(q *questions) bool {
	return !q.answered(r.asked) || slices.ContainsFunc(r.unidentified, func(st *processState) bool { return st.identifying > 0 })
}

// unidentified lists the processes of which it is being found out who they are.
func (e *Engine) unidentified() (out []*processState) {
	for _, st := range e.states {
		if st.identifying > 0 {
			out = append(out, st)
		}
	}
	return out
}

// beginFlush closes the current interval.
func (e *Engine) beginFlush(now time.Time) {
	if e.builder.Samples() == 0 {
		e.began, e.said.replaced = now, 0
		return
	}
	e.startJITJobs(now, true)
	e.reports = append(e.reports, report{
		builder: e.builder, from: e.began, to: now, asked: e.symbols.reported(), names: e.said.replaced, unidentified: e.unidentified(),
	})
	e.said.replaced = 0
	e.builder, e.began = e.newBuilder(), now
	e.startSymbolJobs()
	e.flushReady(now)
}

// flushReady sends the reports whose symbols are there, or that have waited long enough.
func (e *Engine) flushReady(now time.Time) {
	for len(e.reports) > 0 {
		r := e.reports[0]
		if r.waits(&e.symbols.questions) && now.Sub(r.to) < symbolPatience {
			return
		}
		e.reports = e.reports[1:]
		e.flush(r)
	}
}

// flushAll makes payloads of all there is; they are sent as the consumer takes them, as long as wait says so.
func (e *Engine) flushAll(now time.Time, wait func(done func() bool)) {
	e.beginFlush(now)
	for _, r := range e.reports {
		for _, p := range e.payloads(r) {
			wait(func() bool { return e.out.hasRoom() && (e.out.queued == 0 || !e.overspent(p)) })
			e.send(p)
		}
	}
	e.reports = nil
}

func (e *Engine) flush(r report) {
	for _, p := range e.payloads(r) {
		e.send(p)
	}
}

func (e *Engine) send(p profile.Payload) {
	if e.out.queued > 0 && e.overspent(p) {
		e.count.Lost[LostMemory] += uint64(p.Samples)
		e.log.Warn("the memory budget is spent and the next consumer too slow: samples dropped", zap.Int("samples", p.Samples))
		return
	}
	if !e.out.send(p) {
		e.count.Lost[LostQueueFull] += uint64(p.Samples)
		e.log.Warn("the next consumer is too slow: samples dropped", zap.Int("samples", p.Samples))
	}
}

// payloads ends a report.
func (e *Engine) payloads(r report) []profile.Payload {
	for _, st := range e.states {
		st.fallBack()
	}
	payloads, lost := r.builder.Flush(e.resolve, r.from, r.to)
	e.count.Lost[LostTooLarge] += uint64(lost)
	e.spare = r.builder
	return payloads
}

// resolve finds the lines of a location.
func (e *Engine) resolve(dst []unwind.Line, l *profile.Location) []unwind.Line {
	if l.Type == profile.FrameKernel {
		return e.kernelLines(dst, l)
	}
	if !e.cfg.Symbolize || l.Mapping == nil {
		return dst
	}
	if c, ok := e.jit.byMapping[l.Mapping]; ok {
		return c.resolve(dst, l)
	}
	return e.symbols.resolve(dst, l)
}
