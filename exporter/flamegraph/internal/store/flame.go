package store

import (
	"cmp"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
)

// Flame is a tree as a view draws it: columns of one length, nodes in depth-first preorder, children by name.
type Flame struct {
	Info             TypeInfo
	Total, BaseTotal int64
	Compared         bool
	Functions        []Function
	Match            []bool   // by function: it matches what is searched for; nil without a search
	ID               []string // of the node: a hash of its path, the same in every answer
	Parent           []int32
	Function         []int32
	Line             []int64
	Self, Sum        []int64
	BaseSelf         []int64
	BaseSum          []int64
	Guessed          []int32 // nodes whose frames were found without unwind information, in some samples at least
	Pruned           Pruned
	Search           Found
}

// Pruned says what was left out since it is small.
type Pruned struct {
	Nodes int
	Self  int64
}

// Found is what a search came to: the value of samples with at least one frame that matches.
type Found struct {
	Total, BaseTotal int64
	Functions        int
}

// Matcher tells which functions are searched for.
type Matcher func(*Function) bool

// NewMatcher understands text, which is part of a name, whatever its case, or /a regular expression/ in RE2's syntax. Empty
// text gives nil.
func NewMatcher(text string) (Matcher, error) {
	if text == "" {
		return nil, nil
	}
	if len(text) > 2 && text[0] == '/' && text[len(text)-1] == '/' {
		re, err := compile("(?i)" + text[1:len(text)-1])
		if err != nil {
			return nil, fmt.Errorf("reading the regular expression: %w", err)
		}
		in := func(s string) bool { return re.MatchString(s[:min(len(s), maxMatched)]) }
		return func(f *Function) bool { return in(f.Name) || in(f.File) || in(f.Mapping) }, nil
	}
	text = strings.ToLower(text)
	return func(f *Function) bool {
		return strings.Contains(strings.ToLower(f.Name), text) || strings.Contains(strings.ToLower(f.File), text) ||
			strings.Contains(strings.ToLower(f.Mapping), text)
	}, nil
}

// Bounds of what a search does for each name: a regular expression of n instructions takes n steps a byte.
const (
	maxInstructions = 2000
	maxMatched      = 4 << 10 // bytes of a name
)

// compile refuses expressions that are small to write and large to run.
func compile(expression string) (*regexp.Regexp, error) {
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return nil, err
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, err
	}
	if len(program.Inst) > maxInstructions {
		return nil, fmt.Errorf("it repeats too much: %d instructions, more than %d", len(program.Inst), maxInstructions)
	}
	return regexp.Compile(expression)
}

// described are the functions of a tree's nodes.
type described struct {
	index     []int32 // by node
	functions []Function
	hashes    []uint64
}

// describe finds each place of the tree once.
func (t *Tree) describe() *described {
	d := &described{index: make([]int32, t.Len())}
	frames, groups := make([]int32, len(t.s.frames)), map[place]int32{}
	d.add(Function{Name: "all", FrameType: TypeRoot})
	for i := 1; i < t.Len(); i++ {
		p := t.place[i]
		if p&(groupBit|markerBit) != 0 {
			if groups[p] == 0 {
				f := t.s.function(p)
				if p&groupBit != 0 {
					f.Mapping = t.hints[f.Name]
				}
				groups[p] = d.add(f)
			}
			d.index[i] = groups[p]
			continue
		}
		if frames[p] == 0 {
			frames[p] = d.add(t.s.function(p))
		}
		d.index[i] = frames[p]
	}
	return d
}

func (d *described) add(f Function) int32 {
	h := f.hash()
	f.Key = strconv.FormatUint(h, 36)
	d.functions, d.hashes = append(d.functions, f), append(d.hashes, h)
	return int32(len(d.functions) - 1)
}

// paths hashes the way from the root to each node.
func (t *Tree) paths(d *described) []uint64 {
	out := make([]uint64, t.Len())
	out[0] = offset64
	for i := 1; i < t.Len(); i++ {
		out[i] = t.path(d, int32(i), out[t.parent[i]])
	}
	return out
}

// path goes on from the path of a node's parent.
func (t *Tree) path(d *described, at int32, parent uint64) uint64 {
	h := (parent ^ d.hashes[d.index[at]]) * prime64
	h ^= h >> 29
	return (h ^ uint64(t.Line(at))) * prime64
}

// View says what of a tree is wanted.
type View struct {
	Focus    string // ID of a node: only it, what calls it and what it calls
	Match    Matcher
	MaxNodes int
}

// Flame makes what a view draws. ok is false if there is no node to focus on.
func (t *Tree) Flame(v View) (f *Flame, ok bool) {
	d := t.describe()
	keep, ok := t.focus(d, v.Focus)
	if !ok {
		return nil, false
	}
	f = &Flame{Info: t.Info, Compared: t.Compared}
	f.Total, f.BaseTotal = t.Totals()
	matches := d.matches(v.Match)
	f.Search = t.found(d, matches)
	t.prune(keep, v.MaxNodes, f)
	f.fill(t, d, keep, matches)
	return f, true
}

// focus says which nodes are wanted.
func (t *Tree) focus(d *described, id string) (keep []bool, ok bool) {
	keep = make([]bool, t.Len())
	if id == "" {
		for i := range keep {
			keep[i] = true
		}
		return keep, true
	}
	wanted, err := strconv.ParseUint(id, 36, 64)
	at := slices.Index(t.paths(d), wanted)
	if err != nil || at < 0 {
		return nil, false
	}
	keep[at] = true
	for i := at + 1; i < len(keep); i++ {
		keep[i] = keep[t.parent[i]]
	}
	for i := int32(at); i >= 0; i = t.parent[i] {
		keep[i] = true
	}
	return keep, true
}

func (d *described) matches(m Matcher) []bool {
	if m == nil {
		return nil
	}
	out := make([]bool, len(d.functions))
	for i := range d.functions {
		if isFrame(d.functions[i].FrameType) {
			out[i] = m(&d.functions[i])
		}
	}
	return out
}

// found sums up the samples that have a frame that matches.
func (t *Tree) found(d *described, matches []bool) (f Found) {
	if matches == nil {
		return f
	}
	in := make([]bool, t.Len())
	for i := 1; i < t.Len(); i++ {
		in[i] = in[t.parent[i]] || matches[d.index[i]]
		if !in[i] {
			continue
		}
		missing := t.missing[int32(i)]
		f.Total = saturatingAdd(f.Total, saturatingAdd(t.self[i], missing.value))
		if t.Compared {
			f.BaseTotal = saturatingAdd(f.BaseTotal, saturatingAdd(t.baseSelf[i], missing.base))
		}
	}
	for _, m := range matches {
		if m {
			f.Functions++
		}
	}
	return f
}

// size is how much a node matters to a view.
func (t *Tree) size(i int32) int64 { return max(t.total[i], t.baseOf(i)) }

// prune drops the smallest nodes until at most limit are kept. A node never goes before those that it calls.
func (t *Tree) prune(keep []bool, limit int, f *Flame) {
	f.Pruned.Nodes = t.cut
	for at, v := range t.missing {
		if keep[at] {
			f.Pruned.Self = saturatingAdd(f.Pruned.Self, v.value)
		}
	}
	least, room, all := t.least(keep, limit)
	if all {
		return
	}
	for i, k := range keep {
		if !k {
			continue
		}
		size := t.size(int32(i))
		if size == least && room > 0 {
			room--
			continue
		}
		if size <= least {
			keep[i] = false
			f.Pruned.Nodes++
			f.Pruned.Self = saturatingAdd(f.Pruned.Self, t.self[i])
		}
	}
}

// least is the size of the smallest nodes that are among the limit largest, and how many of just that size are: the first, so
// that no node is kept without its parent. all says that there are no more than limit. It takes no memory: sizes are counted by their
// digits, from the highest on, below the digits that are known of the one that is looked for.
func (t *Tree) least(keep []bool, limit int) (least int64, room int, all bool) {
	const digit = 9 // bits, seven of which are all that a size has
	n := 0
	for _, k := range keep {
		if k {
			n++
		}
	}
	if limit <= 0 || n <= limit {
		return 0, 0, true
	}
	room = limit
	for shift := 63 - digit; shift >= 0; shift -= digit {
		var counts [1 << digit]int
		for i, k := range keep {
			if size := t.size(int32(i)); k && size>>(shift+digit) == least {
				counts[size>>shift&(1<<digit-1)]++
			}
		}
		at := len(counts) - 1
		for ; counts[at] < room; at-- {
			room -= counts[at]
		}
		least = least<<digit | int64(at)
	}
	return least, room, false
}

// fill writes the columns of the nodes that are kept.
func (f *Flame) fill(t *Tree, d *described, keep, matches []bool) {
	k := newDrawn(t, d, keep)
	order := d.order()
	byName := make([]int32, len(k.nodes)-1)
	for i := range byName {
		byName[i] = int32(i + 1)
	}
	// The last of a parent's children is put in front first.
	slices.SortFunc(byName, func(x, y int32) int {
		a, b := k.nodes[x], k.nodes[y]
		return cmp.Or(cmp.Compare(order[d.index[b]], order[d.index[a]]), cmp.Compare(t.Line(b), t.Line(a)))
	})
	first, next := make([]int32, len(k.nodes)), make([]int32, len(k.nodes))
	for _, i := range byName {
		p := k.parent[i]
		next[i], first[p] = first[p], i
	}
	f.makeRoom(len(k.nodes))
	placed, functions := make([]int32, len(k.nodes)), make([]int32, len(d.functions))
	preorder(k.parent, first, next, func(i int32) {
		parent := int32(-1)
		if i > 0 {
			parent = placed[k.parent[i]]
		}
		placed[i] = f.add(t, d, k.nodes[i], parent, k.paths[i], functions, matches)
	}, func(int32) {})
}

// makeRoom has columns of just the length that they will have.
func (f *Flame) makeRoom(n int) {
	f.ID, f.Parent, f.Function, f.Line = make([]string, 0, n), make([]int32, 0, n), make([]int32, 0, n), make([]int64, 0, n)
	f.Self, f.Sum = make([]int64, 0, n), make([]int64, 0, n)
	if f.Compared {
		f.BaseSelf, f.BaseSum = make([]int64, 0, n), make([]int64, 0, n)
	}
}

// drawn are the nodes of a tree that are drawn; callers come before what they call.
type drawn struct {
	nodes  []int32
	parent []int32 // its index here
	paths  []uint64
}

func newDrawn(t *Tree, d *described, keep []bool) *drawn {
	n := 1
	for _, is := range keep[1:] {
		if is {
			n++
		}
	}
	k := &drawn{nodes: make([]int32, 1, n), parent: make([]int32, 1, n), paths: make([]uint64, 1, n)}
	k.parent[0], k.paths[0] = -1, offset64
	rank := make([]int32, t.Len())
	for i := int32(1); i < int32(t.Len()); i++ {
		if !keep[i] {
			continue
		}
		p := rank[t.parent[i]]
		rank[i] = int32(len(k.nodes))
		k.nodes, k.parent, k.paths = append(k.nodes, i), append(k.parent, p), append(k.paths, t.path(d, i, k.paths[p]))
	}
	return k
}

// preorder visits all nodes, parents before their children, and calls leave when all below a node were visited. first and next
// are the nodes' children: the first, and of each the next; 0 is none.
func preorder(parent, first, next []int32, visit, leave func(at int32)) {
	for at := int32(0); ; {
		visit(at)
		if first[at] != 0 {
			at = first[at]
			continue
		}
		leave(at)
		for at > 0 && next[at] == 0 {
			at = parent[at]
			leave(at)
		}
		if at <= 0 {
			return
		}
		at = next[at]
	}
}

// order ranks functions by name.
func (d *described) order() []int32 {
	by := make([]int32, len(d.functions))
	for i := range by {
		by[i] = int32(i)
	}
	slices.SortFunc(by, func(a, b int32) int {
		return cmp.Or(strings.Compare(d.functions[a].Name, d.functions[b].Name), cmp.Compare(d.hashes[a], d.hashes[b]))
	})
	out := make([]int32, len(by))
	for rank, i := range by {
		out[i] = int32(rank)
	}
	return out
}

// add appends a node. functions tells where its function is, one more than that.
func (f *Flame) add(t *Tree, d *described, at, parent int32, path uint64, functions []int32, matches []bool) int32 {
	k := d.index[at]
	if functions[k] == 0 {
		f.Functions = append(f.Functions, d.functions[k])
		if matches != nil {
			f.Match = append(f.Match, matches[k])
		}
		functions[k] = int32(len(f.Functions))
	}
	if t.guessed != nil && t.guessed[at] {
		f.Guessed = append(f.Guessed, int32(len(f.ID)))
	}
	f.ID = append(f.ID, strconv.FormatUint(path, 36))
	f.Parent, f.Function, f.Line = append(f.Parent, parent), append(f.Function, functions[k]-1), append(f.Line, t.Line(at))
	f.Self, f.Sum = append(f.Self, t.self[at]), append(f.Sum, t.total[at])
	if f.Compared {
		f.BaseSelf, f.BaseSum = append(f.BaseSelf, t.baseSelf[at]), append(f.BaseSum, t.baseTotal[at])
	}
	return int32(len(f.ID) - 1)
}
