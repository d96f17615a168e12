package engine

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// garbagePerTable is about how many bytes building a table leaves behind for each byte of it.
	garbagePerTable = 6
	// kernelGarbage is about what reading the kernel's symbols leaves behind.
	kernelGarbage = 8 << 20
	// giveBackBytes of garbage, and giveBackEvery, are when memory goes back to the system.
	giveBackBytes = 16 << 20
	giveBackEvery = time.Minute
)

// giver gives memory back to the system after a burst of work that left much garbage: the building of tables at the start,
// mostly. Go's garbage collector would wait until the heap has grown to twice its size again, which a collector at rest
// never does, and so keep what the start needed for minutes.
type giver struct {
	garbage int
	last    time.Time
	busy    bool
}

func (g *giver) made(bytes int) { g.garbage += bytes }

// liveHeap is what the last garbage collection left, in bytes.
func liveHeap() int {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	if live[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return int(live[0].Value.Uint64())
}

// giveBack collects garbage on a worker if there is much and no other job.
func (e *Engine) giveBack(now time.Time) {
	g := &e.giver
	if g.busy || g.garbage < giveBackBytes || now.Sub(g.last) < giveBackEvery || !e.jobs.idle() {
		return
	}
	if g.garbage < liveHeap()/4 {
		return // the collector has a large heap of others': its garbage collector gets to ours soon enough
	}
	g.busy, g.garbage, g.last = true, 0, now
	e.jobs.submit(aboutSelf(giveBackSerial, "memory to give back"), time.Minute,
		func(context.Context) (any, error) { debug.FreeOSMemory(); return nil, nil },
		func(any, error) { g.busy = false })
}
