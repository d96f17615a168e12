package mix

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostprofiles/hostprofiles/test/e2e/analysis"
	"github.com/hostprofiles/hostprofiles/test/e2e/harness"
	"github.com/hostprofiles/hostprofiles/test/e2e/workloads"
)

var (
	programsFlag = flag.String("programs", "", "run only these programs, separated by commas")
	spanFlag     = flag.Duration("span", 5*time.Second, "how long a program of the mix runs")
)

// fullTest is the environment variable that asks for the long tests.
const fullTest = "HOSTPROFILES_TEST_FULL"

// The aims, as parts of stacks that end at their thread's root.
const (
	completeDescribed = 0.995
	completeBare      = 0.9
	// fewest stacks of a kind are judged by a share: of fewer, one is more than an aim leaves.
	fewest = 200
	// enough events of a program are a second and a half of CPU time.
	enough = 1500
)

// exception is a program that does not reach an aim, what it reaches, and why.
type exception struct {
	described, bare float64 // 0: the aim
	// made is what is known to be reached in code made at run time, for which there is no aim. 0: not judged.
	made float64
	why  string
}

// exceptions are what is known today. A program that gets worse than that fails the test; what all programs make together has
// to reach the aims.
func exceptions() map[string]exception {
	return map[string]exception{
		"g++":    {described: 0.96, why: "its garbage collector marks trees by recursion, deeper than the 1,024 frames of max_frames"},
		"java":   {made: 0.99, why: "it has an unwinder of its own"},
		"node":   {made: 0.99, why: "its code keeps frame pointers, which are followed"},
		"luajit": {made: 0.99, why: "callers of traces are found on the stack"},
	}
}

// TestMix profiles real programs at real work, one after the other, and writes a table of what came of their stacks.
func TestMix(t *testing.T) {
	needFull(t)
	files, total := Files{}, Count("all", nil, nil)
	var tallies []*Tally
	dir := workDir(t)
	for _, p := range chosen(t, Programs(), Programs()) {
		t.Run(p.Name, func(t *testing.T) {
			first, tally := measure(t, p, dir, files)
			t.Logf("when it was new: %d samples, complete %v, %v", first.Samples, first.Complete, first.Stops)
			tally.New = first.All()
			judge(t, tally, exceptions()[p.Name])
			tallies = append(tallies, tally)
			total.Merge(tally)
		})
	}
	for name, e := range exceptions() {
		t.Logf("a known exception: %s: %s", name, e.why)
	}
	if *programsFlag == "" {
		if len(tallies) < 30 {
			t.Errorf("%d programs ran, too few", len(tallies))
		}
		judge(t, total, exception{})
	}
	table := Table(append(tallies, total))
	t.Log("\n" + table)
	write(t, "mix.md", table)
}

// needFull skips what installs and runs much unless all tests are wanted.
func needFull(t *testing.T) {
	t.Helper()
	if os.Getenv(fullTest) == "" {
		t.Skipf("runs dozens of real programs for minutes; set %s=1 to run it", fullTest)
	}
}

// chosen are those of all programs that the flag names; without, the default. Other tests know other programs.
func chosen(t *testing.T, all, byDefault []Program) (some []Program) {
	t.Helper()
	if *programsFlag == "" {
		return byDefault
	}
	for _, name := range strings.Split(*programsFlag, ",") {
		named := func(p Program) bool { return p.Name == name }
		if i := slices.IndexFunc(all, named); i >= 0 {
			some = append(some, all[i])
		} else if !slices.ContainsFunc(slices.Concat(Programs(), Applications()), named) {
			t.Fatalf("there is no program %q", name)
		}
	}
	return some
}

// workDir is a folder that every user may enter, which a test's own is not.
func workDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "hostprofiles-mix")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// write puts a result where it outlives the test.
func write(t *testing.T, name, text string) {
	t.Helper()
	root, err := workloads.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, ".cache")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// firstSpan is how long a program runs before the run that counts. Until the tables of a new executable are made (within a
// second, for a hundred megabytes of code), stacks are walked in a copy of at most 60 KiB of their top.
const firstSpan = time.Second

// measure profiles one program and counts its samples, those of its first run apart.
func measure(t *testing.T, p Program, dir string, files Files) (first, tally *Tally) {
	t.Helper()
	early, late := sample(t, p, dir, *spanFlag, nil)
	return Count(p.Name, early, files), Count(p.Name, late, files)
}

// sample profiles one program for about span, and calls after when it has ended, if that is not nil. The samples of a first, short run
// are apart.
func sample(t *testing.T, p Program, dir string, span time.Duration, after func(*Work)) (first, samples analysis.Samples) {
	t.Helper()
	ctx := t.Context()
	work, err := Prepare(ctx, p, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(work.Dir) }() // the whole folder goes at the end
	s, err := harness.Start(context.WithoutCancel(ctx), harness.Options{
		Keep: func(s analysis.Sample) bool { return slices.Contains(p.Images, filepath.Base(s.Executable)) },
	})
	if errors.Is(err, harness.ErrNotSupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second) // it gets to know the host
	begin := time.Now()
	runErr := work.Run(ctx, firstSpan)
	time.Sleep(100 * time.Millisecond) // the kernel tells when processes began by ticks
	second := time.Now()
	if runErr == nil {
		runErr = work.Run(ctx, span)
	}
	r, err := s.Stop()
	if err := errors.Join(runErr, err); err != nil {
		t.Fatal(err)
	}
	if b := r.Balance; b.Taken != b.Delivered+b.Lost || b.Delivered != r.Total || b.Lost != 0 {
		t.Errorf("%d samples taken, %d delivered, %d lost; the consumer got %d", b.Taken, b.Delivered, b.Lost, r.Total)
	}
	for _, problem := range r.Problems {
		t.Errorf("a payload is not conformant: %v", problem)
	}
	const tick = 20 * time.Millisecond
	if after != nil {
		after(work)
	}
	own, late := r.Samples.Where(createdAfter(begin.Add(-tick))), createdAfter(second.Add(-tick))
	early := func(s analysis.Sample) bool { return !late(s) }
	return own.Where(early), own.Where(late)
}

// createdAfter lets the samples of processes through that began after a time: others of the same executables may run on this
// host.
func createdAfter(begin time.Time) func(analysis.Sample) bool {
	return func(s analysis.Sample) bool {
		created, err := time.Parse(time.RFC3339Nano, s.Created)
		return err == nil && created.After(begin)
	}
}

// judge fails the test where a tally misses its aims.
func judge(t *testing.T, tally *Tally, known exception) {
	t.Helper()
	if tally.Samples < enough {
		t.Errorf("%s: %d samples, want %d", tally.Name, tally.Samples, enough)
	}
	aims := [...]float64{known.described, known.bare, known.made}
	for kind, aim := range []float64{completeDescribed, completeBare, 0} {
		if aims[kind] != 0 {
			aim = aims[kind]
		}
		r := tally.Complete[kind]
		if r.All >= fewest && float64(r.Of) < aim*float64(r.All) {
			t.Errorf("%s: %v of the %d stacks in %s are complete, want %.2f %%", tally.Name, r, r.All,
				[...]string{"code with CFI", "code without CFI", "code made at run time"}[kind], 100*aim)
		}
		for _, line := range tally.Worst(Where(kind), 5) {
			t.Log(line)
		}
	}
	t.Logf("%s: %d samples, complete %v, named %v, with lines %v", tally.Name, tally.Samples, tally.Complete, tally.Named, tally.Lined)
}
