package jitname

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hostprofiles/hostprofiles/internal/symbolize/names"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

type want struct {
	raw, name, file string
	line            int
	kind            string
}

// forms of names. Those that a runtime on a machine of ours wrote say which.
func cases() []want {
	return []want{
		// Node 20.20 with --perf-basic-prof.
		{"JS:*step /tmp/jt/w.js:3:7", "step", "/tmp/jt/w.js", 3, "v8js"},
		{"JS:^get sum /tmp/jt/w.js:2:21", "get sum", "/tmp/jt/w.js", 2, "v8js"},
		{"JS:~ /tmp/jt/w.js:1:1", "(anonymous)", "/tmp/jt/w.js", 1, "v8js"},
		{"Eval:~ node:internal/streams/from:1:1", "(anonymous)", "node:internal/streams/from", 1, "v8js"},
		{"JS:~SyncWriteStream._write node:internal/fs/sync_write_stream:25:44", "SyncWriteStream._write",
			"node:internal/fs/sync_write_stream", 25, "v8js"},
		{"JS:~spaced /tmp/a dir/b c.js:1:17", "spaced", "/tmp/a dir/b c.js", 1, "v8js"},
		{"JS:*my func /tmp/jt/x.js:5:22", "my func", "/tmp/jt/x.js", 5, "v8js"},
		{"JS:*ev :1:13", "ev", "", 1, "v8js"},
		{"JS:wasm-function[0]-0-liftoff", "wasm-function[0]", "", 0, "v8js"},
		{"RegExp:(\\w+)\\s(\\w+)", "RegExp:(\\w+)\\s(\\w+)", "", 0, "v8js"},
		{"Stub:js-to-wasm:i:i", "Stub:js-to-wasm:i:i", "", 0, "v8js"},
		{"BytecodeHandler:JumpIfToBooleanFalse.Wide", "BytecodeHandler:JumpIfToBooleanFalse.Wide", "", 0, "v8js"},
		{"Builtin:CallWithSpread_Baseline", "Builtin:CallWithSpread_Baseline", "", 0, "v8js"},
		// Node 24.21 (V8 13.6) and 26.10 (V8 14.6) with --perf-basic-prof.
		{"JS:*'strWork /tmp/jt/w.js:1:17", "strWork", "/tmp/jt/w.js", 1, "v8js"},
		{"JS:+'strWork /tmp/jt/w.js:1:17", "strWork", "/tmp/jt/w.js", 1, "v8js"},
		{"JS:*'get sum /tmp/jt/w.js:3:17", "get sum", "/tmp/jt/w.js", 3, "v8js"},
		{"JS:+'x y /tmp/jt/w.js:4:50", "x y", "/tmp/jt/w.js", 4, "v8js"},
		{"JS:o*get sum /tmp/jt/w.js:3:17", "get sum", "/tmp/jt/w.js", 3, "v8js"},
		{"JS:o+strWork /tmp/jt/w.js:1:17", "strWork", "/tmp/jt/w.js", 1, "v8js"},
		{"JS:o* /tmp/jt/w.js:1:1", "(anonymous)", "/tmp/jt/w.js", 1, "v8js"},
		{"JS:+''odd' /tmp/jt/w.js:6:22", "'odd'", "/tmp/jt/w.js", 6, "v8js"},
		{"JS:^'odd' /tmp/jt/w.js:6:22", "'odd'", "/tmp/jt/w.js", 6, "v8js"},
		{"JS:~'odd' /tmp/jt/w.js:6:22", "'odd'", "/tmp/jt/w.js", 6, "v8js"},
		{"JS:~o /tmp/jt/w.js:6:22", "o", "/tmp/jt/w.js", 6, "v8js"},
		{"JS:o /tmp/jt/w.js:6:22", "o", "/tmp/jt/w.js", 6, "v8js"},
		{"JS:*'", "JS:*'", "", 0, "native"},
		// Other versions of V8.
		{"LazyCompile:*fn file.js:12:3", "fn", "file.js", 12, "v8js"},
		{"LazyCompile:~get value [eval]:1:3", "get value", "[eval]", 1, "v8js"},
		{"Function:fn http://host:80/a.js:1:2", "fn", "http://host:80/a.js", 1, "v8js"},
		{"JS:~fn", "fn", "", 0, "v8js"},
		{"JS:", "JS:", "", 0, "native"},
		{"JS:~", "JS:~", "", 0, "native"},
		{"JS::Call(int)", "JS::Call(int)", "", 0, "native"},
		{"Handler::run", "Handler::run", "", 0, "native"},
		{"JS:*:1:1", "(anonymous)", "", 1, "v8js"},
		{"JS:*f /a.js:99999999999:1", "f /a.js:99999999999:1", "", 0, "v8js"},
		// CPython 3.12.1 with -X perf.
		{"py::_BlockingOnManager.__exit__:<frozen importlib._bootstrap>", "_BlockingOnManager.__exit__",
			"<frozen importlib._bootstrap>", 0, "cpython"},
		{"py::main:/tmp/jt/w.py", "main", "/tmp/jt/w.py", 0, "cpython"},
		{"py::<module>:/a:b.py", "<module>", "/a:b.py", 0, "cpython"},
		{"py::odd", "py::odd", "", 0, "native"},
		// OpenJDK 17.0.15 and 25 with jcmd Compiler.perfmap.
		{"void java.lang.Object.<init>()", "java.lang.Object.<init>", "", 0, "jvm"},
		{"long W$$Lambda$1/0x00007fe170000c08.f(long, int[])", "W$$Lambda$1/0x00007fe170000c08.f", "", 0, "jvm"},
		{"java.util.concurrent.ConcurrentHashMap$Node java.util.concurrent.ConcurrentHashMap.tabAt(int)",
			"java.util.concurrent.ConcurrentHashMap.tabAt", "", 0, "jvm"},
		{"java.lang.Object java.lang.invoke.MethodHandle.linkToStatic(java.lang.Object, jav",
			"java.lang.invoke.MethodHandle.linkToStatic", "", 0, "jvm"},
		{"byte[][] a.B.c(byte[])", "a.B.c", "", 0, "jvm"},
		{"Lcom/foo/Bar;::method", "com.foo.Bar.method", "", 0, "jvm"},
		{"Lcom/foo/Bar$1;method(I)V", "com.foo.Bar$1.method", "", 0, "jvm"},
		{"LBar;<init>()V", "Bar.<init>", "", 0, "jvm"},
		{"I2C/C2I adapters", "I2C/C2I adapters", "", 0, "native"},
		{"Shared Runtime wrong_method_blob", "Shared Runtime wrong_method_blob", "", 0, "native"},
		{"void foo::bar(int)", "void foo::bar(int)", "", 0, "native"},
		{"void foo(int)", "void foo(int)", "", 0, "native"},
		// .NET.
		{"void [System.Private.CoreLib] System.AppContext::Setup(char**,char**,int32)[PreJIT]", "System.AppContext.Setup", "", 0, "dotnet"},
		{"instance void [asm] Class::Method(args)[Tier0]", "Class.Method", "", 0, "dotnet"},
		{"instance bool [System.Private.CoreLib] System.Collections.Generic.Dictionary`2[System.__Canon,System.__Canon]::" +
			"TryGetValue(!0,!1&)[OptimizedTier1]", "System.Collections.Generic.Dictionary`2[System.__Canon,System.__Canon].TryGetValue",
			"", 0, "dotnet"},
		{"instance class [System.Runtime]System.Foo [App] App.C::.ctor()", "App.C..ctor", "", 0, "dotnet"},
		{"stub<3> AllocateTemporaryEntryPoints<PRECODE_FIXUP>", "stub<3> AllocateTemporaryEntryPoints<PRECODE_FIXUP>", "", 0, "dotnet"},
		{"<[T] as foo::Bar>::baz(int)", "<[T] as foo::Bar>::baz(int)", "", 0, "native"},
		// PHP 8.2.35 with opcache.jit_debug=16, opcache.jit=function and tracing.
		{"JIT$Calc::step", "Calc::step", "", 0, "php"},
		{"JIT${closure}", "{closure}", "", 0, "php"},
		{"JIT$/tmp/jt/w2.php", "/tmp/jt/w2.php", "/tmp/jt/w2.php", 0, "php"},
		{"JIT$$hybrid_hot_trace", "JIT$$hybrid_hot_trace", "", 0, "php"},
		{"jit$$trace_exit_0", "jit$$trace_exit_0", "", 0, "php"},
		{"TRACE-3$Calc::all$2", "Calc::all", "", 0, "php"},
		{"TRACE-x$f$2", "TRACE-x$f$2", "", 0, "native"},
		// Erlang/OTP 25.2.3 with +JPperf true.
		{"$lists:foldl/3", "lists:foldl/3", "", 0, "beam"},
		{"$erl_eval:'-expr/6-fun-3-'/2", "erl_eval:'-expr/6-fun-3-'/2", "", 0, "beam"},
		{"$io_lib_format:module_info/1-CodeInfoPrologue", "io_lib_format:module_info/1-CodeInfoPrologue", "", 0, "beam"},
		{"$io_lib_format::codeFooter", "io_lib_format::codeFooter", "", 0, "beam"},
		{"prim_zip:foldl/3", "prim_zip:foldl/3", "", 0, "beam"},
		{"$'Elixir.My App':'a b'/2", "'Elixir.My App':'a b'/2", "", 0, "beam"},
		{"std::a/3", "std::a/3", "", 0, "native"},
		{"C:/x/3", "C:/x/3", "", 0, "beam"}, // cannot be told apart
		{"f:g/1000", "f:g/1000", "", 0, "native"},
		// Others.
		{"TRACE_12::file.lua:33", "TRACE_12::file.lua:33", "file.lua", 33, "luajit"},
		{"TRACE_12::[string \"x:1\"]:7", "TRACE_12::[string \"x:1\"]:7", "[string \"x:1\"]", 7, "luajit"},
		{"TRACE_x", "TRACE_x", "", 0, "native"},
		{"[JIT] Integer#times", "Integer#times", "", 0, "ruby"},
		{"wasm[0]::function[12]::fib", "fib", "", 0, "native"},
		{"wasm[0]::function[12]::_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write", "", 0, "rust"},
		{"wasm[0]::function[12]", "wasm[0]::function[12]", "", 0, "native"},
		// wazero 1.12.0 built with the tag perfmap.
		{"[0/6].hotSixty:::::L4", "hotSixty", "", 0, "native"},
		{"[6/6]rounds:::::L0", "rounds", "", 0, "native"},
		{"[1/2]mod.f:::::L12", "mod.f", "", 0, "native"},
		{"entry_preamble::type=i32_i32", "entry_preamble::type=i32_i32", "", 0, "native"},
		{"[1/2].:::::L1", "[1/2].:::::L1", "", 0, "native"},
		{"[1/2]f:::::", "[1/2]f:::::", "", 0, "native"},
		{"[x/2]f:::::L1", "[x/2]f:::::L1", "", 0, "native"},
		{"julia_mapreduce_impl_123", "mapreduce_impl", "", 0, "native"},
		{"jfptr_f_1", "f", "", 0, "native"},
		{"julia_init", "julia_init", "", 0, "native"},
		{"_Z3fooi", "foo(int)", "", 0, "native"},
		{"_Zodd", "_Zodd", "", 0, "native"},
		{"name@with@ats and spaces", "name@with@ats and spaces", "", 0, "native"},
		{"a\xffb", "a\uFFFDb", "", 0, "native"},
		{"", "", "", 0, "native"},
	}
}

func TestParse(t *testing.T) {
	for _, c := range cases() {
		f, kind := Parse(c.raw)
		expected := unwind.Function{Name: c.name, File: c.file, StartLine: c.line}
		if raw := strings.ToValidUTF8(c.raw, "\uFFFD"); raw != c.name {
			expected.SystemName = raw
		}
		if f != expected || kind != c.kind {
			t.Errorf("%q\n got %+v %s\nwant %+v %s", c.raw, f, kind, expected, c.kind)
		}
	}
}

// TestTiersOfV8: a function stays one, whichever way it was compiled.
func TestTiersOfV8(t *testing.T) {
	for _, sign := range []string{"", "~", "^", "+", "+'", "o+", "o+'", "*", "*'", "o*", "o*'"} {
		f, kind := Parse("JS:" + sign + "strWork /tmp/w.js:1:17")
		f.SystemName = ""
		if want := (unwind.Function{Name: "strWork", File: "/tmp/w.js", StartLine: 1}); f != want || kind != KindV8 {
			t.Errorf("%q: got %+v %s", sign, f, kind)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, c := range cases() {
		f.Add(c.raw)
	}
	f.Add("JS:*" + strings.Repeat("é", names.MaxName) + " /x.js:1:1")
	kinds := []string{KindNative, KindRust, KindV8, KindJVM, KindDotnet, KindPython, KindPHP, KindRuby, KindBEAM, KindLua}
	f.Fuzz(func(t *testing.T, raw string) {
		fn, kind := Parse(raw)
		for _, s := range []string{fn.Name, fn.SystemName, fn.File} {
			if !utf8.ValidString(s) || len(s) > names.MaxName {
				t.Fatalf("%q: %d bytes", s, len(s))
			}
		}
		if fn.StartLine < 0 || (fn.Name == "") != (raw == "") || !strings.Contains(strings.Join(kinds, " "), kind) {
			t.Fatalf("%+v %s", fn, kind)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		Parse("LazyCompile:*processTicksAndRejections node:internal/process/task_queues:67:35")
		Parse("int java.lang.String.indexOf(int, int)")
	}
}
