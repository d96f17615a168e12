package jitname

import "strings"

// Anonymous is what V8's own profilers call a function without a name.
const Anonymous = "(anonymous)"

// v8 parses what V8 logs (src/logging/log.cc of V8 11.3): a tag, and for JavaScript a sign that says how it was compiled
// (see unsigned), then name, file, line and column:
//
//	LazyCompile:*fn /path/file.js:12:3
//	JS:~get x node:internal/fs:5:1
//	JS:*'fn /path/file.js:12:3
//	Function: /path/file.js:1:1
//
// Functions keep neither tag nor sign, so that they stay one however they are compiled. Everything else (Builtin:,
// BytecodeHandler:, RegExp:, Stub:) keeps its tag, as it would be misunderstood without. WebAssembly is "JS:", name,
// number and compiler: "JS:wasm-function[0]-0-liftoff".
func v8(raw string) (parsed, bool) {
	tag, rest, ok := strings.Cut(raw, ":")
	if !ok {
		return parsed{}, false
	}
	switch tag {
	case "LazyCompile", "JS", "Function", "Script", "Eval", "InterpretedFunction":
	case "Builtin", "BytecodeHandler", "Handler", "RegExp", "Stub", "LoadIC", "StoreIC", "KeyedLoadIC", "KeyedStoreIC",
		"Callback", "NativeFunction", "NativeLazyCompile", "NativeScript", "Wasm":
		if rest == "" || rest[0] == ':' {
			return parsed{}, false // C++
		}
		return parsed{name: raw, kind: KindV8}, true
	default:
		return parsed{}, false
	}
	if strings.HasPrefix(rest, ":") {
		return parsed{}, false // C++: a class JS
	}
	rest = unsigned(rest)
	where, _, ok := cutNumber(rest)
	line := 0
	if ok {
		where, line, ok = cutNumber(where)
	}
	if !ok {
		if name, wasm := wasmName(rest); wasm {
			return parsed{name: name, kind: KindV8}, true
		}
		return parsed{name: rest, kind: KindV8}, rest != ""
	}
	name, file := splitFile(where)
	if name == "" {
		name = Anonymous
	}
	return parsed{name: name, file: file, line: line, kind: KindV8}, true
}

// unsigned cuts off how a function was compiled: "~" for bytecode, "^" baseline, "+" and "*" optimized, often nothing for native
// code. V8 13.6 puts a "'" behind the signs of some optimized code, and 14.6 also an "o" before those of what replaced code while it
// was running; V8's own tools take all of these for the same function (parseState in tools/profile.mjs of both). Behind the other
// signs a "'" is the name's own.
func unsigned(s string) string {
	if s == "" {
		return s
	}
	if s[0] == '~' || s[0] == '^' {
		return s[1:]
	}
	optimized := strings.TrimPrefix(s, "o")
	if optimized == "" || optimized[0] != '+' && optimized[0] != '*' {
		return s
	}
	return strings.TrimPrefix(optimized[1:], "'")
}

// splitFile parts "fn /path/file.js". Both may have spaces: where something begins that begins as files do counts, else
// the first space.
func splitFile(s string) (name, file string) {
	for _, beginning := range [...]string{" /", " node:", " file:", " http:", " https:", " internal/", " [eval", " evalmachine.",
		" webpack", " wasm:", " blob:", " data:", " ext:"} {
		if i := strings.Index(s, beginning); i >= 0 {
			return s[:i], s[i+1:]
		}
	}
	name, file, _ = strings.Cut(s, " ")
	return name, file
}

// wasmName cuts index and compiler off a WebAssembly function's name.
func wasmName(s string) (string, bool) {
	for _, compiler := range [...]string{"-liftoff", "-turbofan"} {
		rest, ok := strings.CutSuffix(s, compiler)
		if !ok {
			continue
		}
		if i := strings.LastIndexByte(rest, '-'); i > 0 {
			if _, ok := decimal(rest[i+1:]); ok {
				return rest[:i], true
			}
		}
	}
	return s, false
}
