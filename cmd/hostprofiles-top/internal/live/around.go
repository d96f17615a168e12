package live

import (
	"cmp"
	"context"
	"slices"
	"strings"

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

func (d *Data) loadAround(ctx context.Context, source Source, r Request, sel api.Selection) error {
	table, err := source.Table(ctx, sel, "self", "", 1) // for what all came to
	if err != nil {
		return err
	}
	d.Total, d.BaseTotal = table.Total, table.BaseTotal
	if strings.HasPrefix(r.Function, foldPrefix) { // the server does not know it
		t, err := source.Tree(ctx, sel, KeyProcess, "", maxNodes)
		if err == nil {
			d.Around = aroundIn(foldTree(t), r.Function)
		}
		return err
	}
	callers, err := source.Around(ctx, sel, "callers", r.Function, maxNodes)
	if err != nil {
		return err
	}
	callees, err := source.Around(ctx, sel, "callees", r.Function, maxNodes)
	if err != nil {
		return err
	}
	if !r.Apart {
		callers, callees = foldTree(callers), foldTree(callees)
	}
	d.Around = &Around{Callers: neighbours(callers, r.Function), Callees: neighbours(callees, r.Function)}
	for i := range callees.Nodes {
		n := &callees.Nodes[i]
		if callees.Functions[n.Function].Key != r.Function {
			continue
		}
		d.Around.Function = callees.Functions[n.Function]
		d.Around.Self += n.Self // also where it calls itself
		d.Around.BaseSelf += n.BaseSelf
		if anchor(callees, i, r.Function) {
			d.Around.Total += n.Total
			d.Around.BaseTotal += n.BaseTotal
		}
	}
	if d.Around.Function.Key != r.Function {
		d.Around = nil
	}
	return nil
}

// aroundIn finds a function's callers and callees in the tree of all stacks.
func aroundIn(t *api.Tree, key string) *Around {
	a := &Around{}
	heaviest := heaviestChildren(t)
	callers, callees := neighbourhood{t: t}, neighbourhood{t: t}
	path := newPath(t)
	outermost := make([]bool, len(t.Nodes))
	for _, i := range depthFirst(t) {
		n := &t.Nodes[i]
		first := path.enter(i)
		if n.Parent != 0 && outermost[n.Parent] {
			callees.add(i, n, func() []text.Safe { return way(t, heaviest, i) })
		}
		if t.Functions[n.Function].Key != key {
			continue
		}
		a.Function = t.Functions[n.Function]
		a.Self, a.BaseSelf = a.Self+n.Self, a.BaseSelf+n.BaseSelf
		if outermost[i] = first; !first {
			continue
		}
		a.Total, a.BaseTotal = a.Total+n.Total, a.BaseTotal+n.BaseTotal
		if n.Parent != 0 {
			callers.add(n.Parent, n, func() []text.Safe { return wayUp(t, n.Parent) })
		}
	}
	if a.Function.Key != key {
		return nil
	}
	a.Callers, a.Callees = callers.sorted(), callees.sorted()
	return a
}

// wayUp names what is above a node.
func wayUp(t *api.Tree, from int) (out []text.Safe) {
	for at := t.Nodes[from].Parent; at > 0 && len(out) < maxWay; at = t.Nodes[at].Parent {
		out = append(out, DisplayName(&t.Functions[t.Nodes[at].Function]))
	}
	return out
}

// neighbourhood sums neighbours up by function.
type neighbourhood struct {
	t     *api.Tree
	list  []Neighbour
	index map[int]int   // by function
	best  map[int]int64 // value of the node that Way is of
}

// add adds what n has to the function of node i.
func (h *neighbourhood) add(i int, n *api.Node, way func() []text.Safe) {
	if h.index == nil {
		h.index, h.best = map[int]int{}, map[int]int64{}
	}
	f := h.t.Nodes[i].Function
	k, ok := h.index[f]
	if !ok {
		k = len(h.list)
		h.index[f] = k
		h.list = append(h.list, Neighbour{Function: h.t.Functions[f]})
	}
	h.list[k].Value += n.Total
	h.list[k].BaseValue += n.BaseTotal
	if n.Total > h.best[k] || !ok {
		h.best[k], h.list[k].Way = n.Total, way()
	}
}

func (h *neighbourhood) sorted() []Neighbour {
	slices.SortStableFunc(h.list, func(a, b Neighbour) int { return cmp.Compare(b.Value, a.Value) })
	return h.list
}

// anchor tells whether a node stands for the function itself: the root, or one below it.
func anchor(t *api.Tree, i int, key string) bool {
	is := func(i int) bool { return t.Functions[t.Nodes[i].Function].Key == key }
	return i == 0 && is(0) || i > 0 && t.Nodes[i].Parent == 0 && !is(0) && is(i)
}

// neighbours are the functions next to the one that the tree is about, each with the heaviest way on.
func neighbours(t *api.Tree, key string) []Neighbour {
	heaviest := heaviestChildren(t)
	h := neighbourhood{t: t}
	for i := 1; i < len(t.Nodes); i++ {
		if n := &t.Nodes[i]; anchor(t, n.Parent, key) {
			h.add(i, n, func() []text.Safe { return way(t, heaviest, i) })
		}
	}
	return h.sorted()
}

// heaviestChildren is for each node the child with most; 0: none.
func heaviestChildren(t *api.Tree) []int {
	out := make([]int, len(t.Nodes))
	for i := 1; i < len(t.Nodes); i++ {
		p := t.Nodes[i].Parent
		if h := out[p]; h == 0 || t.Nodes[i].Total > t.Nodes[h].Total {
			out[p] = i
		}
	}
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
