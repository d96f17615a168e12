package store

// compaction takes over from one set of tables into another what is needed. Places of what was taken over hold its new index
// plus one.
type compaction struct {
	from, to *tables

	strings, values, attrs, attrLists, functions, mappings, lines, locations, links, resources, scopes, types, seriesOf []uint32

	nodes []uint32 // their new indices; before takeNodes 1 stands for those that are needed
}

func newCompaction(from *tables) *compaction {
	memo := func(n int) []uint32 { return make([]uint32, n) }
	return &compaction{
		from: from, to: newTables(),
		strings: memo(len(from.strings.items)), values: memo(len(from.values.items)), attrs: memo(len(from.attrs.items)),
		attrLists: memo(len(from.lists.items)), functions: memo(len(from.functions.items)), mappings: memo(len(from.mappings.items)),
		lines: memo(len(from.lines.items)), locations: memo(len(from.locations.items)), links: memo(len(from.links.items)),
		resources: memo(len(from.resources.items)), scopes: memo(len(from.scopes.items)), types: memo(len(from.types.items)),
		seriesOf: memo(len(from.series.items)), nodes: memo(len(from.nodes.items)),
	}
}

// mark notes that a node and its callers are needed.
func (c *compaction) mark(n uint32) {
	for ; n != 0 && c.nodes[n] == 0; n = c.from.nodes.items[n].parent {
		c.nodes[n] = 1
	}
}

// takeNodes takes over the nodes that are marked. Callers come before what they call.
func (c *compaction) takeNodes() {
	for i, n := range c.from.nodes.items {
		if c.nodes[i] != 0 {
			c.nodes[i], _ = c.to.nodes.add(node{c.nodes[n.parent], c.location(n.location)})
		}
	}
}

// taken returns the new index of i, which take finds out the first time.
func taken(memo []uint32, i uint32, take func() uint32) uint32 {
	if memo[i] == 0 {
		memo[i] = take() + 1
	}
	return memo[i] - 1
}

// kept adds k to a table.
func kept[K comparable](t *table[K], k K) uint32 {
	i, _ := t.add(k)
	return i
}

func (c *compaction) string(i uint32) uint32 {
	return taken(c.strings, i, func() uint32 { return c.to.string(c.from.strings.items[i]) })
}

func (c *compaction) value(i uint32) uint32 {
	return taken(c.values, i, func() uint32 {
		v := c.from.values.items[i]
		if v.kind == valueOther {
			return c.to.other(c.from.otherValue[v.number])
		}
		v.text = c.string(v.text)
		return kept(&c.to.values, v)
	})
}

func (c *compaction) attributes(i uint32) uint32 {
	return taken(c.attrLists, i, func() uint32 {
		var list []uint32
		for k := range indices(c.from.lists.items[i]) {
			list = append(list, taken(c.attrs, k, func() uint32 {
				a := c.from.attrs.items[k]
				return kept(&c.to.attrs, attribute{c.string(a.key), c.value(a.value), c.string(a.unit)})
			}))
		}
		return c.to.list(list)
	})
}

func (c *compaction) location(i uint32) uint32 {
	return taken(c.locations, i, func() uint32 {
		l := c.from.locations.items[i]
		var list []uint32
		for k := range indices(c.from.lists.items[l.lines]) {
			list = append(list, c.line(k))
		}
		return c.to.location(location{
			mapping: c.mapping(l.mapping), attributes: c.attributes(l.attributes), address: l.address, lines: c.to.list(list),
		})
	})
}

func (c *compaction) line(i uint32) uint32 {
	return taken(c.lines, i, func() uint32 {
		l := c.from.lines.items[i]
		l.function = taken(c.functions, l.function, func() uint32 {
			f := c.from.functions.items[l.function]
			f.name, f.systemName, f.file = c.string(f.name), c.string(f.systemName), c.string(f.file)
			return kept(&c.to.functions, f)
		})
		return kept(&c.to.lines, l)
	})
}

func (c *compaction) mapping(i uint32) uint32 {
	return taken(c.mappings, i, func() uint32 {
		m := c.from.mappings.items[i]
		m.file, m.attributes = c.string(m.file), c.attributes(m.attributes)
		return kept(&c.to.mappings, m)
	})
}

func (c *compaction) series(i uint32) uint32 {
	return taken(c.seriesOf, i, func() uint32 {
		s := c.from.series.items[i]
		return kept(&c.to.series, series{
			resource: taken(c.resources, s.resource, func() uint32 {
				r := c.from.resources.items[s.resource]
				return kept(&c.to.resources, resource{c.attributes(r.attributes), c.string(r.schemaURL)})
			}),
			scope: taken(c.scopes, s.scope, func() uint32 {
				v := c.from.scopes.items[s.scope]
				return kept(&c.to.scopes, scope{c.string(v.name), c.string(v.version), c.string(v.schemaURL), c.attributes(v.attributes)})
			}),
			attributes: c.attributes(s.attributes),
			of:         c.attributes(s.of),
			link:       taken(c.links, s.link, func() uint32 { return kept(&c.to.links, c.from.links.items[s.link]) }),
			profileType: taken(c.types, s.profileType, func() uint32 {
				p := c.from.types.items[s.profileType]
				p.sampleType, p.sampleUnit = c.string(p.sampleType), c.string(p.sampleUnit)
				p.periodType, p.periodUnit = c.string(p.periodType), c.string(p.periodUnit)
				return kept(&c.to.types, p)
			}),
		})
	})
}
