package libc

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMuslCode decodes pthread_getspecific of Debian 12's musl 1.2.3, and variants of it.
func TestMuslCode(t *testing.T) {
	unhex := func(s string) []byte {
		b, err := hex.DecodeString(s)
		require.NoError(t, err)
		return b
	}
	for _, c := range []struct {
		code string
		want int64
		ok   bool
	}{
		{"64488b042500000000488b808000000089ff488b04f8c3", 128, true},
		{"f30f1efa64488b042500000000488b808000000089ff488b04f8c3", 128, true},
		{"64488b042500000000488b80800000008b04b8c3", 0, false},       // 4 bytes each
		{"64488b042500000000488b8080000000488b04c8c3", 0, false},     // by another register
		{"64488b042500000000488b8080000000c3", 0, false},             // the table
		{"64488b042500000000488b808000000089ff488b04f8", 0, false},   // no end
		{"e800000000c3", 0, false},                                   // calls
		{"64488b042508000000488b808000000089ff488b04f8c3", 0, false}, // not the thread pointer
	} {
		got, ok := amd64Table(unhex(c.code))
		require.Equal(t, c.ok, ok, c.code)
		if ok {
			require.Equal(t, c.want, got, c.code)
		}
	}
	le := func(words ...uint32) (b []byte) {
		for _, w := range words {
			b = append(b, byte(w), byte(w>>8), byte(w>>16), byte(w>>24))
		}
		return b
	}
	for _, c := range []struct {
		code []byte
		want int64
		ok   bool
	}{
		{le(0xd503245f, 0xd53bd041, 0xf85a8021, 0xf8605820, 0xd65f03c0), -88, true},
		{le(0xd53bd041, 0xd1016021, 0xf9400021, 0xf8605820, 0xd65f03c0), -88, true}, // sub x1, x1, #88; ldr x1, [x1]
		{le(0xd53bd041, 0xf85a8021, 0xf8615820, 0xd65f03c0), 0, false},              // indexed by x1
		{le(0xd53bd041, 0xf85a8021, 0xd65f03c0), 0, false},
		{le(0xf85a8021, 0xf8605820, 0xd65f03c0), 0, false},
	} {
		got, ok := arm64Table(c.code)
		require.Equal(t, c.ok, ok, "%x", c.code)
		if ok {
			require.Equal(t, c.want, got)
		}
	}
	for _, c := range []struct {
		code []byte
		want int64
		ok   bool
	}{
		{le(0xd53bd040, 0xd1032000, 0xd65f03c0), -200, true}, // musl 1.2.3
		{le(0xd503245f, 0xd53bd040, 0xd65f03c0), 0, true},
		{le(0xd1032000, 0xd65f03c0), 0, false},
		{le(0xd53bd040, 0xd1032000), 0, false},
	} {
		got, ok := arm64Self(c.code)
		require.Equal(t, c.ok, ok, "%x", c.code)
		if ok {
			require.Equal(t, c.want, got)
		}
	}
}
