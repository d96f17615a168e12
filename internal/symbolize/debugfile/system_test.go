package debugfile

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/symbolize/dwarf"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

// fullTest is the environment variable that asks for the long tests.
const fullTest = "HOSTPROFILES_TEST_FULL"

// TestSystem finds what Debian's debug packages have for programs and libraries, supplementary files included.
func TestSystem(t *testing.T) {
	if os.Getenv(fullTest) == "" {
		t.Skipf("needs Debian's debug packages; set %s=1 to run it", fullTest)
	}
	host := rootFunc(os.Open)
	for pattern, want := range map[string]Source{
		"/lib/*-linux-gnu/libc.so.6": SourceNone, "/lib/*-linux-gnu/ld-linux-*.so.*": SourceNone,
		"/usr/bin/python3": SourceNone, "/usr/bin/perl": SourceAltLink,
	} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			t.Fatalf("no %s: %v", pattern, err)
		}
		path, err := filepath.EvalSymlinks(paths[0])
		if err != nil {
			t.Fatal(err)
		}
		r := &tree{t: t}
		f := r.open(path)
		found, err := Find(t.Context(), f, path, Options{Roots: []Root{host}})
		if err != nil || found.Source != SourceBuildID || found.Supplement != want {
			t.Errorf("%s: %v, %v; install debug packages with make setup", path, found, err)
			continue
		}
		d, err := dwarf.Open(found.Debug, found.Options)
		if err != nil && !errors.Is(err, elffile.ErrTooLarge) {
			t.Errorf("%s: %v", path, err)
		}
		if d != nil {
			d.Close()
		}
		if err := found.Close(); err != nil {
			t.Error(err)
		}
	}
}
