package debuginfod

import (
	"fmt"
	"net/url"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// maxAbsent is how many build ids are remembered as missing.
const maxAbsent = 4096

// memory knows which build ids not to ask for, and why.
type memory struct {
	lru *simplelru.LRU[string, absence]
}

type absence struct {
	err   error
	until time.Time
	times int // in a row
}

func newMemory() (*memory, error) {
	lru, err := simplelru.NewLRU[string, absence](maxAbsent, nil)
	if err != nil {
		return nil, fmt.Errorf("making the memory of what is missing: %w", err)
	}
	return &memory{lru}, nil
}

// get returns why there is no use in asking for a build id now; nil if there is.
func (m *memory) get(id string, now time.Time) error {
	if a, ok := m.lru.Get(id); ok && now.Before(a.until) {
		return fmt.Errorf("%w (known for the next %v)", a.err, a.until.Sub(now).Round(time.Second))
	}
	return nil
}

// add remembers a build id for ttl, twice as long each time, but not longer than longest.
func (m *memory) add(id string, err error, now time.Time, ttl, longest time.Duration) {
	last, _ := m.lru.Peek(id)
	m.lru.Add(id, absence{err, now.Add(doubled(ttl, last.times, longest)), last.times + 1})
}

func (m *memory) remove(id string) { m.lru.Remove(id) }

// doubled is a time doubled so many times, but not beyond longest; it may be longer from the start.
func doubled(d time.Duration, times int, longest time.Duration) time.Duration {
	for range min(times, 30) {
		if d >= longest {
			break
		}
		d = min(2*d, longest)
	}
	return d
}

// server is one of those that are asked.
type server struct {
	breaker
	url *url.URL
	why error // it failed last
}

// Server says how one of the servers did.
type Server struct {
	URL string // without user and password
	Err error  // why it failed; nil if it answered last, or has not been asked
}

// Servers returns all, in the order in which they are asked. It waits for nothing.
func (c *Client) Servers() []Server {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]Server, 0, len(c.servers))
	for _, s := range c.servers {
		u := *s.url
		u.User = nil
		state := Server{URL: u.String()}
		if s.failures > 0 {
			state.Err = s.why
		}
		all = append(all, state)
	}
	return all
}

// breaker knows how a part did, and leaves it alone if it failed.
type breaker struct {
	name     string
	failures int       // in a row
	until    time.Time // it is left alone
	probing  bool      // one request finds out whether it is back
}

// admit tells whether the part may be tried. After a failure that is done by one request at a time until one succeeds.
func (b *breaker) admit(now time.Time) error {
	switch {
	case now.Before(b.until):
		return fmt.Errorf("%s has failed %d times, and is left alone for another %v", b.name, b.failures, b.until.Sub(now).Round(time.Second))
	case b.probing:
		return fmt.Errorf("%s has failed %d times, and is being tried", b.name, b.failures)
	}
	b.probing = b.failures > 0
	return nil
}

func (b *breaker) worked() { b.failures, b.until, b.probing = 0, time.Time{}, false }

// failed has the part left alone, for as long as it asked for, or twice as long as after the failure before.
func (b *breaker) failed(now time.Time, asked time.Duration, o Options) {
	wait := max(doubled(o.RetryAfter, b.failures, o.MaxRetryAfter), min(asked, o.MaxRetryAfter))
	b.failures++
	b.until, b.probing = now.Add(wait), false
}
