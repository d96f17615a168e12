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
	last := -1 // that is no carrier; carriers of what no sample needs are nobody's
	for i, l := range e.p.Location {
		if needed[i] || last < 0 || !isCarrier(l) || l.Address != e.p.Location[last].Address {
			last = i
		} else if needed[last] {
			for _, n := range l.Line {
				if a, ok := carriedAttribute(n.Function.SystemName, n.Function.Filename); ok {
					carried[last] = e.addCarried(carried[last], a)
				}
			}
		}
	}
	return carried
}

func isCarrier(l *profile.Location) bool {
	return l.Mapping == nil && !slices.ContainsFunc(l.Line, func(n profile.Line) bool { return n.Function.Name != carrier })
}

// addCarried appends an attribute that a mapping or location carries. Of equal keys the first stays.
func (e *encoder) addCarried(list []attribute, a attribute) []attribute {
	if slices.ContainsFunc(list, func(b attribute) bool { return a.key == b.key }) {
		return list
	}
	if len(list) == maxCarried {
		e.fail(errTooManyKeys)
		return list
	}
	return append(list, a)
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

func hasName(f *profile.Function) bool { return f.Name != "" || f.SystemName != "" || f.Filename != "" }

func (e *encoder) addLocation(l *profile.Location, m *pprofMapping, carried []attribute) int32 {
	var attributes []attribute // before what is carried: of equal keys the first stays
	if l.IsFolded {
		attributes = append(attributes, attribute{key: attrFolded, value: pcommon.NewValueBool(true)})
	}
	file, source, index := "", "", int32(0)
	lines := linesOf(l)
	if len(lines) > 0 {
		source = lines[len(lines)-1].Function.Filename // the outermost one
	}
	if address, ok := functionAddress(l); ok {
		attributes = append(attributes, attribute{key: attrFunction, value: pcommon.NewValueInt(int64(address))})
	}
	_, nameable := addressName(mappingFile(l), 0)
	held := m != nil && m.holds(l.Address)
	carried = slices.DeleteFunc(slices.Clone(carried), func(a attribute) bool {
		return isLocationField(a, m != nil, held) || len(lines) == 0 && nameable && isFunctionAddress(a.key, a.value.Type(), a.unit)
	})
	typed := slices.ContainsFunc(carried, func(a attribute) bool { return a.key == attrFrameType })
	if m != nil {
		file = m.File
		switch t, shows := m.showsType(); {
		case held:
			index = m.index
		case shows && !typed && t != impliedType("", source):
		default:
			attributes = e.forbid(attributes, m)
		}
	}
	if !typed {
		t := pcommon.NewValueStr(string(impliedType(file, source)))
		attributes = append(attributes, attribute{key: attrFrameType, value: t})
	}
	attributes = append(attributes, carried...)
	set := e.set(attributes)
	var words []int32
	for _, n := range lines {
		words = appendLine(words, e.function(n.Function), max(n.Line, 0), max(n.Column, 0))
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

// isFunctionAddress tells attributes from which FromOTLP makes a name, if the location has no other.
func isFunctionAddress(key string, kind pcommon.ValueType, unit string) bool {
	return key == attrFunction && kind == pcommon.ValueTypeInt && unit == ""
}

// isLocationField tells whether an attribute of a location is a field in pprof: FromOTLP would not carry it. hasMapping tells
// whether the location has a mapping, held whether it may refer to that in OTLP.
func isLocationField(a attribute, hasMapping, held bool) bool {
	if a.unit != "" {
		return false
	}
	switch isText := a.value.Type() == pcommon.ValueTypeStr; a.key {
	case attrFolded:
		return a.value.Type() == pcommon.ValueTypeBool
	case attrFrameType:
		return isText && !hasMapping && knownType(ownprofile.FrameType(a.value.Str()))
	case attrMappingFile:
		return isText && !held
	case attrMapping:
		_, ok := parseRest(a.value)
		return ok && !held
	}
	return false
}

// function returns the index of a function. It has a name: OTLP forbids others.
func (e *encoder) function(f *profile.Function) int32 {
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
