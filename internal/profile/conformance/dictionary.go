package conformance

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

// dictionary checks the seven tables.
type dictionary struct {
	c Checker
	r *report
	t pprofile.ProfilesDictionary

	// For each table, the lowest index with an equal entry, by index.
	strings, attributes, functions, mappings, locations, stacks, links []int32
}

func at(table string, i int) string { return fmt.Sprintf("dictionary.%s[%d]", table, i) }

// checkZeroEntries checks index 0 of each table; it is false if a table has none.
func (d *dictionary) checkZeroEntries() bool {
	ok := true
	for _, t := range []struct {
		name string
		n    int
		zero func() bool
	}{
		{"string_table", d.t.StringTable().Len(), func() bool { return d.t.StringTable().At(0) == "" }},
		{"attribute_table", d.t.AttributeTable().Len(), func() bool {
			a := d.t.AttributeTable().At(0)
			return a.KeyStrindex() == 0 && a.UnitStrindex() == 0 && a.Value().Type() == pcommon.ValueTypeEmpty
		}},
		{"function_table", d.t.FunctionTable().Len(), func() bool {
			f := d.t.FunctionTable().At(0)
			return f.NameStrindex() == 0 && f.SystemNameStrindex() == 0 && f.FilenameStrindex() == 0 && f.StartLine() == 0
		}},
		{"mapping_table", d.t.MappingTable().Len(), func() bool {
			m := d.t.MappingTable().At(0)
			return m.MemoryStart() == 0 && m.MemoryLimit() == 0 && m.FileOffset() == 0 && m.FilenameStrindex() == 0 &&
				m.AttributeIndices().Len() == 0
		}},
		{"location_table", d.t.LocationTable().Len(), func() bool {
			l := d.t.LocationTable().At(0)
			return l.MappingIndex() == 0 && l.Address() == 0 && l.Lines().Len() == 0 && l.AttributeIndices().Len() == 0
		}},
		{"link_table", d.t.LinkTable().Len(), func() bool {
			l := d.t.LinkTable().At(0)
			return l.TraceID().IsEmpty() && l.SpanID().IsEmpty()
		}},
		{"stack_table", d.t.StackTable().Len(), func() bool { return d.t.StackTable().At(0).LocationIndices().Len() == 0 }},
	} {
		if t.n == 0 {
			d.r.addf("dictionary."+t.name, "has no entry at index 0")
			ok = false
		} else if !t.zero() {
			d.r.addf(at(t.name, 0), "is not the empty entry")
		}
	}
	return ok
}

// index checks that i is one of n entries.
func (d *dictionary) index(path, field string, i int32, n int) bool {
	if i < 0 || int(i) >= n {
		d.r.addf(path, "%s %d is out of range (%d entries)", field, i, n)
		return false
	}
	return true
}

// text returns the string with the index, or the empty one if there is none.
func (d *dictionary) text(i int32) string {
	if i < 0 || int(i) >= d.t.StringTable().Len() {
		return ""
	}
	return d.t.StringTable().At(int(i))
}

// checkEntries checks each table's entries from index 1 on.
func (d *dictionary) checkEntries() {
	strings := d.t.StringTable().Len()
	for i, s := range d.t.StringTable().All() {
		if !utf8.ValidString(s) {
			d.r.addf(at("string_table", i), "%q is not UTF-8", s)
		}
	}
	for i, a := range d.t.AttributeTable().All() {
		if i == 0 {
			continue
		}
		path := at("attribute_table", i)
		if d.index(path, "key_strindex", a.KeyStrindex(), strings) && d.text(a.KeyStrindex()) == "" {
			d.r.addf(path, "attribute has an empty key")
		}
		d.index(path, "unit_strindex", a.UnitStrindex(), strings)
		checkValue(d.r, path, a.Value())
	}
	for i, f := range d.t.FunctionTable().All() {
		if i == 0 {
			continue
		}
		path := at("function_table", i)
		d.index(path, "name_strindex", f.NameStrindex(), strings)
		d.index(path, "system_name_strindex", f.SystemNameStrindex(), strings)
		d.index(path, "filename_strindex", f.FilenameStrindex(), strings)
		if d.text(f.NameStrindex()) == "" && d.text(f.SystemNameStrindex()) == "" && d.text(f.FilenameStrindex()) == "" {
			d.r.addf(path, "function has neither name, system name nor filename")
		}
		if f.StartLine() < 0 {
			d.r.addf(path, "start_line %d is negative", f.StartLine())
		}
	}
	for i, l := range d.t.LinkTable().All() {
		if i > 0 && (l.TraceID().IsEmpty() || l.SpanID().IsEmpty()) {
			d.r.addf(at("link_table", i), "link needs both a trace id and a span id")
		}
	}
	d.checkMappings()
	d.checkLocations()
	for i, s := range d.t.StackTable().All() {
		for _, l := range s.LocationIndices().All() {
			if d.index(at("stack_table", i), "location index", l, d.t.LocationTable().Len()) && l == 0 {
				d.r.addf(at("stack_table", i), "location index is 0, which is no location")
			}
		}
	}
}

func (d *dictionary) checkMappings() {
	for i, m := range d.t.MappingTable().All() {
		if i == 0 {
			continue
		}
		path := at("mapping_table", i)
		d.index(path, "filename_strindex", m.FilenameStrindex(), d.t.StringTable().Len())
		if (m.MemoryStart() != 0 || m.MemoryLimit() != 0) && m.MemoryStart() >= m.MemoryLimit() {
			d.r.addf(path, "memory_start %#x is not below memory_limit %#x", m.MemoryStart(), m.MemoryLimit())
		}
		keys := d.checkAttributes(path, m.AttributeIndices(), onMapping)
		const prefix = "process.executable.build_id."
		if !keys[prefix+"gnu"] && !keys[prefix+"go"] && !keys[prefix+"htlhash"] {
			d.r.addf(path, "mapping has no build id (gnu, go or htlhash)")
		}
		if d.c.Devfiler && len(keys) > 0 && !keys[prefix+"htlhash"] {
			d.r.addf(path, "devfiler needs an htlhash on a mapping with attributes")
		}
	}
}

func (d *dictionary) checkLocations() {
	withFunctions := map[int32]bool{} // mappings
	for i, l := range d.t.LocationTable().All() {
		if i == 0 {
			continue
		}
		path := at("location_table", i)
		if d.index(path, "mapping_index", l.MappingIndex(), d.t.MappingTable().Len()) && l.MappingIndex() != 0 {
			m := d.t.MappingTable().At(int(l.MappingIndex()))
			if m.MemoryLimit() != 0 && (l.Address() < m.MemoryStart() || l.Address() > m.MemoryLimit()) {
				d.r.addf(path, "address %#x is outside of its mapping [%#x, %#x]", l.Address(), m.MemoryStart(), m.MemoryLimit())
			}
			if l.Lines().Len() > 0 {
				withFunctions[l.MappingIndex()] = true
			}
		}
		if keys := d.checkAttributes(path, l.AttributeIndices(), onLocation); !keys["profile.frame.type"] {
			d.r.addf(path, "location has no profile.frame.type")
		}
		for j, n := range l.Lines().All() {
			path := fmt.Sprintf("%s.lines[%d]", path, j)
			if d.index(path, "function_index", n.FunctionIndex(), d.t.FunctionTable().Len()) && n.FunctionIndex() == 0 {
				d.r.addf(path, "line has no function")
			}
			if n.Line() < 0 {
				d.r.addf(path, "line %d is negative", n.Line())
			}
			if n.Column() < 0 {
				d.r.addf(path, "column %d is negative", n.Column())
			}
		}
	}
	d.checkHasFunctions(withFunctions)
}

// checkHasFunctions checks that no mapping claims functions that nothing shows.
func (d *dictionary) checkHasFunctions(with map[int32]bool) {
	for i, m := range d.t.MappingTable().All() {
		for _, a := range m.AttributeIndices().All() {
			if a <= 0 || int(a) >= d.t.AttributeTable().Len() || with[int32(i)] {
				continue
			}
			v := d.t.AttributeTable().At(int(a))
			if key := d.text(v.KeyStrindex()); key == "pprof.mapping.has_functions" && v.Value().Type() == pcommon.ValueTypeBool &&
				v.Value().Bool() {
				d.r.addf(at("mapping_table", i), "%s is true, but no location of it has lines", key)
			}
		}
	}
}

// checkAttributes checks a list of indices into the attribute table and returns its keys.
func (d *dictionary) checkAttributes(path string, list pcommon.Int32Slice, where place) map[string]bool {
	keys := make(map[string]bool, list.Len())
	for _, i := range list.All() {
		if !d.index(path, "attribute index", i, d.t.AttributeTable().Len()) {
			continue
		}
		if i == 0 {
			d.r.addf(path, "attribute index is 0, which is no attribute")
			continue
		}
		a := d.t.AttributeTable().At(int(i))
		key := d.text(a.KeyStrindex())
		if keys[key] {
			d.r.addf(path, "attribute %s is there twice", key)
		}
		keys[key] = true
		d.c.checkAttribute(d.r, path, key, a.Value(), where)
	}
	return keys
}

// appendValue appends what no value that differs has, be it in type only.
func appendValue(b []byte, v pcommon.Value) []byte {
	b = append(b, byte(v.Type()))
	switch v.Type() {
	case pcommon.ValueTypeSlice:
		b = binary.AppendUvarint(b, uint64(v.Slice().Len()))
		for _, e := range v.Slice().All() {
			b = appendValue(b, e)
		}
	case pcommon.ValueTypeMap:
		b = binary.AppendUvarint(b, uint64(v.Map().Len()))
		entries := map[string]pcommon.Value{}
		for k, e := range v.Map().All() {
			entries[k] = e
		}
		for _, k := range slices.Sorted(maps.Keys(entries)) {
			b = appendValue(appendText(b, k), entries[k])
		}
	default:
		b = appendText(b, v.AsString()) // bytes as base64
	}
	return b
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// checkDuplicates finds entries with equal values. Where an entry refers to others, equal ones count as the same, so a
// duplicate is found however it is built.
func (d *dictionary) checkDuplicates() {
	b := make([]byte, 0, 256)
	num := func(n uint64) { b = binary.AppendUvarint(b, n) }
	ref := func(table []int32, i int32) {
		if i >= 0 && int(i) < len(table) {
			i = table[i]
		}
		num(uint64(uint32(i)))
	}
	set := func(list pcommon.Int32Slice) {
		ids := list.AsRaw()
		for i, id := range ids {
			if id >= 0 && int(id) < len(d.attributes) {
				ids[i] = d.attributes[id]
			}
		}
		slices.Sort(ids)
		num(uint64(len(ids)))
		for _, id := range ids {
			num(uint64(uint32(id)))
		}
	}
	find := func(table string, n int, write func(int)) []int32 {
		same, first := make([]int32, n), make(map[string]int32, n)
		for i := range n {
			b = b[:0]
			write(i)
			j, known := first[string(b)]
			if known {
				d.r.addf(at(table, i), "is a duplicate of index %d", j)
			} else {
				j = int32(i)
				first[string(b)] = j
			}
			same[i] = j
		}
		return same
	}
	t := d.t
	d.strings = find("string_table", t.StringTable().Len(), func(i int) { b = append(b, t.StringTable().At(i)...) })
	d.attributes = find("attribute_table", t.AttributeTable().Len(), func(i int) {
		a := t.AttributeTable().At(i)
		ref(d.strings, a.KeyStrindex())
		ref(d.strings, a.UnitStrindex())
		b = appendValue(b, a.Value())
	})
	d.functions = find("function_table", t.FunctionTable().Len(), func(i int) {
		f := t.FunctionTable().At(i)
		ref(d.strings, f.NameStrindex())
		ref(d.strings, f.SystemNameStrindex())
		ref(d.strings, f.FilenameStrindex())
		num(uint64(f.StartLine()))
	})
	d.mappings = find("mapping_table", t.MappingTable().Len(), func(i int) {
		m := t.MappingTable().At(i)
		num(m.MemoryStart())
		num(m.MemoryLimit())
		num(m.FileOffset())
		ref(d.strings, m.FilenameStrindex())
		set(m.AttributeIndices())
	})
	d.locations = find("location_table", t.LocationTable().Len(), func(i int) {
		l := t.LocationTable().At(i)
		ref(d.mappings, l.MappingIndex())
		num(l.Address())
		set(l.AttributeIndices())
		for _, n := range l.Lines().All() {
			ref(d.functions, n.FunctionIndex())
			num(uint64(n.Line()))
			num(uint64(n.Column()))
		}
	})
	d.links = find("link_table", t.LinkTable().Len(), func(i int) {
		trace, span := t.LinkTable().At(i).TraceID(), t.LinkTable().At(i).SpanID()
		b = append(append(b, trace[:]...), span[:]...)
	})
	d.stacks = find("stack_table", t.StackTable().Len(), func(i int) {
		for _, l := range t.StackTable().At(i).LocationIndices().All() {
			ref(d.locations, l)
		}
	})
}
