package store

import (
	"encoding/binary"
	"iter"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// profileType is what values mean. Types that differ in the period only are one for those who look at them.
type profileType struct {
	sampleType, sampleUnit uint32
	periodType, periodUnit uint32
	period                 int64
}

type function struct {
	name, systemName, file uint32
	startLine              int64
}

type mapping struct {
	start, limit, offset uint64
	file                 uint32
	attributes           uint32
}

type line struct {
	function     uint32
	line, column int64
}

// location is an address and the lines of code there, innermost first.
type location struct {
	mapping    uint32
	attributes uint32
	address    uint64
	lines      uint32
	frames     uint32
}

// node is a location that was called from its parent. Node 0 is below the outermost location of every stack.
type node struct {
	parent, location uint32
}

// valueKind tells how a value's number and text are to be read.
type valueKind uint8

const (
	valueEmpty valueKind = iota
	valueText
	valueBool
	valueInt
	valueDouble // number has its bits
	valueBytes  // text has them
	valueOther  // a list or map; number is its index among the others
)

// value is an attribute's value. text is what people see, and filters compare with, whatever the kind.
type value struct {
	kind   valueKind
	text   uint32
	number uint64
}

type attribute struct {
	key, value, unit uint32
}

type link struct {
	trace pcommon.TraceID
	span  pcommon.SpanID
}

// resource and scope are sets of attributes with what else belongs to them.
type resource struct {
	attributes uint32
	schemaURL  uint32
}

type scope struct {
	name, version, schemaURL uint32
	attributes               uint32
}

// series is what samples have beside their stack. of are the attributes of their profile.
type series struct {
	resource, scope  uint32
	attributes, link uint32
	of               uint32
	profileType      uint32
}

// frame is what people mean by a function: one place for all its addresses and lines. Code without a name, which is 0 then,
// has the address at which its function begins, or where that is not known (part) its own.
type frame struct {
	name, systemName, file, mapping, frameType uint32
	part                                       bool
	startLine                                  int64
	address                                    uint64
}

// otherKey is what makes lists and maps the same: how they read.
type otherKey struct {
	kind pcommon.ValueType
	text uint32
}

// tables are all that rows refer to. Lists (of attributes, lines and frames) are strings of their elements' bytes, so that
// they can be compared.
type tables struct {
	strings    table[string]
	values     table[value]
	others     table[otherKey]
	otherValue []pcommon.Value // by other
	attrs      table[attribute]
	lists      table[string] // of indices into attrs, lines or frames
	types      table[profileType]
	functions  table[function]
	mappings   table[mapping]
	lines      table[line]
	locations  table[location]
	frames     table[frame]
	nodes      table[node]
	links      table[link]
	resources  table[resource]
	scopes     table[scope]
	series     table[series]
	frameTypes []uint32 // by location: string of its innermost profile.frame.type
	guessed    []bool   // by location: it was found without unwind information
	bytes      int      // of strings, lists and others
}

func newTables() *tables {
	return &tables{
		strings: newTable(""), values: newTable(value{}), others: newTable[otherKey](), attrs: newTable[attribute](), lists: newTable(""),
		types: newTable[profileType](), functions: newTable(function{}), mappings: newTable(mapping{}), lines: newTable[line](),
		locations: newTable(location{}), frames: newTable[frame](), nodes: newTable(node{}), links: newTable(link{}),
		resources: newTable[resource](), scopes: newTable[scope](), series: newTable[series](), frameTypes: []uint32{0}, guessed: []bool{false},
	}
}

// size is about the memory that the tables take.
func (t *tables) size() int {
	n := t.bytes + 4*cap(t.frameTypes) + cap(t.guessed)
	for _, c := range t.all() {
		n += c.size()
	}
	return n
}

// mark says how much there is, for rollback.
type mark struct {
	of    []int
	bytes int
}

func (t *tables) mark() mark {
	m := mark{bytes: t.bytes}
	for _, c := range t.all() {
		m.of = append(m.of, c.len())
	}
	return m
}

// rollback forgets all that came after m.
func (t *tables) rollback(m mark) {
	for i, c := range t.all() {
		c.cut(m.of[i])
	}
	t.bytes = m.bytes
	cutSlice(&t.otherValue, len(t.others.items))
	cutSlice(&t.frameTypes, len(t.locations.items))
	cutSlice(&t.guessed, len(t.locations.items))
}

func cutSlice[V any](s *[]V, n int) {
	clear((*s)[n:])
	*s = (*s)[:n]
}

// counted is a table of any kind.
type counted interface {
	len() int
	cut(n int)
	size() int
}

func (t *tables) all() [16]counted {
	return [...]counted{&t.strings, &t.values, &t.others, &t.attrs, &t.lists, &t.types, &t.functions, &t.mappings, &t.lines,
		&t.locations, &t.frames, &t.nodes, &t.links, &t.resources, &t.scopes, &t.series}
}

func (t *tables) string(s string) uint32 {
	i, isNew := t.strings.add(s)
	if isNew {
		t.bytes += len(s)
	}
	return i
}

// list keeps a list of indices.
func (t *tables) list(indices []uint32) uint32 {
	var short [256]byte
	b := short[:0]
	for _, i := range indices {
		b = binary.LittleEndian.AppendUint32(b, i)
	}
	if i, ok := t.lists.index[string(b)]; ok { // without making a string of it
		return i
	}
	i, _ := t.lists.add(string(b))
	t.bytes += len(b)
	return i
}

// indexAt is the element of a list at a byte offset.
func indexAt(list string, i int) uint32 {
	return uint32(list[i]) | uint32(list[i+1])<<8 | uint32(list[i+2])<<16 | uint32(list[i+3])<<24
}

// indices iterates over a list.
func indices(list string) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for i := 0; i+4 <= len(list); i += 4 {
			if !yield(indexAt(list, i)) {
				return
			}
		}
	}
}
