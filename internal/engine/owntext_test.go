package engine

import (
	"os"
	"path/filepath"
	"testing"
	"time"
	"unsafe"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/hostprofiles/hostprofiles/internal/ebpf"
	"github.com/hostprofiles/hostprofiles/internal/process"
	"github.com/hostprofiles/hostprofiles/internal/process/procfs"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

func TestAround(t *testing.T) {
	a, b, vdso := &process.File{Path: "/a"}, &process.File{Path: "/b"}, &process.File{Path: process.PathVDSO}
	at := func(start, end unwind.Addr, f *process.File, offset unwind.FileOffset) process.MappedFile {
		return process.MappedFile{Mapping: unwind.Mapping{Start: start, End: end, Offset: offset}, File: f}
	}
	memory := at(0x3000, 0x5000, nil, 0)
	for _, c := range []struct {
		what   string
		maps   []process.MappedFile
		of     *process.File
		offset unwind.FileOffset
	}{
		{"between two parts of a file", []process.MappedFile{at(0x1000, 0x3000, a, 0x1000), memory, at(0x5000, 0x6000, a, 0x5000)}, a, 0x3000},
		{"behind the first part", []process.MappedFile{at(0x1000, 0x3000, a, 0x1000), memory, at(0x7000, 0x8000, b, 0)}, a, 0x3000},
		{"before the last part", []process.MappedFile{memory, at(0x5000, 0x6000, a, 0x7000)}, a, 0x5000},
		{"two parts that do not agree", []process.MappedFile{at(0x1000, 0x3000, a, 0x1000), memory, at(0x5000, 0x6000, a, 0x6000)}, nil, 0},
		{"two files", []process.MappedFile{at(0x1000, 0x3000, a, 0x1000), memory, at(0x5000, 0x6000, b, 0x5000)}, nil, 0},
		{"not side by side", []process.MappedFile{at(0x1000, 0x2000, a, 0x1000), memory, at(0x6000, 0x7000, a, 0x6000)}, nil, 0},
		{"before the file begins", []process.MappedFile{memory, at(0x5000, 0x6000, a, 0x1000)}, nil, 0},
		{"beside the vdso", []process.MappedFile{memory, at(0x5000, 0x6000, vdso, 0x2000)}, nil, 0},
		{"alone", []process.MappedFile{memory}, nil, 0},
	} {
		for i := range c.maps {
			file, offset, ok := around(c.maps, i)
			want := c.maps[i].File == nil && c.of != nil
			if ok != want || ok && (file != c.of || offset != c.offset) {
				t.Errorf("%s, mapping %d: %v, %v, %#x", c.what, i, ok, file, offset)
			}
		}
	}
}

// TestLook bounds how many places are looked at, and notices what is mapped anew.
func TestLook(t *testing.T) {
	var st processState
	at := func(start unwind.Addr, time uint64) *process.MappedFile {
		return &process.MappedFile{Mapping: unwind.Mapping{Start: start, End: start + 0x1000}, Time: time}
	}
	o := st.look(at(0x1000, 1), nil, 0)
	if o == nil || st.look(at(0x1000, 1), nil, 0) != nil {
		t.Fatal("a place is to be looked at once")
	}
	o.queued = true
	if st.look(at(0x1000, 2), nil, 0) != nil || o.memory.Time != 2 {
		t.Error("what waits is what is there now")
	}
	o.queued = false
	if st.look(at(0x1000, 2), nil, 0) != nil || st.look(at(0x1000, 3), nil, 0) != o {
		t.Error("what was mapped anew is to be looked at again")
	}
	o.tries = maxOwnTries
	if st.look(at(0x1000, 4), nil, 0) != nil {
		t.Error("code that is changed again and again is a JIT compiler's")
	}
	for i := range unwind.Addr(100) {
		st.look(at(i<<12, 1), nil, 0)
	}
	if len(st.ownTexts) != maxOwnTexts {
		t.Errorf("%d places", len(st.ownTexts))
	}
}

// newTexts is an engine that knows this process, and of it two pages of anonymous memory that hold a file's code, behind a mapping of
// that file.
func newTexts(t *testing.T) (e *Engine, st *processState, memory unwind.Addr) {
	page := unwind.Addr(pageSize)
	text := make([]byte, 3*pageSize)
	for i := range text {
		text[i] = byte(i*7 + i>>12)
	}
	mem, err := unix.Mmap(-1, 0, len(text), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(mem) })
	copy(mem, text)
	if err := unix.Mprotect(mem, unix.PROT_READ|unix.PROT_EXEC); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(name, text, 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })

	log := zap.NewNop()
	e = &Engine{
		log: log, proc: procfs.New("/proc"), closer: newCloser(log), kernel: &ebpf.Kernel{}, symbols: newSymbolizer(), texts: newTextFinder(),
		dirty: map[*processState]struct{}{}, states: map[*process.Process]*processState{},
		withFile: map[*executable]*process.Executable[*executable]{},
	}
	e.jobs = newJobs(log, e.closer)
	t.Cleanup(e.jobs.close)
	e.executables = process.NewExecutables[*executable](process.ExecutablesOptions{})
	e.table = process.NewTable(e.executables, process.Options{})
	pid, start := uint32(os.Getpid()), unwind.Addr(uintptr(unsafe.Pointer(&mem[0])))
	e.table.Apply(&process.Event{Kind: process.EventExec, Time: 10, PID: pid, TID: pid, Comm: "x"})
	e.table.Apply(&process.Event{Kind: process.EventMmap, Time: 11, PID: pid, TID: pid, Map: process.MmapInfo{
		Start: start, End: start + page, File: process.FileID{Major: 8, Inode: 1, Generation: 1}, Path: name, Exec: true,
	}})
	e.table.Apply(&process.Event{Kind: process.EventMmap, Time: 12, PID: pid, TID: pid, Map: process.MmapInfo{
		Start: start + page, End: start + 3*page, Path: "//anon", Anonymous: true, Exec: true,
	}})
	st = &processState{p: e.table.SampleArrived(pid, 13, 5, 1)}
	e.states[st.p] = st
	m, _ := st.p.Find(start)
	x := e.executables.Of(m.File)
	payload := &executable{
		file: &source{}, symbols: newExecutableSymbols(), debug: newDebugInfo(),
		segments: []unwind.Segment{{VAddr: 0, FileSize: uint64(len(text)), Exec: true}},
	}
	payload.file.file.Store(f)
	e.executables.StartOpening(x)
	e.executables.Opened(x, process.Identity{})
	e.executables.SetPayload(x, payload, 1)
	e.findOwnText(st, st.p.Mappings())
	return e, st, start + page
}

// isCode tells whether the memory counts as the file's code.
func (st *processState) isCode(a unwind.Addr) bool {
	m, ok := st.p.Find(a)
	return ok && m.File != nil
}

// finish waits for the comparison that is under way.
func (e *Engine) finish(t *testing.T) {
	t.Helper()
	if !e.texts.running {
		t.Fatal("nothing is being compared")
	}
	eventually(t, "the comparison ends", func() bool { e.jobs.drain(); return !e.texts.running })
}

// TestOwnTextIsFound in memory of this process, once there is CPU time for it, and no sooner than the comparison before has ended.
func TestOwnTextIsFound(t *testing.T) {
	e, st, memory := newTexts(t)
	now := time.Now()
	e.texts.cpu = allowance{share: 0.5, most: time.Second, left: -time.Second, filled: now}
	if e.startTextJobs(now); e.texts.running || len(e.texts.queue) != 1 {
		t.Error("compared with CPU time that there is not")
	}
	now = now.Add(3 * time.Second)
	e.texts.running = true
	if e.startTextJobs(now); len(e.texts.queue) != 1 {
		t.Error("two comparisons at once")
	}
	e.texts.running = false
	e.startTextJobs(now)
	left := e.texts.cpu.left
	e.finish(t)
	if _, dirty := e.dirty[st]; !dirty || !st.isCode(memory) {
		t.Error("it was not found")
	}
	if e.texts.cpu.left >= left {
		t.Error("it took no CPU time")
	}
	if len(e.jobs.processes.waiting) != 0 || e.jobs.lines.pool.Stats().Done != 1 {
		t.Error("reads of mappings have to wait for it")
	}
}

// TestOwnTextIsTriedAgain when it could not be compared, but not for ever; and not if it was, and is something else.
func TestOwnTextIsTriedAgain(t *testing.T) {
	e, st, memory := newTexts(t)
	x := e.executables.Of(st.ownTexts[0].file)
	file := x.Payload.file.file.Swap(nil) // let go, as there are too many
	now := time.Now()
	if e.startTextJobs(now); e.texts.running || !x.Checking() {
		t.Error("the file is to be opened again")
	}
	x.Payload.file.file.Store(file)
	if e.startTextJobs(now); e.texts.running {
		t.Error("tried again at once")
	}
	now = now.Add(textPause)
	e.startTextJobs(now)
	x.Payload.file.file.Store(nil) // the comparison may notice that, or not
	e.finish(t)
	x.Payload.file.file.Store(file)
	if !st.isCode(memory) {
		now = time.Now().Add(2 * textPause)
		e.startTextJobs(now)
		e.finish(t)
	}
	if !st.isCode(memory) {
		t.Error("it was not found once the file was open again")
	}
	if st.ownTexts[0].tries != 0 {
		t.Error("what was found may change as often as what was not")
	}

	e, st, _ = newTexts(t)
	e.jobs.lines.pool.Close(t.Context()) // which refuses all
	o := st.ownTexts[0]
	if e.startTextJobs(time.Now()); o.tries != 1 || !o.queued {
		t.Errorf("tried %d times at once", o.tries)
	}
	if e.startTextJobs(time.Now().Add(time.Hour)); o.tries != maxOwnTries || len(e.texts.queue) != 0 {
		t.Errorf("tried %d times", o.tries)
	}

	e, st, memory = newTexts(t)
	st.ownTexts[0].offset = 0 // something else is in the file there
	e.startTextJobs(time.Now())
	if e.finish(t); len(e.texts.queue) != 0 || st.isCode(memory) {
		t.Error("memory that differs")
	}

	e, st, memory = newTexts(t)
	e.table.Apply(&process.Event{Kind: process.EventMmap, Time: 20, PID: st.p.PID, TID: st.p.PID, Map: process.MmapInfo{
		Start: memory, End: memory + 2*unwind.Addr(pageSize), Path: "//anon", Anonymous: true, Exec: true,
	}})
	if e.startTextJobs(time.Now()); e.texts.running {
		t.Error("compared what is there no more")
	}
	if e.findOwnText(st, st.p.Mappings()); len(e.texts.queue) != 1 {
		t.Error("what is there now is not looked at")
	}
}
