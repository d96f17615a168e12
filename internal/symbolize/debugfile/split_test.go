package debugfile

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestSupplement has the file that dwz made where the link says, below .dwz, and by build id; with both kinds of links.
func TestSupplement(t *testing.T) {
	for _, c := range []struct {
		name, place, flag string
		want              Source
	}{
		{"common.dwz", "/src/common.dwz", "", SourceAltLink},
		{"common.dwz", "/src/common.dwz", "-5", SourceAltLink},
		{"/usr/lib/debug/.dwz/a/common.dwz", "/usr/lib/debug/.dwz/a/common.dwz", "", SourceAltLink},
		{"/usr/lib/debug/.dwz/a/common.dwz", "/usr/lib/debug/.dwz/a/common.dwz", "-5", SourceAltLink},
		{"../../../../.dwz/a/common.dwz", "/usr/lib/debug/.dwz/a/common.dwz", "", SourceAltLink},
		{"../lib/common.dwz", "/lib/common.dwz", "", SourceAltLink},
		{"/gone/common.dwz", "", "", SourceBuildID},
	} {
		t.Run(c.name+c.flag, func(t *testing.T) {
			r := newTree(t).build()
			at := r.mainAt("/src/prog")
			r.write("/src/twin", r.read("/src/prog"))
			dwz := []string{"dwz", "-m", "made", "-M", c.name, "prog", "twin"}
			if c.flag != "" {
				dwz = slices.Insert(dwz, 1, c.flag)
			}
			r.run(dwz...)
			place := c.place
			if place == "" {
				place = r.debugPath("/src/made")
			}
			r.move("/src/made", place)
			found, err := find(t, r.open("/src/prog"), Options{}, r)
			if err != nil || found.Source != SourceFile || found.Supplement != c.want || found.SupplementPath != r.dir+place {
				t.Errorf("%v, %v", found, err)
			}
			checkMain(t, found, at)
		})
	}
}

// TestOtherSupplement has another file in the supplementary one's place.
func TestOtherSupplement(t *testing.T) {
	for _, flag := range []string{"-q", "-5"} { // -q changes nothing here
		r := newTree(t).build()
		r.write("/src/twin", r.read("/src/prog"))
		r.run("dwz", flag, "-m", "common.dwz", "prog", "twin")
		other := newTree(t).build()
		r.write("/src/common.dwz", other.read("/src/prog"))
		found, err := find(t, r.open("/src/prog"), Options{}, r)
		if err == nil || !strings.Contains(err.Error(), "but its build id is") || !strings.Contains(err.Error(), "no supplementary file") ||
			found.Source != SourceFile || found.Supplement != SourceNone || len(found.Wanted) != 1 {
			t.Errorf("%v, %v, wants %q", found, err, found.Wanted)
		}
	}
}

func TestSplit(t *testing.T) {
	for _, version := range []string{"-gdwarf-4", "-gdwarf-5"} {
		t.Run(version, func(t *testing.T) {
			build := func(t *testing.T) (*tree, string) {
				r := newTree(t)
				r.run("clang-19", "-O2", "-gsplit-dwarf", version, "-Wl,--build-id=sha1", "-fdebug-prefix-map="+r.dir+"=",
					"-c", "-o", "main.o", "main.c")
				r.run("clang-19", "-o", "prog", "main.o")
				return r, "/src/main.dwo"
			}
			t.Run("compiler's place", func(t *testing.T) {
				r, _ := build(t)
				found, err := find(t, r.open("/src/prog"), Options{}, newTree(t), r)
				if err != nil {
					t.Error(err)
				}
				checkMain(t, found, r.mainAt("/src/prog"))
			})
			t.Run("next to the file", func(t *testing.T) {
				r, dwo := build(t)
				r.move(dwo, "/bin/main.dwo")
				r.move("/src/prog", "/bin/prog")
				f := r.open("/bin/prog")
				found, err := Find(t.Context(), f, "/bin/prog", Options{Roots: []Root{r}})
				if err != nil {
					t.Error(err)
				}
				checkMain(t, found, r.mainAt("/bin/prog"))
				if err := found.Close(); err != nil || f.Budget().Used() > 0 {
					t.Errorf("%v, %d bytes left", err, f.Budget().Used())
				}
			})
			t.Run("of another build", func(t *testing.T) {
				r, dwo := build(t)
				stale := newTree(t)
				stale.write("/src/main.c", []byte("int main(void) { return 3; }\n"))
				stale.run("clang-19", "-O2", "-gsplit-dwarf", version, "-c", "-o", "main.o", "main.c")
				stale.write(dwo, stale.read("/src/main.dwo"))
				found, err := find(t, r.open("/src/prog"), Options{}, stale, r)
				if err != nil {
					t.Error(err)
				}
				if version == "-gdwarf-5" { // the id is in the header
					checkMain(t, found, r.mainAt("/src/prog"))
					if _, _, err = found.Options.OpenSplit("main.dwo", "/src", 1); err == nil || !strings.Contains(err.Error(), "of another build") {
						t.Error(err)
					}
				}
			})
			t.Run("package", func(t *testing.T) {
				r, dwo := build(t)
				r.run("clang-19", "-O2", "-gsplit-dwarf", version, "-o", "twin", "main.c")
				r.run("llvm-dwp-19", "main.dwo", "-o", "prog.dwp")
				if err := os.Remove(r.dir + dwo); err != nil {
					t.Fatal(err)
				}
				found, err := find(t, r.open("/src/prog"), Options{}, r)
				if err != nil || found.Package != SourceFile || found.PackagePath != r.dir+"/src/prog.dwp" {
					t.Errorf("%v, %v", found, err)
				}
				checkMain(t, found, r.mainAt("/src/prog"))

				at := r.mainAt("/src/prog")
				r.strip()
				place := r.debugPath("/src/prog")
				r.move("/src/prog.debug", place)
				r.move("/src/prog.dwp", place+".dwp")
				if found, err = find(t, r.open("/src/prog"), Options{}, r); err != nil || found.PackagePath != r.dir+place+".dwp" {
					t.Errorf("%v, %v", found, err)
				}
				checkMain(t, found, at)
				r.write(place+".dwp", r.read("/src/prog"))
				found, err = find(t, r.open("/src/prog"), Options{}, r)
				if err == nil || !strings.Contains(err.Error(), ".debug_cu_index") || found.Package != SourceNone {
					t.Errorf("%v, %v", found, err)
				}
			})
		})
	}
}
