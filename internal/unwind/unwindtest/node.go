package unwindtest

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// Node returns a Node.js that has the symbols of V8's built-in functions: the one that is installed, or, as distributions strip theirs,
// that of scripts/nodes.sh.
func Node(t testing.TB) string {
	t.Helper()
	Need(t, "node")
	path, err := exec.LookPath("node")
	if err != nil {
		t.Fatal(err)
	}
	if hasBuiltins(path) {
		return path
	}
	Need(t, "npm")
	_, here, _, _ := runtime.Caller(0)
	cmd := exec.Command(filepath.Join(filepath.Dir(here), "../../../scripts/nodes.sh"), "20")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("scripts/nodes.sh: %v", err)
	}
	_, path, _ = strings.Cut(strings.TrimSpace(string(out)), " ")
	if !hasBuiltins(path) {
		t.Fatalf("%s has no symbols of V8's built-in functions", path)
	}
	return path
}

func hasBuiltins(path string) bool {
	f, err := elf.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	symbols, err := f.Symbols()
	return err == nil && slices.ContainsFunc(symbols, func(s elf.Symbol) bool { return strings.HasPrefix(s.Name, "Builtins_") })
}
