package store

import (
	"math/bits"
	"slices"
)

// What a node of a tree takes, in bytes. The columns stay, the rest is gone when the tree or the view is made.
const (
	columnBytes  = 4 + 4 + 8 + 8 // parent, place, self, total
	lineBytes    = 8
	baseBytes    = 8 + 8
	guessedBytes = 1
	// makingBytes are the index of nodes, at most three quarters full, and a column that moves to where there is more room.
	makingBytes = 6 + 8
	// viewBytes are which function a node is, and where it or its children are in what is drawn or added up.
	viewBytes = 4 + 8
	// drawnBytes is what a node takes that is drawn: columns, how they are ordered, and their text, twice.
	drawnBytes = 320
)

const (
	// fewestNodes are there room for, whatever memory there is.
	fewestNodes = 1000
	// drawnShare is the part of the memory for a tree that a drawing of it may take.
	drawnShare = 8
	// leavesShare is the part that leaves may take.
	leavesShare = 4
)

// treeBuilder puts stacks into a tree.
type treeBuilder struct {
	t        *Tree
	branches []branch
	index    []int32 // a hash table of nodes by parent, place and line; 0 is free
	at       []int32 // by node of the snapshot: its node in the tree in this branch, -1 unknown
	path     []uint32
	known    []uint32 // of at
	limit    int      // of nodes, but for groups and markers
	tops     int      // groups and markers
	full     bool     // there would have been more
}

// newTreeBuilder begins a tree with nothing but a root.
func newTreeBuilder(s *Snapshot, info TypeInfo, compared, lines bool) *treeBuilder {
	b := &treeBuilder{t: &Tree{s: s, Info: info, Compared: compared}, limit: fewestNodes}
	if lines {
		b.t.line = []int64{}
	}
	if slices.Contains(s.guessed, true) {
		b.t.guessed = []bool{}
	}
	b.index = make([]int32, 1<<10)
	b.append(-1, 0, 0)
	return b
}

// nodeBytes is what the columns of one node take.
func (t *Tree) nodeBytes() int {
	n := columnBytes
	if t.line != nil {
		n += lineBytes
	}
	if t.Compared {
		n += baseBytes
	}
	if t.guessed != nil {
		n += guessedBytes
	}
	return n
}

// Bytes is the memory that the tree takes.
func (t *Tree) Bytes() int { return cap(t.parent) * t.nodeBytes() }

// ViewBytes is about the memory that a view of the tree takes beside it.
func (t *Tree) ViewBytes() int { return t.Len() * viewBytes }

// Drawable is how many nodes can be drawn within some memory.
func Drawable(bytes int) int { return max(bytes/drawnBytes, fewestNodes) }

// DrawnBytes is about the memory that it takes to draw so many nodes.
func DrawnBytes(nodes int) int { return nodes * drawnBytes }

// allow sets how many nodes there may be within some memory: while the tree is made, beside what making it takes in any case, and
// while a view of it is drawn.
func (b *treeBuilder) allow(bytes, making int) {
	columns := b.t.nodeBytes()
	b.limit = max(min((bytes-making)/(columns+makingBytes), (bytes-bytes/drawnShare)/(columns+viewBytes)), fewestNodes)
}

// build puts all leaves into the tree. If they are too many for the memory that there is, the largest.
func (b *treeBuilder) build(from *leafSums) {
	leaves := from.all()
	b.at = make([]int32, len(b.t.s.nodes))
	for i := range b.at {
		b.at[i] = -1
	}
	all := func(yield func(int) bool) {
		for i := range leaves {
			if !yield(i) {
				return
			}
		}
	}
	if !b.put(leaves, all) {
		b.truncate(1)
		b.largest(leaves)
	}
	for at, rest := range from.rest {
		b.t.miss(b.top(b.branches[at]), rest.sums, rest.leaves)
	}
	b.index, b.at, b.path, b.known = nil, nil, nil, nil
	b.t.sum()
}

// put makes the nodes of leaves, branch by branch, and adds their values as far as there is room.
func (b *treeBuilder) put(leaves []leaf, which func(func(int) bool)) bool {
	return b.find(leaves, which, func(i int, at int32) { b.t.add(at, leaves[i].value, leaves[i].base) })
}

// largest puts the largest leaves into the tree, as many as there is room for. Of those that may be the last the larger half is tried,
// over and over: all of it is done little more than twice.
func (b *treeBuilder) largest(leaves []leaf) {
	bySize := largestFirst(leaves)
	in, out := 0, len(leaves) // so many are in the tree, and for so many there is no room
	for out-in > 1 {
		middle := in + (out-in)/2
		some := slices.Clone(bySize[in:middle])
		slices.Sort(some) // branch by branch
		before := b.t.Len()
		if b.find(leaves, each(some), func(int, int32) {}) {
			in = middle
		} else {
			b.truncate(before)
			out = middle
		}
	}
	clear(b.t.guessed) // also of stacks that were taken out again
	some := bySize[:in]
	slices.Sort(some)
	b.put(leaves, each(some))
	for _, i := range bySize[in:] {
		b.t.miss(b.top(b.branches[leaves[i].branch]), leaves[i].sums, 1)
	}
}

func each(list []int32) func(func(int) bool) {
	return func(yield func(int) bool) {
		for _, i := range list {
			if !yield(int(i)) {
				return
			}
		}
	}
}

// find finds the nodes of leaves, which come branch by branch, or makes them. It returns false if there is no room for all.
func (b *treeBuilder) find(leaves []leaf, which func(func(int) bool), found func(i int, at int32)) bool {
	b.full = false
	last, begun := uint32(0), false
	for i := range which {
		l := &leaves[i]
		if !begun || l.branch != last {
			b.begin(b.branches[l.branch])
			last, begun = l.branch, true
		}
		at := b.stack(l.node)
		if b.full {
			break
		}
		found(i, at)
	}
	b.forget()
	return !b.full
}

// begin makes the branch's last node the one that stacks begin at.
func (b *treeBuilder) begin(of branch) {
	b.forget()
	b.known = append(b.known, 0)
	b.at[0] = b.top(of)
}

// forget forgets the branch's nodes.
func (b *treeBuilder) forget() {
	for _, n := range b.known {
		b.at[n] = -1
	}
	b.known = b.known[:0]
}

// top is the node that a branch's stacks begin at. There is always room for it.
func (b *treeBuilder) top(of branch) (at int32) {
	if of.group != noGroup {
		at = b.child(at, groupBit|place(of.group), 0)
	}
	if of.reason != 0 {
		at = b.child(at, markerBit|place(of.reason), 0)
	}
	return at
}

// stack returns the tree's node of a stack.
func (b *treeBuilder) stack(n uint32) int32 {
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
		if s.guessed[of] && !b.full {
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
	i := b.slot(childHash(parent, p, line))
	for ; b.index[i] != 0; i = b.next(i) {
		if at := b.index[i]; t.parent[at] == parent && t.place[at] == p && (t.line == nil || t.line[at] == line) {
			return at
		}
	}
	if p.isTop() {
		b.tops++
	} else if t.Len()-b.tops >= b.limit {
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

func (p place) isTop() bool { return p&(groupBit|markerBit) != 0 }

func childHash(parent int32, p place, line int64) uint64 {
	h := (uint64(uint32(parent))<<32 | uint64(p)) * 0x9e3779b97f4a7c15 // 2^64 divided by the golden ratio
	h = (h ^ h>>29 ^ uint64(line)) * prime64
	return h ^ h>>32
}

// slot is where in the index, of any length, one begins to look.
func (b *treeBuilder) slot(hash uint64) int {
	high, _ := bits.Mul64(hash*0x9e3779b97f4a7c15, uint64(len(b.index)))
	return int(high)
}

func (b *treeBuilder) next(slot int) int {
	if slot++; slot == len(b.index) {
		return 0
	}
	return slot
}

// room is for how many nodes more there is to be room if there is room for n: twice as many, but no more than there may be.
func (b *treeBuilder) room(n int) int { return min(2*n, max(b.limit+b.tops+1, n+n/8)) }

func (b *treeBuilder) grow() {
	n := b.room(len(b.index)*3/4)*4/3 + 4
	b.index = nil // before the next is made
	b.index = make([]int32, n)
	for at := int32(1); at < int32(b.t.Len()); at++ {
		b.index[b.free(at)] = at
	}
}

// free is the first free slot for a node.
func (b *treeBuilder) free(at int32) int {
	t := b.t
	i := b.slot(childHash(t.parent[at], t.place[at], t.Line(at)))
	for b.index[i] != 0 {
		i = b.next(i)
	}
	return i
}

func (b *treeBuilder) append(parent int32, p place, line int64) int32 {
	t := b.t
	if len(t.parent) == cap(t.parent) {
		b.moreColumns()
	}
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

// moreColumns moves the columns to where there is more room, one after the other.
func (b *treeBuilder) moreColumns() {
	t := b.t
	n := b.room(max(t.Len(), 64))
	t.parent, t.place, t.self, t.total = moved(t.parent, n), moved(t.place, n), moved(t.self, n), moved(t.total, n)
	if t.line != nil {
		t.line = moved(t.line, n)
	}
	if t.guessed != nil {
		t.guessed = moved(t.guessed, n)
	}
	if t.Compared {
		t.baseSelf, t.baseTotal = moved(t.baseSelf, n), moved(t.baseTotal, n)
	}
}

func moved[V any](column []V, to int) []V {
	out := make([]V, len(column), to)
	copy(out, column)
	return out
}

// truncate takes the last nodes off, all but n, which have no values but for the root. What was put last into the index can be taken out of it: nothing was moved for it.
func (b *treeBuilder) truncate(n int) {
	t := b.t
	if n == 1 {
		clear(b.index)
		t.self[0], t.missing, t.cut = 0, nil, 0
		if t.Compared {
			t.baseSelf[0] = 0
		}
	}
	for at := int32(t.Len() - 1); at >= int32(n); at-- {
		if t.place[at].isTop() {
			b.tops--
		}
		if n == 1 {
			continue
		}
		i := b.slot(childHash(t.parent[at], t.place[at], t.Line(at)))
		for b.index[i] != at {
			i = b.next(i)
		}
		b.index[i] = 0
	}
	t.parent, t.place, t.self, t.total = t.parent[:n], t.place[:n], t.self[:n], t.total[:n]
	if t.line != nil {
		t.line = t.line[:n]
	}
	if t.guessed != nil {
		t.guessed = t.guessed[:n]
	}
	if t.Compared {
		t.baseSelf, t.baseTotal = t.baseSelf[:n], t.baseTotal[:n]
	}
}
