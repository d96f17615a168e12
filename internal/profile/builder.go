package profile

import (
	"hash/maphash"
	"math"
	"strings"
	"unsafe"
)

// DefaultPayloadBytes bounds a payload unless Options say otherwise: many gRPC servers refuse messages above 4 MiB.
const DefaultPayloadBytes = 4_000_000

// Options configure a Builder.
type Options struct {
	// PayloadBytes bounds each payload of Flush, marshalled and before compression; 0 means DefaultPayloadBytes.
	PayloadBytes int
	// ThreadIDs puts thread.id on samples, which makes more of them distinct.
	ThreadIDs bool
	// Version is the instrumentation scope's version.
	Version string
	// IDSeed goes into profile ids; a value of the host's own (its boot id) keeps them apart from other hosts' ids.
	IDSeed string
}

// Builder aggregates samples until Flush writes them out. It is used by one goroutine at a time.
type Builder struct {
	opt   Options
	seed  uint64
	mseed maphash.Seed

	origins    []Origin
	resources  []*Resource
	resourceID map[*Resource]int32

	locations  []Location // [0] is unused
	locationID map[Location]int32
	stacks     lists[int32] // of location ids

	texts      []string // thread names and stop reasons, made valid; [0] is empty
	textID     map[string]int32
	attributes lists[Attribute]
	links      []Link // [0] is none
	linkID     map[Link]int32

	entries []entry
	entryID map[key]int32

	events [][]event // chunks; all but the last are full
	spare  [][]event // chunks of flushes before

	lastOrigin, lastResource int32
	samples                  int
	textBytes                int
}

// key is what makes samples distinct, as indices into the builder's tables.
type key struct {
	resource, origin, stack, thread, tid, stop, attributes, link int32
}

// entry is a distinct sample.
type entry struct {
	key
	count uint32 // events
	sum   int64  // of values, for ShapeSum
	first uint64 // the earliest event, Unix time in ns
	last  uint64
}

// event is one event of an entry whose times are kept.
type event struct {
	time  uint64
	value int64
	entry int32
}

// chunkEvents is the number of events that are allocated together: 96 KiB.
const chunkEvents = 4096

// maxTable bounds the tables so that their indices fit OTLP's int32.
const maxTable = math.MaxInt32 / 2

// maxTime is the last instant that OTLP's consumers can represent, less the ns by which a profile ends later: they keep
// Unix times in ns as int64.
const maxTime = math.MaxInt64 - 1

// New makes an empty Builder.
func New(opts Options) *Builder {
	if opts.PayloadBytes <= 0 {
		opts.PayloadBytes = DefaultPayloadBytes
	}
	b := &Builder{opt: opts, seed: newSeed(), mseed: maphash.MakeSeed()}
	b.reset()
	return b
}

// reset forgets everything; new tables are made as large as the old ones were full, so they shrink with the load.
func (b *Builder) reset() {
	b.origins, b.lastOrigin = b.origins[:0], 0
	b.resourceID = make(map[*Resource]int32, len(b.resources))
	clear(b.resources)
	b.resources, b.lastResource = b.resources[:0], 0
	b.locationID = make(map[Location]int32, len(b.locations))
	b.locations = append(make([]Location, 0, len(b.locations)+1), Location{})
	b.stacks = newLists[int32](b.stacks.len())
	b.texts, b.textID = []string{""}, map[string]int32{"": 0}
	b.attributes = newLists[Attribute](b.attributes.len())
	b.links, b.linkID = []Link{{}}, map[Link]int32{}
	b.entryID = make(map[key]int32, len(b.entries))
	b.entries = make([]entry, 0, len(b.entries))
	b.spare = append(b.spare[:0], b.events...)
	b.events = nil
	b.samples, b.textBytes = 0, 0
}

// Samples is the number of samples added since the last Flush.
func (b *Builder) Samples() int { return b.samples }

// Bytes estimates the memory that the builder holds. It grows with distinct stacks and with samples; a caller with a budget
// flushes early. It does not count what Resources, Mappings and Symbols point to, nor what Flush needs while it runs, which
// is about as much again.
func (b *Builder) Bytes() int {
	const (
		mapSlot  = 2 // a Go map is between 7/16 and 7/8 full
		location = int(unsafe.Sizeof(Location{}))*(1+mapSlot) + 4*mapSlot
		stack    = int(unsafe.Sizeof(span{})) + 12*mapSlot
		sample   = int(unsafe.Sizeof(entry{})) + int(unsafe.Sizeof(key{})+4)*mapSlot
		chunk    = chunkEvents * int(unsafe.Sizeof(event{}))
		attr     = int(unsafe.Sizeof(Attribute{}))
	)
	return len(b.locations)*location + b.stacks.len()*stack + 4*len(b.stacks.elems) + len(b.entries)*sample +
		(len(b.events)+len(b.spare))*chunk + b.attributes.len()*stack + len(b.attributes.elems)*attr +
		len(b.links)*24*(1+mapSlot) + len(b.texts)*16*(1+2*mapSlot) + b.textBytes + len(b.resources)*8*(1+mapSlot)
}

// Add counts one event. It does not allocate when the sample's stack, thread and attributes are known already, other than
// a block for every few thousand samples. It is false, and the sample is not counted, only if the sample has no Resource
// or a table is full (at 2^30 entries, far beyond any sensible budget).
func (b *Builder) Add(o Origin, s *Sample) bool {
	if s.Resource == nil || len(b.locations)+len(s.Stack) > maxTable || len(b.entries) >= maxTable || b.samples >= maxTable {
		return false
	}
	k := key{
		resource:   b.resource(s.Resource),
		origin:     b.origin(o),
		stack:      b.stack(s.Stack),
		thread:     b.text(s.ThreadName),
		stop:       b.text(s.StopReason),
		attributes: b.attribute(s.Attributes),
		link:       b.link(s.Link),
	}
	if b.opt.ThreadIDs {
		k.tid = int32(s.ThreadID)
	}
	t := min(s.Time, maxTime)
	id, known := b.entryID[k]
	if !known {
		id = int32(len(b.entries))
		b.entries = append(b.entries, entry{key: k, first: t, last: t})
		b.entryID[k] = id
	}
	e := &b.entries[id]
	e.count++
	e.first, e.last = min(e.first, t), max(e.last, t)
	if o.Shape == ShapeSum {
		e.sum = addSaturated(e.sum, s.Value)
	} else {
		b.event(event{time: t, value: s.Value, entry: id})
	}
	b.samples++
	return true
}

// addSaturated adds without wrapping: a sum that overflows must not become a small or negative one.
func addSaturated(a, b int64) int64 {
	s := a + b
	switch {
	case b > 0 && s < a:
		return math.MaxInt64
	case b < 0 && s > a:
		return math.MinInt64
	}
	return s
}

func (b *Builder) event(e event) {
	n := len(b.events)
	if n == 0 || len(b.events[n-1]) == chunkEvents {
		var chunk []event
		if s := len(b.spare); s > 0 {
			chunk, b.spare = b.spare[s-1][:0], b.spare[:s-1]
		} else {
			chunk = make([]event, 0, chunkEvents)
		}
		b.events = append(b.events, chunk)
		n++
	}
	b.events[n-1] = append(b.events[n-1], e)
}

func (b *Builder) origin(o Origin) int32 {
	if i := int(b.lastOrigin); i < len(b.origins) && b.origins[i] == o {
		return b.lastOrigin
	}
	for i := range b.origins { // a handful
		if b.origins[i] == o {
			b.lastOrigin = int32(i)
			return b.lastOrigin
		}
	}
	b.origins = append(b.origins, o)
	b.lastOrigin = int32(len(b.origins) - 1)
	return b.lastOrigin
}

func (b *Builder) resource(r *Resource) int32 {
	if i := int(b.lastResource); i < len(b.resources) && b.resources[i] == r {
		return b.lastResource
	}
	id, known := b.resourceID[r]
	if !known {
		id = int32(len(b.resources))
		b.resources = append(b.resources, r)
		b.resourceID[r] = id
	}
	b.lastResource = id
	return id
}

func (b *Builder) stack(stack []Location) int32 {
	if len(stack) == 0 {
		return 0
	}
	hash := hashStack(b.seed, stack)
search:
	for id := b.stacks.heads[hash]; id != 0; id = b.stacks.spans[id].next {
		known := b.stacks.at(id)
		if len(known) != len(stack) {
			continue
		}
		for i, l := range known {
			if b.locations[l] != stack[i] {
				continue search
			}
		}
		return id
	}
	start := len(b.stacks.elems)
	for i := range stack {
		b.stacks.elems = append(b.stacks.elems, b.location(&stack[i]))
	}
	return b.stacks.seal(hash, start)
}

func (b *Builder) location(l *Location) int32 {
	id, known := b.locationID[*l]
	if !known {
		id = int32(len(b.locations))
		b.locations = append(b.locations, *l)
		b.locationID[*l] = id
	}
	return id
}

// text interns by what the text will be in the payload, so that two names that become equal make one sample.
func (b *Builder) text(s string) int32 {
	if s == "" {
		return 0
	}
	if id, known := b.textID[s]; known {
		return id
	}
	c := clean(s)
	id, known := b.textID[c]
	if !known {
		c = strings.Clone(c) // s may be part of something large
		id = int32(len(b.texts))
		b.texts = append(b.texts, c)
		b.textID[c] = id
		b.textBytes += len(c)
	}
	if c != s {
		b.textID[strings.Clone(s)] = id
		b.textBytes += len(s)
	}
	return id
}

func (b *Builder) attribute(list []Attribute) int32 {
	if len(list) == 0 {
		return 0
	}
	before := b.attributes.len()
	id := b.attributes.intern(b.hashAttributes(list), list)
	if b.attributes.len() > before {
		for i := range list {
			b.textBytes += len(list[i].Key) + len(list[i].Value.str)
		}
	}
	return id
}

func (b *Builder) hashAttributes(list []Attribute) uint64 {
	hash := b.seed
	for i := range list {
		hash = mix(hash^maphash.Comparable(b.mseed, list[i]), mixA)
	}
	return hash
}

func (b *Builder) link(l Link) int32 {
	if !l.valid() {
		return 0
	}
	id, known := b.linkID[l]
	if !known {
		id = int32(len(b.links))
		b.links = append(b.links, l)
		b.linkID[l] = id
	}
	return id
}
