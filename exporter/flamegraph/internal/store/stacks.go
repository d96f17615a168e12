package store

// Described are a tree's functions, and which each node is.
type Described struct {
	Functions []Function
	Node      []int32 // its index in Functions
}

// Describe names a tree's nodes.
func (t *Tree) Describe() Described {
	d := t.describe()
	return Described{Functions: d.functions, Node: d.index}
}

// Stacks calls fn with the nodes of each stack that samples ended at, outermost first and without the root, and with their
// value; of what is missing, with the part that there is. fn must not keep path.
func (t *Tree) Stacks(fn func(path []int32, value int64)) {
	first, next := t.adjacency()
	var path []int32
	preorder(t.parent, first, next, func(at int32) {
		if at > 0 {
			path = append(path, at)
		}
		if v := saturatingAdd(t.self[at], t.missing[at].value); v > 0 {
			fn(path, v)
		}
	}, func(at int32) {
		if at > 0 {
			path = path[:len(path)-1]
		}
	})
}

// Line is the line of source code at a node, 0 if it is not known or if several were merged.
func (t *Tree) Line(node int32) int64 {
	if t.line == nil {
		return 0
	}
	return t.line[node]
}
