package jitname

import "strings"

// dotnet: what .NET writes with DOTNET_PerfMapEnabled (src/coreclr/vm/perfmap.cpp of .NET 8): signature, assembly, class,
// method, parameters and how it was compiled,
//
//	instance void [System.Private.CoreLib] System.Threading.Thread::StartCallback()[Tier0]
//
// which becomes System.Threading.Thread.StartCallback. Stubs keep their names: "stub<3> Name<PRECODE>".
func dotnet(raw string) (parsed, bool) {
	if number, ok := strings.CutPrefix(raw, "stub<"); ok {
		number, _, ok = strings.Cut(number, ">")
		_, isNumber := decimal(number)
		return parsed{name: raw, kind: KindDotnet}, ok && isNumber
	}
	class, method, ok := strings.Cut(raw, "::")
	if !ok {
		return parsed{}, false
	}
	open := strings.IndexByte(method, '(')
	assembly := strings.LastIndex(class, "] ")
	if open <= 0 || assembly < 0 || strings.LastIndexByte(class[:assembly], '[') < 0 {
		return parsed{}, false
	}
	class, method = class[assembly+2:], method[:open]
	if class == "" || strings.ContainsAny(class, " ()") {
		return parsed{}, false
	}
	return parsed{name: class + "." + method, kind: KindDotnet}, true
}

// java knows three forms, all of which become package.Class.method:
//
//	int java.lang.String.indexOf(int, int)      jcmd PID Compiler.perfmap (Method::external_name of JDK 17 and 25)
//	Ljava/lang/String;::indexOf                 perf-map-agent
//	Ljava/lang/String;indexOf(II)I              libperf-jvmti.so (tools/perf/jvmti of Linux 6.1)
func java(raw string) (parsed, bool) {
	if rest, ok := strings.CutPrefix(raw, "L"); ok {
		class, method, ok := strings.Cut(rest, ";")
		if ok && class != "" && method != "" && !strings.ContainsAny(class, " ()[.:") {
			method = strings.TrimPrefix(method, "::")
			if open := strings.IndexByte(method, '('); open > 0 {
				method = method[:open]
			}
			return parsed{name: strings.ReplaceAll(class, "/", ".") + "." + method, kind: KindJVM}, true
		}
	}
	// The closing parenthesis may be missing: long names are cut.
	result, rest, ok := strings.Cut(raw, " ")
	open := strings.IndexByte(rest, '(')
	if !ok || open <= 0 || !javaType(result) {
		return parsed{}, false
	}
	name := rest[:open]
	dot := strings.LastIndexByte(name, '.')
	if dot <= 0 || dot == len(name)-1 || strings.ContainsAny(name, " :*&,[]") {
		return parsed{}, false
	}
	return parsed{name: name, kind: KindJVM}, true
}

// javaType tells whether s can be a result's type: a primitive one or a class, perhaps an array of them.
func javaType(s string) bool {
	for {
		element, ok := strings.CutSuffix(s, "[]")
		if !ok {
			break
		}
		s = element
	}
	switch s {
	case "void", "boolean", "byte", "char", "short", "int", "long", "float", "double":
		return true
	}
	return s != "" && !strings.ContainsAny(s, ":*&<>()[], ") && s[0] != '.'
}
