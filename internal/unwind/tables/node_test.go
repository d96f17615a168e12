package tables

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
)

// TestNode looks at the rules for V8's built-in functions, which have no unwind information, where they call C: they keep a frame
// pointer, and note it and an address before the call. The build has the budget that the engine gives it by default.
func TestNode(t *testing.T) {
	path := unwindtest.Node(t)
	f := unwindtest.Open(t, path)
	if f.Arch != unwind.ArchAMD64 {
		t.Skip(fmt.Errorf("the calls are looked for as amd64 has them: %w", errors.ErrUnsupported))
	}
	tab, info, err := Build(f.Within(elffile.NewBudget(path, testBudget)))
	if err != nil {
		t.Errorf("%+v, %v", info, err)
	}
	right, missing, wrong := 0, 0, 0
	for _, s := range unwindtest.Symbols(t, path) {
		if !strings.HasPrefix(s.Name, "Builtins_") || elf.ST_TYPE(s.Info) != elf.STT_FUNC {
			continue
		}
		code := make([]byte, s.Size)
		if err := f.ReadAddr(code, unwind.FileAddr(s.Value)); err != nil {
			t.Fatal(err)
		}
		for from := 0; ; {
			n := bytes.Index(code[from:], []byte{0x4c, 0x8d, 0x15}) // lea label(%rip), %r10
			if n < 0 {
				break
			}
			from += n + 3
			call := bytes.Index(code[from:min(from+24, len(code))], []byte{0xff, 0xd0}) // call *%rax
			if call < 0 || !bytes.Contains(code[from:from+call], []byte{0x49, 0x89, 0x6d}) &&
				!bytes.Contains(code[from:from+call], []byte{0x49, 0x89, 0xad}) { // mov %rbp, n(%r13)
				continue
			}
			switch r := tab.Lookup(unwind.FileAddr(s.Value) + unwind.FileAddr(from+call)); {
			case r.CFA == unwind.CFAReg && r.Reg == unwind.AMD64RBP && r.Offset == 16:
				right++
			case r.CFA == unwind.CFANone:
				missing++
			default:
				if wrong++; wrong < 10 {
					t.Logf("%s+%#x: %v", s.Name, from+call, r)
				}
			}
		}
	}
	if right+missing+wrong == 0 {
		t.Fatal("V8's built-in functions call C in another way")
	}
	t.Logf("of the calls of C %d right, %d missing, %d wrong", right, missing, wrong)
	if missing*20 > right || wrong*100 > right {
		t.Errorf("%d right, %d missing, %d wrong", right, missing, wrong)
	}
}
