package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hostprofiles/hostprofiles/internal/process/procfs"
	"github.com/hostprofiles/hostprofiles/internal/symbolize"
	"github.com/hostprofiles/hostprofiles/internal/symbolize/debugfile"
	"github.com/hostprofiles/hostprofiles/internal/symbolize/dwarf"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

// debugLimits bound the memory that debug information takes, whatever the files are.
type debugLimits struct {
	working uint64 // bytes, for the one batch that is being looked up
	kept    uint64 // bytes, for all that stays open between two batches
	said    uint64 // bytes, for what all processes say of their code
}

const (
	// debugShare is the part of all memory that a batch may take.
	debugShare = 8
	// keptShare is the part that stays.
	keptShare = 64
	// saidShare is the part that what processes say of their code may take, and jitFileShare the part of that which one file may take: a process
	// has two at most, and what is known of its addresses.
	saidShare    = 8
	jitFileShare = 0.375
	// spillSize is from how many bytes on what is decompressed goes to disk: what stays in memory would have to be decompressed
	// again and again, as little of it is kept.
	spillSize = 64 << 10
	// largestKept is the part of that which one file may have.
	largestKept = 2
)

func newDebugLimits(memoryBytes uint64) *debugLimits {
	return &debugLimits{working: memoryBytes / debugShare, kept: memoryBytes / keptShare, said: memoryBytes / saidShare}
}

// openDebug is debug information that can be asked again.
type openDebug struct {
	data  *dwarf.Data // nil if it could not be opened
	found *debugfile.Found
	roots []io.Closer
	bytes int
	slide uint64          // what addresses exceed those in data by
	ctx   context.Context // of the job that uses it
}

// Close closes the files, the executable's own excepted.
func (o *openDebug) Close() error {
	if o.data != nil {
		o.data.Close()
	}
	err := o.found.Close()
	for _, r := range o.roots {
		err = errors.Join(err, r.Close())
	}
	return err
}

// foundLine is what is known of an address now.
type foundLine struct {
	lines []unwind.Line
	asked bool // so far it came
}

// lineResult is a job's.
type lineResult struct {
	found  []foundLine
	open   *openDebug       // nil if it was closed
	opened bool             // in this job
	source debugfile.Source // then: where it was found
	files  string           // and the files, for the log
	wanted []string         // build ids of files that are missing
	absent bool             // there is no debug information
	noData bool             // in .gnu_debugdata neither
	failed error            // why not all addresses were asked for, or some not answered
	read   int              // bytes, about, that became garbage
}

// Close drops a result that came too late.
func (r *lineResult) Close() error {
	if r == nil || r.open == nil {
		return nil
	}
	return r.open.Close()
}

// lineReader looks a batch of addresses up, on a worker.
type lineReader struct {
	limits  *debugLimits
	proc    rootOpener
	pids    []uint32 // processes that have mapped the file: theirs are the roots that are looked into
	fetcher debugfile.Fetcher
	spills  *spills
	elf     *elffile.File
	kernel  *kernelSource // instead of elf: the kernel or a module
	path    string
	open    *openDebug
	strings *symbolize.Strings
	noData  bool // nothing is to be expected of .gnu_debugdata

	started atomic.Bool // what was open is its own now
	cpu     cpuTime
	moved   time.Time     // when it was last seen to do something
	used    time.Duration // up to then
}

// linesPatience is how long a batch that has begun may do nothing until it is taken to hang.
const linesPatience = 10 * time.Second

// hangs tells whether it has done nothing for a long time, as if it waited for a file. One that waits for its turn, or that has little
// of a CPU, does not hang. It is for one goroutine, which asks now and then.
func (l *lineReader) hangs(now time.Time) bool {
	if used := l.cpu.soFar(); used != l.used || l.moved.IsZero() || !l.started.Load() {
		l.used, l.moved = used, now
	}
	return now.Sub(l.moved) > linesPatience
}

// rootOpener opens the roots of processes.
type rootOpener interface {
	OpenRoot(pid uint32) (*procfs.Root, error)
	OpenHostRoot(dir string) (*procfs.Root, error)
}

func (l *lineReader) read(ctx context.Context, batch []unwind.FileAddr) (r *lineResult, err error) {
	l.started.Store(true)
	defer l.cpu.start()()
	defer func() {
		if r == nil { // no result, or a panic
			err = errors.Join(err, l.close())
		}
	}()
	return l.answer(ctx, batch)
}

// answer looks the batch up. Without a result something may be open still.
func (l *lineReader) answer(ctx context.Context, batch []unwind.FileAddr) (*lineResult, error) {
	r := &lineResult{found: make([]foundLine, len(batch))}
	if l.open == nil {
		r.opened = true
		err := l.find(ctx, r)
		if ctx.Err() != nil {
			return nil, errors.Join(ctx.Err(), err)
		}
		if r.failed = err; l.open == nil {
			return r, nil
		}
	}
	l.open.ctx = ctx
	before := l.open.data.Stats().BytesRead
	r.failed = errors.Join(r.failed, l.lookUp(batch, r.found))
	r.read = int(l.open.data.Stats().BytesRead - before)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("looking up lines of %s: %w", l.path, err)
	}
	keep := l.limits.kept / largestKept
	l.open.data.Trim(keep / 2)
	if l.open.bytes = l.open.data.Kept(); uint64(l.open.bytes) > keep {
		r.failed = errors.Join(r.failed, l.close())
		return r, nil
	}
	r.open = l.open
	return r, nil
}

func (l *lineReader) close() error {
	if l.open == nil {
		return nil
	}
	err := l.open.Close()
	l.open = nil
	return err
}

// find opens the debug information. If that cannot be, nothing is open. The error says what is missing, of it or of a part.
func (l *lineReader) find(ctx context.Context, r *lineResult) (err error) {
	open := &openDebug{ctx: ctx, found: &debugfile.Found{}}
	defer func() {
		if l.open == nil {
			err = errors.Join(err, open.Close())
		}
	}()
	roots := l.roots(open)
	budget := elffile.NewBudget(l.path, l.limits.working)
	found, missing := l.findFile(ctx, budget, roots)
	open.found, r.source, r.files, r.wanted, r.noData = found, found.Source, found.String(), found.Wanted, found.NoDebugData
	if found.Debug == nil {
		r.absent = errors.Is(missing, debugfile.ErrNotFound)
		return missing
	}
	options := found.Options
	options.Spill, options.SpillSize = l.spills.create, spillSize
	options.Stop = func() error { return open.ctx.Err() }
	var data *dwarf.Data
	debug, slide, err := l.place(found.Debug.Within(budget))
	if open.slide = slide; err == nil {
		data, err = dwarf.Open(debug, options)
	}
	if err != nil {
		r.absent = errors.Is(err, dwarf.ErrNoDWARF)
		return fmt.Errorf("opening the debug information of %s, %s: %w", l.path, found, err)
	}
	open.data, l.open = data, open
	return missing
}

// initPID has the host's root where the collector sees the host's processes, as in a container with hostPID.
const initPID = 1

// roots opens the roots to look into: a process's, then the host's, then the collector's own.
func (l *lineReader) roots(open *openDebug) (roots []debugfile.Root) {
	add := func(r *procfs.Root, err error) bool {
		if err != nil {
			return false // gone, or not permitted: others may be
		}
		for _, other := range open.roots {
			if r.Same(other.(*procfs.Root)) {
				_ = r.Close() // a reference only
				return true
			}
		}
		open.roots = append(open.roots, r)
		roots = append(roots, r)
		return true
	}
	for _, pid := range l.pids {
		if add(l.proc.OpenRoot(pid)) {
			break
		}
	}
	add(l.proc.OpenRoot(initPID))
	add(l.proc.OpenHostRoot("/"))
	return roots
}

// lookUp fills in found. The error is the last of those that left addresses unasked, or without an answer.
func (l *lineReader) lookUp(batch []unwind.FileAddr, found []foundLine) (failed error) {
	err := l.open.data.LookupAll(l.open.inFile(batch), func(n int, lines []unwind.Line, err error) {
		found[n].asked = true
		if err != nil && !errors.Is(err, dwarf.ErrNotCovered) {
			failed = fmt.Errorf("looking up the lines of %#x in %s: %w", uint64(batch[n]), l.path, err)
		}
		if err != nil || len(lines) == 0 {
			return
		}
		lines = slices.Clone(lines)
		if err := l.strings.Keep(lines); err != nil {
			failed = fmt.Errorf("keeping the names of %s: %w", l.path, err)
			return
		}
		found[n].lines = lines
	})
	if err != nil {
		failed = fmt.Errorf("looking up lines in %s: %w", l.path, err)
	}
	return failed
}
