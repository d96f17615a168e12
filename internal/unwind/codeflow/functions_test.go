package codeflow

import (
	"debug/elf"
	"slices"
	"strings"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// TestFunctionsBehindCalls has a function right behind a call that does not return, with padding in between and without.
func TestFunctionsBehindCalls(t *testing.T) {
	const sixteenBytes = "mov $1, %eax; mov $1, %edi; push %rbx; call die; "
	for name, c := range map[string]struct {
		source string
		want   []unwind.Extent
	}{
		"without padding": {sixteenBytes + "f: lea 1(%rdi), %eax; ret; .balign 16; die: ud2; .balign 16; call f; ret",
			[]unwind.Extent{{Start: 0x10000, End: 0x10010}, {Start: 0x10010, End: 0x10014}, {Start: 0x10020, End: 0x10022}}},
		"with padding": {sixteenBytes + "nop; .balign 16; f: lea 1(%rdi), %eax; ret; .balign 16; die: ud2; .balign 16; call f; ret",
			[]unwind.Extent{{Start: 0x10000, End: 0x10010}, {Start: 0x10020, End: 0x10024}, {Start: 0x10030, End: 0x10032}}},
	} {
		got, err := Functions(assemble(t, elf.EM_X86_64, strings.ReplaceAll(c.source, "; ", "\n")+"\n"), &unwind.Table{})
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %#x, %v, want %#x", name, got, err, c.want)
		}
	}
}
