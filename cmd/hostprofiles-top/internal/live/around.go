package live

import (
	"cmp"
	"context"
	"slices"

	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/api"
	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/text"
)

// Around is a function with who calls it and what it calls.
type Around struct {
	Function         api.Function
	Self, BaseSelf   int64
	Total, BaseTotal int64
	Callers, Callees []Neighbour // the largest first
}

// Neighbour is a direct caller or callee, with what it has of the function's value.
type Neighbour struct {
	api.Function
	Value, BaseValue int64
	Way              []text.Safe // where most of it goes on, away from the function
}

// maxWay bounds Way: a screen has room for a few names.
const maxWay = 16

func (d *Data) loadAround(ctx context.Context, source Source, key string, sel api.Selection) error {
	table, err := source.Table(ctx, sel, "self", "", 1) // for what all came to
	if err != nil {
		return err
	}
	d.Total, d.BaseTotal = table.Total, table.BaseTotal
	callers, err := source.Around(ctx, sel, "callers", key, maxAroundNodes)
	if err != nil {
		return err
	}
	callees, err := source.Around(ctx, sel, "callees", key, maxAroundNodes)
	if err != nil {
		return err
	}
	d.Around = &Around{Callers: neighbours(callers, key), Callees: neighbours(callees, key)}
	for i := range callees.Nodes {
		if n := &callees.Nodes[i]; anchor(callees, i, key) {
			d.Around.Function = callees.Functions[n.Function]
			d.Around.Self += n.Self
			d.Around.BaseSelf += n.BaseSelf
			d.Around.Total += n.Total
			d.Around.BaseTotal += n.BaseTotal
		}
	}
	if d.Around.Function.Key != key {
		d.Around = nil
	}
	return nil
}

// anchor tells whether a node stands for the function itself: the root, or one below it.
func anchor(t *api.Tree, i int, key string) bool {
	is := func(i int) bool { return t.Functions[t.Nodes[i].Function].Key == key }
	return i == 0 && is(0) || i > 0 && t.Nodes[i].Parent == 0 && !is(0) && is(i)
}

// neighbours are the functions next to the one that the tree is about, each with the heaviest way on.
func neighbours(t *api.Tree, key string) []Neighbour {
	heaviest := make([]int, len(t.Nodes)) // child of each node; 0: none
	for i := 1; i < len(t.Nodes); i++ {
		p := t.Nodes[i].Parent
		if h := heaviest[p]; h == 0 || t.Nodes[i].Total > t.Nodes[h].Total {
			heaviest[p] = i
		}
	}
	var out []Neighbour
	index := map[int]int{} // by function
	best := map[int]int64{}
	for i := 1; i < len(t.Nodes); i++ {
		n := &t.Nodes[i]
		if !anchor(t, n.Parent, key) {
			continue
		}
		k, ok := index[n.Function]
		if !ok {
			k = len(out)
			index[n.Function] = k
			out = append(out, Neighbour{Function: t.Functions[n.Function]})
		}
		out[k].Value += n.Total
		out[k].BaseValue += n.BaseTotal
		if n.Total > best[k] || !ok {
			best[k], out[k].Way = n.Total, way(t, heaviest, i)
		}
	}
	slices.SortStableFunc(out, func(a, b Neighbour) int { return cmp.Compare(b.Value, a.Value) })
	return out
}

// way names where most of what is below a node is.
func way(t *api.Tree, heaviest []int, from int) (out []text.Safe) {
	for at := heaviest[from]; at != 0 && len(out) < maxWay; at = heaviest[at] {
		out = append(out, DisplayName(&t.Functions[t.Nodes[at].Function]))
	}
	return out
}

// DisplayName is a function's name; that of a process is in brackets.
func DisplayName(f *api.Function) text.Safe {
	if f.Type == api.TypeGroup {
		return "[" + f.Name + "]"
	}
	return f.Name
}
