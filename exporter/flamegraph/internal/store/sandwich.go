package store

import (
	"cmp"
	"container/heap"
	"slices"
	"strconv"
)

// Callees is the tree of what a function calls, over all its appearances on the stacks of t. Where it calls itself, the outer
// appearance counts. ok is false if it does not appear.
func (t *Tree) Callees(key string) (out *Tree, ok bool) {
	d := t.describe()
	k, ok := d.find(key)
	if !ok {
		return nil, false
	}
	b := newTreeBuilder(t.s, t.Info, t.Compared, t.line != nil)
	b.t.hints = t.hints
	b.limit = t.Len()            // there will not be more
	at := make([]int32, t.Len()) // 0: not below the function
	for i := 1; i < t.Len(); i++ {
		above := at[t.parent[i]]
		if above == 0 && d.index[i] != k {
			continue
		}
		at[i] = b.child(above, t.place[i], t.Line(int32(i)))
		b.takeGuessed(at[i], t, int32(i))
		b.t.add(at[i], t.self[i], t.baseSelfOf(i))
	}
	b.t.sum()
	return b.t, true
}

func (t *Tree) baseSelfOf(i int) int64 {
	if !t.Compared {
		return 0
	}
	return t.baseSelf[i]
}

// Callers is the tree of who calls a function: its children are callers, theirs are their callers. Where it calls itself, the
// outer appearance counts. A deep stack below many callers would stand there as often as it has such callers, so the tree has
// at most limit nodes, those with the largest values.
func (t *Tree) Callers(key string, limit int) (out *Tree, ok bool) {
	d := t.describe()
	k, ok := d.find(key)
	if !ok {
		return nil, false
	}
	b := newTreeBuilder(t.s, t.Info, t.Compared, t.line != nil)
	b.t.hints = t.hints
	c := callers{of: t, b: b}
	below := make([]bool, t.Len())
	all := caller{}
	for i := 1; i < t.Len(); i++ {
		above := below[t.parent[i]]
		below[i] = above || d.index[i] == k
		if !above && d.index[i] == k {
			all.append(calling{int32(i), sums{t.total[i], t.baseOf(int32(i))}})
		}
	}
	for c.expand(all); len(c.open) > 0 && b.t.Len() < limit; {
		c.expand(heap.Pop(&c.open).(caller))
	}
	for _, rest := range c.open {
		b.t.miss(rest.node, rest.sum, 1)
	}
	b.t.sum()
	return b.t, true
}

// callers turns a tree around.
type callers struct {
	of   *Tree
	b    *treeBuilder
	open callerHeap
}

// calling is a node of the tree that is turned around, next on a way to its root. 0: the way is over.
type calling struct {
	next int32
	sums
}

// caller is a node that was made, with the ways that go on from it.
type caller struct {
	node int32
	sum  sums
	ways []calling
}

func (c *caller) append(w calling) {
	c.sum = c.sum.plus(w.sums)
	if n := len(c.ways); n > 0 && c.ways[n-1].next == w.next {
		c.ways[n-1].sums = c.ways[n-1].plus(w.sums)
		return
	}
	c.ways = append(c.ways, w)
}

// expand makes the callers of a node.
func (c *callers) expand(of caller) {
	t, b := c.of, c.b
	order := func(x, y int32) int {
		return cmp.Or(cmp.Compare(min(x, 1), min(y, 1)), cmp.Compare(t.place[x], t.place[y]), cmp.Compare(t.Line(x), t.Line(y)))
	}
	slices.SortFunc(of.ways, func(x, y calling) int { return cmp.Or(order(x.next, y.next), cmp.Compare(x.next, y.next)) })
	var next *caller
	last := int32(0)
	for _, w := range of.ways {
		if w.next == 0 {
			b.t.add(of.node, w.value, w.base)
			continue
		}
		if next == nil || order(last, w.next) != 0 {
			c.push(next)
			next = &caller{node: b.append(of.node, t.place[w.next], t.Line(w.next))}
		}
		b.takeGuessed(next.node, t, w.next)
		last, w.next = w.next, t.parent[w.next]
		next.append(w)
	}
	c.push(next)
}

func (c *callers) push(next *caller) {
	if next != nil {
		heap.Push(&c.open, *next)
	}
}

// callerHeap has the caller with the largest value in front.
type callerHeap []caller

func (h callerHeap) Len() int           { return len(h) }
func (h callerHeap) Less(i, j int) bool { return h[i].sum.compare(h[j].sum) > 0 }
func (h callerHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *callerHeap) Push(x any)        { *h = append(*h, x.(caller)) }

func (h *callerHeap) Pop() any {
	last := (*h)[len(*h)-1]
	(*h)[len(*h)-1] = caller{}
	*h = (*h)[:len(*h)-1]
	return last
}

func (d *described) find(key string) (int32, bool) {
	wanted, err := strconv.ParseUint(key, 36, 64)
	i := slices.Index(d.hashes, wanted)
	return int32(i), err == nil && i >= 0
}
