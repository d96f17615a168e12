package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/hostprofiles/hostprofiles/internal/process"
	"github.com/hostprofiles/hostprofiles/internal/process/procfs"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// Programs that want their code in huge pages copy it to anonymous memory at the same addresses. That memory lies between
// mappings of the file, and holds just what the file has there: see docs/decisions/0026-text-in-anonymous-memory.md.

const (
	// maxOwnTexts bounds how many places of a process are looked at, and maxOwnTries how often each in a row without finding code.
	maxOwnTexts, maxOwnTries = 32, 8
	// ownTextTimeout bounds one look.
	ownTextTimeout = 5 * time.Second
	// textPause is how long a place is left alone that could not be compared; each time that is doubled.
	textPause = time.Second
	// maxTextsWaiting bounds how many places wait to be compared, of all processes.
	maxTextsWaiting = 4096
	// Of a core's time comparing takes no more than this part, beyond what programs take that are there at the start.
	textShare  = 0.005
	textCredit = 5 * time.Second // that may be used at once; 64 MiB take some 50 ms
	textDebt   = time.Second     // that one place may leave behind, at most
)

// ownText is memory that may be a file's code.
type ownText struct {
	st     *processState
	memory process.MappedFile // what is mapped there later is looked at again
	file   *process.File      // whose code it may be
	offset unwind.FileOffset  // of that code
	tries  int
	after  time.Time // no try before
	queued bool
}

// textFinder compares memory with files in the background, one place at a time.
type textFinder struct {
	queue   []*ownText
	running bool
	cpu     allowance
}

func newTextFinder() textFinder {
	return textFinder{cpu: newAllowance(textShare, textCredit, textDebt)}
}

// add has a place compared.
func (f *textFinder) add(o *ownText) {
	if len(f.queue) >= maxTextsWaiting {
		o.st.forgetText(o) // it is found again when BPF is told of the process again
		return
	}
	o.queued = true
	f.queue = append(f.queue, o)
}

// later has a place compared that could not be compared now.
func (f *textFinder) later(o *ownText, now time.Time) {
	if o.tries < maxOwnTries {
		o.after = now.Add(textPause << (o.tries - 1))
		f.add(o)
	}
}

// next takes the first place out of the queue whose time has come; nil if there is none, or nothing may be compared now.
func (f *textFinder) next(now time.Time) *ownText {
	if f.running || len(f.queue) == 0 || !f.cpu.some(now) {
		return nil
	}
	i := slices.IndexFunc(f.queue, func(o *ownText) bool { return !now.Before(o.after) })
	if i < 0 {
		return nil
	}
	o := f.queue[i]
	f.queue = slices.Delete(f.queue, i, i+1)
	o.queued = false
	return o
}

// findOwnText has the anonymous memory of a process looked at that may be code of the file around it.
func (e *Engine) findOwnText(st *processState, mappings []process.MappedFile) {
	for i := range mappings {
		file, offset, ok := around(mappings, i)
		if !ok {
			continue
		}
		x := e.executables.Of(file)
		if !ready(x) {
			continue // BPF is told of the process again when it is
		}
		is := mappings[i].Mapping
		is.Offset = offset
		if !is.SetBias(x.Payload.segments, uint64(pageSize)) {
			continue // no code there
		}
		if o := st.look(&mappings[i], file, offset); o != nil {
			e.texts.add(o)
		}
	}
}

// look notes a place, and returns it if it is to be compared and does not wait for that already.
func (st *processState) look(m *process.MappedFile, file *process.File, offset unwind.FileOffset) *ownText {
	i := slices.IndexFunc(st.ownTexts, func(o *ownText) bool { return o.memory.Start == m.Start })
	if i < 0 {
		if len(st.ownTexts) >= maxOwnTexts {
			return nil
		}
		o := &ownText{st: st, memory: *m, file: file, offset: offset}
		st.ownTexts = append(st.ownTexts, o)
		return o
	}
	o := st.ownTexts[i]
	if o.memory.Time == m.Time && o.memory.End == m.End || o.tries >= maxOwnTries {
		return nil
	}
	o.memory, o.file, o.offset = *m, file, offset
	if o.queued {
		return nil
	}
	return o
}

func (st *processState) forgetText(o *ownText) {
	st.ownTexts = slices.DeleteFunc(st.ownTexts, func(other *ownText) bool { return other == o })
}

// around tells which file's code the anonymous mapping number i may be, and from which offset on: that of which it continues the
// mapping before, or which continues in the one behind. If both are of files, they have to agree.
//
//	memory   |..file A, offset a..|....mapping i....|..file A, offset b..|
//	                                                a + both lengths = b
func around(mappings []process.MappedFile, i int) (file *process.File, offset unwind.FileOffset, ok bool) {
	m := &mappings[i]
	if m.File != nil {
		return nil, 0, false
	}
	if i > 0 {
		if b := &mappings[i-1]; b.File != nil && b.End == m.Start {
			file, offset, ok = b.File, b.Offset+unwind.FileOffset(b.End-b.Start), true
		}
	}
	if i+1 < len(mappings) {
		if a := &mappings[i+1]; a.File != nil && a.Start == m.End {
			length := unwind.FileOffset(m.End - m.Start)
			if a.Offset < length || ok && (a.File != file || a.Offset-length != offset) {
				return nil, 0, false
			}
			file, offset, ok = a.File, a.Offset-length, true
		}
	}
	return file, offset, ok && !file.VDSO()
}

// startTextJobs gives what waits to the workers.
func (e *Engine) startTextJobs(now time.Time) {
	for o := e.texts.next(now); o != nil; o = e.texts.next(now) {
		e.compareText(o, now)
	}
}

// there tells whether the memory is what the process has there now.
func (o *ownText) there() bool {
	if o.st.p.State() == process.Removed {
		return false
	}
	m, ok := o.st.p.Find(o.memory.Start)
	return ok && m.File == nil && m.Start == o.memory.Start && m.End == o.memory.End && m.Time == o.memory.Time
}

// compareText compares the memory with the file on a worker, and takes it for the file's code if they are equal.
func (e *Engine) compareText(o *ownText, now time.Time) {
	x := e.executables.Of(o.file)
	if !o.there() || !ready(x) {
		o.st.forgetText(o) // BPF is told of what is there, or of the file when it is ready; it is found again then
		return
	}
	o.tries++
	if !x.Payload.file.open() {
		e.reopen(wanting{x, x.Payload})
		e.texts.later(o, now)
		return
	}
	e.texts.running = true
	st, m, offset, cpu := o.st, o.memory, o.offset, &cpuTime{}
	proc, pid, file := e.proc, st.p.PID, x.Payload.file
	about := aboutProcess(pid, "code in memory")
	about.lines = true
	e.jobs.submit(about, ownTextTimeout,
		func(ctx context.Context) (any, error) {
			defer cpu.start()()
			return nil, proc.SameText(ctx, pid, m.Start, m.End, file, offset)
		},
		func(_ any, err error) {
			e.texts.running = false
			e.texts.cpu.spend(cpu.soFar())
			if err == nil {
				o.tries = 0
				if e.table.HoldsCode(st.p, &m, x.File, offset) {
					e.markDirty(st)
				}
				return
			}
			e.log.Debug("looking for a file's code in memory", zap.Uint32("pid", pid), zap.Error(err))
			if !errors.Is(err, procfs.ErrNotText) && !errors.Is(err, procfs.ErrGone) && !o.queued {
				e.texts.later(o, time.Now())
			}
		})
}
