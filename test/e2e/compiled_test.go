package e2e

import (
	"slices"
	"testing"

	"github.com/hostprofiles/hostprofiles/test/e2e/analysis"
	"github.com/hostprofiles/hostprofiles/test/e2e/harness"
	"github.com/hostprofiles/hostprofiles/test/e2e/workloads"
)

// TestCompiledLanguages runs the programs of docs/languages.md.
func TestCompiledLanguages(t *testing.T) {
	if *programsFlag == "" {
		needsFull(t)
	}
	programs := map[string]workloads.CompiledProgram{}
	var built []workloads.Built
	b, err := workloads.NewBuilder()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range chosen(t, workloads.Compiled(), func(p workloads.CompiledProgram) string { return p.Name }) {
		program, err := b.Build(p.Program)
		if err != nil {
			t.Errorf("%s: %v", p.Name, err)
			continue
		}
		programs[p.Name], built = p, append(built, program)
	}
	s := start(t, harness.Options{Keep: ours(cache(t))})
	warmUp()
	results := runAll(built, 2, truthCPU)
	judgeEach(t, results, stop(t, s).Samples, func(t *testing.T, r ran, samples analysis.Samples) {
		if programs[r.built.Name].LeavesOnly {
			judgeLeaves(t, r, samples)
		} else {
			judge(t, r, samples)
		}
		shown(t, programs[r.built.Name].Readable, samples)
	})
}

// judgeLeaves compares the functions that run with the truth, where stacks are not walked: each is the innermost frame, and what an
// incomplete stack gives as its reason is one of those that docs/languages.md has.
func judgeLeaves(t *testing.T, r ran, samples analysis.Samples) {
	t.Helper()
	delivered(t, r.built.Name, samples.Count(), r.cpu)
	withPath(t, samples)
	leaves := slices.Clone(samples)
	for i := range leaves {
		if user := leaves[i].User(); len(user) > 0 {
			leaves[i].Frames = user[:1:1]
		}
	}
	report := analysis.Judge(r.built, leaves)
	atLeast(t, "samples in the functions that burn", report.Covered, report.Samples, r.built.Covered)
	if worst := report.ShareError(r.built.Truth); worst > 0.03 {
		t.Errorf("a share is wrong by %.1f points", 100*worst)
	}
	if report.Named != report.Nameable || report.Nameable == 0 {
		t.Errorf("frames in functions with symbols: %d, named: %d", report.Nameable, report.Named)
	}
	// What is above the function that runs is not known: no more stacks may be said to be complete than those of the runtime's own C.
	atLeast(t, "stacks that say why they end", report.Samples-report.Complete, report.Samples, 0.98)
	for reason, n := range report.Stops {
		if !slices.Contains([]string{"", "no_mapping", "no_rule", "copy_end"}, reason) {
			t.Errorf("%d stacks end for the reason %q", n, reason)
		}
	}
	show(t, report)
}

// shown fails the test if a name is not in any stack.
func shown(t *testing.T, names []string, samples analysis.Samples) {
	t.Helper()
	seen := map[string]bool{}
	for _, s := range samples {
		for _, f := range s.User() {
			seen[f.Name()] = true
		}
	}
	for _, name := range names {
		if !seen[name] {
			t.Errorf("no frame has the name %q", name)
		}
	}
	if t.Failed() {
		var all []string
		for name := range seen {
			all = append(all, name)
		}
		slices.Sort(all)
		t.Logf("names: %q", all)
	}
}
