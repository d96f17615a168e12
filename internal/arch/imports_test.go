package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// layers is the module from the inside out: a package may import its own subtree and layers before its own. Parts of one
// layer do not know each other.
func layers() [][]string {
	return [][]string{
		{"internal/ebpf/abi", "internal/health", "internal/stopreason"},
		{"internal/unwind"},
		{"internal/runtimes"},
		{"internal/ebpf", "internal/process", "internal/profile", "internal/symbolize"},
		{"internal/engine", "internal/pprof"},
		{"receiver"},
	}
}

// shared are parts that those apart may import too. They know nothing of a host.
func shared() []string { return []string{"internal/health", "internal/pprof", "internal/stopreason"} }

// apart are parts that import nothing of the module but what is shared: they work in any collector.
func apart() []string {

	return []string{"exporter/top", "exporter/flamegraph", "distribution/profilesgate", "cmd/hostprofiles-top"}

}

// within tells whether a package lies in the subtree of part.
func within(path, part string) bool { return path == part || strings.HasPrefix(path, part+"/") }

// place returns the part and the layer that a package belongs to; the longest match counts.
func place(path string) (part string, layer int, ok bool) {
	for i, parts := range layers() {
		for _, p := range parts {
			if within(path, p) && len(p) > len(part) {
				part, layer, ok = p, i, true
			}
		}
	}
	return part, layer, ok
}

// mayImport says whether a package of the module may import another.
func mayImport(from, to string) bool {
	for _, p := range apart() {
		if within(from, p) {
			return within(to, p) || slices.ContainsFunc(shared(), func(p string) bool { return within(to, p) })
		}
	}
	fromPart, fromLayer, ok := place(from)
	if !ok {
		return within(from, "test") || within(from, "internal/arch")
	}
	toPart, toLayer, ok := place(to)
	return ok && (toPart == fromPart || toLayer < fromLayer)
}

func TestMayImport(t *testing.T) {
	for _, tt := range []struct {
		from, to string
		want     bool
	}{
		{"receiver", "internal/engine", true},
		{"receiver", "internal/unwind", true},
		{"receiver", "receiver/internal/metadata", true},
		{"internal/engine", "receiver", false},
		{"internal/engine", "internal/ebpf", true},
		{"internal/ebpf", "internal/ebpf/abi", true},
		{"internal/ebpf/abi", "internal/ebpf", false},
		{"internal/ebpf", "internal/process", false},
		{"internal/process/procfs", "internal/process", true},
		{"internal/runtimes/python", "internal/symbolize", false},
		{"internal/unwind/ehframe", "internal/unwind", true},
		{"internal/unwind", "internal/runtimes", false},
		{"exporter/top", "internal/unwind", false},
		{"exporter/flamegraph", "internal/health", true},
		{"exporter/flamegraph", "exporter/top", false},
		{"cmd/hostprofiles-top", "exporter/flamegraph", false},
		{"receiver", "internal/health", true},
		{"internal/health", "internal/unwind", false},
		{"internal/stopreason", "internal/unwind", false},
		{"cmd/hostprofiles-top", "internal/stopreason", true},
		{"internal/pprof", "internal/profile", true},
		{"internal/pprof", "internal/engine", false},
		{"exporter/top", "exporter/top/internal/metadata", true},
		{"somewhere/new", "internal/unwind", false},
		{"internal/unwind", "somewhere/new", false},
		{"test/e2e", "receiver", true},
	} {
		require.Equal(t, tt.want, mayImport(tt.from, tt.to), "%s -> %s", tt.from, tt.to)
	}
}

func TestImportsPointInward(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		for _, p := range list(t, arch) {
			if !p.own() {
				continue
			}
			for _, to := range p.Imports {
				if inside, ok := strings.CutPrefix(to, module+"/"); ok {
					if !mayImport(p.path(), inside) {
						t.Errorf("%s must not import %s", p.path(), inside)
					}
				}
			}
		}
	}
}

// An allowance names the only parts whose files, tests included, may use something. The end-to-end tests are free to.
type allowance struct {
	what    string
	parts   []string
	inTests bool // tests of other parts may use it too
}

// importAllowances: the key is an import path with all below it.
func importAllowances() []allowance {
	return []allowance{
		{what: "github.com/cilium/ebpf", parts: []string{"internal/ebpf"}},
		{what: "C", parts: []string{"internal/unwind/hostbpf"}},
		{what: "log"}, // loggers come through constructors
	}
}

// selectorAllowances: qualified names, syscall standing for golang.org/x/sys/unix too.
func selectorAllowances() []allowance {
	kernel := []string{"internal/ebpf"}
	return []allowance{
		{what: "syscall.SYS_BPF", parts: kernel},
		{what: "syscall.SYS_PERF_EVENT_OPEN", parts: kernel},
		{what: "syscall.PerfEventOpen", parts: kernel},
		// Files of targets are never mapped: a file truncated under a mapping is a fatal SIGBUS. Tests play targets.
		{what: "syscall.Mmap", parts: kernel, inTests: true},
		{what: "syscall.MmapPtr", parts: kernel, inTests: true},
		{what: "syscall.SYS_MMAP", parts: kernel, inTests: true},
		// Sizes are free for all; the builder hashes pointers.
		{what: "unsafe.Pointer", parts: []string{"internal/ebpf", "internal/unwind/hostbpf", "internal/profile"}, inTests: true},
		{what: "unsafe.Slice", parts: kernel, inTests: true},
		{what: "unsafe.String"},
	}
}

func (a allowance) permits(path, file string) bool {
	if a.inTests && strings.HasSuffix(file, "_test.go") {
		return true
	}
	return slices.ContainsFunc(append(a.parts, "test"), func(part string) bool { return within(path, part) })
}

func TestOnlyOnePlaceTalksToTheKernel(t *testing.T) {
	forEachGoFile(t, func(path, file string) {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		require.NoError(t, err)
		for _, spec := range f.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			require.NoError(t, err)
			for _, a := range importAllowances() {
				if within(imported, a.what) && !a.permits(path, file) {
					t.Errorf("%s must not import %s", file, imported)
				}
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			pkg, ok := s.X.(*ast.Ident)
			if !ok {
				return true
			}
			used := strings.Replace(pkg.Name, "unix", "syscall", 1) + "." + s.Sel.Name
			for _, a := range selectorAllowances() {
				if used == a.what && !a.permits(path, file) {
					t.Errorf("%s must not use %s", file, used)
				}
			}
			return true
		})
	})
}

// forEachGoFile calls f with each Go file of the module, whatever its build constraints, and with the path of its package.
func forEachGoFile(t *testing.T, f func(path, file string)) {
	forEachFile(t, func(name string) {
		if filepath.Ext(name) == ".go" {
			f(filepath.ToSlash(filepath.Dir(name)), filepath.Join(root(t), name))
		}
	})
}

// forEachFile calls f with the path inside the repository of each file that people or generators wrote.
func forEachFile(t *testing.T, f func(name string)) {
	count := 0
	err := filepath.WalkDir(root(t), func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root(t), path)
		if err != nil {
			return err
		}
		switch {
		case entry.IsDir() && (name == ".git" || name == ".cache" || name == "build" || entry.Name() == "testdata"):
			return filepath.SkipDir
		case entry.Type().IsRegular():
			count++
			f(name)
		}
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, count, 50)
}
