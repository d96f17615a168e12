package dwarf

import (
	"fmt"
	"unsafe"
)

// tree is a function and what was inlined into it.
type tree struct {
	nodes []node
	spans []span // the id is a node's place
	err   error  // why it is not complete
}

// node is the function, which is the first, or one call that was inlined.
type node struct {
	parent             int32  // place of what it was inlined into; -1 of the function
	callFile, callLine uint32 // in parent
	callColumn         uint32
	function           place // the DIE that names it
}

// maxDepth is how deep DIEs of one function are inside each other; the rest is passed over.
const maxDepth = 1 << 12

// tree reads what is below the subprogram at off in the unit.
func (d *Data) tree(u *unit, off uint32) (*tree, error) {
	return cached(d, cacheKey{kindTree, u.obj.id, u.off, uint64(off)}, func(a *account) (*tree, error) {
		w, err := d.walk(u, a)
		if err != nil {
			return nil, err
		}
		if !w.c.to(u.off + uint64(off)) {
			return nil, fmt.Errorf("no function at %#x: %w", u.off+uint64(off), ErrFormat)
		}
		t := &treeWalker{walker: w, t: &tree{}}
		if err := a.take(int(unsafe.Sizeof(tree{})), "inlined calls"); err != nil {
			return nil, err
		}
		if err := t.all(); err != nil {
			if !permanent(err) || len(t.t.nodes) == 0 {
				return nil, err
			}
			err = fmt.Errorf("reading the function at %#x: %w", u.off+uint64(off), err)
			d.note(err)
			t.t.err = err
		}
		if t.t.spans, err = d.paint(a, t.t.spans, "inlined calls"); err != nil {
			return nil, err
		}
		t.t.nodes = clip(a, t.t.nodes, "inlined calls")
		t.t.spans = clip(a, t.t.spans, "inlined calls")
		return t.t, nil
	})
}

// treeWalker goes through the DIEs below one subprogram.
type treeWalker struct {
	*walker
	t     *tree
	stack []int32 // for each list of children that is open, the node that they belong to
}

func (w *treeWalker) all() error {
	for w.c.more() {
		off, x, err := w.next()
		if err != nil {
			return err
		}
		if x == nil {
			if len(w.stack) == 0 { // the file has changed: it was a function when the unit was scanned
				return fmt.Errorf("no DIE at %#x: %w", w.u.off+uint64(off), ErrFormat)
			}
			w.stack = w.stack[:len(w.stack)-1]
			if len(w.stack) == 0 {
				break
			}
			continue
		}
		parent := int32(-1)
		if len(w.stack) > 0 {
			parent = w.stack[len(w.stack)-1]
		}
		entered, self := false, parent
		switch {
		case parent < 0 && x.tag == tagSubprogram, x.interest == interestInlined:
			if entered, err = w.node(off, x, parent); err != nil {
				return err
			}
			self = int32(len(w.t.nodes) - 1)
		case parent < 0:
			return fmt.Errorf("no subprogram at %#x: %w", w.c.pos(), ErrFormat)
		case x.tag == tagLexicalBlock || x.tag == tagTryBlock || x.tag == tagCatchBlock:
			entered = w.pass(x, false)
		default: // a nested function, too, has a tree of its own
			entered = w.pass(x, true)
			if entered {
				err = w.leave()
				entered = false
			}
		}
		if err != nil {
			return err
		}
		if entered {
			if len(w.stack) == maxDepth {
				return fmt.Errorf("more than %d blocks in each other: %w", maxDepth, ErrFormat)
			}
			w.stack = append(w.stack, self)
		} else if len(w.stack) == 0 {
			break
		}
	}
	return w.c.err
}

// leave goes over the children of a DIE of no interest.
func (w *treeWalker) leave() error {
	for depth := 1; depth > 0 && w.c.more(); {
		_, x, err := w.next()
		switch {
		case err != nil:
			return err
		case x == nil:
			depth--
		case w.pass(x, true):
			depth++
		}
	}
	return w.c.err
}

// node adds a function or an inlined call.
func (w *treeWalker) node(off uint32, x *abbrev, parent int32) (entered bool, err error) {
	n := node{parent: parent, function: place{w.u.obj, w.u, w.u.off + uint64(off)}}
	var code codeAttrs
	var origin value
	for _, at := range x.attrs {
		var to *value
		switch at.at {
		case atLowPC:
			to = &code.low
		case atHighPC:
			to = &code.high
		case atRanges:
			to = &code.ranges
		case atAbstractOrigin:
			to = &origin
		case atCallFile, atCallLine, atCallColumn:
			v := clip32(w.u.read(&w.c, at.form, at.implicit).u)
			switch at.at {
			case atCallFile:
				n.callFile = v
			case atCallLine:
				n.callLine = v
			default:
				n.callColumn = v
			}
			continue
		default:
			w.u.skipForm(&w.c, at.form)
			continue
		}
		*to = w.u.read(&w.c, at.form, at.implicit)
	}
	if w.c.err != nil {
		return false, w.c.err
	}
	if p, ok := w.u.ref(origin); ok && parent >= 0 {
		n.function = p
	}
	id := uint32(len(w.t.nodes))
	if w.t.nodes, err = add(w.a, w.t.nodes, n, "inlined calls"); err != nil {
		return false, err
	}
	return x.children, w.d.eachRange(w.u, code, func(start, end uint64) (err error) {
		if s, ok := w.d.newSpan(start, end, id); ok {
			w.t.spans, err = add(w.a, w.t.spans, s, "inlined calls")
		}
		return err
	})
}

func clip32(v uint64) uint32 {
	if v > 1<<32-1 {
		return 0 // no line, file or column
	}
	return uint32(v)
}
