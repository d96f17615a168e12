package elfsym

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/symbolize/names"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
)

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

// build compiles a program and returns its path.
func build(t testing.TB, source, ext, compiler string, args ...string) string {
	t.Helper()
	unwindtest.Need(t, compiler)
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
			unwindtest.Need(t, v.compiler)
			if slices.Contains(v.args, "-fuse-ld=lld") {
				unwindtest.Need(t, "ld.lld-19")
			}
			if slices.Contains(v.args, "-fuse-ld=mold") {
				unwindtest.Need(t, "mold")
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
	unwindtest.Need(t, "xz")
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
	unwindtest.Need(t, "addr2line", "c++filt")
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
