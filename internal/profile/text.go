package profile

import (
	"strings"
	"unicode/utf8"
)

// maxString bounds every string of a payload, in bytes: names come from targets. The longest C++ and Rust symbols seen in
// practice have a few thousand.
const maxString = 8 << 10

// clean makes s valid UTF-8, as protobuf demands of strings, and bounds its length.
func clean(s string) string {
	if len(s) > maxString {
		cut := maxString
		for i := 0; i < utf8.UTFMax && !utf8.RuneStart(s[cut]); i++ {
			cut--
		}
		s = s[:cut]
	}
	if utf8.ValidString(s) {
		return s
	}
	// A replacement is up to three times as long as the byte it stands for.
	return strings.ToValidUTF8(s, "\uFFFD")
}
