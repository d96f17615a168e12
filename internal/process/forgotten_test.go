package process

import "testing"

// TestForgotten looks at executables that were forgotten while something still points to them: a sample that waits for its
// process's file, say. There is nothing to be had of them, and nothing to wait for.
func TestForgotten(t *testing.T) {
	x := NewExecutables[*int](ExecutablesOptions{})
	read, unread := x.Acquire(mapping(1, 0, "/read"), 1), x.Acquire(mapping(2, 0, "/unread"), 1)
	payload := 7
	r, u := x.Of(read), x.Of(unread)
	if !x.StartOpening(r) {
		t.Fatal("not opened")
	}
	if !x.SetPayload(x.Opened(r, Identity{Size: 1}), &payload, 100) {
		t.Fatal("no payload")
	}
	x.release(read)
	x.release(unread)
	x.Evict(0)
	for name, e := range map[string]*Executable[*int]{"read": r, "unread": u} {
		if e.State() != Failed || e.Payload != nil || !e.Replaced() {
			t.Errorf("%s: state %v, payload %v", name, e.State(), e.Payload)
		}
		if x.StartOpening(e) {
			t.Errorf("%s is opened again", name)
		}
	}
	if v := x.TakeEvicted(); len(v) != 1 || v[0].Payload != &payload {
		t.Errorf("evicted: %v", v)
	}
	if len(x.TakeIdle()) != 0 {
		t.Error("idle, and forgotten")
	}
	if n := x.Of(x.Acquire(mapping(1, 0, "/read"), 2)); n == r || n.State() != Unopened {
		t.Errorf("mapped again: %v", n.State())
	}
}

// TestIdle closes what nothing maps any more, and looks at it again when something does.
func TestIdle(t *testing.T) {
	x := NewExecutables[int](ExecutablesOptions{})
	f := x.Acquire(mapping(1, 0, "/a"), 1)
	e := x.Of(f)
	x.StartOpening(e)
	x.SetPayload(x.Opened(e, Identity{Size: 1}), 5, 100)
	if len(x.TakeIdle()) != 0 {
		t.Error("idle, although it is mapped")
	}
	x.release(f)
	x.Acquire(mapping(1, 0, "/a"), 2)
	if len(x.TakeIdle()) != 0 {
		t.Error("idle, although it is mapped again")
	}
	x.release(f)
	if idle := x.TakeIdle(); len(idle) != 1 || idle[0] != e || e.Mapped() {
		t.Fatalf("idle: %v", idle)
	}
	x.Reopen(e)
	if len(x.TakeIdle()) != 0 {
		t.Error("idle twice")
	}
	x.Acquire(mapping(1, 0, "/a"), 3)
	if !x.StartOpening(e) || !e.Checking() { // within the tick of the last look, too
		t.Error("not opened again")
	}
	x.release(f)
	x.Opened(e, Identity{Size: 1}) // too late: nothing maps it
	if len(x.TakeIdle()) != 1 {
		t.Error("what was opened too late stays open")
	}
}
