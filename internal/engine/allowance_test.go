package engine

import (
	"testing"
	"time"
)

// TestAllowance uses everything up, and more, and waits until there is some again.
func TestAllowance(t *testing.T) {
	a := newAllowance(0.01, time.Second, 100*time.Millisecond)
	now := a.filled
	if !a.some(now) {
		t.Error("nothing at first")
	}
	a.spend(5 * time.Second)
	if a.some(now.Add(9 * time.Second)) {
		t.Errorf("%v left after the debt of 100 ms and 9 s at 1 %%", a.left)
	}
	if !a.some(now.Add(11 * time.Second)) {
		t.Errorf("%v left after 11 s", a.left)
	}
	if a.some(now.Add(time.Hour)); a.left != time.Second {
		t.Errorf("%v left after an hour", a.left)
	}
}

// TestCPUTime measures work and waiting, from the goroutine that does it and from another one.
func TestCPUTime(t *testing.T) {
	var c cpuTime
	if c.soFar() != 0 {
		t.Error(c.soFar(), "before it began")
	}
	began, started, looked, ended := time.Now(), make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		defer c.start()()
		for c.soFar() < 20*time.Millisecond {
		}
		close(started)
		<-looked
	}()
	<-started
	if d := c.soFar(); d < 20*time.Millisecond || d > time.Since(began) {
		t.Errorf("%v while it waits", d)
	}
	time.Sleep(50 * time.Millisecond)
	close(looked)
	<-ended
	if d := c.soFar(); d < 20*time.Millisecond || d > time.Since(began)-50*time.Millisecond {
		t.Errorf("%v in all, of %v", d, time.Since(began))
	}
}

// TestLineFinder lets one batch at a time begin, unless that one hangs.
func TestLineFinder(t *testing.T) {
	l := newLineFinder()
	now := time.Now()
	r := &lineReader{}
	if !l.admits(now) {
		t.Error("nothing may begin")
	}
	l.now = r
	if l.admits(now) || l.admits(now.Add(2*linesPatience)) {
		t.Error("two at a time, of which one has not begun")
	}
	r.started.Store(true)
	now = now.Add(3 * linesPatience)
	for range 5 { // with little of a CPU
		r.cpu.used.Add(int64(time.Millisecond))
		if now = now.Add(linesPatience); l.admits(now) {
			t.Error("two at a time, of which one is at work")
		}
	}
	if l.admits(now.Add(linesPatience - time.Second)) {
		t.Error("two at a time, of which one was at work a moment ago")
	}
	if now = now.Add(linesPatience + time.Second); !l.admits(now) {
		t.Error("all wait for a file that hangs")
	}
	r.cpu.used.Add(int64(time.Millisecond))
	if l.admits(now) {
		t.Error("two at a time, of which one hung for a while")
	}
	other := &lineReader{}
	l.now = other
	if l.ended(r); l.now != other {
		t.Error("the end of one is taken for that of another")
	}
	other.cpu.used.Store(int64(time.Minute))
	if l.ended(other); l.now != nil || l.admits(now.Add(2*linesPatience)) {
		t.Error("there is no end to the time that may be used")
	}
}
