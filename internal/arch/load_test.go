// Package arch holds the tests of the architecture: what docs/architecture.md says about the tree, checked.
package arch

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/hostprofiles/hostprofiles"

// goPackage is what `go list -json` says of a package.
type goPackage struct {
	ImportPath string
	Dir        string
	Export     string
	GoFiles    []string
	Imports    []string
	Module     *struct{ Path string }
}

// path is the package's path inside the module.
func (p goPackage) path() string {
	return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
}

func (p goPackage) own() bool { return p.Module != nil && p.Module.Path == module }

func root(t *testing.T) string {
	dir, err := filepath.Abs("../..")
	require.NoError(t, err)
	return dir
}

// list returns the module's packages as they are on arch; with the flags "-deps" and "-export" also everything they
// depend on, compiled.
func list(t *testing.T, arch string, flags ...string) []goPackage {
	cmd := exec.Command("go", append(append([]string{"list", "-json"}, flags...), "./...")...)
	cmd.Dir = root(t)
	cmd.Env = append(os.Environ(), "GOARCH="+arch, "CGO_ENABLED=0")
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		require.Failf(t, "go list failed", "%s", exit.Stderr)
	}
	require.NoError(t, err)
	var packages []goPackage
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else {
			require.NoError(t, err)
		}
		packages = append(packages, p)
	}
}

// checked is a package of the module, parsed and with types.
type checked struct {
	fset  *token.FileSet
	files []*ast.File
	info  types.Info
}

func newChecked(fset *token.FileSet) checked {
	return checked{fset: fset, info: types.Info{
		Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{},
		Selections: map[*ast.SelectorExpr]*types.Selection{},
	}}
}

// check parses and types the module's packages, as they are on this machine.
func check(t *testing.T) []checked {
	packages := list(t, runtime.GOARCH, "-deps", "-export")
	exports := map[string]string{}
	for _, p := range packages {
		exports[p.ImportPath] = p.Export
	}
	fset := token.NewFileSet()
	imports := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("no export data of %s", path)
		}
		return os.Open(exports[path])
	})
	var all []checked
	for _, p := range packages {
		if !p.own() || len(p.GoFiles) == 0 {
			continue
		}
		c := newChecked(fset)
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.ParseComments)
			require.NoError(t, err)
			c.files = append(c.files, f)
		}
		config := types.Config{Importer: imports, Sizes: types.SizesFor("gc", runtime.GOARCH)}
		_, err := config.Check(p.ImportPath, fset, c.files, &c.info)
		require.NoError(t, err)
		all = append(all, c)
	}
	require.NotEmpty(t, all)
	return all
}
