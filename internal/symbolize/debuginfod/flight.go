package debuginfod

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// flight is the download of one build id, for all who wait for it.
type flight struct {
	done    chan struct{} // closed when file and err are there
	file    *os.File
	err     error
	waiting int
	cancel  context.CancelFunc
}

// join returns the download of a build id, started if there was none.
func (c *Client) join(id string) (*flight, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return nil, context.Cause(c.ctx)
	}
	if fl := c.flights[id]; fl != nil {
		fl.waiting++
		return fl, nil
	}
	c.stats.Misses++
	if err := c.absent.get(id, c.opts.Now()); err != nil {
		c.stats.NegativeHits++
		return nil, err
	}
	ctx, cancel := context.WithCancel(c.ctx)
	fl := &flight{done: make(chan struct{}), waiting: 1, cancel: cancel}
	c.flights[id] = fl
	c.running.Add(1)
	go c.fly(ctx, fl, id)
	return fl, nil
}

// fly runs a download.
func (c *Client) fly(ctx context.Context, fl *flight, id string) {
	defer c.running.Done()
	defer fl.cancel()
	f, err := c.inTurn(ctx, id)
	if nobodys := c.land(fl, id, f, err); nobodys != nil {
		_ = nobodys.Close() // it is only read
	}
}

// land ends a download. It returns the file if nobody waits for it, to be closed without the lock: that may wait for the disk.
func (c *Client) land(fl *flight, id string, f *os.File, err error) (nobodys *os.File) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.flights[id] == fl {
		delete(c.flights, id)
	}
	if fl.waiting == 0 {
		f, nobodys = nil, f
	}
	fl.file, fl.err = f, err
	close(fl.done)
	return nobodys
}

// inTurn waits until a download may begin.
func (c *Client) inTurn(ctx context.Context, id string) (*os.File, error) {
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting to download build id %s: %w", id, context.Cause(ctx))
	}
	if f, err := c.cache.open(id); err == nil {
		return f, nil // another process was faster
	}
	return c.download(ctx, id)
}

// leave returns the result to one of those who waited. Each has a file of its own, the last one the flight's.
func (c *Client) leave(fl *flight, id string) (*os.File, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fl.waiting--
	if fl.err != nil {
		return nil, fl.err
	}
	if fl.waiting == 0 {
		f := fl.file
		fl.file = nil
		return f, nil
	}
	f, err := duplicate(fl.file)
	if err != nil {
		return nil, fmt.Errorf("opening debug information of build id %s: %w", id, err)
	}
	return f, nil
}

// abandon is for those who wait no more. The last one stops the download.
func (c *Client) abandon(fl *flight, id string) {
	if nobodys := c.quit(fl, id); nobodys != nil {
		_ = nobodys.Close() // as in fly
	}
}

func (c *Client) quit(fl *flight, id string) (nobodys *os.File) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if fl.waiting--; fl.waiting > 0 {
		return nil
	}
	fl.cancel()
	if c.flights[id] == fl {
		delete(c.flights, id) // who comes now starts anew
	}
	nobodys, fl.file = fl.file, nil
	return nobodys
}

// duplicate makes another file of an opened one. They share a place to read from, which nobody uses who reads with pread.
func duplicate(f *os.File) (*os.File, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	fd := -1
	if cerr := raw.Control(func(old uintptr) { fd, err = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0) }); cerr != nil {
		err = cerr
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// download asks one server after the other, if there is a place for what they send.
func (c *Client) download(ctx context.Context, id string) (*os.File, error) {
	if err := c.admit(&c.disk); err != nil {
		return nil, fmt.Errorf("debug information of build id %s is %w: %w", id, ErrUnavailable, err)
	}
	var errs []error
	stored := false
	defer func() { c.judgeDisk(stored, errs) }()
	notFound := 0
	for _, s := range c.servers {
		f, err := c.ask(ctx, s, id)
		if err == nil {
			stored = true
			c.mu.Lock()
			c.absent.remove(id)
			c.mu.Unlock()
			return f, nil
		}
		errs = append(errs, err)
		if errors.Is(err, ErrNotFound) {
			notFound++
		}
		if ctx.Err() != nil { // that says nothing about the file
			return nil, fmt.Errorf("downloading build id %s: %w", id, context.Cause(ctx))
		}
	}
	err := errors.Join(errs...)
	c.mu.Lock()
	defer c.mu.Unlock()
	if notFound == len(c.servers) {
		c.stats.NotFound++
		c.absent.add(id, err, c.opts.Now(), c.opts.NotFoundTTL, c.opts.NotFoundTTL)
		return nil, err
	}
	err = fmt.Errorf("debug information of build id %s is %w: %w", id, ErrUnavailable, err)
	ttl := c.opts.RetryAfter
	if lasting(errs) {
		ttl = c.opts.NotFoundTTL
	}
	c.absent.add(id, err, c.opts.Now(), ttl, c.opts.MaxRetryAfter)
	return nil, err
}

// admit tells whether a part that failed may be tried again.
func (c *Client) admit(b *breaker) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := b.admit(c.opts.Now())
	if err != nil {
		c.stats.Failures[skipped]++
	}
	return err
}

// judgeDisk has the cache's disk left alone if it failed: what would be downloaded has no place to go.
func (c *Client) judgeDisk(stored bool, errs []error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.disk.probing = false
	if stored {
		c.disk.worked()
		return
	}
	for _, err := range errs {
		if f := asFailure(err); f != nil && (f.reason == disk || f.reason == noSpace) {
			c.disk.failed(c.opts.Now(), 0, c.opts)
			return
		}
	}
}

// lasting tells failures that asking again soon does not mend.
func lasting(errs []error) bool {
	for _, err := range errs {
		if f := asFailure(err); f != nil && !f.reason.lasting() {
			return false
		}
	}
	return true
}

// ask gets a file from one server, unless that is to be left alone.
func (c *Client) ask(ctx context.Context, s *server, id string) (*os.File, error) {
	if err := c.admit(&s.breaker); err != nil {
		return nil, &failure{reason: skipped, err: err}
	}
	f, err := c.get(ctx, s, id)
	c.mu.Lock()
	defer c.mu.Unlock()
	fail := asFailure(err)
	switch {
	case fail == nil: // it has the file, or says that it has not
		s.worked()
	case ctx.Err() != nil:
		s.probing = false
		c.stats.Failures[abandoned]++
	default:
		c.stats.Failures[fail.reason]++
		if fail.reason.server() {
			s.failed(c.opts.Now(), fail.after, c.opts)
			s.why = errors.Unwrap(fail.err) // without what was asked for
		} else {
			s.worked()
		}
	}
	return f, err
}
