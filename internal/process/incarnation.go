package process

// SampleArrived returns the incarnation that a sample belongs to, and makes one if none fits: then its mappings are
// unknown. time is the sample's (CLOCK_MONOTONIC, ns), start the group leader's start_boottime (ns), execID the task's
// self_exec_id. The sample may come after the exit, exec or fork event that it belongs before, and before the one that
// it belongs after.
func (t *Table) SampleArrived(pid uint32, time, start uint64, execID uint32) *Process {
	p := t.attribute(pid, time, start, execID)
	if p.state == Leaving && p.ended == 0 && time > p.exited {
		t.stats.Reanimated++
		t.revive(p)
	}
	t.trim(p)
	return p
}

// ExitingSampleArrived is SampleArrived for a sample of a task that has given its memory up: in the last part of exit,
// after the kernel has written the exit record, it still runs and is sampled. It makes nothing live again.
func (t *Table) ExitingSampleArrived(pid uint32, time, start uint64, execID uint32) *Process {
	p := t.attribute(pid, time, start, execID)
	t.trim(p)
	return p
}

// attribute finds or makes the incarnation that a sample belongs to, and notes what the sample tells of it.
func (t *Table) attribute(pid uint32, time, start uint64, execID uint32) *Process {
	newest := t.byPID[pid]
	p := choose(newest, time, start, execID)
	if p == nil {
		p = t.guess(newest, pid, time, start, execID)
	}
	if start != 0 {
		p.start, p.startExact = start, true
	}
	t.learnExecID(p, execID)
	first := p.sampled == 0
	if first || time < p.sampled {
		p.sampled = time
	}
	if p.seen == 0 || time < p.seen {
		p.seen = time
	}
	p.latest = max(p.latest, time)
	if p.state == Live && p.usedTick != t.tick { // keep it from being evicted
		p.usedTick = t.tick
		t.recent.MoveToFront(p.place)
	}
	p.adopt()
	if first {
		t.noteChange(p)
	}
	return p
}

// learnExecID notes p's exec id, which gives that of the programs after it.
func (t *Table) learnExecID(p *Process, id uint32) {
	known := p.execKnown
	p.execID, p.execKnown = id, true
	if known {
		return
	}
	next := t.byPID[p.PID]
	for next != nil && next.older != p {
		next = next.older
	}
	if next != nil && next.bornExact && !next.execKnown && next.Generation == p.Generation+1 {
		t.learnExecID(next, id+1)
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

// guess makes the incarnation that a sample tells of and no event did, or not yet, in its place in the chain of the pid.
func (t *Table) guess(newest *Process, pid uint32, time, start uint64, execID uint32) *Process {
	if newest == nil {
		p := t.newProcess(pid)
		t.insert(p, nil)
		return p
	}
	t.stats.Guessed++
	var later *Process
	earlier := newest
	for earlier != nil && earlier.laterThan(time, start, execID) {
		later, earlier = earlier, earlier.older
	}
	if later != nil && later.bornExact && later.born <= time && later.seen > time {
		return t.giveBack(later)
	}
	if later != nil && !later.bornExact {
		later.born = later.seen // something was there before it
	}
	p := t.newProcess(pid)
	p.born = time
	t.insert(p, later)
	if earlier != nil {
		if earlier.startedAt(start) {
			p.Generation, p.comm = earlier.Generation+1, earlier.comm
		}
		t.end(earlier, time)
	}
	if later != nil {
		p.maps = MapsGone // /proc speaks of a later one
		t.end(p, max(later.born, time+1))
	}
	return p
}

// giveBack makes an incarnation of what p was given by events of an earlier one, of which only now a sample came.
func (t *Table) giveBack(p *Process) *Process {
	before := t.split(p, p.seen)
	p.born, p.bornExact, p.maps = p.seen, false, MapsUnknown
	p.Version++
	t.noteChange(p)
	t.end(before, p.born)
	return before
}

// laterThan tells whether a sample that is not of p is of something that the pid stood for before p.
func (p *Process) laterThan(time, start uint64, execID uint32) bool {
	switch {
	case p.start == 0 || start == 0:
		return p.born > time
	case !p.startedAt(start):
		return p.start > start
	}
	return p.execKnown && int32(p.execID-execID) > 0
}

// startsAfter tells whether p is known to have begun only after the time of an event: because another event said when
// it began, or because it has no sample from before.
func (p *Process) startsAfter(time uint64) bool {
	return p.bornExact && p.born > time || p.seen != 0 && p.seen >= time
}

// skipsTo tells whether there was another exec between p and n, which is the next that is known.
func (p *Process) skipsTo(n *Process) bool {
	return p.start != 0 && n.start != 0 && p.startedAt(n.start) && p.execKnown && n.execKnown && int32(n.execID-p.execID) > 1
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
	t.insert(p, nil)
	t.trim(p)
	return p
}
