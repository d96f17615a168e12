package process

// SampleArrived returns the incarnation that a sample belongs to, and makes one if none fits: then its mappings are
// unknown. time is the sample's (CLOCK_MONOTONIC, ns), start the group leader's start_boottime (ns), execID the task's
// self_exec_id. The sample may come after the exit, exec or fork event that it belongs before, and before the one that
// it belongs after.
func (t *Table) SampleArrived(pid, tid uint32, time, start uint64, execID uint32) *Process {
	newest := t.byPID[pid]
	p := choose(newest, time, start, execID)
	if p == nil {
		p = t.guess(newest, pid, time, start, execID)
	}
	if start != 0 {
		p.start, p.startExact = start, true
	}
	p.execID, p.execKnown = execID, true
	first := p.sampled == 0
	if first || time < p.sampled {
		p.sampled = time
	}
	if p.seen == 0 || time < p.seen {
		p.seen = time
	}
	p.latest = max(p.latest, time)
	t.used(p, time)
	p.adopt()
	if first {
		t.noteChange(p)
	}
	t.trim(p)
	return p
}

// used keeps p from being evicted, and revives it if it runs after its exit.
func (t *Table) used(p *Process, time uint64) {
	switch {
	case p.state == Leaving && p.ended == 0 && time > p.exited:
		t.stats.Reanimated++
		t.revive(p)
	case p.state == Live && p.usedTick != t.tick:
		p.usedTick = t.tick
		t.recent.MoveToFront(p.place)
	}
}

// choose returns the incarnation of a chain that a sample belongs to, nil if none fits.
func choose(newest *Process, time, start uint64, execID uint32) *Process {
	for p := newest; p != nil; p = p.older {
		if !p.startedAt(start) || p.execKnown && p.execID != execID {
			continue
		}
		// Start and exec id name an incarnation for certain. With the start unknown they do not: siblings that had
		// the pid one after the other have the exec id of their parent.
		if p.start != 0 && p.execKnown || p.contains(time) {
			return p
		}
	}
	return nil
}

// guess makes the incarnation that a sample tells of and no event did, or not yet.
func (t *Table) guess(newest *Process, pid uint32, time, start uint64, execID uint32) *Process {
	if newest == nil {
		p := t.newProcess(pid)
		t.insert(p)
		return p
	}
	t.stats.Guessed++
	switch relate(newest, time, start, execID) {
	case sampleOfNextImage:
		p := t.succeed(newest, time)
		p.born = time
		return p
	case sampleOfNextProcess:
		t.end(newest, time)
		p := t.newProcess(pid)
		p.born = time
		t.insert(p)
		return p
	}
	// Older than all that is known; /proc speaks of a newer one.
	p := t.newProcess(pid)
	p.maps = MapsGone
	oldest := newest
	for n := 1; oldest.older != nil; n++ {
		if n == t.options.MaxIncarnations-1 {
			t.stats.IncarnationsCut++
			t.remove(oldest.older)
			break
		}
		oldest = oldest.older
	}
	oldest.older = p
	p.ended = max(oldest.born, time+1)
	t.leave(p)
	return p
}

type relation uint8

const (
	sampleOfThePast relation = iota
	sampleOfNextImage
	sampleOfNextProcess
)

// relate tells how a sample that is not of the newest incarnation, or of any other known one, relates to it.
func relate(newest *Process, time, start uint64, execID uint32) relation {
	if !newest.startedAt(start) {
		if start > newest.start {
			return sampleOfNextProcess
		}
		return sampleOfThePast
	}
	switch {
	case newest.execKnown && int32(execID-newest.execID) > 0 && time >= newest.born:
		return sampleOfNextImage
	case newest.start == 0 && newest.ended == 0 && time >= newest.born:
		return sampleOfNextProcess
	case newest.ended != 0 && time >= newest.ended:
		return sampleOfNextProcess
	}
	return sampleOfThePast
}

// Reconcile compares the table with the pids that /proc listed after readTime (CLOCK_MONOTONIC, ns). Processes that were
// there before and are not listed leave; their exit was lost. It returns the listed pids that are not in the table.
func (t *Table) Reconcile(pids []uint32, readTime uint64) (unknown []uint32) {
	listed := make(map[uint32]bool, len(pids))
	for _, pid := range pids {
		listed[pid] = true
		if _, known := t.byPID[pid]; !known {
			unknown = append(unknown, pid)
		}
	}
	for pid, p := range t.byPID {
		if !listed[pid] && p.state == Live && p.born <= readTime && p.seen <= readTime && p.latest <= readTime {
			p.exited = max(p.exited, readTime)
			t.leave(p)
		}
	}
	return unknown
}

// Add makes an entry for a process that /proc listed after readTime, if the pid has none: its mappings are unknown.
func (t *Table) Add(pid uint32, readTime uint64) *Process {
	if p, known := t.byPID[pid]; known {
		return p
	}
	p := t.newProcess(pid)
	p.seen = readTime
	t.insert(p)
	t.trim(p)
	return p
}
