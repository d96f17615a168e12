package store

import (
	"cmp"
	"container/heap"
	"math"
	"slices"
	"strconv"
)

// Callees is the tree of what a function calls, over all its appearances on the stacks of t. Where it calls itself, the outer
// appearance counts. bytes is the memory that it may take; if that is too little it has the largest nodes. ok is false if the
// function does not appear.
func (t *Tree) Callees(key string, bytes int) (out *Tree, ok bool) {
	d := t.describe()
	k, ok := d.find(key)
	if !ok {
		return nil, false
	}
	b := newTreeBuilder(t.s, t.Info, t.Compared, t.line != nil)
	b.t.hints = t.hints
	b.allow(bytes, 4*t.Len())
	below := make([]int32, t.Len()) // of the function: the node in the tree that is made; 0: not below it, -1: left out
	if !b.callees(t, d.index, k, below, func(int32) bool { return true }) {
		keep := make([]bool, t.Len())
		for i, at := range below {
			keep[i] = at != 0
		}
		least, room, _ := t.least(keep, b.limit-1)
		b.truncate(1)
		b.limit = math.MaxInt32 // there will be no more
		b.callees(t, d.index, k, below, func(i int32) bool {
			size := t.size(i)
			if size == least && room > 0 {
				room--
				return true
			}
			return size > least
		})
	}
	b.t.sum()
	return b.t, true
}

// callees puts what a function calls into the tree, as far as it is wanted: never without what calls it. It returns false if there is
// no room.
func (b *treeBuilder) callees(t *Tree, functions []int32, function int32, below []int32, wanted func(int32) bool) bool {
	b.full = false
	for i := int32(1); i < int32(t.Len()); i++ {
		above := below[t.parent[i]]
		below[i] = 0
		switch {
		case above == 0 && functions[i] != function:
			continue
		case above < 0:
			below[i] = above
			b.t.cut++
			continue
		case !wanted(i):
			below[i] = -1
			if above == 0 {
				above = b.child(0, t.place[i], t.Line(i)) // the function itself is there, with all that it has
			}
			b.t.miss(above, sums{t.total[i], t.baseOf(i)}, 1)
			continue
		}
		if b.full {
			below[i] = 1 // it is below the function; where does not matter any more
			continue
		}
		at := b.child(above, t.place[i], t.Line(i))
		below[i] = at
		if b.full {
			below[i] = 1
			continue
		}
		b.takeGuessed(at, t, i)
		b.t.add(at, t.self[i], t.baseSelfOf(int(i)))
		if missing := t.missing[i]; missing != (sums{}) {
			b.t.miss(at, missing, 1)
		}
	}
	return !b.full
}

func (t *Tree) baseSelfOf(i int) int64 {
	if !t.Compared {
		return 0
	}
	return t.baseSelf[i]
}

// Callers is the tree of who calls a function: its children are callers, theirs are their callers. Where it calls itself, the
// outer appearance counts. A deep stack below many callers would stand there as often as it has such callers, so the tree has
// at most limit nodes, those with the largest values, and fewer where bytes, the memory that it may take, are too few.
func (t *Tree) Callers(key string, limit, bytes int) (out *Tree, ok bool) {
	d := t.describe()
	k, ok := d.find(key)
	if !ok {
		return nil, false
	}
	b := newTreeBuilder(t.s, t.Info, t.Compared, t.line != nil)
	b.t.hints = t.hints
	// Half of the memory is for the ways, each of which may make one node more than there are to be.
	most := max(bytes/2/(wayBytes+b.t.nodeBytes()+makingBytes), fewestNodes)
	b.allow(bytes/2, 0)
	limit = min(b.limit, limit)
	b.limit = math.MaxInt32 // here it is seen to
	c := callers{of: t, b: b}
	outer := t.outermost(d.index, k)
	least, room, all := t.least(outer, most)
	first, small := caller{}, []int32(nil)
	for i, is := range outer {
		if !is {
			continue
		}
		size := t.size(int32(i))
		if wanted := all || size > least; wanted || size == least && room > 0 {
			if !wanted {
				room--
			}
			first.append(calling{int32(i), sums{t.total[i], t.baseOf(int32(i))}})
			continue
		}
		small = append(small, int32(i))
	}
	for c.expand(first); len(c.open) > 0 && b.t.Len() < limit; {
		c.expand(heap.Pop(&c.open).(caller))
	}
	for _, rest := range c.open {
		b.t.miss(rest.node, rest.sum, 1)
	}
	for _, i := range small {
		b.t.miss(b.child(0, t.place[i], t.Line(i)), sums{t.total[i], t.baseOf(i)}, 1)
	}
	b.t.sum()
	return b.t, true
}

// wayBytes is what a way takes: where it is, and where it goes on.
const wayBytes = 2 * 24

// outermost says which nodes are the function's and below no other of its.
func (t *Tree) outermost(functions []int32, function int32) []bool {
	out, below := make([]bool, t.Len()), make([]bool, t.Len())
	for i := 1; i < t.Len(); i++ {
		out[i] = !below[t.parent[i]] && functions[i] == function
		below[i] = out[i] || below[t.parent[i]]
	}
	return out
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
			next = &caller{node: b.child(of.node, t.place[w.next], t.Line(w.next))}
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
