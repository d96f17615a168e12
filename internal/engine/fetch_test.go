package engine

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/hostprofiles/hostprofiles/internal/symbolize/debuginfod"
)

// TestUnusableCache: that nothing can be kept shows when something is wanted, and is named once.
func TestUnusableCache(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := newFetches(&debuginfod.Options{URLs: []string{"http://127.0.0.1:1"}, Dir: filepath.Join(file, "cache")})
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	core, logs := observer.New(zap.WarnLevel)
	e := &Engine{log: zap.New(core), fetches: f}
	for _, id := range []string{"0123456789abcdef0123", "0123456789abcdef4567"} {
		f.start(id, wanting{})
		delete(f.under, id) // nobody waits for it
		e.fetched(<-f.done)
	}
	if logs.Len() != 1 {
		t.Errorf("%d warnings: %v", logs.Len(), logs.All())
	}
	var s Stats
	if f.count(&s); s.Debuginfod[FetchFailed] != 2 {
		t.Errorf("%+v", s.Debuginfod)
	}
}

// TestServersThatFail are named once, and once more when they answer.
func TestServersThatFail(t *testing.T) {
	var broken atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if broken.Load() {
			http.Error(w, "", http.StatusServiceUnavailable)
			return
		}
		http.NotFound(w, r)
	}))
	defer server.Close()
	const nothing = "http://127.0.0.1:1"
	var later atomic.Int64 // hours
	f, err := newFetches(&debuginfod.Options{
		URLs: []string{strings.Replace(server.URL, "//", "//someone:secret@", 1) + "/debug", nothing}, Dir: t.TempDir(),
		Now: func() time.Time { return time.Now().Add(time.Duration(later.Load()) * time.Hour) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	core, logs := observer.New(zap.InfoLevel)
	e := &Engine{log: zap.New(core), fetches: f}
	var want []string
	for n, step := range []struct {
		broken bool
		says   []string
	}{
		{false, []string{"WARN " + nothing + ": dial tcp 127.0.0.1:1: connect: connection refused"}},
		{false, nil},
		{true, []string{"WARN " + server.URL + "/debug: 503 Service Unavailable"}},
		{true, nil},
		{false, []string{"INFO " + server.URL + "/debug: "}},
		{true, []string{"WARN " + server.URL + "/debug: 503 Service Unavailable"}},
	} {
		broken.Store(step.broken)
		f.start(fmt.Sprintf("0123456789abcdef%04x", n), wanting{})
		delete(f.under, fmt.Sprintf("0123456789abcdef%04x", n)) // nobody waits for it
		e.fetched(<-f.done)
		later.Add(1) // it is left alone no longer
		want = append(want, step.says...)
		var got []string
		for _, l := range logs.All() {
			text, _ := l.ContextMap()["error"].(string)
			got = append(got, fmt.Sprintf("%s %s: %s", l.Level.CapitalString(), l.ContextMap()["url"], text))
		}
		if !slices.Equal(got, want) {
			t.Fatalf("step %d: it says\n%s\nnot\n%s", n, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}
