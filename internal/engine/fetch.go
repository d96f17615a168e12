package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/hostprofiles/hostprofiles/internal/symbolize/debugfile"
	"github.com/hostprofiles/hostprofiles/internal/symbolize/debuginfod"
)

const (
	// maxFetches bounds the files that are waited for. Only a few of them are downloaded at a time.
	maxFetches = 256
	// fetchCloseWait is how long the end of the engine waits for downloads to end.
	fetchCloseWait = time.Second
)

// FetchResult is what became of a file that was wanted of servers.
type FetchResult uint8

// The results.
const (
	FetchDownloaded FetchResult = iota
	FetchHit                    // it was in the cache
	FetchNotFound
	FetchFailed

	FetchResults // how many there are
)

// String returns the result as it stands in metrics.
func (r FetchResult) String() string {
	if r < FetchResults {
		return [...]string{"downloaded", "hit", "not_found", "failed"}[r]
	}
	return "unknown"
}

// downloader gets files from servers into a cache on disk: all that is done with a file is to know that it is there.
type downloader interface {
	debugfile.Fetcher
	Close(ctx context.Context) error
	Stats() debuginfod.Stats
	Servers() []debuginfod.Server
}

// fetches are the downloads of debug information. They wait for the network, so each has a goroutine of its own, and workers
// only look into the cache.
type fetches struct {
	client downloader        // nil if there are no servers
	cached debugfile.Fetcher // the client's cache
	under  map[string][]wanting
	done   chan fetched
	ctx    context.Context
	cancel context.CancelFunc
	all    sync.WaitGroup
	named  bool   // that the cache cannot be used
	down   []bool // of which servers it was said that they fail
}

// fetched is the end of a download.
type fetched struct {
	id  string
	err error
}

func newFetches(o *debuginfod.Options) (*fetches, error) {
	f := &fetches{under: map[string][]wanting{}, done: make(chan fetched, maxFetches)}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	if o == nil {
		return f, nil
	}
	client, err := debuginfod.New(*o)
	if err != nil {
		return f, err
	}
	f.client, f.cached, f.down = client, client.CachedOnly(), make([]bool, len(client.Servers()))
	return f, nil
}

// count tells what became of all files so far.
func (f *fetches) count(s *Stats) {
	if f.client == nil {
		return
	}
	c := f.client.Stats()
	s.Debuginfod = [FetchResults]uint64{FetchDownloaded: c.Downloads, FetchHit: c.Hits, FetchNotFound: c.NotFound}
	for _, n := range c.Failures {
		s.Debuginfod[FetchFailed] += n
	}
	s.DebuginfodBytes = uint64(c.CacheBytes)
}

// start has a file downloaded for w, unless there are no servers or too many files are waited for.
func (f *fetches) start(id string, w wanting) {
	waiting, known := f.under[id]
	if f.client == nil || !known && len(f.under) >= maxFetches {
		return
	}
	f.under[id] = append(waiting, w)
	if known {
		return
	}
	f.all.Go(func() {
		file, err := f.client.Debuginfo(f.ctx, id)
		if err == nil {
			err = file.Close()
		}
		f.done <- fetched{id, err} // there is room for all
	})
}

// close ends all downloads.
func (f *fetches) close() {
	f.cancel()
	if f.client == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), fetchCloseWait)
	defer cancel()
	if f.client.Close(ctx) == nil {
		f.all.Wait()
	}
}

// fetch has what is missing of an executable's debug information downloaded.
func (e *Engine) fetch(w wanting, ids []string) {
	for _, id := range ids {
		e.fetches.start(id, w)
	}
}

// fetched looks once more for the debug information of the executables that a download was for.
func (e *Engine) fetched(r fetched) {
	waiting := e.fetches.under[r.id]
	delete(e.fetches.under, r.id)
	e.log.Debug("getting debug information from servers", zap.String("build_id", r.id), zap.Error(r.err))
	if errors.Is(r.err, debuginfod.ErrCache) && !e.fetches.named {
		e.fetches.named = true
		e.log.Warn("Debug information cannot be fetched from servers", zap.Error(r.err))
	}
	e.noteServers()
	for _, w := range waiting {
		d := w.payload.debug
		switch {
		case w.payload.symbols.evicted:
		case r.err == nil:
			d.retry, d.stale = 0, d.running
			e.closeOpened(d)
			w.payload.symbols.askAgain()
		case errors.Is(r.err, debuginfod.ErrUnavailable):
			d.retry = min(d.retry, e.ticks+linesRetryTicks)
		}
	}
}

// noteServers logs that a server fails, and when it answers again; each once.
func (e *Engine) noteServers() {
	if e.fetches.client == nil {
		return
	}
	for i, s := range e.fetches.client.Servers() {
		known := e.fetches.down[i]
		e.fetches.down[i] = s.Err != nil
		switch {
		case s.Err != nil && !known:
			e.log.Warn("a debuginfod server fails: what it may have stays without lines until it answers", zap.String("url", s.URL),
				zap.Error(s.Err))
		case s.Err == nil && known:
			e.log.Info("the debuginfod server answers again", zap.String("url", s.URL))
		}
	}
}

// askAgain has the lines of all addresses looked up once more as they are seen: some files of the debug information were
// missing.
func (xs *executableSymbols) askAgain() {
	for _, a := range xs.lru.Keys() {
		if s, ok := xs.lru.Peek(a); ok && s.progress == linesKnown && !s.final {
			s.progress = named
		}
	}
}
