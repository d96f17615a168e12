package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"go.uber.org/zap"

	"github.com/hostprofiles/hostprofiles/internal/ebpf"
	"github.com/hostprofiles/hostprofiles/internal/process"
	"github.com/hostprofiles/hostprofiles/internal/process/procfs"
	"github.com/hostprofiles/hostprofiles/internal/process/worker"
	"github.com/hostprofiles/hostprofiles/internal/profile"
	"github.com/hostprofiles/hostprofiles/internal/runtimes"
	"github.com/hostprofiles/hostprofiles/internal/runtimes/libc"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

const (
	// managedTimeout bounds one look into a process.
	managedTimeout = 2 * time.Second
	// managedAddress are the bits of a frame's first word that are an address: the others are for its runtime to use.
	managedAddress = 1<<52 - 1
	// managedFrames bounds the frames that are known of one runtime in a process.
	managedFrames = 1 << 15
	// managedBatch is how many frames one look names at most, so that other looks into the process come in between.
	managedBatch = 4096
	// managedStateBytes is about what a runtime in a process takes before any frame is known.
	managedStateBytes = 2048
	// attachTries is how often in a row a look into a process may fail; that its runtime is not ready is no failure. The pause before the
	// next try is doubled each time, up to attachPatience.
	attachTries, attachPause, attachPatience = 12, 10 * time.Millisecond, 5 * time.Second
	// attachSoon is how many pauses end when they do, within attachGrain: processes that begin together are looked at together. Longer
	// ones end with a poll.
	attachSoon, attachGrain = 3, 5 * time.Millisecond
	// staleFor is how long a frame that was not there stays unnamed before it is looked for again.
	staleFor = 5 * time.Second
)

// managed is a language runtime in a process: BPF pushes its frames, and they are named by what the process has in its memory.
type managed struct {
	saidSum
	st    *processState
	file  *process.File // that the runtime was found in
	image runtimes.Image
	entry runtimes.Entry

	instance runtimes.Instance // nil until it is attached; a job has it while running
	bias     uint64            // of the file, when it was
	plan     runtimes.Plan
	planned  uint64    // version of the mappings that the plan is for
	again    time.Time // when it is to be made again; zero: when the mappings change
	warned   bool      // that its frames cannot be had, or not yet
	running  bool
	tries    int
	after    time.Time // no try to attach before
	gone     bool      // nothing more can be found out
	dropped  bool      // its process has left the table

	known  *simplelru.LRU[managedKey, *managedName]
	wanted []unwind.RawFrame
	queued bool
	lines  int // bytes of lines in known
	kept   int // bytes of the instance when the last job ended
}

// managedKey is what tells the frames of one runtime apart.
type managedKey struct{ a, b uint64 }

// managedName is what is known of a frame. Samples refer to it: once it is found it never changes.
type managedName struct {
	symbol profile.Symbol
	state  managedState
	looked time.Time
}

type managedState uint8

const (
	managedAsked managedState = iota
	managedFound
	managedHidden  // it is not to be shown
	managedMissing // it was not there
)

// managedRuntimes is all processes' language runtimes.
type managedRuntimes struct {
	queue, spare []*managed // with frames to name, or to be attached
	next         time.Time  // when one that could not be attached to is to be tried again, before a poll would; zero: never
}

// findRuntimes has the runtimes attached to that the process's executables hold. Of one runtime a process has one. Their frames are
// addresses that nobody but the process can name: without names the native frames of an interpreter tell more.
func (e *Engine) findRuntimes(st *processState, mappings []process.MappedFile) {
	if !e.cfg.Symbolize {
		return
	}
	e.dropUnmapped(st, mappings)
	for i := range mappings {
		x := e.executables.Of(mappings[i].File)
		if x == nil || !ready(x) {
			continue
		}
		for _, found := range x.Payload.runtimes {
			if st.runtime(found.entry.ID) == nil && e.kernel.Processes.Walks(found.entry.Name) {
				st.runtimes = append(st.runtimes, newManaged(st, mappings[i].File, found))
				slices.SortFunc(st.runtimes, func(a, b *managed) int { return cmp.Compare(a.entry.ID, b.entry.ID) })
			}
		}
	}
	for _, m := range st.runtimes {
		if m.instance == nil && !m.running && m.tries > 0 && m.tries < attachTries {
			m.after = time.Time{} // what it waits for may be known now
		}
		if m.instance == nil || m.outdated() {
			e.managed.enqueue(m)
		}
	}
}

// dropUnmapped forgets runtimes whose file the process has unmapped, or mapped at another place.
func (e *Engine) dropUnmapped(st *processState, mappings []process.MappedFile) {
	st.runtimes = slices.DeleteFunc(st.runtimes, func(m *managed) bool {
		for i := range mappings {
			if mappings[i].File != m.file {
				continue
			}
			is := mappings[i].Mapping
			x := e.executables.Of(m.file)
			moved := x != nil && ready(x) && x.Payload.setBias(&is, st, mappings, m.file) && is.Bias != m.bias
			if !moved || m.instance == nil {
				return false
			}
		}
		e.dropManaged(m)
		return true
	})
}

func newManaged(st *processState, file *process.File, found foundRuntime) *managed {
	m := &managed{saidSum: newSaidSum(), st: st, file: file, image: found.image, entry: found.entry}
	m.known = newLRU(managedFrames, func(_ managedKey, n *managedName) {
		bytes := textBytes(n.symbol.Lines)
		m.lines -= bytes
		m.replaced += bytes // samples may refer to it
	})
	return m
}

// runtime returns the process's runtime of that kind, nil if it has none.
func (st *processState) runtime(id unwind.Runtime) *managed {
	for _, m := range st.runtimes {
		if m.entry.ID == id {
			return m
		}
	}
	return nil
}

func (r *managedRuntimes) enqueue(m *managed) {
	if !m.queued && !m.gone {
		m.queued = true
		r.queue = append(r.queue, m)
	}
}

// frameType is a runtime's name in profiles and metrics; a record that has another is damaged.
func frameType(r unwind.Runtime) string {
	if all := runtimes.All(); int(r) < len(all) {
		return all[r].FrameType
	}
	return "unknown"
}

// startManagedJobs has the processes looked into whose runtimes are to be attached to, or whose frames are to be named.
func (e *Engine) startManagedJobs(now time.Time) {
	queue := e.managed.queue
	e.managed.queue = e.managed.spare[:0] // a job that is refused at once is queued again
	e.managed.next = time.Time{}
	for _, m := range queue {
		m.queued = false
		switch {
		case m.gone:
		case e.rests(m, now) || !e.said.some(m, now):
			e.managed.enqueue(m) // also what does not run now
			if m.instance == nil && m.tries <= attachSoon && now.Before(m.after) && (e.managed.next.IsZero() || m.after.Before(e.managed.next)) {
				e.managed.next = m.after.Truncate(attachGrain).Add(attachGrain)
			}
		default:
			e.startManagedJob(m)
		}
	}
	clear(queue)
	e.managed.spare = queue
}

// managedJob is what a worker does in a process.
type managedJob struct {
	proc     memoryOpener
	pid      uint32
	start    uint64 // ns of CLOCK_BOOTTIME
	image    runtimes.Image
	instance runtimes.Instance
	mapping  unwind.Mapping
	threads  *libc.Threads
	unknown  error              // why there are none, nor will be
	mappings []runtimes.Mapping // nil: the plan stays as it is
	frames   []unwind.RawFrame

	plan  runtimes.Plan
	found []foundFrame // of frames, as far as it came
	err   error        // of the last one that was not found
	cpu   cpuTime
}

// foundFrame is what was found of a frame; without lines it is not to be shown.
type foundFrame struct {
	lines []unwind.Line
	ok    bool
}

// memoryOpener opens a process's memory.
type memoryOpener interface {
	OpenMemory(pid uint32, start uint64) (*procfs.Memory, error)
}

func (j *managedJob) run(context.Context) (any, error) {
	began := time.Now()
	defer j.cpu.start()()
	mem, err := j.proc.OpenMemory(j.pid, j.start)
	if err != nil {
		return nil, err
	}
	defer mem.Close()
	if j.instance == nil {
		p := runtimes.Process{Arch: ebpf.Arch, Memory: mem, Image: j.mapping, Threads: j.threads, ThreadsUnknown: j.unknown}
		if j.instance, err = j.image.Attach(&p); err != nil {
			return nil, err
		}
	}
	if j.mappings != nil {
		if j.plan, err = j.instance.Plan(mem, j.mappings); err != nil {
			return nil, err
		}
	}
	for _, f := range j.frames {
		if len(j.found) > 0 && (j.cpu.soFar() > saidLookTime || time.Since(began) > managedTimeout/2) {
			break
		}
		lines, err := j.instance.Symbolize(mem, nil, f)
		if err != nil {
			j.err = err
		}
		j.found = append(j.found, foundFrame{lines, err == nil})
	}
	return j, nil
}

func (e *Engine) startManagedJob(m *managed) {
	st := m.st
	if m.gone || st.p.State() == process.Removed {
		return
	}
	j := &managedJob{proc: e.proc, pid: st.p.PID, start: st.p.StartTime(), image: m.image, instance: m.instance}
	version := st.p.Version
	if m.instance == nil || m.outdated() {
		if !e.describeProcess(j, m) {
			e.held.wake(m)
			return // BPF is told of the process again when its mappings are known
		}
	}
	if m.instance != nil {
		n := min(len(m.wanted), managedBatch)
		j.frames, m.wanted = m.wanted[:n:n], m.wanted[n:]
	}
	if j.mappings == nil && len(j.frames) == 0 {
		return
	}
	m.running = true
	of := e.symbols.ask()
	about := aboutProcess(j.pid, m.entry.FrameType+" functions")
	about.lines = true
	e.jobs.submit(about, managedTimeout, j.run, func(_ any, err error) {
		m.running = false
		e.said.spend(m, j.cpu.soFar())
		e.symbols.answer(of)
		e.held.wake(m)
		if err != nil {
			e.managedFailed(m, j, err)
			return
		}
		if m.instance == nil {
			m.bias = j.mapping.Bias
		}
		m.instance, m.tries, m.after = j.instance, 0, time.Time{}
		if j.mappings != nil {
			e.managedPlanned(m, j.plan, version)
		}
		e.managedFound(m, j)
		if !m.again.IsZero() {
			e.managed.enqueue(m)
		}
	})
}

// describeProcess fills in what attaching and planning need to know; false if the process's mappings are not known.
func (e *Engine) describeProcess(j *managedJob, m *managed) (ok bool) {
	list := m.st.p.Mappings()
	j.mappings = make([]runtimes.Mapping, 0, len(list))
	for i := range list {
		is := runtimes.Mapping{Mapping: list[i].Mapping, Anonymous: list[i].File == nil}
		if x := e.executables.Of(list[i].File); x != nil && ready(x) && x.Payload.setBias(&is.Mapping, m.st, list, list[i].File) {
			if is.Image = list[i].File == m.file; is.Image && !ok {
				j.mapping, ok = is.Mapping, true
			}
			j.threads = cmp.Or(j.threads, x.Payload.threads)
		}
		j.mappings = append(j.mappings, is)
	}
	if j.threads == nil {
		j.unknown = e.requestLibc(list)
	}
	return ok
}

// requestLibc has the files read that may be the C library, though nothing was sampled in them yet: those that are called so, or, where
// none is, all of a few. If all of them were read, and one is a C library that nothing is known of, the result says so.
func (e *Engine) requestLibc(list []process.MappedFile) (unknown error) {
	const few = 32
	named := slices.ContainsFunc(list, func(m process.MappedFile) bool { return m.File != nil && isLibc(m.File.Path) })
	if !named && len(list) > few {
		return nil
	}
	reading := false
	for i := range list {
		f := list[i].File
		if f == nil || named && !isLibc(f.Path) {
			continue
		}
		x := e.executables.Of(f)
		switch {
		case x == nil:
		case e.requestExecutable(x):
			reading = true
		case ready(x):
			unknown = cmp.Or(unknown, x.Payload.threadsUnknown)
		}
	}
	if reading {
		return nil
	}
	return unknown
}

// isLibc tells whether a file has the name of a C library, or of the part of an old one that has the threads.
func isLibc(path string) bool {
	name := baseName(path)
	for _, prefix := range []string{"libc.so", "libc-", "libpthread", "ld-musl", "libc.musl"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// managedFailed is the end of a job that found out nothing.
func (e *Engine) managedFailed(m *managed, j *managedJob, err error) {
	m.tries++
	now := time.Now()
	m.after = now.Add(min(attachPause<<min(m.tries, attachTries), attachPatience))
	if began(err) {
		for _, f := range j.frames {
			e.managedMissing(m, f, now)
		}
	} else {
		m.wanted = append(j.frames, m.wanted...)
	}
	if !m.dropped {
		e.said.account(m)
	}
	// what others keep the workers from doing says nothing of this one, nor does a failure of what has worked before
	passes := errors.Is(err, runtimes.ErrNotReady) || m.instance != nil || !began(err) || errors.Is(err, worker.ErrTimeout)
	ends := errors.Is(err, procfs.ErrGone) || errors.Is(err, runtimes.ErrUnsupported) || panicked(err) || m.tries >= attachTries && !passes
	if !errors.Is(err, procfs.ErrGone) && (ends || m.tries >= attachTries) && !m.warned {
		m.warned = true
		e.count.RuntimeErrors++
		e.log.Warn("frames of a language runtime cannot be had", zap.Uint32("pid", j.pid), zap.String("runtime", m.entry.FrameType),
			zap.String("version", m.image.Version()), zap.Error(err))
	}
	if ends {
		m.gone = true
		m.wanted = nil
		return
	}
	if !errors.Is(err, runtimes.ErrNotReady) {
		e.log.Debug("looking at a language runtime", zap.Uint32("pid", j.pid), zap.String("runtime", m.entry.FrameType), zap.Error(err))
	}
	e.managed.enqueue(m)
}

// panicked tells whether a worker has found a defect of the profiler: it would again.
func panicked(err error) bool {
	var p *worker.PanicError
	return errors.As(err, &p)
}

// began tells whether a worker has begun a job that failed.
func began(err error) bool {
	for _, why := range []error{worker.ErrStuck, worker.ErrGroupStuck, worker.ErrFull, worker.ErrExhausted} {
		if errors.Is(err, why) {
			return false
		}
	}
	return true
}

// forgetManaged drops what is known of the runtimes of a process that is gone.
func (e *Engine) forgetManaged(st *processState) {
	for _, m := range st.runtimes {
		e.dropManaged(m)
	}
	st.runtimes = nil
}

// dropManaged drops what is known of a runtime. Reports keep the names that they refer to.
func (e *Engine) dropManaged(m *managed) {
	m.gone, m.dropped = true, true
	m.known.Purge()
	e.said.drop(m)
	e.held.wake(m)
}

// owners tells BPF of the runtimes of a process, and splits its mappings where code is theirs.
func (e *Engine) owners(st *processState, mappings []ebpf.MappedTable) []ebpf.MappedTable {
	for _, m := range st.runtimes {
		if m.plan.Proc == nil {
			continue
		}
		if err := e.kernel.Processes.PutRuntime(st.id, m.entry.Name, m.plan.Proc); err != nil {
			if !m.warned {
				m.warned = true
				e.count.RuntimeErrors++
				e.log.Warn("BPF could not be told of a language runtime: its frames cannot be had", zap.Uint32("pid", st.p.PID),
					zap.String("runtime", m.entry.FrameType), zap.Error(err))
			}
			continue
		}
		mappings = split(mappings, m.plan.Ranges, m.entry.ID)
	}
	return mappings
}

// split returns sorted mappings with those parts that lie in ranges owned by a runtime.
func split(mappings []ebpf.MappedTable, ranges []runtimes.Range, owner unwind.Runtime) []ebpf.MappedTable {
	if len(ranges) == 0 {
		return mappings
	}
	out := make([]ebpf.MappedTable, 0, len(mappings)+2*len(ranges))
	for _, m := range mappings {
		if m.Runtime != unwind.RuntimeNative {
			out = append(out, m) // of one that knows better: V8 takes all memory with code for its own
			continue
		}
		for _, piece := range runtimes.Cut(m.Mapping, ranges) {
			part := m
			if part.Mapping, part.Part = piece.Mapping, piece.Part; piece.Owned {
				part.Runtime = owner
			}
			out = append(out, part)
		}
	}
	return out
}
