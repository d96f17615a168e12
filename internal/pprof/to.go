package pprof

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/pprof/profile"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

// ToOTLP translates a pprof profile: each of its sample types becomes a Profile, that of the default sample type first, in
// one ResourceProfiles and ScopeProfiles for each set of resource and scope labels (usually one). Samples with the label
// end_timestamp_ns become timestamps, in Profiles of their own beside those without. A value of 0 is left out where another
// value of the same sample, or another sample of the same type, says that there is something.
//
// A profile without samples gives a payload without resources. The dictionary follows the rules of opentelemetry-proto
// 1.11; what those or the conventions forbid (a mapping without build id, a period type without period) is kept in
// attributes of this project, see decision record 0018. Whether a label breaks the conventions for its key is not looked at.
//
// It is an error if the profile is not valid (CheckValid), or beyond the bounds of this package (the length of strings, the
// number of labels). Strings that are not UTF-8 are mended. p is not changed.
func ToOTLP(p *profile.Profile, opt ToOptions) (pprofile.Profiles, error) {
	if p == nil {
		return pprofile.Profiles{}, errors.New("there is no profile")
	}
	if err := p.CheckValid(); err != nil {
		return pprofile.Profiles{}, fmt.Errorf("checking the pprof profile: %w", err)
	}
	e := newEncoder(p)
	if len(p.Sample) == 0 {
		return e.out, nil
	}
	e.locate()
	if e.err != nil {
		return pprofile.Profiles{}, fmt.Errorf("reading locations: %w", e.err)
	}
	s := newSampler(e)
	for i, sample := range p.Sample {
		if err := s.add(sample); err != nil {
			return pprofile.Profiles{}, fmt.Errorf("reading sample %d: %w", i, err)
		}
	}
	s.emit(opt)
	if e.err != nil {
		return pprofile.Profiles{}, fmt.Errorf("writing profiles: %w", e.err)
	}
	return e.out, nil
}

// encoder makes the dictionary. Its first error sticks.
type encoder struct {
	p    *profile.Profile
	out  pprofile.Profiles
	dict pprofile.ProfilesDictionary
	err  error

	texts       texts
	textIndex   []int32 // text -> index in the string table, 0 if it is not there yet
	attributeOf map[source]int32
	functionOf  map[function]int32
	mappingOf   map[wireMapping]int32
	locationOf  lists
	linkOf      map[link]int32
	stackOf     lists
	sets        lists // of attribute indices, ascending

	byID     ids     // of pprof's locations
	location []int32 // by place in p.Location: index in the location table, 0 if no sample refers to it
	buf      []int32
}

func newEncoder(p *profile.Profile) *encoder {
	e := &encoder{
		p: p, out: pprofile.NewProfiles(), texts: newTexts(), textIndex: make([]int32, 1),
		attributeOf: map[source]int32{}, functionOf: map[function]int32{}, mappingOf: map[wireMapping]int32{},
		locationOf: newLists(), linkOf: map[link]int32{{}: 0}, stackOf: newLists(), sets: newLists(),
	}
	e.dict = e.out.Dictionary()
	e.dict.StringTable().Append("")
	e.dict.AttributeTable().AppendEmpty()
	e.dict.FunctionTable().AppendEmpty()
	e.dict.MappingTable().AppendEmpty()
	e.dict.LocationTable().AppendEmpty()
	e.dict.StackTable().AppendEmpty()
	e.dict.LinkTable().AppendEmpty()
	return e
}

// mended checks and mends a string of pprof, which may hold any bytes.
func mended(s string) (string, error) {
	if len(s) > maxString {
		return "", tooLong(s)
	}
	return strings.ToValidUTF8(s, "\uFFFD"), nil
}

func (e *encoder) fail(err error) {
	if e.err == nil {
		e.err = err
	}
}

// text returns the id of a string.
func (e *encoder) text(s string) int32 {
	id, err := e.texts.id(s, mended)
	if err != nil {
		e.fail(err)
	}
	for len(e.textIndex) < len(e.texts.all) {
		e.textIndex = append(e.textIndex, 0)
	}
	return id
}

// mend returns the string as it may be written.
func (e *encoder) mend(s string) string { return e.texts.all[e.text(s)] }

// stringOf returns the index of a text in the string table.
func (e *encoder) stringOf(text int32) int32 {
	if text != 0 && e.textIndex[text] == 0 {
		e.textIndex[text] = int32(e.dict.StringTable().Len())
		e.dict.StringTable().Append(e.texts.all[text])
	}
	return e.textIndex[text]
}

// attribute returns the index of an attribute in the attribute table.
func (e *encoder) attribute(key string, v pcommon.Value, unit string) int32 {
	s := source{key: e.text(key), unit: e.text(unit), kind: v.Type()}
	switch s.kind {
	case pcommon.ValueTypeStr:
		s.str = e.text(v.Str())
	case pcommon.ValueTypeInt:
		s.num = v.Int()
	default:
		text, err := valueJSON(v, "")
		if err != nil {
			e.fail(fmt.Errorf("attribute %.100q: %w", key, err))
		}
		s.str = e.text(text)
	}
	index, known := e.attributeOf[s]
	if !known {
		table := e.dict.AttributeTable()
		index = int32(table.Len())
		e.attributeOf[s] = index
		a := table.AppendEmpty()
		a.SetKeyStrindex(e.stringOf(s.key))
		a.SetUnitStrindex(e.stringOf(s.unit))
		if s.kind == pcommon.ValueTypeStr {
			a.Value().SetStr(e.texts.all[s.str]) // mended
		} else {
			v.CopyTo(a.Value())
		}
	}
	return index
}

// set makes a list of attribute indices with every key once, in ascending order. Of equal keys the first stays.
func (e *encoder) set(attributes []attribute) []int32 {
	e.buf = e.buf[:0]
	keys := make(map[string]bool, len(attributes))
	for _, a := range attributes {
		if !keys[a.key] {
			keys[a.key] = true
			e.buf = append(e.buf, e.attribute(a.key, a.value, a.unit))
		}
	}
	list, _ := e.sets.id(sorted(e.buf))
	return e.sets.all[list]
}

func (e *encoder) link(l link) int32 {
	index, known := e.linkOf[l]
	if !known {
		index = int32(e.dict.LinkTable().Len())
		e.linkOf[l] = index
		to := e.dict.LinkTable().AppendEmpty()
		to.SetTraceID(l.trace)
		to.SetSpanID(l.span)
	}
	return index
}

// stack returns the index of a sample's stack.
func (e *encoder) stack(locations []*profile.Location) (int32, error) {
	e.buf = e.buf[:0]
	for _, l := range locations {
		i, ok := e.byID.find(l.ID)
		if !ok || e.p.Location[i] != l {
			return 0, fmt.Errorf("location %d is not in the profile's table", l.ID)
		}
		e.buf = append(e.buf, e.location[i])
	}
	id, isNew := e.stackOf.id(e.buf)
	if isNew {
		e.dict.StackTable().AppendEmpty().LocationIndices().FromRaw(e.buf)
	}
	return id, nil // ids are given in the order of the table
}

// ids finds the places of a table's entries by their ids, which usually are 1, 2, 3 and so on.
type ids struct {
	dense  []int32 // place + 1
	sparse map[uint64]int32
}

func newIDs(n int) ids { return ids{dense: make([]int32, n+1), sparse: map[uint64]int32{}} }

func (t ids) put(id uint64, place int) {
	if id < uint64(len(t.dense)) {
		t.dense[id] = int32(place + 1)
	} else {
		t.sparse[id] = int32(place)
	}
}

func (t ids) find(id uint64) (place int32, ok bool) {
	if id < uint64(len(t.dense)) {
		return t.dense[id] - 1, t.dense[id] > 0
	}
	place, ok = t.sparse[id]
	return place, ok
}
