package pprof

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/google/pprof/profile"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"

	ownprofile "github.com/hostprofiles/hostprofiles/internal/profile"
)

// FromOTLP translates a payload to pprof: a profile for each period type, period and pair of drop and keep frames, with the
// sample types as its columns that the same samples (stack, labels, and time if kept) have values of, or of which a scope
// says that they belong together (pprof.scope.sample_type_order). Resources and scopes become labels of their samples, so
// that those of all processes are in one profile. The profiles come in the order in which the payload begins them; there
// are none if it has no samples. They pass CheckValid.
//
// Samples of a result may share their maps of labels: change them for all samples (profile.SetLabel does) or copy them.
//
// A payload that breaks the rules of opentelemetry-proto 1.11 is an error, as is one beyond the bounds of this package (the
// length of strings, the number of attributes, FromOptions.MaxBytes) or with a time after 2262. p is not changed.
func FromOTLP(p pprofile.Profiles, opt FromOptions) ([]*profile.Profile, error) {
	limit := opt.MaxBytes
	if limit == 0 {
		limit = 64<<20 + 64*payloadSize(p)
	}
	b := &budget{limit: limit, left: limit}
	d, err := readDictionary(p.Dictionary(), b)
	if err != nil {
		return nil, err
	}
	t := &translation{
		d: d, timestamps: opt.Timestamps, familyOf: map[familyKey]*family{}, bases: newLists(),
		labels: make([]labels, 1), labelID: map[labels]int32{{}: 0},
	}
	for i, rp := range p.ResourceProfiles().All() {
		if err := t.resource(rp); err != nil {
			return nil, fmt.Errorf("reading resource_profiles[%d]: %w", i, err)
		}
	}
	var out []*profile.Profile
	for _, f := range t.families {
		if out, err = t.emit(out, f); err != nil {
			return nil, fmt.Errorf("making a pprof profile: %w", err)
		}
	}
	return out, nil
}

// payloadSize is about the size of the payload in bytes, without what is referred to more than once.
func payloadSize(p pprofile.Profiles) (n int64) {
	t := p.Dictionary()
	for _, s := range t.StringTable().All() {
		n += int64(len(s))
	}
	entries := t.StringTable().Len() + t.AttributeTable().Len() + t.FunctionTable().Len() + t.MappingTable().Len() +
		t.LinkTable().Len()
	for _, l := range t.LocationTable().All() {
		entries += 1 + l.Lines().Len() + l.AttributeIndices().Len()
	}
	for _, s := range t.StackTable().All() {
		entries += 1 + s.LocationIndices().Len()
	}
	for _, rp := range p.ResourceProfiles().All() {
		entries += 1 + rp.Resource().Attributes().Len()
		for _, sp := range rp.ScopeProfiles().All() {
			entries += 1 + sp.Scope().Attributes().Len()
			for _, v := range sp.Profiles().All() {
				entries += 1 + v.AttributeIndices().Len()
				for _, s := range v.Samples().All() {
					entries += 1 + s.AttributeIndices().Len() + s.Values().Len() + 8*s.TimestampsUnixNano().Len()
				}
			}
		}
	}
	return n + 2*int64(entries)
}

// translation is the state of FromOTLP.
type translation struct {
	d          *dictionary
	timestamps bool
	families   []*family
	familyOf   map[familyKey]*family

	bases   lists // of the tags that all samples of a profile have
	labels  []labels
	labelID map[labels]int32
}

// labels are what makes the labels of a sample, all by id.
type labels struct{ base, attributes, link int32 }

// familyKey is what profiles agree in that may become columns of the same pprof profile, all texts by id.
type familyKey struct {
	periodType, periodUnit int32
	period                 int64
	drop, keep             int32
}

// family holds the samples of all profiles with one key.
type family struct {
	key      familyKey
	columns  []column
	columnID map[columnKey]int32
	rows     []row
	rowID    map[rowKey]int32
	cells    []cell
	profiles []header
	sameAs   []int32 // by column: a column of the same pprof profile, see find
}

type columnKey struct {
	kind, unit int32 // texts
	number     int64 // of the columns with this kind and unit
}

type column struct {
	columnKey
	order int64 // place among the profile's columns as far as a scope says so
}

// row is one pprof sample in the making.
type row struct {
	rowKey
	column int32 // one that it has a value of
	place  int   // among the rows of its pprof profile
}

type rowKey struct {
	labels, stack int32
	time          uint64 // 0 for none
}

type cell struct {
	row, column int32
	value       int64
}

// header is what one OTLP profile says once of all its samples.
type header struct {
	column              int32
	time, duration      int64
	comments            []int32 // texts
	docURL, defaultType int32
	executable          int32
}

func (t *translation) resource(rp pprofile.ResourceProfiles) error {
	var h header
	base, err := t.mapTags(nil, onResource, rp.Resource().Attributes(), func(key string, v pcommon.Value, s source) bool {
		if key == attrExecutable && s.kind == pcommon.ValueTypeStr {
			h.executable = s.str
		}
		return false
	})
	if err != nil {
		return fmt.Errorf("resource: %w", err)
	}
	if base, err = t.fieldTag(base, labelResourceSchema, rp.SchemaUrl(), ownprofile.SchemaURL); err != nil {
		return fmt.Errorf("schema_url: %w", err)
	}
	for i, sp := range rp.ScopeProfiles().All() {
		if err := t.scope(slices.Clip(base), h, sp); err != nil {
			return fmt.Errorf("scope_profiles[%d]: %w", i, err)
		}
	}
	return nil
}

// mapTags appends the tags of a map of attributes, without those that taken takes.
func (t *translation) mapTags(
	tags []int32, at place, m pcommon.Map, taken func(string, pcommon.Value, source) bool,
) ([]int32, error) {
	if m.Len() > maxKeys {
		return nil, errTooManyKeys
	}
	keys := make(map[int32]bool, m.Len())
	for key, v := range m.All() {
		k, err := t.d.text(key)
		if err != nil {
			return nil, err
		}
		s, err := t.d.source(k, 0, v)
		if err != nil {
			return nil, err
		}
		if keys[k] {
			return nil, fmt.Errorf("attribute %q is there twice", key)
		}
		keys[k] = true
		if taken(key, v, s) {
			continue
		}
		id, err := t.d.tag(at, false, s, v)
		if err != nil {
			return nil, err
		}
		tags = append(tags, id)
	}
	return tags, nil
}

// fieldTag appends the label of a field that is set and not what ToOTLP writes without a label.
func (t *translation) fieldTag(tags []int32, label, value, usual string) ([]int32, error) {
	if value == usual {
		return tags, nil
	}
	id, err := t.d.text(value)
	if err != nil || id == 0 {
		return tags, err
	}
	return append(tags, t.d.fieldTag(label, id)), nil
}

func (t *translation) scope(base []int32, h header, sp pprofile.ScopeProfiles) error {
	var order []int64
	base, err := t.mapTags(base, onScope, sp.Scope().Attributes(), func(key string, v pcommon.Value, s source) bool {
		switch {
		case key == attrDefaultType && s.kind == pcommon.ValueTypeStr:
			h.defaultType = s.str
			return true
		case key == attrTypeOrder:
			order = typeOrder(v)
			return order != nil
		}
		return false
	})
	if err != nil {
		return fmt.Errorf("scope: %w", err)
	}
	for _, f := range []struct{ label, value, usual string }{
		{labelScopeName, sp.Scope().Name(), ScopeName}, {labelScopeVersion, sp.Scope().Version(), ""},
		{labelScopeSchema, sp.SchemaUrl(), ownprofile.SchemaURL},
	} {
		if base, err = t.fieldTag(base, f.label, f.value, f.usual); err != nil {
			return fmt.Errorf("scope: %w", err)
		}
	}
	if len(order) != sp.Profiles().Len() {
		order = nil
	}
	first := map[*family]int32{} // a column of this scope's
	for i, p := range sp.Profiles().All() {
		place := int64(math.MaxInt64)
		if order != nil {
			place = order[i]
		}
		f, column, err := t.profile(slices.Clip(base), h, place, p)
		if err != nil {
			return fmt.Errorf("profiles[%d]: %w", i, err)
		}
		if other, ok := first[f]; ok && order != nil {
			f.join(column, other)
		} else {
			first[f] = column
		}
	}
	return nil
}

// typeOrder reads the attribute pprof.scope.sample_type_order: for each profile of the scope, the column that it was. It is
// nil if the value is something else.
func typeOrder(v pcommon.Value) (order []int64) {
	if v.Type() != pcommon.ValueTypeSlice {
		return nil
	}
	for _, e := range v.Slice().All() {
		if e.Type() != pcommon.ValueTypeInt {
			return nil
		}
		order = append(order, e.Int())
	}
	return order
}

// find returns the column that stands for all those of a pprof profile.
func (f *family) find(column int32) int32 {
	for f.sameAs[column] != column {
		f.sameAs[column] = f.sameAs[f.sameAs[column]]
		column = f.sameAs[column]
	}
	return column
}

// join puts two columns into the same pprof profile. The lower one stands for both.
func (f *family) join(a, b int32) {
	a, b = f.find(a), f.find(b)
	f.sameAs[max(a, b)] = min(a, b)
}

var errOverflow = errors.New("sum of the values overflows")

// sum adds without wrapping around.
func sum(a, b int64) (int64, error) {
	s := a + b
	if (a < 0) == (b < 0) && (s < 0) != (a < 0) {
		return 0, errOverflow
	}
	return s, nil
}
