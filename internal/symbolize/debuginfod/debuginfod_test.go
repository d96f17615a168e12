package debuginfod

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/hostprofiles/hostprofiles/internal/symbolize/debugfile"
)

var (
	_ debugfile.Fetcher = (*Client)(nil)
	_ debugfile.Fetcher = CachedOnly{}
)

func TestDownload(t *testing.T) {
	s := newServer(t)
	id, body := s.put(t, 1, 5000)
	c := client(t, Options{UserAgent: "tests", MaxFile: 12345}, s)
	s.answers(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("User-Agent") != "tests" || r.Header.Get("X-DEBUGINFOD-MAXSIZE") != "12345" ||
			r.URL.Path != "/buildid/"+id+"/debuginfo" || r.Method != http.MethodGet {
			t.Errorf("%s %s %v", r.Method, r.URL, r.Header)
		}
		_, _ = w.Write(body) // the client may have gone
	})
	if f, err := c.CachedOnly().Debuginfo(t.Context(), id); !errors.Is(err, ErrNotCached) {
		t.Errorf("%v, %v", f, err)
	}
	for range 3 {
		wantContent(t, c, id, body)
	}
	got := c.Stats()
	if n := s.requests.Load(); n != 1 || got.Hits != 2 || got.Misses != 1 || got.Downloads != 1 || got.Bytes != uint64(len(body)) {
		t.Errorf("%d requests, %+v", n, got)
	}
	// It survives a restart, and the server.
	s.Close()
	again := client(t, Options{Dir: c.opts.Dir}, s)
	wantContent(t, again, id, body)
	f, err := again.CachedOnly().Debuginfo(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if f.Name() != filepath.Join(c.opts.Dir, id+".debug") {
		t.Error(f.Name())
	}
	f.Close()
	if got := again.Stats(); got.Hits != 2 || got.CacheFiles != 1 || got.CacheBytes != int64(len(body)) {
		t.Errorf("%+v", got)
	}
}

func TestEncodings(t *testing.T) {
	s := newServer(t)
	for n, encoding := range []string{"gzip", "x-gzip", "zstd", "identity", "br", "gzip, zstd"} {
		id, body := s.put(t, n, 300<<10)
		var b bytes.Buffer
		switch encoding {
		case "gzip", "x-gzip":
			w := gzip.NewWriter(&b)
			_, _ = w.Write(body) // in memory
			w.Close()
		case "zstd":
			w, err := zstd.NewWriter(&b)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = w.Write(body) // in memory
			w.Close()
		default:
			b.Write(body)
		}
		send := func(b []byte) {
			s.answers(func(w http.ResponseWriter, r *http.Request) {
				if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
					t.Errorf("%v", r.Header)
				}
				w.Header().Set("Content-Encoding", encoding)
				w.Header().Set("X-DEBUGINFOD-SIZE", fmt.Sprint(len(body)))
				_, _ = w.Write(b) // the client may have gone
			})
		}
		send(b.Bytes())
		if encoding == "br" || strings.Contains(encoding, ",") {
			refused(t, client(t, Options{}, s), id, encoded)
			continue
		}
		wantContent(t, client(t, Options{}, s), id, body)
		send(b.Bytes()[:b.Len()-1000])
		refused(t, client(t, Options{}, s), id, truncated)
		if encoding == "identity" {
			continue
		}
		send(b.Bytes())
		refused(t, client(t, Options{MaxFile: 100 << 10}, s), id, tooLarge)
		damaged := bytes.Clone(b.Bytes())
		damaged[len(damaged)/2] ^= 0xff
		send(damaged)
		refused(t, client(t, Options{}, s), id, encoded)
	}
}

// refused asks in vain, for a reason, and checks that nothing of it stays.
func refused(t *testing.T, c *Client, id string, want Reason) {
	t.Helper()
	f, err := c.Debuginfo(context.Background(), id)
	if f != nil || !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrNotFound) {
		t.Errorf("%v: %v, %v", want, f, err)
		return
	}
	if !strings.Contains(err.Error(), id) || !strings.Contains(err.Error(), c.servers[0].name) {
		t.Errorf("%v names neither build id nor URL", err)
	}
	got := c.Stats()
	if got.Failures[want] == 0 || got.Downloads != 0 {
		t.Errorf("%v: %+v (%v)", want, got, err)
	}
	if _, err := c.CachedOnly().Debuginfo(t.Context(), id); !errors.Is(err, ErrNotCached) {
		t.Errorf("%v: it is in the cache: %v", want, err)
	}
}

// TestLies has servers that send what they should not.
func TestLies(t *testing.T) {
	id, other := testID(1), testFile(t, testID(2), 100)
	body := testFile(t, id, 200<<10)
	send := func(b []byte, size string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if size != "" {
				w.Header().Set("X-DEBUGINFOD-SIZE", size)
			}
			w.(http.Flusher).Flush() // no Content-Length
			_, _ = w.Write(b)        // the client may have gone
		}
	}
	missing := slices.Clone(body) // the sections say that there is more
	missing = missing[:len(missing)-300]
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   Reason
	}{
		"another file":          {send(other, ""), wrongID},
		"no build id":           {send(bytes.Replace(body, []byte("GNU\x00"), []byte("ABC\x00"), 1), ""), wrongID},
		"no ELF file":           {send([]byte("<html>please log in</html>"), ""), wrongID},
		"nothing":               {send(nil, ""), wrongID},
		"more than announced":   {send(body, "1000"), truncated},
		"less than announced":   {send(body, fmt.Sprint(len(body)+1)), truncated},
		"no number":             {send(body, "large"), truncated},
		"negative":              {send(body, "-1"), truncated},
		"cut, and nothing said": {send(missing, ""), wrongID},
		"too large, announced":  {send(nil, "99999999"), tooLarge},
		"too large":             {send(append(slices.Clone(body), make([]byte, 1<<20)...), ""), tooLarge},
		"connection cut": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(len(body)))
			_, _ = w.Write(body[:1000]) // the client may have gone
		}, truncated},
		"chunks cut": {func(w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush()
			_, _ = w.Write(body[:1000]) // the client may have gone
			panic(http.ErrAbortHandler)
		}, truncated},
		"contradiction": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(len(body)))
			w.Header().Set("X-DEBUGINFOD-SIZE", "17")
			_, _ = w.Write(body) // the client may have gone
		}, truncated},
		"not acceptable": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotAcceptable) }, tooLarge},
		"server error":   {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, status},
		"forbidden":      {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }, status},
		"part of it":     {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusPartialContent) }, status},
		"redirections":   {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) }, redirected},
		"redirection to a file": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
		}, redirected},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.answers(c.answer)
			client := client(t, Options{MaxFile: 1 << 20}, s)
			refused(t, client, id, c.want)
			before := s.requests.Load()
			if _, err := client.Debuginfo(t.Context(), id); !errors.Is(err, ErrUnavailable) || s.requests.Load() != before {
				t.Errorf("asked again at once: %v", err)
			}
			if got := client.Stats(); got.NegativeHits != 1 {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestRedirect follows redirections to where they lead.
func TestRedirect(t *testing.T) {
	s, other := newServer(t), newServer(t)
	id, body := other.put(t, 1, 100)
	s.answers(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL+r.URL.Path, http.StatusFound)
	})
	wantContent(t, client(t, Options{}, s), id, body)

	from, err := http.NewRequest(http.MethodGet, "https://a.example/x", nil)
	if err != nil {
		t.Fatal(err)
	}
	for to, ok := range map[string]bool{"https://b.example/x": true, "http://b.example/x": false, "ftp://b.example/x": false} {
		next, err := http.NewRequest(http.MethodGet, to, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := checkRedirect(next, []*http.Request{from}); (err == nil) != ok {
			t.Errorf("%s: %v", to, err)
		}
	}
}

// TestServersInTurn has what the first servers have not, or do not give.
func TestServersInTurn(t *testing.T) {
	down, empty, broken, last := newServer(t), newServer(t), newServer(t), newServer(t)
	down.Close()
	broken.answers(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	id, body := last.put(t, 1, 100)
	c := client(t, Options{}, down, empty, broken, last)
	wantContent(t, c, id, body)
	got := c.Stats()
	if got.Failures[connect] != 1 || got.Failures[status] != 1 || empty.requests.Load() != 1 || got.Downloads != 1 {
		t.Errorf("%+v", got)
	}
	// One that is nowhere is not known to be missing while servers are down.
	if _, err := c.Debuginfo(t.Context(), testID(2)); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), down.URL) ||
		!strings.Contains(err.Error(), "no server has it") {
		t.Error(err)
	}
	if got := c.Stats(); got.Failures[skipped] != 2 || broken.requests.Load() != 1 {
		t.Errorf("%+v, %d requests", got, broken.requests.Load())
	}
}

func TestNotFound(t *testing.T) {
	s, clock := newServer(t), newClock()
	c := client(t, Options{Now: clock.Now}, s)
	id := testID(1)
	for range 5 {
		if _, err := c.Debuginfo(t.Context(), id); !errors.Is(err, ErrNotFound) || errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), s.URL+"/buildid/"+id) {
			t.Error(err)
		}
	}
	clock.add(9 * time.Minute)
	if _, err := c.Debuginfo(t.Context(), id); !errors.Is(err, ErrNotFound) || s.requests.Load() != 1 {
		t.Errorf("%v, %d requests", err, s.requests.Load())
	}
	if got := c.Stats(); got.NotFound != 1 || got.NegativeHits != 5 || got.Misses != 6 || got.Failures != [Reasons]uint64{} {
		t.Errorf("%+v", got)
	}
	id, body := s.put(t, 1, 100)
	clock.add(2 * time.Minute)
	wantContent(t, c, id, body)

	for _, id := range []string{"", "abcd", strings.Repeat("0", 40), "../../../../etc/passwd", strings.Repeat("A", 40),
		strings.Repeat("a", 41), strings.Repeat("a", 130)} {
		before := s.requests.Load()
		if _, err := c.Debuginfo(t.Context(), id); !errors.Is(err, ErrNotFound) || s.requests.Load() != before {
			t.Errorf("%q: %v", id, err)
		}
	}
}

// TestServerDown asks an unreachable server for many files: it is tried a few times in an hour.
func TestServerDown(t *testing.T) {
	s, clock := newServer(t), newClock()
	broken := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }
	s.answers(broken)
	c := client(t, Options{Now: clock.Now}, s)
	var at []int
	for second := range 3600 {
		before := s.requests.Load()
		if _, err := c.Debuginfo(t.Context(), testID(second)); !errors.Is(err, ErrUnavailable) {
			t.Fatal(err)
		}
		if s.requests.Load() > before {
			at = append(at, second)
		}
		clock.add(time.Second)
	}
	if want := []int{0, 30, 90, 210, 450, 930, 1890}; !slices.Equal(at, want) {
		t.Errorf("asked after %d s, not %d", at, want)
	}
	id, body := s.put(t, 1, 100)
	s.answers(nil)
	clock.add(time.Hour)
	wantContent(t, c, id, body)
	if c.servers[0].failures != 0 {
		t.Error("it is still taken to be down")
	}
	// What it asks for is heeded.
	s.answers(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "300")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	if _, err := c.Debuginfo(t.Context(), testID(10001)); !errors.Is(err, ErrUnavailable) {
		t.Error(err)
	}
	before := s.requests.Load()
	for n, wait := range []time.Duration{299 * time.Second, 2 * time.Second} {
		clock.add(wait)
		if _, err := c.Debuginfo(t.Context(), testID(10002+n)); !errors.Is(err, ErrUnavailable) || s.requests.Load() != before+int64(n) {
			t.Errorf("%v, %d requests", err, s.requests.Load()-before)
		}
	}
	for text, want := range map[string]time.Duration{"": 0, "5": 5 * time.Second, "-5": 0, "x": 0, "99999999999": 0,
		clock.Now().Add(time.Minute).UTC().Format(http.TimeFormat): time.Minute, clock.Now().Add(-time.Minute).UTC().Format(http.TimeFormat): 0} {
		if got := retryAfter(text, clock.Now()); (got - want).Abs() > time.Second {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// TestOneProbe lets one request at a time find out whether a server is back.
func TestOneProbe(t *testing.T) {
	now, o := time.Now(), Options{}.withDefaults()
	b := breaker{name: "server"}
	b.failed(now, 0, o)
	if b.admit(now.Add(29*time.Second)) == nil {
		t.Error("asked too early")
	}
	now = now.Add(31 * time.Second)
	if err := b.admit(now); err != nil {
		t.Error(err)
	}
	if b.admit(now) == nil {
		t.Error("a second probe")
	}
	b.worked()
	if err := errors.Join(b.admit(now), b.admit(now)); err != nil {
		t.Error(err)
	}
	for range 100 {
		b.failed(now, 0, o)
	}
	if got := b.until.Sub(now); got != o.MaxRetryAfter {
		t.Error(got)
	}
	if b.failed(now, 100*time.Hour, o); b.until.Sub(now) != o.MaxRetryAfter {
		t.Error(b.until.Sub(now))
	}
}

func TestURLs(t *testing.T) {
	for _, good := range []string{"http://a.example", "https://a.example:8002/x/", "file:///srv/debug", "http://[::1]:8002", "https://user:secret@a.example"} {
		if _, err := New(Options{URLs: []string{good}, Dir: t.TempDir()}); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{"", "a.example", "localhost:8002", "ftp://a.example", "http://", "http:///x", "file://host/x", "file:x",
		"http://a.example/?x=y", "http://a.example/#x", "http://a\x00b", "http://user:secret@a.example:port", "unix:///x"} {
		_, err := New(Options{URLs: []string{bad}, Dir: t.TempDir()})
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	urls, err := ParseURLs("  https://a.example/ \tima:enforcing http://b.example\nima:ignore ")
	if err != nil || !slices.Equal(urls, []string{"https://a.example/", "http://b.example"}) {
		t.Errorf("%q, %v", urls, err)
	}
	if urls, err := ParseURLs(""); err != nil || len(urls) > 0 {
		t.Errorf("%q, %v", urls, err)
	}
	if _, err := ParseURLs("https://a.example gopher://b.example"); err == nil || !strings.Contains(err.Error(), "gopher") {
		t.Error(err)
	}
	if _, err := New(Options{Dir: t.TempDir()}); err == nil {
		t.Error("a client without servers")
	}
	if _, err := New(Options{URLs: []string{"http://a.example"}}); err == nil {
		t.Error("a client without a cache")
	}
}

func TestFileURL(t *testing.T) {
	dir, id := t.TempDir(), testID(1)
	body := testFile(t, id, 1000)
	at := filepath.Join(dir, "buildid", id)
	if err := errors.Join(os.MkdirAll(at, 0o755), os.WriteFile(filepath.Join(at, "debuginfo"), body, 0o644),
		os.MkdirAll(filepath.Join(dir, "buildid", testID(2), "debuginfo"), 0o755)); err != nil {
		t.Fatal(err)
	}
	c := client(t, Options{URLs: []string{"file://" + dir}})
	wantContent(t, c, id, body)
	if _, err := c.Debuginfo(t.Context(), testID(2)); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "no regular file") {
		t.Error(err)
	}
	c.opts.Now = func() time.Time { return time.Now().Add(time.Hour) }
	if _, err := c.Debuginfo(t.Context(), testID(3)); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
}

// FuzzAnswer takes any answer of a server.
func FuzzAnswer(f *testing.F) {
	id := testID(1)
	body := testFile(f, id, 100)
	f.Add("", "", fmt.Sprint(len(body)), 200, body)
	f.Add("gzip", "7", "", 200, []byte("\x1f\x8b\x08\x00"))
	f.Add("zstd", "", "-1", 404, []byte("\x28\xb5\x2f\xfd"))
	f.Add("", "-7", "99999999999999999999", 503, body[:100])
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, encoding, after, size string, code int, body []byte) {
		c, err := New(Options{URLs: []string{"http://server.example"}, Dir: dir, MaxBytes: 1 << 20, MaxFile: 64 << 10})
		if err != nil {
			t.Fatal(err)
		}
		c.http.Transport = roundTrip(func(*http.Request) (*http.Response, error) {
			h := http.Header{"Content-Encoding": {encoding}, "Retry-After": {after}, "X-Debuginfod-Size": {size}}
			return &http.Response{StatusCode: code, Header: h, Body: readCloser{bytes.NewReader(body)}, ContentLength: -1}, nil
		})
		var wait sync.WaitGroup
		wait.Go(func() {
			f, err := c.Debuginfo(context.Background(), id)
			if err != nil {
				return
			}
			defer f.Close()
			st, err := f.Stat()
			if err != nil || verify(f, st.Size(), id) != nil || st.Size() > 64<<10 {
				t.Errorf("%v, %v", st, err)
			}
		})
		wait.Wait()
		if c.cache.promised != 0 {
			t.Errorf("%d bytes promised", c.cache.promised)
		}
		_ = os.Remove(c.cache.path(id)) // most often it is not there
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

type readCloser struct{ *bytes.Reader }

func (readCloser) Close() error { return nil }
