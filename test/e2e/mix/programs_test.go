package mix

import (
	"os/exec"
	"slices"
	"testing"
)

// TestScripts has bash read every script without running it, as they run only with all tests.
func TestScripts(t *testing.T) {
	checkScripts(t, slices.Concat(Programs(), Applications()))
	var opinionated []Program
	for _, o := range opinions() {
		opinionated = append(opinionated, o.Program)
	}
	checkScripts(t, opinionated)
}

func checkScripts(t *testing.T, programs []Program) {
	t.Helper()
	names := map[string]bool{}
	for _, p := range programs {
		if names[p.Name] || len(p.Images) == 0 || p.Run == "" {
			t.Errorf("%q is not a program, or one twice", p.Name)
		}
		names[p.Name] = true
		for _, text := range []string{p.Setup, p.Run} {
			if out, err := exec.Command("bash", "-n", "-c", prelude+text).CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", p.Name, err, out)
			}
		}
	}
}
