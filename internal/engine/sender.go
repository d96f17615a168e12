package engine

import (
	"context"
	"time"

	"github.com/hostprofiles/hostprofiles/internal/profile"
)

// sender hands payloads to the sink, which may block, on a goroutine of its own.
type sender struct {
	in      chan profile.Payload
	out     chan delivery
	ctx     context.Context
	cancel  context.CancelFunc
	ended   chan struct{}
	queued  int // payloads handed over and not yet answered
	pending int // samples in them
}

// delivery is what became of a payload.
type delivery struct {
	samples int
	err     error
}

// newSender makes a sender of which at most room payloads wait for a slow consumer.
func newSender(sink Sink, room int) *sender {
	ctx, cancel := context.WithCancel(context.Background())
	s := &sender{
		in: make(chan profile.Payload, room), out: make(chan delivery, room),
		ctx: ctx, cancel: cancel, ended: make(chan struct{}),
	}
	go s.run(sink)
	return s
}

func (s *sender) run(sink Sink) {
	defer close(s.ended)
	for p := range s.in {
		if err := s.ctx.Err(); err != nil {
			s.out <- delivery{p.Samples, err}
			continue
		}
		s.out <- delivery{p.Samples, sink(s.ctx, p.Profiles, p.Samples)}
	}
}

// hasRoom tells whether send takes a payload: not if the consumer is far behind.
func (s *sender) hasRoom() bool { return s.queued < cap(s.in) }

// send queues a payload; false if there is no room.
func (s *sender) send(p profile.Payload) bool {
	if !s.hasRoom() {
		return false
	}
	s.in <- p
	s.queued++
	s.pending += p.Samples
	return true
}

func (s *sender) done() <-chan delivery { return s.out }

func (s *sender) answered(d delivery) {
	s.queued--
	s.pending -= d.samples
}

func (s *sender) idle() bool { return s.pending == 0 }

// abandon cancels what the sink is doing; it returns the samples that it had not answered for.
func (s *sender) abandon() (samples int) {
	s.cancel()
	samples, s.pending = s.pending, 0
	return samples
}

// close ends the goroutine: nothing is handed to the sink any more. One that ignores its context is left behind.
func (s *sender) close() {
	s.cancel()
	close(s.in)
	select {
	case <-s.ended:
	case <-time.After(time.Second):
	}
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
