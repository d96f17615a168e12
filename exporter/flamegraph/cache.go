package flamegraph

import (
	"slices"
	"sync"

	"github.com/hostprofiles/hostprofiles/exporter/flamegraph/internal/store"
)

// treeCache keeps the trees that were made last: the views of one page ask for the same. It has all memory that answers take, and
// drops trees that nobody looks at for what is made.
type treeCache struct {
	making sync.Mutex // one tree at a time is made

	mu      sync.Mutex
	changed *sync.Cond    // memory was given back
	serial  uint64        // of the latest snapshot that is known of
	entries []*cachedTree // of that, the latest first
	room    int           // bytes that there are
	used    int           // by what is being made or looked at, and by the trees of entries
}

type cachedTree struct {
	query string
	made  chan struct{} // closed when tree and ok are there
	tree  *store.Tree
	ok    bool

	users int  // that wait for it or look at it
	kept  bool // it is an entry
	bytes int  // that it takes
}

// leastShare is the part of the room that an answer gets in any case, though others use all of it: they are downloads, which are sent
// slowly.
const leastShare = 16

func newTreeCache(room int) *treeCache {
	c := &treeCache{room: room}
	c.changed = sync.NewCond(&c.mu)
	return c
}

// forget drops the trees of what is not the latest content of the store any more.
func (c *treeCache) forget(latest uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if latest > c.serial {
		c.serial = latest
		for _, e := range c.entries {
			c.drop(e)
		}
		c.entries = nil
	}
}

// drop takes a tree out of what is kept. Its memory is free when nobody looks at it any more.
func (c *treeCache) drop(e *cachedTree) {
	if e.kept = false; e.users == 0 {
		c.used -= e.bytes
		e.bytes, e.tree = 0, nil
	}
}

// take takes up to most bytes. For the first least of them it drops the trees that were not asked for lately. It takes no less than the
// part that there is in any case.
func (c *treeCache) take(least, most int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropFor(least, c.room)
	n := min(most, max(c.room-c.used, c.room/leastShare))
	c.used += n
	return n
}

// takeAll takes n bytes of room. It waits for answers that are being made, and returns false if there is not so much beside what who
// asks uses already, and keeps.
func (c *treeCache) takeAll(n, own, room int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n > room-own {
		return false
	}
	for c.dropFor(n, room); n > room-c.used; c.dropFor(n, room) {
		c.changed.Wait()
	}
	c.used += n
	return true
}

// give gives bytes back.
func (c *treeCache) give(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used -= n
	c.changed.Broadcast()
}

// dropFor drops trees that nobody looks at until n of room bytes are free, those first that were not asked for for longest.
func (c *treeCache) dropFor(n, room int) {
	for i := len(c.entries) - 1; i >= 0 && n > room-c.used; i-- {
		if e := c.entries[i]; e.users == 0 {
			c.entries = slices.Delete(c.entries, i, i+1)
			c.drop(e)
		}
	}
}

// get returns the tree of a query, which is made once whoever else asks for it, and a function to call when nobody looks at it any
// more. patient waits for the memory that answers take which are being made. ok is false if there is no such profile type.
func (c *treeCache) get(s *store.Snapshot, q store.Query, patient bool) (t *store.Tree, done func(), ok bool) {
	e, mine := c.entry(s.Serial, q.String())
	if mine {
		if patient && c.takeAll(c.room/2, 0, c.room) {
			c.give(c.room / 2)
		}
		c.fill(e, s, q)
	} else {
		<-e.made
	}
	if !e.ok {
		c.leave(e, 0)
		return nil, nil, false
	}
	view := c.take(e.tree.ViewBytes(), e.tree.ViewBytes())
	return e.tree, func() { c.leave(e, view) }, true
}

// entry finds the entry of a query, or makes one that the caller has to fill.
func (c *treeCache) entry(serial uint64, query string) (e *cachedTree, mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e = &cachedTree{query: query, made: make(chan struct{}), users: 1}
	if serial != c.serial {
		return e, true // nobody else will ask for that
	}
	for i, have := range c.entries {
		if have.query == query {
			have.users++
			copy(c.entries[1:i+1], c.entries[:i])
			c.entries[0] = have
			return have, false
		}
	}
	e.kept = true
	c.entries = append([]*cachedTree{e}, c.entries...)
	return e, true
}

// fill makes an entry's tree within the memory that there is. If that is too little, all other trees go that nobody looks at.
func (c *treeCache) fill(e *cachedTree, s *store.Snapshot, q store.Query) {
	defer close(e.made) // whatever happens
	c.making.Lock()
	defer c.making.Unlock()
	n := c.take(c.room/2, c.room)
	defer func() { c.settle(e, n) }()
	q.Bytes = n
	if e.tree, e.ok = s.Tree(q); !e.ok || !e.tree.Cut() {
		return
	}
	before := n
	c.give(n)
	if n = c.take(c.room, c.room); n > before {
		e.tree, e.ok = nil, false // not beside the next
		q.Bytes = n
		e.tree, e.ok = s.Tree(q)
	}
}

// settle takes what the tree takes in place of what there was to make it.
func (c *treeCache) settle(e *cachedTree, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used -= n
	if e.ok {
		e.bytes = e.tree.Bytes()
		c.used += e.bytes
	}
	c.changed.Broadcast()
}

// leave says that one looks no more at a tree.
func (c *treeCache) leave(e *cachedTree, view int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used -= view
	if e.users--; e.users == 0 && (!e.kept || !e.ok) {
		c.entries = slices.DeleteFunc(c.entries, func(o *cachedTree) bool { return o == e })
		c.drop(e)
	}
	c.changed.Broadcast()
}
