package process

import "math"

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

func (t *Table) fork(e *Event) {
	if e.PID == e.PPID {
		t.newThread(e)
		return
	}
	t.stats.Forks++
	parent := t.at(e.PPID, e.Time)
	child := t.byPID[e.PID]
	for child != nil && child.Generation > 0 && child.older != nil && !child.older.bornExact && child.older.seen >= e.Time {
		child = child.older // samples told of the exec after this fork, too
	}
	switch {
	case child == nil:
	case !child.bornExact && child.seen >= e.Time:
		// A sample or a read of /proc was quicker than this event.
		t.confirmFork(child, parent, e)
		return
	case child.born >= e.Time:
		return // the past of something that is known already
	default:
		t.end(child, e.Time)
	}
	child = t.newProcess(e.PID)
	child.born, child.bornExact = e.Time, true
	t.inherit(child, parent, e)
	t.insert(child)
	t.trim(child)
}

// confirmFork dates a process that was known before its fork event came.
func (t *Table) confirmFork(child, parent *Process, e *Event) {
	child.born, child.bornExact = e.Time, true
	if child.older != nil && child.older.ended != 0 {
		t.end(child.older, e.Time)
	}
	if child.maps != MapsUnknown {
		return
	}
	child.flush()
	own := child.list
	own.refs++
	t.inherit(child, parent, e)
	if len(own.m) > 0 {
		t.setList(child, t.newList(paint(child.list.m, own.m, false)))
	}
	t.releaseList(own)
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
	if parent.execKnown && !child.execKnown {
		child.execID, child.execKnown = parent.execID, true
	}
	parent.adopt()
	parent.flush()
	if parent.mapsTime <= e.Time {
		t.setList(child, parent.list)
	} else {
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

func (t *Table) exec(e *Event) {
	t.stats.Execs++
	p := t.byPID[e.PID]
	switch {
	case p == nil:
		p = t.newProcess(e.PID)
		t.insert(p)
	case p.bornExact && p.born > e.Time || p.older != nil && max(p.older.exited, p.older.latest) > e.Time:
		return // the past of something that is known already
	case p.sampled != 0 && p.sampled >= e.Time:
		// Samples were quicker than this event: all that p was given are of the new image.
		t.splitBefore(p, e.Time)
	default:
		p = t.succeed(p, e.Time)
		if p.older.execKnown {
			p.execID, p.execKnown = p.older.execID+1, true
		}
	}
	p.born, p.bornExact = e.Time, true
	p.comm = e.Comm
	p.maps, p.origin = MapsKnown, nil
	p.lostEpoch = t.lostEpoch
	p.Version++
	t.noteChange(p)
	t.trim(p)
}

// succeed makes the incarnation after p, which ends.
func (t *Table) succeed(p *Process, time uint64) *Process {
	t.end(p, time)
	n := t.newProcess(p.PID)
	n.Generation = p.Generation + 1
	n.start, n.startExact = p.start, p.startExact
	n.comm = p.comm
	t.insert(n)
	return n
}

// splitBefore makes p begin at the time of an exec that comes to be known late. What p was before becomes an incarnation
// of its own, so that the samples that hold p keep holding the right one.
func (t *Table) splitBefore(p *Process, time uint64) {
	p.flush()
	if p.bornExact && p.born < time {
		before := t.newProcess(p.PID)
		p.clone(before)
		before.older, p.older = p.older, before
		if p.execKnown {
			before.execID, before.execKnown = p.execID-1, true
		}
		p.Generation++
		t.cut(t.byPID[p.PID])
	}
	if p.older != nil {
		t.end(p.older, time)
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
	t.leave(p)
}

func (t *Table) mmap(e *Event) {
	p := t.at(e.PID, e.Time)
	if p == nil {
		t.stats.UnknownPID++
		return
	}
	if e.Time <= p.mapsTime || e.Map.Start >= e.Map.End {
		return // the read of /proc has seen it
	}
	p.add(t.mapped(&e.Map, p.PID, e.Time))
}

// mapped makes a mapping that holds a reference on its file.
func (t *Table) mapped(m *MmapInfo, pid uint32, time uint64) MappedFile {
	var mf MappedFile
	mf.Start, mf.End, mf.Time = m.Start, m.End, time
	if !m.Anonymous {
		mf.File = t.files.Acquire(m, pid)
		mf.Offset = m.Offset
	}
	return mf
}

// ReadStarted notes that /proc/PID/maps of p is being read; SetMaps or ReadFailed follows.
func (t *Table) ReadStarted(p *Process) {
	p.reading = true
	p.readEpoch = t.lostEpoch
}

// SetMaps takes the executable mappings of p as read from /proc after readTime (CLOCK_MONOTONIC, ns). Events since
// readTime, whether they came already or will come, are laid over them; older ones are forgotten. start is the
// process's start time as read along with the maps (ns of CLOCK_BOOTTIME, to the clock tick), 0 if unknown: it tells
// whether the pid still stood for p. It returns false if it did not.
func (t *Table) SetMaps(p *Process, read []MmapInfo, readTime, start uint64) bool {
	p.reading = false
	if p.state == Removed || p.ended != 0 || !p.startedAbout(start) || readTime < p.born {
		t.stats.MapsDiscarded++
		return false
	}
	if p.start == 0 {
		p.start = start
	}
	p.flush()
	layers := make([]MappedFile, 0, len(read)+len(p.list.m))
	for i := range read {
		if read[i].Start < read[i].End {
			layers = append(layers, t.mapped(&read[i], p.PID, readTime))
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
