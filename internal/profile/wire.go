package profile

import "math/bits"

// Sizes of protobuf encodings (protobuf.dev, "Encoding"). All field numbers of the profiles messages are below 16, so a
// tag takes one byte. They mirror what pdata's marshaler writes, which a test compares.

// sizeVarint is the size of v as a varint.
func sizeVarint(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }

// sizeBytes is the size of a field of n bytes (string, message, packed list), even if n is 0.
func sizeBytes(n int) int { return 1 + sizeVarint(uint64(n)) + n }

// sizeString is the size of a string field, which is left out when empty.
func sizeString(n int) int {
	if n == 0 {
		return 0
	}
	return sizeBytes(n)
}

// sizeInt is the size of an integer field, which is left out when 0.
func sizeInt(v uint64) int {
	if v == 0 {
		return 0
	}
	return 1 + sizeVarint(v)
}

// zeroEntries is the size of the empty entries at index 0 of the seven tables: an empty message takes 2 bytes, but pdata
// writes a link's two ids and an attribute's value even if they are empty.
const zeroEntries = 5*2 + (2 + 2*2) + (2 + 2)
