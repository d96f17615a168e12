package engine

import (
	"os"
	"path/filepath"
	"testing"

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
