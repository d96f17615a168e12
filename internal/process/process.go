package process

import (
	"container/list"
	"unsafe"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// State is where an incarnation is in its life.
type State uint8

const (
	// Live: runs, as far as is known.
	Live State = iota
	// Leaving: has exited, or exec has replaced it; it stays for two ticks for the samples that are still under way. A
	// later sample makes an exited one live again: threads may outlive their leader.
	Leaving
	// Removed: no longer in the Table.
	Removed
)

// MapsState says what is known of an incarnation's mappings.
type MapsState uint8

const (
	// MapsUnknown: it ran before its events were seen; /proc has to be read.
	MapsUnknown MapsState = iota
	// MapsKnown: every mapping since its exec was seen, or /proc was read.
	MapsKnown
	// MapsGone: they can no longer be learned, since the pid stands for something else by now.
	MapsGone
)

// clockTick is how coarse /proc/PID/stat shows start times: USER_HZ is 100 on amd64 and arm64.
const clockTick = 10_000_000 // ns

// Process is one incarnation of a pid: from a fork or an exec to the next exec or the exit. The engine may hold on to
// it; the Table removes it, then its state is Removed and its mappings stay readable.
type Process struct {
	PID    uint32
	Serial uint64 // unique in its Table, never used again
	// Generation counts the execs since the pid's process was first seen.
	Generation uint32
	// Version changes whenever the mappings may have changed.
	Version uint64
	// Attachment is the engine's own, untouched here.
	Attachment any

	table      *Table
	state      State
	start      uint64 // kernel's start_boottime of the group leader, ns; 0 unknown
	startExact bool   // to the nanosecond, not to the clock tick
	execID     uint32 // task_struct.self_exec_id
	execKnown  bool

	// Times are CLOCK_MONOTONIC, ns. born is exact if an event told it, otherwise a time at which it surely ran already,
	// or 0. ended is set once exec or another process has taken its place; exited, when an exit record came.
	born, ended, exited uint64
	bornExact           bool
	seen                uint64 // earliest sample or read of /proc that it was given; 0 none
	sampled             uint64 // earliest sample; 0 none
	latest              uint64 // latest sample
	leaderGone          bool
	leftTick            uint64

	comm    string
	threads map[uint32]string // comm by tid, of threads that were seen to start or to be renamed

	list    *mapList
	pending []MappedFile // in order of arrival

	maps      MapsState
	mapsTime  uint64 // of the read of /proc that the mappings are based on
	lostEpoch uint64 // Table.lostEpoch that the mappings account for
	suspect   bool   // a sample contradicted the mappings
	trustTick uint64 // none can before it
	reading   bool
	readTick  uint64 // no read before it
	readFails uint8
	readEpoch uint64   // Table.lostEpoch when the read started
	origin    *Process // parent with unknown mappings, whose mappings will do once they are known
	changed   bool     // is in Table.changed

	older    *Process      // the pid's previous incarnation
	usedTick uint64        // of the latest sample
	place    *list.Element // in Table.recent or Table.left
	bytes    uint64        // accounted in Table.bytes for threads and pending
}

const processBytes = uint64(unsafe.Sizeof(Process{})) + 64

// State tells where the incarnation is in its life.
func (p *Process) State() State { return p.state }

// StartTime returns when the process (its group leader) started, in ns of CLOCK_BOOTTIME; 0 if not known yet. It may be
// known only to the clock tick (10 ms) until the first sample.
func (p *Process) StartTime() uint64 { return p.start }

// Ended returns when another program (by exec) or another process took its place, in ns of CLOCK_MONOTONIC; 0 if none has, as far as
// is known. What /proc says of the pid since is not about it.
func (p *Process) Ended() uint64 { return p.ended }

// ExecID returns the kernel's count of execs along the chain of forks, as samples carry it.
func (p *Process) ExecID() (id uint32, known bool) { return p.execID, p.execKnown }

// Sampled tells whether a sample was ever attributed to it.
func (p *Process) Sampled() bool { return p.sampled != 0 }

// Maps tells what is known of the mappings.
func (p *Process) Maps() MapsState { return p.maps }

// Find returns the executable mapping that contains a. The result is valid as long as the caller likes, and is not to be
// changed: other processes share it.
func (p *Process) Find(a unwind.Addr) (*MappedFile, bool) {
	p.flush()
	return p.list.find(a)
}

// Mappings returns the executable mappings, sorted and disjoint. They are shared with other processes and never change.
func (p *Process) Mappings() []MappedFile {
	p.flush()
	return p.list.m
}

// Comm returns the name of the process, that is of its leader.
func (p *Process) Comm() string { return p.comm }

// ThreadComm returns the name of a thread; ok is false if it was never seen.
func (p *Process) ThreadComm(tid uint32) (comm string, ok bool) {
	if tid == p.PID {
		return p.comm, p.comm != ""
	}
	comm, ok = p.threads[tid]
	return comm, ok
}

// WantsMaps tells whether /proc/PID/maps should be read now: the mappings are unknown, or events were lost, or a sample
// contradicted them; and no read is under way or failed lately.
func (p *Process) WantsMaps() bool {
	if p.reading || p.ended != 0 || p.state == Removed || p.table.tick < p.readTick {
		return false
	}
	p.adopt()
	return p.maps == MapsUnknown || p.suspect || p.LostEvents()
}

// LostEvents tells whether events were lost since the mappings were known: they may be others.
func (p *Process) LostEvents() bool { return p.maps == MapsKnown && p.lostEpoch != p.table.lostEpoch }

// contains tells whether the incarnation was the pid's at the time.
func (p *Process) contains(time uint64) bool {
	return p.born <= time && (p.ended == 0 || time < p.ended)
}

// startedAt tells whether the process may be the one that started then.
func (p *Process) startedAt(start uint64) bool {
	switch {
	case p.start == 0 || start == 0:
		return true
	case p.startExact:
		return p.start == start
	}
	return p.start/clockTick == start/clockTick
}

// startedAbout is startedAt for a time that is known to the clock tick only.
func (p *Process) startedAbout(start uint64) bool {
	return p.start == 0 || start == 0 || p.start/clockTick == start/clockTick
}

// add notes a mapping. The list is merged when somebody looks, or when so much waits that merging costs little per
// mapping: code that maps ten thousand times without being sampled costs ten thousand appends and a few merges.
func (p *Process) add(m MappedFile) {
	p.pending = append(p.pending, m)
	p.Version++
	p.table.bytes += mappedFileBytes
	p.bytes += mappedFileBytes
	p.table.noteChange(p)
	if len(p.pending) >= max(256, len(p.list.m)) {
		p.flush()
	}
}

// flush merges what waits into a list of the process's own. Mappings of different times are joined only if no read of
// /proc is under way, whose time could lie between theirs.
func (p *Process) flush() { p.merge(p.maps == MapsKnown && !p.reading) }

func (p *Process) merge(join bool) {
	if len(p.pending) == 0 {
		return
	}
	t := p.table
	merged, head, tail := paintOver(p.list.m, p.pending, join)
	if len(merged) > t.options.MaxMappings {
		t.stats.MappingsDropped += uint64(len(merged) - t.options.MaxMappings*3/4)
		merged = newest(merged, t.options.MaxMappings*3/4)
		head, tail = 0, 0
		t.Suspect(p)
	}
	t.replaceList(p, merged, head, tail)
	t.dropPending(p)
}

// adopt takes over the mappings of a parent that were not known at the fork and are by now.
func (p *Process) adopt() {
	o := p.origin
	if o == nil || p.maps != MapsUnknown || o.maps != MapsKnown && o.state != Removed {
		return
	}
	p.origin = nil
	if o.state == Removed {
		return // its files may have been forgotten
	}
	p.flush()
	base := notAfter(o.Mappings(), p.born)
	p.table.setList(p, p.table.newList(paint(base, p.list.m, false)))
	p.maps, p.lostEpoch, p.mapsTime = MapsKnown, o.lostEpoch, p.born
	p.Version++
	p.table.noteChange(p)
}

// notAfter returns m with times of at most time: what a fork inherits is older than whatever the child maps, even if it
// came to be known later.
func notAfter(m []MappedFile, time uint64) []MappedFile {
	out := make([]MappedFile, len(m))
	copy(out, m)
	for i := range out {
		out[i].Time = min(out[i].Time, time)
	}
	return out
}

// setComm names a thread.
func (p *Process) setComm(tid uint32, comm string) {
	if tid == p.PID {
		p.comm = comm
		return
	}
	t := p.table
	if _, known := p.threads[tid]; !known {
		if len(p.threads) >= t.options.MaxThreads {
			t.stats.ThreadsDropped++
			return
		}
		if p.threads == nil {
			p.threads = make(map[uint32]string)
		}
		t.bytes += threadBytes
		p.bytes += threadBytes
	}
	p.threads[tid] = comm
}

// threadBytes is about what a thread's name takes.
const threadBytes = 64

// forgetThread drops the name of a thread that has exited.
func (p *Process) forgetThread(tid uint32) {
	if _, known := p.threads[tid]; known {
		delete(p.threads, tid)
		p.table.bytes -= threadBytes
		p.bytes -= threadBytes
	}
}

// clone copies what is known of p for an incarnation that turned out to lie before it; not the start time and the exec
// id, which p has from its samples.
func (p *Process) clone(q *Process) {
	q.born, q.bornExact, q.Generation = p.born, p.bornExact, p.Generation
	q.comm = p.comm
	for tid, comm := range p.threads {
		q.setComm(tid, comm)
	}
	q.maps, q.mapsTime, q.lostEpoch = p.maps, p.mapsTime, p.lostEpoch
	p.table.setList(q, p.list)
}
