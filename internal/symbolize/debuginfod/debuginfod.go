// Package debuginfod gets debug information from debuginfod servers by build id, and keeps it in a directory on disk.
//
//	Debuginfo(id) -> cache? --yes--> opened file
//	              -> known to be missing? --yes--> error, at once
//	              -> one download for all who ask: server after server -> temporary file -> checked -> renamed
//
// A server may be slow, unreachable, or lie. Each download has a limit of size and of time; a server that fails is left alone
// for a while, longer each time; what is not there is not asked for again for a while; and nothing is used whose own build id
// is not the one that was asked for. All of this is for the background: Debuginfo waits for the network, CachedOnly does not.
//
// The protocol is that of elfutils 0.188: debuginfod(8), section WEBAPI, and debuginfod-client-config(7); that a server answers
// 406 to what is larger than X-DEBUGINFOD-MAXSIZE is of its bug 27982.
package debuginfod

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"
)

var (
	// ErrNotFound: no server has debug information for the build id, as far as is known.
	ErrNotFound = errors.New("no server has it")
	// ErrUnavailable: servers failed, or do not answer for now; it may be there later.
	ErrUnavailable = errors.New("not available for now")
	// ErrNotCached: it is not in the cache, and nobody was asked.
	ErrNotCached = errors.New("not in the cache")
	// ErrCache: the directory of the cache cannot be made or read, so that nothing can be kept.
	ErrCache = errors.New("the cache of debug information cannot be used")
	// ErrClosed: the Client was closed.
	ErrClosed = errors.New("debuginfod client is closed")
)

// Options of a Client. Zero values mean the defaults.
type Options struct {
	URLs []string // of servers, asked in this order; as ParseURLs returns them, http, https or file
	Dir  string   // of the cache; it is made if it is not there

	MaxBytes int64 // in the cache directory, files being downloaded included; 4 GiB
	MaxFile  int64 // bytes of one file; 2 GiB, and never more than MaxBytes

	Concurrency int // downloads at a time; 2

	ConnectTimeout  time.Duration // to connect, and for TLS to agree; 5 s
	ProgressTimeout time.Duration // for the answer to begin, and for each 100 KB of it; 90 s, as elfutils has it
	Timeout         time.Duration // for one download from one server in all; 15 min

	NotFoundTTL   time.Duration // how long it is remembered that nobody has something; 10 min
	RetryAfter    time.Duration // how long a server that failed is left alone, doubled with each failure; 30 s
	MaxRetryAfter time.Duration // the longest that it is left alone; 30 min

	UserAgent string // "hostprofiles"
	// Now is the clock; time.Now.
	Now func() time.Time
}

func (o Options) withDefaults() Options {
	size := func(v *int64, def int64) {
		if *v <= 0 {
			*v = def
		}
	}
	span := func(v *time.Duration, def time.Duration) {
		if *v <= 0 {
			*v = def
		}
	}
	size(&o.MaxBytes, 4<<30)
	size(&o.MaxFile, 2<<30)
	o.MaxFile = min(o.MaxFile, o.MaxBytes)
	if o.Concurrency <= 0 {
		o.Concurrency = 2
	}
	span(&o.ConnectTimeout, 5*time.Second)
	span(&o.ProgressTimeout, 90*time.Second)
	span(&o.Timeout, 15*time.Minute)
	span(&o.NotFoundTTL, 10*time.Minute)
	span(&o.RetryAfter, 30*time.Second)
	span(&o.MaxRetryAfter, 30*time.Minute)
	if o.UserAgent == "" {
		o.UserAgent = "hostprofiles"
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Client gets files of debug information. It may be used by several goroutines, and several processes may share its cache.
type Client struct {
	opts    Options
	servers []*server
	cache   *cache
	disk    breaker // of the cache
	http    *http.Client
	slots   chan struct{} // one for each download at a time

	ctx    context.Context
	cancel context.CancelCauseFunc

	mu      sync.Mutex
	flights map[string]*flight
	absent  *memory
	stats   Stats
	running sync.WaitGroup
}

// New makes a Client. It touches neither network nor disk: the cache's directory is made, and tidied up, when something is
// first wanted of it. An error names the URL that is of no use; it is an error too if there is no URL or no Dir.
func New(o Options) (*Client, error) {
	o = o.withDefaults()
	if len(o.URLs) == 0 {
		return nil, errors.New("no URL of a debuginfod server")
	}
	c := &Client{opts: o, slots: make(chan struct{}, o.Concurrency), flights: map[string]*flight{},
		disk: breaker{name: "the cache in " + o.Dir}}
	for _, raw := range o.URLs {
		u, err := parseURL(raw)
		if err != nil {
			return nil, err
		}
		c.servers = append(c.servers, &server{breaker: breaker{name: u.Redacted()}, url: u})
	}
	var err error
	if c.absent, err = newMemory(); err != nil {
		return nil, err
	}
	if c.cache, err = newCache(o.Dir, o.MaxBytes, o.Now); err != nil {
		return nil, err
	}
	c.http = &http.Client{Transport: transport(o), CheckRedirect: checkRedirect}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	return c, nil
}

func transport(o Options) http.RoundTripper {
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: o.ConnectTimeout}).DialContext,
		TLSHandshakeTimeout:    o.ConnectTimeout,
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           4,
		MaxConnsPerHost:        o.Concurrency,
		IdleConnTimeout:        30 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true, // what is compressed is bounded here
	}
}

// maxRedirects is how many times a server may point elsewhere.
const maxRedirects = 5

var errRedirect = errors.New("redirection refused")

func checkRedirect(next *http.Request, via []*http.Request) error {
	switch from := via[len(via)-1].URL; {
	case len(via) > maxRedirects:
		return fmt.Errorf("%w: more than %d", errRedirect, maxRedirects)
	case next.URL.Scheme != "https" && (next.URL.Scheme != "http" || from.Scheme == "https"):
		return fmt.Errorf("%w: from %s to %s", errRedirect, from.Scheme, next.URL.Scheme)
	}
	return nil
}

// ParseURLs splits the value of the environment variable DEBUGINFOD_URLS: URLs with spaces between them, and words that say
// how signatures are to be checked ("ima:enforcing"), which are left out. Whether the variable counts is the caller's to
// decide.
func ParseURLs(variable string) (urls []string, err error) {
	for _, word := range strings.Fields(variable) {
		if strings.HasPrefix(word, "ima:") {
			continue
		}
		if _, err := parseURL(word); err != nil {
			return nil, err
		}
		urls = append(urls, word)
	}
	return urls, nil
}

// CheckURLs tells which of several URLs cannot be those of servers.
func CheckURLs(urls []string) error {
	var errs []error
	for _, raw := range urls {
		if _, err := parseURL(raw); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func parseURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil {
		// The error has the URL, which may have a password.
		return nil, fmt.Errorf("reading the URL of a debuginfod server: %w", errors.Unwrap(err))
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "file":
		return nil, fmt.Errorf("URL %q of a debuginfod server: scheme %q is not http, https or file", u.Redacted(), u.Scheme)
	case u.Scheme == "file" && (u.Host != "" && u.Host != "localhost" || !strings.HasPrefix(u.Path, "/")):
		return nil, fmt.Errorf("URL %q of a debuginfod server: no absolute path", u.Redacted())
	case u.Scheme != "file" && u.Hostname() == "":
		return nil, fmt.Errorf("URL %q of a debuginfod server: no host", u.Redacted())
	case u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("URL %q of a debuginfod server: it has a query or a fragment", u.Redacted())
	}
	return u, nil
}

// Debuginfo returns the debug information for the file with a build id, in lower-case hex: from the cache, or downloaded. The
// file is opened for reading and the caller's to close; its name is for users. It is removed from the cache whenever room is
// needed, which does not matter to whoever has it open. The error names the build id and the servers.
func (c *Client) Debuginfo(ctx context.Context, buildID string) (*os.File, error) {
	if f, err := c.cached(buildID); err == nil || !errors.Is(err, ErrNotCached) {
		return f, err
	}
	fl, err := c.join(buildID)
	if err != nil {
		return nil, err
	}
	select {
	case <-fl.done:
		return c.leave(fl, buildID)
	case <-ctx.Done():
		c.abandon(fl, buildID)
		return nil, fmt.Errorf("waiting for debug information of build id %s: %w", buildID, context.Cause(ctx))
	}
}

// CachedOnly is the part of a Client that does not wait for anything but the disk.
type CachedOnly struct{ c *Client }

// CachedOnly returns the part that looks into the cache only.
func (c *Client) CachedOnly() CachedOnly { return CachedOnly{c} }

// Debuginfo returns the debug information for a build id if it is in the cache; else the error is an ErrNotCached.
func (o CachedOnly) Debuginfo(_ context.Context, buildID string) (*os.File, error) {
	return o.c.cached(buildID)
}

func (c *Client) cached(buildID string) (*os.File, error) {
	if err := validID(buildID); err != nil {
		return nil, err
	}
	f, err := c.cache.open(buildID)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.stats.Hits++
		return f, nil
	}
	if !errors.Is(err, ErrNotCached) {
		c.stats.Failures[disk]++
	}
	return nil, err
}

// validID keeps what is no build id out of paths and URLs. Ids shorter than 8 bytes, which is what lld's "fast" has, were
// made by hand, and all zeros were left to be filled in: such an id is of more than one file.
func validID(id string) error {
	if len(id) < 16 || len(id) > 128 || len(id)%2 != 0 || strings.Trim(id, "0123456789abcdef") != "" || strings.Trim(id, "0") == "" {
		return fmt.Errorf("%w: %q is no build id", ErrNotFound, id[:min(len(id), 128)])
	}
	return nil
}

// Close stops all downloads and waits until they have ended, or ctx is done: a file system that hangs cannot be stopped.
// Files that were returned stay open.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	c.cancel(ErrClosed)
	c.mu.Unlock()
	defer c.http.CloseIdleConnections()
	ended := make(chan struct{})
	go func() {
		c.running.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for downloads to end: %w", context.Cause(ctx))
	}
}
