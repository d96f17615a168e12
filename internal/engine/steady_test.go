package engine

import (
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/process"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// swapped is an engine with one process, in which two libraries take turns at one address beside the program's own text.
type swapped struct {
	*Engine
	st *processState
}

func newSwapped() *swapped {
	e := &Engine{dirty: map[*processState]struct{}{}, states: map[*process.Process]*processState{}}
	e.executables = process.NewExecutables[*executable](process.ExecutablesOptions{})
	e.table = process.NewTable(e.executables, process.Options{})
	e.table.Apply(&process.Event{Kind: process.EventExec, Time: 10, PID: 7, TID: 7, Comm: "x"})
	s := &swapped{Engine: e}
	s.maps(11, 0x400000, 1)
	p := e.table.SampleArrived(7, 12, 5, 1)
	s.st = &processState{p: p}
	e.states[p] = s.st
	return s
}

// maps has the process map a page of file number inode; 0 is memory.
func (s *swapped) maps(time uint64, at unwind.Addr, inode uint64) { s.mapsFrom(time, at, 0, inode) }

// mapsFrom is maps from an offset on.
func (s *swapped) mapsFrom(time uint64, at unwind.Addr, offset unwind.FileOffset, inode uint64) {
	m := process.MmapInfo{Start: at, End: at + 0x1000, Offset: offset, File: process.FileID{Major: 8, Inode: inode, Generation: 1}, Path: "/lib", Exec: true}
	m.Anonymous = inode == 0
	s.table.Apply(&process.Event{Kind: process.EventMmap, Time: time, PID: 7, TID: 7, Map: m})
}

// tell does what publishing does, but for BPF.
func (s *swapped) tell(time uint64) {
	now := snapshot{mappings: s.st.p.Mappings(), version: s.st.p.Version, from: time, sure: time + 5}
	s.st.noteUnsteady(now.mappings, s.ticks)
	s.st.tell(now)
}

func (s *swapped) sample(time uint64, addrs ...uint64) *stack {
	k := &stack{state: s.st, time: time, stop: unwind.StopRoot, resumable: true}
	for _, a := range addrs {
		k.user = append(k.user, unwind.RawFrame{A: a})
	}
	k.remember()
	s.checkWalk(k)
	return k
}

const own, shared = 0x400010, 0x7f0000000010

func TestWalkByOldMappings(t *testing.T) {
	s := newSwapped()
	s.maps(20, shared&^0xfff, 2)
	s.tell(30)
	if k := s.sample(40, shared, own); k.stop != unwind.StopRoot || len(k.user) != 2 {
		t.Errorf("nothing changed: %v after %d frames", k.stop, len(k.user))
	}
	s.maps(50, 0x7f1111111000, 4)
	if k := s.sample(55, shared, own); k.stop != unwind.StopRoot {
		t.Errorf("something was mapped elsewhere: %v", k.stop)
	}
	s.maps(60, shared&^0xfff, 3)
	k := s.sample(70, own, shared, own)
	if k.stop != unwind.StopStale || len(k.user) != 2 || k.resumable {
		t.Errorf("BPF walked by the rules of a file that was gone: %v after %d frames", k.stop, len(k.user))
	}
	if m, ok := s.st.p.Find(shared); !ok || !s.st.isUnsteady(m) || s.st.isUnsteady(&process.MappedFile{Mapping: unwind.Mapping{Start: 0x400000, End: 0x401000}}) {
		t.Error("just the place that changed is to be walked in user space")
	}
	if _, dirty := s.dirty[s.st]; !dirty {
		t.Error("BPF has to be told")
	}
	// A sample from before BPF was told is compared with what it knew then.
	s.tell(80)
	if k := s.sample(79, shared); k.stop != unwind.StopStale {
		t.Errorf("a sample from before: %v", k.stop)
	}
	if k := s.sample(84, shared); k.stop != unwind.StopStale {
		t.Errorf("a sample from the time when BPF was told: %v", k.stop)
	}
	if k := s.sample(85, shared); k.stop != unwind.StopRoot {
		t.Errorf("a sample from after: %v", k.stop)
	}
	s.tell(90) // the same
	if k := s.sample(87, shared); k.stop != unwind.StopRoot {
		t.Errorf("told again what it knew: %v", k.stop)
	}
	// Of what BPF was told before that nothing is known.
	if k := s.sample(34, shared); k.stop != unwind.StopRoot {
		t.Errorf("a sample from before what is known: %v", k.stop)
	}
	for range unsteadyTicks + 1 {
		s.steady()
		s.ticks++
	}
	if s.steady(); len(s.st.unsteady) != 0 {
		t.Error("steady again")
	}
}

// TestWaitingKeepsMappings: what a sample lies in is what was mapped when it was taken, however long it waits.
func TestWaitingKeepsMappings(t *testing.T) {
	s := newSwapped()
	s.maps(20, shared&^0xfff, 2)
	k := s.sample(25, shared)
	s.maps(30, shared&^0xfff, 3)
	s.maps(31, 0x7f2222222000, 4)
	if m, ok := k.find(shared); !ok || m.File.ID.Inode != 2 {
		t.Error("not the file that was mapped then")
	}
	if m, ok := k.find(0x7f2222222000); !ok || m.File.ID.Inode != 4 {
		t.Error("what was not known then is told by what is known now")
	}
	k.mappings = nil // they were read anew
	if m, ok := k.find(shared); !ok || m.File.ID.Inode != 3 {
		t.Error("not what was read")
	}
}

// TestSwappedBetweenTellings: BPF need not have walked wrongly for a place to count as one that files take turns in.
func TestSwappedBetweenTellings(t *testing.T) {
	s := newSwapped()
	for i := range uint64(2 * maxUnsteady) {
		s.maps(20+i, unwind.Addr(0x7f0000000000+i<<16), 2)
	}
	s.tell(1000)
	if len(s.st.unsteady) != 0 {
		t.Fatalf("%d places that changed, but nothing did", len(s.st.unsteady))
	}
	s.maps(1001, 0x7f0000000000, 0)
	s.tell(1002)
	if len(s.st.unsteady) != 0 {
		t.Error("memory has no table that could be wrong")
	}
	for i := range uint64(2 * maxUnsteady) {
		s.maps(1020+i, unwind.Addr(0x7f0000000000+i<<16), 3)
	}
	s.tell(2000)
	if len(s.st.unsteady) != maxUnsteady {
		t.Errorf("%d places, want %d", len(s.st.unsteady), maxUnsteady)
	}
}

// TestMemoryThatHoldsCode: memory that was found to hold a file's code counts as the file, until something is mapped over it.
func TestMemoryThatHoldsCode(t *testing.T) {
	s := newSwapped()
	s.maps(20, 0x401000, 0)
	p := s.st.p
	text, _ := p.Find(0x400000)
	memory, _ := p.Find(0x401000)
	m, file := *memory, text.File
	if !s.table.HoldsCode(p, &m, file, 0x1000) {
		t.Fatal("it was not taken")
	}
	if is, ok := p.Find(0x401800); !ok || is.File != file || is.Offset+unwind.FileOffset(0x401800-is.Start) != 0x1800 {
		t.Errorf("it is %+v", is)
	}
	if s.table.HoldsCode(p, &m, file, 0x1000) {
		t.Error("there is no memory any more")
	}
	s.maps(30, 0x401000, 0)
	if is, ok := p.Find(0x401800); !ok || is.File != nil {
		t.Errorf("after it was made executable again it is %+v", is)
	}
	if s.table.HoldsCode(p, &m, file, 0x1000) {
		t.Error("what was compared is not what is there now")
	}
}

const otherAt, other = 0x401000, 0x401010

// holdsCode has the memory at otherAt found to hold the program's own text.
func (s *swapped) holdsCode(t *testing.T) {
	t.Helper()
	p := s.st.p
	text, _ := p.Find(own)
	memory, _ := p.Find(other)
	m, file := *memory, text.File
	if !s.table.HoldsCode(p, &m, file, 0x1000) {
		t.Fatal("it was not taken")
	}
}

// TestWalkedAsMemory: what BPF guessed its way through before it was told that memory holds a file's code is shown as memory, what it
// did not, or left to user space, as the file.
func TestWalkedAsMemory(t *testing.T) {
	s := newSwapped()
	s.maps(20, otherAt, 0)
	s.tell(30)
	s.holdsCode(t)
	walk := func(time uint64, resumable bool, frames ...unwind.RawFrame) bool {
		k := &stack{state: s.st, time: time, stop: unwind.StopRoot, resumable: resumable, user: frames}
		k.remember()
		s.checkWalk(k)
		is, ok := k.find(other)
		if !ok || k.stop != unwind.StopRoot || len(k.user) != len(frames) {
			t.Errorf("a stack of %d frames has %d and ends as %v", len(frames), len(k.user), k.stop)
		}
		return ok && is.File == nil
	}
	guessed := unwind.RawFrame{A: own, Flags: unwind.FrameGuessed}
	if !walk(40, false, unwind.RawFrame{A: other}, guessed) {
		t.Error("a guessed caller, shown as the file's")
	}
	if !walk(40, true, unwind.RawFrame{A: own}, unwind.RawFrame{A: other}, guessed, unwind.RawFrame{A: other}) {
		t.Error("a guessed caller in the middle, shown as the file's")
	}
	if !walk(40, false, unwind.RawFrame{A: other}) {
		t.Error("no caller was found")
	}
	if walk(40, true, unwind.RawFrame{A: other}) {
		t.Error("what user space walks through, shown as memory")
	}
	if walk(40, false, unwind.RawFrame{A: other}, unwind.RawFrame{A: own}) {
		t.Error("nothing was guessed, shown as memory")
	}
	s.tell(50)
	if !walk(52, false, unwind.RawFrame{A: other}, guessed) {
		t.Error("while BPF was told: shown as the file's")
	}
	if walk(60, false, unwind.RawFrame{A: other}, guessed) {
		t.Error("BPF knew of it, shown as memory")
	}
}

// TestWalkedAsMemoryAndStale: behind such memory comes a place that another file took by then: that one is shown, and ends the stack.
func TestWalkedAsMemoryAndStale(t *testing.T) {
	s := newSwapped()
	s.maps(20, otherAt, 0)
	s.maps(21, shared&^0xfff, 2)
	s.tell(30)
	s.holdsCode(t)
	s.maps(35, shared&^0xfff, 3)
	k := &stack{state: s.st, time: 40, stop: unwind.StopRoot, user: []unwind.RawFrame{{A: other}, {A: own, Flags: unwind.FrameGuessed}, {A: shared}, {A: own}}}
	k.remember()
	s.checkWalk(k)
	if m, ok := k.find(shared); !ok || m.File == nil || m.File.ID.Inode != 3 || k.stop != unwind.StopStale || len(k.user) != 3 {
		t.Errorf("%v after %d frames, in %+v", k.stop, len(k.user), m)
	}
	if m, ok := k.find(other); !ok || m.File != nil {
		t.Errorf("what was guessed through is %+v", m)
	}
}
