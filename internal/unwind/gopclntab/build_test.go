package gopclntab

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
)

// fullTest is the environment variable that asks for the long tests.
const fullTest = "HOSTPROFILES_TEST_FULL"

// build is a way to build a test program.
type build struct {
	name  string
	dir   string // under testdata
	goVer string // "go1.20.14"; empty for the go command that runs the test
	arch  string // GOARCH, empty for this machine's
	flags []string
}

func (b build) cgo() bool { return b.dir == "cgoprog" }

// run builds the program and returns its path.
func (b build) run(t testing.TB) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "prog")
	dir, err := filepath.Abs(filepath.Join("testdata", b.dir))
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"build", "-o", out}, b.flags...)
	cmd := exec.Command("go", append(args, ".")...)
	cmd.Dir = dir
	cgo := "0"
	if b.cgo() {
		cgo = "1"
	}
	cmd.Env = append(os.Environ(), "CGO_ENABLED="+cgo, "GOFLAGS=-buildvcs=false", "GOWORK=off", "PWD="+dir)
	if b.goVer != "" {
		cmd.Env = append(cmd.Env, "GOTOOLCHAIN="+b.goVer)
	}
	if b.arch != "" {
		cmd.Env = append(cmd.Env, "GOARCH="+b.arch)
		if b.arch != runtime.GOARCH {
			cmd.Env = append(cmd.Env, "CC=aarch64-linux-gnu-gcc")
		}
	}
	if msg, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", b.name, err, msg)
	}
	return out
}

// builds are the ways that linkers lay a program out.
func builds(goVer string) []build {
	return []build{
		{name: "plain", dir: "prog", goVer: goVer},
		{name: "stripped", dir: "prog", goVer: goVer, flags: []string{"-trimpath", "-ldflags=-s -w"}},
		{name: "pie", dir: "prog", goVer: goVer, flags: []string{"-buildmode=pie"}},
		{name: "cgo", dir: "cgoprog", goVer: goVer},
		{name: "cgo-external", dir: "cgoprog", goVer: goVer, flags: []string{"-ldflags=-linkmode=external"}},
		{name: "cgo-pie", dir: "cgoprog", goVer: goVer,
			flags: []string{"-buildmode=pie", "-ldflags=-linkmode=external -s -w"}},
	}
}

func parse(t testing.TB, r io.ReaderAt, size int64) *elffile.File {
	t.Helper()
	f, err := elffile.New(r, size)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func open(t testing.TB, path string) *Table {
	t.Helper()
	return find(t, unwindtest.Open(t, path))
}

func find(t testing.TB, f *elffile.File) *Table {
	t.Helper()
	tab, err := Find(f)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

// withoutSections is a file whose section headers were taken away.
func withoutSections(t testing.TB, path string) *elffile.File {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	clear(b[0x28:0x30]) // e_shoff
	clear(b[0x3c:0x40]) // e_shnum, e_shstrndx
	return parse(t, bytes.NewReader(b), int64(len(b)))
}

// entryOf finds a function's entry by its name in the table.
func entryOf(t testing.TB, tab *Table, name string) (function, bool) {
	t.Helper()
	for i := range tab.nfunc {
		fn, ok := tab.function(i)
		if !ok {
			t.Fatalf("function %d cannot be read", i)
		}
		if got, ok := tab.name(fn.name); ok && strings.TrimSuffix(got, ".abi0") == name {
			return fn, true
		}
	}
	return function{}, false
}
