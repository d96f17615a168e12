package pprof

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
	"go.opentelemetry.io/collector/pdata/pcommon"

	ownprofile "github.com/hostprofiles/hostprofiles/internal/profile"
)

// labelSet is what the labels of a sample become.
type labelSet struct {
	resource, scope, profile int32 // lists of decoded labels
	attributes               int32 // list of indices into the attribute table
	link                     int32 // index
}

// decoder reads the labels of samples, every set of them once.
type decoder struct {
	*encoder
	sets    []labelSet
	setOf   map[string]int32
	labels  []decoded
	labelOf map[wireTag]int32
	lists   lists // of decoded labels
	entries []entry
	key     []byte
}

// decoded is a label that was read: an attribute, or a field of OTLP if there is a name.
type decoded struct {
	attribute
	tag   tag
	field string // the label's key
	ok    bool
}

// wireTag is a tag with its texts by id.
type wireTag struct {
	key, str, unit int32
	num            int64
	numeric        bool
	forced         bool
}

// entry is all labels of a sample that have the same key.
type entry struct {
	key     int32 // text
	strings []string
	numbers []int64
	units   []string
}

func newDecoder(e *encoder) *decoder {
	return &decoder{
		encoder: e, setOf: map[string]int32{}, labels: make([]decoded, 1), labelOf: map[wireTag]int32{}, lists: newLists(),
	}
}

// timestamp returns a sample's time; 0 if it has none.
func timestamp(s *profile.Sample) int64 {
	n, units := s.NumLabel[labelTimestamp], s.NumUnit[labelTimestamp]
	if len(n) != 1 || n[0] <= 0 || len(s.Label[labelTimestamp]) > 0 {
		return 0
	}
	if len(units) > 0 && units[0] != unitNanoseconds && units[0] != "" {
		return 0
	}
	return n[0]
}

// read returns the set of a sample's labels. skipTime leaves the timestamp out.
func (d *decoder) read(s *profile.Sample, skipTime bool) (labelSet, error) {
	d.entries = d.entries[:0]
	if n := len(s.Label) + len(s.NumLabel); n > maxLabels {
		return labelSet{}, fmt.Errorf("it has %d labels, more than %d", n, maxLabels)
	}
	for key, values := range s.Label {
		d.entries = append(d.entries, entry{key: d.text(key), strings: values})
	}
	for key, values := range s.NumLabel {
		if skipTime && key == labelTimestamp {
			continue
		}
		units := s.NumUnit[key]
		if len(units) > 0 && len(units) != len(values) {
			return labelSet{}, fmt.Errorf("label %.100q has %d values, but %d units", key, len(values), len(units))
		}
		if !slices.ContainsFunc(units, func(u string) bool { return u != "" }) {
			units = nil
		}
		d.entries = append(d.entries, entry{key: d.text(key), numbers: values, units: units})
	}
	slices.SortStableFunc(d.entries, func(a, b entry) int { return int(a.key - b.key) })
	d.key = d.key[:0]
	for i := range d.entries {
		if err := d.appendKey(&d.entries[i]); err != nil {
			return labelSet{}, err
		}
	}
	if d.err != nil {
		return labelSet{}, d.err
	}
	id, known := d.setOf[string(d.key)]
	if !known {
		id = int32(len(d.sets))
		d.setOf[string(d.key)] = id
		d.sets = append(d.sets, d.decode(merged(d.entries)))
	}
	return d.sets[id], nil
}

// appendKey appends what tells the labels of a key from others.
func (d *decoder) appendKey(e *entry) error {
	if n := len(d.texts.all[e.key]); n > maxLabel {
		return fmt.Errorf("key of a label has %d bytes, more than %d", n, maxLabel)
	}
	word := func(n int32) { d.key = binary.LittleEndian.AppendUint32(d.key, uint32(n)) }
	word(e.key)
	word(int32(len(e.strings)))
	for _, s := range e.strings {
		word(d.text(s))
	}
	word(int32(len(e.numbers)))
	for _, n := range e.numbers {
		d.key = binary.LittleEndian.AppendUint64(d.key, uint64(n))
	}
	word(int32(len(e.units)))
	for _, u := range e.units {
		word(d.text(u))
	}
	return nil
}

// merged joins neighbours with the same key: strings and numbers, or keys that are the same once they are mended.
func merged(entries []entry) []entry {
	var out []entry
	for _, e := range entries {
		if n := len(out); n > 0 && out[n-1].key == e.key {
			o := &out[n-1]
			if len(e.units) > 0 || len(o.units) > 0 {
				o.units = append(padded(o.units, len(o.numbers)), padded(e.units, len(e.numbers))...)
			}
			o.strings = slices.Concat(o.strings, e.strings)
			o.numbers = slices.Concat(o.numbers, e.numbers)
			continue
		}
		out = append(out, e)
	}
	return out
}

// padded returns a copy of units with n elements.
func padded(units []string, n int) []string {
	return append(slices.Clone(units), make([]string, n-len(units))...)
}

// decode makes the set of labels. They are taken in the order of their keys, so that equal profiles give equal payloads.
func (d *decoder) decode(entries []entry) (s labelSet) {
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(d.texts.all[a.key], d.texts.all[b.key]) })
	l, isLink := d.linkOfLabels(entries)
	s.link = d.encoder.link(l)
	forced := isLink || d.forcedLink(entries)
	var resource, scope, ofProfile []int32
	var sample []attribute
	type name struct {
		at  place
		key string
	}
	used := map[name]bool{} // two labels may mean the same attribute: "x" and "x:json"
	for _, e := range entries {
		if isLink && linkLabel(d.texts.all[e.key]) {
			continue
		}
		id, ok := d.label(e, forced)
		a := d.labels[id]
		n := name{a.at, a.key}
		if !ok || !a.ok || used[n] || isField(a.at, a.key) {
			sample = append(sample, d.odd(e))
			continue
		}
		used[n] = a.key != ""
		switch a.at {
		case onResource:
			resource = append(resource, id)
		case onScope:
			scope = append(scope, id)
		case onProfile:
			ofProfile = append(ofProfile, id)
		default:
			sample = append(sample, a.attribute)
		}
	}
	s.resource, _ = d.lists.id(resource)
	s.scope, _ = d.lists.id(scope)
	s.profile, _ = d.lists.id(ofProfile)
	s.attributes, _ = d.encoder.sets.id(d.set(sample))
	return s
}

// isField tells whether an attribute is a field in pprof, which FromOTLP would make of it again instead of a label.
func isField(at place, key string) bool {
	switch key {
	case attrComment, attrDocURL, attrDropFrames, attrKeepFrames, attrColumn, attrSampleType, attrPeriod, attrWindow:
		return at == onProfile
	case attrDefaultType, attrTypeOrder:
		return at == onScope
	}
	return false
}

// odd makes the attribute of labels that no other can stand for.
func (d *decoder) odd(e entry) attribute {
	texts := make([]string, len(e.strings))
	for i, s := range e.strings {
		texts[i] = d.mend(s)
	}
	units := make([]string, len(e.units))
	for i, u := range e.units {
		units[i] = d.mend(u)
	}
	return newOddLabel(d.texts.all[e.key], texts, e.numbers, units)
}

// label decodes the labels of a key, if there is just one.
func (d *decoder) label(e entry, forced bool) (id int32, ok bool) {
	forced = forced && linkLabel(strings.TrimSuffix(d.texts.all[e.key], suffixJSON))
	t := wireTag{key: e.key, forced: forced}
	switch {
	case len(e.strings) == 1 && len(e.numbers) == 0:
		t.str = d.text(e.strings[0])
	case len(e.numbers) == 1 && len(e.strings) == 0:
		t.num, t.numeric = e.numbers[0], true
		if len(e.units) == 1 {
			t.unit = d.text(e.units[0])
		}
	default:
		return 0, false
	}
	id, known := d.labelOf[t]
	if !known {
		all := d.texts.all
		id = int32(len(d.labels))
		d.labels = append(d.labels, decodeLabel(tag{all[t.key], all[t.str], t.num, all[t.unit], t.numeric}, forced))
		d.labelOf[t] = id
	}
	return id, true
}

func decodeLabel(t tag, forced bool) decoded {
	l := decoded{tag: t}
	usual, at := "", onScope
	switch t.key {
	case labelScopeName:
		usual = ScopeName
	case labelScopeVersion:
	case labelScopeSchema:
		usual = ownprofile.SchemaURL
	case labelResourceSchema:
		usual, at = ownprofile.SchemaURL, onResource
	default:
		l.attribute, l.ok = t.attribute(forced)
		return l
	}
	l.attribute, l.field = attribute{at: at, value: pcommon.NewValueStr(t.str)}, t.key
	l.ok = !t.numeric && t.str != "" && t.str != usual
	return l
}

// linkOfLabels returns the link that the labels tell of.
func (d *decoder) linkOfLabels(entries []entry) (link, bool) {
	var trace, span string
	for _, e := range entries {
		if len(e.strings) != 1 || len(e.numbers) > 0 {
			continue
		}
		switch d.texts.all[e.key] {
		case labelTraceID:
			trace = e.strings[0]
		case labelSpanID:
			span = e.strings[0]
		}
	}
	if l, ok := parseLink(trace, span); ok {
		return l, true
	}
	return link{}, false
}

// forcedLink tells whether two attributes are JSON only because as plain labels they would be a link.
func (d *decoder) forcedLink(entries []entry) bool {
	var trace, span string
	for _, e := range entries {
		if len(e.strings) != 1 || len(e.numbers) > 0 {
			continue
		}
		switch d.texts.all[e.key] {
		case labelTraceID + suffixJSON:
			trace = strings.Trim(e.strings[0], `"`)
		case labelSpanID + suffixJSON:
			span = strings.Trim(e.strings[0], `"`)
		}
	}
	_, ok := parseLink(trace, span)
	return ok
}
