package engine

import (
	"context"

	"github.com/hostprofiles/hostprofiles/internal/profile"
)

// queuedPayloads is how many payloads wait for a slow consumer before samples are refused.
const queuedPayloads = 64

// sender hands payloads to the sink, which may block, on a goroutine of its own.
type sender struct {
	in      chan profile.Payload
	out     chan delivery
	cancel  context.CancelFunc
	ended   chan struct{}
	pending int // samples handed over and not yet answered
}

// delivery is what became of a payload.
type delivery struct {
	samples int
	err     error
}

func newSender(sink Sink) *sender {
	ctx, cancel := context.WithCancel(context.Background())
	s := &sender{
		in: make(chan profile.Payload, queuedPayloads), out: make(chan delivery, queuedPayloads+1),
		cancel: cancel, ended: make(chan struct{}),
	}
	go func() {
		defer close(s.ended)
		for p := range s.in {
			s.out <- delivery{p.Samples, sink(ctx, p.Profiles, p.Samples)}
		}
	}()
	return s
}

// send queues a payload; false if the consumer is that far behind.
func (s *sender) send(p profile.Payload) bool {
	if len(s.in)+len(s.out) >= queuedPayloads {
		return false
	}
	s.in <- p
	s.pending += p.Samples
	return true
}

func (s *sender) done() <-chan delivery { return s.out }

func (s *sender) answered(d delivery) { s.pending -= d.samples }

func (s *sender) idle() bool { return s.pending == 0 }

// abandon cancels what the sink is doing; it returns the samples that it had not answered for.
func (s *sender) abandon() (samples int) {
	s.cancel()
	samples, s.pending = s.pending, 0
	return samples
}

// close ends the goroutine; a sink that ignores its context is left behind.
func (s *sender) close() {
	s.cancel()
	close(s.in)
}

// delivered accounts for a payload that the sink has answered.
func (e *Engine) delivered(d delivery) {
	e.out.answered(d)
	if d.err != nil {
		e.count.Lost[LostRefused] += uint64(d.samples)
	} else {
		e.count.Delivered += uint64(d.samples)
	}
}
