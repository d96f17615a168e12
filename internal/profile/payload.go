package profile

// plan is what goes into one payload: which samples, and which part of the flush's dictionary they need. It knows the exact
// marshalled size after each step, and can go back to a mark, so a flush fills payloads without ever marshalling.
type plan struct {
	f *flush

	strings, attributes, functions, mappings, locations, stacks, links table

	resources []planResource
	profiles  []planProfile
	samples   []planSample
	count     int // events

	size sizes
}

// table is the part of one of the dictionary's tables that a payload holds.
type table struct {
	local []int32 // payload's index by dictionary's id; 0 if it is not in the payload
	ids   []int32 // dictionary's ids in the payload's order; the payload's index is one more
}

func newTable(n int) table { return table{local: make([]int32, n)} }

// add makes room for id; known is true if the payload has it, or if it is none.
func (t *table) add(id int32) (index int32, known bool) {
	if id == 0 || t.local[id] != 0 {
		return t.local[id], true
	}
	t.ids = append(t.ids, id)
	t.local[id] = int32(len(t.ids))
	return t.local[id], false
}

func (t *table) cut(n int) {
	for _, id := range t.ids[n:] {
		t.local[id] = 0
	}
	t.ids = t.ids[:n]
}

// planResource, planProfile and planSample are open-ended: each one's children are those up to the next one's.
type planResource struct {
	group    *resourceGroup
	profiles int // index of the first
}

type planProfile struct {
	group   *profileGroup
	samples int // index of the first
}

type planSample struct {
	sample   *sample
	from, to int // points; both 0 for a sum
}

// sizes are marshalled sizes in bytes, of messages without their length prefix.
type sizes struct {
	dictionary int
	closed     int // ResourceProfiles before the open one, with prefixes
	resource   int // the open one, without its open ScopeProfiles; 0 if none is open
	scope      int // its ScopeProfiles, without the open Profile
	profile    int // the open Profile; 0 if none is open
	references int // what the marshaler may add
}

func (s *sizes) scopeTotal() int {
	if s.profile == 0 {
		return s.scope
	}
	return s.scope + sizeBytes(s.profile)
}

func (s *sizes) resourceTotal() int {
	if s.resource == 0 {
		return 0
	}
	return sizeBytes(s.resource + sizeBytes(s.scopeTotal()))
}

// exact is what pdata's ProfilesSize will say.
func (s *sizes) exact() int { return sizeBytes(s.dictionary) + s.closed + s.resourceTotal() }

// bound is what neither ProfilesSize nor the marshalled payload will exceed. pdata's marshaler moves the strings of
// resource attributes into the string table, where they take as much room, and refers to them.
func (s *sizes) bound() int { return s.exact() + s.references }

// referenceBytes is what the references of one resource attribute take: tag and index of key and value (an index below 2^28
// takes 4 bytes), and growing length prefixes of the four messages around it. The dictionary's own prefix may grow too.
const referenceBytes = 2*(1+4) + 4

// mark is a state of a plan to go back to.
type mark struct {
	strings, attributes, functions, mappings, locations, stacks, links int
	resources, profiles, samples, count                                int
	size                                                               sizes
}

func newPlan(f *flush) *plan {
	d := f.dict
	p := &plan{
		f:       f,
		strings: newTable(len(d.strings)), attributes: newTable(len(d.attributes)), functions: newTable(len(d.functions)),
		mappings: newTable(len(d.mappings)), locations: newTable(len(d.locations)), stacks: newTable(d.stacks.len()),
		links: newTable(len(f.b.links)),
	}
	p.size.dictionary = zeroEntries
	return p
}

func (p *plan) mark() mark {
	return mark{
		len(p.strings.ids), len(p.attributes.ids), len(p.functions.ids), len(p.mappings.ids), len(p.locations.ids),
		len(p.stacks.ids), len(p.links.ids), len(p.resources), len(p.profiles), len(p.samples), p.count, p.size,
	}
}

func (p *plan) rollback(m mark) {
	p.strings.cut(m.strings)
	p.attributes.cut(m.attributes)
	p.functions.cut(m.functions)
	p.mappings.cut(m.mappings)
	p.locations.cut(m.locations)
	p.stacks.cut(m.stacks)
	p.links.cut(m.links)
	p.resources, p.profiles, p.samples = p.resources[:m.resources], p.profiles[:m.profiles], p.samples[:m.samples]
	p.count, p.size = m.count, m.size
}

func (p *plan) reset() { p.rollback(mark{size: sizes{dictionary: zeroEntries}}) }

func (p *plan) fits() bool { return p.size.bound() <= p.f.limit }

// open makes g's resource and g the ones that samples are added to.
func (p *plan) open(g *profileGroup) {
	if n := len(p.resources); n == 0 || p.resources[n-1].group != g.resource {
		p.size.closed += p.size.resourceTotal()
		p.resources = append(p.resources, planResource{group: g.resource, profiles: len(p.profiles)})
		p.size.resource, p.size.scope, p.size.profile = g.resource.size, p.f.scopeSize, 0
		p.size.references += referenceBytes * (len(g.resource.attributes) + 1)
	}
	if n := len(p.profiles); n > p.resources[len(p.resources)-1].profiles && p.profiles[n-1].group == g {
		return
	}
	p.size.scope = p.size.scopeTotal()
	p.profiles = append(p.profiles, planProfile{group: g, samples: len(p.samples)})
	p.size.profile = p.profileSize(g)
}

func (p *plan) profileSize(g *profileGroup) int {
	t := &p.f.originTexts[g.origin]
	n := p.addValueType(t.kind, t.unit) + p.addValueType(t.periodKind, t.periodUnit) +
		sizeInt(uint64(p.f.b.origins[g.origin].Period))
	if g.time != 0 {
		n += 1 + 8
	}
	return n + sizeInt(g.duration) + sizeBytes(profileIDBytes)
}

func (p *plan) addValueType(kind, unit int32) int {
	return sizeBytes(sizeInt(uint64(p.addString(kind))) + sizeInt(uint64(p.addString(unit))))
}

// addSample adds the points [from, to) of s to the open profile.
func (p *plan) addSample(s *sample, from, to int) {
	n := sizeInt(uint64(p.addStack(s.stack))) + p.addAttributes(s.attributes) + sizeInt(uint64(p.addLink(s.link)))
	switch p.f.b.origins[s.origin].Shape {
	case ShapeSum:
		n += sizeBytes(sizeVarint(uint64(s.sum)))
		p.count += s.count
	case ShapeTimesValues:
		values := 0
		for _, point := range p.f.points[s.points+from : s.points+to] {
			values += sizeVarint(uint64(point.value))
		}
		n += sizeBytes(values) + sizeBytes(8*(to-from))
		p.count += to - from
	default:
		n += sizeBytes(8 * (to - from))
		p.count += to - from
	}
	p.samples = append(p.samples, planSample{sample: s, from: from, to: to})
	p.size.profile += sizeBytes(n)
}

func (p *plan) addString(id int32) int32 {
	index, known := p.strings.add(id)
	if !known {
		p.size.dictionary += sizeBytes(len(p.f.dict.strings[id]))
	}
	return index
}

func (p *plan) addLink(id int32) int32 {
	index, known := p.links.add(id)
	if !known {
		p.size.dictionary += sizeBytes(sizeBytes(16) + sizeBytes(8))
	}
	return index
}

// addAttributes adds the attributes of a list and returns the size of the field that refers to them.
func (p *plan) addAttributes(list int32) int {
	n := 0
	for _, id := range p.f.dict.attrLists.at(list) {
		index, known := p.attributes.add(id)
		if !known {
			a := &p.f.dict.attributes[id]
			p.size.dictionary += sizeBytes(sizeInt(uint64(p.addString(a.key))) + sizeBytes(a.value.size()))
		}
		n += sizeVarint(uint64(index))
	}
	if n == 0 {
		return 0
	}
	return sizeBytes(n)
}

func (p *plan) addStack(id int32) int32 {
	index, known := p.stacks.add(id)
	if !known {
		n := 0
		for _, l := range p.f.dict.stacks.at(id) {
			n += sizeVarint(uint64(p.addLocation(l)))
		}
		p.size.dictionary += sizeBytes(sizeBytes(n))
	}
	return index
}

func (p *plan) addLocation(id int32) int32 {
	index, known := p.locations.add(id)
	if known {
		return index
	}
	l := &p.f.dict.locations[id]
	n := sizeInt(uint64(p.addMapping(l.mapping))) + sizeInt(l.address) + p.addAttributes(l.attributes)
	for _, v := range p.f.dict.lines.at(l.lines) {
		n += sizeBytes(sizeInt(uint64(p.addFunction(v.function))) + sizeInt(uint64(v.line)) + sizeInt(uint64(v.column)))
	}
	p.size.dictionary += sizeBytes(n)
	return index
}

func (p *plan) addFunction(id int32) int32 {
	index, known := p.functions.add(id)
	if !known {
		f := &p.f.dict.functions[id]
		p.size.dictionary += sizeBytes(sizeInt(uint64(p.addString(f.name))) + sizeInt(uint64(p.addString(f.systemName))) +
			sizeInt(uint64(p.addString(f.file))) + sizeInt(uint64(f.startLine)))
	}
	return index
}

func (p *plan) addMapping(id int32) int32 {
	index, known := p.mappings.add(id)
	if !known {
		m := &p.f.dict.mappings[id]
		p.size.dictionary += sizeBytes(sizeInt(m.start) + sizeInt(m.limit) + sizeInt(m.offset) +
			sizeInt(uint64(p.addString(m.file))) + p.addAttributes(m.attributes))
	}
	return index
}
