package pprof

import (
	"fmt"
	"slices"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

// dictionary is an OTLP dictionary as it was read and checked: every value once, by id, and already in pprof's shape. Id 0
// of everything is nothing; the ...ID slices lead from the index in OTLP's table to the id.
type dictionary struct {
	budget *budget

	texts  texts
	textID []int32

	attributes  []source
	attributeID []int32
	attributeOf map[source]int32
	values      []pcommon.Value // of attributes

	functions  []function
	functionOf map[function]int32
	functionID []int32

	tags      []tag // what becomes labels, and what mappings and locations carry
	tagOf     map[tagSource]int32
	sets      lists // of attribute ids, ascending
	lists     lists // of tags, of lines
	mappings  []mapping
	mappingOf map[mapping]int32
	mappingID []int32
	inTable   int32 // ids below are those of OTLP's mapping table, others of mappings that locations carry
	main      int32 // the mapping of the main binary, 0 if none says so

	locations  []location
	locationID []int32

	stacks  lists // of locations
	stackID []int32

	links  []link
	linkID []int32
}

// source is an attribute, comparable. A value that is neither a string nor an integer is its JSON text.
type source struct {
	key, unit int32 // texts
	kind      pcommon.ValueType
	num       int64
	str       int32 // text
}

type tagSource struct {
	at     place
	forced bool // JSON, whatever the value
	source source
}

type function struct {
	name, systemName, file int32 // texts
	startLine              int64
}

type mapping struct {
	start, limit, offset uint64
	file, buildID        int32 // texts
	has                  resolution
	carried              int32 // list of tags
}

// resolution is what pprof's flags say of a mapping's symbols.
type resolution struct{ functions, filenames, lines, inlines bool }

type location struct {
	mapping int32
	address uint64
	folded  bool
	lines   int32 // list, wordsPerLine for each
	carried int32 // list of tags
}

// wordsPerLine: function, then line and column in two words each, the low one first.
const wordsPerLine = 5

func appendLine(b []int32, function int32, line, column int64) []int32 {
	return append(b, function, int32(line), int32(line>>32), int32(column), int32(column>>32))
}

func lineAt(b []int32) (function int32, line, column int64) {
	join := func(low, high int32) int64 { return int64(uint32(low)) | int64(high)<<32 }
	return b[0], join(b[1], b[2]), join(b[3], b[4])
}

// readDictionary reads and checks all tables, whether something refers to an entry or not.
func readDictionary(t pprofile.ProfilesDictionary, b *budget) (*dictionary, error) {
	d := &dictionary{
		budget: b, texts: newTexts(),
		attributes: make([]source, 1), attributeOf: map[source]int32{}, values: []pcommon.Value{pcommon.NewValueEmpty()},
		functions: make([]function, 1), functionOf: map[function]int32{{}: 0}, tags: make([]tag, 1), tagOf: map[tagSource]int32{},
		sets: newLists(), lists: newLists(), mappings: make([]mapping, 1), mappingOf: map[mapping]int32{},
		locations: make([]location, 1), stacks: newLists(), links: make([]link, 1),
	}
	tables := []struct {
		name string
		n    int
		read func(i int) error
	}{
		{"string_table", t.StringTable().Len(), func(i int) error { return d.readString(t.StringTable().At(i)) }},
		{"attribute_table", t.AttributeTable().Len(), func(i int) error { return d.readAttribute(t.AttributeTable().At(i)) }},
		{"function_table", t.FunctionTable().Len(), d.functionReader(t.FunctionTable())},
		{"mapping_table", t.MappingTable().Len(), d.mappingReader(t.MappingTable())},
		{"location_table", t.LocationTable().Len(), d.locationReader(t.LocationTable())},
		{"stack_table", t.StackTable().Len(), d.stackReader(t.StackTable())},
		{"link_table", t.LinkTable().Len(), d.linkReader(t.LinkTable())},
	}
	for _, table := range tables {
		for i := range table.n {
			if err := table.read(i); err != nil {
				return nil, fmt.Errorf("reading %s[%d]: %w", table.name, i, err)
			}
		}
	}
	if err := d.checkZeros(); err != nil {
		return nil, err
	}
	return d, nil
}

// checkZeros checks that index 0, which means nothing, is nothing.
func (d *dictionary) checkZeros() error {
	for _, table := range []struct {
		name string
		ids  []int32
	}{
		{"string_table", d.textID}, {"attribute_table", d.attributeID}, {"function_table", d.functionID},
		{"mapping_table", d.mappingID}, {"location_table", d.locationID}, {"stack_table", d.stackID}, {"link_table", d.linkID},
	} {
		if len(table.ids) > 0 && table.ids[0] != 0 {
			return fmt.Errorf("reading %s[0]: it is not empty", table.name)
		}
	}
	return nil
}

// at returns the id of a table's entry. Index 0 means nothing even if the table is missing.
func at(ids []int32, i int32, field string) (int32, error) {
	if i < 0 || int(i) >= len(ids) && i != 0 {
		return 0, fmt.Errorf("%s %d is out of range (%d entries)", field, i, len(ids))
	}
	if i == 0 {
		return 0, nil
	}
	return ids[i], nil
}

func checked(s string) (string, error) { return s, checkText(s) }

func (d *dictionary) text(s string) (int32, error) { return d.texts.id(s, checked) }

func (d *dictionary) readString(s string) error {
	id, err := d.text(s)
	d.textID = append(d.textID, id)
	return err
}

func (d *dictionary) readAttribute(a pprofile.KeyValueAndUnit) error {
	key, err := at(d.textID, a.KeyStrindex(), "key_strindex")
	if err != nil {
		return err
	}
	unit, err := at(d.textID, a.UnitStrindex(), "unit_strindex")
	if err != nil {
		return err
	}
	id := int32(0)
	if key != 0 || unit != 0 || a.Value().Type() != pcommon.ValueTypeEmpty {
		s, err := d.source(key, unit, a.Value())
		if err != nil {
			return err
		}
		if id = intern(&d.attributes, d.attributeOf, s); int(id) == len(d.values) {
			d.values = append(d.values, a.Value())
		}
	}
	d.attributeID = append(d.attributeID, id)
	return nil
}

func (d *dictionary) source(key, unit int32, v pcommon.Value) (s source, err error) {
	s = source{key: key, unit: unit, kind: v.Type()}
	name, _ := strings.CutPrefix(d.texts.all[key], attrLabel)
	switch n := len(name); {
	case key == 0:
		return s, fmt.Errorf("attribute has no key")
	case n > maxLabel || n > maxKey && n == len(d.texts.all[key]):
		return s, fmt.Errorf("key has %d bytes, more than %d", n, maxKey)
	}
	switch s.kind {
	case pcommon.ValueTypeStr:
		s.str, err = d.text(v.Str())
	case pcommon.ValueTypeInt:
		s.num = v.Int()
	default:
		var text string
		if text, err = valueJSON(v, ""); err == nil {
			if err = d.budget.take(len(text), 2); err == nil {
				s.str, err = d.text(text)
			}
		}
	}
	return s, err
}

// attributeSet reads attribute_indices.
func (d *dictionary) attributeSet(indices pcommon.Int32Slice) (int32, error) {
	if indices.Len() == 0 {
		return 0, nil
	}
	if indices.Len() > maxKeys {
		return 0, errTooManyKeys
	}
	var buf [16]int32
	ids := buf[:0]
	for i := range indices.Len() {
		id, err := at(d.attributeID, indices.At(i), "attribute index")
		if err != nil {
			return 0, err
		}
		if id != 0 {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	set, isNew := d.sets.id(ids)
	if !isNew {
		return set, nil
	}
	keys := make(map[int32]bool, len(ids))
	for _, id := range ids {
		key := d.attributes[id].key
		if keys[key] {
			return 0, fmt.Errorf("attribute %.100q is there twice", d.texts.all[key])
		}
		keys[key] = true
	}
	return set, nil
}

func (d *dictionary) functionReader(table pprofile.FunctionSlice) func(int) error {
	return func(i int) error {
		f := table.At(i)
		v := function{startLine: max(f.StartLine(), 0)}
		var err error
		if v.name, err = at(d.textID, f.NameStrindex(), "name_strindex"); err != nil {
			return err
		}
		if v.systemName, err = at(d.textID, f.SystemNameStrindex(), "system_name_strindex"); err != nil {
			return err
		}
		if v.file, err = at(d.textID, f.FilenameStrindex(), "filename_strindex"); err != nil {
			return err
		}
		if v.name == 0 && v.systemName == 0 && v.file == 0 {
			v = function{} // as if there were none
		}
		d.functionID = append(d.functionID, intern(&d.functions, d.functionOf, v))
		return nil
	}
}

func (d *dictionary) stackReader(table pprofile.StackSlice) func(int) error {
	var stack []int32
	return func(i int) error {
		indices := table.At(i).LocationIndices()
		stack = stack[:0]
		for k := range indices.Len() {
			l := indices.At(k)
			if l < 0 || int(l) >= len(d.locationID) {
				return fmt.Errorf("location index %d is out of range (%d entries)", l, len(d.locationID))
			}
			stack = append(stack, d.locationID[l])
		}
		id, _ := d.stacks.id(stack)
		d.stackID = append(d.stackID, id)
		return nil
	}
}

func (d *dictionary) linkReader(table pprofile.LinkSlice) func(int) error {
	ids := map[link]int32{{}: 0}
	return func(i int) error {
		l := table.At(i)
		d.linkID = append(d.linkID, intern(&d.links, ids, link{trace: l.TraceID(), span: l.SpanID()}))
		return nil
	}
}

// tag returns the label of an attribute at a place. forced makes it JSON.
func (d *dictionary) tag(at place, forced bool, s source, v pcommon.Value) (int32, error) {
	from := tagSource{at, forced, s}
	if id, known := d.tagOf[from]; known {
		return id, nil
	}
	make := newTag
	if forced {
		make = newJSONTag
	}
	t, err := make(at, d.texts.all[s.key], v, d.texts.all[s.unit])
	if err != nil {
		return 0, err
	}
	if err := d.budget.take(len(t.key)+len(t.str), 1); err != nil {
		return 0, err
	}
	id := int32(len(d.tags))
	d.tags = append(d.tags, t)
	d.tagOf[from] = id
	return id, nil
}

// carry returns what stands for an attribute of a mapping or location.
func (d *dictionary) carry(attribute int32) (int32, error) {
	s := d.attributes[attribute]
	return d.tag(onCarrier, s.kind != pcommon.ValueTypeStr, s, d.values[attribute])
}

// fieldTag returns a label that is as it is.
func (d *dictionary) fieldTag(label string, text int32) int32 {
	key, err := d.text(label)
	from := tagSource{at: onField, source: source{key: key, str: text}}
	id, known := d.tagOf[from]
	if err == nil && !known {
		id = int32(len(d.tags))
		d.tags = append(d.tags, tag{key: label, str: d.texts.all[text]})
		d.tagOf[from] = id
	}
	return id
}
