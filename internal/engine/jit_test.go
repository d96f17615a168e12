package engine

import (
	"context"
	"io"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostprofiles/hostprofiles/internal/process/worker"
	"github.com/hostprofiles/hostprofiles/internal/symbolize/jitcode"
)

// TestJITShares has a process that says so much that its time is used up: the others' is not, until that of all is.
func TestJITShares(t *testing.T) {
	j := newJitter()
	e := &Engine{jit: j}
	noisy, other := newJITCode(nil), newJITCode(nil)
	e.jit.spend(noisy, jitProcessCredit+jitLookTime)
	now, before := noisy.cpu.filled, e.jit.cpu.left
	if noisy.cpu.some(now) || !other.cpu.some(now) || !e.jit.cpu.some(now) {
		t.Errorf("left: %v, %v, %v", noisy.cpu.left, other.cpu.left, e.jit.cpu.left)
	}
	e.jit.enqueue(noisy)
	e.startJITJobs(now, true)
	if len(e.jit.queue) != 1 || noisy.running {
		t.Error("it is looked at though its time is used up")
	}
	later := now.Add(time.Duration(float64(jitLookTime)/jitProcessShare) + time.Second)
	if !noisy.cpu.some(later) {
		t.Errorf("%v left after %v", noisy.cpu.left, later.Sub(now))
	}
	if e.jit.cpu.some(later); e.jit.cpu.left-jitLookTime <= before {
		t.Errorf("%v are left for all, %v before: what one process may take is all that there is", e.jit.cpu.left, before)
	}
	for range 12 {
		e.jit.spend(newJITCode(nil), jitProcessCredit)
	}
	if e.jit.cpu.some(later) {
		t.Error("there is no end to the time that all may use")
	}
}

// endless is a file that takes a look's time to read a part of, and has always more.
type endless struct{ updates int }

func (u *endless) Update(io.ReaderAt, jitcode.FileID) (bool, error) {
	u.updates++
	for began := worker.ThreadCPU(unix.Gettid()); worker.ThreadCPU(unix.Gettid())-began < int64(jitLookTime); {
	}
	return true, nil
}

// TestJITLookEnds reads a file that never ends: one look ends when its time is used up.
func TestJITLookEnds(t *testing.T) {
	f, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	r, u := &jitReader{}, &endless{}
	func() {
		defer r.cpu.start()()
		err = r.update(context.Background(), f, u)
	}()
	if err != nil || u.updates != 1 {
		t.Errorf("%d parts were read: %v", u.updates, err)
	}
}
