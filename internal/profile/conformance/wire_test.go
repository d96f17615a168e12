package conformance_test

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/profile/conformance"
)

// field is a length-delimited protobuf field.
func field(number int, data ...[]byte) []byte {
	body := bytes.Join(data, nil)
	b := binary.AppendUvarint(nil, uint64(number)<<3|2)
	return append(binary.AppendUvarint(b, uint64(len(body))), body...)
}

func TestCheckBytes(t *testing.T) {
	good := marshal(t, valid())
	for name, c := range map[string]struct {
		wire []byte
		want string
	}{
		"zero-filled link":   {dictionary(field(4, field(1, make([]byte, 16)), field(2, make([]byte, 8)))), "link_table[0]: has an id of 16 bytes"},
		"value by reference": {dictionary(field(6), field(6, []byte{0x08, 1}, field(2, []byte{0x40, 1}))), "attribute_table[1]: value is a reference"},
		"short link id":      {dictionary(field(4, field(1, make([]byte, 3)))), "unmarshalling profiles"},
		"short profile id":   {field(1, field(2, field(2, field(7, make([]byte, 3))))), "unmarshalling profiles"},
		"cut off":            {good[:len(good)-1], "unmarshalling profiles"},
		"key twice": {append(field(2, field(5), field(5, []byte("k"))),
			field(1, field(1, field(1, field(1, []byte("key")), []byte{0x18, 1})))...), "unmarshalling profiles"},
	} {
		if err := conformance.CheckBytes(c.wire); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
	if err := conformance.CheckBytes(append(good[:len(good):len(good)], 0x18, 5)); err != nil {
		t.Errorf("an unknown field: %v", err)
	}
}

// dictionary is an otherwise empty message with a dictionary.
func dictionary(tables ...[]byte) []byte {
	return field(2, tables...)
}

func FuzzCheckBytes(f *testing.F) {
	f.Add([]byte{})
	f.Add(field(2, field(4), field(5), field(6), field(1), field(2), field(3), field(7)))
	f.Add(field(2, field(4, field(1, make([]byte, 16)))))
	f.Add(marshal(f, valid()))
	f.Fuzz(func(_ *testing.T, b []byte) {
		if err := conformance.CheckBytes(b); err != nil && strings.Count(err.Error(), "\n") > 101 {
			panic("too many violations")
		}
	})
}
