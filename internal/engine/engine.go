package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/hostprofiles/hostprofiles/internal/ebpf"
	"github.com/hostprofiles/hostprofiles/internal/process"
	"github.com/hostprofiles/hostprofiles/internal/process/procfs"
	"github.com/hostprofiles/hostprofiles/internal/profile"
	"github.com/hostprofiles/hostprofiles/internal/runtimes"
	"github.com/hostprofiles/hostprofiles/internal/unwind/reference"
)

const (
	// pollInterval is how often the rings are read; a ring that fills up wakes the engine earlier.
	pollInterval = 100 * time.Millisecond
	// followInterval is how often CPUs that came or went are looked for.
	followInterval = time.Second
)

// maxRuntimes is how many runtimes a frame's first word can name.
const maxRuntimes = 32

// Engine turns samples into profiles. All fields below run's are owned by its goroutine.
type Engine struct {
	cfg  Config
	log  *zap.Logger
	sink Sink

	status func(error)
	stats  atomic.Pointer[Stats]

	mu      sync.Mutex // Start and Shutdown may come from different goroutines
	running bool
	stop    chan context.Context
	done    chan struct{}

	// of run
	kernel   *ebpf.Kernel
	cpus     *ebpf.OnCPU
	sideband *ebpf.Sideband
	wake     *ebpf.Waker
	proc     *procfs.FS
	clock    clock
	origin   profile.Origin

	jobs        *jobs
	builds      *builds
	debugLimits *debugLimits
	spills      *spills
	closer      *closer
	executables *process.Executables[*executable]
	table       *process.Table
	states      map[*process.Process]*processState

	in      ingest
	current stack // the sample being taken; its buffers are reused
	held    holder
	walker  reference.Walker
	symbols symbolizer
	lines   lineFinder
	fetches *fetches
	jit     jitter
	managed managedRuntimes
	// unwinders are those that are still to be loaded, and wait for a worker.
	unwinders []runtimes.Entry
	said      said
	texts     textFinder
	kernelNames
	giver   giver
	builder *profile.Builder
	spare   *profile.Builder // emptied, for the interval after this one
	began   time.Time        // of the interval that builder is for
	reports []report
	out     *sender

	count        Stats
	frames       [maxRuntimes]uint64
	ticks        uint64
	ringBefore   uint64    // the highest fill of the ring in the window before this one
	ringSince    time.Time // when this one began
	lossWarned   uint64
	lossWarnedAt time.Time
	sweptLost    uint64 // count.SidebandLost at the last sweep
	lastStatus   string
	bootID       string
	pidNamespace uint32 // inode, if it isn't the initial one
	polls        uint64
	published    map[uint32]*processState                         // what BPF knows, by pid in the initial namespace
	dirty        map[*processState]struct{}                       // BPF is to be told of
	withFile     map[*executable]*process.Executable[*executable] // to be closed
	maxFiles     int                                              // how many of them
	idle         map[*process.Executable[*executable]]struct{}    // nothing maps them: to be closed when their symbols are read
	comms        map[string]string
	containers   containers
	nameOnly     map[*process.File]*profile.Mapping // files that could not be read

	// reused
	locations []profile.Location
	mapped    []ebpf.MappedTable
}

// Option changes an Engine.
type Option func(*Engine)

// WithStatus makes the engine report its health: an error it may recover from, nil once it has.
func WithStatus(f func(error)) Option { return func(e *Engine) { e.status = f } }

// WithProcFS makes the engine read processes from a proc file system mounted elsewhere than at /proc.
func WithProcFS(root string) Option { return func(e *Engine) { e.proc = procfs.New(root) } }

// New makes an engine that does nothing yet.
func New(cfg Config, log *zap.Logger, sink Sink, options ...Option) (*Engine, error) {
	if sink == nil {
		return nil, errors.New("engine without a sink")
	}
	e := &Engine{cfg: cfg, log: log, sink: sink, status: func(error) {}, proc: procfs.New("/proc")}
	e.walker.NoCode = true // reading a target's memory could hang
	for _, o := range options {
		o(e)
	}
	e.stats.Store(&Stats{})
	return e, nil
}

// Stats returns the counters as they were at most a second ago.
func (e *Engine) Stats() Stats { return *e.stats.Load() }

// Start loads the programs and begins to sample. An error says what is missing (a capability, a kernel feature).
func (e *Engine) Start(context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.running {
		return errors.New("already started")
	}
	began := time.Now()
	if err := e.open(); err != nil {
		e.close()
		return err
	}
	e.log.Info("Profiling has started", zap.Int("frequency", e.cfg.OnCPUFrequency), zap.Int("cpus", e.cpus.Len()),
		zap.Stringer("walk", e.kernel.Variant()), zap.Duration("after", time.Since(began)))
	e.stop, e.done = make(chan context.Context, 1), make(chan struct{})
	e.running = true
	go e.run()
	return nil
}

// Shutdown ends sampling, delivers what was sampled and takes everything out of the kernel. When ctx ends first, what is
// left counts as lost. It may be called without Start and repeatedly.
func (e *Engine) Shutdown(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.running {
		return nil
	}
	e.running = false
	e.stop <- ctx
	<-e.done
	return nil
}

// open makes everything that run works with. The side-band is first: no mapping is made unseen while the rest loads.
func (e *Engine) open() (err error) {
	if e.sideband, err = ebpf.OpenSideband(e.log, int(e.cfg.MemoryBytes/8)); err != nil {
		return err
	}
	ns, err := e.proc.Namespaces()
	if err != nil {
		return fmt.Errorf("finding out the pid namespace: %w", err)
	}
	if err := e.explainNamespaces(ns); err != nil {
		return err
	}
	e.kernel, err = ebpf.Load(e.log, ebpf.Options{
		MaxFrames:    e.cfg.MaxFrames,
		MemoryBytes:  int(e.cfg.MemoryBytes/2) - e.sideband.Bytes(),
		PIDNamespace: e.pidNamespace,
	})
	if err != nil {
		return err
	}
	e.clock = newClock()
	e.bootID = e.proc.BootID()
	e.executables = process.NewExecutables[*executable](process.ExecutablesOptions{})
	e.table = process.NewTable(e.executables, process.Options{})
	e.states = map[*process.Process]*processState{}
	e.dirty = map[*processState]struct{}{}
	e.published = map[uint32]*processState{}
	e.containers = containers{}
	e.withFile = map[*executable]*process.Executable[*executable]{}
	e.maxFiles = maxOpenFiles()
	e.idle = map[*process.Executable[*executable]]struct{}{}
	e.comms = map[string]string{}
	e.nameOnly = map[*process.File]*profile.Mapping{}
	e.began = time.Now()
	e.closer = newCloser(e.log)
	e.jobs = newJobs(e.log, e.closer)
	e.builds = newBuilds(e.cfg.MemoryBytes)
	e.debugLimits = newDebugLimits(e.cfg.MemoryBytes)
	e.spills = newSpills()
	e.builder = e.newBuilder()
	e.out = newSender(e.sink, max(2, int(e.cfg.MemoryBytes/8)/max(1, e.cfg.PayloadBytes)))
	e.symbols = newSymbolizer()
	e.lines = newLineFinder()
	e.jit = newJitter()
	e.said = newSaid()
	e.texts = newTextFinder()
	if e.fetches, err = newFetches(e.cfg.Debuginfod); err != nil {
		e.log.Warn("Debug information cannot be fetched from servers", zap.Error(err))
	}
	e.count = newStats()
	if e.cfg.OnCPUEnabled {
		if e.cpus, err = e.kernel.StartOnCPU(e.cfg.OnCPUFrequency); err != nil {
			return err
		}
		e.origin = profile.OnCPU(time.Duration(e.cpus.Period()))
	}
	if e.wake, err = ebpf.NewWaker(e.kernel, e.sideband); err != nil {
		return fmt.Errorf("watching the rings: %w", err)
	}
	e.openKernelNames(runningKernel())
	e.scanProcesses()
	e.loadUnwinders()
	return nil
}

// maxOpenFiles is how many executables' files are kept open: half of the descriptors that the collector may have.
func maxOpenFiles() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 512
	}
	return int(min(limit.Cur/2, 1<<16))
}

// close takes everything out of the kernel; any of it may not be there.
func (e *Engine) close() {
	if e.cpus != nil {
		e.cpus.Close()
		e.cpus = nil
	}
	if e.wake != nil {
		e.wake.Close()
		e.wake = nil
	}
	if e.sideband != nil {
		e.sideband.Close()
		e.sideband = nil
	}
	if e.jobs != nil {
		e.jobs.close()
		e.jobs = nil
	}
	if e.out != nil {
		e.out.close()
		e.out = nil
	}
	if e.fetches != nil {
		e.fetches.close()
		e.fetches = nil
	}
	e.closeExecutables()
	if e.closer != nil {
		e.closer.wait(closeWait)
	}
	if e.kernel != nil {
		if err := e.kernel.Close(); err != nil {
			e.log.Warn("taking the programs out of the kernel", zap.Error(err))
		}
		e.kernel = nil
	}
}

func (e *Engine) newBuilder() *profile.Builder {
	if b := e.spare; b != nil {
		e.spare = nil
		return b
	}
	return profile.New(profile.Options{
		PayloadBytes: e.cfg.PayloadBytes, ThreadIDs: e.cfg.ThreadIDs, Version: e.cfg.Version, IDSeed: e.bootID,
	})
}
