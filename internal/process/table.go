package process

import (
	"container/list"
	"unsafe"
)

// Files gives mappings their File; it is an Executables. Refs are counted per mapping and list.
type Files interface {
	Acquire(m *MmapInfo, pid uint32) *File
	retain(f *File)
	release(f *File)
}

// Options bound a Table. A zero field means its default.
type Options struct {
	MaxProcesses    int // incarnations in the table; default 65,536
	MaxIncarnations int // of one pid; default 16
	MaxMappings     int // executable mappings of one process; default 131,072
	MaxThreads      int // named threads of one process; default 4,096
}

func (o Options) withDefaults() Options {
	set := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	set(&o.MaxProcesses, 65536)
	set(&o.MaxIncarnations, 16)
	set(&o.MaxMappings, 131072)
	set(&o.MaxThreads, 4096)
	o.MaxIncarnations = max(o.MaxIncarnations, 2)
	return o
}

// Stats counts what a Table did since it was made.
type Stats struct {
	Events          uint64
	UnknownPID      uint64 // events of pids that are not in the table; a read of /proc will cover them
	Forks, Execs    uint64
	Exits           uint64
	Reanimated      uint64 // samples of a process after its exit record
	Guessed         uint64 // incarnations that only a sample told of: their event is late or lost
	Expired         uint64
	Evicted         uint64 // dropped to stay within MaxProcesses or for memory
	IncarnationsCut uint64 // dropped to stay within MaxIncarnations
	MappingsDropped uint64 // dropped to stay within MaxMappings
	ThreadsDropped  uint64 // names not kept, to stay within MaxThreads
	MapsRead        uint64
	MapsFailed      uint64
	MapsDiscarded   uint64 // read for a process that was no longer there
}

// Table is the state of all processes. It is owned by one goroutine.
type Table struct {
	options Options
	files   Files
	byPID   map[uint32]*Process // the newest incarnation of each
	count   int                 // incarnations, older ones included
	recent  *list.List          // of live *Process, most recently used first
	left    *list.List          // of leaving *Process, in the order of leaving
	changed []*Process
	removed []*Process
	empty   *mapList

	tick      uint64
	serial    uint64
	lostEpoch uint64
	bytes     uint64
	stats     Stats
}

// leavingTicks is how many whole ticks a process stays after it has exited.
const leavingTicks = 2

// NewTable returns an empty table whose mappings refer to files.
func NewTable(files Files, o Options) *Table {
	return &Table{
		options: o.withDefaults(),
		files:   files,
		byPID:   make(map[uint32]*Process),
		recent:  list.New(),
		left:    list.New(),
		empty:   &mapList{refs: 1},
	}
}

// Stats returns the counters.
func (t *Table) Stats() Stats { return t.stats }

// Len returns the number of incarnations.
func (t *Table) Len() int { return t.count }

// Bytes estimates the memory that processes and mapping lists take. Lists that processes share count once.
func (t *Table) Bytes() uint64 { return t.bytes }

// Current returns the pid's newest incarnation.
func (t *Table) Current(pid uint32) (*Process, bool) {
	p, ok := t.byPID[pid]
	return p, ok
}

// Processes calls f for every incarnation until f returns false, in no particular order. f does not change the table.
func (t *Table) Processes(f func(*Process) bool) {
	for _, p := range t.byPID {
		for ; p != nil; p = p.older {
			if !f(p) {
				return
			}
		}
	}
}

// TakeChanged returns the sampled processes whose Version changed since the last call. Others change too, but nobody
// needs their mappings yet; a process is in the result after its first sample.
func (t *Table) TakeChanged() []*Process {
	out := t.changed
	t.changed = nil
	for _, p := range out {
		p.changed = false
	}
	return out
}

// TakeRemoved returns the processes that left the table since the last call, if they were ever sampled.
func (t *Table) TakeRemoved() []*Process {
	out := t.removed
	t.removed = nil
	return out
}

func (t *Table) noteChange(p *Process) {
	if p.sampled != 0 && !p.changed && p.state != Removed {
		p.changed = true
		t.changed = append(t.changed, p)
	}
}

// Lost tells that the kernel dropped events: every process's mappings are read again when it is sampled next.
func (t *Table) Lost() { t.lostEpoch++ }

// Suspect tells that a sample contradicted the mappings of p (its pc lies in none of them, or the bytes there are not the
// file's): they are read again, at most every fourth tick.
func (t *Table) Suspect(p *Process) {
	if p.maps == MapsKnown && t.tick >= p.trustTick {
		p.suspect = true
	}
}

// trustTicks is how long mappings that were read are not doubted.
const trustTicks = 4

// Tick ends an interval: processes that left two whole intervals ago are removed.
func (t *Table) Tick() {
	t.tick++
	for e := t.left.Front(); e != nil; e = t.left.Front() {
		p := e.Value.(*Process)
		if p.leftTick+leavingTicks >= t.tick {
			return
		}
		t.stats.Expired++
		t.remove(p)
	}
}

// Shrink removes processes until the table takes at most target bytes: those that left first, then the least recently
// sampled. A live one that is sampled again has its mappings read from /proc. It returns how many it removed.
func (t *Table) Shrink(target uint64) (removed int) {
	for t.bytes > target && t.evict(nil) {
		removed++
	}
	return removed
}

// trim keeps the number of incarnations in bounds; p is in use and stays.
func (t *Table) trim(p *Process) {
	for t.count > t.options.MaxProcesses && t.evict(p) {
		continue
	}
}

// evict removes the process that will be missed least, but not keep.
func (t *Table) evict(keep *Process) bool {
	e := t.left.Front()
	if e != nil && e.Value == keep {
		e = e.Next()
	}
	if e == nil {
		e = t.recent.Back()
	}
	if e != nil && e.Value == keep {
		e = e.Prev()
	}
	if e == nil {
		return false
	}
	t.stats.Evicted++
	t.remove(e.Value.(*Process))
	return true
}

// newProcess makes an incarnation without a place in the chain of its pid.
func (t *Table) newProcess(pid uint32) *Process {
	t.serial++
	t.empty.refs++
	p := &Process{PID: pid, Serial: t.serial, Version: 1, table: t, list: t.empty, lostEpoch: t.lostEpoch}
	p.place = t.recent.PushFront(p)
	t.count++
	t.bytes += processBytes
	return p
}

// insert gives p its place in the chain of its pid: before the incarnation later, or as the newest if that is nil.
func (t *Table) insert(p, later *Process) {
	if later == nil {
		p.older = t.byPID[p.PID]
		t.byPID[p.PID] = p
	} else {
		p.older, later.older = later.older, p
	}
	t.cut(t.byPID[p.PID])
}

// cut drops the oldest incarnations of a chain that is too long.
func (t *Table) cut(p *Process) {
	for n := 1; p.older != nil; n++ {
		if n == t.options.MaxIncarnations {
			t.stats.IncarnationsCut++
			t.remove(p.older)
			n--
			continue
		}
		p = p.older
	}
}

// remove takes p out of the table.
func (t *Table) remove(p *Process) {
	if newest := t.byPID[p.PID]; newest == p {
		if p.older == nil {
			delete(t.byPID, p.PID)
		} else {
			t.byPID[p.PID] = p.older
		}
	} else {
		for q := newest; q != nil; q = q.older {
			if q.older == p {
				q.older = p.older
				break
			}
		}
	}
	if p.sampled != 0 {
		p.flush()
	} else {
		t.dropPending(p)
	}
	t.recent.Remove(p.place)
	t.left.Remove(p.place)
	p.place, p.older, p.origin = nil, nil, nil
	p.state = Removed
	t.count--
	t.bytes -= processBytes + p.bytes
	p.bytes = 0
	t.releaseList(p.list)
	if p.sampled != 0 {
		t.removed = append(t.removed, p)
	}
}

// leave marks p as leaving.
func (t *Table) leave(p *Process) {
	if p.state != Live {
		return
	}
	p.state, p.leftTick = Leaving, t.tick
	t.recent.Remove(p.place)
	p.place = t.left.PushBack(p)
}

// revive marks p as live again.
func (t *Table) revive(p *Process) {
	p.state = Live
	t.left.Remove(p.place)
	p.place = t.recent.PushFront(p)
}

// end notes that something else took the place of p at the time.
func (t *Table) end(p *Process, time uint64) {
	if p.ended == 0 || time < p.ended {
		p.ended = time
	}
	p.reading = false
	t.leave(p)
}

const listBytes = uint64(unsafe.Sizeof(mapList{}))

// newList makes a list that nobody holds yet.
func (t *Table) newList(m []MappedFile) *mapList {
	t.retainFiles(m)
	t.bytes += listBytes + uint64(cap(m))*mappedFileBytes
	return &mapList{m: m}
}

// setList makes p hold l instead of what it held.
func (t *Table) setList(p *Process, l *mapList) {
	old := p.list
	l.refs++
	p.list = l
	t.releaseList(old)
}

// replaceList makes p hold a new list, whose first head and last tail elements are those of its old one. If nobody else
// holds that, their references on files pass to the new list uncounted: long lists change in few places.
func (t *Table) replaceList(p *Process, m []MappedFile, head, tail int) {
	old := p.list
	if old.refs > 1 {
		t.setList(p, t.newList(m))
		return
	}
	l := &mapList{m: m, refs: 1}
	t.retainFiles(m[head : len(m)-tail])
	t.releaseFiles(old.m[head : len(old.m)-tail])
	t.bytes += uint64(cap(m)) * mappedFileBytes
	t.bytes -= uint64(cap(old.m)) * mappedFileBytes
	old.refs = 0
	p.list = l
}

func (t *Table) retainFiles(m []MappedFile) {
	for i := range m {
		if m[i].File != nil {
			t.files.retain(m[i].File)
		}
	}
}

func (t *Table) releaseFiles(m []MappedFile) {
	for i := range m {
		if m[i].File != nil {
			t.files.release(m[i].File)
		}
	}
}

func (t *Table) releaseList(l *mapList) {
	l.refs--
	if l.refs > 0 {
		return
	}
	t.releaseFiles(l.m)
	t.bytes -= listBytes + uint64(cap(l.m))*mappedFileBytes
}

// dropPending forgets the mappings of p that wait.
func (t *Table) dropPending(p *Process) {
	t.releaseFiles(p.pending)
	n := uint64(len(p.pending)) * mappedFileBytes
	t.bytes -= n
	p.bytes -= n
	p.pending = nil
}
