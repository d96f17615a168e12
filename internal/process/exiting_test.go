package process

import "testing"

// TestExitingSample: a sample from the end of exit does not bring a process back; one of a thread that runs on does.
func TestExitingSample(t *testing.T) {
	x := NewExecutables[int](ExecutablesOptions{})
	table := NewTable(x, Options{})
	table.Apply(&Event{Kind: EventFork, Time: 10, PID: 7, TID: 7, PPID: 1, PTID: 1})
	p := table.SampleArrived(7, 20, 5, 1)
	table.Apply(&Event{Kind: EventExit, Time: 30, PID: 7, TID: 7, PPID: 1, PTID: 1})
	if p.State() != Leaving {
		t.Fatalf("state %d after exit", p.State())
	}
	if q := table.ExitingSampleArrived(7, 31, 5, 1); q != p || p.State() != Leaving {
		t.Errorf("a sample in exit gave another process (%v) or state %d", q != p, p.State())
	}
	if q := table.SampleArrived(7, 32, 5, 1); q != p || p.State() != Live {
		t.Errorf("a sample of another thread gave another process (%v) or state %d", q != p, p.State())
	}
}
