package debuginfod

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"
)

const (
	// minProgress is how much has to come within each Options.ProgressTimeout.
	minProgress = 100 << 10
	// maxWindow is how far back a zstd stream may refer: as far as RFC 8878 asks decoders to allow.
	maxWindow = 8 << 20
	chunk     = 128 << 10
)

var (
	errStalled = errors.New("no progress")
	errTooLong = errors.New("the download takes too long")
)

// get downloads the debug information of a build id from a server into the cache.
func (c *Client) get(ctx context.Context, s *server, id string) (*os.File, error) {
	within, stop := context.WithTimeoutCause(ctx, c.opts.Timeout, errTooLong)
	defer stop()
	within, cancel := context.WithCancelCause(within)
	defer cancel(nil)
	dog := &watchdog{patience: c.opts.ProgressTimeout}
	dog.timer = time.AfterFunc(dog.patience, func() { cancel(errStalled) })
	defer dog.timer.Stop()

	from := s.url.JoinPath("buildid", id, "debuginfo")
	f, err := c.transfer(within, from, id, dog)
	if err == nil {
		return f, nil
	}
	if errors.Is(err, ErrNotFound) {
		return nil, fmt.Errorf("debug information of build id %s: %s: %w", id, from.Redacted(), err)
	}
	why := asFailure(err)
	if within.Err() != nil && ctx.Err() == nil { // whatever broke off, that was why
		cause := context.Cause(within)
		why = &failure{stalled, why.after, fmt.Errorf("%w: %w", cause, err)}
		if errors.Is(cause, errTooLong) {
			why.reason = tooLong
		}
	}
	return nil, &failure{why.reason, why.after, fmt.Errorf("getting %s: %w", from.Redacted(), why)}
}

// transfer asks for a file and stores what comes.
func (c *Client) transfer(ctx context.Context, from *url.URL, id string, dog *watchdog) (*os.File, error) {
	in, err := c.open(ctx, from)
	if err != nil {
		return nil, err
	}
	defer in.body.Close()
	if in.size > c.opts.MaxFile {
		return nil, failed(tooLarge, "it has %d bytes, more than %d", in.size, c.opts.MaxFile)
	}
	raw := &meter{r: in.body, dog: dog}
	defer func() {
		c.mu.Lock()
		c.stats.Bytes += raw.bytes
		c.mu.Unlock()
	}()
	plain, err := decoded(raw, in.encoding)
	if err != nil {
		return nil, raw.blame(err)
	}
	defer plain.Close()
	return c.store(ctx, id, plain, raw, in.size)
}

// incoming is a file that a server is about to send.
type incoming struct {
	body     io.ReadCloser
	size     int64 // when it is decoded; -1 if it is not known
	encoding string
}

func (c *Client) open(ctx context.Context, from *url.URL) (*incoming, error) {
	if from.Scheme == "file" {
		return openLocal(from.Path)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", c.opts.UserAgent)
	req.Header.Set("Accept-Encoding", "gzip, zstd")
	req.Header.Set("X-DEBUGINFOD-MAXSIZE", strconv.FormatInt(c.opts.MaxFile, 10))
	resp, err := c.http.Do(req)
	if err != nil {
		var ue *url.Error // names the URL, which the caller does too
		if errors.As(err, &ue) {
			err = ue.Err
		}
		if errors.Is(err, errRedirect) {
			return nil, failed(redirected, "%w", err)
		}
		return nil, failed(connect, "%w", err)
	}
	in, err := c.answer(resp)
	if err != nil {
		_, _ = io.CopyN(io.Discard, resp.Body, 4<<10) // so that the connection can be used again
		resp.Body.Close()
	}
	return in, err
}

// answer reads what an answer says of the file.
func (c *Client) answer(resp *http.Response) (*incoming, error) {
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return nil, ErrNotFound
	case http.StatusNotAcceptable: // of a server that heeds X-DEBUGINFOD-MAXSIZE
		return nil, failed(tooLarge, "it has more than %d bytes: %s", c.opts.MaxFile, resp.Status)
	default:
		return nil, &failure{status, retryAfter(resp.Header.Get("Retry-After"), c.opts.Now()), fmt.Errorf("%.200s", resp.Status)}
	}
	in := &incoming{body: resp.Body, size: -1, encoding: resp.Header.Get("Content-Encoding")}
	if in.encoding == "" && resp.ContentLength >= 0 {
		in.size = resp.ContentLength
	}
	if text := resp.Header.Get("X-DEBUGINFOD-SIZE"); text != "" {
		size, err := strconv.ParseInt(text, 10, 64)
		if err != nil || size < 0 || in.size >= 0 && size != in.size {
			return nil, failed(truncated, "X-DEBUGINFOD-SIZE is %.40q, Content-Length %d", text, resp.ContentLength)
		}
		in.size = size
	}
	return in, nil
}

// retryAfter reads the header of that name (RFC 9110, section 10.2.3).
func retryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}

// openLocal opens a file of a directory that a server's files were put into.
func openLocal(path string) (*incoming, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, ErrNotFound
	case err != nil:
		return nil, failed(connect, "opening it: %w", err)
	}
	err = unix.SetNonblock(fd, false) // or package os would ask for events of it
	f := os.NewFile(uintptr(fd), path)
	var st fs.FileInfo
	if err == nil {
		st, err = f.Stat()
	}
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("no regular file, but %v", st.Mode())
	}
	if err != nil {
		return nil, failed(connect, "opening it: %w", errors.Join(err, f.Close()))
	}
	return &incoming{body: f, size: st.Size()}, nil
}

// decoded undoes a content encoding.
func decoded(r io.Reader, encoding string) (io.ReadCloser, error) {
	switch encoding {
	case "", "identity":
		return io.NopCloser(r), nil
	case "gzip", "x-gzip":
		return gzip.NewReader(r)
	case "zstd":
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, err
		}
		return z.IOReadCloser(), nil
	}
	return nil, failed(encoded, "content encoding %.40q is not understood", encoding)
}

// watchdog stops a download that makes no progress.
type watchdog struct {
	timer    *time.Timer
	patience time.Duration
	bytes    int // since it was last content
}

func (w *watchdog) progress(n int) {
	if w.bytes += n; w.bytes >= minProgress {
		w.bytes = 0
		w.timer.Reset(w.patience)
	}
}

// meter is what comes from a server.
type meter struct {
	r     io.Reader
	dog   *watchdog
	bytes uint64
	err   error // what ended it, but for its end
}

// Read counts what it reads.
func (m *meter) Read(b []byte) (int, error) {
	n, err := m.r.Read(b)
	m.bytes += uint64(n)
	m.dog.progress(n)
	if err != nil && err != io.EOF {
		m.err = err
	}
	return n, err
}

// blame gives an error of reading what comes, perhaps through a decoder, its reason.
func (m *meter) blame(err error) error {
	var f *failure
	switch {
	case errors.As(err, &f):
		return err
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		return failed(truncated, "it ends after %d bytes: %w", m.bytes, io.ErrUnexpectedEOF)
	case m.err != nil:
		return failed(connect, "after %d bytes: %w", m.bytes, err)
	}
	return failed(encoded, "decoding it, after %d bytes: %w", m.bytes, err)
}

// store writes a file into the cache and opens it if it is the right one.
func (c *Client) store(ctx context.Context, id string, plain io.Reader, raw *meter, size int64) (*os.File, error) {
	t, err := c.cache.create(max(size, 0))
	if err != nil {
		return nil, err
	}
	defer t.discard()
	written := int64(0)
	for buf := make([]byte, chunk); ; {
		if ctx.Err() != nil { // a file of a file system does not notice
			return nil, failed(connect, "after %d bytes: %w", raw.bytes, context.Cause(ctx))
		}
		n, rerr := plain.Read(buf)
		if written += int64(n); written > c.opts.MaxFile {
			return nil, failed(tooLarge, "it has more than %d bytes", c.opts.MaxFile)
		}
		if size >= 0 && written > size {
			return nil, failed(truncated, "it has more than the %d bytes that were announced", size)
		}
		if err := t.write(buf[:n]); err != nil {
			return nil, err
		}
		if rerr == io.EOF {
			break
		}
		if rerr != nil {
			return nil, raw.blame(rerr)
		}
	}
	if size >= 0 && written != size {
		return nil, failed(truncated, "it has %d bytes of the %d that were announced", written, size)
	}
	f, err := t.commit(id, written)
	if err == nil {
		c.mu.Lock()
		c.stats.Downloads++
		c.mu.Unlock()
	}
	return f, err
}
