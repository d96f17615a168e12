package flamegraph

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostprofiles/hostprofiles/exporter/flamegraph/internal/store"
)

// filled is a cache beside a store that holds many stacks. Its room is so many times what making a tree of them takes.
func filled(t *testing.T, times float64) (c *treeCache, s *store.Snapshot, room int) {
	t.Helper()
	data := store.New(store.Options{Window: time.Hour, Bytes: 128 << 20})
	_, err := data.Add(manyStacks(20_000, 5000), epoch)
	require.NoError(t, err)
	s = data.Snapshot(epoch)
	for n := 1 << 20; ; n += n / 16 {
		if tree, _ := s.Tree(store.Query{Bytes: n}); !tree.Cut() {
			room = int(times * float64(n))
			break
		}
	}
	c = newTreeCache(room)
	c.forget(s.Serial)
	return c, s, room
}

// TestTreesShareTheRoom: trees that are kept go for others, and what is in use is never more than there is.
func TestTreesShareTheRoom(t *testing.T) {
	c, s, room := filled(t, 3)
	var first *store.Tree
	for i := range 6 {
		q := store.Query{Selection: store.Selection{From: int64(i)}} // the same samples, and another query
		tree, done, ok := c.get(s, q, false)
		require.True(t, ok)
		require.False(t, tree.Cut())
		require.LessOrEqual(t, c.used, room)
		again, doneAgain, _ := c.get(s, q, false)
		require.Same(t, tree, again)
		doneAgain()
		done()
		if i == 0 {
			first = tree
		}
	}
	require.Greater(t, len(c.entries), 1, "there is room for several")
	require.Less(t, len(c.entries), 6, "and not for all")
	sum := 0
	for _, e := range c.entries {
		require.NotSame(t, first, e.tree)
		sum += e.bytes
	}
	require.Equal(t, sum, c.used)
	// What was dropped is not held by what it was kept in.
	gone := make(chan struct{})
	runtime.AddCleanup(first, func(int) { close(gone) }, 0)
	first = nil
	for collected := false; !collected; {
		runtime.GC()
		select {
		case <-gone:
			collected = true
		case <-time.After(10 * time.Millisecond):
		}
	}
	c.forget(s.Serial + 1)
	require.Zero(t, c.used)
	require.Empty(t, c.entries)
}

// TestTreesAreCutLast: a tree that is too large for what others leave has all the room before stacks are left out.
func TestTreesAreCutLast(t *testing.T) {
	c, s, room := filled(t, 1.4) // with lines it takes more
	q := store.Query{}
	tree, done, _ := c.get(s, q, false)
	done()
	require.False(t, tree.Cut(), "%d bytes", tree.Bytes())
	q.Lines = true
	tree, done, _ = c.get(s, q, false)
	done()
	require.False(t, tree.Cut(), "%d bytes", tree.Bytes())
	require.Len(t, c.entries, 1)
	// A download that is under way leaves less: then the largest stacks are there.
	require.True(t, c.takeAll(room, 0, room))
	require.Empty(t, c.entries)
	q.Lines = false
	tree, done, _ = c.get(s, q, false)
	require.True(t, tree.Cut())
	require.LessOrEqual(t, tree.Bytes()+tree.ViewBytes(), room/leastShare)
	done()
	c.give(room)
	require.False(t, c.takeAll(room+1, 0, room), "that much there is never")
}

// TestDownloadsWait: what needs more than answers leave that are being made comes after them.
func TestDownloadsWait(t *testing.T) {
	c, s, room := filled(t, 3)
	_, done, ok := c.get(s, store.Query{}, false)
	require.True(t, ok)
	taken := make(chan bool)
	go func() { taken <- c.takeAll(room, 0, room) }()
	select {
	case <-taken:
		t.Fatal("it did not wait")
	case <-time.After(50 * time.Millisecond):
	}
	done()
	require.True(t, <-taken)
	c.give(room)
	// It does not wait for itself.
	tree, done, _ := c.get(s, store.Query{}, true)
	own := tree.Bytes() + tree.ViewBytes()
	require.False(t, c.takeAll(room, own, room))
	require.True(t, c.takeAll(room-own, own, room))
	c.give(room - own)
	done()
	c.forget(s.Serial + 1)
	require.Zero(t, c.used, fmt.Sprint(c.entries))
}

// TestNoSuchType: what cannot be answered leaves nothing behind.
func TestNoSuchType(t *testing.T) {
	c, s, _ := filled(t, 3)
	_, _, ok := c.get(s, store.Query{Selection: store.Selection{Type: "nothing"}}, true)
	require.False(t, ok)
	require.Empty(t, c.entries)
	require.Zero(t, c.used)
}
