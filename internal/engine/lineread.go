package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/hostprofiles/hostprofiles/internal/symbolize"
	"github.com/hostprofiles/hostprofiles/internal/symbolize/dwarf"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

// debugLimits bound the memory that debug information takes, whatever the files are.
type debugLimits struct {
	working uint64        // bytes, for the one batch that is being looked up
	kept    uint64        // bytes, for all that stays open between two batches
	one     chan struct{} // held by that batch
}

const (
	// debugShare is the part of all memory that a batch may take.
	debugShare = 8
	// keptShare is the part that stays.
	keptShare = 16
	// largestKept is the part of that which one file may have.
	largestKept = 2
)

func newDebugLimits(memoryBytes uint64) *debugLimits {
	return &debugLimits{
		working: memoryBytes / debugShare, kept: memoryBytes / keptShare, one: make(chan struct{}, 1),
	}
}

// openDebug is debug information that can be asked again.
type openDebug struct {
	data  *dwarf.Data
	files io.Closer // nil if it is the executable itself
	bytes int
	ctx   context.Context // of the job that uses it
}

// Close closes the files.
func (o *openDebug) Close() error {
	o.data.Close()
	if o.files == nil {
		return nil
	}
	return o.files.Close()
}

// foundLine is what is known of an address now.
type foundLine struct {
	lines []unwind.Line
	asked bool // so far it came
}

// lineResult is a job's.
type lineResult struct {
	found  []foundLine
	open   *openDebug // nil if it was closed
	absent bool       // there is no debug information
	failed error      // why not all addresses were asked for, or some not answered
	read   int        // bytes, about, that became garbage
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
	elf     *elffile.File
	path    string
	open    *openDebug
	strings *symbolize.Strings
}

func (l *lineReader) read(ctx context.Context, batch []unwind.FileAddr) (*lineResult, error) {
	release, err := acquire(ctx, l.limits.one)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("waiting to read the debug information of %s: %w", l.path, err), l.close())
	}
	defer release()
	r := &lineResult{found: make([]foundLine, len(batch))}
	if l.open == nil {
		if err := l.find(ctx); err != nil {
			if ctx.Err() != nil {
				return nil, err
			}
			r.absent = errors.Is(err, dwarf.ErrNoDWARF)
			r.failed = err
			return r, nil
		}
	}
	l.open.ctx = ctx
	before := l.open.data.Stats().BytesRead
	r.failed = l.lookUp(batch, r.found)
	r.read = int(l.open.data.Stats().BytesRead - before)
	if err := ctx.Err(); err != nil {
		return nil, errors.Join(fmt.Errorf("looking up lines of %s: %w", l.path, err), l.close())
	}
	keep := l.limits.kept / largestKept
	l.open.data.Trim(keep / 2)
	if l.open.bytes = l.open.data.Bytes(); uint64(l.open.bytes) > keep {
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

// find opens the debug information.
func (l *lineReader) find(ctx context.Context) error {
	l.open = &openDebug{ctx: ctx}
	open := l.open
	data, err := dwarf.Open(l.elf.Within(elffile.NewBudget(l.path, l.limits.working)), dwarf.Options{
		Stop: func() error { return open.ctx.Err() },
	})
	if err != nil {
		l.open = nil
		return fmt.Errorf("opening the debug information of %s: %w", l.path, err)
	}
	l.open.data = data
	return nil
}

// lookUp fills in found. The error is the last of those that left addresses unasked, or without an answer.
func (l *lineReader) lookUp(batch []unwind.FileAddr, found []foundLine) (failed error) {
	err := l.open.data.LookupAll(batch, func(n int, lines []unwind.Line, err error) {
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
