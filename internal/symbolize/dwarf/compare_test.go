package dwarf

import (
	"errors"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/symbolize/symbolizertest"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
)

// instructions returns the addresses of all instructions in .text.
func instructions(t testing.TB, path string) (addrs []unwind.FileAddr) {
	t.Helper()
	objdump := "objdump"
	if unwindtest.Open(t, path).Arch == unwind.ArchARM64 {
		objdump = "aarch64-linux-gnu-objdump"
	}
	unwindtest.Need(t, objdump)
	out, err := exec.Command(objdump, "-d", "--no-show-raw-insn", "-j", ".text", path).Output()
	if err != nil {
		t.Fatalf("objdump of %s: %v", path, err)
	}
	for line := range strings.Lines(string(out)) {
		text, _, ok := strings.Cut(line, ":\t")
		if a, err := strconv.ParseUint(strings.TrimSpace(text), 16, 64); ok && err == nil {
			addrs = append(addrs, unwind.FileAddr(a))
		}
	}
	if len(addrs) == 0 {
		t.Fatalf("no instructions in %s", path)
	}
	return addrs
}

// compare looks all addresses up, and fails the test if an answer differs in a way that is not explained.
func compare(t testing.TB, d *Data, path string, addrs []unwind.FileAddr, args ...string) symbolizertest.Counts {
	t.Helper()
	answers := make([]symbolizertest.Answer, len(addrs))
	err := d.LookupAll(addrs, func(n int, lines []unwind.Line, err error) {
		answers[n] = symbolizertest.Answer{Lines: slices.Clone(lines), Err: err, Outside: errors.Is(err, ErrNotCovered)}
	})
	if err != nil {
		t.Fatal(err)
	}
	counts, wrong := symbolizertest.Compare(t, path, addrs, answers, symbolizertest.Options{Supplement: d.main.alt != nil, Args: args})
	for _, w := range wrong {
		t.Error(w)
	}
	return counts
}
