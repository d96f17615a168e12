package conformance

import (
	"errors"
	"strings"
	"testing"
)

func TestEachField(t *testing.T) {
	stop := errors.New("stop")
	for name, c := range map[string]struct{ wire, want string }{
		"tag cut off":     {"\x80", "bad tag"},
		"varint cut off":  {"\x08\x80", "bad varint in field 1"},
		"fixed64 cut off": {"\x09\x00\x00", "field 1 is cut off"},
		"fixed32 cut off": {"\x0d\x00", "field 1 is cut off"},
		"length too long": {"\x0a\x05abc", "bad length in field 1"},
		"length cut off":  {"\x0a\x80", "bad length in field 1"},
		"group":           {"\x0b", "wire type 3 in field 1"},
		"handed on":       {"\x08\x01\x0d1234\x0912345678\x12\x01a", "stop"},
		"fine":            {"\x08\x01\x0d1234\x0912345678\x0a\x01a", ""},
	} {
		err := eachField([]byte(c.wire), func(field int, _ []byte) error {
			if field == 2 {
				return stop
			}
			return nil
		})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestWireErrors: what pdata took but these checks cannot parse is reported.
func TestWireErrors(t *testing.T) {
	for _, b := range []string{"\x0b", "\x12\x01\x0b", "\x12\x03\x22\x01\x0b", "\x12\x03\x32\x01\x0b"} {
		r := Checker{}.report("")
		checkWire(r, []byte(b))
		if r.err() == nil {
			t.Errorf("%x: nothing reported", b)
		}
	}
}
