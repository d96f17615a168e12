package conformance

import (
	"encoding/binary"
	"fmt"
)

// Field numbers of profiles.proto and common.proto, opentelemetry-proto 1.11.
const (
	fieldDictionary     = 2 // ProfilesData
	fieldLinkTable      = 4 // ProfilesDictionary
	fieldAttributeTable = 6
	fieldValue          = 2 // KeyValueAndUnit
	fieldValueStrindex  = 8 // AnyValue
)

// checkWire finds what pdata hides. It runs after pdata has unmarshalled b; what it cannot parse is reported all the same.
func checkWire(r *report, b []byte) {
	links, attributes := 0, 0
	err := eachField(b, func(field int, dictionary []byte) error {
		if field != fieldDictionary {
			return nil
		}
		return eachField(dictionary, func(field int, entry []byte) error {
			switch field {
			case fieldLinkTable:
				if links == 0 {
					checkZeroLink(r, entry)
				}
				links++
			case fieldAttributeTable:
				checkStrindex(r, at("attribute_table", attributes), entry)
				attributes++
			}
			return nil
		})
	})
	if err != nil {
		r.addf("wire", "%v", err)
	}
}

// checkZeroLink: the specification allows ids of zero bytes too, but profcheck and Parca do not.
func checkZeroLink(r *report, link []byte) {
	err := eachField(link, func(field int, id []byte) error {
		if len(id) > 0 {
			r.addf(at("link_table", 0), "has an id of %d bytes; it must have none", len(id))
		}
		return nil
	})
	if err != nil {
		r.addf(at("link_table", 0), "%v", err)
	}
}

// checkStrindex: no backend reads references here.
func checkStrindex(r *report, path string, entry []byte) {
	err := eachField(entry, func(field int, value []byte) error {
		if field != fieldValue {
			return nil
		}
		// A oneof is one field; pdata has seen to the rest.
		if tag, n := binary.Uvarint(value); n > 0 && tag>>3 == fieldValueStrindex {
			r.addf(path, "value is a reference (string_value_strindex)")
		}
		return nil
	})
	if err != nil {
		r.addf(path, "%v", err)
	}
}

// eachField calls f for each length-delimited field of a message and skips the others.
func eachField(b []byte, f func(field int, data []byte) error) error {
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		if n <= 0 {
			return fmt.Errorf("bad tag with %d bytes left", len(b))
		}
		b = b[n:]
		skip := uint64(0)
		switch tag & 7 {
		case 0:
			if _, n = binary.Uvarint(b); n <= 0 {
				return fmt.Errorf("bad varint in field %d", tag>>3)
			}
			skip = uint64(n)
		case 1:
			skip = 8
		case 5:
			skip = 4
		case 2:
			size, n := binary.Uvarint(b)
			if n <= 0 || size > uint64(len(b)-n) {
				return fmt.Errorf("bad length in field %d", tag>>3)
			}
			if err := f(int(tag>>3), b[n:n+int(size)]); err != nil {
				return err
			}
			skip = uint64(n) + size
		default:
			return fmt.Errorf("wire type %d in field %d", tag&7, tag>>3)
		}
		if skip > uint64(len(b)) {
			return fmt.Errorf("field %d is cut off", tag>>3)
		}
		b = b[skip:]
	}
	return nil
}
