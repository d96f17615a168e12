package store

import (
	"fmt"
	"path"
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
	// Bytes is the memory that the tree may take, making it and a view of it included. 0: as much as what is held.
	Bytes int
}

// String is the same for queries that mean the same, whatever memory there is.
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

// Cut tells whether stacks, or nodes with what is below them, are not there for want of memory.
func (t *Tree) Cut() bool { return t.cut > 0 }

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
	bytes := q.Bytes
	if bytes == 0 {
		bytes = s.window.Budget
	}
	b, leaves, ok := s.builder(q, bytes)
	if !ok {
		return nil, false
	}
	b.allow(bytes, 4*len(s.nodes)+leafBytes*cap(leaves.list)+4*len(leaves.list)+2*len(b.branches)*b.t.nodeBytes())
	b.build(leaves)
	return b.t, true
}

// builder makes what a tree is made with, and what it is made of.
func (s *Snapshot) builder(q Query, bytes int) (b *treeBuilder, leaves *leafSums, ok bool) {
	w, ok := s.work(q.Selection)
	if !ok {
		return nil, nil, false
	}
	branches, of := s.branches(q)
	leaves = &leafSums{most: max(bytes/leavesShare/leafBytes, fewestNodes)}
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
	b = newTreeBuilder(s, w.info, q.Base != nil, q.Lines)
	b.branches = branches
	if q.Group == pidKey {
		b.t.hints = s.executables()
	}
	leaves.all()
	return b, leaves, true
}

// add adds to a node's own values.
func (t *Tree) add(at int32, value, base int64) {
	t.self[at] = saturatingAdd(t.self[at], value)
	if t.Compared {
		t.baseSelf[at] = saturatingAdd(t.baseSelf[at], base)
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
	Part                   bool // the name is an address, and nobody knows of which function
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
			f.Name, f.Part = unnamed(f.Mapping, at.address), at.part
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
	h = fnv(h, strconv.FormatInt(f.StartLine, 10))
	if f.Part {
		h = fnv(h, "part")
	}
	return h
}
