package names

import (
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

func TestFunction(t *testing.T) {
	for _, c := range []struct {
		in   string
		want unwind.Function
		rust bool
	}{
		{"main", unwind.Function{Name: "main"}, false},
		{"memcpy@@GLIBC_2.14", unwind.Function{Name: "memcpy", SystemName: "memcpy@@GLIBC_2.14"}, false},
		{"@odd", unwind.Function{Name: "@odd"}, false},
		{"_Z3fooi", unwind.Function{Name: "foo(int)", SystemName: "_Z3fooi"}, false},
		{"_ZNSt6vectorIiSaIiEE9push_backERKi@GLIBCXX_3.4", unwind.Function{
			Name:       "std::vector<int, std::allocator<int> >::push_back(int const&)",
			SystemName: "_ZNSt6vectorIiSaIiEE9push_backERKi@GLIBCXX_3.4"}, false},
		{"_Z3fooi.cold", unwind.Function{Name: "foo(int) [clone .cold]", SystemName: "_Z3fooi.cold"}, false},
		{"foo.part.0", unwind.Function{Name: "foo.part.0"}, false},
		{"_ZN4core3fmt5write17h0123456789abcdefE", unwind.Function{
			Name: "core::fmt::write", SystemName: "_ZN4core3fmt5write17h0123456789abcdefE"}, true},
		{"_ZN4core3fmt5write17h0123456789abcdefE.llvm.123", unwind.Function{
			Name: "core::fmt::write", SystemName: "_ZN4core3fmt5write17h0123456789abcdefE.llvm.123"}, true},
		{"_RNvCskwGfYPst2Cb_3foo3bar", unwind.Function{
			Name: "foo::bar", SystemName: "_RNvCskwGfYPst2Cb_3foo3bar"}, true},
		{"_ReportEvent", unwind.Function{Name: "_ReportEvent"}, false},
		{"_ZZZ", unwind.Function{Name: "_ZZZ"}, false},
		{"a\xffb", unwind.Function{Name: "a\uFFFDb"}, false},
		{"", unwind.Function{}, false},
	} {
		if got := Function(c.in); got != c.want {
			t.Errorf("Function(%q) = %+v, want %+v", c.in, got, c.want)
		}
		if got := IsRust(c.in); got != c.rust {
			t.Errorf("IsRust(%q) = %v", c.in, got)
		}
	}
}

func TestScope(t *testing.T) {
	for in, want := range map[string]string{
		"_Z3fooi":                                "foo(int)",
		"_ZNK4shop4Type3barEv":                   "shop::Type::bar() const",
		"_ZN4shop5shapeIiEET_S1_":                "shop::shape<int>(int)",
		"_ZZ3fooiENKUliE_clEi":                   "foo(int)::{lambda(int)#1}::operator()(int) const",
		"_ZTV3foo":                               "vtable for foo",
		"_D4shop5outerFmZm":                      "shop.outer(ulong)",
		"_RNvCskwGfYPst2Cb_3foo3bar":             "foo::bar",
		"_ZN4core3fmt5write17h0123456789abcdefE": "core::fmt::write",
		"main":                                   "",
		"_ZZZ":                                   "",
		"shop__type":                             "",
		"":                                       "",
	} {
		if got, ok := Scope(in); got != want || ok != (want != "") {
			t.Errorf("Scope(%q) = %q, %v, want %q", in, got, ok, want)
		}
	}
}

func TestPLT(t *testing.T) {
	for in, want := range map[string]unwind.Function{
		"puts":             {Name: "puts@plt"},
		"puts@GLIBC_2.2.5": {Name: "puts@plt"},
		"_ZdlPv":           {Name: "operator delete(void*)@plt", SystemName: "_ZdlPv@plt"},
	} {
		if got := PLT(in); got != want {
			t.Errorf("PLT(%q) = %+v, want %+v", in, got, want)
		}
	}
}

// hostile are names that cost a careless demangler exponential time, memory or depth.
func hostile() []string {
	double := "_Z1f" + "1AI1BS_E"
	for i := 0; i < 30; i++ {
		double += "S0_IS1_S1_E"
	}
	substitutions := "_Z1fP"
	for i := 0; i < 600; i++ {
		substitutions += "N1AI" + "S_S_"
	}
	pairs := "_Z1fSt4pairIiiE"
	for c := '0'; c <= '9'; c++ {
		s := "S" + string(c) + "_"
		pairs += "St4pairI" + s + s + "E"
	}
	for c := 'A'; c <= 'Z'; c++ {
		s := "S" + string(c) + "_"
		pairs += "St4pairI" + s + s + "E"
	}
	packs := "_Z1fIJEEv"
	for i := 0; i < 300; i++ {
		packs += "DpT_"
	}
	emptyPacks := "_Z1f" + strings.Repeat("I", 40) + "JDpT_DpT_E" + strings.Repeat("JDpT_DpT_EE", 40) + "v"
	rust := "_RNvC1aI"
	for i := 0; i < 100; i++ {
		rust += "TB2_B2_E"
	}
	return []string{
		double, substitutions, pairs, packs, emptyPacks, rust,
		"_Z1f" + strings.Repeat("P", 4000) + "i",
		"_Z1f" + strings.Repeat("F", 4000),
		"_Z1fI" + strings.Repeat("X", 4000),
		"_ZN" + strings.Repeat("1A", 2000) + "E",
		"_Z" + strings.Repeat("Z", 4000),
		"_Z1fDT" + strings.Repeat("cl", 2000),
		"_R" + strings.Repeat("I", 4000),
		"_RNvC1a" + strings.Repeat("N", 4000),
		"_RMC0T" + strings.Repeat("TB5_B5_E", 400),
		"_ZN" + strings.Repeat("9", 4000) + "a17h0123456789abcdefE",
		"_Z99999999999999999999f",
		"_Z1f" + strings.Repeat("P", 1<<20) + "i",
	}
}

func TestHostileNames(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, in := range hostile() {
		start := threadTime(t)
		f := Function(in)
		if d := threadTime(t) - start; d > time.Second {
			t.Errorf("%.40q took %v", in, d)
		}
		for _, name := range []string{f.Name, f.SystemName, PLT(in).Name, PLT(in).SystemName} {
			if len(name) > MaxName {
				t.Errorf("%.40q became %d bytes", in, len(name))
			}
		}
	}
}

func TestClip(t *testing.T) {
	long := strings.Repeat("x", MaxName)
	for in, want := range map[string]string{
		"": "", "main": "main", long: long,
		long + "y":               long[:MaxName-3] + "…",
		long[:MaxName-4] + "äöü": long[:MaxName-4] + "…", // ä would be cut in two
	} {
		got := Clip(in)
		if got != want {
			t.Errorf("Clip(%.20q of %d bytes) = %q of %d", in, len(in), got[max(0, len(got)-20):], len(got))
		}
	}
	if f := PLT(long + long); len(f.Name) > MaxName || !strings.HasSuffix(f.Name, "…@plt") {
		t.Errorf("%d bytes", len(f.Name))
	}
}

// threadTime is the CPU time that the thread has used: what it waits for on a busy machine does not count.
func threadTime(t *testing.T) time.Duration {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		t.Fatal(err)
	}
	return time.Duration(ts.Nano())
}

func FuzzFunction(f *testing.F) {
	for _, in := range append(hostile(), hostileLanguages()...) {
		f.Add(in)
	}
	for _, in := range []string{"_Z3fooi@@V", "_RNvCskwGfYPst2Cb_3foo3bar", "___Z3foov_block_invoke_2", "_GLOBAL__I__Z3foov",
		"_ZN4core3fmt5write17h0123456789abcdefE.llvm.1", "_ZN35_$LT$foo..Bar$u20$as$u20$a..Baz$GT$3bar17h0123456789abcdefE", "_Z1fIJidEEvDpT_", "_ZZ1fvENKUlvE_clEv",
		"_D8threeway__T5LevelTdVii2ZQn3runMFmZm", "camlStdlib__$40_187",
		"$s10Foundation10FileHandleC17_immediatelyClose33_2DF8E09821905D55FA342549A73ACFB7LL7closeFdySb_tKF", "_QMburningFthirty_1Pinner", "P$A$_$T_$__$$_BURN$QWORD$$QWORD",
		"$s10Foundation10FileHand\u00e9\u00e9leC17_immediatelyClose33_2DF8E09821905D55F",
		"_D__T1AS0_D00000000000000000000000000000000",
		"ghczmprim_GHCziTupleziPrim_Z3T_con_info", "burning__twice__OaddX.constprop.0", "pluspercentpercent___threeway_78"} {
		f.Add(in)
	}
	f.Fuzz(func(t *testing.T, in string) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		start := threadTime(t)
		fn, plt := FunctionBy(in, GHC|GNAT|Nim), PLT(in)
		IsRust(in)
		if d := threadTime(t) - start; d > 2*time.Second {
			t.Fatalf("took %v", d)
		}
		if !utf8.ValidString(fn.Name) || !utf8.ValidString(fn.SystemName) || !utf8.ValidString(plt.Name) {
			t.Fatalf("not UTF-8: %+v", fn)
		}
		if len(fn.Name) > MaxName || len(fn.SystemName) > MaxName || len(plt.Name) > MaxName || len(plt.SystemName) > MaxName {
			t.Fatalf("%d and %d bytes", len(fn.Name), len(fn.SystemName))
		}
		if in != "" && fn.Name == "" {
			t.Fatal("lost the name")
		}
	})
}
