package live

import (
	"cmp"
	"slices"
	"strings"

	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/api"
	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/text"
)

// sums are what a function came to, in one process or in all.
type sums struct{ self, total, baseTotal int64 }

// attribute finds out from a tree, whose first level is processes, in which of them each function ran, and what each process
// came to. The smallest nodes are not in the tree, so it serves to name processes, not to sum up functions. With byPID the
// processes are pids.
func attribute(t *api.Tree, byPID bool) (in map[string][]Share, totals map[string]*sums, of []Process) {
	process := make([]int, len(t.Nodes)) // node of the first level above each node; 0: none
	byFunction := map[int]map[int]*sums{}
	var processes []Process
	index := map[int]int{}
	path := newPath(t)
	for _, i := range depthFirst(t) {
		n := &t.Nodes[i]
		f := &t.Functions[n.Function]
		outermost := path.enter(i)
		if process[i] = process[n.Parent]; n.Parent == 0 {
			process[i] = i
			p := Process{Total: n.Total, BaseTotal: n.BaseTotal}
			if f.Type == api.TypeGroup {
				p.name(f.Key, f.Name, f.Mapping, byPID)
			}
			index[i] = len(processes)
			processes = append(processes, p)
		}
		if f.Type == api.TypeGroup || f.Type == api.TypeTruncated {
			continue
		}
		of := byFunction[n.Function]
		if of == nil {
			of = map[int]*sums{}
			byFunction[n.Function] = of
		}
		s := of[process[i]]
		if s == nil {
			s = &sums{}
			of[process[i]] = s
		}
		s.self += n.Self
		if outermost {
			s.total += n.Total
			s.baseTotal += n.BaseTotal
		}
		if f.Type == "kernel" {
			processes[index[process[i]]].Kernel += n.Self
		}
	}
	in, totals = map[string][]Share{}, map[string]*sums{}
	for function, of := range byFunction {
		f := &t.Functions[function]
		in[f.Key] = shares(of, func(node int) *Process { return &processes[index[node]] }, f)
		all := &sums{}
		for _, s := range of {
			all.self, all.total, all.baseTotal = all.self+s.self, all.total+s.total, all.baseTotal+s.baseTotal
		}
		totals[f.Key] = all
	}
	return in, totals, merge(processes)
}

// name says which process p is: shown is its name, or its pid, for which hint is the name.
func (p *Process) name(raw string, shown, hint text.Safe, byPID bool) {
	p.Raw, p.Name = raw, shown
	if byPID {
		p.PID, p.Name = shown, hint
	}
}

// shares lists a function's processes, and notes it where it is the hottest.
func shares(of map[int]*sums, process func(node int) *Process, f *api.Function) []Share {
	self := int64(0)
	for node, s := range of {
		self += s.self
		if p := process(node); s.self > p.HottestSelf || s.self == p.HottestSelf && s.self > 0 && f.Name < p.Hottest {
			p.Hottest, p.HottestSelf = f.Name, s.self
		}
	}
	byName := map[text.Safe]int64{}
	for node, s := range of {
		value := s.self
		if self == 0 { // only calls others: by what it is on the stack
			value = s.total
		}
		byName[process(node).Name] += value
	}
	out := make([]Share, 0, len(byName))
	for name, value := range byName {
		out = append(out, Share{name, value})
	}
	slices.SortFunc(out, func(a, b Share) int { return cmp.Or(cmp.Compare(b.Value, a.Value), cmp.Compare(a.Name, b.Name)) })
	return out
}

// merge puts what has no process name, which the tree has function by function, into one, and sorts.
func merge(processes []Process) []Process {
	slices.SortStableFunc(processes, func(a, b Process) int { return strings.Compare(a.Raw, b.Raw) })
	var out []Process
	for _, p := range processes {
		if n := len(out); n > 0 && out[n-1].Raw == p.Raw {
			q := &out[n-1]
			q.Total, q.BaseTotal, q.Kernel = q.Total+p.Total, q.BaseTotal+p.BaseTotal, q.Kernel+p.Kernel
			if p.HottestSelf > q.HottestSelf {
				q.Hottest, q.HottestSelf = p.Hottest, p.HottestSelf
			}
			continue
		}
		out = append(out, p)
	}
	slices.SortStableFunc(out, func(a, b Process) int { return cmp.Compare(b.Total, a.Total) })
	return out
}

// complete adds the processes whose nodes were too small for the tree.
func complete(processes []Process, all []api.Value, byPID bool) []Process {
	known := map[string]bool{}
	for _, p := range processes {
		known[p.Raw] = true
	}
	for _, v := range all {
		if !known[v.Raw] {
			p := Process{Total: v.Total}
			p.name(v.Raw, v.Shown, v.Hint, byPID)
			processes = append(processes, p)
		}
	}
	slices.SortStableFunc(processes, func(a, b Process) int { return cmp.Compare(b.Total, a.Total) })
	return processes
}

// depthFirst lists the nodes but the root, each directly after its parent or after what is below the sibling before it.
func depthFirst(t *api.Tree) []int {
	first, next := make([]int, len(t.Nodes)), make([]int, len(t.Nodes)) // child, sibling; 0: none
	for i := len(t.Nodes) - 1; i > 0; i-- {
		p := t.Nodes[i].Parent
		next[i], first[p] = first[p], i
	}
	if len(t.Nodes) == 0 || first[0] == 0 {
		return nil
	}
	out, waiting := make([]int, 0, len(t.Nodes)-1), []int{first[0]}
	for len(waiting) > 0 {
		i := waiting[len(waiting)-1]
		waiting = waiting[:len(waiting)-1]
		out = append(out, i)
		if next[i] != 0 {
			waiting = append(waiting, next[i])
		}
		if first[i] != 0 {
			waiting = append(waiting, first[i])
		}
	}
	return out
}

// path knows which functions are on the way from the root to a node, while nodes are visited depth first.
type path struct {
	tree  *api.Tree
	nodes []int
	on    []int // by function: how often
}

func newPath(t *api.Tree) *path { return &path{tree: t, on: make([]int, len(t.Functions))} }

// enter goes on to node i and tells whether its function is not above it already.
func (p *path) enter(i int) bool {
	for len(p.nodes) > 0 && p.nodes[len(p.nodes)-1] != p.tree.Nodes[i].Parent {
		p.on[p.tree.Nodes[p.nodes[len(p.nodes)-1]].Function]--
		p.nodes = p.nodes[:len(p.nodes)-1]
	}
	p.nodes = append(p.nodes, i)
	f := p.tree.Nodes[i].Function
	p.on[f]++
	return p.on[f] == 1
}
