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
		judge(t, r, samples)
		shown(t, programs[r.built.Name].Readable, samples)
	})
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
