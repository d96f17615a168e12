package store

import (
	"slices"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// Snapshot is what the store held at one moment. It needs no lock and stays as it is.
type Snapshot struct {
	Serial uint64 // differs from that of every other content

	strings    []string
	values     []value
	others     []pcommon.Value
	attrs      []attribute
	lists      []string
	types      []profileType
	functions  []function
	mappings   []mapping
	lines      []line
	locations  []location
	frames     []frame
	nodes      []node
	links      []link
	resources  []resource
	scopes     []scope
	series     []series
	frameTypes []uint32
	guessed    []bool
	segments   []segment
	window     Window
}

// Window says what is held.
type Window struct {
	From, To int64 // Unix ms: of the earliest sample, and after the latest; 0 without any
	Length   time.Duration
	Bytes    int // about what is taken
	Budget   int // of that; the rest of the memory is for answers
	Samples  int
	// DroppedUntil, Unix ms: samples before it may have been dropped since memory was short. 0: none were.
	DroppedUntil int64
}

// Stacks counts the different stacks that samples have.
func (s *Snapshot) Stacks() int {
	seen, n := make([]bool, len(s.nodes)), 0
	for _, g := range s.segments {
		for _, at := range g.node {
			if !seen[at] {
				seen[at] = true
				n++
			}
		}
	}
	return n
}

// Window says what the store held.
func (s *Snapshot) Window() Window { return s.window }

// Snapshot returns what is held now.
func (s *Store) Snapshot(now time.Time) *Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.evict(now)
	t := s.t
	out := &Snapshot{
		Serial: s.serial, strings: t.strings.items, values: t.values.items, others: t.otherValue, attrs: t.attrs.items, lists: t.lists.items,
		types: t.types.items, functions: t.functions.items, mappings: t.mappings.items, lines: t.lines.items,
		locations: t.locations.items, frames: t.frames.items, nodes: t.nodes.items, links: t.links.items,
		resources: t.resources.items, scopes: t.scopes.items, series: t.series.items, frameTypes: t.frameTypes, guessed: t.guessed,
		segments: make([]segment, len(s.segments)),
		window: Window{
			Length: s.options.Window, Bytes: s.size(), Budget: s.held(), Samples: s.rows,
			DroppedUntil: ceilMillis(s.droppedUntil),
		},
	}
	for i, g := range s.segments {
		out.segments[i] = *g
		if i == 0 || g.from/1000 < out.window.From {
			out.window.From = g.from / 1000
		}
		out.window.To = max(out.window.To, ceilMillis(g.to))
	}
	return out
}

func ceilMillis(micros int64) int64 { return (micros + 999) / 1000 }

// Bounds are the times of a selection, Unix ms: what the window has of its range.
func (s *Snapshot) Bounds(sel Selection) (from, to int64) {
	from, to = max(sel.From, s.window.From), s.window.To
	if sel.To != 0 {
		to = min(sel.To, to)
	}
	return from, max(from, to)
}

// attribute is one of a series' attributes: the sample's, else the profile's, the scope's, or the resource's.
func (s *Snapshot) attribute(of *series, key string) (value, bool) {
	for _, list := range [...]uint32{of.attributes, of.of, s.scopes[of.scope].attributes, s.resources[of.resource].attributes} {
		for i := range indices(s.lists[list]) {
			if a := s.attrs[i]; s.strings[a.key] == key {
				return s.values[a.value], true
			}
		}
	}
	return value{}, false
}

// keys calls fn with every attribute of a series, once a key.
func (s *Snapshot) keys(of *series, fn func(key, text uint32)) {
	var few [64]uint32 // most have no more
	seen, many := few[:0], map[uint32]bool(nil)
	for _, list := range [...]uint32{of.attributes, of.of, s.scopes[of.scope].attributes, s.resources[of.resource].attributes} {
		for i := range indices(s.lists[list]) {
			a := s.attrs[i]
			if many[a.key] || slices.Contains(seen, a.key) {
				continue
			}
			if len(seen) < cap(seen) {
				seen = append(seen, a.key)
			} else {
				if many == nil {
					many = map[uint32]bool{}
				}
				many[a.key] = true
			}
			fn(a.key, s.values[a.value].text)
		}
	}
}
