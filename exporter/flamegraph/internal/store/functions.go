package store

import (
	"cmp"
	"slices"
	"strings"
)

// FunctionSum is what a function came to. A sample counts once in its total, however often the function is on the stack.
type FunctionSum struct {
	Function
	Self, Total         int64
	BaseSelf, BaseTotal int64
	Match               bool
}

// Functions sums up a tree by function, in no particular order.
func (t *Tree) Functions(m Matcher) []FunctionSum {
	d := t.describe()
	matches := d.matches(m)
	out := make([]FunctionSum, len(d.functions))
	for i := range out {
		out[i].Function = d.functions[i]
		out[i].Match = matches != nil && matches[i]
	}
	first, next := t.adjacency()
	on := make([]int32, len(d.functions)) // how often a function is on the path from the root
	preorder(t.parent, first, next, func(at int32) {
		k := d.index[at]
		sum := &out[k]
		sum.Self = saturatingAdd(sum.Self, t.self[at])
		if t.Compared {
			sum.BaseSelf = saturatingAdd(sum.BaseSelf, t.baseSelf[at])
		}
		if on[k] == 0 {
			sum.Total, sum.BaseTotal = saturatingAdd(sum.Total, t.total[at]), saturatingAdd(sum.BaseTotal, t.baseOf(at))
		}
		on[k]++
	}, func(at int32) { on[d.index[at]]-- })
	return slices.DeleteFunc(out, func(f FunctionSum) bool { return !isFrame(f.FrameType) })
}

// adjacency lists each node's children: the first, and of each the next. Node 0 is nobody's child.
func (t *Tree) adjacency() (first, next []int32) {
	first, next = make([]int32, t.Len()), make([]int32, t.Len())
	for i := t.Len() - 1; i > 0; i-- {
		p := t.parent[i]
		next[i], first[p] = first[p], int32(i)
	}
	return first, next
}

// Orders of functions.
const (
	BySelf  = "self"
	ByTotal = "total"
	ByDiff  = "diff"
	ByName  = "name"
)

// SortFunctions orders functions: the largest first, or by name. total and base are those of all samples, of which shares
// are compared.
func SortFunctions(list []FunctionSum, order string, total, base int64) {
	share := func(v, of int64) float64 { return float64(v) / float64(max(of, 1)) }
	diff := func(f *FunctionSum) float64 {
		d := share(f.Self, total) - share(f.BaseSelf, base)
		return max(d, -d)
	}
	slices.SortFunc(list, func(a, b FunctionSum) int {
		var c int
		switch order {
		case ByTotal:
			c = cmp.Or(cmp.Compare(max(b.Total, b.BaseTotal), max(a.Total, a.BaseTotal)), cmp.Compare(b.Self, a.Self))
		case ByDiff:
			c = cmp.Compare(diff(&b), diff(&a))
		case ByName:
		default:
			c = cmp.Or(cmp.Compare(max(b.Self, b.BaseSelf), max(a.Self, a.BaseSelf)), cmp.Compare(b.Total, a.Total))
		}
		return cmp.Or(c, strings.Compare(a.Name, b.Name), strings.Compare(a.Key, b.Key))
	})
}
