// Package jitname turns the names by which runtimes tell profilers of their code into functions as people know them: what
// surrounds a name (how it was compiled, its signature, its file) is taken off it, and says which runtime it was.
//
// All of it goes by the form of the name, which the target chooses: a wrong guess shows another name or kind of frame,
// and Function.SystemName always has the original.
package jitname

import (
	"strconv"
	"strings"

	"github.com/hostprofiles/hostprofiles/internal/symbolize/names"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// The kinds of frames, as the attribute profile.frame.type has them (OpenTelemetry semantic conventions 1.44).
const (
	KindNative = "native"
	KindRust   = "rust"
	KindV8     = "v8js"
	KindJVM    = "jvm"
	KindDotnet = "dotnet"
	KindPython = "cpython"
	KindPHP    = "php"
	KindRuby   = "ruby"
	KindBEAM   = "beam"
	KindLua    = "luajit"
)

// maxRaw is the longest name in bytes that is looked into.
const maxRaw = 4 * names.MaxName

// parsed is what a name says; what it does not say is empty.
type parsed struct {
	name, file string
	line       int
	kind       string
}

// Parse returns the function that a runtime's name for code stands for, and the kind of its frame. A name of no known form
// stays as it is and is native. Bytes that are not UTF-8 become U+FFFD, and what is longer than names.MaxName is cut.
// SystemName is the original, or empty if it is equal to Name.
func Parse(raw string) (unwind.Function, string) {
	raw = strings.ToValidUTF8(raw[:min(len(raw), maxRaw)], "\uFFFD")
	p := parsed{name: raw}
	for _, form := range forms() {
		if q, ok := form(raw); ok && q.name != "" {
			p = q
			break
		}
	}
	if p.kind == "" {
		p.kind = KindNative
	}
	f := unwind.Function{Name: names.Clip(p.name), File: names.Clip(p.file), StartLine: p.line}
	if p.name != raw {
		f.SystemName = names.Clip(raw)
	}
	return f, p.kind
}

// forms are tried in this order: those with an unmistakable beginning come first.
func forms() [12]func(string) (parsed, bool) {
	return [...]func(string) (parsed, bool){v8, python, luaTrace, php, ruby, wasmtime, wazero, mangled, julia, dotnet, java, erlang}
}

// python: the perf trampolines of CPython 3.12 (Python/perf_trampoline.c), "py::Class.method:/path/file.py". The qualified
// name has no colon.
func python(raw string) (parsed, bool) {
	rest, ok := strings.CutPrefix(raw, "py::")
	if !ok {
		return parsed{}, false
	}
	name, file, ok := strings.Cut(rest, ":")
	return parsed{name: name, file: file, kind: KindPython}, ok
}

// luaTrace: LuaJIT 2.1 built with LUAJIT_USE_PERFTOOLS (src/lj_trace.c), "TRACE_12::file.lua:33". The trace keeps its
// name: it is no function, and its number is what LuaJIT's own tools call it.
func luaTrace(raw string) (parsed, bool) {
	rest, ok := strings.CutPrefix(raw, "TRACE_")
	if !ok {
		return parsed{}, false
	}
	number, where, ok := strings.Cut(rest, "::")
	if _, isNumber := decimal(number); !ok || !isNumber {
		return parsed{}, false
	}
	p := parsed{name: raw, kind: KindLua}
	if file, line, ok := cutNumber(where); ok {
		p.file, p.line = file, line
	}
	return p, true
}

// php: the JIT of PHP 8 (ext/opcache/jit/zend_jit.c and zend_jit_trace.c of PHP 8.2): "JIT$Class::method" or, for code
// outside of functions, "JIT$/file.php"; "TRACE-3$Class::method$12", with the line that the trace begins at; "JIT$$stub"
// and "jit$$trace_exit_0", which stay.
func php(raw string) (parsed, bool) {
	if strings.HasPrefix(raw, "JIT$$") || strings.HasPrefix(raw, "jit$$") {
		return parsed{name: raw, kind: KindPHP}, true
	}
	if name, ok := strings.CutPrefix(raw, "JIT$"); ok {
		p := parsed{name: name, kind: KindPHP}
		if strings.HasPrefix(name, "/") {
			p.file = name
		}
		return p, true
	}
	rest, ok := strings.CutPrefix(raw, "TRACE-")
	if !ok {
		return parsed{}, false
	}
	number, rest, ok := strings.Cut(rest, "$")
	if _, isNumber := decimal(number); !ok || !isNumber {
		return parsed{}, false
	}
	p := parsed{name: rest, kind: KindPHP}
	if i := strings.LastIndexByte(rest, '$'); i > 0 {
		if _, ok := decimal(rest[i+1:]); ok {
			p.name = rest[:i] // the line is not the function's first
		}
	}
	if strings.HasPrefix(p.name, "/") {
		p.file = p.name
	}
	return p, true
}

// ruby: YJIT and RJIT with --yjit-perf (yjit/src/codegen.rs of Ruby 3.3), "[JIT] Class#method".
func ruby(raw string) (parsed, bool) {
	name, ok := strings.CutPrefix(raw, "[JIT] ")
	return parsed{name: name, kind: KindRuby}, ok
}

// wasmtime: "wasm[0]::function[12]::name", where the name is what the module's compiler made of it. Without a name it
// stays.
func wasmtime(raw string) (parsed, bool) {
	rest, ok := strings.CutPrefix(raw, "wasm[")
	if !ok {
		return parsed{}, false
	}
	_, rest, ok = strings.Cut(rest, "]::function[")
	if !ok {
		return parsed{}, false
	}
	if _, name, ok := strings.Cut(rest, "]::"); ok && name != "" {
		if p, ok := mangled(name); ok {
			return p, true
		}
		return parsed{name: name}, true
	}
	return parsed{name: raw}, true
}

// wazero: a part of a function in a perf map of wazero (internal/engine/wazevo/engine.go and backend/isa/amd64/machine.go of 1.12,
// built with the tag perfmap), "[12/34]module.name:::::L5": its number, the last number, module and name, the part. A module
// without a name leaves a dot.
func wazero(raw string) (parsed, bool) {
	rest, ok := strings.CutPrefix(raw, "[")
	if !ok {
		return parsed{}, false
	}
	numbers, rest, ok := strings.Cut(rest, "]")
	i := strings.LastIndex(rest, ":::::L")
	if !ok || i <= 0 {
		return parsed{}, false
	}
	number, last, _ := strings.Cut(numbers, "/")
	_, ok1 := decimal(number)
	_, ok2 := decimal(last)
	_, ok3 := decimal(rest[i+len(":::::L"):])
	return parsed{name: strings.TrimPrefix(rest[:i], ".")}, ok1 && ok2 && ok3
}

// mangled: names of C++ and Rust, as LLVM's compilers have them.
func mangled(raw string) (parsed, bool) {
	if !strings.HasPrefix(raw, "_Z") && !strings.HasPrefix(raw, "_R") || strings.ContainsAny(raw, " @") {
		return parsed{}, false
	}
	p := parsed{name: names.Function(raw).Name}
	if names.IsRust(raw) {
		p.kind = KindRust
	}
	return p, p.name != raw
}

// julia: what src/codegen.cpp of Julia 1.9 calls compiled code: "julia_name_123" and, for its generic entry points,
// "jfptr_name_123", "japi1_name_123" and so on.
func julia(raw string) (parsed, bool) {
	for _, prefix := range [...]string{"julia_", "jfptr_", "japi1_", "japi3_", "jlsys_"} {
		rest, ok := strings.CutPrefix(raw, prefix)
		if !ok {
			continue
		}
		i := strings.LastIndexByte(rest, '_')
		if i <= 0 {
			return parsed{}, false
		}
		_, ok = decimal(rest[i+1:])
		return parsed{name: rest[:i]}, ok
	}
	return parsed{}, false
}

// erlang: erts/emulator/beam/jit of OTP 25: "$module:function/2" in perf maps, without the dollar in jitdumps; "$global::x"
// and "$module::codeFooter" for code that is no function, and "module:function/2-CodeInfoPrologue" before each.
func erlang(raw string) (parsed, bool) {
	name, dollar := strings.CutPrefix(raw, "$")
	module, function, ok := strings.Cut(name, ":")
	if !ok || module == "" || strings.ContainsAny(module, " /(") && module[0] != '\'' {
		return parsed{}, false
	}
	if strings.HasPrefix(function, ":") {
		return parsed{name: name, kind: KindBEAM}, dollar
	}
	i := strings.LastIndexByte(strings.TrimSuffix(function, "-CodeInfoPrologue"), '/')
	if i <= 0 || strings.ContainsAny(function[:i], " :") && function[0] != '\'' {
		return parsed{}, false
	}
	arity, ok := decimal(strings.TrimSuffix(function[i+1:], "-CodeInfoPrologue"))
	return parsed{name: name, kind: KindBEAM}, ok && arity < 256
}

// decimal parses a number without sign of at most nine digits.
func decimal(s string) (int, bool) {
	if s == "" || len(s) > 9 || s[0] < '0' || s[0] > '9' {
		return 0, false
	}
	n, err := strconv.Atoi(s)
	return n, err == nil
}

// cutNumber cuts ":number" off the end.
func cutNumber(s string) (before string, n int, ok bool) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return s, 0, false
	}
	n, ok = decimal(s[i+1:])
	if !ok {
		return s, 0, false
	}
	return s[:i], n, true
}
