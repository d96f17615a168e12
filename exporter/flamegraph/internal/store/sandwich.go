package store

import (
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
	at := make([]int32, t.Len()) // 0: not below the function
	for i := 1; i < t.Len(); i++ {
		above := at[t.parent[i]]
		if above == 0 && d.index[i] != k {
			continue
		}
		at[i] = b.child(above, t.place[i], t.Line(int32(i)))
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
// outer appearance counts.
func (t *Tree) Callers(key string) (out *Tree, ok bool) {
	d := t.describe()
	k, ok := d.find(key)
	if !ok {
		return nil, false
	}
	b := newTreeBuilder(t.s, t.Info, t.Compared, t.line != nil)
	below := make([]bool, t.Len())
	for i := 1; i < t.Len(); i++ {
		above := below[t.parent[i]]
		below[i] = above || d.index[i] == k
		if above || d.index[i] != k {
			continue
		}
		at := b.child(0, t.place[i], t.Line(int32(i)))
		for p := t.parent[i]; p > 0; p = t.parent[p] {
			at = b.child(at, t.place[p], t.Line(p))
		}
		b.t.add(at, t.total[i], t.baseOf(int32(i)))
	}
	b.t.sum()
	return b.t, true
}

func (d *described) find(key string) (int32, bool) {
	wanted, err := strconv.ParseUint(key, 36, 64)
	i := slices.Index(d.hashes, wanted)
	return int32(i), err == nil && i >= 0
}
