package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/hostprofiles/hostprofiles/internal/process/worker"
	"github.com/hostprofiles/hostprofiles/internal/symbolize"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
	"github.com/hostprofiles/hostprofiles/internal/unwind/tables"
)

// builds bounds the memory that the building of unwind tables and the reading of symbols take, whatever the files are: each
// worker may build something small, and one of them something large.
type builds struct {
	bytes uint64        // that one large build may take
	large chan struct{} // held by it
}

const (
	// buildShare is the part of all memory that a large build may take.
	buildShare = 4
	// smallShare is the part of that which is enough for a small one.
	smallShare = 8
)

func newBuilds(memoryBytes uint64) *builds {
	return &builds{bytes: memoryBytes / buildShare, large: make(chan struct{}, 1)}
}

// build makes the table of the file f at path, and has it used. The error joins use's, and what building lacked.
func (b *builds) build(ctx context.Context, path string, f *elffile.File, use func(*unwind.Table, tables.Info) error) error {
	if small := b.bytes / smallShare; tables.Estimate(f) <= small {
		t, info, err := tables.Build(f.Within(elffile.NewBudget(path, small)))
		var large *elffile.TooLargeError
		if !errors.As(err, &large) {
			return errors.Join(err, use(t, info))
		}
	}
	release, err := b.acquire(ctx)
	if err != nil {
		return fmt.Errorf("waiting to build the unwind table of %s: %w", path, err)
	}
	defer release()
	t, info, err := tables.Build(f.Within(elffile.NewBudget(path, b.bytes)))
	return errors.Join(err, use(t, info))
}

// symbols reads the symbols of the file f at path. The Symbolizer is never nil; the error says what it will not find.
func (b *builds) symbols(ctx context.Context, path string, f *elffile.File) (*symbolize.Symbolizer, error) {
	names, err := symbolize.New(f.Within(elffile.NewBudget(path, b.bytes/smallShare)))
	var large *elffile.TooLargeError
	if !errors.As(err, &large) {
		return names, err
	}
	release, err := b.acquire(ctx)
	if err != nil {
		return names, fmt.Errorf("waiting to read the symbols of %s: %w", path, errors.Join(large, err))
	}
	defer release()
	return symbolize.New(f.Within(elffile.NewBudget(path, b.bytes)))
}

// functions has names list the functions of the file f at path that its search table lacks. The error says which will not be
// found.
func (b *builds) functions(ctx context.Context, path string, f *elffile.File, names *symbolize.Symbolizer) error {
	err := names.ListFunctions(f.Within(elffile.NewBudget(path, b.bytes/smallShare)))
	var large *elffile.TooLargeError
	if !errors.As(err, &large) {
		return err
	}
	release, err := b.acquire(ctx)
	if err != nil {
		names.FunctionsUnlisted()
		return fmt.Errorf("waiting to list the functions of %s: %w", path, errors.Join(large, err))
	}
	defer release()
	return names.ListFunctions(f.Within(elffile.NewBudget(path, b.bytes)))
}

// acquire waits until nothing else that is large is built. One that hangs in a read is not waited for longer than its ctx.
func (b *builds) acquire(ctx context.Context) (release func(), err error) {
	worker.Waiting(ctx, func() {
		select {
		case b.large <- struct{}{}:
		case <-ctx.Done():
			err = ctx.Err()
		}
	})
	if err != nil {
		return nil, err
	}
	once := sync.OnceFunc(func() { <-b.large })
	stop := context.AfterFunc(ctx, once)
	return func() { stop(); once() }, nil
}
