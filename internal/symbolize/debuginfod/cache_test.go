package debuginfod

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// inCache lists which of the first n files are there.
func inCache(c *Client, n int) string {
	all := ""
	for k := range n {
		if _, err := os.Stat(c.cache.path(testID(k))); err == nil {
			all += fmt.Sprint(k)
		}
	}
	return all
}

// TestEviction removes what was not wanted for longest.
func TestEviction(t *testing.T) {
	s, clock := newServer(t), newClock()
	var bodies [][]byte
	for n := range 6 {
		_, body := s.put(t, n, 10000)
		bodies = append(bodies, body)
	}
	limit := int64(3 * len(bodies[0]))
	c := client(t, Options{Now: clock.Now, MaxBytes: limit}, s)
	get := func(n int) {
		t.Helper()
		clock.add(time.Second)
		wantContent(t, c, testID(n), bodies[n])
	}
	for _, step := range []struct {
		get  int
		want string
	}{{0, "0"}, {1, "01"}, {2, "012"}, {0, "012"}, {3, "023"}, {2, "023"}, {4, "234"}, {0, "024"}} {
		get(step.get)
		if got := inCache(c, 6); got != step.want {
			t.Errorf("after %d: %s, not %s", step.get, got, step.want)
		}
	}
	if got := c.Stats(); got.Evictions != 3 || got.Hits != 2 || got.Downloads != 6 {
		t.Errorf("%+v", got)
	}
	// Who has it open can read on.
	f, err := c.Debuginfo(t.Context(), testID(0))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	clock.add(time.Second)
	get(1)
	get(3)
	get(5)
	if got := inCache(c, 6); got != "135" {
		t.Error(got)
	}
	b := make([]byte, 10000)
	if n, err := f.ReadAt(b, 0); err != nil {
		t.Errorf("%d, %v", n, err)
	}
	// A smaller limit counts from the first use after the next start on.
	again := client(t, Options{Dir: c.opts.Dir, MaxBytes: limit / 3, Now: clock.Now}, s)
	firstUse(t, again)
	if inCache(again, 6) != "5" || again.Stats().Evictions != 2 {
		t.Errorf("%s, %+v", inCache(again, 6), again.Stats())
	}
}

// firstUse has a client look at its cache.
func firstUse(t *testing.T, c *Client) {
	t.Helper()
	if f, err := c.CachedOnly().Debuginfo(t.Context(), testID(1000)); !errors.Is(err, ErrNotCached) {
		t.Fatal(f, err)
	}
}

// TestNewTouchesNoDisk: a directory that hangs, or is of no use, shows when something is wanted of it.
func TestNewTouchesNoDisk(t *testing.T) {
	s, dir := newServer(t), t.TempDir()
	later := filepath.Join(dir, "later")
	c, err := New(Options{URLs: []string{s.URL}, Dir: later})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(later); !errors.Is(err, os.ErrNotExist) {
		t.Error("the directory is made at once:", err)
	}
	firstUse(t, c)
	if st, err := os.Stat(later); err != nil || st.Mode() != os.ModeDir|0o700 {
		t.Error(st, err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if c, err = New(Options{URLs: []string{s.URL}, Dir: filepath.Join(file, "cache")}); err != nil {
		t.Fatal(err)
	}
	for n := range uint64(2) {
		_, err := c.CachedOnly().Debuginfo(t.Context(), testID(1))
		if !errors.Is(err, unix.ENOTDIR) || !errors.Is(err, ErrCache) || errors.Is(err, ErrNotCached) || c.Stats().Failures[disk] != n+1 {
			t.Errorf("%v, %+v", err, c.Stats())
		}
	}
}

// TestStatsWaitForNoDisk asks for the counters while the cache's directory is being looked into, without end.
func TestStatsWaitForNoDisk(t *testing.T) {
	s, dir := newServer(t), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, tempPrefix+"1"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	looking, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	// How old a temporary file is is asked for in the middle of it.
	now := func() time.Time {
		once.Do(func() {
			close(looking)
			<-goOn
		})
		return time.Now()
	}
	c, err := New(Options{URLs: []string{s.URL}, Dir: dir, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	used := make(chan error)
	go func() {
		_, err := c.CachedOnly().Debuginfo(context.Background(), testID(1))
		used <- err
	}()
	<-looking
	answered := make(chan Stats)
	go func() { answered <- c.Stats() }()
	select {
	case got := <-answered:
		if got.CacheFiles != 0 {
			t.Errorf("%+v", got)
		}
	case <-time.After(10 * time.Second):
		t.Error("the counters wait for the disk")
	}
	close(goOn)
	if err := <-used; !errors.Is(err, ErrNotCached) {
		t.Error(err)
	}
}

// TestForeignFiles are none of the cache's, whatever they take.
func TestForeignFiles(t *testing.T) {
	s, dir := newServer(t), t.TempDir()
	names := []string{"README", "x.debug", testID(1), testID(1)[:10] + ".debug", ".download"}
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, 5000), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, testID(7)+".debug"), 0o700); err != nil {
		t.Fatal(err)
	}
	c := client(t, Options{Dir: dir, MaxBytes: 12000}, s)
	for n := range 3 {
		id, body := s.put(t, n, 10000)
		wantContent(t, c, id, body)
	}
	if got := c.Stats(); got.Evictions != 2 {
		t.Errorf("%+v", got)
	}
	for _, name := range append(names, testID(7)+".debug") {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	if _, err := c.Debuginfo(t.Context(), testID(7)); err == nil || c.Stats().Failures[disk] != 1 {
		t.Errorf("%v, %+v", err, c.Stats())
	}
}

// TestStale removes what processes left that ended while they downloaded, and nothing that may be in use.
func TestStale(t *testing.T) {
	s, dir := newServer(t), t.TempDir()
	old, fresh := filepath.Join(dir, tempPrefix+"1"), filepath.Join(dir, tempPrefix+"2")
	long := time.Now().Add(-2 * time.Hour)
	if err := errors.Join(os.WriteFile(old, make([]byte, 5000), 0o600), os.Chtimes(old, long, long), os.WriteFile(fresh, make([]byte, 5000), 0o600)); err != nil {
		t.Fatal(err)
	}
	c := client(t, Options{Dir: dir, MaxBytes: 12000}, s)
	firstUse(t, c)
	if _, err := os.Stat(old); !errors.Is(err, os.ErrNotExist) || c.Stats().Stale != 1 {
		t.Errorf("%v, %+v", err, c.Stats())
	}
	// The other one takes room.
	id, body := s.put(t, 1, 10000)
	refused(t, c, id, noSpace)
	if err := os.Remove(fresh); err != nil {
		t.Fatal(err)
	}
	c.opts.Now = func() time.Time { return time.Now().Add(time.Hour) }
	wantContent(t, c, id, body)
}

// TestCorrupt downloads again what is damaged in the cache.
func TestCorrupt(t *testing.T) {
	s := newServer(t)
	id, body := s.put(t, 1, 10000)
	c := client(t, Options{}, s)
	wantContent(t, c, id, body)
	for n, damage := range []func(string) error{
		func(p string) error { return os.Truncate(p, 5000) },
		func(p string) error { return os.Truncate(p, 0) },
		func(p string) error { return os.WriteFile(p, testFile(t, testID(2), 100), 0o600) },
	} {
		if err := damage(c.cache.path(id)); err != nil {
			t.Fatal(err)
		}
		wantContent(t, c, id, body)
		if got := c.Stats(); got.Corrupt != uint64(n)+1 || got.Downloads != uint64(n)+2 {
			t.Errorf("%+v", got)
		}
	}
	// A link that leads elsewhere is not followed.
	if err := errors.Join(os.Remove(c.cache.path(id)), os.Symlink("/etc/passwd", c.cache.path(id))); err != nil {
		t.Fatal(err)
	}
	if f, err := c.Debuginfo(t.Context(), id); !errors.Is(err, unix.ELOOP) {
		t.Errorf("%v, %v", f, err)
	}
}

// TestNoRoom has no place for what comes: that is counted, and after a while tried again.
func TestNoRoom(t *testing.T) {
	s, clock := newServer(t), newClock()
	id, body := s.put(t, 1, 10000)
	c := client(t, Options{Now: clock.Now, MaxBytes: 10000}, s)
	refused(t, c, id, tooLarge) // it never fits

	// The size is not known before.
	s.answers(func(w http.ResponseWriter, _ *http.Request) {
		w.(http.Flusher).Flush()
		_, _ = w.Write(body) // the client may have gone
	})
	c = client(t, Options{Now: clock.Now, MaxBytes: int64(len(body)) + 1000}, s)
	hold, err := c.cache.create(5000) // another download
	if err != nil {
		t.Fatal(err)
	}
	refused(t, c, id, noSpace)
	before := s.requests.Load()
	if _, err := c.Debuginfo(t.Context(), testID(2)); !errors.Is(err, ErrUnavailable) || s.requests.Load() != before ||
		!strings.Contains(err.Error(), "the cache in ") {
		t.Errorf("%v, %d requests", err, s.requests.Load()-before)
	}
	hold.discard()
	clock.add(time.Minute)
	wantContent(t, c, id, body)
	if c.disk.failures != 0 {
		t.Error("the disk is still taken to be full")
	}

}

// TestNoDirectory makes the directory again, and copes if that cannot be done.
func TestNoDirectory(t *testing.T) {
	s := newServer(t)
	id, body := s.put(t, 1, 10000)
	c := client(t, Options{}, s)
	for range 2 {
		if err := os.RemoveAll(c.opts.Dir); err != nil {
			t.Fatal(err)
		}
		wantContent(t, c, id, body)
	}
	c = client(t, Options{Dir: filepath.Join(c.opts.Dir, "cache")}, s)
	firstUse(t, c)
	if err := errors.Join(os.Remove(c.opts.Dir), os.WriteFile(c.opts.Dir, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if f, err := c.Debuginfo(t.Context(), id); err == nil || c.Stats().Failures[disk] != 1 {
		t.Errorf("%v, %v, %+v", f, err, c.Stats())
	}
	if err := os.Remove(c.opts.Dir); err != nil {
		t.Fatal(err)
	}
	wantContent(t, c, id, body)
}

// TestFullDisk writes to a file system that is full.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
			t.Skipf("not supported: mounting a small file system: %v", err)
		}
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	s := newServer(t)
	id, _ := s.put(t, 1, 100<<10)
	c, err := New(Options{URLs: []string{s.URL}, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	refused(t, c, id, noSpace)
	if err := c.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
}
