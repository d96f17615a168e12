package profile

import (
	"slices"

	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// Resolver appends the lines of a location to dst, the innermost first, and returns it; nothing if they are not known. The
// symbol may tell more of the frame's Type than was known when it was added (Rust among native code), and the Function may be
// known without a name (InFunction, Into): then it sets those.
type Resolver func(dst []unwind.Line, l *Location) []unwind.Line

// dictionary holds what a flush writes, every value once: the payloads' dictionaries are subsets of it. Id 0 of every table
// is the empty value. Ids are given in the order of the builder's tables, so the same samples give the same bytes.
type dictionary struct {
	seed uint64

	strings    []string
	stringID   map[string]int32
	attributes []attribute
	attrID     map[attribute]int32
	attrLists  lists[int32] // ascending attribute ids, each key once
	functions  []function
	functionID map[function]int32
	lines      lists[line]
	mappings   []mapping
	mappingID  map[mapping]int32
	locations  []location
	locationID map[location]int32
	stacks     lists[int32]

	keys     keys
	lineBuf  []unwind.Line
	linesBuf []line
	listBuf  []int32
}

type attribute struct {
	key   int32 // string
	value Value
}

type function struct {
	name, systemName, file int32 // strings
	startLine              int64
}

type line struct {
	function     int32
	line, column int64
}

type mapping struct {
	start, limit, offset uint64
	file                 int32 // string
	attributes           int32 // list
}

type location struct {
	mapping    int32
	address    uint64
	lines      int32 // list
	attributes int32 // list
}

// keys are the string ids of attribute keys.
type keys struct {
	frameType, guessed, function, mappingFile, threadID, threadName, stopReason int32
}

// Empty returns profiles without samples.
func Empty() pprofile.Profiles {
	p := pprofile.NewProfiles()
	d := p.Dictionary() // whose first entries stand for nothing
	d.StringTable().Append("")
	d.AttributeTable().AppendEmpty()
	d.FunctionTable().AppendEmpty()
	d.MappingTable().AppendEmpty()
	d.LocationTable().AppendEmpty()
	d.LinkTable().AppendEmpty()
	d.StackTable().AppendEmpty()
	return p
}

func newDictionary(b *Builder) *dictionary {
	d := &dictionary{
		seed:       b.seed,
		strings:    []string{""},
		stringID:   map[string]int32{"": 0},
		attributes: []attribute{{}},
		attrID:     map[attribute]int32{},
		attrLists:  newLists[int32](0),
		functions:  []function{{}},
		functionID: map[function]int32{},
		lines:      newLists[line](len(b.locations)),
		mappings:   []mapping{{}},
		mappingID:  map[mapping]int32{},
		locations:  append(make([]location, 0, len(b.locations)), location{}),
		locationID: make(map[location]int32, len(b.locations)),
		stacks:     newLists[int32](b.stacks.len()),
	}
	d.keys = keys{
		frameType: d.string(attrFrameType), guessed: d.string(AttrGuessed), function: d.string(AttrFunction),
		mappingFile: d.string(AttrMappingFile),
		threadID:    d.string(attrThreadID), threadName: d.string(attrThreadName), stopReason: d.string(AttrStopReason),
	}
	return d
}

func (d *dictionary) string(s string) int32 {
	if id, known := d.stringID[s]; known {
		return id
	}
	c := clean(s)
	id, known := d.stringID[c]
	if !known {
		id = int32(len(d.strings))
		d.strings = append(d.strings, c)
		d.stringID[c] = id
	}
	d.stringID[s] = id
	return id
}

func intern[T comparable](table *[]T, ids map[T]int32, v T) int32 {
	id, known := ids[v]
	if !known {
		id = int32(len(*table))
		*table = append(*table, v)
		ids[v] = id
	}
	return id
}

// attribute returns the id of key = v; v's string must be valid.
func (d *dictionary) attribute(key int32, v Value) int32 {
	return intern(&d.attributes, d.attrID, attribute{key: key, value: v})
}

// attrList interns a set of attributes.
func (d *dictionary) attrList(set []int32) int32 {
	slices.Sort(set)
	return d.attrLists.intern(hashInts(d.seed, set), set)
}

// addLines interns the lines of a location; 0 if there are none worth writing.
func (d *dictionary) addLines(lines []unwind.Line) int32 {
	buf := d.linesBuf[:0]
	hash := d.seed
	for i := range lines {
		l := &lines[i]
		f := function{
			name: d.string(l.Function.Name), systemName: d.string(l.Function.SystemName),
			file: d.string(l.Function.File), startLine: natural(l.Function.StartLine),
		}
		if f.name == 0 && f.systemName == 0 && f.file == 0 {
			continue // a function without any string says nothing and is forbidden
		}
		v := line{
			function: intern(&d.functions, d.functionID, f),
			line:     natural(l.Line), column: natural(l.Column),
		}
		buf = append(buf, v)
		hash = mix(hash^uint64(v.function), mixA)
		hash = mix(hash^uint64(v.line), mixA)
		hash = mix(hash^uint64(v.column), mixA)
	}
	d.linesBuf = buf
	return d.lines.intern(hash, buf)
}

func natural(n int) int64 { return int64(max(n, 0)) }

// symbolized says how far the locations of a mapping were.
type symbolized struct {
	functions, files, lines, inlines bool
}

// add takes one location's lines into account. pprof's has_functions and its like tell readers that there is nothing left
// to symbolize, so all locations must have them.
func (s *symbolized) add(d *dictionary, lines int32) {
	list := d.lines.at(lines)
	if len(list) == 0 {
		*s = symbolized{inlines: s.inlines}
		return
	}
	s.inlines = s.inlines || len(list) > 1
	for _, l := range list {
		f := d.functions[l.function]
		s.functions = s.functions && (f.name != 0 || f.systemName != 0)
		s.files = s.files && f.file != 0
		s.lines = s.lines && l.line != 0
	}
}

// addLocations makes the dictionary's locations of the builder's; it returns their ids by the builder's ids.
func (d *dictionary) addLocations(locations []Location, resolve Resolver) []int32 {
	lines := make([]int32, len(locations))
	owners := make([]Mapping, 1) // distinct by value; [0] is none
	ownerID := map[Mapping]int32{}
	byPointer := map[*Mapping]int32{}
	owner := make([]int32, len(locations))
	state := []symbolized{{}}
	for i := 1; i < len(locations); i++ {
		l := &locations[i]
		if l.Symbol != nil {
			lines[i] = d.addLines(l.Symbol.Lines)
		} else if resolve != nil {
			d.lineBuf = resolve(d.lineBuf[:0], l)
			lines[i] = d.addLines(d.lineBuf)
		}
		if !inMapping(l) {
			continue
		}
		id, known := byPointer[l.Mapping]
		if !known {
			id = intern(&owners, ownerID, l.Mapping.canonical())
			byPointer[l.Mapping] = id
			if int(id) == len(state) {
				state = append(state, symbolized{functions: true, files: true, lines: true})
			}
		}
		owner[i] = id
		state[id].add(d, lines[i])
	}
	mappings := make([]int32, len(owners))
	for i := 1; i < len(owners); i++ {
		mappings[i] = d.addMapping(&owners[i], state[i])
	}
	ids := make([]int32, len(locations))
	for i := 1; i < len(locations); i++ {
		ids[i] = d.addLocation(&locations[i], mappings[owner[i]], lines[i])
	}
	return ids
}

// inMapping tells whether the location can be written with its mapping.
func inMapping(l *Location) bool {
	m := l.Mapping
	if m == nil || m.BuildIDGNU == "" && m.BuildIDGo == "" && m.HTLHash == "" {
		return false
	}
	if m.Start >= m.Limit {
		return true // no range to be outside of
	}
	return l.Address >= uint64(m.Start) && l.Address <= uint64(m.Limit)
}

// canonical returns the mapping as it is compared in the dictionary.
func (m *Mapping) canonical() Mapping {
	c := *m
	if c.Start >= c.Limit {
		c.Start, c.Limit = 0, 0 // an empty range is forbidden
	}
	c.File, c.BuildIDGNU, c.BuildIDGo, c.HTLHash = clean(m.File), clean(m.BuildIDGNU), clean(m.BuildIDGo), clean(m.HTLHash)
	return c
}

func (d *dictionary) addMapping(m *Mapping, s symbolized) int32 {
	set := d.listBuf[:0]
	for _, a := range []struct{ key, value string }{
		{attrBuildIDGNU, m.BuildIDGNU}, {attrBuildIDGo, m.BuildIDGo}, {attrHTLHash, m.HTLHash},
	} {
		if a.value != "" {
			set = append(set, d.attribute(d.string(a.key), String(a.value)))
		}
	}
	for _, a := range []struct {
		key string
		has bool
	}{
		{attrHasFunctions, s.functions}, {attrHasFilenames, s.files}, {attrHasLines, s.lines},
		{attrHasInlines, s.functions && s.inlines},
	} {
		if a.has {
			set = append(set, d.attribute(d.string(a.key), Bool(true)))
		}
	}
	d.listBuf = set
	return intern(&d.mappings, d.mappingID, mapping{
		start: uint64(m.Start), limit: uint64(m.Limit), offset: uint64(m.Offset),
		file: d.string(m.File), attributes: d.attrList(set),
	})
}

func (d *dictionary) addLocation(l *Location, mapping, lines int32) int32 {
	kind := l.Type
	if kind == "" {
		kind = FrameNative
	}
	set := append(d.listBuf[:0], d.attribute(d.keys.frameType, String(clean(string(kind)))))
	if l.Guessed {
		set = append(set, d.attribute(d.keys.guessed, Bool(true)))
	}
	if lines == 0 && l.InFunction {
		set = append(set, d.attribute(d.keys.function, Int(int64(l.Address-uint64(l.Into)))))
	}
	if mapping == 0 && l.Mapping != nil && l.Mapping.File != "" {
		set = append(set, d.attribute(d.keys.mappingFile, String(clean(l.Mapping.File))))
	}
	d.listBuf = set
	return intern(&d.locations, d.locationID, location{
		mapping: mapping, address: l.Address, lines: lines, attributes: d.attrList(set),
	})
}

// addStacks makes the dictionary's stacks of the builder's; it returns their ids by the builder's ids.
func (d *dictionary) addStacks(b *Builder, locations []int32) []int32 {
	ids := make([]int32, b.stacks.len())
	for i := 1; i < len(ids); i++ {
		stack := d.listBuf[:0]
		for _, l := range b.stacks.at(int32(i)) {
			stack = append(stack, locations[l])
		}
		d.listBuf = stack
		ids[i] = d.stacks.intern(hashInts(d.seed, stack), stack)
	}
	return ids
}

// addSampleAttributes makes the attribute list of a distinct sample.
func (d *dictionary) addSampleAttributes(b *Builder, k key) int32 {
	set := d.listBuf[:0]
	put := func(id int32) {
		for _, other := range set {
			if d.attributes[other].key == d.attributes[id].key {
				return
			}
		}
		set = append(set, id)
	}
	if k.thread != 0 {
		put(d.attribute(d.keys.threadName, String(b.texts[k.thread])))
	}
	if b.opt.ThreadIDs {
		put(d.attribute(d.keys.threadID, Int(int64(k.tid))))
	}
	if k.stop != 0 {
		put(d.attribute(d.keys.stopReason, String(b.texts[k.stop])))
	}
	for _, a := range b.attributes.at(k.attributes) {
		a.Value.str = clean(a.Value.str)
		if key := d.string(a.Key); key != 0 {
			put(d.attribute(key, a.Value))
		}
	}
	d.listBuf = set
	return d.attrList(set)
}
