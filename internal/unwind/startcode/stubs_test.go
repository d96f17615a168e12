package startcode

import (
	"errors"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/ehframe"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
)

// TestStubs looks at the stubs of imported functions that linkers make: each instruction up to a stub's jump must have a
// rule, and the right one by what was pushed.
func TestStubs(t *testing.T) {
	for name, want := range map[string]string{
		"lld_amd64":     "+0 cfa=r7+16 ra=c-8\n+6 cfa=r7+24 ra=c-8\n+c none\n+10 cfa=r7+8+8*(pc&15>=11) ra=c-8\n",
		"lld_ibt_amd64": "+0 cfa=r7+16 ra=c-8\n+6 cfa=r7+24 ra=c-8\n+c none\n+10 cfa=r7+8+8*(pc&15>=9) ra=c-8\n",
		"mold_amd64":    "+0 cfa=r7+8 ra=c-8\n+6 cfa=r7+16 ra=c-8\n+c cfa=r7+24 ra=c-8\n+12 none\n+20 cfa=r7+8 ra=c-8\n",
		"lld_arm64":     "+0 cfa=r31+0 ra=r30\n+4 cfa=r31+16 ra=c-8\n+14 none\n+20 cfa=r31+0 ra=r30\n",
		"bti_arm64":     "+0 cfa=r31+0 ra=r30\n+8 cfa=r31+16 ra=c-8\n+18 none\n+20 cfa=r31+0 ra=r30\n",
		"gcc_arm64":     "+0 cfa=r31+0 ra=r30\n+8 cfa=r31+16 ra=c-8\n+18 none\n+20 cfa=r31+0 ra=r30\n",
	} {
		f := unwindtest.Open(t, "../../../testdata/elf/"+name+".elf")
		eh, _, err := ehframe.EHFrame(f)
		if err != nil {
			t.Fatal(err)
		}
		tab, st, err := Find(f, eh)
		if err != nil || st.Stubs == 0 {
			t.Fatalf("%s: %+v, %v", name, st, err)
		}
		plt := f.Section(".plt")
		got := ""
		for a := plt.Addr; a < plt.Addr+unwind.FileAddr(plt.Size); a++ {
			if r := tab.Lookup(a); a == plt.Addr || r != tab.Lookup(a-1) {
				got += "+" + hex(a-plt.Addr) + " " + r.String() + "\n"
			}
		}
		if got != want {
			t.Errorf("%s: %+v\n%swant\n%s", name, st, got, want)
		}
	}
}

// TestNoRoom looks for stubs with ever more room: what there is none for is an error.
func TestNoRoom(t *testing.T) {
	f := unwindtest.Open(t, "../../../testdata/elf/lld_amd64.elf")
	_, whole, err := Find(f, &unwind.Table{})
	if err != nil || whole.Stubs < 2 {
		t.Fatalf("%+v, %v", whole, err)
	}
	for size := uint64(0); ; size += stubBytes / 2 {
		_, st, err := Find(f.Within(elffile.NewBudget("stubs", size)), &unwind.Table{})
		var large *elffile.TooLargeError
		if err == nil && st == whole && size > 0 {
			return
		}
		if !errors.As(err, &large) || large.File != "stubs" {
			t.Fatalf("in %d bytes: %+v, %v", size, st, err)
		}
	}
}

func hex(a unwind.FileAddr) string {
	const digits = "0123456789abcdef"
	s := ""
	for ; a > 15; a >>= 4 {
		s = string(digits[a&15]) + s
	}
	return string(digits[a]) + s
}
