package profile

import (
	"cmp"
	"slices"
	"time"

	"go.opentelemetry.io/collector/pdata/pprofile"
)

// Payload is one pprofile.Profiles, complete with its dictionary. It is mutable and owned by its receiver: processors
// change it in place. Marshalling a mutable Profiles rewrites its resource attributes, so who wants to look at it after
// marshalling calls MarkReadOnly first.
type Payload struct {
	Profiles pprofile.Profiles
	// Samples is the number of events in it, as counted by Add.
	Samples int
	Bytes   int // marshalled
}

// flush is the state of one Flush.
type flush struct {
	b         *Builder
	dict      *dictionary
	limit     int
	scopeSize int
	from, to  uint64

	originTexts        []originTexts // by origin
	resourceAttributes [][]Attribute // by the builder's resource

	points  []point
	samples []sample // distinct, in groups
	groups  []*resourceGroup

	// measure says how large a payload is; tests replace it.
	measure func(pprofile.Profiles) int
}

// resourceGroup is what a flush has of one process.
type resourceGroup struct {
	resource   *Resource
	number     int // in this flush
	attributes []Attribute
	size       int // of ResourceProfiles without its ScopeProfiles
	profiles   []*profileGroup
}

// profileGroup is what a flush has of one process and origin.
type profileGroup struct {
	resource       *resourceGroup
	origin         int32
	samples        []sample
	time, duration uint64 // ns
}

// sample is a distinct sample as it is written.
type sample struct {
	resource, origin        int32
	stack, attributes, link int32 // in the dictionary
	points, count           int   // the first point, and the number of events
	sum                     int64
	first, last             uint64
}

// originTexts are the strings of an origin's types, as ids in the dictionary.
type originTexts struct {
	kind, unit, periodKind, periodUnit int32
}

// point is an event of a sample.
type point struct {
	time  uint64
	value int64
}

// Flush writes everything that was added as payloads of at most Options.PayloadBytes, and empties the builder. resolve may
// be nil; it is called once for each location without a Symbol. Profiles span [from, to), widened where their samples lie
// outside of it.
//
// lost counts the samples that no payload can hold because a single one of them, with its stack, is too large: the samples
// of the payloads and lost add up to what Add counted.
func (b *Builder) Flush(resolve Resolver, from, to time.Time) (payloads []Payload, lost int) {
	defer b.reset()
	if b.samples == 0 {
		return nil, 0
	}
	return b.newFlush(resolve, from, to).run()
}

func (b *Builder) newFlush(resolve Resolver, from, to time.Time) *flush {
	f := &flush{
		b: b, dict: newDictionary(b), limit: b.opt.PayloadBytes, measure: (&pprofile.ProtoMarshaler{}).ProfilesSize,
		from: unixNano(from), to: unixNano(to),
		scopeSize: sizeBytes(sizeString(len(ScopeName))+sizeString(len(clean(b.opt.Version)))) + sizeString(len(SchemaURL)),
	}
	f.collect(resolve)
	return f
}

func (f *flush) run() ([]Payload, int) {
	for {
		payloads, lost, over := f.split()
		if !over {
			return payloads, lost
		}
		// The sizes are exact for the pdata that this was written for. Should another one encode differently, leave it
		// more room; at the worst there is room for nothing, and all is lost and counted.
		f.limit -= f.limit/4 + 1
	}
}

// unixNano is 0 for times that OTLP cannot say.
func unixNano(t time.Time) uint64 {
	if t.Before(time.Unix(0, 0)) || t.After(time.Unix(0, maxTime)) {
		return 0
	}
	return uint64(t.UnixNano())
}

// collect makes the dictionary, the points and the groups.
func (f *flush) collect(resolve Resolver) {
	b := f.b
	for _, o := range b.origins {
		f.originTexts = append(f.originTexts, originTexts{
			f.dict.string(o.Type), f.dict.string(o.Unit), f.dict.string(o.PeriodType), f.dict.string(o.PeriodUnit),
		})
	}
	stacks := f.dict.addStacks(b, f.dict.addLocations(b.locations, resolve))
	resources := f.addResources()

	// Different entries can turn out equal: their resources and locations had other pointers, their attributes another
	// order.
	type identity struct{ resource, origin, stack, attributes, link int32 }
	ids := make(map[identity]int32, len(b.entries))
	sampleOf := make([]int32, len(b.entries))
	for i := range b.entries {
		e := &b.entries[i]
		id := identity{resources[e.resource], e.origin, stacks[e.stack], f.dict.addSampleAttributes(b, e.key), e.link}
		n, known := ids[id]
		if !known {
			n = int32(len(f.samples))
			ids[id] = n
			f.samples = append(f.samples, sample{
				resource: id.resource, origin: id.origin, stack: id.stack, attributes: id.attributes, link: id.link,
				first: e.first, last: e.last,
			})
		}
		s := &f.samples[n]
		s.count += int(e.count)
		s.sum = addSaturated(s.sum, e.sum)
		s.first, s.last = min(s.first, e.first), max(s.last, e.last)
		sampleOf[i] = n
	}
	f.collectPoints(sampleOf)
	f.group()
}

// addResources returns, for each of the builder's resources, the first one with the same attributes: a process that
// executes its own program again is a new incarnation, but looks the same. (Many an interpreter does that at its start.)
func (f *flush) addResources() []int32 {
	same := make([]int32, len(f.b.resources))
	f.resourceAttributes = make([][]Attribute, len(same))
	byHash := make(map[uint64][]int32, len(same))
	for i, r := range f.b.resources {
		attributes := appendResource(nil, r)
		hash := f.b.hashAttributes(attributes)
		same[i] = int32(i)
		f.resourceAttributes[i] = attributes
		for _, other := range byHash[hash] {
			if slices.Equal(f.resourceAttributes[other], attributes) {
				same[i] = other
				break
			}
		}
		if same[i] == int32(i) {
			byHash[hash] = append(byHash[hash], int32(i))
		}
	}
	return same
}

// collectPoints sorts the events by sample and time.
func (f *flush) collectPoints(sampleOf []int32) {
	next := make([]int, len(f.samples))
	total := 0
	for i := range f.samples {
		s := &f.samples[i]
		s.points, next[i] = total, total
		if f.b.origins[s.origin].Shape != ShapeSum {
			total += s.count
		}
	}
	f.points = make([]point, total)
	for _, chunk := range f.b.events {
		for _, e := range chunk {
			n := sampleOf[e.entry]
			f.points[next[n]] = point{e.time, e.value}
			next[n]++
		}
	}
	order := func(a, b point) int {
		if a.time != b.time {
			return cmp.Compare(a.time, b.time)
		}
		return cmp.Compare(a.value, b.value)
	}
	for i := range f.samples {
		points := f.points[f.samples[i].points:next[i]]
		if !slices.IsSortedFunc(points, order) {
			slices.SortFunc(points, order)
		}
	}
}

// group sorts the samples by resource, in the order in which they came, and by origin.
func (f *flush) group() {
	rank := make([]int, len(f.b.origins)) // on-CPU first: it is what viewers show by default
	for i, o := range f.b.origins {
		rank[i] = i
		if !o.onCPU() {
			rank[i] += len(f.b.origins)
		}
	}
	slices.SortStableFunc(f.samples, func(a, b sample) int {
		if a.resource != b.resource {
			return cmp.Compare(a.resource, b.resource)
		}
		return cmp.Compare(rank[a.origin], rank[b.origin])
	})
	var rg *resourceGroup
	for start := 0; start < len(f.samples); {
		s := &f.samples[start]
		end := start + 1
		for end < len(f.samples) && f.samples[end].resource == s.resource && f.samples[end].origin == s.origin {
			end++
		}
		if r := f.b.resources[s.resource]; rg == nil || rg.resource != r {
			rg = &resourceGroup{resource: r, number: len(f.groups), attributes: f.resourceAttributes[s.resource]}
			rg.size = resourceSize(rg.attributes)
			f.groups = append(f.groups, rg)
		}
		g := &profileGroup{resource: rg, origin: s.origin, samples: f.samples[start:end:end]}
		f.window(g)
		rg.profiles = append(rg.profiles, g)
		start = end
	}
}

// window makes every time of the group lie in [time, time + duration).
func (f *flush) window(g *profileGroup) {
	first, last := g.samples[0].first, g.samples[0].last
	for i := range g.samples {
		first, last = min(first, g.samples[i].first), max(last, g.samples[i].last)
	}
	if f.from != 0 {
		first = min(first, f.from)
	}
	g.time, g.duration = first, max(last+1, f.to)-first
}

func resourceSize(attributes []Attribute) int {
	n := 0
	for _, a := range attributes {
		n += sizeBytes(sizeString(len(a.Key)) + sizeBytes(a.Value.size()))
	}
	return sizeBytes(n) + sizeString(len(SchemaURL))
}

// split fills payloads: whole processes as long as they fit, then the samples of a process that does not fit into any,
// then the points of such a sample. over says that a payload turned out larger than the limit of the builder.
func (f *flush) split() (payloads []Payload, lost int, over bool) {
	p := newPlan(f)
	emit := func() {
		out := f.emit(p, len(payloads))
		out.Bytes = f.measure(out.Profiles)
		if out.Bytes+p.size.references > f.b.opt.PayloadBytes {
			over = true
		}
		payloads = append(payloads, out)
		p.reset()
	}
	for _, r := range f.groups {
		if p.addResource(r) {
			continue
		}
		if len(p.samples) > 0 {
			if emit(); over {
				return nil, 0, true
			}
			if p.addResource(r) {
				continue
			}
		}
		for _, g := range r.profiles {
			for i := range g.samples {
				lost += p.addParts(g, &g.samples[i], emit)
				if over {
					return nil, 0, true
				}
			}
		}
	}
	if len(p.samples) > 0 {
		emit()
	}
	if over {
		return nil, 0, true
	}
	return payloads, lost, false
}

// addResource adds all of a process; if it does not fit, nothing.
func (p *plan) addResource(r *resourceGroup) bool {
	m := p.mark()
	for _, g := range r.profiles {
		p.open(g)
		for i := range g.samples {
			s := &g.samples[i]
			p.addSample(s, 0, p.f.pointsOf(s))
			if !p.fits() {
				p.rollback(m)
				return false
			}
		}
	}
	return true
}

// addParts adds a sample, calling emit for each payload that is full; it returns how many events could not be added.
func (p *plan) addParts(g *profileGroup, s *sample, emit func()) (lost int) {
	end := p.f.pointsOf(s)
	for from := 0; ; {
		if p.addPart(g, s, from, end) {
			return 0
		}
		if len(p.samples) > 0 {
			emit()
			continue
		}
		// How many points fit into a payload of their own.
		lo, hi := 0, end-from-1
		for lo < hi {
			mid := (lo + hi + 1) / 2
			if p.addPart(g, s, from, from+mid) {
				lo = mid
				p.reset()
			} else {
				hi = mid - 1
			}
		}
		if lo == 0 {
			if end == 0 {
				return s.count // a sum
			}
			return end - from
		}
		p.addPart(g, s, from, from+lo)
		from += lo
		emit()
	}
}

func (p *plan) addPart(g *profileGroup, s *sample, from, to int) bool {
	m := p.mark()
	p.open(g)
	p.addSample(s, from, to)
	if p.fits() {
		return true
	}
	p.rollback(m)
	return false
}

// pointsOf is the number of points of a sample.
func (f *flush) pointsOf(s *sample) int {
	if f.b.origins[s.origin].Shape == ShapeSum {
		return 0
	}
	return s.count
}
