package conformance

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

// reach marks what the samples need of the dictionary, all the way down.
type reach struct {
	d                                                                  *dictionary
	strings, attributes, functions, mappings, locations, stacks, links []bool
	// byText marks the string table's entries that resource and scope attributes need: they are references only when
	// marshalled.
	byText map[string]bool
}

func (d *dictionary) newReach() *reach {
	return &reach{
		d:          d,
		strings:    make([]bool, d.t.StringTable().Len()),
		attributes: make([]bool, d.t.AttributeTable().Len()),
		functions:  make([]bool, d.t.FunctionTable().Len()),
		mappings:   make([]bool, d.t.MappingTable().Len()),
		locations:  make([]bool, d.t.LocationTable().Len()),
		stacks:     make([]bool, d.t.StackTable().Len()),
		links:      make([]bool, d.t.LinkTable().Len()),
		byText:     map[string]bool{},
	}
}

// first marks i and is true if it was not marked before.
func first(marks []bool, i int32) bool {
	if i <= 0 || int(i) >= len(marks) || marks[i] {
		return false
	}
	marks[i] = true
	return true
}

func (u *reach) text(i int32) { first(u.strings, i) }

func (u *reach) valueType(v pprofile.ValueType) {
	u.text(v.TypeStrindex())
	u.text(v.UnitStrindex())
}

func (u *reach) attributeList(list pcommon.Int32Slice) {
	for _, i := range list.All() {
		if first(u.attributes, i) {
			a := u.d.t.AttributeTable().At(int(i))
			u.text(a.KeyStrindex())
			u.text(a.UnitStrindex())
		}
	}
}

func (u *reach) link(i int32) { first(u.links, i) }

func (u *reach) stack(i int32) {
	if !first(u.stacks, i) {
		return
	}
	for _, l := range u.d.t.StackTable().At(int(i)).LocationIndices().All() {
		u.location(l)
	}
}

func (u *reach) location(i int32) {
	if !first(u.locations, i) {
		return
	}
	l := u.d.t.LocationTable().At(int(i))
	u.attributeList(l.AttributeIndices())
	for _, n := range l.Lines().All() {
		if first(u.functions, n.FunctionIndex()) {
			f := u.d.t.FunctionTable().At(int(n.FunctionIndex()))
			u.text(f.NameStrindex())
			u.text(f.SystemNameStrindex())
			u.text(f.FilenameStrindex())
		}
	}
	if first(u.mappings, l.MappingIndex()) {
		m := u.d.t.MappingTable().At(int(l.MappingIndex()))
		u.text(m.FilenameStrindex())
		u.attributeList(m.AttributeIndices())
	}
}

func (u *reach) checkOrphans() {
	for _, t := range []struct {
		name  string
		marks []bool
	}{
		{"string_table", u.strings}, {"attribute_table", u.attributes}, {"function_table", u.functions},
		{"mapping_table", u.mappings}, {"location_table", u.locations}, {"stack_table", u.stacks}, {"link_table", u.links},
	} {
		for i, used := range t.marks {
			if i > 0 && !used && !(t.name == "string_table" && u.byText[u.d.text(int32(i))]) {
				u.d.r.addf(at(t.name, i), "is an orphan: nothing refers to it")
			}
		}
	}
}
