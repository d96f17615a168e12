package live

import (
	"cmp"
	"slices"
	"strings"

	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/api"
)

// Functions without a name are the address at which they begin. Where that is not known either, there is a function for each address
// of the code, none of which is ever hot. Here these are one function for each file, as in the tables of the exporter top.

// foldPrefix begins keys of such functions. Keys of the server's are numbers.
const foldPrefix = "without symbols: "

// fold makes an address a function of its file. ok is false if f is a function.
func fold(f api.Function) (_ api.Function, ok bool) {
	if !f.Part {
		return f, false
	}
	out := api.Function{Key: foldPrefix + string(f.Type) + " " + string(f.Mapping), Type: f.Type, Mapping: f.Mapping, Part: true, Name: "(code without a file)"}
	if f.Mapping != "" {
		out.Name = f.Mapping[strings.LastIndexByte(string(f.Mapping), '/')+1:] + " (no symbols)"
	}
	return out, true
}

// foldRows puts rows of one file together. Self adds up; the total does not, as a sample may have many of these addresses, so
// that comes from the tree.
func foldRows(rows []api.Row, totals map[string]*sums) []api.Row {
	out := make([]api.Row, 0, len(rows))
	index := map[string]int{}
	for _, r := range rows {
		f, ok := fold(r.Function)
		if !ok {
			out = append(out, r)
			continue
		}
		i, seen := index[f.Key]
		if !seen {
			i = len(out)
			index[f.Key] = i
			out = append(out, api.Row{Function: f})
		}
		o := &out[i]
		o.Self, o.BaseSelf = o.Self+r.Self, o.BaseSelf+r.BaseSelf
		// The tree may lack small parts: no less than there is for sure.
		o.Total, o.BaseTotal = max(o.Total, r.Total, o.Self), max(o.BaseTotal, r.BaseTotal, o.BaseSelf)
		if s := totals[f.Key]; s != nil {
			o.Total, o.BaseTotal = max(o.Total, s.total), max(o.BaseTotal, s.baseTotal)
		}
	}
	return out
}

// order sorts rows as the server does.
func order(rows []api.Row, by string, total, baseTotal int64) {
	diff := func(r *api.Row) float64 {
		d := float64(r.Self)/float64(max(total, 1)) - float64(r.BaseSelf)/float64(max(baseTotal, 1))
		return max(d, -d)
	}
	slices.SortStableFunc(rows, func(a, b api.Row) int {
		switch by {
		case "total":
			return cmp.Or(cmp.Compare(b.Total, a.Total), cmp.Compare(b.Self, a.Self))
		case "diff":
			return cmp.Compare(diff(&b), diff(&a))
		case "name":
			return cmp.Compare(a.Name, b.Name)
		}
		return cmp.Or(cmp.Compare(b.Self, a.Self), cmp.Compare(b.Total, a.Total))
	})
}

// foldTree puts frames of one file that follow each other together, and what is below them.
func foldTree(t *api.Tree) *api.Tree {
	out := &api.Tree{Total: t.Total, BaseTotal: t.BaseTotal, SearchTotal: t.SearchTotal, Nodes: make([]api.Node, 0, len(t.Nodes))}
	functions := make([]int, len(t.Functions)) // where each is in out
	folded := make([]bool, 0, len(t.Functions))
	index := map[string]int{}
	for i, f := range t.Functions {
		f, ok := fold(f)
		at, seen := index[f.Key]
		if !ok || !seen {
			at = len(out.Functions)
			out.Functions, folded = append(out.Functions, f), append(folded, ok)
			if ok {
				index[f.Key] = at
			}
		}
		functions[i] = at
	}
	type edge struct{ parent, function int }
	children := map[edge]int{}
	nodes := make([]int, len(t.Nodes)) // where each is in out
	for i, n := range t.Nodes {
		f := functions[n.Function]
		parent := -1
		if i > 0 {
			parent = nodes[n.Parent]
		}
		if i > 0 && folded[f] && out.Nodes[parent].Function == f { // its value is in its parent's already
			nodes[i] = parent
			out.Nodes[parent].Self += n.Self
			out.Nodes[parent].BaseSelf += n.BaseSelf
			continue
		}
		at, ok := children[edge{parent, f}]
		if !ok {
			at = len(out.Nodes)
			children[edge{parent, f}] = at
			out.Nodes = append(out.Nodes, api.Node{Parent: parent, Function: f})
		}
		nodes[i] = at
		o := &out.Nodes[at]
		o.Self, o.Total = o.Self+n.Self, o.Total+n.Total
		o.BaseSelf, o.BaseTotal = o.BaseSelf+n.BaseSelf, o.BaseTotal+n.BaseTotal
	}
	return out
}
