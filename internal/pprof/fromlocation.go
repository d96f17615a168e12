package pprof

import (
	"fmt"
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/hostprofiles/hostprofiles/internal/profile"
)

func (d *dictionary) mappingReader(table pprofile.MappingSlice) func(int) error {
	d.mappingOf[mapping{}] = 0
	return func(i int) error {
		m := table.At(i)
		v := mapping{start: m.MemoryStart(), limit: m.MemoryLimit(), offset: m.FileOffset()}
		var err error
		if v.file, err = at(d.textID, m.FilenameStrindex(), "filename_strindex"); err != nil {
			return err
		}
		set, err := d.attributeSet(m.AttributeIndices())
		if err != nil {
			return err
		}
		main, err := d.mappingAttributes(&v, d.sets.all[set])
		if err != nil {
			return err
		}
		id := intern(&d.mappings, d.mappingOf, v)
		if main {
			d.main = id
		}
		d.mappingID = append(d.mappingID, id)
		d.inTable = int32(len(d.mappings))
		return nil
	}
}

// mappingAttributes puts attributes into the fields that pprof has for them, and carries the others. main tells whether one
// says that the mapping is the main binary's.
func (d *dictionary) mappingAttributes(m *mapping, attributes []int32) (main bool, err error) {
	order := buildIDKeys()
	ids := make([]int32, len(order)) // attributes
	var carried []int32
	for _, id := range attributes {
		s, v := d.attributes[id], d.values[id]
		key := d.texts.all[s.key]
		if s.kind == pcommon.ValueTypeBool && s.unit == 0 && m.has.set(key, v.Bool()) {
			continue
		}
		if key == attrMain && s.kind == pcommon.ValueTypeBool && s.unit == 0 {
			main = v.Bool()
			continue
		}
		if i := slices.Index(order, key); i >= 0 && s.kind == pcommon.ValueTypeStr && s.unit == 0 {
			ids[i] = id
			continue
		}
		carried = append(carried, id)
	}
	for _, id := range ids {
		if id == 0 {
			continue
		}
		s := d.attributes[id]
		text, ok := buildID(d.texts.all[s.key], d.texts.all[s.str])
		if m.buildID != 0 || !ok {
			carried = append(carried, id)
			continue
		}
		if m.buildID, err = d.text(text); err != nil {
			return false, err
		}
	}
	m.carried, err = d.carryAll(carried)
	return main, err
}

// set sets the flag that the attribute stands for; it is false if there is none.
func (r *resolution) set(key string, to bool) bool {
	switch key {
	case attrHasFunctions, attrClaimsFunctions:
		r.functions = r.functions || to
	case attrHasFilenames:
		r.filenames = to
	case attrHasLines:
		r.lines = to
	case attrHasInlines:
		r.inlines = to
	default:
		return false
	}
	return true
}

func (d *dictionary) carryAll(attributes []int32) (int32, error) {
	tags := make([]int32, 0, len(attributes))
	for _, id := range attributes {
		t, err := d.carry(id)
		if err != nil {
			return 0, err
		}
		tags = append(tags, t)
	}
	slices.Sort(tags)
	list, _ := d.lists.id(tags)
	return list, nil
}

func (d *dictionary) locationReader(table pprofile.LocationSlice) func(int) error {
	ids := map[location]int32{{}: 0}
	var lines []int32
	return func(i int) error {
		l := table.At(i)
		v := location{address: l.Address()}
		var err error
		if v.mapping, err = at(d.mappingID, l.MappingIndex(), "mapping_index"); err != nil {
			return err
		}
		lines = lines[:0]
		for k := range l.Lines().Len() {
			n := l.Lines().At(k)
			f, err := at(d.functionID, n.FunctionIndex(), "function_index")
			if err != nil {
				return fmt.Errorf("lines[%d]: %w", k, err)
			}
			if f != 0 {
				lines = appendLine(lines, f, max(n.Line(), 0), max(n.Column(), 0))
			}
		}
		v.lines, _ = d.lists.id(lines)
		set, err := d.attributeSet(l.AttributeIndices())
		if err != nil {
			return err
		}
		if err := d.locationAttributes(&v, d.sets.all[set]); err != nil {
			return err
		}
		d.locationID = append(d.locationID, intern(&d.locations, ids, v))
		return nil
	}
}

// locationAttributes puts attributes into the fields that pprof has for them, and carries the others.
func (d *dictionary) locationAttributes(l *location, attributes []int32) error {
	var carried []int32
	var frame, file, rest, function int32 // attributes
	for _, id := range attributes {
		s := d.attributes[id]
		switch key := d.texts.all[s.key]; {
		case s.unit != 0:
			carried = append(carried, id)
		case key == attrFolded && s.kind == pcommon.ValueTypeBool:
			l.folded = d.values[id].Bool()
		case key == attrFrameType && s.kind == pcommon.ValueTypeStr:
			frame = id
		case key == attrMappingFile && s.kind == pcommon.ValueTypeStr && l.mapping == 0:
			file = id
		case key == attrMapping && l.mapping == 0:
			rest = id
		case isFunctionAddress(key, s.kind, "") && l.lines == 0:
			function = id
		default:
			carried = append(carried, id)
		}
	}
	if file != 0 || rest != 0 {
		m, ok, err := d.forbiddenMapping(d.attributes[file].str, rest)
		if err != nil {
			return err
		}
		if !ok {
			carried = append(carried, rest)
		}
		l.mapping = m
	}
	if frame != 0 {
		needed, err := d.frameType(l, profile.FrameType(d.texts.all[d.attributes[frame].str]))
		if err != nil {
			return err
		}
		if needed {
			carried = append(carried, frame)
		}
	}
	if function != 0 {
		named, err := d.nameByAddress(l, uint64(d.values[function].Int()))
		if err != nil {
			return err
		}
		if !named {
			carried = append(carried, function)
		}
	}
	var err error
	l.carried, err = d.carryAll(carried)
	return err
}

// nameByAddress gives a location without lines one in a function that is named by its address.
func (d *dictionary) nameByAddress(l *location, address uint64) (named bool, err error) {
	name, ok := addressName(d.texts.all[d.mappings[l.mapping].file], address)
	if !ok {
		return false, nil
	}
	var f function
	if f.name, err = d.text(name); err != nil {
		return false, err
	}
	if f.systemName, err = d.text(attrFunction); err != nil {
		return false, err
	}
	if err := d.budget.take(len(name)+sizeFunction, 1); err != nil {
		return false, err
	}
	l.lines, _ = d.lists.id(appendLine(nil, intern(&d.functions, d.functionOf, f), 0, 0))
	return true, nil
}

// frameType tells whether a frame type must be carried. Code that belongs to no file shows it by its mapping.
func (d *dictionary) frameType(l *location, t profile.FrameType) (needed bool, err error) {
	source := ""
	if lines := d.lists.all[l.lines]; len(lines) > 0 {
		f, _, _ := lineAt(lines[len(lines)-wordsPerLine:])
		source = d.texts.all[d.functions[f].file]
	}
	if t == impliedType(d.texts.all[d.mappings[l.mapping].file], source) {
		return false, nil
	}
	if l.mapping != 0 || !knownType(t) {
		return true, nil
	}
	file, err := d.text(mappingOfType(t))
	l.mapping = intern(&d.mappings, d.mappingOf, mapping{file: file})
	return false, err
}

// forbiddenMapping makes the mapping that a location carries: its file, and the attribute with the rest (0 for none). ok is
// false if that attribute is something else. encoder.forbid is the inverse.
func (d *dictionary) forbiddenMapping(file, rest int32) (id int32, ok bool, err error) {
	m := mapping{file: file}
	r, ok := parseRest(d.values[rest])
	if ok {
		m.start, m.limit, m.offset, m.has = r.start, r.limit, r.offset, r.has
		if m.buildID, err = d.text(r.buildID); err != nil {
			return 0, false, err
		}
		if m.carried, err = d.carriedMap(r.attributes, r.units); err != nil {
			return 0, false, err
		}
	}
	id = intern(&d.mappings, d.mappingOf, m)
	if r.main && ok {
		d.main = id
	}
	return id, ok || rest == 0, nil
}

// restOfMapping is what attrMapping says.
type restOfMapping struct {
	start, limit, offset uint64
	buildID              string
	has                  resolution
	main                 bool
	attributes, units    pcommon.Map
}

func parseRest(v pcommon.Value) (r restOfMapping, ok bool) {
	r.attributes, r.units = pcommon.NewMap(), pcommon.NewMap()
	if v.Type() != pcommon.ValueTypeMap {
		return r, false
	}
	for key, v := range v.Map().All() {
		switch kind := v.Type(); {
		case key == keyStart && kind == pcommon.ValueTypeInt:
			r.start = uint64(v.Int())
		case key == keyLimit && kind == pcommon.ValueTypeInt:
			r.limit = uint64(v.Int())
		case key == keyOffset && kind == pcommon.ValueTypeInt:
			r.offset = uint64(v.Int())
		case key == keyBuildID && kind == pcommon.ValueTypeStr:
			r.buildID = v.Str()
		case key == keyMain && kind == pcommon.ValueTypeBool:
			r.main = v.Bool()
		case kind == pcommon.ValueTypeBool && r.has.set(prefixMapping+key, v.Bool()):
		case key == keyAttributes && kind == pcommon.ValueTypeMap:
			r.attributes = v.Map()
		case key == keyUnits && kind == pcommon.ValueTypeMap:
			r.units = v.Map()
		default:
			return r, false
		}
	}
	for key, unit := range r.units.All() {
		if _, known := r.attributes.Get(key); !known || unit.Type() != pcommon.ValueTypeStr {
			return r, false
		}
	}
	return r, true
}

func (d *dictionary) carriedMap(m, units pcommon.Map) (int32, error) {
	ids := make([]int32, 0, m.Len())
	for key, v := range m.All() {
		k, err := d.text(key)
		if err != nil {
			return 0, err
		}
		unit := int32(0)
		if u, ok := units.Get(key); ok {
			if unit, err = d.text(u.Str()); err != nil {
				return 0, err
			}
		}
		s, err := d.source(k, unit, v)
		if err != nil {
			return 0, err
		}
		id := intern(&d.attributes, d.attributeOf, s)
		if int(id) == len(d.values) {
			d.values = append(d.values, v)
		}
		ids = append(ids, id)
	}
	return d.carryAll(ids)
}
