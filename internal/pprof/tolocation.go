package pprof

import (
	"slices"
	"strings"

	"github.com/google/pprof/profile"
	"go.opentelemetry.io/collector/pdata/pcommon"

	ownprofile "github.com/hostprofiles/hostprofiles/internal/profile"
)

func sorted(list []int32) []int32 {
	slices.Sort(list)
	return list
}

// wireMapping is a mapping in the mapping table, comparable.
type wireMapping struct {
	start, limit, offset uint64
	file                 int32 // text
	set                  int32 // of attributes
}

// pprofMapping is what a pprof mapping becomes.
type pprofMapping struct {
	*profile.Mapping
	carried []attribute // of its carriers
	hasID   bool        // OTLP allows it at all
	used    bool        // by a location of a sample inside of its range
	lines   bool        // such a location has one
	index   int32       // in the mapping table, 0 if no location has it
}

// locate makes the mapping and location tables of what the samples refer to, in pprof's order.
func (e *encoder) locate() {
	e.byID = newIDs(len(e.p.Location))
	for i, l := range e.p.Location {
		e.byID.put(l.ID, i)
	}
	needed := make([]bool, len(e.p.Location))
	for _, s := range e.p.Sample {
		for _, l := range s.Location {
			if i, ok := e.byID.find(l.ID); ok {
				needed[i] = true
			}
		}
	}
	carried := e.locationCarriers(needed)
	mappings := e.mappings(needed)
	e.location = make([]int32, len(e.p.Location))
	for i, l := range e.p.Location {
		if needed[i] {
			e.location[i] = e.addLocation(l, mappings[l.Mapping], carried[i])
		}
	}
}

// locationCarriers reads the attributes that locations carry, see output.carryLocation: by place in the table.
func (e *encoder) locationCarriers(needed []bool) map[int][]attribute {
	carried := map[int][]attribute{}
	last := -1
	for i, l := range e.p.Location {
		if needed[i] {
			last = i
			continue
		}
		if last < 0 || l.Mapping != nil || l.Address != e.p.Location[last].Address {
			continue
		}
		for _, n := range l.Line {
			if n.Function.Name == carrier {
				if a, ok := carriedAttribute(n.Function.SystemName, n.Function.Filename); ok {
					carried[last] = append(carried[last], a)
				}
			}
		}
	}
	return carried
}

// carriedAttribute is the inverse of dictionary.carry.
func carriedAttribute(key, value string) (a attribute, ok bool) {
	a.value = pcommon.NewValueStr(value)
	key, isJSON := strings.CutSuffix(key, suffixJSON)
	if isJSON {
		var err error
		if a.value, a.unit, err = parseValue(value); err != nil {
			return a, false
		}
	}
	a.key = key
	return a, key != "" && len(key) <= maxKey && checkText(key) == nil && checkText(value) == nil
}

// mappings makes the mapping table.
func (e *encoder) mappings(needed []bool) map[*profile.Mapping]*pprofMapping {
	known := make(map[*profile.Mapping]*pprofMapping, len(e.p.Mapping)+1)
	for i, l := range e.p.Location {
		if needed[i] && l.Mapping != nil && known[l.Mapping] == nil && saysAnything(l.Mapping) {
			known[l.Mapping] = &pprofMapping{Mapping: l.Mapping}
		}
	}
	var last *pprofMapping
	for _, m := range e.p.Mapping {
		if k := known[m]; k != nil {
			last = k
			continue
		}
		key, ok := strings.CutPrefix(m.File, carrier+" ")
		if !ok || last == nil || m.Start != last.Start || m.Limit != last.Limit || m.Offset != last.Offset {
			continue
		}
		if a, ok := carriedAttribute(key, m.BuildID); ok {
			last.carried = append(last.carried, a)
		}
	}
	for _, m := range known {
		m.hasID = m.hasBuildID() && (m.Start < m.Limit || m.Start == 0 && m.Limit == 0)
	}
	for i, l := range e.p.Location {
		if m := known[l.Mapping]; needed[i] && m != nil && m.holds(l.Address) {
			m.used = true
			m.lines = m.lines || slices.ContainsFunc(l.Line, func(n profile.Line) bool { return hasName(n.Function) })
		}
	}
	for _, m := range e.p.Mapping {
		if k := known[m]; k != nil && k.used {
			e.addMapping(k)
			e.sayMain = true
		}
	}
	for i, l := range e.p.Location {
		if needed[i] && known[l.Mapping] != nil {
			e.sayMain = e.sayMain || l.Mapping != e.p.Mapping[0]
			break
		}
	}
	return known
}

func saysAnything(m *profile.Mapping) bool {
	return m.Start != 0 || m.Limit != 0 || m.Offset != 0 || m.File != "" || m.BuildID != "" || m.HasFunctions || m.HasFilenames ||
		m.HasLineNumbers || m.HasInlineFrames
}

// hasBuildID tells whether all that pprof says of the build is a build id of OTLP, and is there.
func (m *pprofMapping) hasBuildID() bool {
	if m.BuildID != "" {
		key, _ := parseBuildID(m.BuildID)
		return key != ""
	}
	return slices.ContainsFunc(m.carried, func(a attribute) bool {
		return a.key == attrBuildIDGNU || a.key == attrBuildIDGo || a.key == attrHTLHash
	})
}

// holds tells whether a location may refer to the mapping in OTLP.
func (m *pprofMapping) holds(address uint64) bool {
	return m.hasID && (m.Limit == 0 || address >= m.Start && address <= m.Limit)
}

func hasName(f *profile.Function) bool { return f.Name != "" || f.SystemName != "" || f.Filename != "" }

func (e *encoder) addMapping(m *pprofMapping) {
	var attributes []attribute
	if key, value := parseBuildID(m.BuildID); key != "" {
		attributes = append(attributes, attribute{key: key, value: pcommon.NewValueStr(value)})
	}
	functions := attrHasFunctions
	if !m.lines {
		functions = attrClaimsFunctions
	}
	for _, flag := range []struct {
		key string
		has bool
	}{
		{functions, m.HasFunctions}, {attrHasFilenames, m.HasFilenames}, {attrHasLines, m.HasLineNumbers},
		{attrHasInlines, m.HasInlineFrames},
	} {
		if flag.has {
			attributes = append(attributes, attribute{key: flag.key, value: pcommon.NewValueBool(true)})
		}
	}
	list := e.set(append(attributes, m.carried...))
	set, _ := e.sets.id(list)
	v := wireMapping{m.Start, m.Limit, m.Offset, e.text(m.File), set}
	index, known := e.mappingOf[v]
	if !known {
		table := e.dict.MappingTable()
		index = int32(table.Len())
		e.mappingOf[v] = index
		to := table.AppendEmpty()
		to.SetMemoryStart(m.Start)
		to.SetMemoryLimit(m.Limit)
		to.SetFileOffset(m.Offset)
		to.SetFilenameStrindex(e.stringOf(v.file))
		to.AttributeIndices().FromRaw(list)
	}
	m.index = index
}

// forbid appends the attributes with which a location carries a mapping that OTLP forbids it to refer to.
func (e *encoder) forbid(attributes []attribute, m *pprofMapping) []attribute {
	if m.File != "" {
		attributes = append(attributes, attribute{key: attrMappingFile, value: pcommon.NewValueStr(m.File)})
	}
	v := pcommon.NewValueMap()
	rest := v.Map()
	for _, n := range []struct {
		key   string
		value uint64
	}{{"start", m.Start}, {"limit", m.Limit}, {"offset", m.Offset}} {
		if n.value != 0 {
			rest.PutInt(n.key, int64(n.value))
		}
	}
	if m.BuildID != "" {
		rest.PutStr("build_id", e.mend(m.BuildID))
	}
	for _, flag := range []struct {
		key string
		has bool
	}{
		{"has_functions", m.HasFunctions}, {"has_filenames", m.HasFilenames}, {"has_line_numbers", m.HasLineNumbers},
		{"has_inline_frames", m.HasInlineFrames}, {"main", e.sayMain && !m.used && m.Mapping == e.p.Mapping[0]},
	} {
		if flag.has {
			rest.PutBool(flag.key, true)
		}
	}
	if len(m.carried) > 0 {
		carried := rest.PutEmptyMap("attributes")
		for _, a := range m.carried {
			a.value.CopyTo(carried.PutEmpty(a.key))
		}
	}
	if rest.Len() > 0 {
		attributes = append(attributes, attribute{key: attrMapping, value: v})
	}
	return attributes
}

func (e *encoder) addLocation(l *profile.Location, m *pprofMapping, carried []attribute) int32 {
	attributes := carried
	has := func(key string) bool {
		return slices.ContainsFunc(carried, func(a attribute) bool { return a.key == key })
	}
	file, source, index := "", "", int32(0)
	for _, n := range l.Line {
		if hasName(n.Function) {
			source = n.Function.Filename // in the end the outermost one
		}
	}
	if m != nil {
		file = m.File
		switch t, shows := m.showsType(); {
		case m.holds(l.Address):
			index = m.index
		case shows && !has(attrFrameType) && t != impliedType("", source):
		default:
			attributes = e.forbid(slices.Clip(attributes), m)
		}
	}
	if !has(attrFrameType) {
		t := pcommon.NewValueStr(string(impliedType(file, source)))
		attributes = append(slices.Clip(attributes), attribute{key: attrFrameType, value: t})
	}
	if l.IsFolded {
		attributes = append(slices.Clip(attributes), attribute{key: attrFolded, value: pcommon.NewValueBool(true)})
	}
	set := e.set(attributes)
	var words []int32
	for _, n := range l.Line {
		if f := e.function(n.Function); f != 0 {
			words = appendLine(words, f, max(n.Line, 0), max(n.Column, 0))
		}
	}
	head := []int32{index, int32(l.Address), int32(l.Address >> 32), int32(len(words))}
	id, isNew := e.locationOf.id(slices.Concat(head, words, set))
	if isNew {
		to := e.dict.LocationTable().AppendEmpty()
		to.SetMappingIndex(index)
		to.SetAddress(l.Address)
		to.AttributeIndices().FromRaw(set)
		for ; len(words) > 0; words = words[wordsPerLine:] {
			f, line, column := lineAt(words)
			n := to.Lines().AppendEmpty()
			n.SetFunctionIndex(f)
			n.SetLine(line)
			n.SetColumn(column)
		}
	}
	return id // ids are given in the order of the table
}

// showsType tells whether the mapping is one that only shows a frame type, see dictionary.frameType.
func (m *pprofMapping) showsType() (ownprofile.FrameType, bool) {
	t, ok := typeOfMapping(m.File)
	return t, ok && m.Start == 0 && m.Limit == 0 && m.Offset == 0 && m.BuildID == "" && len(m.carried) == 0 &&
		!m.HasFunctions && !m.HasFilenames && !m.HasLineNumbers && !m.HasInlineFrames
}

// function returns the index of a function; 0 for one without any name, which OTLP forbids.
func (e *encoder) function(f *profile.Function) int32 {
	if !hasName(f) {
		return 0
	}
	v := function{name: e.text(f.Name), systemName: e.text(f.SystemName), file: e.text(f.Filename), startLine: max(f.StartLine, 0)}
	index, known := e.functionOf[v]
	if !known {
		table := e.dict.FunctionTable()
		index = int32(table.Len())
		e.functionOf[v] = index
		to := table.AppendEmpty()
		to.SetNameStrindex(e.stringOf(v.name))
		to.SetSystemNameStrindex(e.stringOf(v.systemName))
		to.SetFilenameStrindex(e.stringOf(v.file))
		to.SetStartLine(v.startLine)
	}
	return index
}
