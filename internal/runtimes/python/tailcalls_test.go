package python

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// TestConstants finds the addresses that code has in its instructions, as compilers write them for a table of functions.
func TestConstants(t *testing.T) {
	for name, tt := range map[string]struct {
		arch unwind.Arch
		code string
		want []unwind.FileAddr
	}{
		"call *0xfc6860(,%rax,8)":               {unwind.ArchAMD64, "ff14c56068fc00", []unwind.FileAddr{0xfc6860}},
		"lea 0x200000(%rip), %rcx":              {unwind.ArchAMD64, "488d0d00002000", []unwind.FileAddr{0x601007}},
		"mov $0xfc6860, %ecx":                   {unwind.ArchAMD64, "b96068fc00", []unwind.FileAddr{0xfc6860}},
		"mov 0x48(%r14), %rax":                  {unwind.ArchAMD64, "498b4648", nil},
		"mov %fs:0x10, %rax":                    {unwind.ArchAMD64, "64488b042510000000", nil},
		"adrp x9, 0x5d4000; add x9, x9, #0x4e0": {unwind.ArchARM64, "a90e00b0" + "29811391", []unwind.FileAddr{0x5d64e0}},
		"add x9, x9, #0x4e0":                    {unwind.ArchARM64, "29811391", nil},
	} {
		code, err := hex.DecodeString(tt.code)
		require.NoError(t, err)
		require.Equal(t, tt.want, constants(tt.arch, code, 0x401000), name)
	}
}

// TestJoined: functions that lie one behind the other are one range, with the padding between them.
func TestJoined(t *testing.T) {
	got := joined([]unwind.Extent{{Start: 0x1100, End: 0x1200}, {Start: 0x1000, End: 0x10f1}, {Start: 0x1240, End: 0x1300}, {Start: 0x1200, End: 0x1210}})
	require.Equal(t, []unwind.Extent{{Start: 0x1000, End: 0x1300}}, got)
	got = joined([]unwind.Extent{{Start: 0x1000, End: 0x1010}, {Start: 0x1010 + padding, End: 0x1100}})
	require.Len(t, got, 2)
}
