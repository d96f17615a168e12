package symbolizertest_test

import (
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/symbolize/dwarf"
	"github.com/hostprofiles/hostprofiles/internal/symbolize/symbolizertest"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
)

// build compiles a program and returns the addresses of its functions, and of _start, which has no debug information.
func build(t *testing.T) (path string, addrs []unwind.FileAddr) {
	t.Helper()
	unwindtest.Need(t, symbolizertest.Tool)
	unwindtest.Need(t, "gcc")
	path = filepath.Join(t.TempDir(), "prog")
	cmd := exec.Command("gcc", "-g", "-O1", "-o", path, "-x", "c", "-")
	cmd.Stdin = strings.NewReader(`
		__attribute__((noinline)) static int inner(int a) { return a * 3; }
		static inline __attribute__((always_inline)) int inlined(int a) { return inner(a) + 1; }
		int main(int c, char **v) { (void)v; return inlined(c); }
	`)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, s := range unwindtest.Symbols(t, path) {
		if slices.Contains([]string{"inner", "main", "_start"}, s.Name) {
			for off := range max(s.Size, 1) {
				addrs = append(addrs, unwind.FileAddr(s.Value+off))
			}
		}
	}
	return path, addrs
}

func lookUp(t *testing.T, path string, addrs []unwind.FileAddr) []symbolizertest.Answer {
	t.Helper()
	d, err := dwarf.Open(unwindtest.Open(t, path), dwarf.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	answers := make([]symbolizertest.Answer, len(addrs))
	for n, a := range addrs {
		lines, err := d.Lookup(nil, a)
		answers[n] = symbolizertest.Answer{Lines: lines, Err: err, Outside: errors.Is(err, dwarf.ErrNotCovered)}
	}
	return answers
}

// TestCompare: right answers are the same, and so is a name that there is none of; a name that was lost is not.
func TestCompare(t *testing.T) {
	path, addrs := build(t)
	answers := lookUp(t, path, addrs)
	counts, wrong := symbolizertest.Compare(t, path, addrs, answers, symbolizertest.Options{})
	if counts.Unexplained() != 0 || len(wrong) != 0 || !strings.Contains(counts.String(), "without DWARF function") {
		t.Errorf("%v %q", counts, wrong)
	}
	named := 0
	for n, got := range answers {
		// A reader of lines only.
		answers[n].Lines = slices.Clone(got.Lines)
		for i := range answers[n].Lines {
			f := &answers[n].Lines[i].Function
			f.Name, f.SystemName = "", ""
		}
		if len(got.Lines) > 0 {
			named++
		}
	}
	if counts, _ = symbolizertest.Compare(t, path, addrs, answers, symbolizertest.Options{}); named == 0 || counts.Unexplained() != named {
		t.Errorf("%d names lost: %v", named, counts)
	}
	// A reader that finds nothing.
	for n := range answers {
		answers[n] = symbolizertest.Answer{Outside: true}
	}
	if counts, _ = symbolizertest.Compare(t, path, addrs, answers, symbolizertest.Options{}); counts.Unexplained() != named {
		t.Errorf("nothing found: %v", counts)
	}
}
