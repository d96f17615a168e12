package engine

import (
	"context"
	"errors"
	"math"
	"sync/atomic"

	"github.com/hostprofiles/hostprofiles/internal/symbolize"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// beginnings are the functions of an executable that its search table lacks. Listing them takes much longer than finding names, so
// it is a job of its own, and names do not wait for it.
type beginnings struct {
	nameless []unwind.FileAddr // whose functions are not known yet
	listing  bool
	// left is of a job that was given up: whether it has ended. Until then it has the list, which nobody else may read or make.
	left *atomic.Bool
}

// taken tells whether a job has the list.
func (b *beginnings) taken() bool { return b.listing || b.left != nil && !b.left.Load() }

// want has functions listed.
func (b *beginnings) want(nameless []unwind.FileAddr) {
	if len(b.nameless) < linesPerExecutable {
		b.nameless = append(b.nameless, nameless...)
	}
}

// startOf is where the function around an address begins, and whether that is known now. A function that begins further before the
// address than profiles can tell has beginning 0, as one that nothing is known of.
func startOf(names *symbolize.Symbolizer, a unwind.FileAddr) (unwind.FileAddr, bool, error) {
	start, ok, err := names.Function(a)
	if ok && a-start > math.MaxUint32 {
		start = 0
	}
	return start, ok, err
}

// listFunctions begins to list an executable's functions if some are wanted, while no names of it are being looked up.
func (e *Engine) listFunctions(w wanting) {
	xs := w.payload.symbols
	b := &xs.beginnings
	if len(b.nameless) == 0 || b.taken() || xs.running || xs.evicted || xs.names == nil || !w.payload.file.open() {
		return
	}
	batch := b.nameless
	b.nameless, b.listing = nil, true
	of := e.symbols.ask()
	elf, names, path, builds := w.payload.elf, xs.names, w.x.File.Path, e.builds
	begun := true
	ended := new(atomic.Bool) // what it did is to be seen from then on
	about := aboutFunctions(w.payload.serial, w.x.File)
	about.unbegun = func() {
		begun = false
		b.want(batch) // with the next names
	}
	e.jobs.submit(about, symbolTimeout,
		func(ctx context.Context) (any, error) {
			defer ended.Store(true)
			var degraded error
			if !names.FunctionsListed() {
				degraded = builds.functions(ctx, path, elf, names)
			}
			starts := make([]unwind.FileAddr, len(batch))
			for i, a := range batch {
				start, _, err := startOf(names, a)
				if starts[i] = start; err != nil {
					degraded = errors.Join(degraded, err)
				}
				if err := ctx.Err(); err != nil {
					return nil, err
				}
			}
			return listed{starts, degraded}, nil
		},
		func(v any, err error) {
			b.listing = false
			e.symbols.answer(of)
			if err != nil {
				if begun {
					b.left = ended
					b.want(batch) // with the next names
				}
				xs.account()
				e.setBytes(w)
				e.keepGone(xs)
				e.count.SymbolErrors++
				e.log.Debug("listing functions", zapFile(w.x), zapError(err))
				return
			}
			r := v.(listed)
			if r.degraded != nil {
				e.count.SymbolErrors++
				e.log.Warn("the beginnings of some functions are missing", zapFile(w.x), zapError(r.degraded))
			}
			for i, a := range batch {
				if s, ok := xs.lru.Peek(a); ok && len(s.lines) == 0 {
					s.function = r.starts[i]
				}
			}
			xs.account()
			e.setBytes(w)
			e.keepGone(xs)
			e.listFunctions(w)
		})
}

// account notes how much the names take, unless a job may add to them.
func (xs *executableSymbols) account() {
	if !xs.running && !xs.beginnings.taken() && xs.names != nil {
		xs.kept = xs.names.Bytes()
	}
}

// listed is what a job found.
type listed struct {
	starts   []unwind.FileAddr // of a batch, 0 where that is not known
	degraded error             // what was not found
}
