package dwarf

import (
	"debug/elf"
	"encoding/hex"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/symbolize/symbolizertest"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
)

// fullTest is the environment variable that asks for the long tests.
const fullTest = "HOSTPROFILES_TEST_FULL"

// TestSystem compares what Debian's debug packages say of programs and libraries. Their sections are compressed, and what
// several files of a package share is in a supplementary file.
func TestSystem(t *testing.T) {
	if os.Getenv(fullTest) == "" {
		t.Skipf("compares with %s at 10,000 addresses for each of some large files; set %s=1 to run it", symbolizertest.Tool, fullTest)
	}
	unwindtest.Need(t, symbolizertest.Tool)
	for _, pattern := range []string{
		"/lib/*-linux-gnu/libc.so.6", "/lib/*-linux-gnu/libm.so.6", "/lib/*-linux-gnu/ld-linux-*.so.*", "/usr/bin/python3", "/usr/bin/perl",
	} {
		t.Run(filepath.Base(pattern), func(t *testing.T) {
			paths, err := filepath.Glob(pattern)
			if err != nil || len(paths) == 0 {
				t.Fatalf("no %s: %v", pattern, err)
			}
			path, err := filepath.EvalSymlinks(paths[0])
			if err != nil {
				t.Fatal(err)
			}
			debug := debugFile(t, path)
			var o Options
			if name := supplementOf(t, debug); name != "" {
				o.Supplement = openDebug(t, name)
			}
			budget := elffile.NewBudget(debug, 256<<20)
			d, err := Open(openDebug(t, debug).Within(budget), o)
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			addrs := someOf(instructions(t, path), 10000)
			counts := compare(t, d, debug, addrs)
			t.Logf("%d addresses: %v; %d bytes, %+v", len(addrs), counts, d.Bytes(), d.Stats())
			if err := d.Problems(); err != nil {
				t.Error(err)
			}
		})
	}
}

// someOf picks n of the addresses, always the same ones.
func someOf(addrs []unwind.FileAddr, n int) []unwind.FileAddr {
	r := rand.New(rand.NewPCG(1, 2))
	r.Shuffle(len(addrs), func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] })
	addrs = addrs[:min(n, len(addrs))]
	slices.Sort(addrs)
	return addrs
}

// debugFile finds a file's debug information by its build id.
func debugFile(t testing.TB, path string) string {
	t.Helper()
	id, _ := unwindtest.Open(t, path).BuildIDs()
	if len(id) < 3 {
		t.Fatalf("%s has no build id", path)
	}
	name := filepath.Join("/usr/lib/debug/.build-id", id[:2], id[2:]+".debug")
	if _, err := os.Stat(name); err != nil {
		t.Fatalf("no debug information for %s: install it with make setup (%v)", path, err)
	}
	return name
}

// supplementOf returns the file that .gnu_debugaltlink names: a path, then a build id.
func supplementOf(t testing.TB, path string) string {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := f.Section(".gnu_debugaltlink")
	if s == nil {
		return ""
	}
	b, err := s.Data()
	if err != nil {
		t.Fatal(err)
	}
	name, id, ok := strings.Cut(string(b), "\x00")
	if !ok || len(id) < 3 {
		t.Fatalf("%q", b)
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(filepath.Dir(path), name)
	}
	if _, err := os.Stat(name); err != nil {
		h := hex.EncodeToString([]byte(id))
		name = filepath.Join("/usr/lib/debug/.build-id", h[:2], h[2:]+".debug")
	}
	return name
}
