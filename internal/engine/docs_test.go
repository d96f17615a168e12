package engine

import (
	"os"
	"strings"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// TestReasonsAreExplained looks for every reason that metrics and attributes give in the document that says what to do.
func TestReasonsAreExplained(t *testing.T) {
	text, err := os.ReadFile("../../docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	var reasons []string
	for r := range unwind.StopReasons {
		reasons = append(reasons, r.String())
	}
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
