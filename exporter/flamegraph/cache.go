package flamegraph

import (
	"sync"

	"github.com/hostprofiles/hostprofiles/exporter/flamegraph/internal/store"
)

// treeCache keeps the trees that were made last: the views of one page ask for the same.
type treeCache struct {
	mu      sync.Mutex
	serial  uint64        // of the latest snapshot that is known of
	entries []*cachedTree // of that, the latest first
}

type cachedTree struct {
	query string
	made  chan struct{} // closed when tree and ok are there
	tree  *store.Tree
	ok    bool
}

// cachedNodes bounds the nodes of the trees that are kept.
const cachedNodes = 500_000

// forget drops the trees of what is not the latest content of the store any more.
func (c *treeCache) forget(latest uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if latest > c.serial {
		c.serial, c.entries = latest, nil
	}
}

// get returns the tree of a query, which is made once whoever else asks for it. ok is false if there is no such profile type.
func (c *treeCache) get(s *store.Snapshot, q store.Query) (t *store.Tree, ok bool) {
	e, mine := c.entry(s.Serial, q.String())
	if !mine {
		<-e.made
		return e.tree, e.ok
	}
	defer func() {
		close(e.made) // whatever happens
		c.trim()
	}()
	e.tree, e.ok = s.Tree(q)
	return e.tree, e.ok
}

// entry finds the entry of a query, or makes one that the caller has to fill.
func (c *treeCache) entry(serial uint64, query string) (e *cachedTree, mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e = &cachedTree{query: query, made: make(chan struct{})}
	if serial != c.serial {
		return e, true // nobody else will ask for that
	}
	for _, have := range c.entries {
		if have.query == query {
			return have, false
		}
	}
	c.entries = append([]*cachedTree{e}, c.entries...)
	return e, true
}

// trim drops the trees that were not asked for lately. Those that are being made are not counted yet.
func (c *treeCache) trim() {
	c.mu.Lock()
	defer c.mu.Unlock()
	nodes, kept := 0, c.entries[:0:0]
	for _, e := range c.entries {
		select {
		case <-e.made:
			if !e.ok {
				continue
			}
			if nodes += e.tree.Len(); nodes > cachedNodes {
				continue
			}
		default:
		}
		kept = append(kept, e)
	}
	c.entries = kept
}
