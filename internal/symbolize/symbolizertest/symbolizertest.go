// Package symbolizertest compares what is known of addresses with what llvm-symbolizer says of them.
package symbolizertest

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"fmt"
	"os/exec"
	"path"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/symbolize/names"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// Tool is the reference.
const Tool = "llvm-symbolizer-19"

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
	cmd := exec.Command(Tool, args...)
	var in bytes.Buffer
	for _, a := range addrs {
		fmt.Fprintf(&in, "%#x\n", uint64(a))
	}
	cmd.Stdin = &in
	var msg bytes.Buffer
	cmd.Stderr = &msg
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", Tool, err, msg.Bytes())
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

// The ways in which two answers are the same or differ. Those that are explained stand before unexplained.
type difference int

const (
	same         difference = iota
	sameNoSymbol            // llvm-symbolizer has taken the name from the symbol table where DWARF has none
	clone                   // it has the symbol's name: the function's with a compiler's suffix
	alias                   // it has another symbol's name for the same code, as of C1 and C2 constructors
	qualified               // DWARF has no linkage name: it has the plain name, without the namespaces
	supplement              // it does not read supplementary files: the name is there
	linkage                 // it has another symbol's name for code of the procedure linkage table
	folded                  // it has the symbol's name, which is that of another function with the same code
	unexplained
)

func (d difference) String() string {
	return [...]string{"same", "without DWARF function", "clone", "alias", "qualified", "supplement", "linkage table", "folded", "unexplained"}[d]
}

// differ compares our lines for an address with those of llvm-symbolizer. symbols has the names of the symbol table for
// an address's function.
func differ(got Answer, want answer, symbols func(unwind.FileAddr) []string) difference {
	lines := got.Lines
	if len(lines) == 0 {
		if (got.Err == nil || got.Outside) && len(want.Symbol) == 1 && want.Symbol[0].Line == 0 {
			return sameNoSymbol
		}
		return unexplained
	}
	if len(lines) != len(want.Symbol) {
		return unexplained
	}
	if len(lines) == 1 && strings.HasSuffix(lines[0].Function.Name, "@plt") && want.Symbol[0].Line == 0 {
		return linkage
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
		return f.StartLine == w.StartLine || f.StartLine == 0 && !sameFile(f.File, w.StartFileName) || lambdaStart(l, w)
	}
	return l.Line == 0 && f.File == w.StartFileName && f.StartLine == w.StartLine
}

// lambdaStart: llvm-symbolizer does not look for a lambda's line where GCC has it, in the lambda's class.
func lambdaStart(l unwind.Line, w frame) bool {
	f := l.Function
	return w.StartLine == 0 && f.StartLine > 0 && (l.Line == 0 || f.StartLine <= l.Line) && strings.Contains(f.Name, "{lambda")
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

// Answer is what was found out of an address.
type Answer struct {
	Lines []unwind.Line
	// Err is why that is not all.
	Err error
	// Outside tells that nothing is said of the address, which is no error.
	Outside bool
}

// Counts are how many answers agree or differ, by the way in which they do.
type Counts [unexplained + 1]int

// Unexplained is how many differ for no known reason.
func (c Counts) Unexplained() int { return c[unexplained] }

// String lists those that are not 0.
func (c Counts) String() string {
	var s []string
	for how, n := range c {
		if n > 0 {
			s = append(s, fmt.Sprintf("%d %v", n, difference(how)))
		}
	}
	return strings.Join(s, ", ")
}

// Options say how to compare.
type Options struct {
	// Supplement tells that there is a supplementary file, which the reference does not read.
	Supplement bool
	// Args are more arguments for the reference.
	Args []string
}

// Compare compares answers for addresses with the reference's for the file at path. Some of those that differ in a way that is
// not explained are described.
func Compare(t testing.TB, path string, addrs []unwind.FileAddr, answers []Answer, o Options) (counts Counts, wrong []string) {
	t.Helper()
	want := ask(t, path, addrs, o.Args...)
	symbols := symbolNames(t, path)
	var doubts []int
	ways := make([]difference, len(answers))
	for n, got := range answers {
		how := differ(got, want[n], symbols)
		if how == supplement && !o.Supplement {
			how = unexplained
		}
		ways[n] = how
		if how == unexplained || lacksName(got.Lines) {
			doubts = append(doubts, n)
			continue
		}
		counts[how]++
	}
	if len(doubts) == 0 {
		return counts, nil
	}
	var again []unwind.FileAddr
	for _, n := range doubts {
		again = append(again, addrs[n])
	}
	// Without linkage names the symbol table is not asked.
	for i, plain := range ask(t, path, again, append(slices.Clone(o.Args), "--functions=short")...) {
		n := doubts[i]
		switch {
		case ways[n] != unexplained && sameNameless(answers[n].Lines, plain):
			counts[ways[n]]++
			continue
		case ways[n] == unexplained && sameChain(answers[n].Lines, plain, o.Supplement):
			counts[folded]++
			continue
		}
		if counts[unexplained]++; counts[unexplained] < 10 {
			wrong = append(wrong, fmt.Sprintf("%#x: %v\n got %+v\nwant %+v", uint64(addrs[n]), answers[n].Err, answers[n].Lines, want[n].Symbol))
		}
	}
	return counts, wrong
}

// lacksName tells whether a function of an answer has no name, or there is none.
func lacksName(lines []unwind.Line) bool {
	return len(lines) == 0 || slices.ContainsFunc(lines, func(l unwind.Line) bool { return l.Function.Name == "" })
}

// sameNameless tells whether an answer that has no names of the symbol table lacks those that lines lack.
func sameNameless(lines []unwind.Line, want answer) bool {
	if len(lines) == 0 {
		lines = make([]unwind.Line, 1)
	}
	if len(lines) != len(want.Symbol) {
		return false
	}
	for i, l := range lines {
		if l.Function.Name == "" && want.Symbol[i].FunctionName != "" {
			return false
		}
	}
	return true
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

// sameFile tells whether two paths may be of one file: one is the end of the other.
func sameFile(x, y string) bool {
	x, y = path.Clean(x), path.Clean(y)
	if len(x) < len(y) {
		x, y = y, x
	}
	return x == y || path.Base(x) == path.Base(y) && !path.IsAbs(y) && strings.HasSuffix(x, "/"+y)
}

// symbolNames returns the names, as names.Function makes them, of all symbols for the code around an address.
func symbolNames(t testing.TB, path string) func(unwind.FileAddr) []string {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	syms, err := f.Symbols()
	if err != nil {
		t.Logf("%s: %v", path, err)
	}
	syms = slices.DeleteFunc(syms, func(s elf.Symbol) bool { return elf.ST_TYPE(s.Info) != elf.STT_FUNC })
	sort.Slice(syms, func(i, j int) bool { return syms[i].Value < syms[j].Value })
	return func(a unwind.FileAddr) (all []string) {
		i := sort.Search(len(syms), func(i int) bool { return syms[i].Value > uint64(a) })
		for k := i - 1; k >= 0 && syms[k].Value == syms[i-1].Value; k-- {
			all = append(all, names.Function(syms[k].Name).Name)
		}
		return all
	}
}
