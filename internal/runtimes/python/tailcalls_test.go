package python

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostprofiles/hostprofiles/internal/runtimes"
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

// TestScaledJump knows the jump to the next handler.
func TestScaledJump(t *testing.T) {
	for name, tt := range map[string]struct {
		arch unwind.Arch
		code string
		want bool
	}{
		"jmp *0xfc6860(,%rax,8)":          {unwind.ArchAMD64, "ff24c56068fc00", true},
		"jmp *(%rcx,%rax,8)":              {unwind.ArchAMD64, "ff24c1", true},
		"call *(%rcx,%rax,8)":             {unwind.ArchAMD64, "ff14c1", false},
		"jmp *0x30(%rax)":                 {unwind.ArchAMD64, "ff6030", false},
		"ldr x1, [x9, x8, lsl #3]; br x1": {unwind.ArchARM64, "217968f8" + "20001fd6", true},
		"ldr x1, [x9, x8, lsl #3]; br x2": {unwind.ArchARM64, "217968f8" + "40001fd6", false},
	} {
		code, err := hex.DecodeString(tt.code)
		require.NoError(t, err)
		require.Equal(t, tt.want, scaledJump(tt.arch, code), name)
	}
}

// TestDisjoint: ranges of hostile tables overlap.
func TestDisjoint(t *testing.T) {
	r := func(start, end unwind.Addr, part uint8) runtimes.Range {
		return runtimes.Range{Start: start, End: end, Part: part}
	}
	require.Equal(t, []runtimes.Range{r(1, 5, 0), r(5, 8, 1), r(9, 10, 0)}, disjoint([]runtimes.Range{r(9, 10, 0), r(2, 4, 0), r(4, 8, 1), r(1, 5, 0)}))
	require.Empty(t, disjoint(nil))
}
