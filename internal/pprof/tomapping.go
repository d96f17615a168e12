package pprof

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
	"go.opentelemetry.io/collector/pdata/pcommon"

	ownprofile "github.com/hostprofiles/hostprofiles/internal/profile"
)

// wireMapping is a mapping in the mapping table, comparable.
type wireMapping struct {
	start, limit, offset uint64
	file                 int32 // text
	set                  int32 // of attributes
}

// pprofMapping is what a pprof mapping, and others that are equal to it, becomes.
type pprofMapping struct {
	*profile.Mapping
	carried []attribute // of its carriers
	hasID   bool        // OTLP allows it at all
	used    bool        // by a location of a sample inside of its range
	lines   bool        // such a location has one
	main    bool        // it must say that it is the main binary's
	index   int32       // in the mapping table, 0 if no location has it
}

// mappings makes the mapping table. It returns what becomes of pprof's mappings that a sample needs and that say anything;
// equal ones become one.
func (e *encoder) mappings(needed []bool) map[*profile.Mapping]*pprofMapping {
	known := e.neededMappings(needed)
	var all []*pprofMapping // in pprof's order
	equal := map[mappingKey]*pprofMapping{}
	for _, m := range e.p.Mapping {
		k := known[m]
		if k == nil || !saysAnything(k) {
			delete(known, m)
			continue
		}
		key := e.mappingKey(k)
		if equal[key] == nil {
			equal[key] = k
			k.hasID = k.hasBuildID() && (m.Start < m.Limit || m.Start == 0 && m.Limit == 0)
			all = append(all, k)
		}
		known[m] = equal[key]
	}
	for i, l := range e.p.Location {
		if m := known[l.Mapping]; needed[i] && m != nil && m.holds(l.Address) {
			m.used = true
			m.lines = m.lines || len(linesOf(l)) > 0
		}
	}
	if len(all) > 0 && e.impliedMain(all, known, needed) != all[0] {
		all[0].main = true
	}
	for _, m := range all {
		if m.used {
			e.addMapping(m)
		}
	}
	return known
}

// neededMappings returns the mappings that samples need, with the attributes that they carry.
func (e *encoder) neededMappings(needed []bool) map[*profile.Mapping]*pprofMapping {
	known := make(map[*profile.Mapping]*pprofMapping, len(e.p.Mapping)+1)
	for i, l := range e.p.Location {
		if needed[i] && l.Mapping != nil && known[l.Mapping] == nil {
			known[l.Mapping] = &pprofMapping{Mapping: l.Mapping}
		}
	}
	var buildIDKey string
	var last *profile.Mapping // that is no carrier; carriers of what no sample needs are nobody's
	for _, m := range e.p.Mapping {
		key, ok := strings.CutPrefix(m.File, carrier+" ")
		if known[m] != nil || !ok || last == nil || m.Start != last.Start || m.Limit != last.Limit || m.Offset != last.Offset {
			last = m
			buildIDKey, _ = parseBuildID(m.BuildID)
		} else if k := known[last]; k != nil {
			if a, ok := carriedAttribute(key, m.BuildID); ok && !isMappingField(a, buildIDKey) {
				k.carried = e.addCarried(k.carried, a)
			}
		}
	}
	return known
}

// isMappingField tells whether an attribute of a mapping is a field in pprof: FromOTLP would not carry it.
// buildIDKey is the kind of build id that pprof's field holds.
func isMappingField(a attribute, buildIDKey string) bool {
	if a.unit != "" {
		return false
	}
	switch a.value.Type() {
	case pcommon.ValueTypeBool:
		return a.key == attrMain || new(resolution).set(a.key, true)
	case pcommon.ValueTypeStr:
		_, ok := buildID(a.key, a.value.Str())
		keys := buildIDKeys()
		return ok && (buildIDKey == "" || slices.Index(keys, a.key) <= slices.Index(keys, buildIDKey))
	}
	return false
}

// mappingKey tells different mappings from equal ones.
type mappingKey struct {
	start, limit, offset uint64
	file, buildID        int32 // texts
	has                  resolution
	carried              string
}

func (e *encoder) mappingKey(m *pprofMapping) mappingKey {
	carried := make([]string, len(m.carried))
	for i, a := range m.carried {
		text, err := valueJSON(a.value, a.unit)
		if err != nil {
			e.fail(fmt.Errorf("attribute %.100q of a mapping: %w", a.key, err))
		}
		carried[i] = fmt.Sprintf("%q %s", a.key, text)
	}
	slices.Sort(carried)
	return mappingKey{
		start: m.Start, limit: m.Limit, offset: m.Offset, file: e.text(m.File), buildID: e.text(m.BuildID),
		has:     resolution{m.HasFunctions, m.HasFilenames, m.HasLineNumbers, m.HasInlineFrames},
		carried: strings.Join(carried, "\n"),
	}
}

// impliedMain returns the mapping that FromOTLP takes for the main binary's if none says so, see output.mainMapping: the first
// one of the executable that all resources name, or else the first one. It knows those of the mapping table first, then those
// that locations carry.
func (e *encoder) impliedMain(all []*pprofMapping, known map[*profile.Mapping]*pprofMapping, needed []bool) *pprofMapping {
	var order []*pprofMapping
	for _, m := range all {
		if m.used {
			order = append(order, m)
		}
	}
	for i, l := range e.p.Location {
		if m := known[l.Mapping]; needed[i] && m != nil && !m.used {
			order = append(order, m)
		}
	}
	if file := e.executable(); file != "" {
		if i := slices.IndexFunc(order, func(m *pprofMapping) bool { return e.mend(m.File) == file }); i >= 0 {
			return order[i]
		}
	}
	return order[0]
}

// executable returns the executable of the resources that the samples' labels make, if it is the same for all.
func (e *encoder) executable() (file string) {
	for i, s := range e.p.Sample {
		this := ""
		if label := s.Label[attrExecutable]; len(label) == 1 && len(s.NumLabel[attrExecutable]) == 0 {
			this = e.mend(label[0])
		}
		if i > 0 && this != file || this == "" {
			return ""
		}
		file = this
	}
	return file
}

func saysAnything(m *pprofMapping) bool {
	return m.Start != 0 || m.Limit != 0 || m.Offset != 0 || m.File != "" || m.BuildID != "" || m.HasFunctions || m.HasFilenames ||
		m.HasLineNumbers || m.HasInlineFrames || len(m.carried) > 0
}

// hasBuildID tells whether all that pprof says of the build is a build id of OTLP, and is there.
func (m *pprofMapping) hasBuildID() bool {
	if m.BuildID != "" {
		key, _ := parseBuildID(m.BuildID)
		return key != ""
	}
	return slices.ContainsFunc(m.carried, func(a attribute) bool {
		return slices.Contains(buildIDKeys(), a.key)
	})
}

// holds tells whether a location may refer to the mapping in OTLP.
func (m *pprofMapping) holds(address uint64) bool {
	return m.hasID && (m.Limit == 0 || address >= m.Start && address <= m.Limit)
}

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
		{attrHasInlines, m.HasInlineFrames}, {attrMain, m.main},
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
	}{{keyStart, m.Start}, {keyLimit, m.Limit}, {keyOffset, m.Offset}} {
		if n.value != 0 {
			rest.PutInt(n.key, int64(n.value))
		}
	}
	if m.BuildID != "" {
		rest.PutStr(keyBuildID, e.mend(m.BuildID))
	}
	for _, flag := range []struct {
		key string
		has bool
	}{
		{"has_functions", m.HasFunctions}, {"has_filenames", m.HasFilenames}, {"has_line_numbers", m.HasLineNumbers},
		{"has_inline_frames", m.HasInlineFrames}, {keyMain, m.main},
	} {
		if flag.has {
			rest.PutBool(flag.key, true)
		}
	}
	if len(m.carried) > 0 {
		carried, units := rest.PutEmptyMap(keyAttributes), pcommon.NewMap()
		for _, a := range m.carried {
			a.value.CopyTo(carried.PutEmpty(a.key))
			if a.unit != "" {
				units.PutStr(a.key, a.unit)
			}
		}
		if units.Len() > 0 {
			units.CopyTo(rest.PutEmptyMap(keyUnits))
		}
	}
	if rest.Len() > 0 {
		attributes = append(attributes, attribute{key: attrMapping, value: v})
	}
	return attributes
}

// showsType tells whether the mapping is one that only shows a frame type, see dictionary.frameType.
func (m *pprofMapping) showsType() (ownprofile.FrameType, bool) {
	t, ok := typeOfMapping(m.File)
	return t, ok && !m.main && m.Start == 0 && m.Limit == 0 && m.Offset == 0 && m.BuildID == "" && len(m.carried) == 0 &&
		!m.HasFunctions && !m.HasFilenames && !m.HasLineNumbers && !m.HasInlineFrames
}
