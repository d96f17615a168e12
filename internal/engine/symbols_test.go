package engine

import (
	"context"
	"errors"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/symbolize"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
)

// TestSymbolBytes fills an executable's cache, fills it again and empties it: what it takes is counted all the while.
func TestSymbolBytes(t *testing.T) {
	xs := newExecutableSymbols()
	lines := make([]unwind.Line, 3, 4)
	one := symbolize.LineBytes(lines)
	if one < 4*64 {
		t.Errorf("%d bytes for room for four lines", one)
	}
	batch := []unwind.FileAddr{1, 2, 3}
	for _, a := range batch {
		xs.lru.Add(a, &symbolized{})
	}
	for range 2 {
		xs.found(append(batch, 4), []symbolized{{lines: lines}, {lines: lines}, {}, {lines: lines}}) // 4 was evicted
		if want := 2*one + 3*entryBytes; xs.size() != want {
			t.Errorf("%d bytes, want %d", xs.size(), want)
		}
	}
	xs.lru.Remove(1)
	if want := one + 2*entryBytes; xs.size() != want {
		t.Errorf("%d bytes, want %d", xs.size(), want)
	}
	for a := range unwind.FileAddr(linesPerExecutable) {
		xs.lru.Add(100+a, &symbolized{})
	}
	if xs.bytes != 0 || xs.lru.Len() != linesPerExecutable {
		t.Errorf("%d bytes in %d entries", xs.bytes, xs.lru.Len())
	}
}

// stopping ends a context after some reads.
type stopping struct {
	context.Context
	left int
}

func (s *stopping) Err() error {
	if s.left--; s.left < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// TestLookUpStops ends a batch with its ctx, between two addresses.
func TestLookUpStops(t *testing.T) {
	f := unwindtest.Open(t, "/proc/self/exe")
	names, err := symbolize.New(f)
	if err != nil {
		t.Fatal(err)
	}
	batch := make([]unwind.FileAddr, 100)
	for i := range batch {
		batch[i] = f.Entry + unwind.FileAddr(i)
	}
	v, err := lookUp(t.Context(), names, nil, true, batch)
	if err != nil || len(v.(symbolResult).found[0].lines) == 0 {
		t.Fatalf("%v, %v", v, err)
	}
	ctx := &stopping{t.Context(), 10}
	if v, err := lookUp(ctx, names, nil, true, batch); !errors.Is(err, context.DeadlineExceeded) || v != nil || ctx.left != -1 {
		t.Errorf("%v, %v, %d", v, err, ctx.left)
	}
}
