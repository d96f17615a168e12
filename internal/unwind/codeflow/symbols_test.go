package codeflow

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

// TestManySymbols has many times as many bytes of symbols' names as the budget. A name still tells a part that the compiler moved
// away, which has its function's frame.
func TestManySymbols(t *testing.T) {
	const budget = 256 << 10
	var names strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&names, ".type f%d_%s, @function; f%[1]d_%[2]s = _start;", i, strings.Repeat("x", 500))
	}
	f := link(t, names.String()+`
		.globl _start
		.type _start, @function; .type _start.cold, @function
		_start: push %rbp; mov %rsp, %rbp; test %edi, %edi; jne _start.cold; leave; ret
		.balign 16
		_start.cold: call *%rax; ud2`)
	if size := f.Section(".strtab").Size; size < 8*budget {
		t.Fatalf("only %d bytes of names", size)
	}
	tab, st, err := Find(f.Within(elffile.NewBudget("file", budget)), &unwind.Table{})
	if got := tab.Lookup(f.Entry + 16); err != nil || got.Reg != unwind.AMD64RBP || got.Offset != 16 {
		t.Errorf("%v, %+v, %v", got, st, err)
	}
}

// TestNames reads names in another order than they stand in, up to the end of the section and beyond.
func TestNames(t *testing.T) {
	f := link(t, ".globl _start; _start: ret; first: ret; second: ret")
	s := f.Section(".strtab")
	all, err := f.SectionData(s, s.Size)
	if err != nil {
		t.Fatal(err)
	}
	n := names{f: f, s: s}
	for off := int(s.Size) + 1; off >= 0; off-- {
		want, _, _ := strings.Cut(string(all[min(off, len(all)):]), "\x00")
		if got, err := n.at(uint64(off)); err != nil || string(got) != want {
			t.Errorf("%d: %q, %v, want %q", off, got, err, want)
		}
	}
	n.reads = maxNamesRead
	if _, err := n.at(0); err != nil {
		t.Errorf("in what was read: %v", err)
	}
	n.buf = nil
	if _, err := n.at(0); !errors.Is(err, elffile.ErrTooLarge) {
		t.Errorf("read too often: %v", err)
	}
}
