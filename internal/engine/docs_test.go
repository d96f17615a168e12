package engine

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/stopreason"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// TestReasonsAreExplained looks for every reason that metrics and attributes give in the document that says what to do.
func TestReasonsAreExplained(t *testing.T) {
	text, err := os.ReadFile("../../docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	var reasons []string
	for r := range LossReasons {
		reasons = append(reasons, r.String())
	}
	for r := range TableErrors {
		reasons = append(reasons, r.String())
	}
	for _, r := range reasons {
		if !strings.Contains(string(text), "`"+r+"`") {
			t.Errorf("docs/troubleshooting.md does not explain %s", r)
		}
	}
}

// TestStopReasonsHaveWords compares the reasons for the end of a walk with those that have words. That docs/unwinding.md has the
// same words the tests of stopreason see to.
func TestStopReasonsHaveWords(t *testing.T) {
	var want, got []string
	for r := range unwind.StopReasons {
		want = append(want, r.String())
		if stopreason.IsComplete(r.String()) != r.Complete() {
			t.Errorf("%s is complete: %t", r, r.Complete())
		}
	}
	for _, r := range stopreason.All() {
		got = append(got, r.Name)
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("words for %v, but there are %v", got, want)
	}
}
