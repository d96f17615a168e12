package elfsym

import (
	"bufio"
	"bytes"
	"debug/elf"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/symbolize/names"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

func open(t testing.TB, path string) *elffile.File {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	st, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	f, err := elffile.New(file, st.Size())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func load(t testing.TB, path string) *Table {
	t.Helper()
	tab, err := Load(open(t, path), Options{})
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return tab
}

// need skips the test if a tool is not on the machine.
func need(t testing.TB, tools ...string) {
	t.Helper()
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
}

func run(t testing.TB, name string, args ...string) string {
	t.Helper()
	need(t, name)
	cmd := exec.Command(name, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v", name, strings.Join(args, " "), err)
	}
	return string(out)
}

// readelfSymbol is a function as readelf -sW shows it.
type readelfSymbol struct {
	addr, size   uint64
	global, weak bool
	name         string
}

// readelfFunctions lists the functions of all symbol tables.
func readelfFunctions(t testing.TB, path string, code []extent) []readelfSymbol {
	t.Helper()
	arm := strings.Contains(run(t, "readelf", "-h", path), "AArch64")
	var out []readelfSymbol
	sc := bufio.NewScanner(strings.NewReader(run(t, "readelf", "-sW", path)))
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		f := strings.Fields(sc.Text())
		// Num: Value Size Type Bind Vis Ndx Name
		if len(f) < 8 || !strings.HasSuffix(f[0], ":") || f[0] == "Num:" {
			continue
		}
		if f[3] != "FUNC" && f[3] != "IFUNC" && f[3] != "NOTYPE" {
			continue
		}
		ndx, name := f[6], f[7]
		if strings.HasPrefix(ndx, "[") { // <other>: [VARIANT_PCS]
			ndx, name = f[len(f)-2], f[len(f)-1]
		}
		if ndx == "UND" || ndx == "ABS" || ndx == "COM" {
			continue
		}
		addr, err := strconv.ParseUint(f[1], 16, 64)
		if err != nil {
			continue
		}
		size, err := strconv.ParseUint(f[2], 0, 64)
		if err != nil {
			t.Fatal(sc.Text())
		}
		if !slices.ContainsFunc(code, func(e extent) bool { return e.start <= addr && addr < e.end }) {
			continue
		}
		if arm && size == 0 && (name == "$x" || name == "$d") {
			continue
		}
		out = append(out, readelfSymbol{addr, size, f[4] == "GLOBAL", f[4] == "WEAK", name})
	}
	slices.SortFunc(out, func(a, b readelfSymbol) int { return int(int64(a.addr) - int64(b.addr)) })
	return out
}

// checkAgainstReadelf looks up the first and last address of every function, and the ones around it.
func checkAgainstReadelf(t *testing.T, tab *Table, syms []readelfSymbol) (named, unnamed int) {
	t.Helper()
	var addrs []uint64
	for _, s := range syms {
		addrs = append(addrs, s.addr-1, s.addr, s.addr+1, s.addr+s.size-1, s.addr+s.size, s.addr+s.size/2)
	}
	slices.Sort(addrs)
	addrs = slices.Compact(addrs)
	for _, a := range addrs {
		want := expected(syms, a)
		got, ok, err := tab.Symbol(unwind.FileAddr(a))
		if err != nil {
			t.Fatal(err)
		}
		if got.PLT {
			continue
		}
		switch base, _, _ := strings.Cut(got.Name, "@"); {
		case !ok && len(want) > 0:
			t.Errorf("%#x: no name, want one of %v", a, want)
		case !ok:
			unnamed++
		case len(want) > 0 && !slices.Contains(want, base):
			t.Errorf("%#x: %s, want one of %v", a, got.Name, want)
		case len(want) == 0 && !unsizedBefore(syms, a):
			t.Errorf("%#x: %s, but nothing covers it", a, got.Name)
		default:
			named++
		}
		if t.Failed() {
			return
		}
	}
	return
}

// expected returns the names of those symbols with a size that cover a and start nearest to it.
func expected(syms []readelfSymbol, a uint64) []string {
	var out []string
	at := uint64(0)
	i, _ := slices.BinarySearchFunc(syms, a, func(s readelfSymbol, a uint64) int {
		if s.addr <= a {
			return -1
		}
		return 1
	})
	// No function is longer than this many others are away.
	for i--; i >= 0; i-- {
		s := syms[i]
		if s.addr < at || at == 0 && a-s.addr > 1<<22 {
			break
		}
		if a-s.addr < s.size {
			name, _, _ := strings.Cut(s.name, "@")
			out = append(out, name)
			at = s.addr
		}
	}
	return out
}

// unsizedBefore tells whether the nearest symbol before a has no size, so that it may go on up to a.
func unsizedBefore(syms []readelfSymbol, a uint64) bool {
	i, _ := slices.BinarySearchFunc(syms, a, func(s readelfSymbol, a uint64) int {
		if s.addr <= a {
			return -1
		}
		return 1
	})
	for at := i - 1; i > 0 && syms[i-1].addr == syms[at].addr; i-- {
		if syms[i-1].size == 0 {
			return true
		}
	}
	return false
}

func TestSystemFiles(t *testing.T) {
	need(t, "readelf")
	var files []string
	for _, dir := range []string{"/usr/bin", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/aarch64-linux-gnu/lib"} {
		filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() && filepath.Dir(path) == dir {
				files = append(files, path)
			}
			return nil
		})
	}
	checked, named, unnamed := 0, 0, 0
	limit := 60
	if testing.Short() {
		limit = 10
	}
	slices.Sort(files)
	for i := 0; i < len(files); i += max(1, len(files)/(2*limit)) {
		path := files[i]
		data, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		st, _ := data.Stat()
		f, err := elffile.New(data, st.Size())
		if err == nil && st.Size() < 16<<20 {
			tab, err := Load(f, Options{})
			if err != nil {
				t.Errorf("%s: %v", path, err)
			}
			n, u := checkAgainstReadelf(t, tab, readelfFunctions(t, path, tab.code))
			named, unnamed, checked = named+n, unnamed+u, checked+1
			if t.Failed() {
				t.Fatal(path)
			}
		}
		data.Close()
	}
	t.Logf("%d files, %d addresses named, %d without a name", checked, named, unnamed)
	if checked == 0 {
		t.Skip("no ELF files on this machine")
	}
}

const cSource = `
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int __attribute__((noinline)) local_function(int x) { return x * 3 + 1; }
int __attribute__((noinline)) global_function(int x) { return local_function(x) + 2; }
int alias_function(int) __attribute__((alias("global_function")));
int __weak_alias(int) __attribute__((weak, alias("global_function")));
__asm__(".text\n.globl asm_unsized\nasm_unsized:\n nop\n nop\n ret\n"
        ".p2align 6\n.globl asm_outer\n.type asm_outer,%function\nasm_outer:\n nop\n"
        "asm_inner:\n .type asm_inner,%function\n nop\n nop\n .size asm_inner,.-asm_inner\n"
        "label_inside:\n nop\n nop\n .size asm_outer,.-asm_outer\n .skip 64\n");
int main(int argc, char **argv) {
	char *p = malloc(16);
	strcpy(p, argv[0]);
	puts(p);
	void (*volatile q)(void *) = free;
	q(p);
	return global_function(argc);
}
`

const cxxSource = `
#include <vector>
#include <string>
#include <map>
namespace outer { struct Base { virtual ~Base(); virtual int f(std::string const &) = 0; };
Base::~Base() {}
template <class T> struct Derived : Base { std::map<std::string, T> m; int f(std::string const &s) override { return m[s]; } };
}
int main(int argc, char **argv) {
	outer::Derived<int> d; outer::Base *b = &d;
	std::vector<std::string> v(argv, argv + argc);
	int n = 0;
	auto add = [&](std::string const &s) { n += b->f(s); };
	for (auto &s : v) add(s);
	return n;
}
`

const rustSource = `
use std::collections::HashMap;
#[inline(never)] fn count<T: std::hash::Hash + Eq>(v: Vec<T>) -> usize { let mut m = HashMap::new(); for x in v { *m.entry(x).or_insert(0) += 1; } m.len() }
fn main() { println!("{}", count(std::env::args().collect::<Vec<_>>())); }
`

// build compiles a program and returns its path; it skips the test without the compiler.
func build(t testing.TB, source, ext, compiler string, args ...string) string {
	t.Helper()
	need(t, compiler)
	dir := t.TempDir()
	src, out := filepath.Join(dir, "main"+ext), filepath.Join(dir, "main")
	if err := os.WriteFile(src, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, compiler, append(args, "-o", out, src)...)
	return out
}

type variant struct {
	name, source, ext, compiler string
	args                        []string
}

var variants = []variant{
	{"c", cSource, ".c", "gcc", []string{"-O2"}},
	{"c cet", cSource, ".c", "gcc", []string{"-O2", "-fcf-protection=full", "-Wl,-z,ibtplt"}},
	{"c lazy", cSource, ".c", "gcc", []string{"-O2", "-fcf-protection=none", "-Wl,-z,lazy"}},
	{"c now", cSource, ".c", "gcc", []string{"-O2", "-Wl,-z,now"}},
	{"c no-pie", cSource, ".c", "gcc", []string{"-O2", "-no-pie", "-fno-pie"}},
	{"c static", cSource, ".c", "gcc", []string{"-O2", "-static"}},
	{"c static-pie", cSource, ".c", "gcc", []string{"-O2", "-static-pie", "-fPIE"}},
	{"c musl", cSource, ".c", "musl-gcc", []string{"-O2"}},
	{"c musl static", cSource, ".c", "musl-gcc", []string{"-O2", "-static"}},
	{"c clang lld", cSource, ".c", "clang-19", []string{"-O2", "-fuse-ld=lld"}},
	{"c clang lld cet", cSource, ".c", "clang-19", []string{"-O2", "-fuse-ld=lld", "-fcf-protection=full", "-Wl,-z,force-ibt"}},
	{"c mold", cSource, ".c", "gcc", []string{"-O2", "-fuse-ld=mold"}},
	{"c arm64", cSource, ".c", "aarch64-linux-gnu-gcc", []string{"-O2"}},
	{"c arm64 bti", cSource, ".c", "aarch64-linux-gnu-gcc", []string{"-O2", "-mbranch-protection=standard", "-Wl,-z,force-bti"}},
	{"c arm64 static", cSource, ".c", "aarch64-linux-gnu-gcc", []string{"-O2", "-static"}},
	{"c++", cxxSource, ".cc", "g++", []string{"-O1"}},
	{"c++ arm64", cxxSource, ".cc", "aarch64-linux-gnu-g++", []string{"-O1"}},
	{"rust", rustSource, ".rs", "rustc", []string{"-O"}},
	{"rust v0", rustSource, ".rs", "rustc", []string{"-O", "-Csymbol-mangling-version=v0"}},
}

func TestCompiled(t *testing.T) {
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			if v.compiler == "rustc" && testing.Short() {
				t.Skip("slow")
			}
			need(t, v.compiler)
			if slices.Contains(v.args, "-fuse-ld=lld") {
				need(t, "ld.lld-19")
			}
			if slices.Contains(v.args, "-fuse-ld=mold") {
				need(t, "mold")
			}
			path := build(t, v.source, v.ext, v.compiler, v.args...)
			tab := load(t, path)
			syms := readelfFunctions(t, path, tab.code)
			if len(syms) < 8 {
				t.Fatalf("readelf lists %d functions only", len(syms))
			}
			named, unnamed := checkAgainstReadelf(t, tab, syms)
			t.Logf("%d symbols, %d addresses named, %d without a name, %d bytes", tab.Len(), named, unnamed, tab.Bytes())
			if v.source == cSource {
				checkAliases(t, tab, path)
			}
			checkPLT(t, tab, path)
			stripped := stripWithDebugData(t, path)
			checkStripped(t, tab, load(t, stripped), syms)
		})
	}
}

// checkAliases looks at what cSource sets up.
func checkAliases(t *testing.T, tab *Table, path string) {
	t.Helper()
	at := map[string]uint64{}
	size := map[string]uint64{}
	for _, s := range readelfFunctions(t, path, tab.code) {
		at[s.name], size[s.name] = s.addr, s.size
	}
	for _, c := range []struct {
		addr uint64
		want string
	}{
		{at["global_function"], "alias_function"}, // as good as global_function, and shorter
		{at["asm_unsized"], "asm_unsized"},
		{at["asm_outer"], "asm_outer"},
		{at["asm_inner"], "asm_inner"},
		{at["asm_inner"] + size["asm_inner"], "asm_outer"}, // at the label
		{at["asm_outer"] + size["asm_outer"] - 1, "asm_outer"},
		{at["asm_outer"] + size["asm_outer"], ""},
		{at["asm_outer"] + size["asm_outer"] + 60, ""},
		{at["main"], "main"},
		{at["_start"], "_start"},
	} {
		s, _, err := tab.Symbol(unwind.FileAddr(c.addr))
		if err != nil || s.Name != c.want || c.addr == 0 {
			t.Errorf("%#x: %q, %v, want %q", c.addr, s.Name, err, c.want)
		}
	}
}

// checkPLT compares with the names that objdump gives to stubs.
func checkPLT(t *testing.T, tab *Table, path string) {
	t.Helper()
	objdump := "objdump"
	if strings.Contains(run(t, "readelf", "-h", path), "AArch64") {
		objdump = "aarch64-linux-gnu-objdump"
	}
	n := 0
	for _, line := range strings.Split(run(t, objdump, "-d", path), "\n") {
		addr, label, ok := strings.Cut(line, " <")
		label, isPLT := strings.CutSuffix(label, "@plt>:")
		if !ok || !isPLT {
			continue
		}
		a, err := strconv.ParseUint(addr, 16, 64)
		if err != nil {
			t.Fatal(line)
		}
		got, ok, err := tab.Symbol(unwind.FileAddr(a))
		if err != nil {
			t.Fatal(err)
		}
		label, _, _ = strings.Cut(label, "@")
		if strings.HasPrefix(label, "*ABS*") {
			// An IFUNC that has no dynamic symbol; ours is called after the resolver, or nothing if that is nameless.
			continue
		}
		n++
		if got.Name != label || !got.PLT {
			t.Errorf("%#x: %+v, want %s@plt", a, got, label)
		}
		if end, _, _ := tab.Symbol(unwind.FileAddr(a + 7)); end != got {
			t.Errorf("%#x: %+v behind %+v", a+7, end, got)
		}
		if names := got.Function(); ok && !strings.HasSuffix(names.Name, "@plt") {
			t.Errorf("%#x: %+v", a, names)
		}
	}
	t.Logf("%d stubs", n)
}

// stripWithDebugData moves .symtab into .gnu_debugdata as distributions do.
func stripWithDebugData(t testing.TB, path string) string {
	t.Helper()
	need(t, "xz")
	prefix := ""
	if strings.Contains(run(t, "readelf", "-h", path), "AArch64") {
		prefix = "aarch64-linux-gnu-"
	}
	mini, out := path+".mini", path+".stripped"
	run(t, prefix+"objcopy", "--only-keep-debug", path, mini)
	run(t, prefix+"objcopy", "-S", path, out)
	run(t, prefix+"objcopy", "--strip-debug", "--remove-section", ".comment", mini, mini)
	run(t, "xz", "-k", "-f", mini)
	run(t, prefix+"objcopy", "--add-section", ".gnu_debugdata="+mini+".xz", out, out)
	if strings.Contains(run(t, "readelf", "-SW", out), ".symtab") {
		t.Fatal("not stripped")
	}
	return out
}

// checkStripped expects the names of the whole file from the stripped one.
func checkStripped(t *testing.T, whole, stripped *Table, syms []readelfSymbol) {
	t.Helper()
	if len(stripped.debugData) == 0 {
		t.Fatal("no names from .gnu_debugdata")
	}
	for _, s := range syms {
		for _, a := range []uint64{s.addr, s.addr + s.size/2, s.addr + s.size} {
			w, _, err1 := whole.Symbol(unwind.FileAddr(a))
			g, _, err2 := stripped.Symbol(unwind.FileAddr(a))
			if err1 != nil || err2 != nil {
				t.Fatal(err1, err2)
			}
			if w != g {
				t.Fatalf("%#x: %+v with .gnu_debugdata, %+v without (%v)", a, g, w, err2)
			}
		}
	}
}

// TestNoSections: without section headers the dynamic symbols are found as the dynamic linker finds them.
func TestNoSections(t *testing.T) {
	for _, hash := range []string{"gnu", "sysv"} {
		path := build(t, cSource, ".c", "gcc", "-O2", "-shared", "-fPIC", "-Wl,--hash-style="+hash)
		whole := load(t, path)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		copy(b[40:48], make([]byte, 8)) // e_shoff
		copy(b[60:64], make([]byte, 4)) // e_shnum, e_shstrndx
		f, err := elffile.New(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		tab, err := Load(f, Options{})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		ef, err := elf.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer ef.Close()
		dyn, err := ef.DynamicSymbols()
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range dyn {
			if s.Section == elf.SHN_UNDEF || elf.ST_TYPE(s.Info) != elf.STT_FUNC {
				continue
			}
			n++
			got, _, err1 := tab.Symbol(unwind.FileAddr(s.Value))
			want, _, err2 := whole.Symbol(unwind.FileAddr(s.Value))
			if got != want || err1 != nil || err2 != nil {
				t.Errorf("%s: %+v, want %+v (%v, %v)", s.Name, got, want, err1, err2)
			}
		}
		if n < 3 {
			t.Errorf("%d functions only", n)
		}
	}
}

func TestAddr2line(t *testing.T) {
	need(t, "addr2line", "c++filt")
	path := build(t, cxxSource, ".cc", "g++", "-O1")
	tab := load(t, path)
	syms := readelfFunctions(t, path, tab.code)
	args := []string{"-f", "-C", "-e", path}
	var addrs []uint64
	for _, s := range syms {
		if s.size != 0 {
			addrs = append(addrs, s.addr+s.size/2)
			args = append(args, fmt.Sprintf("%#x", s.addr+s.size/2))
		}
	}
	lines := strings.Split(run(t, "addr2line", args...), "\n")
	differ := 0
	for i, a := range addrs {
		got, ok, err := tab.Lookup(nil, unwind.FileAddr(a))
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		want := names.Function(lines[2*i]).Name
		if got[0].Function.Name == want {
			continue
		}
		// Of aliases addr2line has an order of its own.
		if s, _, _ := tab.Symbol(unwind.FileAddr(a)); !slices.Contains(expected(syms, a), s.Name) {
			t.Errorf("%#x: %s, want %s", a, got[0].Function.Name, want)
		}
		differ++
	}
	t.Logf("%d of %d are other aliases", differ, len(addrs))
	if differ*10 > len(addrs) {
		t.Errorf("%d of %d names differ", differ, len(addrs))
	}
}
