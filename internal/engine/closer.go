package engine

import (
	"errors"
	"io"
	"sync"
	"time"

	"go.uber.org/zap"
)

const (
	// maxClosers bounds the file systems of which files are being closed at the same time. A close that hangs holds a
	// thread.
	maxClosers = 64
	// closePatience is how long a close may take before its file system counts as hanging.
	closePatience = 3 * time.Second
	// maxUnclosed bounds the files that wait behind a close that hangs: beyond, no more are opened on that file system.
	maxUnclosed = 16
	// closeWait is how long the end of the engine waits for files to be closed.
	closeWait = 500 * time.Millisecond
)

// errUnclosed refuses to open files where none can be closed.
var errUnclosed = errors.New("files of this file system cannot be closed")

// closer closes files of targets, which may hang like everything that touches them: a file system in user space is told of
// each close, and waited for. Of each file system one file is closed at a time, by a goroutine of its own. Files that wait
// stay open, and referred to: the garbage collector would close those that are not, and hang.
type closer struct {
	log      *zap.Logger
	patience time.Duration

	mu      sync.Mutex
	ended   sync.Cond // a goroutine has
	devices map[device]*closing
	running int      // goroutines
	waiting []device // without one, as there are too many
}

// closing is what is to be closed on a file system.
type closing struct {
	queue  []io.Closer
	since  time.Time // of the close that is under way; zero if there is none
	logged bool
}

func newCloser(log *zap.Logger) *closer {
	c := &closer{log: log, patience: closePatience, devices: map[device]*closing{}}
	c.ended.L = &c.mu
	return c
}

// close closes f, a file on d, some time. It does not block.
func (c *closer) close(d device, f io.Closer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.devices[d]; ok {
		known.queue = append(known.queue, f)
		return
	}
	c.devices[d] = &closing{queue: []io.Closer{f}}
	if c.running >= maxClosers {
		c.waiting = append(c.waiting, d)
		return
	}
	c.running++
	go c.run(d)
}

// closeSource closes the file that s has. For s it is closed from now on, however long that takes.
func (c *closer) closeSource(s *source) {
	if f := s.file.Swap(nil); f != nil {
		c.close(s.device, f)
	}
}

// run closes what there is on a file system, then on those that wait.
func (c *closer) run(d device) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		c.empty(d)
		if len(c.waiting) == 0 {
			break
		}
		d = c.waiting[0]
		c.waiting = c.waiting[1:]
	}
	c.running--
	c.ended.Broadcast()
}

func (c *closer) empty(d device) {
	s := c.devices[d]
	for len(s.queue) > 0 {
		f := s.queue[0]
		s.queue[0] = nil
		s.queue = s.queue[1:]
		s.since = time.Now()
		c.mu.Unlock()
		_ = f.Close() // it was only read
		c.mu.Lock()
	}
	if s.logged {
		c.log.Info("files of the file system can be closed again", zap.Stringer("device", d))
	}
	delete(c.devices, d)
}

// hangs tells whether so many files of a file system cannot be closed that none should be opened.
func (c *closer) hangs(d device) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.devices[d]
	return ok && len(s.queue) >= maxUnclosed && (s.hangs(c.patience) || s.since.IsZero() && c.running >= maxClosers)
}

// hangs tells whether a close is under way for too long.
func (s *closing) hangs(patience time.Duration) bool {
	return !s.since.IsZero() && time.Since(s.since) > patience
}

// look counts the files that are to be closed and are not, and logs which file systems hang, each once.
func (c *closer) look() (unclosed uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for d, s := range c.devices {
		unclosed += uint64(len(s.queue))
		if !s.since.IsZero() {
			unclosed++
		}
		if !s.logged && s.hangs(c.patience) {
			s.logged = true
			c.log.Warn("a file of a file system cannot be closed; others of it are kept open until that is done",
				zap.Stringer("device", d), zap.Int("open", len(s.queue)))
		}
	}
	return unclosed
}

// wait waits until all is closed, but no longer than limit, nor for what hangs anyway.
func (c *closer) wait(limit time.Duration) {
	end := time.Now().Add(limit)
	timer := time.AfterFunc(limit, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.ended.Broadcast()
	})
	defer timer.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.busy() && time.Now().Before(end) {
		c.ended.Wait()
	}
}

// busy tells whether something is to be closed that does not hang.
func (c *closer) busy() bool {
	for _, s := range c.devices {
		if !s.hangs(c.patience) {
			return true
		}
	}
	return false
}
