package debuginfod

import (
	"errors"
	"fmt"
	"time"
)

// Reason is why a server was asked in vain.
type Reason uint8

// The reasons.
const (
	connect    Reason = iota // no connection, or it broke off
	status                   // an answer that is neither the file nor "not found"
	stalled                  // nothing came for too long
	tooLong                  // the whole of it took too long
	redirected               // redirections without end, or to where none may lead
	encoded                  // in a way that is not understood, or is damaged
	tooLarge                 // larger than a file may be
	truncated                // shorter than it should be
	wrongID                  // the file of another build id, or no such file
	noSpace                  // there is no room in the cache
	disk                     // the cache cannot be written
	skipped                  // the server is left alone since it failed
	abandoned                // nobody wanted it any more

	Reasons // how many there are
)

var reasons = [Reasons]struct {
	name string
	// server: the server is at fault, and is left alone for a while.
	// lasting: the same will come of it next time.
	server, lasting bool
}{
	connect: {"connect", true, false}, status: {"status", true, false}, stalled: {"stalled", true, false},
	tooLong: {"timeout", true, false}, redirected: {"redirect", true, false}, encoded: {"encoding", false, true},
	tooLarge: {"too_large", false, true}, truncated: {"truncated", false, false}, wrongID: {"wrong_build_id", false, true},
	noSpace: {"no_space", false, false}, disk: {"disk", false, false}, skipped: {"server_down", false, false},
	abandoned: {"abandoned", false, false},
}

// String returns the reason in one word.
func (r Reason) String() string {
	if r < Reasons {
		return reasons[r].name
	}
	return "unknown"
}

func (r Reason) server() bool  { return reasons[r].server }
func (r Reason) lasting() bool { return reasons[r].lasting }

// Stats count what a Client did.
type Stats struct {
	Hits         uint64 // found in the cache
	Misses       uint64 // not there: someone had to be asked
	NegativeHits uint64 // of these, nobody was asked since it was known to be in vain
	NotFound     uint64 // no server had it
	Downloads    uint64 // files that came into the cache
	Bytes        uint64 // received, also in vain
	Failures     [Reasons]uint64

	Evictions uint64 // files removed from the cache to make room
	Corrupt   uint64 // files in the cache that were not what they were called, and are removed
	Stale     uint64 // temporary files that somebody left, and are removed

	CacheBytes int64 // in the cache when it was last looked at; 0 before the first time
	CacheFiles int
}

// Stats returns the counters. It waits for nothing.
func (c *Client) Stats() Stats {
	c.mu.Lock()
	s := c.stats
	c.mu.Unlock()
	s.Evictions, s.Corrupt, s.Stale = c.cache.evictions.Load(), c.cache.corrupt.Load(), c.cache.lost.Load()
	s.CacheBytes, s.CacheFiles = c.cache.bytes.Load(), int(c.cache.files.Load())
	return s
}

// failure is an error with its reason.
type failure struct {
	reason Reason
	after  time.Duration // how long the server wants to be left alone; 0 if it did not say
	err    error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func failed(r Reason, format string, args ...any) error {
	return &failure{reason: r, err: fmt.Errorf(format, args...)}
}

// asFailure returns why a server was asked in vain; nil if it had the file, or said that it has not.
func asFailure(err error) *failure {
	if err == nil || errors.Is(err, ErrNotFound) {
		return nil
	}
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	return &failure{reason: connect, err: err}
}
