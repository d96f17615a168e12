package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/hostprofiles/hostprofiles/internal/ebpf"
	"github.com/hostprofiles/hostprofiles/internal/runtimes"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// unwinderTimeout is how long the kernel may take to verify a program: a second where nothing is wrong.
const unwinderTimeout = 2 * time.Minute

// loadUnwinders has the unwinders of language runtimes loaded, one after the other: what they find could not be named without
// symbolization.
func (e *Engine) loadUnwinders() {
	if !e.cfg.Symbolize {
		return
	}
	var all []runtimes.Entry
	for _, r := range runtimes.All() {
		if r.Walked && r.ID != unwind.RuntimeNative {
			all = append(all, r)
		}
	}
	e.loadUnwinder(all)
}

// loadUnwindersLater goes on where no worker had time, at a tick's end.
func (e *Engine) loadUnwindersLater() {
	left := e.unwinders
	e.unwinders = nil
	e.loadUnwinder(left)
}

// loadUnwinder loads the first, and then the others.
func (e *Engine) loadUnwinder(left []runtimes.Entry) {
	if len(left) == 0 {
		return
	}
	entry := left[0]
	then := func(u *ebpf.Unwinder, err error) {
		if err == nil {
			err = e.kernel.Add(u)
		}
		switch {
		case err == nil:
			e.findRuntimeAgain(entry.ID)
		case !began(err): // no worker had time
			e.unwinders = left
			return
		default:
			e.count.RuntimeErrors++
			e.log.Warn("the kernel does not take the unwinder for a language runtime: its interpreter or generated code is shown instead",
				zap.String("runtime", entry.FrameType), zap.Error(err))
		}
		e.loadUnwinder(left[1:])
	}
	u, err := e.kernel.NewUnwinder(entry)
	if err != nil {
		then(nil, err)
		return
	}
	about := aboutSelf(unwinderSerial-uint64(entry.ID), "unwinder for "+entry.FrameType)
	about.unbegun = func() { _ = u.Close() }
	load := func(context.Context) (any, error) {
		if err := u.Load(); err != nil {
			return nil, errors.Join(err, u.Close())
		}
		return u, nil
	}
	e.jobs.submit(about, unwinderTimeout, load, func(_ any, err error) {
		then(u, err)
		if err == nil {
			_ = u.Close() // descriptors that only the loading needed
		}
	})
}

// findRuntimeAgain has BPF told again of processes that have a runtime.
func (e *Engine) findRuntimeAgain(id unwind.Runtime) {
	for _, st := range e.states {
		for _, m := range st.p.Mappings() {
			x := e.executables.Of(m.File)
			if x != nil && ready(x) && slices.ContainsFunc(x.Payload.runtimes, func(r foundRuntime) bool { return r.entry.ID == id }) {
				e.markDirty(st)
				break
			}
		}
	}
}
