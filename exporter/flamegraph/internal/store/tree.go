package store

import (
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
)

// GroupNone asks for trees whose stacks of all series are merged.
const GroupNone = "none"

// Query is what a tree is made of.
type Query struct {
	Selection
	Base  *Selection // what to compare with, if anything
	Group string     // key of an attribute whose values are the first level of the tree; GroupNone or empty: no such level
	Lines bool       // frames of one function that executed different lines are different
	// NoMarkers has stacks that end early begin where complete ones do, instead of below a marker.
	NoMarkers bool
}

// String is the same for queries that mean the same.
func (q Query) String() string {
	base := ""
	if q.Base != nil {
		base = fmt.Sprintf("%#v", *q.Base)
	}
	return fmt.Sprintf("%#v %s %q %t %t", q.Selection, base, q.Group, q.Lines, q.NoMarkers)
}

// place is a frame, or with groupBit the string of a group's name, or with markerBit that of the reason for which stacks end early.
type place uint32

const (
	groupBit  = 1 << 31
	markerBit = 1 << 30
)

// Tree has the samples of a selection, merged by what people mean by a function. Its nodes are columns; node 0 is the root, and
// parents come before their children.
type Tree struct {
	s        *Snapshot
	Info     TypeInfo
	Compared bool // with a base

	parent      []int32
	place       []place
	line        []int64 // nil: not told apart
	self, total []int64
	baseSelf    []int64 // nil without a base
	baseTotal   []int64
	guessed     []bool // some sample's frame there was guessed; nil: none

	hints map[string]string // by group: what else to call it

	// missing is what belongs below a node and has none, since a tree's size is bounded.
	missing map[int32]sums
	cut     int // how many stacks, or nodes with what is below them, are not there
}

// Len is the number of nodes.
func (t *Tree) Len() int { return len(t.parent) }

// Totals are the values of all samples, and of all of the base.
func (t *Tree) Totals() (total, base int64) { return t.total[0], t.baseOf(0) }

func (t *Tree) baseOf(i int32) int64 {
	if !t.Compared {
		return 0
	}
	return t.baseTotal[i]
}

// miss notes that n of what is below a node are not there.
func (t *Tree) miss(at int32, v sums, n int) {
	if t.missing == nil {
		t.missing = map[int32]sums{}
	}
	t.missing[at] = t.missing[at].plus(v)
	t.cut += n
}

// Tree merges what the query selects. ok is false if there is no such profile type.
func (s *Snapshot) Tree(q Query) (*Tree, bool) {
	w, ok := s.work(q.Selection)
	if !ok {
		return nil, false
	}
	branches, of := s.branches(q)
	var leaves leafSums
	w.rows(func(g *segment, i int, value int64) {
		leaves.add(leafKey{of[g.series[i]], g.node[i]}, sums{value: value})
	})
	if q.Base != nil {
		base := *q.Base
		base.Type = w.info.ID
		if bw, ok := s.work(base); ok {
			bw.rows(func(g *segment, i int, value int64) {
				leaves.add(leafKey{of[g.series[i]], g.node[i]}, sums{base: value})
			})
		}
	}
	b := newTreeBuilder(s, w.info, q.Base != nil, q.Lines)
	b.branches = branches
	if q.Group == pidKey {
		b.t.hints = s.executables()
	}
	b.build(leaves.all())
	return b.t, true
}

// treeBuilder puts stacks into a tree.
type treeBuilder struct {
	t        *Tree
	branches []branch
	index    []int32 // a hash table of nodes by parent, place and line; 0 is free
	at       []int32 // by node of the snapshot: its node in the tree in this branch, -1 unknown
	path     []uint32
	known    []uint32 // of at
	limit    int      // of nodes, but for groups and markers
	full     bool     // there would have been more
}

func newTreeBuilder(s *Snapshot, info TypeInfo, compared, lines bool) *treeBuilder {
	b := &treeBuilder{t: &Tree{s: s, Info: info, Compared: compared}, limit: s.treeNodes}
	if lines {
		b.t.line = []int64{}
	}
	if slices.Contains(s.guessed, true) {
		b.t.guessed = []bool{}
	}
	b.clear()
	return b
}

// clear makes a tree of nothing but the root.
func (b *treeBuilder) clear() {
	t := b.t
	t.parent, t.place, t.line, t.self, t.total = t.parent[:0], t.place[:0], t.line[:0], t.self[:0], t.total[:0]
	t.baseSelf, t.baseTotal, t.guessed = t.baseSelf[:0], t.baseTotal[:0], t.guessed[:0]
	b.index, b.full = make([]int32, 1<<10), false
	b.append(-1, 0, 0)
}

func (b *treeBuilder) append(parent int32, p place, line int64) int32 {
	t := b.t
	t.parent, t.place = append(t.parent, parent), append(t.place, p)
	t.self, t.total = append(t.self, 0), append(t.total, 0)
	if t.line != nil {
		t.line = append(t.line, line)
	}
	if t.guessed != nil {
		t.guessed = append(t.guessed, false)
	}
	if t.Compared {
		t.baseSelf, t.baseTotal = append(t.baseSelf, 0), append(t.baseTotal, 0)
	}
	return int32(len(t.parent) - 1)
}

// build puts all leaves into the tree. If they are too many, the largest.
func (b *treeBuilder) build(leaves []leaf) {
	b.at = make([]int32, len(b.t.s.nodes))
	var bySize []int32
	without := make([]bool, len(leaves))
	for n := len(leaves); ; {
		done, all := b.try(leaves, without)
		if all {
			break
		}
		if bySize == nil {
			bySize = largestFirst(leaves)
		}
		n = max(n*done/len(leaves)*9/10, n/4) // as many as there was room for, and to be sure a few less
		for _, i := range bySize[n:] {
			without[i] = true
		}
		b.clear()
	}
	for i := range leaves {
		if without[i] {
			b.t.miss(b.top(b.branches[leaves[i].branch]), leaves[i].sums, 1)
		}
	}
	b.t.sum()
}

// try puts leaves into the tree, branch by branch, and tells whether there was room for all, or for how many.
func (b *treeBuilder) try(leaves []leaf, without []bool) (done int, all bool) {
	for i := range b.at {
		b.at[i] = -1
	}
	b.known = b.known[:0]
	for i := range leaves {
		l := &leaves[i]
		if i == 0 || l.branch != leaves[i-1].branch {
			b.begin(b.branches[l.branch])
		}
		if without[i] {
			continue
		}
		b.t.add(b.find(l.node), l.value, l.base)
		if b.full {
			return i, false
		}
	}
	return len(leaves), true
}

// add adds to a node's own values.
func (t *Tree) add(at int32, value, base int64) {
	t.self[at] = saturatingAdd(t.self[at], value)
	if t.Compared {
		t.baseSelf[at] = saturatingAdd(t.baseSelf[at], base)
	}
}

// begin makes the branch's last node the one that stacks begin at.
func (b *treeBuilder) begin(of branch) {
	for _, n := range b.known {
		b.at[n] = -1
	}
	b.known = append(b.known[:0], 0)
	b.at[0] = b.top(of)
}

// top is the node that a branch's stacks begin at. There is always room for it.
func (b *treeBuilder) top(of branch) (at int32) {
	limit := b.limit
	b.limit = math.MaxInt
	if of.group != noGroup {
		at = b.child(at, groupBit|place(of.group), 0)
	}
	if of.reason != 0 {
		at = b.child(at, markerBit|place(of.reason), 0)
	}
	b.limit = limit
	return at
}

// find returns the tree's node of a stack.
func (b *treeBuilder) find(n uint32) int32 {
	path := b.path[:0]
	for ; b.at[n] < 0; n = b.t.s.nodes[n].parent {
		path = append(path, n)
	}
	at := b.at[n]
	for _, n := range slices.Backward(path) {
		at = b.below(at, n)
		b.at[n] = at
		b.known = append(b.known, n)
	}
	b.path = path
	return at
}

// below puts the frames of a location below a node of the tree, outermost first.
func (b *treeBuilder) below(at int32, n uint32) int32 {
	s := b.t.s
	of := s.nodes[n].location
	l := &s.locations[of]
	frames, lines := s.lists[l.frames], s.lists[l.lines]
	for i := len(frames) - 4; i >= 0; i -= 4 {
		line := int64(0)
		if b.t.line != nil && i < len(lines) {
			line = s.lines[indexAt(lines, i)].line
		}
		at = b.child(at, place(indexAt(frames, i)), line)
		if s.guessed[of] {
			b.t.guessed[at] = true
		}
	}
	return at
}

// takeGuessed notes that a node has samples of one of another tree.
func (b *treeBuilder) takeGuessed(at int32, from *Tree, node int32) {
	if from.guessed != nil && from.guessed[node] {
		b.t.guessed[at] = true
	}
}

// child returns the node of a place below parent, and makes it if it is new. If there is no room, it is the parent.
func (b *treeBuilder) child(parent int32, p place, line int64) int32 {
	t := b.t
	mask := uint64(len(b.index) - 1)
	i := childHash(parent, p, line) & mask
	for ; b.index[i] != 0; i = (i + 1) & mask {
		if at := b.index[i]; t.parent[at] == parent && t.place[at] == p && (t.line == nil || t.line[at] == line) {
			return at
		}
	}
	if t.Len() >= b.limit {
		b.full = true
		return parent
	}
	at := b.append(parent, p, line)
	b.index[i] = at
	if 4*t.Len() > 3*len(b.index) {
		b.grow()
	}
	return at
}

func childHash(parent int32, p place, line int64) uint64 {
	h := (uint64(uint32(parent))<<32 | uint64(p)) * 0x9e3779b97f4a7c15 // 2^64 divided by the golden ratio
	h = (h ^ h>>29 ^ uint64(line)) * prime64
	return h ^ h>>32
}

func (b *treeBuilder) grow() {
	t := b.t
	b.index = make([]int32, 2*len(b.index))
	mask := uint64(len(b.index) - 1)
	for at := int32(1); at < int32(t.Len()); at++ {
		i := childHash(t.parent[at], t.place[at], t.Line(at)) & mask
		for b.index[i] != 0 {
			i = (i + 1) & mask
		}
		b.index[i] = at
	}
}

// sum sums self values, and what is missing, up towards the root.
func (t *Tree) sum() {
	for at, v := range t.missing {
		t.total[at] = v.value
		if t.Compared {
			t.baseTotal[at] = v.base
		}
	}
	up := func(self, total []int64) {
		for i := len(total) - 1; i >= 0; i-- {
			total[i] = saturatingAdd(total[i], self[i])
			if i > 0 {
				p := &total[t.parent[i]]
				*p = saturatingAdd(*p, total[i])
			}
		}
	}
	up(t.self, t.total)
	up(t.baseSelf, t.baseTotal)
}

// Function is what a place is, in words.
type Function struct {
	Key                    string // the same in every answer
	Name, SystemName, File string
	Mapping, FrameType     string // of a group: what its name stands for
	StartLine              int64
}

// Types of places that are no frames.
const (
	TypeGroup     = "group"
	TypeRoot      = "root"
	TypeTruncated = "truncated" // a marker: the callers of what is below are missing, and SystemName is the reason
)

// isFrame tells whether a place of a type is a frame.
func isFrame(frameType string) bool {
	return frameType != TypeRoot && frameType != TypeGroup && frameType != TypeTruncated
}

// function describes a place.
func (s *Snapshot) function(p place) Function {
	var f Function
	switch {
	case p&groupBit != 0:
		f = Function{Name: s.strings[p&^groupBit], FrameType: TypeGroup}
	case p&markerBit != 0:
		f = marker(s.strings[p&^markerBit])
	default:
		at := s.frames[p]
		f = Function{Name: s.strings[at.name], SystemName: s.strings[at.systemName], File: s.strings[at.file],
			Mapping: s.strings[at.mapping], FrameType: s.strings[at.frameType], StartLine: at.startLine}
		if at.name == 0 {
			f.Name = unnamed(f.Mapping, at.address)
		}
	}
	f.Key = strconv.FormatUint(f.hash(), 36)
	return f
}

// unnamed is what stands for code without a name.
func unnamed(mapping string, address uint64) string {
	hex := "0x" + strconv.FormatUint(address, 16)
	if mapping == "" {
		return hex
	}
	const most = 200 // bytes: every address has such a name
	return clipTo(path.Base(mapping), most) + "+" + hex
}

// hash identifies the function by what it is; it is no secret, but collisions made on purpose would only merge what their
// maker sent.
func (f *Function) hash() uint64 {
	h := fnv(offset64, f.FrameType)
	h = fnv(h, f.Name)
	h = fnv(h, f.SystemName)
	h = fnv(h, f.File)
	h = fnv(h, f.Mapping)
	return fnv(h, strconv.FormatInt(f.StartLine, 10))
}
