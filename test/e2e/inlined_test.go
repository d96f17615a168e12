package e2e

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostprofiles/hostprofiles/internal/symbolize/symbolizertest"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
	"github.com/hostprofiles/hostprofiles/test/e2e/analysis"
	"github.com/hostprofiles/hostprofiles/test/e2e/harness"
	"github.com/hostprofiles/hostprofiles/test/e2e/workloads"
)

// TestInlined runs programs of which the compiler has left hardly more than main: every function of their sources is there all
// the same, with its share. Lines are there from the report on that follows the one with the name, so each program runs
// twice, and the second run counts.
func TestInlined(t *testing.T) {
	var programs []workloads.Built
	for _, p := range workloads.Inlined() {
		programs = append(programs, buildProgram(t, p))
	}
	s := start(t, harness.Options{Keep: ours(cache(t))})
	warmUp()
	for _, r := range runAll(programs, 4, time.Second) {
		if r.err != nil {
			t.Fatal(r.err)
		}
	}
	time.Sleep(4 * time.Second) // what was seen at the end is looked up now
	results := runAll(programs, 4, truthCPU)
	all := stop(t, s)
	judgeEach(t, results, all.Samples, judgeInlined)
}

// judgeInlined compares one process's samples with its truth by functions as the source has them.
func judgeInlined(t *testing.T, r ran, samples analysis.Samples) {
	t.Helper()
	delivered(t, r.built.Name, samples.Count(), r.cpu)
	byFunction, covered, chains, lines := map[string]int{}, 0, 0, 0
	wrong := map[string]int{}
	for _, s := range samples {
		calls := sourceCalls(s)
		for _, share := range r.built.Truth {
			at := slices.IndexFunc(calls, func(c analysis.Line) bool { return workloads.Match(share.Function, c.Name) })
			if at < 0 {
				continue
			}
			covered += s.Count
			byFunction[share.Function] += s.Count
			if hasChain(calls, share.Chain) {
				chains += s.Count
			} else {
				wrong[describe(calls)] += s.Count
			}
			if calls[at].File != "" && calls[at].Line > 0 {
				lines += s.Count
			}
			break
		}
	}
	atLeast(t, "samples in the functions that burn", covered, samples.Count(), r.built.Covered)
	atLeast(t, "stacks with the true chain of calls", chains, covered, 0.995)
	atLeast(t, "samples whose line is known", lines, covered, 0.999)
	for _, share := range r.built.Truth {
		got := float64(byFunction[share.Function]) / float64(max(covered, 1))
		if got < share.Of-0.03 || got > share.Of+0.03 {
			t.Errorf("%s has %.1f %%, want %.1f %%", share.Function, 100*got, 100*share.Of)
		}
	}
	t.Logf("%d samples, %d covered, %d with the true chain, by function %v", samples.Count(), covered, chains, byFunction)
	for i, w := range slices.Sorted(maps.Keys(wrong)) {
		if i < 5 {
			t.Logf("%d x wrong chain: %s", wrong[w], w)
		}
	}
}

// sourceCalls are the calls of a sample's user stack as the source has them, main's callers first.
func sourceCalls(s analysis.Sample) (calls []analysis.Line) {
	user := s.User()
	for i := len(user) - 1; i >= 0; i-- {
		for k := len(user[i].Lines) - 1; k >= 0; k-- {
			calls = append(calls, user[i].Lines[k])
		}
	}
	return calls
}

func describe(calls []analysis.Line) string {
	var names []string
	for _, c := range calls {
		names = append(names, fmt.Sprintf("%s:%d", c.Name, c.Line))
	}
	return strings.Join(names, " ")
}

// hasChain tells whether the chain is found in the calls, one right after the other but for workloads.Any.
func hasChain(calls []analysis.Line, chain []string) bool {
	for i := range calls {
		if matches(calls[i:], chain) {
			return true
		}
	}
	return false
}

func matches(calls []analysis.Line, chain []string) bool {
	switch {
	case len(chain) == 0:
		return true
	case chain[0] == workloads.Any:
		return matches(calls, chain[1:]) || len(calls) > 0 && matches(calls[1:], chain)
	}
	return len(calls) > 0 && workloads.Match(chain[0], calls[0].Name) && matches(calls[1:], chain[1:])
}

// leastAddresses is how many different addresses the comparison needs.
const leastAddresses = 10_000

// TestSampledLines compares the lines of all sampled addresses, in programs with much inlined code, with what
// llvm-symbolizer says of them. Each program runs twice, with a pause between for the lines of the first run; the large one has a
// receiver of its own, so that the others' lines take nothing of what its may take. Those have some dozen addresses each, which
// TestInlined has seen, too: they are only compared here when there is time.
func TestSampledLines(t *testing.T) {
	unwindtest.Need(t, symbolizertest.Tool)
	var small []workloads.Built
	for _, p := range workloads.Inlined() {
		// The reference finds no .dwo file in a folder that was renamed, nor what a link that is not absolute leads to.
		if full() && p.Name != "inlined-split" && p.Name != "inlined-debuglink" {
			small = append(small, buildProgram(t, p))
		}
	}
	many := buildProgram(t, workloads.Many())
	addresses, explained := 0, 0
	judge := func(b workloads.Built, all analysis.Samples) {
		addrs, answers := sampledLines(b.Path, all.Where(func(s analysis.Sample) bool { return s.Executable == b.Path }))
		if len(addrs) == 0 {
			t.Errorf("%s: nothing was sampled", b.Name)
			return
		}
		counts, wrong := symbolizertest.Compare(t, b.Path, addrs, answers, symbolizertest.Options{})
		t.Logf("%s: %d addresses: %v", b.Name, len(addrs), counts)
		for _, w := range wrong {
			t.Log(w)
		}
		addresses += len(addrs)
		explained += len(addrs) - counts.Unexplained()
	}
	if full() {
		all := runTwice(t, small, 3*time.Second)
		for _, b := range small {
			judge(b, all)
		}
	}
	judge(many, runTwice(t, []workloads.Built{many, many}, 12*time.Second))
	atLeast(t, "addresses with the reference's chain and lines", explained, addresses, 0.999)
	if addresses < leastAddresses {
		t.Errorf("%d addresses, too few to tell", addresses)
	}
}

// runTwice samples two runs of programs, the second of which begins when the lines of the first have to be known.
func runTwice(t *testing.T, programs []workloads.Built, cpu time.Duration) analysis.Samples {
	t.Helper()
	s := start(t, harness.Options{Keep: ours(cache(t)), Frequency: 9973})
	warmUp()
	for i := range 2 {
		if i > 0 {
			time.Sleep(linesAfter)
		}
		for _, r := range runAll(programs, len(programs), cpu) {
			if r.err != nil {
				t.Fatal(r.err)
			}
		}
	}
	return stop(t, s).Samples
}

// linesAfter is how long after the first sample at an address its lines have to be there: names come at once, lines when a worker
// has read them, which takes one executable after the other and pauses between two batches.
const linesAfter = 10 * time.Second

// sampledLines returns the addresses of a file whose lines have to be known, with the last answer to each.
func sampledLines(path string, samples analysis.Samples) (addrs []unwind.FileAddr, answers []symbolizertest.Answer) {
	first, known := map[unwind.FileAddr]uint64{}, map[unwind.FileAddr][]unwind.Line{}
	slices.SortStableFunc(samples, func(a, b analysis.Sample) int { return cmp.Compare(a.First, b.First) })
	for _, s := range samples {
		for _, f := range s.User() {
			if f.Mapping != path {
				continue
			}
			a := unwind.FileAddr(f.Address)
			if first[a] == 0 {
				first[a] = s.First
			} else if s.First-first[a] > uint64(linesAfter) {
				known[a] = asLines(f.Lines)
			}
		}
	}
	addrs = slices.Sorted(maps.Keys(known))
	for _, a := range addrs {
		answers = append(answers, symbolizertest.Answer{Lines: known[a], Outside: len(known[a]) == 0})
	}
	return addrs, answers
}

func asLines(from []analysis.Line) (lines []unwind.Line) {
	for _, l := range from {
		lines = append(lines, unwind.Line{
			Function: unwind.Function{Name: l.Name, SystemName: l.SystemName, File: l.File, StartLine: int(l.StartLine)},
			Line:     int(l.Line), Column: int(l.Column),
		})
	}
	return lines
}
