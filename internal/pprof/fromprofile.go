package pprof

import (
	"fmt"
	"math"
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

// profile reads a profile and says which column of which family it is.
func (t *translation) profile(base []int32, h header, order int64, p pprofile.Profile) (*family, int32, error) {
	r := profileReader{translation: t, base: base, header: h}
	if err := r.types(p); err != nil {
		return nil, 0, err
	}
	if err := r.window(p); err != nil {
		return nil, 0, err
	}
	set, err := t.d.attributeSet(p.AttributeIndices())
	if err != nil {
		return nil, 0, err
	}
	for _, id := range t.d.sets.all[set] {
		taken, err := r.attribute(id)
		if err != nil {
			return nil, 0, err
		}
		if taken {
			continue
		}
		tag, err := t.d.tag(onProfile, false, t.d.attributes[id], t.d.values[id])
		if err != nil {
			return nil, 0, err
		}
		r.base = append(r.base, tag)
	}
	f := t.family(r.family)
	c := f.column(r.column, order)
	r.header.column = c
	f.profiles = append(f.profiles, r.header)
	slices.Sort(r.base)
	b, isNew := t.bases.id(r.base)
	if isNew {
		if err := t.d.budget.take(len(r.base), 8); err != nil {
			return nil, 0, err
		}
	}
	for i, s := range p.Samples().All() {
		if err := t.sample(f, c, b, s); err != nil {
			return nil, 0, fmt.Errorf("samples[%d]: %w", i, err)
		}
	}
	return f, c, nil
}

func (t *translation) family(key familyKey) *family {
	f, known := t.familyOf[key]
	if !known {
		f = &family{key: key, columnID: map[columnKey]int32{}, rowID: map[rowKey]int32{}}
		t.familyOf[key] = f
		t.families = append(t.families, f)
	}
	return f
}

func (f *family) column(key columnKey, order int64) int32 {
	id, known := f.columnID[key]
	if !known {
		id = int32(len(f.columns))
		f.columnID[key] = id
		f.columns = append(f.columns, column{columnKey: key, order: order})
		f.sameAs = append(f.sameAs, id)
	}
	f.columns[id].order = min(f.columns[id].order, order)
	return id
}

// profileReader reads what a profile says once.
type profileReader struct {
	*translation
	base   []int32 // tags
	header header
	family familyKey
	column columnKey
}

func (r *profileReader) types(p pprofile.Profile) (err error) {
	for _, f := range []struct {
		to    *int32
		index int32
		name  string
	}{
		{&r.column.kind, p.SampleType().TypeStrindex(), "sample_type.type_strindex"},
		{&r.column.unit, p.SampleType().UnitStrindex(), "sample_type.unit_strindex"},
		{&r.family.periodType, p.PeriodType().TypeStrindex(), "period_type.type_strindex"},
		{&r.family.periodUnit, p.PeriodType().UnitStrindex(), "period_type.unit_strindex"},
	} {
		if *f.to, err = at(r.d.textID, f.index, f.name); err != nil {
			return err
		}
	}
	r.family.period = p.Period()
	return nil
}

func (r *profileReader) window(p pprofile.Profile) error {
	start, duration := uint64(p.Time()), p.DurationNano()
	if start > math.MaxInt64 || duration > math.MaxInt64-start {
		return fmt.Errorf("time_unix_nano %d and duration_nano %d go beyond the year 2262", start, duration)
	}
	r.header.time, r.header.duration = int64(start), int64(duration)
	return nil
}

// attribute takes the attributes that pprof has a field for.
func (r *profileReader) attribute(id int32) (taken bool, err error) {
	s, v := r.d.attributes[id], r.d.values[id]
	if s.unit != 0 {
		return false, nil
	}
	key := r.d.texts.all[s.key]
	if s.kind == pcommon.ValueTypeStr {
		switch key {
		case attrDocURL:
			r.header.docURL = s.str
		case attrDropFrames:
			r.family.drop = s.str
		case attrKeepFrames:
			r.family.keep = s.str
		default:
			return false, nil
		}
		return true, nil
	}
	if key == attrColumn && s.kind == pcommon.ValueTypeInt {
		r.column.number = s.num
		return true, nil
	}
	if s.kind != pcommon.ValueTypeSlice {
		return false, nil
	}
	list := v.Slice()
	switch key {
	case attrComment:
		if !isList(list, -1, pcommon.ValueTypeStr) {
			return false, nil
		}
		for _, e := range list.All() {
			c, err := r.d.text(e.Str())
			if err != nil {
				return false, err
			}
			r.header.comments = append(r.header.comments, c)
		}
		return true, r.d.budget.take(list.Len(), 64)
	case attrSampleType:
		return r.typeAttribute(list, 2, &r.column.kind, &r.column.unit)
	case attrPeriod:
		taken, err = r.typeAttribute(list, 3, &r.family.periodType, &r.family.periodUnit)
		if taken {
			r.family.period = list.At(2).Int()
		}
		return taken, err
	case attrWindow:
		if isList(list, 2, pcommon.ValueTypeInt, pcommon.ValueTypeInt) {
			r.header.time, r.header.duration = list.At(0).Int(), list.At(1).Int()
			return true, nil
		}
	}
	return false, nil
}

// typeAttribute reads [type, unit] and, if there are n = 3, an integer.
func (r *profileReader) typeAttribute(list pcommon.Slice, n int, kind, unit *int32) (taken bool, err error) {
	if !isList(list, n, pcommon.ValueTypeStr, pcommon.ValueTypeStr, pcommon.ValueTypeInt) {
		return false, nil
	}
	if *kind, err = r.d.text(list.At(0).Str()); err == nil {
		*unit, err = r.d.text(list.At(1).Str())
	}
	return true, err
}

// isList tells whether a list has n elements (any number if n is negative) of these types, the last one's repeating.
func isList(list pcommon.Slice, n int, types ...pcommon.ValueType) bool {
	if n >= 0 && list.Len() != n {
		return false
	}
	for i, e := range list.All() {
		if e.Type() != types[min(i, len(types)-1)] {
			return false
		}
	}
	return true
}

// sample adds the values of a sample to the rows of its column.
func (t *translation) sample(f *family, column, base int32, s pprofile.Sample) (err error) {
	l := labels{base: base}
	var r rowKey
	if r.stack, err = at(t.d.stackID, s.StackIndex(), "stack_index"); err != nil {
		return err
	}
	if l.link, err = at(t.d.linkID, s.LinkIndex(), "link_index"); err != nil {
		return err
	}
	if l.attributes, err = t.d.attributeSet(s.AttributeIndices()); err != nil {
		return err
	}
	r.labels = intern(&t.labels, t.labelID, l)
	times, values := s.TimestampsUnixNano(), s.Values()
	switch n := values.Len(); {
	case n == 0 && times.Len() == 0:
		return fmt.Errorf("it has neither values nor timestamps")
	case times.Len() == 0 && n != 1:
		return fmt.Errorf("it has %d values without timestamps, not 1", n)
	case times.Len() == 0:
		f.add(r, column, values.At(0))
		return nil
	case n != 0 && n != times.Len():
		return fmt.Errorf("it has %d timestamps, but %d values", times.Len(), n)
	}
	total := int64(0)
	for i := range times.Len() {
		value := int64(1)
		if values.Len() > 0 {
			value = values.At(i)
		}
		if !t.timestamps {
			if total, err = sum(total, value); err != nil {
				return err
			}
			continue
		}
		if r.time = times.At(i); r.time > math.MaxInt64 {
			return fmt.Errorf("timestamp %d is beyond the year 2262", r.time)
		}
		f.add(r, column, value)
	}
	if !t.timestamps {
		f.add(r, column, total)
	}
	return nil
}

func (f *family) add(key rowKey, column int32, value int64) {
	id, known := f.rowID[key]
	if !known {
		id = int32(len(f.rows))
		f.rows = append(f.rows, row{rowKey: key, column: column})
		f.rowID[key] = id
	} else if other := f.rows[id].column; other != column {
		f.join(column, other)
	}
	f.cells = append(f.cells, cell{row: id, column: column, value: value})
}
