package debugfile

import (
	"context"
	"debug/elf"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/symbolize/dwarf"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
)

// source is a program whose main calls something that is inlined. Its types are many enough for dwz to share.
const source = `struct point { int x, y, z; struct point *next; };
struct line { struct point from, to; long length; char name[20]; };
static struct line all[4];
static inline __attribute__((always_inline)) int sum(struct point *p) { return p->x + p->y + all[p->z & 3].from.x; }
int main(int argc, char **argv) { struct point p = {argc, 1, 2, 0}; return sum(&p); }
`

// tree is a directory that plays a file system. Programs are built in its /src.
type tree struct {
	t    testing.TB
	dir  string
	seen []string // paths that were opened
}

func newTree(t testing.TB) *tree {
	t.Helper()
	r := &tree{t: t, dir: t.TempDir()}
	r.write("/src/main.c", []byte(source))
	return r
}

// Open is a Root's. That nothing leaves the root is the concern of the one in package procfs.
func (r *tree) Open(path string) (*os.File, error) {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path || strings.IndexByte(path, 0) >= 0 {
		r.t.Errorf("%q is opened", path)
	}
	r.seen = append(r.seen, path)
	return os.Open(r.dir + path)
}

func (r *tree) write(path string, data []byte) {
	r.t.Helper()
	if err := os.MkdirAll(filepath.Dir(r.dir+path), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(r.dir+path, data, 0o755); err != nil {
		r.t.Fatal(err)
	}
}

func (r *tree) read(path string) []byte {
	r.t.Helper()
	b, err := os.ReadFile(r.dir + path)
	if err != nil {
		r.t.Fatal(err)
	}
	return b
}

func (r *tree) move(from, to string) {
	r.t.Helper()
	r.write(to, r.read(from))
	if err := os.Remove(r.dir + from); err != nil {
		r.t.Fatal(err)
	}
}

// run runs a command in /src.
func (r *tree) run(command ...string) {
	r.t.Helper()
	unwindtest.Need(r.t, command[0])
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir = r.dir + "/src"
	if out, err := cmd.CombinedOutput(); err != nil {
		r.t.Fatalf("%v: %v\n%s", command, err, out)
	}
}

// build compiles the program as /src/prog.
func (r *tree) build(args ...string) *tree {
	r.t.Helper()
	r.run(append([]string{"gcc", "-g", "-O2", "-Wl,--build-id=sha1", "-o", "prog", "main.c"}, args...)...)
	return r
}

// strip puts the debug information of /src/prog into /src/prog.debug, and a link to it into what is left.
func (r *tree) strip() *tree {
	r.t.Helper()
	r.run("objcopy", "--only-keep-debug", "prog", "prog.debug")
	r.run("objcopy", "--strip-debug", "--remove-section=.gnu_debuglink", "--add-gnu-debuglink=prog.debug", "prog")
	return r
}

// open opens a file with a budget.
func (r *tree) open(path string) *elffile.File {
	r.t.Helper()
	f, err := os.Open(r.dir + path)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { f.Close() })
	st, err := f.Stat()
	if err != nil {
		r.t.Fatal(err)
	}
	e, err := elffile.NewDebug(f, st.Size())
	if err != nil {
		r.t.Fatal(err)
	}
	return e.Within(elffile.NewBudget(path, 32<<20))
}

func (r *tree) id(path string) string {
	r.t.Helper()
	id, _ := r.open(path).BuildIDs()
	if id == "" {
		r.t.Fatalf("%s has no build id", path)
	}
	return id
}

func (r *tree) debugPath(path string) string {
	p, ok := buildIDPath(r.id(path))
	if !ok {
		r.t.Fatalf("no place for %s", path)
	}
	return p
}

// mainAt returns where a program's main is.
func (r *tree) mainAt(path string) unwind.FileAddr {
	r.t.Helper()
	f, err := elf.Open(r.dir + path)
	if err != nil {
		r.t.Fatal(err)
	}
	defer f.Close()
	syms, err := f.Symbols()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, s := range syms {
		if s.Name == "main" {
			return unwind.FileAddr(s.Value)
		}
	}
	r.t.Fatalf("no main in %s", path)
	panic("unreachable")
}

// find is Find for /src/prog.
func find(t testing.TB, f *elffile.File, o Options, roots ...*tree) (*Found, error) {
	t.Helper()
	for _, r := range roots {
		o.Roots = append(o.Roots, r)
	}
	found, err := Find(context.Background(), f, "/src/prog", o)
	t.Cleanup(func() {
		if err := found.Close(); err != nil {
			t.Error(err)
		}
		if used := f.Budget().Used(); used != 0 {
			t.Errorf("%d bytes left in the budget", used)
		}
	})
	return found, err
}

// checkMain looks main up with what was found: its lines, with sum's inlined or, if what has it is missing, without.
func checkMain(t testing.TB, found *Found, at unwind.FileAddr) {
	t.Helper()
	if found.Debug == nil {
		t.Fatal("nothing found")
	}
	d, err := dwarf.Open(found.Debug, found.Options)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	seen := map[string]bool{}
	for a := at; a < at+64; a++ {
		lines, err := d.Lookup(nil, a)
		if err != nil {
			break
		}
		for _, l := range lines {
			seen[fmt.Sprintf("%s %s:%d", l.Function.Name, filepath.Base(l.Function.File), l.Line)] = true
		}
	}
	if err := d.Problems(); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"main main.c:5", "sum main.c:4"} {
		if !seen[want] {
			t.Errorf("no %s in %v", want, seen)
		}
	}
}

// fetcher has files by build id.
type fetcher struct {
	files map[string]string
	asked []string
	err   error
}

func (f *fetcher) Debuginfo(_ context.Context, id string) (*os.File, error) {
	f.asked = append(f.asked, id)
	if f.err != nil {
		return nil, f.err
	}
	name, ok := f.files[id]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return os.Open(name)
}
