package process

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// imageAddr is where every program image of the tests has its first page.
const imageAddr = unwind.Addr(0x400000)

func imageMap(path string) MmapInfo {
	m := MmapInfo{Start: imageAddr, End: imageAddr + pageSize, Path: path, Exec: true}
	for _, c := range path {
		m.File.Inode = m.File.Inode*31 + uint64(c)
	}
	return m
}

// image names the program that p runs, as its mappings have it.
func image(p *Process) string {
	if m, ok := p.Find(imageAddr); ok && m.File != nil {
		return m.File.Path
	}
	return ""
}

type table struct {
	*Table
	t *testing.T
	x *Executables[int]
}

func newTestTable(t *testing.T) table {
	x := NewExecutables[int](ExecutablesOptions{})
	return table{NewTable(x, Options{}), t, x}
}

func (b table) fork(time uint64, parent, child uint32) {
	b.Apply(&Event{Kind: EventFork, Time: time, PID: child, TID: child, PPID: parent, PTID: parent})
}

func (b table) exec(time uint64, pid uint32, path string) {
	b.Apply(&Event{Kind: EventExec, Time: time, PID: pid, TID: pid, Comm: path})
	b.Apply(&Event{Kind: EventMmap, Time: time + 1, PID: pid, TID: pid, Map: imageMap(path)})
}

func (b table) exit(time uint64, pid, tid uint32) {
	b.Apply(&Event{Kind: EventExit, Time: time, PID: pid, TID: tid})
}

// sample attributes a sample and checks which program it is taken to be of.
func (b table) sample(time uint64, pid uint32, start uint64, execID uint32, want string) *Process {
	b.t.Helper()
	p := b.SampleArrived(pid, time, start, execID)
	if got := image(p); got != want {
		b.t.Errorf("sample at %d is of %q, want %q", time, got, want)
	}
	if err := checkTable(b.Table, b.x); err != nil {
		b.t.Error(err)
	}
	return p
}

func TestSampleAfterExit(t *testing.T) {
	b := newTestTable(t)
	b.exec(10, 5, "/a")
	p := b.sample(20, 5, 1, 7, "/a")
	b.exit(30, 5, 5)
	if p.State() != Leaving {
		t.Errorf("state %d", p.State())
	}
	if late := b.sample(25, 5, 1, 7, "/a"); late != p || p.State() != Leaving {
		t.Error("a late sample does not revive")
	}
	b.Tick()
	b.Tick()
	if late := b.sample(26, 5, 1, 7, "/a"); late != p {
		t.Error("gone within two ticks")
	}
	b.Tick()
	if p.State() != Removed || b.Len() != 0 || len(b.TakeRemoved()) != 1 {
		t.Errorf("state %d after two whole ticks", p.State())
	}
	if image(p) != "/a" {
		t.Error("mappings of a removed process are still readable")
	}
}

func TestLeaderExitsFirst(t *testing.T) {
	b := newTestTable(t)
	b.exec(10, 5, "/a")
	p := b.sample(20, 5, 1, 7, "/a")
	b.Apply(&Event{Kind: EventFork, Time: 21, PID: 5, TID: 6, PPID: 5, PTID: 5})
	b.exit(30, 5, 5)
	b.Tick()
	if got := b.SampleArrived(5, 40, 1, 7); got != p || p.State() != Live || b.Stats().Reanimated != 1 {
		t.Errorf("state %d", p.State())
	}
	for range 5 {
		b.Tick()
	}
	if p.State() != Live {
		t.Error("revived, it stays until its last thread exits")
	}
	b.exit(50, 5, 6)
	if p.State() != Leaving {
		t.Error("the last thread has exited")
	}
}

func TestExecKeepsOldImage(t *testing.T) {
	b := newTestTable(t)
	b.exec(10, 5, "/a")
	a := b.sample(20, 5, 1, 7, "/a")
	b.exec(30, 5, "/b")
	second := b.sample(40, 5, 1, 8, "/b")
	if b.sample(25, 5, 1, 7, "/a") != a || second == a {
		t.Error("late sample of the old image")
	}
	if second.Generation != a.Generation+1 || second.StartTime() != a.StartTime() || second.Comm() != "/b" {
		t.Errorf("%+v", second)
	}
	for range 3 {
		b.Tick()
	}
	if a.State() != Removed || second.State() != Live {
		t.Errorf("states %d, %d", a.State(), second.State())
	}
}

// TestSampleBeforeExecEvent has the sample come first: it keeps its process, which turns out to be the new image.
func TestSampleBeforeExecEvent(t *testing.T) {
	b := newTestTable(t)
	b.exec(10, 5, "/a")
	a := b.sample(20, 5, 1, 7, "/a")
	n := b.sample(40, 5, 1, 8, "")
	if !n.WantsMaps() || b.Stats().Guessed != 1 {
		t.Error("its mappings are unknown")
	}
	b.exec(30, 5, "/b")
	if image(n) != "/b" || n.WantsMaps() || image(a) != "/a" {
		t.Errorf("%q, %q", image(n), image(a))
	}
	b.sample(29, 5, 1, 7, "/a")
	b.sample(31, 5, 1, 8, "/b")
	if b.Len() != 2 {
		t.Errorf("%d incarnations", b.Len())
	}
}

// TestSampleBeforeForkAndExec has a sample come before anything is known of its process.
func TestSampleBeforeForkAndExec(t *testing.T) {
	b := newTestTable(t)
	b.exec(1, 4, "/sh")
	b.sample(2, 4, 1, 3, "/sh")
	n := b.sample(40, 5, 15, 4, "")
	b.fork(15, 4, 5)
	if image(n) != "/sh" {
		t.Error("so far it looks like a copy of its parent")
	}
	b.exec(30, 5, "/b")
	if image(n) != "/b" {
		t.Errorf("%q", image(n))
	}
	b.sample(20, 5, 15, 3, "/sh")
}

func TestPidReuse(t *testing.T) {
	b := newTestTable(t)
	b.exec(1, 4, "/sh")
	b.sample(2, 4, 1, 3, "/sh")
	b.fork(10, 4, 5)
	b.exec(11, 5, "/a")
	b.exit(20, 5, 5)
	b.fork(30, 4, 5)
	b.exec(31, 5, "/b")
	// Neither was sampled before; both have the exec id of their parent and one more.
	b.sample(35, 5, 30, 4, "/b")
	b.sample(15, 5, 10, 4, "/a")
	b.sample(10, 5, 10, 3, "/sh")
	// A third one whose events are lost.
	p := b.sample(50, 5, 45, 4, "")
	if !p.WantsMaps() {
		t.Error("a process without events needs its maps")
	}
	// And a fourth, of which only a sample comes after everything else.
	old := b.sample(5, 5, 4, 9, "")
	if old.WantsMaps() || old.Maps() != MapsGone && old.Maps() != MapsUnknown {
		t.Error("nothing can be learned of a process that is gone")
	}
	if b.sample(5, 5, 4, 9, "") != old {
		t.Error("two samples of one process")
	}
}

func TestInheritOnceKnown(t *testing.T) {
	b := newTestTable(t)
	parent := b.sample(10, 4, 1, 3, "")
	b.ReadStarted(parent)
	b.fork(20, 4, 5)
	b.fork(21, 5, 6)
	child, grandchild := b.sample(30, 5, 20, 3, ""), b.sample(30, 6, 21, 3, "")
	if !child.WantsMaps() {
		t.Error("unknown like its parent")
	}
	b.Apply(&Event{Kind: EventMmap, Time: 25, PID: 6, TID: 6, Map: imageMap("/own")})
	if !b.SetMaps(parent, []MmapInfo{imageMap("/sh")}, 40, 0) {
		t.Fatal("refused")
	}
	b.sample(31, 5, 20, 3, "/sh")
	b.sample(31, 6, 21, 3, "/own")
	if child.WantsMaps() || grandchild.WantsMaps() {
		t.Error("the parent's mappings will do")
	}
}

// TestSetMapsOfTheDead has a process exit while its mappings are read: it keeps those that it had, and is not asked again at once.
func TestSetMapsOfTheDead(t *testing.T) {
	b := newTestTable(t)
	b.exec(10, 4, "/x")
	p := b.sample(11, 4, 0, 1, "/x")
	b.Suspect(p)
	if !p.WantsMaps() {
		t.Fatal("not suspected")
	}
	b.ReadStarted(p)
	if b.SetMaps(p, nil, 20, 0) || image(p) != "/x" || p.WantsMaps() {
		t.Errorf("has %q, wants maps %v", image(p), p.WantsMaps())
	}
	if s := b.Stats(); s.MapsFailed != 1 || s.MapsRead != 0 {
		t.Errorf("%+v", s)
	}
}

func TestSetMapsOfAnother(t *testing.T) {
	b := newTestTable(t)
	p := b.sample(10, 4, 5*clockTick+3, 3, "")
	b.ReadStarted(p)
	if p.WantsMaps() {
		t.Error("one read at a time")
	}
	if b.SetMaps(p, []MmapInfo{imageMap("/x")}, 20, 6*clockTick) || image(p) != "" {
		t.Error("maps of a process that started at another time")
	}
	if !p.WantsMaps() || !b.SetMaps(p, []MmapInfo{imageMap("/x")}, 20, 5*clockTick) || image(p) != "/x" {
		t.Error("maps of the same")
	}
	b.exec(30, 4, "/y")
	if b.SetMaps(p, nil, 25, 0) || image(p) != "/x" {
		t.Error("maps that were read around an exec")
	}
	if b.Stats().MapsDiscarded != 2 || b.Stats().MapsRead != 1 {
		t.Errorf("%+v", b.Stats())
	}
}

// truth is what a sample of the random histories below really is of.
type truth struct {
	time, start uint64
	pid         uint32
	execID      uint32
	image       string
	p           *Process
}

// TestRandomOrder makes up histories of forks, execs, exits and reuse of pids with samples all along, and delivers events
// and samples late, each in its own way. At the end every sample's process shows the program that it was of.
func TestRandomOrder(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 3))
		events, samples := history(r)
		type delivery struct {
			at uint64
			do func()
		}
		b := newTestTable(t)
		var all []delivery
		delay := uint64(0)
		for i := range events {
			if r.IntN(10) == 0 {
				delay = uint64(r.IntN(60))
			}
			at := events[i].Time + delay
			if n := len(all); n > 0 {
				at = max(at, all[n-1].at) // events stay in order
			}
			all = append(all, delivery{at, func() { b.Apply(&events[i]) }})
		}
		for i := range samples {
			s := &samples[i]
			all = append(all, delivery{s.time + uint64(r.IntN(60)), func() {
				s.p = b.SampleArrived(s.pid, s.time, s.start, s.execID)
			}})
		}
		slices.SortStableFunc(all, func(a, b delivery) int { return int(a.at) - int(b.at) })
		for _, d := range all {
			d.do()
		}
		if err := checkTable(b.Table, b.x); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for _, s := range samples {
			if got := image(s.p); got != s.image {
				t.Fatalf("seed %d: sample %+v is of %q", seed, s, got)
			}
		}
	}
}

// history makes up what happens on a host with few pids.
func history(r *rand.Rand) (events []Event, samples []truth) {
	type life struct {
		start  uint64
		execID uint32
		image  string
	}
	time, images := uint64(100), 0
	now := func() uint64 { time += uint64(1 + r.IntN(10)); return time }
	procs := map[uint32]*life{}
	exec := func(pid uint32) {
		images++
		p := procs[pid]
		p.image = fmt.Sprint("/image", images)
		p.execID++
		events = append(events, Event{Kind: EventExec, Time: now(), PID: pid, TID: pid},
			Event{Kind: EventMmap, Time: now(), PID: pid, TID: pid, Map: imageMap(p.image)})
	}
	procs[1] = &life{start: now()}
	events = append(events, Event{Kind: EventFork, Time: procs[1].start, PID: 1, TID: 1, PPID: 0})
	exec(1)
	for range 60 {
		pid := uint32(1 + r.IntN(4))
		p := procs[pid]
		switch n := r.IntN(8); {
		case p == nil:
			parent := uint32(1 + r.IntN(4))
			if procs[parent] == nil {
				continue
			}
			child := *procs[parent]
			child.start = now()
			procs[pid] = &child
			events = append(events, Event{Kind: EventFork, Time: child.start, PID: pid, TID: pid, PPID: parent, PTID: parent})
		case n == 0 && pid != 1:
			events = append(events, Event{Kind: EventExit, Time: now(), PID: pid, TID: pid})
			delete(procs, pid)
		case n <= 2:
			exec(pid)
		default:
			samples = append(samples, truth{time: now(), start: p.start, pid: pid, execID: p.execID, image: p.image})
		}
	}
	return events, samples
}
