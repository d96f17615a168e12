package pprof

import (
	"encoding/hex"
	"strings"
)

// link is a trace id and a span id. pprof has no field for it; the labels are those that profilers and Pyroscope use, and
// that issue google/pprof#999 proposed to reserve.
type link struct {
	trace [16]byte
	span  [8]byte
}

// parseLink is the inverse of link.tags; ok is false unless both ids are there and valid.
func parseLink(trace, span string) (l link, ok bool) {
	return l, parseID(l.trace[:], trace) && parseID(l.span[:], span)
}

// parseID decodes lower-case hexadecimal digits that fill to and are not all zero.
func parseID(to []byte, s string) bool {
	if len(s) != 2*len(to) || strings.Trim(s, "0") == "" || !isHex(s) {
		return false
	}
	_, err := hex.Decode(to, []byte(s))
	return err == nil
}

// isHex tells whether s is a number of bytes in lower-case hexadecimal digits.
func isHex(s string) bool {
	return s != "" && len(s)%2 == 0 && strings.Trim(s, "0123456789abcdef") == ""
}

// tags returns the labels of a link, one for each id that is set.
func (l link) tags() (tags []tag) {
	if l.trace != [16]byte{} {
		tags = append(tags, tag{key: labelTraceID, str: hex.EncodeToString(l.trace[:])})
	}
	if l.span != [8]byte{} {
		tags = append(tags, tag{key: labelSpanID, str: hex.EncodeToString(l.span[:])})
	}
	return tags
}
