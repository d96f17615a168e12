package process

import (
	"math"
	"sort"
	"strings"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// Apply takes one event. Events come in the order of their times as far as the kernel's buffers allow; one that is late
// goes to the incarnation that its time belongs to.
func (t *Table) Apply(e *Event) {
	t.stats.Events++
	if e.PID == 0 || e.PID == math.MaxUint32 {
		// The idle task; or (-1) a process of another pid namespace, which the kernel cannot name for this one:
		// perf_event_pid_type() in kernel/events/core.c of Linux 6.1.
		t.stats.UnknownPID++
		return
	}
	switch e.Kind {
	case EventFork:
		t.fork(e)
	case EventExec:
		t.exec(e)
	case EventExit:
		t.exit(e)
	case EventMmap:
		t.mmap(e)
	case EventComm:
		if p := t.at(e.PID, e.Time); p != nil {
			p.setComm(e.TID, e.Comm)
		} else {
			t.stats.UnknownPID++
		}
	}
}

// at returns the incarnation that the pid stood for at the time, nil if it is not in the table.
func (t *Table) at(pid uint32, time uint64) *Process {
	p := t.byPID[pid]
	for p != nil && p.born > time {
		p = p.older
	}
	return p
}

// around splits the chain of a pid at the time of an event that came now: after is the oldest incarnation that is known
// to belong to the time after it, because an event or its first sample says so; before is the one older than that.
func (t *Table) around(pid uint32, time uint64) (before, after *Process) {
	before = t.byPID[pid]
	for before != nil && before.startsAfter(time) {
		before, after = before.older, before
	}
	return before, after
}

// fork begins a process, or a thread. Samples of it may have been quicker than this event.
func (t *Table) fork(e *Event) {
	if e.PID == e.PPID {
		t.newThread(e)
		return
	}
	t.stats.Forks++
	parent := t.at(e.PPID, e.Time)
	before, child := t.around(e.PID, e.Time)
	switch {
	case child == nil:
		child = t.newProcess(e.PID)
		t.insert(child, nil)
	case child.bornExact && child.born > e.Time:
		return // the past of something that is known already
	case child.bornExact:
		// Events of an earlier process of the pid were taken for those of this one.
		t.split(child, e.Time)
		before = child.older
		child.comm, child.maps = "", MapsUnknown
	}
	child.born, child.bornExact, child.Generation = e.Time, true, 0
	if before != nil {
		t.end(before, e.Time)
	}
	if child.maps != MapsKnown {
		t.inherit(child, parent, e)
	}
	t.trim(child)
}

// inherit gives a child what fork gives it: the parent's mappings, its name and its exec id.
func (t *Table) inherit(child, parent *Process, e *Event) {
	if parent == nil || parent == child {
		return
	}
	comm, ok := parent.ThreadComm(e.PTID)
	if !ok {
		comm = parent.comm
	}
	if child.comm == "" {
		child.comm = comm
	}
	// A parent that was only seen after the fork may have been through an exec since that is still to come.
	if parent.execKnown && !child.execKnown && !(parent.seen != 0 && parent.seen >= e.Time) {
		child.execID, child.execKnown = parent.execID, true
	}
	parent.adopt()
	parent.flush()
	child.flush()
	switch {
	case len(child.list.m) > 0:
		t.setList(child, t.newList(paint(notAfter(parent.list.m, e.Time), child.list.m, false)))
	case parent.mapsTime <= e.Time:
		t.setList(child, parent.list)
	default:
		t.setList(child, t.newList(notAfter(parent.list.m, e.Time)))
	}
	child.maps, child.mapsTime, child.lostEpoch = parent.maps, min(parent.mapsTime, e.Time), parent.lostEpoch
	if parent.maps == MapsUnknown {
		child.origin = parent
		if parent.origin != nil {
			child.origin = parent.origin // so that no chain of them grows
		}
	}
	child.Version++
	t.noteChange(child)
}

// newThread notes a thread and the name that it has from the one that made it.
func (t *Table) newThread(e *Event) {
	p := t.at(e.PID, e.Time)
	if p == nil {
		t.stats.UnknownPID++
		return
	}
	if comm, ok := p.ThreadComm(e.PTID); ok && e.TID != e.PID {
		p.setComm(e.TID, comm)
	}
}

// exec begins a program. Samples of it may have been quicker than this event.
func (t *Table) exec(e *Event) {
	t.stats.Execs++
	before, p := t.around(e.PID, e.Time)
	switch {
	case p != nil && p.bornExact && p.born > e.Time:
		return // the past of something that is known already
	case p == nil && before == nil:
		p = t.newProcess(e.PID)
		t.insert(p, nil)
	case p == nil || before != nil && !p.bornExact && before.skipsTo(p):
		p = t.succeed(before, p)
		if before.execKnown {
			p.execID, p.execKnown = before.execID+1, true
		}
	default:
		t.split(p, e.Time)
		before = p.older
	}
	if before != nil {
		t.end(before, e.Time)
	}
	p.born, p.bornExact = e.Time, true
	p.comm = e.Comm
	p.maps, p.origin = MapsKnown, nil
	p.lostEpoch = t.lostEpoch
	p.Version++
	t.noteChange(p)
	t.trim(p)
}

// succeed makes the incarnation that an exec turns p into. If a later one is known already, it goes in between.
func (t *Table) succeed(p, later *Process) *Process {
	n := t.newProcess(p.PID)
	n.Generation = p.Generation + 1
	n.start, n.startExact = p.start, p.startExact
	n.comm = p.comm
	t.insert(n, later)
	if later != nil {
		later.Generation = n.Generation + 1
		t.end(n, later.born)
	}
	return n
}

// split makes p begin at the time of an event that comes to be known after samples that p was given because of it. What
// p was before becomes an incarnation of its own, which is returned: so what holds p because of the samples goes on to
// hold the right one. The result is nil if p was not there before, and already removed if the chain is full.
func (t *Table) split(p *Process, time uint64) (before *Process) {
	p.merge(false)
	if p.bornExact && p.born < time {
		before = t.newProcess(p.PID)
		p.clone(before)
		t.insert(before, p)
		p.Generation++
	}
	var after []MappedFile
	for _, m := range p.list.m {
		if m.Time >= time {
			after = append(after, m)
		}
	}
	t.setList(p, t.newList(after))
	for tid := range p.threads {
		p.forgetThread(tid)
	}
	p.leaderGone, p.exited = false, 0
	if p.state == Leaving && p.ended == 0 {
		t.revive(p)
	}
	return before
}

// exit notes that a thread ended. The process may go on after its leader, and which threads it has is not always known;
// so it leaves with its leader and with every thread after that, and a later sample makes it live again.
func (t *Table) exit(e *Event) {
	t.stats.Exits++
	p := t.at(e.PID, e.Time)
	if p == nil {
		t.stats.UnknownPID++
		return
	}
	if e.TID != e.PID {
		p.forgetThread(e.TID)
		if !p.leaderGone {
			return
		}
	}
	p.leaderGone = true
	p.exited = max(p.exited, e.Time)
	if p.latest <= e.Time {
		t.leave(p)
	}
}

func (t *Table) mmap(e *Event) {
	p := t.at(e.PID, e.Time)
	if p == nil {
		t.stats.UnknownPID++
		return
	}
	if e.Map.Start >= e.Map.End {
		return
	}
	if e.Time <= p.mapsTime {
		p.doubt(e) // the read of /proc has seen it
		return
	}
	p.add(t.mapped(&e.Map, p.PID, e.Time))
}

// HoldsCode tells that the anonymous memory m, as Mappings of p had it, holds the code of a file from offset on, which was mapped
// around it: from now on it counts as mapped from there. What is mapped over it later hides it as it would have hidden the
// memory; a read of /proc that finds anonymous memory at just that place changes nothing, unless events were lost. It returns false
// if p has something else there by now.
func (t *Table) HoldsCode(p *Process, m *MappedFile, file *File, offset unwind.FileOffset) bool {
	if p.state == Removed {
		return false
	}
	is, ok := p.Find(m.Start)
	if !ok || is.File != nil || is.Start != m.Start || is.End != m.End || is.Time != m.Time {
		return false
	}
	n := *is
	n.File, n.Offset, n.Name = file, offset, copiedText
	t.files.retain(file)
	p.add(n)
	return true
}

// keepMemory takes over what was known of anonymous memory that a read of /proc has found where it was: since when it is there, and
// that it holds code of a file. If events were lost, it may be other memory, or hold something else.
func (t *Table) keepMemory(p *Process, read *MappedFile) {
	if read.File != nil || p.maps != MapsKnown || p.lostEpoch != p.readEpoch {
		return
	}
	was, ok := p.list.find(read.Start)
	if !ok || !was.memory() || was.Start != read.Start || was.End != read.End || was.Time > read.Time {
		return
	}
	read.Time = was.Time
	if was.File != nil {
		read.File, read.Offset, read.Name = was.File, was.Offset, was.Name
		t.files.retain(was.File)
	}
}

// doubt takes an event that a read of /proc has seen. Memory that was there before the event, and that the read has found unchanged,
// may hold something else since: what is known of it holds no more.
func (p *Process) doubt(e *Event) {
	p.flush()
	list := p.list.m
	first := sort.Search(len(list), func(i int) bool { return list[i].End > e.Map.Start })
	for _, m := range list[first:] {
		if m.Start >= e.Map.End {
			return
		}
		if !m.memory() || m.Time >= e.Time {
			continue
		}
		if m.File != nil {
			m.File, m.Offset, m.Name = nil, 0, ""
		}
		m.Time = e.Time
		p.add(m)
	}
}

// mapped makes a mapping that holds a reference on its file.
func (t *Table) mapped(m *MmapInfo, pid uint32, time uint64) MappedFile {
	var mf MappedFile
	mf.Start, mf.End, mf.Time = m.Start, m.End, time
	if m.Anonymous {
		mf.Name = nameOf(m.Path)
	} else {
		mf.File = t.files.Acquire(m, pid)
		mf.Offset = m.Offset
	}
	return mf
}

// maxMemoryName bounds the name of anonymous memory: the kernel's own are shorter.
const maxMemoryName = 96

// nameOf is what tells one anonymous memory from others, empty if nothing does: what the kernel calls memory that processes share
// is no name.
func nameOf(path string) string {
	switch path = Undeleted(path); path {
	case "", "//anon", "/dev/zero", "/anon_hugepage":
		return ""
	}
	return strings.Clone(path[:min(len(path), maxMemoryName)])
}

// ReadStarted notes that /proc/PID/maps of p is being read; SetMaps or ReadFailed follows.
func (t *Table) ReadStarted(p *Process) {
	p.reading = true
	p.readEpoch = t.lostEpoch
}

// SetMaps takes the executable mappings of p as read from /proc after readTime (CLOCK_MONOTONIC, ns). Events since
// readTime, whether they came already or will come, are laid over them; older ones are forgotten, but for what they told of
// anonymous memory that is still there. start is the
// process's start time as read along with the maps (ns of CLOCK_BOOTTIME, to the clock tick), 0 if unknown: it tells
// whether the pid still stood for p. It returns false if it did not, or has no mappings any more.
func (t *Table) SetMaps(p *Process, read []MmapInfo, readTime, start uint64) bool {
	p.reading = false
	if p.state == Removed || p.ended != 0 || !p.startedAbout(start) || readTime < p.born {
		t.stats.MapsDiscarded++
		return false
	}
	if p.start == 0 {
		p.start = start
	}
	p.merge(false)
	if len(read) == 0 && len(p.list.m) > 0 {
		t.ReadFailed(p) // it has exited, or is about to: what it had is what its samples need
		return false
	}
	layers := make([]MappedFile, 0, len(read)+len(p.list.m))
	for i := range read {
		if read[i].Start < read[i].End {
			layers = append(layers, t.mapped(&read[i], p.PID, readTime))
			t.keepMemory(p, &layers[len(layers)-1])
		}
	}
	acquired := len(layers)
	for _, m := range p.list.m {
		if m.Time > readTime {
			layers = append(layers, m)
		}
	}
	t.setList(p, t.newList(paint(nil, layers, false)))
	for i := range layers[:acquired] {
		if layers[i].File != nil {
			t.files.release(layers[i].File)
		}
	}
	t.stats.MapsRead++
	p.maps, p.mapsTime, p.origin = MapsKnown, readTime, nil
	p.lostEpoch, p.suspect, p.trustTick = p.readEpoch, false, t.tick+trustTicks
	p.readFails = 0
	if p.seen == 0 || readTime < p.seen {
		p.seen = readTime
	}
	p.Version++
	t.noteChange(p)
	return true
}

// ReadFailed tells that the maps of p could not be read. The next try waits one tick, then two, up to 64.
func (t *Table) ReadFailed(p *Process) {
	t.stats.MapsFailed++
	p.reading = false
	p.readTick = t.tick + 1<<p.readFails
	p.readFails = min(p.readFails+1, 6)
}
