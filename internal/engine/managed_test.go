package engine

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/hostprofiles/hostprofiles/internal/ebpf"
	"github.com/hostprofiles/hostprofiles/internal/process"
	"github.com/hostprofiles/hostprofiles/internal/process/procfs"
	"github.com/hostprofiles/hostprofiles/internal/process/worker"
	"github.com/hostprofiles/hostprofiles/internal/runtimes"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// TestSplit splits mappings where code is a runtime's: nothing is lost, and nothing else is the runtime's.
func TestSplit(t *testing.T) {
	at := func(start, end unwind.Addr, owner unwind.Runtime) ebpf.MappedTable {
		return ebpf.MappedTable{Mapping: unwind.Mapping{Start: start, End: end, Bias: 7}, Runtime: owner, NoTable: true}
	}
	const none, own = unwind.RuntimeNative, unwind.RuntimePython
	copied := at(12, 14, own)
	copied.Bias = 9
	for name, tt := range map[string]struct {
		ranges []runtimes.Range
		want   []ebpf.MappedTable
	}{
		"none":          {nil, []ebpf.MappedTable{at(10, 20, none), at(20, 30, none), at(40, 50, none)}},
		"inside":        {[]runtimes.Range{{Start: 12, End: 14}}, []ebpf.MappedTable{at(10, 12, none), at(12, 14, own), at(14, 20, none), at(20, 30, none), at(40, 50, none)}},
		"of a copy":     {[]runtimes.Range{{Start: 12, End: 14, Bias: 9}}, []ebpf.MappedTable{at(10, 12, none), copied, at(14, 20, none), at(20, 30, none), at(40, 50, none)}},
		"at the start":  {[]runtimes.Range{{Start: 10, End: 14}}, []ebpf.MappedTable{at(10, 14, own), at(14, 20, none), at(20, 30, none), at(40, 50, none)}},
		"all of one":    {[]runtimes.Range{{Start: 20, End: 30}}, []ebpf.MappedTable{at(10, 20, none), at(20, 30, own), at(40, 50, none)}},
		"over several":  {[]runtimes.Range{{Start: 5, End: 45}}, []ebpf.MappedTable{at(10, 20, own), at(20, 30, own), at(40, 45, own), at(45, 50, none)}},
		"several in it": {[]runtimes.Range{{Start: 11, End: 12}, {Start: 12, End: 13}, {Start: 15, End: 20}}, []ebpf.MappedTable{at(10, 11, none), at(11, 12, own), at(12, 13, own), at(13, 15, none), at(15, 20, own), at(20, 30, none), at(40, 50, none)}},
		"beside":        {[]runtimes.Range{{Start: 1, End: 10}, {Start: 30, End: 40}, {Start: 50, End: 60}}, []ebpf.MappedTable{at(10, 20, none), at(20, 30, none), at(40, 50, none)}},
	} {
		t.Run(name, func(t *testing.T) {
			got := split([]ebpf.MappedTable{at(10, 20, none), at(20, 30, none), at(40, 50, none)}, tt.ranges, own)
			require.Equal(t, tt.want, got)
		})
	}
}

// toyRuntime is a runtime whose frames are named by their first word.
type toyRuntime struct {
	attached, planned int
	notReady          int // so often
}

func (r *toyRuntime) Version() string { return "1" }

func (r *toyRuntime) Attach(*runtimes.Process) (runtimes.Instance, error) {
	if r.attached++; r.attached <= r.notReady {
		return nil, runtimes.ErrNotReady
	}
	return r, nil
}

func (r *toyRuntime) Plan(unwind.Memory, []runtimes.Mapping) (runtimes.Plan, error) {
	r.planned++
	return runtimes.Plan{Proc: r}, nil
}

func (r *toyRuntime) Symbolize(_ unwind.Memory, dst []unwind.Line, f unwind.RawFrame) ([]unwind.Line, error) {
	if f.A == 0 {
		return dst, runtimes.ErrStale
	}
	return append(dst, unwind.Line{Function: unwind.Function{Name: string(rune('a' + f.A))}, Line: int(f.B)}), nil
}

func (r *toyRuntime) Bytes() int { return 1000 } // as image, and as instance

// toyMemory is the memory of processes that are there.
type toyMemory struct{ gone bool }

func (m toyMemory) OpenMemory(uint32, uint64) (*procfs.Memory, error) {
	if m.gone {
		return nil, procfs.ErrGone
	}
	return procfs.New("/proc").OpenMemory(uint32(os.Getpid()), 0)
}

// TestManagedJob names what can be named, and says what could not.
func TestManagedJob(t *testing.T) {
	r := &toyRuntime{notReady: 1}
	j := &managedJob{proc: toyMemory{}, image: r, mappings: []runtimes.Mapping{}, frames: []unwind.RawFrame{{A: 1, B: 5}, {A: 0}, {A: 2, B: 6}}}
	_, err := j.run(context.Background())
	require.ErrorIs(t, err, runtimes.ErrNotReady)
	_, err = j.run(context.Background())
	require.NoError(t, err)
	require.Equal(t, "b", j.found[0].lines[0].Function.Name)
	require.False(t, j.found[1].ok)
	require.Equal(t, 6, j.found[2].lines[0].Line)
	require.ErrorIs(t, j.err, runtimes.ErrStale)
	require.Equal(t, 1, r.planned)

	j = &managedJob{proc: toyMemory{gone: true}, image: r}
	_, err = j.run(context.Background())
	require.ErrorIs(t, err, procfs.ErrGone)

	const slow = 4 * saidLookTime / 5 // the third is not looked at any more
	j = &managedJob{proc: toyMemory{}, image: r, instance: slowRuntime{slow}, frames: []unwind.RawFrame{{A: 1}, {A: 2}, {A: 3}}}
	_, err = j.run(context.Background())
	require.NoError(t, err)
	require.Len(t, j.found, 2)
	require.Greater(t, j.cpu.soFar(), slow)
}

// slowRuntime takes CPU time for each frame.
type slowRuntime struct{ each time.Duration }

func (r slowRuntime) Plan(unwind.Memory, []runtimes.Mapping) (runtimes.Plan, error) {
	return runtimes.Plan{}, nil
}

func (r slowRuntime) Symbolize(unwind.Memory, []unwind.Line, unwind.RawFrame) ([]unwind.Line, error) {
	for began := worker.ThreadCPU(unix.Gettid()); worker.ThreadCPU(unix.Gettid())-began < int64(r.each); {
	}
	return nil, nil
}

func (slowRuntime) Bytes() int { return 0 }

// TestManagedUnfinished: what a look did not come to is asked for in the next one; names that are dropped count as long as reports may
// refer to them.
func TestManagedUnfinished(t *testing.T) {
	e := &Engine{cfg: Config{Symbolize: true, MemoryBytes: 64 << 20}, said: newSaid(), log: zap.NewNop()}
	e.debugLimits = newDebugLimits(e.cfg.MemoryBytes)
	m := newManaged(&processState{p: &process.Process{}}, nil, foundRuntime{&toyRuntime{}, runtimes.All()[unwind.RuntimePython]})
	m.instance = &toyRuntime{}
	for i := range uint64(3) {
		require.False(t, e.named(m, unwind.RawFrame{A: i}))
	}
	j := &managedJob{frames: m.wanted, found: []foundFrame{{[]unwind.Line{{Function: unwind.Function{Name: "f"}}}, true}}}
	m.wanted = []unwind.RawFrame{{A: 9}}
	e.managedFound(m, j)
	require.Equal(t, []unwind.RawFrame{{A: 1}, {A: 2}, {A: 9}}, m.wanted)
	require.Equal(t, []*managed{m}, e.managed.queue)

	j.frames, m.wanted = m.wanted, nil
	e.managedFailed(m, j, worker.ErrFull)
	require.Len(t, m.wanted, 3, "a look that never began has not found that something is missing")
	lines := m.lines
	require.NotZero(t, lines)
	e.dropManaged(m)
	require.Zero(t, e.said.bytes)
	require.Equal(t, lines, e.said.replaced)
}

// TestManagedNames: a sample waits for names once; what was not there is looked for again later; what is gone is not waited for.
func TestManagedNames(t *testing.T) {
	e := &Engine{cfg: Config{Symbolize: true, MemoryBytes: 64 << 20}, said: newSaid()}
	e.debugLimits = newDebugLimits(e.cfg.MemoryBytes)
	e.log = zap.NewNop()
	m := newManaged(&processState{p: &process.Process{}}, nil, foundRuntime{&toyRuntime{}, runtimes.All()[unwind.RuntimePython]})
	frame, missing := unwind.RawFrame{A: 1, B: 2, Runtime: unwind.RuntimePython}, unwind.RawFrame{A: 0, Runtime: unwind.RuntimePython}
	require.False(t, e.named(m, frame))
	require.False(t, e.named(m, frame))
	require.False(t, e.named(m, missing))
	require.Equal(t, []unwind.RawFrame{frame, missing}, m.wanted)

	j := &managedJob{frames: m.wanted, found: []foundFrame{{[]unwind.Line{{Function: unwind.Function{Name: "f"}}}, true}, {}}, instance: &toyRuntime{}}
	m.instance, m.wanted = j.instance, nil
	e.managedFound(m, j)
	require.True(t, e.named(m, frame))
	require.True(t, e.named(m, missing))
	require.Empty(t, m.wanted)
	require.Equal(t, managedStateBytes+1000+2*entryBytes+m.lines, e.said.bytes)
	n, _ := m.known.Peek(managedKey{0, 0})
	n.looked = time.Now().Add(-staleFor - time.Second)
	require.False(t, e.named(m, missing))

	m.gone = true
	require.True(t, e.named(m, unwind.RawFrame{A: 9, Runtime: unwind.RuntimePython}))
	require.True(t, e.named(m, missing))

	m.wanted = nil
	e.debugLimits.said = 1
	e.keepSaid(m)
	require.Zero(t, m.known.Len(), "names are dropped when the budget is spent")
	require.Zero(t, m.lines)
}

// TestManagedFailures: what is not ready is tried again for a while, what is not supported is not.
func TestManagedFailures(t *testing.T) {
	e := &Engine{said: newSaid(), log: zap.NewNop()}
	fresh := func() *managed {
		return newManaged(&processState{p: &process.Process{}}, nil, foundRuntime{&toyRuntime{}, runtimes.All()[unwind.RuntimePython]})
	}
	m, j := fresh(), &managedJob{}
	for range 2 * attachTries {
		e.managedFailed(m, j, runtimes.ErrNotReady)
		require.False(t, m.gone)
		require.LessOrEqual(t, time.Until(m.after), attachPatience)
	}
	require.Equal(t, uint64(1), e.count.RuntimeErrors, "that it takes long is told once")
	m = fresh()
	for range attachTries - 1 {
		e.managedFailed(m, j, errors.New("it cannot be read"))
		require.False(t, m.gone)
	}
	e.managedFailed(m, j, errors.New("it cannot be read"))
	require.True(t, m.gone)
	require.Equal(t, uint64(2), e.count.RuntimeErrors)

	m = fresh()
	e.managedFailed(m, j, errors.Join(errors.New("2.0"), runtimes.ErrUnsupported))
	require.True(t, m.gone)
	require.Equal(t, uint64(3), e.count.RuntimeErrors)

	m = fresh()
	e.managedFailed(m, j, procfs.ErrGone)
	require.True(t, m.gone)
	require.Equal(t, uint64(3), e.count.RuntimeErrors, "a process that ended is no failure")
}

// TestManagedRefused: a look that no worker takes is tried again, and does not end naming.
func TestManagedRefused(t *testing.T) {
	e := &Engine{cfg: Config{Symbolize: true, MemoryBytes: 64 << 20}, said: newSaid(), log: zap.NewNop()}
	e.jobs = newJobs(e.log, newCloser(e.log))
	e.jobs.close()
	m := newManaged(&processState{p: &process.Process{PID: 7}}, nil, foundRuntime{&toyRuntime{}, runtimes.All()[unwind.RuntimePython]})
	m.instance, m.plan.Fixed = &toyRuntime{}, true
	for range 2 * attachTries {
		require.False(t, e.named(m, unwind.RawFrame{A: 1, B: uint64(m.tries), Runtime: unwind.RuntimePython}))
		m.after = time.Time{}
		e.startManagedJobs(time.Now())
		require.False(t, m.gone)
		require.Equal(t, []*managed{m}, e.managed.queue)
		require.True(t, m.queued)
	}
	require.Equal(t, 2*attachTries, m.tries)
}

// TestManagedAgain: a plan that is to be made again after a while waits in the queue for that, and is outdated then.
func TestManagedAgain(t *testing.T) {
	e := &Engine{cfg: Config{Symbolize: true, MemoryBytes: 64 << 20}, said: newSaid(), log: zap.NewNop(), dirty: map[*processState]struct{}{}}
	m := newManaged(&processState{p: &process.Process{PID: 7}}, nil, foundRuntime{&toyRuntime{}, runtimes.All()[unwind.RuntimePython]})
	m.instance = &toyRuntime{}
	e.managedPlanned(m, runtimes.Plan{Again: time.Hour}, 0)
	require.Empty(t, e.dirty, "BPF was not to be told of anything")
	e.managed.enqueue(m)
	for range 3 {
		require.False(t, m.outdated())
		require.Equal(t, []*managed{m}, e.managed.queue)
		e.startManagedJobs(time.Now())
		require.False(t, m.running)
	}
	now := time.Now()
	m.wanted = []unwind.RawFrame{{A: 1}}
	require.False(t, e.rests(m, now), "frames are named all the same")
	m.wanted = nil
	m.again = now
	require.True(t, m.outdated())
	require.False(t, e.rests(m, now))
	e.ticks = 2
	require.True(t, e.rests(m, now), "the process does not run")
	e.ticks = 0

	e.managedPlanned(m, runtimes.Plan{Again: time.Nanosecond, Fixed: true}, 0)
	require.False(t, m.outdated())
	e.managedPlanned(m, runtimes.Plan{Ranges: []runtimes.Range{{Start: 1, End: 2}}}, 0)
	require.False(t, m.outdated())
	require.Contains(t, e.dirty, m.st)
	m.planned = 1 // of other mappings
	require.True(t, m.outdated())
	require.False(t, e.rests(m, now))
}

// TestNameManaged asks for all frames of a stack at once.
func TestNameManaged(t *testing.T) {
	e := &Engine{cfg: Config{Symbolize: true}, said: newSaid()}
	st := &processState{p: &process.Process{PID: 7}}
	m := newManaged(st, nil, foundRuntime{&toyRuntime{}, runtimes.All()[unwind.RuntimePython]})
	st.runtimes = []*managed{m}
	k := &stack{state: st}
	for i := range uint64(5) {
		k.user = append(k.user, unwind.RawFrame{A: i, Runtime: unwind.RuntimePython}, unwind.RawFrame{A: 0x1000 + i})
	}
	require.Equal(t, m, e.nameManaged(k))
	require.Len(t, m.wanted, 5)
}

// TestManagedNext: what was not ready is tried again soon at first, then with the polls.
func TestManagedNext(t *testing.T) {
	e := &Engine{cfg: Config{Symbolize: true, MemoryBytes: 64 << 20}, said: newSaid(), log: zap.NewNop()}
	now := time.Now()
	var all []*managed
	for range 2 {
		m := newManaged(&processState{p: &process.Process{PID: 7}}, nil, foundRuntime{&toyRuntime{}, runtimes.All()[unwind.RuntimePython]})
		e.managedFailed(m, &managedJob{}, runtimes.ErrNotReady)
		all = append(all, m)
	}
	all[1].after = all[0].after.Add(100 * time.Millisecond)
	soon := func(m *managed) {
		t.Helper()
		require.True(t, e.managed.next.After(m.after))
		require.LessOrEqual(t, e.managed.next.Sub(m.after), attachGrain)
	}
	e.startManagedJobs(now)
	soon(all[0])
	for range attachSoon {
		e.managedFailed(all[0], &managedJob{}, runtimes.ErrNotReady)
	}
	e.startManagedJobs(now)
	soon(all[1])
	all[1].gone = true
	e.startManagedJobs(now)
	require.Zero(t, e.managed.next)
}

// TestStoppedIn: a walk ended in the code of its last frame's runtime.
func TestStoppedIn(t *testing.T) {
	native, python := unwind.RawFrame{A: 1}, unwind.RawFrame{A: 2, Runtime: unwind.RuntimePython}
	require.Equal(t, "native", frameType((&stack{}).stoppedIn()))
	require.Equal(t, "native", frameType((&stack{user: []unwind.RawFrame{python, native}}).stoppedIn()))
	require.Equal(t, "cpython", frameType((&stack{user: []unwind.RawFrame{native, python}}).stoppedIn()))
}

// TestHides: frames in code that a runtime wants hidden, and no others.
func TestHides(t *testing.T) {
	st := &processState{p: &process.Process{PID: 7}}
	require.False(t, st.hides(0x1000))
	for _, hidden := range [][]runtimes.Range{nil, {{Start: 0x1000, End: 0x2000}, {Start: 0x3000, End: 0x4000}}} {
		m := newManaged(st, nil, foundRuntime{&toyRuntime{}, runtimes.All()[unwind.RuntimePython]})
		m.plan.Hidden = hidden
		st.runtimes = append(st.runtimes, m)
	}
	for a, want := range map[unwind.Addr]bool{0xfff: false, 0x1000: true, 0x1fff: true, 0x2000: false, 0x3000: true, 0x4000: false} {
		require.Equal(t, want, st.hides(a), "%#x", a)
	}
}

// TestMissed: native frames in code that is a runtime's stand for frames that are missing.
func TestMissed(t *testing.T) {
	st := &processState{p: &process.Process{PID: 7}}
	for _, id := range []unwind.Runtime{unwind.RuntimePython, unwind.RuntimeV8} {
		m := newManaged(st, nil, foundRuntime{&toyRuntime{}, runtimes.All()[id]})
		m.plan.Ranges = []runtimes.Range{{Start: 0x1000 * unwind.Addr(id), End: 0x1000*unwind.Addr(id) + 0x100}}
		st.runtimes = append(st.runtimes, m)
	}
	at := func(id unwind.Runtime) unwind.RawFrame { return unwind.RawFrame{A: 0x1000*uint64(id) + 8} }
	other := unwind.RawFrame{A: 0x9000}
	own := at(unwind.RuntimePython)
	own.Runtime = unwind.RuntimePython
	require.Equal(t, unwind.RuntimeNative, st.missed(nil))
	require.Equal(t, unwind.RuntimeNative, st.missed([]unwind.RawFrame{other, own}))
	require.Equal(t, unwind.RuntimePython, st.missed([]unwind.RawFrame{other, at(unwind.RuntimePython)}))
	require.Equal(t, unwind.RuntimeV8, st.missed([]unwind.RawFrame{at(unwind.RuntimeV8)}))
}
