package mix

import (
	"os/exec"
	"testing"
)

// TestScripts has bash read every script without running it, as the mix itself runs only with all tests.
func TestScripts(t *testing.T) {
	names := map[string]bool{}
	for _, p := range Programs() {
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
