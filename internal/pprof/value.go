package pprof

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// Values as text: JSON that tells every kind of OTLP value from the others. Integers have neither point nor exponent, doubles
// have one of them; an empty value is null; what JSON lacks is an object of one key that begins with $ (a map's own keys
// that do get another $): {"$bytes":"<base64>"}, {"$double":"NaN"}. The keys of maps are sorted.
const (
	jsonBytes  = "$bytes"
	jsonDouble = "$double"
	jsonUnit   = "$unit" // with $value: an attribute that has a unit
	jsonValue  = "$value"
)

var (
	errValueTooLong = fmt.Errorf("value takes more than %d bytes as text", maxString)
	errTooDeep      = fmt.Errorf("value is nested more than %d deep", maxDepth)
	errTooManyKeys  = fmt.Errorf("there are more than %d keys", maxKeys)
)

// valueJSON returns the text of an attribute's value, at most maxString bytes of it.
func valueJSON(v pcommon.Value, unit string) (string, error) {
	var b []byte
	var err error
	if unit != "" {
		b = append(appendString(append(b, `{"`+jsonUnit+`":`...), unit), `,"`+jsonValue+`":`...)
	}
	if b, err = appendJSON(b, v, 0); err != nil {
		return "", err
	}
	if unit != "" {
		b = append(b, '}')
	}
	return string(b), nil
}

func appendJSON(b []byte, v pcommon.Value, depth int) ([]byte, error) {
	if depth > maxDepth {
		return nil, errTooDeep
	}
	var err error
	switch v.Type() {
	case pcommon.ValueTypeEmpty:
		b = append(b, "null"...)
	case pcommon.ValueTypeStr:
		if err = checkText(v.Str()); err == nil {
			b = appendString(b, v.Str())
		}
	case pcommon.ValueTypeBool:
		b = strconv.AppendBool(b, v.Bool())
	case pcommon.ValueTypeInt:
		b = strconv.AppendInt(b, v.Int(), 10)
	case pcommon.ValueTypeDouble:
		b = appendDouble(b, v.Double())
	case pcommon.ValueTypeBytes:
		b = base64.StdEncoding.AppendEncode(append(b, `{"`+jsonBytes+`":"`...), v.Bytes().AsRaw())
		b = append(b, `"}`...)
	case pcommon.ValueTypeSlice:
		b = append(b, '[')
		for i, e := range v.Slice().All() {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = appendJSON(b, e, depth+1); err != nil {
				return nil, err
			}
		}
		b = append(b, ']')
	case pcommon.ValueTypeMap:
		b, err = appendMap(b, v.Map(), depth)
	}
	if err == nil && len(b) > maxString {
		err = errValueTooLong
	}
	return b, err
}

func appendMap(b []byte, m pcommon.Map, depth int) ([]byte, error) {
	if m.Len() > maxKeys {
		return nil, errTooManyKeys
	}
	type entry struct {
		key   string
		value pcommon.Value
	}
	entries := make([]entry, 0, m.Len())
	for k, v := range m.All() {
		if err := checkText(k); err != nil {
			return nil, err
		}
		entries = append(entries, entry{k, v})
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.key, b.key) })
	b = append(b, '{')
	for i, e := range entries {
		if i > 0 {
			if e.key == entries[i-1].key {
				return nil, fmt.Errorf("key %.100q is there twice", e.key)
			}
			b = append(b, ',')
		}
		if strings.HasPrefix(e.key, "$") {
			e.key = "$" + e.key
		}
		var err error
		if b, err = appendJSON(append(appendString(b, e.key), ':'), e.value, depth+1); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

func appendDouble(b []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		b = strconv.AppendFloat(append(b, `{"`+jsonDouble+`":"`...), f, 'g', -1, 64)
		return append(b, `"}`...)
	}
	start := len(b)
	b = strconv.AppendFloat(b, f, 'g', -1, 64)
	if !bytes.ContainsAny(b[start:], ".e") {
		b = append(b, ".0"...)
	}
	return b
}

func appendString(b []byte, s string) []byte {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)              // a file is no web page; readers escape what they show
	if err := enc.Encode(s); err != nil { // strings always have a JSON form
		return append(b, `""`...)
	}
	return append(b, bytes.TrimSuffix(out.Bytes(), []byte("\n"))...)
}

// checkText checks a string from outside.
func checkText(s string) error {
	if len(s) > maxString {
		return tooLong(s)
	}
	if !utf8.ValidString(s) {
		return fmt.Errorf("string %.100q is not UTF-8", s)
	}
	return nil
}

func tooLong(s string) error {
	return fmt.Errorf("string %.40q... has %d bytes, more than %d", s, len(s), maxString)
}

// parseValue is the inverse of valueJSON. It takes more than that writes: callers compare.
func parseValue(text string) (v pcommon.Value, unit string, err error) {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var raw any
	if err = dec.Decode(&raw); err != nil {
		return v, "", err
	}
	if m, ok := raw.(map[string]any); ok && len(m) == 2 {
		if u, ok := m[jsonUnit].(string); ok {
			raw, unit = m[jsonValue], u
		}
	}
	v = pcommon.NewValueEmpty()
	return v, unit, setValue(v, raw, 0)
}

// setValue makes the value of what encoding/json made of its text.
func setValue(to pcommon.Value, raw any, depth int) (err error) {
	if depth > maxDepth {
		return errTooDeep
	}
	switch t := raw.(type) {
	case bool:
		to.SetBool(t)
	case string:
		to.SetStr(t)
	case json.Number:
		return setNumber(to, t.String())
	case []any:
		s := to.SetEmptySlice()
		s.EnsureCapacity(len(t))
		for _, e := range t {
			if err := setValue(s.AppendEmpty(), e, depth+1); err != nil {
				return err
			}
		}
	case map[string]any:
		return setObject(to, t, depth)
	}
	return nil
}

func setNumber(to pcommon.Value, s string) error {
	if strings.ContainsAny(s, ".eE") {
		f, err := strconv.ParseFloat(s, 64)
		to.SetDouble(f)
		return err
	}
	n, err := strconv.ParseInt(s, 10, 64)
	to.SetInt(n)
	return err
}

func setObject(to pcommon.Value, object map[string]any, depth int) error {
	if len(object) > maxKeys {
		return errTooManyKeys
	}
	if text, ok := object[jsonBytes].(string); ok {
		b, err := base64.StdEncoding.DecodeString(text)
		to.SetEmptyBytes().FromRaw(b)
		return err
	}
	if text, ok := object[jsonDouble].(string); ok {
		f, err := strconv.ParseFloat(text, 64)
		to.SetDouble(f)
		return err
	}
	m := to.SetEmptyMap()
	m.EnsureCapacity(len(object))
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if err := setValue(m.PutEmpty(strings.TrimPrefix(key, "$")), object[key], depth+1); err != nil {
			return err
		}
	}
	return nil
}
