package dwarf

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/symbolize/names"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
)

// wantScopes are the functions of testdata/src/scopes.cc with the lines where they begin. LLVM gives all of them linkage names.
// Not among them are each, of whose instances GCC writes the names, with lambdas, in its own way, and the conversion of a lambda to
// a pointer, of which nothing is left but without optimization.
func wantScopes(compiler string) []string {
	if strings.HasPrefix(compiler, "clang") {
		return []string{
			"auto shop::hidden(unsigned long)::$_0::operator()<unsigned long>(unsigned long) const:49",
			"int shop::shape<int>(int):43",
			"main:83",
			"main::$_0::operator()(unsigned long) const:85",
			"shop::(anonymous namespace)::Unseen::Inner::still(unsigned long):62",
			"shop::(anonymous namespace)::Unseen::method(unsigned long) const:55",
			"shop::(anonymous namespace)::Unseen::method(unsigned long) const::{lambda(unsigned long)#1}::operator()(unsigned long) const:57",
			"shop::(anonymous namespace)::Unseen::outside(unsigned long):64",
			"shop::Seen::Inner::still(unsigned long):72",
			"shop::Seen::outside(unsigned long):74",
			"shop::Seen::outside(unsigned long)::Local::still(unsigned long):77",
			"shop::hidden(unsigned long):47",
			"shop::shape<int>(int)::{lambda(int)#1}::operator()(int) const:45",
			"shop::sorter(unsigned long):19",
			"shop::sorter(unsigned long)::$_0::operator()(unsigned long) const:26",
			"shop::sorter(unsigned long)::$_1::__invoke(unsigned long):28",
			"shop::sorter(unsigned long)::$_1::operator()(unsigned long) const:28",
			"shop::sorter(unsigned long)::$_2::operator()(unsigned long) const:29",
			"shop::sorter(unsigned long)::$_2::operator()(unsigned long) const::{lambda(unsigned long)#1}::operator()(unsigned long) const:30",
			"shop::sorter(unsigned long)::Block::still(unsigned long):36",
			"shop::sorter(unsigned long)::Local::member(unsigned long) const:23",
			"shop::sorter(unsigned long)::Local::still(unsigned long):22",
		}
	}
	return []string{
		"int shop::shape<int>(int):43",
		"main:83",
		"main::{lambda}::operator():85",
		"shop::(anonymous namespace)::Unseen::Inner::still:62",
		"shop::(anonymous namespace)::Unseen::method:55",
		"shop::(anonymous namespace)::Unseen::method::{lambda}::operator():57",
		"shop::(anonymous namespace)::Unseen::outside:64",
		"shop::Seen::Inner::still(unsigned long):72",
		"shop::Seen::outside(unsigned long):74",
		"shop::Seen::outside(unsigned long)::Local::still:77",
		"shop::hidden:47",
		"shop::hidden::{lambda}::operator()<long unsigned int>:49",
		"shop::shape<int>(int)::{lambda(int)#1}::operator()(int) const:45",
		"shop::sorter(unsigned long):19",
		"shop::sorter(unsigned long)::(anonymous)::operator():26",
		"shop::sorter(unsigned long)::Block::still:36",
		"shop::sorter(unsigned long)::Local::member:23",
		"shop::sorter(unsigned long)::Local::still:22",
		"shop::sorter(unsigned long)::{lambda}::_FUN:28",
		"shop::sorter(unsigned long)::{lambda}::operator():28",
		"shop::sorter(unsigned long)::{lambda}::operator():29",
		"shop::sorter(unsigned long)::{lambda}::operator()::{lambda}::operator():30",
	}
}

func scopes(name, compiler string, args ...string) program {
	return program{name: name, compiler: compiler, sources: []string{"scopes.cc"}, args: append([]string{"-w"}, args...)}
}

// TestCompiledScopes: functions without a linkage name are called after all that they are in, wherever the compiler has put
// their DIEs, as their symbols are but for parameters and numbers; and every lambda has a line where it begins.
func TestCompiledScopes(t *testing.T) {
	for _, p := range []program{
		scopes("g++ O0", "g++", "-O0", "-g"),
		scopes("g++ 2", "g++", "-O2", "-gdwarf-2"),
		scopes("g++ 4", "g++", "-O2", "-gdwarf-4"),
		scopes("g++ 5", "g++", "-O2", "-gdwarf-5"),
		scopes("g++ types", "g++", "-O2", "-g", "-fdebug-types-section"),
		scopes("g++ types 4", "g++", "-O2", "-gdwarf-4", "-fdebug-types-section"),
		scopes("g++ lto", "g++", "-O2", "-g", "-flto"),
		scopes("g++ split", "g++", "-O2", "-g", "-gsplit-dwarf").split(),
		scopes("g++ dwz", "g++", "-O2", "-g").then("dwz", "prog"),
		scopes("arm64 g++", "aarch64-linux-gnu-g++", "-O2", "-g"),
		scopes("clang++ O0", "clang++-19", "-O0", "-g"),
		scopes("clang++ 4", "clang++-19", "-O2", "-gdwarf-4"),
		scopes("clang++ 5", "clang++-19", "-O2", "-gdwarf-5"),
	} {
		t.Run(p.name, func(t *testing.T) {
			path := p.build(t)
			var o Options
			if p.options != nil {
				o = p.options(t, filepath.Dir(path))
			}
			d, err := Open(openDebug(t, path), o)
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			got := slices.DeleteFunc(functionsIn(t, d, path, "scopes.cc"), func(name string) bool {
				return strings.Contains(name, "each<") || strings.Contains(name, "operator unsigned")
			})
			want := wantScopes(p.compiler)
			if !slices.Equal(got, want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			sameAsSymbols(t, d, path)
			if err := d.Problems(); err != nil {
				t.Error(err)
			}
		})
	}
}

// functionsIn returns the functions in a source file that have code or are inlined, with the lines where they begin.
func functionsIn(t testing.TB, d *Data, path, source string) (all []string) {
	t.Helper()
	var lines []unwind.Line
	for _, a := range instructions(t, path) {
		lines, _ = d.Lookup(lines[:0], a)
		for _, l := range lines {
			if f := l.Function; filepath.Base(f.File) == source && f.Name != "" {
				all = append(all, fmt.Sprintf("%s:%d", f.Name, f.StartLine))
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// TestCompiledNested: functions in functions, in other languages. Compilers that take hundreds of megabytes are asked in full tests; what
// they made is in testdata/nested (make.sh), and is looked at always.
func TestCompiledNested(t *testing.T) {
	for _, x := range []struct {
		compiler, source string
		args, want       []string
		made             string // in testdata/nested
	}{
		{"gdc", "nested.d", []string{"-O1", "-g"}, []string{
			"D main:18",
			"nested.outer(ulong).Local.member(ulong):11",
			"nested.outer(ulong).__lambda4:13",
			"nested.outer(ulong).inner:8",
			"nested.outer(ulong):6",
		}, "d"},
		{"rustc", "nested.rs", []string{"-Copt-level=1", "-g"}, []string{
			"nested::main:20",
			"nested::shop::outer:3",
			"nested::shop::outer::Local::member:11",
			"nested::shop::outer::inner:5",
			"nested::shop::outer::{{closure}}:15",
		}, ""},
		{"gfortran", "nested.f90", []string{"-O1", "-g", "-fno-inline"}, []string{
			"main:16",
			"nested:15",
			"shop::outer:3",
			"shop::outer::inner:7",
		}, "f90"},
		{"gnatmake", "nested.adb", []string{"-q", "-O1", "-g"}, []string{
			`nested.shop."+":18`,
			"nested.shop.outer.inner:26",
			"nested.shop.outer:25",
			"nested.shop.within:11",
			"nested:2",
		}, "adb"},
	} {
		if x.made != "" {
			t.Run(x.made, func(t *testing.T) { checkNested(t, filepath.Join("testdata/nested", x.made), x.source, x.want) })
		}
		if x.made == "" || os.Getenv(fullTest) != "" {
			t.Run(x.compiler, func(t *testing.T) {
				checkNested(t, program{compiler: x.compiler, sources: []string{x.source}, args: x.args}.build(t), x.source, x.want)
			})
		}
	}
}

// checkNested compares the functions of a source that are in a file, with their lines, with what is wanted.
func checkNested(t *testing.T, path, source string, want []string) {
	t.Helper()
	d, err := Open(openDebug(t, path), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	got := slices.DeleteFunc(functionsIn(t, d, path, source), func(name string) bool {
		return strings.HasPrefix(name, "gdc.dso_") // what registers the file with the runtime
	})
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if err := d.Problems(); err != nil {
		t.Error(err)
	}
}

// sameAsSymbols compares the names of functions with those of their symbols.
func sameAsSymbols(t testing.TB, d *Data, path string) {
	t.Helper()
	compared := 0
	for _, s := range unwindtest.Symbols(t, path) {
		lines, err := d.Lookup(nil, unwind.FileAddr(s.Value))
		if err != nil || len(lines) == 0 || !strings.HasPrefix(s.Name, "_Z") || strings.Contains(s.Name, "each") {
			continue
		}
		symbol, _, _ := strings.Cut(names.Function(s.Name).Name, " [clone")
		if got := lines[len(lines)-1].Function.Name; bare(got) != bare(symbol) {
			t.Errorf("%s is %q, and its symbol %q", s.Name, got, symbol)
		}
		compared++
	}
	if compared < 10 {
		t.Errorf("%d functions with symbols", compared)
	}
}

// bare takes from a name what DWARF does not tell, or tells in other words.
func bare(name string) string {
	for _, x := range []struct{ pattern, with string }{
		{`\(anonymous namespace\)`, "unnamed"},
		{`\(anonymous\)|\{unnamed type#\d+\}`, "unnamed"},
		{`operator\(\)`, "call"},
		{`\([^()]*\)|#\d+| const\b`, ""},
		{`call<[a-z ]*>`, "call"},
		{`^auto `, ""},
	} {
		name = regexp.MustCompile(x.pattern).ReplaceAllString(name, x.with)
	}
	return name
}

// TestScopesElsewhere: functions in what is declared elsewhere, and references that lead nowhere.
func TestScopesElsewhere(t *testing.T) {
	const here, size = uint64(textAddr), uint64(0x100)
	const inUnitDIE = 12 // the first of its attributes
	none := func(*writer) {}
	// declared writes a namespace with a declaration, and returns the offset of this one.
	declared := func(w *writer, name, linkage string) uint32 {
		w.uleb(abSpace).str("shop")
		at := w.pos()
		w.uleb(abDeclared).str(name).str(linkage).u8(0)
		return at
	}
	// instance writes what is in a function or type, and the end of it.
	instance := func(w *writer, abbrev uint64, of uint32, body func(w *writer)) {
		w.uleb(abbrev).u32(of)
		if abbrev == abInstance {
			w.u64(here + size).u64(size)
		}
		w.uleb(abStruct).str("Local").function("f", here, size).u8(0, 0)
		body(w)
		w.u8(0)
	}
	for _, x := range []struct {
		name, want string
		bad        bool
		body       func(w *writer)
	}{
		{"function", "shop::g::Local::f", false, func(w *writer) { instance(w, abInstance, declared(w, "g", ""), none) }},
		{"linkage name", "shop::g(int)::Local::f", false, func(w *writer) {
			instance(w, abInstance, declared(w, "g", "_ZN4shop1gEi"), none)
		}},
		{"template", "shop::g<int>(int)::Local::f", false, func(w *writer) {
			instance(w, abInstance, declared(w, "g<int>", "_ZN4shop1gIiEEiT_"), none)
		}},
		{"plain linkage name", "shop::g::Local::f", false, func(w *writer) {
			instance(w, abInstance, declared(w, "g", "shop__g"), none)
		}},
		{"class", "shop::Type::Local::f", false, func(w *writer) {
			w.uleb(abSpace).str("shop")
			of := w.pos()
			w.uleb(abStruct).str("Type").u8(0, 0)
			instance(w, abTypeOf, of, none)
		}},
		{"lambda", "shop::g::{lambda}::operator()", false, func(w *writer) {
			of := declared(w, "g", "")
			w.uleb(abInstance).u32(of).u64(here + size).u64(size)
			w.uleb(abClosure).u8(7).function("operator()", here, size).u8(0, 0, 0)
		}},
		{"a class as a function", "(anonymous)::Local::f", true, func(w *writer) {
			instance(w, abTypeOf, declared(w, "g", ""), none)
		}},
		{"no DIE", "(anonymous)::Local::f", true, func(w *writer) { instance(w, abTypeOf, inUnitDIE, none) }},
		{"itself", "(anonymous)::Local::f", true, func(w *writer) { instance(w, abTypeOf, w.pos(), none) }},
		{"in itself", strings.Repeat("g::In::", maxChain-1) + "g::Local::f", true, func(w *writer) {
			const instanceSize, localSize, inSize = 21, 28, 4
			of := w.pos() + instanceSize + localSize + inSize
			instance(w, abInstance, of, func(w *writer) {
				w.uleb(abStruct).str("In")
				if w.pos() != of {
					t.Fatalf("the declaration is at %d, not %d", w.pos(), of)
				}
				w.uleb(abDeclared).str("g").str("").u8(0)
			})
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			d := openSynthetic(t, infoOf(langCxx, x.body), Options{})
			lines, err := d.Lookup(nil, textAddr)
			if err != nil || len(lines) != 1 || lines[0].Function.Name != x.want {
				t.Errorf("%+v, %v; want %s", lines, err, x.want)
			}
			if x.bad != errors.Is(d.Problems(), ErrFormat) || x.bad != (d.Stats().Failed > 0) {
				t.Errorf("%v, %+v", d.Problems(), d.Stats())
			}
			if x.name == "lambda" && (len(lines) == 0 || lines[0].Function.StartLine != 7) {
				t.Errorf("%+v begins at another line than its class", lines)
			}
		})
	}
}
