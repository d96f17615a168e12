package flamegraph

import (
	"sync"

	"github.com/hostprofiles/hostprofiles/exporter/flamegraph/internal/store"
)

// treeCache keeps the trees that were made last: the views of one page ask for the same.
type treeCache struct {
	mu      sync.Mutex
	entries []cachedTree // of one snapshot, the latest first
}

// clear drops all trees: something arrived, and they hold what the store may have dropped.
func (c *treeCache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries = nil
}

type cachedTree struct {
	serial uint64
	query  string
	tree   *store.Tree
}

// cachedNodes bounds the nodes of the trees that are kept.
const cachedNodes = 500_000

func (c *treeCache) get(s *store.Snapshot, q store.Query) (*store.Tree, bool) {
	key := q.String()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.entries {
		if e.serial == s.Serial && e.query == key {
			return e.tree, true
		}
	}
	t, ok := s.Tree(q)
	if !ok {
		return nil, false
	}
	kept, nodes := c.entries[:0:0], t.Len()
	if nodes > cachedNodes {
		return t, true
	}
	kept = append(kept, cachedTree{s.Serial, key, t})
	for _, e := range c.entries {
		if nodes += e.tree.Len(); nodes > cachedNodes || e.serial != s.Serial {
			break
		}
		kept = append(kept, e)
	}
	c.entries = kept
	return t, true
}
