package engine

import (
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostprofiles/hostprofiles/internal/process/worker"
)

// allowance is the CPU time that work in the background may take: it grows with time, and what was not used can be used later.
type allowance struct {
	share  float64       // of a core, in the long run
	most   time.Duration // that may be used at once; what there is at first
	debt   time.Duration // that one job may leave behind, at most
	left   time.Duration
	filled time.Time // when it was added to
}

func newAllowance(share float64, most, debt time.Duration) allowance {
	return allowance{share: share, most: most, debt: debt, left: most, filled: time.Now()}
}

// some tells whether anything is left.
func (a *allowance) some(now time.Time) bool {
	a.left = min(a.left+time.Duration(a.share*float64(now.Sub(a.filled))), a.most)
	a.filled = now
	return a.left > 0
}

// spend takes off what was used.
func (a *allowance) spend(used time.Duration) { a.left = max(a.left-used, -a.debt) }

// cpuTime measures what a job uses of a CPU. Other programs that want it do not count, nor does a file that hangs.
type cpuTime struct {
	tid   atomic.Int32 // while it runs
	began int64        // ns on that thread's clock, set before tid
	used  atomic.Int64 // ns, afterwards
}

// start begins on the goroutine that does the work; it ends when the function that it returns is called.
func (c *cpuTime) start() (done func()) {
	runtime.LockOSThread() // as the worker has done already
	c.began = worker.ThreadCPU(unix.Gettid())
	c.tid.Store(int32(unix.Gettid()))
	return func() {
		c.used.Store(worker.ThreadCPU(unix.Gettid()) - c.began)
		c.tid.Store(0)
		runtime.UnlockOSThread()
	}
}

// soFar is what was used up to now; another goroutine may ask.
func (c *cpuTime) soFar() time.Duration {
	if tid := c.tid.Load(); tid != 0 {
		return time.Duration(max(worker.ThreadCPU(int(tid))-c.began, 0))
	}
	return time.Duration(c.used.Load())
}
