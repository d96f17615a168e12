// Package jitcodetest has what the tests of both kinds of files about JIT-compiled code need.
package jitcodetest

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/symbolize/jitcode"
)

// Limit is a limit in bytes with room for 100,000 functions with names of 60 bytes and 60 lines each, which take 38 MiB, or
// 500,000 with names of 80 bytes and no lines, which take 51 MiB.
const Limit = 64 << 20

// Updater is what follows a file.
type Updater interface {
	Update(r io.ReaderAt, id jitcode.FileID) (more bool, err error)
	Bytes() int
}

// Follow updates until there is no more. It returns the most bytes that u took, and in how many updates.
func Follow(t testing.TB, u Updater, r io.ReaderAt, id jitcode.FileID) (most, updates int) {
	t.Helper()
	for more := true; more; updates++ {
		var err error
		if more, err = u.Update(r, id); err != nil {
			t.Fatal(err)
		}
		most = max(most, u.Bytes())
	}
	return most, updates
}

// Files reads the files of a pattern, of which there are some.
func Files(t testing.TB, pattern string) (all [][]byte) {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b)
	}
	return all
}
