package store

import (
	"cmp"
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

// leafSums sums up by key, in little more memory than what comes out takes.
type leafSums struct{ list []leaf }

func (l *leafSums) add(k leafKey, v sums) {
	if n := len(l.list); n > 0 && l.list[n-1].leafKey == k {
		l.list[n-1].sums = l.list[n-1].plus(v)
		return
	}
	if len(l.list) == cap(l.list) {
		if l.all(); len(l.list) > cap(l.list)/2 {
			l.list = slices.Grow(l.list, max(len(l.list)/2, 1024))
		}
	}
	l.list = append(l.list, leaf{k, v})
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
