package engine

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hostprofiles/hostprofiles/internal/profile"
)

const (
	// A payload that was refused, but not for good, is offered again: first soon, then every few seconds, and given up after
	// a minute, so that younger ones have a chance.
	firstRetry = 100 * time.Millisecond
	lastRetry  = 5 * time.Second
	retryFor   = time.Minute
	// hurryFor is what is left of that once the engine shuts down.
	hurryFor = 2 * time.Second
)

// sender hands payloads to the sink, which may block, on a goroutine of its own.
type sender struct {
	refusal atomic.Pointer[error] // why the payload in hand is refused; nil if none is
	hurry   chan struct{}         // closed at the beginning of Shutdown
	end     atomic.Int64          // then, when to give up, Unix time in ns
	in      chan profile.Payload
	out     chan delivery
	ctx     context.Context
	cancel  context.CancelFunc
	ended   chan struct{}
	queued  int // payloads handed over and not yet answered
	pending int // samples in them
	bytes   int // marshalled
}

// delivery is what became of a payload.
type delivery struct {
	samples int
	bytes   int // marshalled
	err     error
}

// newSender makes a sender of which at most room payloads wait for a slow consumer.
func newSender(sink Sink, room int) *sender {
	ctx, cancel := context.WithCancel(context.Background())
	s := &sender{
		in: make(chan profile.Payload, room), out: make(chan delivery, room),
		ctx: ctx, cancel: cancel, ended: make(chan struct{}), hurry: make(chan struct{}),
	}
	go s.run(sink)
	return s
}

func (s *sender) run(sink Sink) {
	defer close(s.ended)
	for p := range s.in {
		if err := s.ctx.Err(); err != nil {
			s.out <- delivery{p.Samples, p.Bytes, err}
			continue
		}
		s.out <- delivery{p.Samples, p.Bytes, s.offer(sink, p)}
		s.refusal.Store(nil)
	}
}

// offer hands a payload to the sink until it is taken, refused for good, or has been refused for too long.
func (s *sender) offer(sink Sink, p profile.Payload) error {
	began, hurry := time.Now(), s.hurry
	giveUp := began.Add(retryFor)
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		err := sink(s.ctx, p.Profiles, p.Samples)
		if err == nil || errors.Is(err, ErrPermanent) || s.ctx.Err() != nil || time.Now().After(giveUp) {
			return err
		}
		s.refusal.Store(&err)
		select {
		case <-time.After(wait):
		case <-hurry:
			hurry, wait = nil, 0 // once more now, then at short intervals again
			giveUp = time.Unix(0, s.end.Load())
		case <-s.ctx.Done():
			return err
		}
		wait = max(wait, firstRetry/2)
	}
}

// hurryUp makes what is refused be given up soon.
func (s *sender) hurryUp() {
	s.end.Store(time.Now().Add(hurryFor).UnixNano())
	close(s.hurry)
}

// trouble tells why the payload in hand is refused; nil if it isn't.
func (s *sender) trouble() error {
	if err := s.refusal.Load(); err != nil {
		return fmt.Errorf("handing on profiles: %w", *err)
	}
	return nil
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
	s.bytes += p.Bytes
	return true
}

func (s *sender) done() <-chan delivery { return s.out }

func (s *sender) answered(d delivery) {
	s.queued--
	s.pending -= d.samples
	s.bytes -= d.bytes
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
