package pprof

import (
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// place is what an attribute stands on.
type place uint8

const (
	onSample place = iota
	onResource
	onScope
	onProfile
	onCarrier // of a mapping or location: where it stands is plain
	onField   // what is no attribute in OTLP
)

// prefix comes before an attribute's key where the key alone does not tell the place.
func (p place) prefix() string {
	switch p {
	case onResource:
		return "otel.resource."
	case onScope:
		return "otel.scope."
	case onProfile:
		return "otel.profile."
	default:
		return "otel.sample."
	}
}

// suffixJSON ends the key of a label whose value is the JSON text of the attribute's (see valueJSON): for what is neither
// a string nor an integer, and where the plain label would be lost or mistaken. Parsers of pprof leave out labels whose
// value is the empty string, or 0 without a unit.
const suffixJSON = ":json"

// resourceKey tells whether a key means a resource wherever it is met, so that it needs no prefix: the namespaces of the
// semantic conventions 1.44 for resources, without the attributes of samples in them.
func resourceKey(key string) bool {
	namespace, rest, ok := strings.Cut(key, ".")
	if !ok || rest == "" {
		return false
	}
	switch namespace {
	case "aws", "azure", "cloud", "container", "deployment", "device", "faas", "gcp", "host", "k8s", "os", "service", "telemetry":
		return true
	case "process":
		return rest != "context_switch.type" && rest != "state" && !strings.HasPrefix(rest, "context.")
	}
	return false
}

// labelKey is the key of an attribute's label.
func (p place) labelKey(key string) string {
	switch p {
	case onCarrier:
		return key
	case onResource:
		if resourceKey(key) {
			return key
		}
	case onSample:
		at, _ := cutPlace(key)
		if at == onSample && !strings.HasPrefix(key, onSample.prefix()) {
			return key
		}
	}
	return p.prefix() + key
}

// cutPlace is the inverse of labelKey.
func cutPlace(label string) (p place, key string) {
	if strings.HasPrefix(label, "otel.") {
		for _, p := range []place{onSample, onResource, onScope, onProfile} {
			if key, ok := strings.CutPrefix(label, p.prefix()); ok {
				return p, key
			}
		}
	}
	if resourceKey(label) {
		return onResource, label
	}
	return onSample, label
}

// reserved tells whether a plain label of that key would not be an attribute.
func reserved(label string) bool {
	switch label {
	case labelScopeName, labelScopeVersion, labelScopeSchema, labelResourceSchema, labelTimestamp:
		return true
	}
	return strings.HasSuffix(label, suffixJSON) || strings.HasPrefix(label, attrLabel)
}

// tag is a label: a key with a string, or with a number and its unit.
type tag struct {
	key     string
	str     string
	num     int64
	unit    string
	numeric bool
}

// newTag makes the label of an attribute; only attributes of samples and profiles have units.
func newTag(at place, key string, v pcommon.Value, unit string) (tag, error) {
	t := tag{key: at.labelKey(key)}
	switch v.Type() {
	case pcommon.ValueTypeStr:
		if v.Str() != "" && unit == "" && !reserved(t.key) {
			t.str = v.Str()
			return t, checkText(t.str)
		}
	case pcommon.ValueTypeInt:
		if (v.Int() != 0 || unit != "") && !reserved(t.key) {
			t.num, t.unit, t.numeric = v.Int(), unit, true
			return t, nil
		}
	}
	return newJSONTag(at, key, v, unit)
}

// newJSONTag makes the label that is never mistaken.
func newJSONTag(at place, key string, v pcommon.Value, unit string) (tag, error) {
	text, err := valueJSON(v, unit)
	return tag{key: at.labelKey(key) + suffixJSON, str: text}, err
}

// attribute is an attribute with its place.
type attribute struct {
	at    place
	key   string
	value pcommon.Value
	unit  string
}

// attribute is the inverse of newTag; ok is false for a label that newTag does not make. forced says that an attribute with
// the name of a link's label must be JSON, so as not to be mistaken.
func (t tag) attribute(forced bool) (a attribute, ok bool) {
	label, isJSON := strings.CutSuffix(t.key, suffixJSON)
	a.at, a.key = cutPlace(label)
	if a.key == "" || isJSON && t.numeric {
		return a, false
	}
	switch {
	case isJSON:
		var err error
		if a.value, a.unit, err = parseValue(t.str); err != nil {
			return a, false
		}
		if again, err := newJSONTag(a.at, a.key, a.value, a.unit); err != nil || again != t {
			return a, false
		}
		if forced && linkLabel(label) {
			return a, true
		}
	case t.numeric:
		a.value, a.unit = pcommon.NewValueInt(t.num), t.unit
	default:
		a.value = pcommon.NewValueStr(t.str)
	}
	if a.unit != "" && (a.at == onResource || a.at == onScope) {
		return a, false
	}
	again, err := newTag(a.at, a.key, a.value, a.unit)
	return a, err == nil && again == t
}

func linkLabel(key string) bool { return key == labelTraceID || key == labelSpanID }

// newOddLabel makes the attribute of a label that no attribute can stand for: one with several values, say.
func newOddLabel(key string, strings []string, numbers []int64, units []string) attribute {
	v := pcommon.NewValueMap()
	m := v.Map()
	if len(strings) > 0 {
		s := m.PutEmptySlice("strings")
		for _, e := range strings {
			s.AppendEmpty().SetStr(e)
		}
	}
	if len(numbers) > 0 {
		s := m.PutEmptySlice("numbers")
		for _, e := range numbers {
			s.AppendEmpty().SetInt(e)
		}
	}
	if len(units) > 0 {
		s := m.PutEmptySlice("units")
		for _, e := range units {
			s.AppendEmpty().SetStr(e)
		}
	}
	return attribute{at: onSample, key: attrLabel + key, value: v}
}

// oddLabel is the inverse of newOddLabel.
func oddLabel(key string, v pcommon.Value) (tags []tag, ok bool) {
	label, ok := strings.CutPrefix(key, attrLabel)
	if !ok || v.Type() != pcommon.ValueTypeMap {
		return nil, false
	}
	var units []string
	numbers := 0
	for k, list := range v.Map().All() {
		if list.Type() != pcommon.ValueTypeSlice {
			return nil, false
		}
		for _, e := range list.Slice().All() {
			switch {
			case k == "strings" && e.Type() == pcommon.ValueTypeStr:
				tags = append(tags, tag{key: label, str: e.Str()})
			case k == "numbers" && e.Type() == pcommon.ValueTypeInt:
				tags = append(tags, tag{key: label, num: e.Int(), numeric: true})
				numbers++
			case k == "units" && e.Type() == pcommon.ValueTypeStr:
				units = append(units, e.Str())
			default:
				return nil, false
			}
		}
	}
	if len(units) > 0 && len(units) != numbers {
		return nil, false
	}
	for i := range tags {
		if tags[i].numeric && len(units) > 0 {
			tags[i].unit, units = units[0], units[1:]
		}
	}
	return tags, len(tags) > 0
}
