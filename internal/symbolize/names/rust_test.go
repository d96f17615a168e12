package names

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
)

const hash = "17h0123456789abcdefE"

func TestLegacyRust(t *testing.T) {
	for in, want := range map[string]string{
		"_ZN3std3sys9backtrace28__rust_begin_short_backtrace" + hash: "std::sys::backtrace::__rust_begin_short_backtrace",
		"_ZN3foo4_bar1_" + hash:                                                         "foo::_bar::_",
		"_ZN3foo4_bar" + hash + ".llvm.17":                                              "foo::_bar",
		"_ZN35_$LT$foo..Bar$u20$as$u20$a..Baz$GT$3bar" + hash:                           "<foo::Bar as a::Baz>::bar",
		"_ZN4core3ops8function6FnOnce40call_once$u7b$$u7b$vtable.shim$u7d$$u7d$" + hash: "core::ops::function::FnOnce::call_once{{vtable.shim}}",
		"_ZN8__$LT$x_3foo" + hash:                                                       "__<x_::foo",
		"_ZN31$SP$$BP$$RF$$LT$$GT$$LP$$RP$$C$" + hash:                                   "@*&<>(),",
		"_ZN9a.3a..b.c" + hash:                                                          "a.3a::b.c",
		"_ZN12caf$ue9$_big" + hash:                                                      "café_big",
		"_ZN14a$XX$b$LT$c..d" + hash:                                                    "a$XX$b$LT$c..d",
		"_ZN5$u1$a" + hash:                                                              "$u1$a",
		"_ZN10$ud800$abc" + hash:                                                        "$ud800$abc",
		"_ZN3a$L" + hash:                                                                "a$L",
	} {
		if got := Function(in); got.Name != want || got.SystemName != in {
			t.Errorf("%s: %+v, not %q", in, got, want)
		}
		if !IsRust(in) {
			t.Errorf("%s is none of Rust's", in)
		}
	}
	for _, in := range []string{"_ZN" + hash, "_ZN0" + hash, "_ZN99foo" + hash, "_ZN999999999999999999999foo" + hash} {
		if name, ok := rust(in); ok {
			t.Errorf("%s: %q", in, name)
		}
	}
}

const rustSource = `
use std::collections::BTreeMap;
struct _Pair<T>(T, T);
trait __Twice { fn __twice(&self) -> String; }
impl<'a, T: std::fmt::Debug> __Twice for &'a [_Pair<T>] {
    #[inline(never)] fn __twice(&self) -> String { self.iter().map(|p| format!("{:?}{:?}", p.0, p.1)).collect() }
}
impl __Twice for (*const u8, fn(u8) -> u8) { #[inline(never)] fn __twice(&self) -> String { format!("{:?}", self.0) } }
mod __inner { pub mod _more { #[inline(never)] pub fn _f(n: usize) -> usize { std::hint::black_box(n + 1) } } }
fn main() {
    let m: BTreeMap<String, usize> = std::env::args().enumerate().map(|(i, a)| (a, __inner::_more::_f(i))).collect();
    let pairs = [_Pair(1, 2), _Pair(3, 4)];
    println!("{:?} {} {}", m, (&pairs[..]).__twice(), (std::ptr::null(), (|n| n) as fn(u8) -> u8).__twice());
}
`

// TestRustAgainstNm compares all legacy names of a program.
func TestRustAgainstNm(t *testing.T) {
	unwindtest.Need(t, "rustc", "nm")
	dir := t.TempDir()
	src, path := filepath.Join(dir, "main.rs"), filepath.Join(dir, "main")
	if err := os.WriteFile(src, []byte(rustSource), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("rustc", "-o", path, src).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	list := func(args ...string) []string {
		out, err := exec.Command("nm", append(args, "-p", "--format=just-symbols", path)...).Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(strings.TrimSpace(string(out)), "\n")
	}
	in, want := list(), list("-C")
	if len(in) != len(want) {
		t.Fatalf("%d names, %d demangled", len(in), len(want))
	}
	checked, underscored := 0, 0
	for i, symbol := range in {
		parts, ok := legacyRust(symbol)
		if !ok {
			continue
		}
		_, hash, _ := strings.Cut(symbol[len("_ZN")+len(parts):], "h")
		hash, _, _ = strings.Cut(hash, "E")
		truth, _, _ := strings.Cut(want[i], "::h"+hash)
		if got := Function(symbol).Name; got != truth {
			t.Errorf("%s: %q, nm says %q", symbol, got, truth)
		}
		checked++
		if strings.Contains(truth, "::_") {
			underscored++
		}
	}
	if checked < 100 || underscored < 4 {
		t.Errorf("%d names only, %d of them with an underscore", checked, underscored)
	}
}
