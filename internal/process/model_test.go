package process

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// checkTable recounts what the table and its files keep count of.
func checkTable[T any](t *Table, x *Executables[T]) error {
	lists := map[*mapList]int{t.empty: 1}
	refs := map[*File]int{}
	bytes, count := uint64(0), 0
	for pid, p := range t.byPID {
		chain := 0
		for ; p != nil; p = p.older {
			count++
			chain++
			if p.PID != pid || p.state == Removed || p.place == nil {
				return fmt.Errorf("process %d in the chain of %d, state %d", p.PID, pid, p.state)
			}
			lists[p.list]++
			bytes += processBytes + uint64(len(p.pending))*mappedFileBytes + uint64(len(p.threads))*threadBytes
			for i := range p.pending {
				refs[p.pending[i].File]++
			}
		}
		if chain > t.options.MaxIncarnations {
			return fmt.Errorf("%d incarnations of %d", chain, pid)
		}
	}
	for l, n := range lists {
		if l.refs != n {
			return fmt.Errorf("list has %d references, want %d", l.refs, n)
		}
		if l != t.empty {
			bytes += listBytes + uint64(cap(l.m))*mappedFileBytes
		}
		for i := range l.m {
			refs[l.m[i].File]++
		}
	}
	if count != t.count || t.recent.Len()+t.left.Len() != count {
		return fmt.Errorf("count %d, %d live and %d leaving; want %d", t.count, t.recent.Len(), t.left.Len(), count)
	}
	if bytes != t.bytes {
		return fmt.Errorf("bytes %d, want %d", t.bytes, bytes)
	}
	return checkFiles(x, refs)
}

func checkFiles[T any](x *Executables[T], refs map[*File]int) error {
	n, bytes := 0, uint64(0)
	for key, f := range x.files {
		for ; f != nil; f = f.next {
			n++
			e := x.Of(f)
			bytes += fileCost(f) + e.bytes
			if f.key != key || f.refs != refs[f] {
				return fmt.Errorf("file %q has %d references, want %d", f.Path, f.refs, refs[f])
			}
			if x.unused.Contains(e) != (f.refs == 0) || x.loaded.Contains(e) != (f.refs > 0 && e.bytes > 0) {
				return fmt.Errorf("file %q, %d references, %d bytes: in a wrong list", f.Path, f.refs, e.bytes)
			}
			delete(refs, f)
		}
	}
	delete(refs, nil)
	if len(refs) > 0 {
		return fmt.Errorf("%d mapped files are not in the index", len(refs))
	}
	if n != x.count || bytes != x.bytes {
		return fmt.Errorf("%d files of %d bytes, counted %d of %d", n, bytes, x.count, x.bytes)
	}
	return nil
}

// proc is a process of the naive model.
type proc struct {
	pid    uint32
	start  uint64
	execID uint32
	known  bool // its mappings are, to the table
	alive  bool
}

// world is the naive model, and produces events as a kernel would.
type world struct {
	r     *rand.Rand
	time  uint64
	procs map[uint32]*proc
}

func (w *world) now() uint64 { w.time += uint64(1 + w.r.IntN(100)); return w.time }

func (w *world) pick() *proc {
	all := make([]uint32, 0, len(w.procs))
	for pid := range uint32(20) {
		if p := w.procs[pid]; p != nil && p.alive {
			all = append(all, pid)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return w.procs[all[w.r.IntN(len(all))]]
}

func (w *world) mmapInfo() MmapInfo {
	n := uint64(w.r.IntN(5))
	start := unwind.Addr(w.r.IntN(60)+1) * pageSize
	m := MmapInfo{Start: start, End: start + unwind.Addr(1+w.r.IntN(12))*pageSize, Exec: true}
	if n == 0 {
		m.Path, m.Anonymous = "//anon", true
		return m
	}
	m.Path = fmt.Sprint("/lib", n)
	m.File = FileID{Major: 8, Minor: 1, Inode: n, Generation: 7}
	m.Offset = unwind.FileOffset(start)
	if w.r.IntN(3) == 0 {
		m.Offset = unwind.FileOffset(w.r.IntN(20)) * pageSize
	}
	return m
}

// view is what a mapping list says, page by page, by paths.
type view map[unwind.Addr]string

func (v view) paint(m *MmapInfo) {
	for a := m.Start; a < m.End; a += pageSize {
		if m.Anonymous {
			v[a] = "anon"
		} else {
			v[a] = fmt.Sprintf("%s+%#x", m.Path, uint64(m.Offset)+uint64(a-m.Start))
		}
	}
}

func viewOf(m []MappedFile) view {
	v := view{}
	for i := range m {
		info := MmapInfo{Start: m[i].Start, End: m[i].End, Offset: m[i].Offset, Anonymous: m[i].File == nil}
		if m[i].File != nil {
			info.Path = m[i].File.Path
		}
		v.paint(&info)
	}
	return v
}

// TestModel runs random forks, execs, exits, mappings, samples and reads of /proc, all in order, and compares every
// process's mappings with the naive model after each step.
func TestModel(t *testing.T) {
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 2))
		x := NewExecutables[int](ExecutablesOptions{MaxUnused: 3})
		table := NewTable(x, Options{})
		w := &world{r: r, procs: map[uint32]*proc{}}
		views := map[uint32]view{}
		for step := range 300 {
			modelStep(table, w, views)
			if err := checkTable(table, x); err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, step, err)
			}
			if step%10 != 0 {
				continue // lists are merged when somebody looks; let some wait
			}
			for pid, p := range w.procs {
				if !p.alive || !p.known {
					continue
				}
				got, ok := table.Current(pid)
				if !ok || got.State() != Live {
					t.Fatalf("seed %d, step %d: process %d is not live", seed, step, pid)
				}
				if !maps.Equal(viewOf(got.Mappings()), views[pid]) {
					t.Fatalf("seed %d, step %d, process %d: got %v\nwant %v", seed, step, pid, viewOf(got.Mappings()), views[pid])
				}
			}
		}
	}
}

func modelStep(table *Table, w *world, views map[uint32]view) {
	r := w.r
	p := w.pick()
	if p == nil || r.IntN(20) == 0 {
		// A process that was there before, found by a sample.
		pid := uint32(1 + r.IntN(19))
		if old := w.procs[pid]; old != nil && old.alive {
			return
		}
		start := w.now()
		p = &proc{pid: pid, start: start, execID: uint32(r.IntN(5)), alive: true}
		w.procs[pid], views[pid] = p, view{}
		table.SampleArrived(pid, w.now(), start, p.execID)
		return
	}
	pid := p.pid
	switch r.IntN(12) {
	case 0, 1:
		child := uint32(1 + r.IntN(19))
		if old := w.procs[child]; old != nil && old.alive {
			return
		}
		start := w.now()
		w.procs[child] = &proc{pid: child, start: start, execID: p.execID, alive: true, known: p.known}
		views[child] = maps.Clone(views[pid])
		table.Apply(&Event{Kind: EventFork, Time: w.now(), PID: child, TID: child, PPID: pid, PTID: pid})
	case 2:
		p.execID++
		p.known = true
		views[pid] = view{}
		table.Apply(&Event{Kind: EventExec, Time: w.now(), PID: pid, TID: pid, Comm: "x"})
	case 3:
		p.alive = false
		table.Apply(&Event{Kind: EventExit, Time: w.now(), PID: pid, TID: pid, PPID: 1})
	case 4, 5:
		table.SampleArrived(pid, w.now(), p.start, p.execID)
	case 6:
		table.Tick()
	case 7:
		// A read of /proc: what is mapped at readTime, and the result comes after more has happened.
		got, ok := table.Current(pid)
		if !ok {
			return
		}
		table.ReadStarted(got)
		var read []MmapInfo
		v := view{}
		for range 1 + r.IntN(5) { // what runs has code
			m := w.mmapInfo()
			m.Start += 100 * pageSize * unwind.Addr(len(read))
			m.End += 100 * pageSize * unwind.Addr(len(read))
			read = append(read, m)
			v.paint(&m)
		}
		readTime := w.now()
		for range r.IntN(3) {
			m := w.mmapInfo()
			v.paint(&m)
			table.Apply(&Event{Kind: EventMmap, Time: w.now(), PID: pid, TID: pid, Map: m})
		}
		if !table.SetMaps(got, read, readTime, p.start/clockTick*clockTick) {
			panic("the maps of a live process were refused")
		}
		// An event from before the read changes nothing any more.
		table.Apply(&Event{Kind: EventMmap, Time: readTime, PID: pid, TID: pid, Map: w.mmapInfo()})
		p.known, views[pid] = true, v
	default:
		for range 1 + r.IntN(4) {
			m := w.mmapInfo()
			views[pid].paint(&m)
			table.Apply(&Event{Kind: EventMmap, Time: w.now(), PID: pid, TID: pid, Map: m})
		}
	}
}
