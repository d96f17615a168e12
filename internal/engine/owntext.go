package engine

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/hostprofiles/hostprofiles/internal/process"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// Programs that want their code in huge pages copy it to anonymous memory at the same addresses. That memory lies between
// mappings of the file, and holds just what the file has there: see docs/decisions/0026-text-in-anonymous-memory.md.

const (
	// maxOwnTexts bounds how many places of a process are looked at, and maxOwnTries how often each.
	maxOwnTexts, maxOwnTries = 32, 8
	// ownTextTimeout bounds one look.
	ownTextTimeout = 5 * time.Second
)

// ownText is a place that was looked at, or is being.
type ownText struct {
	start unwind.Addr
	time  uint64 // of the mapping: what is mapped there later is looked at again
	tries int
}

// findOwnText has the anonymous memory of a process looked at that may be code of the file around it.
func (e *Engine) findOwnText(st *processState, mappings []process.MappedFile) {
	for i := range mappings {
		m := &mappings[i]
		file, offset, ok := around(mappings, i)
		if !ok {
			continue
		}
		x := e.executables.Of(file)
		if !ready(x) || !x.Payload.file.open() {
			continue // it will be published again when it is
		}
		if st.look(m) {
			e.compareText(st, *m, x, offset)
		}
	}
}

// look tells whether a mapping is to be looked at, and notes that it is.
func (st *processState) look(m *process.MappedFile) bool {
	for i := range st.ownTexts {
		o := &st.ownTexts[i]
		if o.start != m.Start {
			continue
		}
		if o.time == m.Time || o.tries >= maxOwnTries {
			return false
		}
		o.time = m.Time
		o.tries++
		return true
	}
	if len(st.ownTexts) >= maxOwnTexts {
		return false
	}
	st.ownTexts = append(st.ownTexts, ownText{m.Start, m.Time, 1})
	return true
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

// compareText compares the memory with the file on a worker, and takes it for the file's code if they are equal.
func (e *Engine) compareText(st *processState, m process.MappedFile, x *process.Executable[*executable], offset unwind.FileOffset) {
	is := m.Mapping
	is.Offset = offset
	if !is.SetBias(x.Payload.segments, uint64(pageSize)) {
		return // no code there
	}
	proc, pid, file := e.proc, st.p.PID, x.Payload.file
	e.jobs.submit(aboutProcess(pid, "code in memory"), ownTextTimeout,
		func(ctx context.Context) (any, error) {
			return nil, proc.SameText(ctx, pid, m.Start, m.End, file, offset)
		},
		func(_ any, err error) {
			if err != nil {
				e.log.Debug("looking for a file's code in memory", zap.Uint32("pid", pid), zap.Error(err))
				return
			}
			if e.table.HoldsCode(st.p, &m, x.File, offset) {
				e.markDirty(st)
			}
		})
}
