package unwindtest

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// Corpus has scripts/corpus.sh unpack Debian packages for arm64, if that was not done before, and returns the folder that stands for
// their root. root is the path to the project's.
func Corpus(t testing.TB, root string) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join(root, ".cache/corpus/arm64"))
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(filepath.Join(root, "scripts/corpus.sh"), "arm64", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return filepath.Join(dir, "root")
}
