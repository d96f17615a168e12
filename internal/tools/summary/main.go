// Command summary reads what `go test -json` prints and shows what people want of it: a line per package, the output of
// tests that failed, the tests that were skipped and why. It ends with the counts, and fails if a test did.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

func main() {
	s := newSummary(os.Stdout)
	if err := s.read(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "summary:", err)
		os.Exit(2)
	}
	s.finish()
	if s.failed > 0 {
		os.Exit(1)
	}
}

// event is a line of test2json (cmd/internal/test2json, Go 1.26).
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
	Elapsed float64 // seconds
}

type summary struct {
	out      io.Writer
	output   map[string][]string // by package and test; a package's own with an empty test
	failedIn map[string]bool     // packages with failed tests
	skips    []string
	slow     []slowTest
	passed   int
	failed   int
	skipped  int
}

func newSummary(out io.Writer) *summary {
	return &summary{out: out, output: map[string][]string{}, failedIn: map[string]bool{}}
}

func (s *summary) read(r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			fmt.Fprintln(s.out, lines.Text()) // go's own errors are not JSON
			continue
		}
		s.event(e)
	}
	return lines.Err()
}

func (s *summary) event(e event) {
	key := e.Package + " " + e.Test
	switch e.Action {
	case "build-output":
		fmt.Fprint(s.out, e.Output)
	case "output":
		s.output[key] = append(s.output[key], e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			s.endOfPackage(e)
		} else {
			s.endOfTest(e, key)
		}
	}
}

func (s *summary) endOfTest(e event, key string) {
	switch e.Action {
	case "pass":
		s.passed++
	case "fail":
		s.failed++
		s.failedIn[e.Package] = true
		fmt.Fprint(s.out, strings.Join(s.output[key], ""))
	case "skip":
		s.skipped++
		s.skips = append(s.skips, fmt.Sprintf("%s: %s", key, reason(s.output[key])))
	}
	if e.Elapsed >= slowSeconds && !strings.Contains(e.Test, "/") {
		s.slow = append(s.slow, slowTest{e.Test, e.Elapsed})
	}
	delete(s.output, key)
}

// slowSeconds is from when on a test is named for the time it took, and slowTests how many are.
const (
	slowSeconds = 10
	slowTests   = 12
)

type slowTest struct {
	name    string
	seconds float64
}

// endOfPackage prints the package's line. One that fails without a failed test (it does not build, it crashed) counts as
// one failure, with all it had to say.
func (s *summary) endOfPackage(e event) {
	own := s.output[e.Package+" "]
	if e.Action == "fail" {
		if !s.failedIn[e.Package] {
			s.failed++
		}
		fmt.Fprint(s.out, strings.Join(own, ""))
	} else {
		for _, line := range own {
			if strings.HasPrefix(line, "ok ") {
				fmt.Fprint(s.out, line)
			}
		}
	}
	for key := range s.output {
		if strings.HasPrefix(key, e.Package+" ") {
			if e.Action == "fail" && key != e.Package+" " {
				fmt.Fprint(s.out, strings.Join(s.output[key], "")) // it ended in the middle of this test
			}
			delete(s.output, key)
		}
	}
}

// reason finds in a skipped test's output why it was skipped.
func reason(output []string) string {
	var said []string
	for _, line := range output {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "--- ") {
			said = append(said, line)
		}
	}
	return strings.Join(said, " ")
}

func (s *summary) finish() {
	for _, skip := range s.skips {
		fmt.Fprintln(s.out, "skipped:", skip)
	}
	slices.SortFunc(s.slow, func(a, b slowTest) int { return cmp.Compare(b.seconds, a.seconds) })
	for _, t := range s.slow[:min(slowTests, len(s.slow))] {
		fmt.Fprintf(s.out, "slow: %.0f s %s\n", t.seconds, t.name)
	}
	fmt.Fprintf(s.out, "%d passed, %d failed, %d skipped\n", s.passed, s.failed, s.skipped)
}
