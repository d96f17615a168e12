package engine

import (
	"errors"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/process"
	"github.com/hostprofiles/hostprofiles/internal/profile"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// newDoubted makes an engine without BPF, and a sample of a process that has just mapped an executable that was known before, which is
// being looked at again. BPF has walked it, or user space is to: then its only frame is pending.
func newDoubted(t *testing.T, resumable bool) (*Engine, *process.Executable[*executable], *stack) {
	t.Helper()
	e, x := newFileEngine(t)
	e.builder = e.newBuilder()
	e.dirty, e.states = map[*processState]struct{}{}, map[*process.Process]*processState{}
	e.table = process.NewTable(e.executables, process.Options{})
	holds(x.Payload, "old")
	e.executables.Tick()
	e.table.Apply(&process.Event{Kind: process.EventExec, Time: 10, PID: 7, TID: 7, Comm: "program"})
	e.table.Apply(&process.Event{Kind: process.EventMmap, Time: 11, PID: 7, TID: 7, Map: process.MmapInfo{
		Start: 0x400000, End: 0x401000, File: x.File.ID, Path: x.File.Path, Exec: true,
	}})
	st := &processState{p: e.table.SampleArrived(7, 12, 5, 1), resource: &profile.Resource{PID: 7}}
	e.states[st.p] = st
	k := &stack{state: st, time: 13, stop: unwind.StopRoot, resumable: resumable}
	if k.regs.PC = 0x400010; !resumable {
		k.user = []unwind.RawFrame{{A: 0x400010}}
	}
	k.remember()
	if !e.executables.StartChecking(x) {
		t.Fatal("the file is not looked at again")
	}
	return e, x, k
}

// holds gives an executable a segment, under a name that tells it from others.
func holds(x *executable, name string) {
	x.segments = []unwind.Segment{{VAddr: 0x1000, FileSize: 0x1000, MemSize: 0x1000, Exec: true}}
	x.mappings = []*profile.Mapping{{Start: 0x1000, Limit: 0x2000, File: name}}
}

// TestWaitsForLook: a sample of who mapped a file that may have been rewritten since it was read waits until that is known, and is named
// by what the file is.
func TestWaitsForLook(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(e *Engine, x *process.Executable[*executable])
		want string
	}{
		"the same": {func(e *Engine, x *process.Executable[*executable]) {
			e.opened(x, &loaded{identity: x.Identity(), same: true, file: openedFile(t)}, nil)
		}, "old"},
		"rewritten": {func(e *Engine, x *process.Executable[*executable]) {
			n := &executable{symbols: newExecutableSymbols(), debug: newDebugInfo(), file: &source{}}
			n.file.file.Store(openedFile(t))
			holds(n, "new")
			e.opened(x, &loaded{identity: process.Identity{Size: 2}, executable: n}, nil)
		}, "new"},
		"cannot be looked at": {func(e *Engine, x *process.Executable[*executable]) { e.opened(x, nil, errors.New("gone")) }, "old"},
	} {
		for _, resumable := range []bool{false, true} {
			e, x, k := newDoubted(t, resumable)
			if e.complete(k) || k.waits != x.File || k.resumable != resumable {
				t.Errorf("%s, user space walks %v: waits for %v, walks on: %v", name, resumable, k.waits, k.resumable)
				continue
			}
			e.held.add(e, k)
			e.held.retry(e)
			if e.held.empty() {
				t.Errorf("%s, user space walks %v: nothing is known yet", name, resumable)
			}
			c.end(e, x)
			if e.held.retry(e); !e.held.empty() || e.held.bytes != 0 {
				t.Errorf("%s, user space walks %v: it still waits", name, resumable)
			}
			if l := e.locations; len(l) != 1 || l[0].Mapping == nil || l[0].Mapping.File != c.want || l[0].Address != 0x1010 {
				t.Errorf("%s, user space walks %v: %+v", name, resumable, l)
			}
		}
	}
}

// TestWaitsTooLongForLook: where a file system does not answer, stacks are walked and named by what was known of the file.
func TestWaitsTooLongForLook(t *testing.T) {
	for _, resumable := range []bool{false, true} {
		e, _, k := newDoubted(t, resumable)
		if e.complete(k) {
			t.Fatal("it does not wait")
		}
		e.held.add(e, k)
		e.held.finishAll(e)
		if l := e.locations; len(l) != 1 || l[0].Mapping == nil || l[0].Mapping.File != "old" {
			t.Errorf("user space walks %v: %+v", resumable, l)
		}
		if e.count.Stops[unwind.StopNoTable] != 0 {
			t.Errorf("user space walks %v: not walked by the table that there was", resumable)
		}
	}
}

// TestEvictedWhileLookedAt: the file is the same, but what was made of it has made room for something else.
func TestEvictedWhileLookedAt(t *testing.T) {
	e, x, k := newDoubted(t, false)
	id := x.Identity()
	e.complete(k) // it waits
	e.executables.Evict(0)
	if x.State() != process.Ready {
		t.Error("what a sample waits for was evicted")
	}
	e.executables.Tick()
	e.executables.Evict(0)
	if x.State() == process.Ready {
		t.Error("it was not evicted")
	}
	e.opened(x, &loaded{identity: id, same: true, file: openedFile(t)}, nil)
	if x.Checking() || len(e.withFile) > 1 {
		t.Errorf("it is being looked at: %v, %d open files", x.Checking(), len(e.withFile))
	}
}

// TestReopenedServes: nobody waits for a file that is only opened again to read symbols.
func TestReopenedServes(t *testing.T) {
	for _, resumable := range []bool{false, true} {
		e, x, k := newDoubted(t, resumable)
		e.opened(x, &loaded{identity: x.Identity(), same: true, file: openedFile(t)}, nil)
		e.closeFile(x)
		e.executables.Reopen(x)
		if !e.executables.StartOpening(x) || !x.Checking() {
			t.Fatal("not opened again")
		}
		if !e.complete(k) {
			t.Errorf("user space walks %v: it waits", resumable)
		}
	}
}
