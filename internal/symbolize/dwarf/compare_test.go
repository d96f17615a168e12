package dwarf

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/symbolize/names"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
)

const symbolizer = "llvm-symbolizer-19"

// answer is what llvm-symbolizer says of an address.
type answer struct {
	Address string
	Symbol  []frame
}

type frame struct {
	FunctionName, FileName, StartFileName string
	Line, Column, StartLine               int
}

// ask has llvm-symbolizer answer for addresses of a file.
func ask(t testing.TB, path string, addrs []unwind.FileAddr, args ...string) []answer {
	t.Helper()
	args = append([]string{"--output-style=JSON", "--inlines", "--no-demangle", "-e", path}, args...)
	cmd := exec.Command(symbolizer, args...)
	var in bytes.Buffer
	for _, a := range addrs {
		fmt.Fprintf(&in, "%#x\n", uint64(a))
	}
	cmd.Stdin = &in
	var msg bytes.Buffer
	cmd.Stderr = &msg
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", symbolizer, err, msg.Bytes())
	}
	answers := make([]answer, 0, len(addrs))
	for dec := json.NewDecoder(bytes.NewReader(out)); dec.More(); {
		var a answer
		if err := dec.Decode(&a); err != nil {
			t.Fatal(err)
		}
		answers = append(answers, a)
	}
	if len(answers) != len(addrs) {
		t.Fatalf("%d answers for %d addresses\n%s", len(answers), len(addrs), msg.Bytes())
	}
	return answers
}

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

// The ways in which two answers are the same or differ. Those that are explained stand before unexplained.
type difference int

const (
	same         difference = iota
	sameNoSymbol            // llvm-symbolizer has taken the name from the symbol table where DWARF has none
	clone                   // it has the symbol's name: the function's with a compiler's suffix
	alias                   // it has another symbol's name for the same code, as of C1 and C2 constructors
	qualified               // DWARF has no linkage name: it has the plain name, without the namespaces
	supplement              // it does not read supplementary files: the name is there
	folded                  // it has the symbol's name, which is that of another function with the same code
	unexplained
)

func (d difference) String() string {
	return [...]string{"same", "without DWARF function", "clone", "alias", "qualified", "supplement", "folded", "unexplained"}[d]
}

// differ compares our lines for an address with those of llvm-symbolizer. symbols has the names of the symbol table for
// an address's function.
func differ(lines []unwind.Line, err error, want answer, symbols func(unwind.FileAddr) []string) difference {
	if len(lines) == 0 {
		if (err == nil || errors.Is(err, ErrNotCovered)) && len(want.Symbol) == 1 && want.Symbol[0].Line == 0 {
			return sameNoSymbol
		}
		return unexplained
	}
	if len(lines) != len(want.Symbol) {
		return unexplained
	}
	worst := same
	for i, l := range lines {
		w := want.Symbol[i]
		if l.Line != w.Line || l.Column != w.Column || !inSameFile(l, w) {
			return unexplained
		}
		how := sameName(l.Function, w.FunctionName)
		if how == unexplained && i == len(lines)-1 {
			a, err := strconv.ParseUint(want.Address, 0, 64)
			if err == nil && slices.Contains(symbols(unwind.FileAddr(a)), l.Function.Name) {
				how = alias
			}
		}
		worst = max(worst, how)
	}
	return worst
}

func inSameFile(l unwind.Line, w frame) bool {
	f := l.Function
	if w.FunctionName == "" && w.StartLine == 0 {
		return l.Line == 0 || sameFile(f.File, w.FileName)
	}
	if f.File != "" && sameFile(f.File, w.FileName) || f.File == "" && w.Line == 0 {
		return f.StartLine == w.StartLine || f.StartLine == 0 && !sameFile(f.File, w.StartFileName)
	}
	return l.Line == 0 && f.File == w.StartFileName && f.StartLine == w.StartLine
}

func sameName(f unwind.Function, want string) difference {
	system := f.SystemName
	if system == "" {
		system = f.Name
	}
	switch {
	case system == want:
		return same
	case f.Name == "":
		return sameNoSymbol
	case want == "":
		return supplement
	case strings.HasPrefix(want, system+"."):
		return clone
	case f.SystemName == "" && (strings.HasSuffix(f.Name, "::"+want) || hasName(names.Function(want).Name, f.Name)):
		return qualified
	case unified(system) == unified(want):
		return alias
	}
	return unexplained
}

// hasName tells whether a demangled name is that of a function whose qualified name was put together. Only the last part
// of it is compared: the demangler writes template arguments and functions around the function in a way of its own.
func hasName(demangled, name string) bool {
	name, _, _ = strings.Cut(name, "<")
	name = name[strings.LastIndex(name, ":")+1:]
	for i := range demangled {
		rest, ok := strings.CutPrefix(demangled[i:], name)
		if ok && name != "" && (i == 0 || strings.ContainsRune(" :", rune(demangled[i-1]))) &&
			(rest == "" || strings.ContainsRune("(<[", rune(rest[0]))) {
			return true
		}
	}
	return false
}

// unified makes the names of a constructor's or destructor's variants equal (Itanium C++ ABI, section 5.1.4.3): DWARF may
// have the one that GCC makes of all, C4 or D4, and the symbol table has C1 or C2.
func unified(name string) string {
	name, _, _ = strings.Cut(name, ".")
	for _, kind := range []string{"C", "D"} {
		for _, n := range []string{"0", "1", "2", "3", "5"} {
			name = strings.ReplaceAll(name, kind+n+"E", kind+"4E")
		}
	}
	return name
}

// compare looks all addresses up, and fails the test if an answer differs in a way that is not explained.
func compare(t testing.TB, d *Data, path string, addrs []unwind.FileAddr, args ...string) (counts [unexplained + 1]int) {
	t.Helper()
	want := ask(t, path, addrs, args...)
	symbols := symbolNames(t, path)
	type doubt struct {
		a     unwind.FileAddr
		lines []unwind.Line
		err   error
		want  answer
	}
	var doubts []doubt
	err := d.LookupAll(addrs, func(n int, lines []unwind.Line, err error) {
		how := differ(lines, err, want[n], symbols)
		if how == supplement && d.main.alt == nil {
			how = unexplained
		}
		if how == unexplained {
			doubts = append(doubts, doubt{addrs[n], slices.Clone(lines), err, want[n]})
			return
		}
		counts[how]++
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(doubts) == 0 {
		return counts
	}
	var again []unwind.FileAddr
	for _, x := range doubts {
		again = append(again, x.a)
	}
	// Without linkage names the symbol table is not asked.
	for n, plain := range ask(t, path, again, append(args, "--functions=short")...) {
		x := doubts[n]
		if sameChain(x.lines, plain, d.main.alt != nil) {
			counts[folded]++
			continue
		}
		if counts[unexplained]++; counts[unexplained] < 10 {
			t.Errorf("%#x: %v\n got %+v\nwant %+v", uint64(x.a), x.err, x.lines, x.want.Symbol)
		}
	}
	return counts
}

// sameChain compares with an answer that has the names of DW_AT_name, but for those of the supplementary file.
func sameChain(lines []unwind.Line, want answer, supplement bool) bool {
	if len(lines) != len(want.Symbol) || len(lines) == 0 {
		return false
	}
	for i, l := range lines {
		w := want.Symbol[i]
		name := l.Function.Name
		named := name == w.FunctionName || w.FunctionName == "" && supplement ||
			strings.HasSuffix(name, "::"+w.FunctionName) || hasName(name, w.FunctionName)
		if !named || l.Line != w.Line || l.Column != w.Column || !inSameFile(l, w) {
			return false
		}
	}
	return true
}
