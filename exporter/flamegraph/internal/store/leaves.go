package store

import (
	"cmp"
	"math"
	"slices"
)

// leafKey is what samples are summed up by before they are put into a tree.
type leafKey struct{ branch, node uint32 }

// sums are the values of a selection, and of what it is compared with.
type sums struct{ value, base int64 }

func (v sums) plus(w sums) sums {
	return sums{saturatingAdd(v.value, w.value), saturatingAdd(v.base, w.base)}
}

// compare orders sums by what is larger, with or without the base.
func (v sums) compare(other sums) int {
	return cmp.Compare(max(v.value, v.base), max(other.value, other.base))
}

// leaf is what a branch has of a stack.
type leaf struct {
	leafKey
	sums
}

// leafBytes is what a leaf takes.
const leafBytes = 24

// leafSums sums up by key, in little more memory than what comes out takes.
type leafSums struct {
	list []leaf
	most int // there may be; 0: any number
	// rest are sums of small leaves for which there was no room, by branch.
	rest map[uint32]restSums
}

// restSums are the sums of some leaves.
type restSums struct {
	sums
	leaves int
}

func (l *leafSums) add(k leafKey, v sums) {
	if n := len(l.list); n > 0 && l.list[n-1].leafKey == k {
		l.list[n-1].sums = l.list[n-1].plus(v)
		return
	}
	if len(l.list) == cap(l.list) {
		l.makeRoom()
	}
	l.list = append(l.list, leaf{k, v})
}

// makeRoom makes room for one more.
func (l *leafSums) makeRoom() {
	l.all()
	n, most := cap(l.list), l.most
	if most == 0 {
		most = math.MaxInt
	}
	switch {
	case len(l.list) <= n/2 && n > 0:
	case n < most:
		l.list = moved(l.list, min(n+max(n/2, 1024), most))
	case len(l.list) > most*3/4:
		l.drop(most / 2)
	}
}

// drop keeps the n largest leaves, and of the others their sums.
func (l *leafSums) drop(n int) {
	slices.SortFunc(l.list, func(x, y leaf) int {
		return cmp.Or(y.compare(x.sums), cmp.Compare(x.branch, y.branch), cmp.Compare(x.node, y.node))
	})
	if l.rest == nil {
		l.rest = map[uint32]restSums{}
	}
	for _, x := range l.list[n:] {
		r := l.rest[x.branch]
		l.rest[x.branch] = restSums{r.plus(x.sums), r.leaves + 1}
	}
	l.list = l.list[:n]
}

// all returns what there is, in the order of branches and nodes, each once.
func (l *leafSums) all() []leaf {
	slices.SortFunc(l.list, func(x, y leaf) int { return cmp.Or(cmp.Compare(x.branch, y.branch), cmp.Compare(x.node, y.node)) })
	n := 0
	for _, x := range l.list {
		if n > 0 && l.list[n-1].leafKey == x.leafKey {
			l.list[n-1].sums = l.list[n-1].plus(x.sums)
			continue
		}
		l.list[n] = x
		n++
	}
	l.list = l.list[:n]
	return l.list
}

// largestFirst orders leaves by their values.
func largestFirst(leaves []leaf) []int32 {
	out := make([]int32, len(leaves))
	for i := range out {
		out[i] = int32(i)
	}
	slices.SortFunc(out, func(x, y int32) int {
		return cmp.Or(leaves[y].compare(leaves[x].sums), cmp.Compare(x, y))
	})
	return out
}
