package profile

import "go.opentelemetry.io/collector/pdata/pcommon"

// Attribute is a key with a value. It is comparable.
type Attribute struct {
	Key   string
	Value Value
}

type valueKind uint8

const (
	kindString valueKind = iota
	kindInt
	kindBool
)

// Value is an attribute's value: a string, an integer or a truth value. The zero Value is the empty string.
type Value struct {
	kind valueKind
	num  int64
	str  string
}

// String makes a string value.
func String(s string) Value { return Value{str: s} }

// Int makes an integer value.
func Int(n int64) Value { return Value{kind: kindInt, num: n} }

// Bool makes a truth value.
func Bool(b bool) Value {
	v := Value{kind: kindBool}
	if b {
		v.num = 1
	}
	return v
}

// set copies the value into pdata.
func (v Value) set(to pcommon.Value) {
	switch v.kind {
	case kindInt:
		to.SetInt(v.num)
	case kindBool:
		to.SetBool(v.num != 0)
	default:
		to.SetStr(v.str)
	}
}

// size is the marshalled size of the value as an AnyValue message, without its length prefix.
func (v Value) size() int {
	switch v.kind {
	case kindInt:
		return 1 + sizeVarint(uint64(v.num))
	case kindBool:
		return 2
	default:
		return sizeBytes(len(v.str))
	}
}

// appendResource appends r's attributes, valid as UTF-8 and with unique keys, in a fixed order.
func appendResource(dst []Attribute, r *Resource) []Attribute {
	start := len(dst)
	put := func(key string, v Value) {
		key, v.str = clean(key), clean(v.str)
		if key == "" {
			return
		}
		for _, a := range dst[start:] {
			if a.Key == key {
				return
			}
		}
		dst = append(dst, Attribute{Key: key, Value: v})
	}
	str := func(key, s string) {
		if s != "" {
			put(key, String(s))
		}
	}
	put("process.pid", Int(int64(r.PID)))
	if !r.CreationTime.IsZero() {
		// ISO 8601 in UTC with a fixed number of digits, so that the same instant is always the same string.
		put("process.creation.time", String(r.CreationTime.UTC().Format("2006-01-02T15:04:05.000000000Z")))
	}
	str("process.executable.name", r.ExecutableName)
	str("process.executable.path", r.ExecutablePath)
	str("process.command", r.Command)
	str("container.id", r.ContainerID)
	for _, a := range r.Extra {
		put(a.Key, a.Value)
	}
	return dst
}
