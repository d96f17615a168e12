package arch

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNoPackageLevelMutableState(t *testing.T) {
	for _, c := range check(t) {
		for _, problem := range globals(c) {
			t.Error(problem)
		}
	}
}

// The check itself is checked: each line of a small package either is a problem or is not.
func TestGlobalsFindsWrites(t *testing.T) {
	const source = `package p
import ("errors"; "regexp"; "sync"; "net/http")
var table = [2]string{"a", "b"}
var names = map[string]int{}
var fine = errors.New("x")
var expression = regexp.MustCompile("x")
var _ error = fine
var unset int            // problem
var lock = sync.Mutex{}  // problem
var pointer = new(int)   // problem
var channel = make(chan int) // problem
var holder = struct{ m []*sync.Map }{} // problem
type counter struct{ n int }
func (c *counter) add() { c.n++ }
func (c counter) get() int { return c.n }
var count = counter{}
func read() (int, string) { table := table; table[0] = "c"; _ = expression.String(); return names["x"] + count.get(), table[0] }
func f() {
	table[1] = "c"       // problem
	names["x"]++         // problem
	(names) = nil        // problem
	delete(names, "x")   // problem
	clear(names)         // problem
	copy(table[:], []string{}) // problem
	p := &table          // problem
	_ = p
	count.add()          // problem
	count.n = 1          // problem
	fine, _ = nil, 1     // problem
	http.DefaultClient = nil // problem
	for table[0] = range names {} // problem
	local := 1; local++; _ = &local
}
`
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "p.go", source, parser.ParseComments)
	require.NoError(t, err)
	c := newChecked(fset)
	c.files = []*ast.File{f}
	config := types.Config{Importer: importer.ForCompiler(fset, "source", nil)}
	_, err = config.Check("p", fset, c.files, &c.info)
	require.NoError(t, err)

	var want, got []int
	for i, line := range strings.Split(source, "\n") {
		if strings.HasSuffix(line, "// problem") {
			want = append(want, i+1)
		}
	}
	for _, problem := range globals(c) {
		var line int
		_, err := fmt.Sscanf(problem, "p.go:%d:", &line)
		require.NoError(t, err)
		got = append(got, line)
	}
	require.ElementsMatch(t, want, got)
}

// globals finds package-level variables that could change: those whose type is made to change, and those that something
// writes to. Tables and sentinel errors that are only read are fine.
func globals(c checked) (problems []string) {
	say := func(pos token.Pos, format string, args ...any) {
		problems = append(problems, fmt.Sprintf("%s: %s", c.fset.Position(pos), fmt.Sprintf(format, args...)))
	}
	for _, f := range c.files {
		if !ast.IsGenerated(f) {
			declarations(c, f, say)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			for _, e := range written(c, n) {
				if v := packageVar(c, e); v != nil {
					say(e.Pos(), "%s is written to, or its address is taken", v.Name())
				}
			}
			return true
		})
	}
	return problems
}

// declarations judges variables by how they are declared.
func declarations(c checked, f *ast.File, say func(token.Pos, string, ...any)) {
	for _, d := range f.Decls {
		decl, ok := d.(*ast.GenDecl)
		if !ok || decl.Tok != token.VAR {
			continue
		}
		for _, s := range decl.Specs {
			spec := s.(*ast.ValueSpec)
			for _, name := range spec.Names {
				if name.Name == "_" {
					continue
				}
				typ := c.info.Defs[name].Type()
				switch {
				case len(spec.Values) == 0 && !embedded(decl, spec):
					say(name.Pos(), "%s has no value: it could only be set later", name.Name)
				case mutable(typ, map[types.Type]bool{}):
					say(name.Pos(), "%s has the type %s, which is made to change", name.Name, typ)
				}
			}
		}
	}
}

func embedded(decl *ast.GenDecl, spec *ast.ValueSpec) bool {
	for _, doc := range []*ast.CommentGroup{decl.Doc, spec.Doc} {
		if doc == nil {
			continue
		}
		for _, line := range doc.List {
			if strings.HasPrefix(line.Text, "//go:embed ") {
				return true
			}
		}
	}
	return false
}

// mutable tells types that have no use unless they change: locks, atomics, channels, and pointers to anything but
// what is known to be immutable.
func mutable(t types.Type, seen map[types.Type]bool) bool {
	if seen[t] {
		return false
	}
	seen[t] = true
	if named, ok := types.Unalias(t).(*types.Named); ok && named.Obj().Pkg() != nil {
		switch named.Obj().Pkg().Path() {
		case "sync", "sync/atomic":
			return true
		case "embed": // files of the build
			return false
		}
	}
	switch u := t.Underlying().(type) {
	case *types.Chan:
		return true
	case *types.Pointer:
		name := types.TypeString(u.Elem(), nil)
		return name != "regexp.Regexp" && name != "encoding/base64.Encoding"
	case *types.Struct:
		for i := range u.NumFields() {
			if mutable(u.Field(i).Type(), seen) {
				return true
			}
		}
	case *types.Array:
		return mutable(u.Elem(), seen)
	case *types.Slice:
		return mutable(u.Elem(), seen)
	case *types.Map:
		return mutable(u.Elem(), seen)
	}
	return false
}

// written returns the expressions that a node writes to or lets others write to.
func written(c checked, n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			return n.Lhs
		}
	case *ast.IncDecStmt:
		return []ast.Expr{n.X}
	case *ast.RangeStmt:
		if n.Tok == token.ASSIGN {
			return []ast.Expr{n.Key, n.Value}
		}
	case *ast.UnaryExpr:
		if n.Op == token.AND {
			return []ast.Expr{n.X}
		}
	case *ast.SendStmt:
		return []ast.Expr{n.Chan}
	case *ast.CallExpr:
		return writtenByCall(c, n)
	}
	return nil
}

func writtenByCall(c checked, n *ast.CallExpr) []ast.Expr {
	switch fun := ast.Unparen(n.Fun).(type) {
	case *ast.Ident:
		_, builtin := c.info.Uses[fun].(*types.Builtin)
		if builtin && (fun.Name == "delete" || fun.Name == "clear" || fun.Name == "copy" || fun.Name == "close") {
			return n.Args[:1]
		}
	case *ast.SelectorExpr: // a method that takes its receiver by address
		selection := c.info.Selections[fun]
		if selection == nil || selection.Kind() != types.MethodVal {
			return nil
		}
		_, byAddress := selection.Obj().(*types.Func).Signature().Recv().Type().(*types.Pointer)
		_, isPointer := selection.Recv().Underlying().(*types.Pointer)
		if byAddress && !isPointer {
			return []ast.Expr{fun.X}
		}
	}
	return nil
}

// packageVar returns the package-level variable, of whatever package, that e is or is a part of.
func packageVar(c checked, e ast.Expr) *types.Var {
	for {
		switch x := e.(type) {
		case *ast.ParenExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.SliceExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.SelectorExpr:
			if v := asPackageVar(c.info.Uses[x.Sel]); v != nil {
				return v
			}
			e = x.X
		case *ast.Ident:
			return asPackageVar(c.info.Uses[x])
		default:
			return nil
		}
	}
}

func asPackageVar(o types.Object) *types.Var {
	v, ok := o.(*types.Var)
	if !ok || v.IsField() || v.Pkg() == nil || v.Parent() != v.Pkg().Scope() {
		return nil
	}
	return v
}
