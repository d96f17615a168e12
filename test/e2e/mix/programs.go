// Package mix profiles real programs at real work and measures how much of their stacks, names and lines is there, and
// what that costs.
package mix

import "slices"

// Program is a real program with something to do.
type Program struct {
	Name string
	// Images are the base names of the executables whose samples count.
	Images []string
	// Setup and Run are shell scripts, see prelude. Setup is not profiled.
	Setup, Run string
	// JIT tells that the program makes code of its own while it runs.
	JIT bool
}

// prelude is before each script. The current folder is the program's own, empty before Setup, and any user may write to it.
// SPAN is for how many seconds to work, 1 at least, PORT and PORT2 are free ports. What is left running at the script's end is killed.
const prelude = `set -euo pipefail
export RUSTUP_HOME=${RUSTUP_HOME:-$HOME/.rustup} # rustc may be one that rustup installed
export LC_ALL=C.UTF-8 HOME=$PWD
repeat() { local end=$((SECONDS + SPAN)); while ((SECONDS < end)); do "$@"; done; }
wait_for() { for _ in $(seq 100); do if "$@" >/dev/null 2>&1; then return; fi; sleep 0.1; done; echo "not ready: $*" >&2; return 1; }
words() { find /usr/share/doc /usr/include -type f -size -200k -print0 | sort -z | head -zn 6000 | xargs -0 cat 2>/dev/null | head -c "$1" || true; }
`

// Programs returns the mix.
func Programs() []Program {
	return slices.Concat(compilers(), data(), media(), servers(), languages())
}

// compilers turn sources into programs.
func compilers() []Program {
	return []Program{
		{Name: "gcc", Images: []string{"cc1"}, Setup: manyFunctions, Run: `repeat gcc -O2 -c many.c -o many.o`},
		{Name: "g++", Images: []string{"cc1plus"}, Setup: templates, Run: `repeat g++ -std=c++17 -O2 -c templates.cc -o templates.o`},
		{Name: "clang", Images: []string{"clang", "clang-19"}, Setup: templates,
			Run: `repeat clang-19 --driver-mode=g++ -std=c++17 -O2 -c templates.cc -o templates.o`},
		{Name: "rustc", Images: []string{"rustc"}, Setup: `rustc --print sysroot >/dev/null
{
	for i in $(seq 100); do
		echo "pub fn f$i(v: &mut Vec<String>, m: &mut std::collections::BTreeMap<u64, String>) -> usize {
			v.sort_by(|a, b| b.len().cmp(&a.len())); v.iter().filter(|s| s.len() > $i).map(|s| s.chars().rev().collect::<String>()).for_each(|s| { m.insert(s.len() as u64 * $i, s); });
			m.values().map(|s| s.parse::<f64>().unwrap_or($i.5) as usize).sum() }"
	done
} >many.rs`, Run: `repeat rustc --crate-type lib --edition 2021 -O many.rs -o many.rlib`},
		{Name: "go build", Images: []string{"compile", "link", "asm", "go"}, Setup: `mkdir mod && cd mod
printf 'module m\n\ngo 1.21\n' >go.mod
printf 'package main\n\nimport (\n\t"fmt"\n\t"net/http"\n)\n\nfunc main() { fmt.Println(http.ListenAndServe(":0", nil)) }\n' >main.go`,
			Run: `cd mod
export GOFLAGS=-mod=mod GOPROXY=off GOTOOLCHAIN=local GOPATH=$PWD/path
export GOCACHE=$PWD/cache
timeout --foreground -s INT $((SPAN + 4)) go build -o m . || true`},
		{Name: "nasm", Images: []string{"nasm"}, Setup: `{
	echo 'section .text'
	for i in $(seq 20000); do echo "f$i: mov rax, [rdi+$i]
 vpaddd ymm1, ymm2, [rsi+8*$i]
 cmp rax, $i
 jne f$i
 ret"; done
} >many.asm`, Run: `repeat nasm -f elf64 many.asm -o many.o`},
		{Name: "ld.bfd", Images: []string{"x86_64-linux-gnu-ld.bfd", "ld.bfd", "x86_64-linux-gnu-ld"}, Setup: manyObjects,
			Run: `repeat ld.bfd -r -o all.o objects/*.o`},
	}
}

// manyFunctions is a C source of the size of an amalgamation.
const manyFunctions = `{
	echo '#include <math.h>'; echo '#include <stdio.h>'; echo '#include <stdlib.h>'; echo '#include <string.h>'
	for i in $(seq 800); do
		echo "static int g$i[64]; int f$i(const char *s, double x, int n) { char b[$((i % 90 + 32))]; int r = 0;
		switch (n % 7) { case 0: r = $i; break; case 1: r = atoi(s) * $i; break; case 2: r = (int)(sqrt(x) * $i); break; case 5: r = g$i[n & 63]; break; default: snprintf(b, sizeof b, \"%s-%d\", s, n); r = (int)strlen(b); }
		for (int i = 0; i < n; i++) { g$i[i & 63] += r ^ (i * $i); if (g$i[i & 63] > n) r += memcmp(s, b, 8); x = x * 1.5 + r; }
		return r + (int)x; }"
	done
} >many.c`

// templates is a C++ source of which templates make much.
const templates = `cat >templates.cc <<'END'
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <regex>
#include <sstream>
#include <unordered_map>
#include <variant>
#include <vector>
template <int N> struct Thing { std::map<int, std::vector<std::string>> m; std::variant<int, double, std::string> v;
  std::string work(const std::string &s) { std::regex r("([a-z]+)([0-9]{" + std::to_string(N) + "})"); std::smatch found; std::ostringstream o;
    if (std::regex_search(s, found, r)) for (auto &x : found) { m[N + (int)x.length()].push_back(x); o << x << N; }
    for (auto &[k, l] : m) { std::sort(l.begin(), l.end(), [](auto &a, auto &b) { return a.size() * N < b.size(); }); o << k; }
    std::visit([&](auto &x) { o << x; }, v); return o.str(); } };
template <int N> std::string all(const std::string &s) { if constexpr (N == 0) return s; else return Thing<N>().work(s) + all<N - 1>(s); }
std::string everything(const std::string &s) { return all<24>(s); }
END`

// manyObjects makes object files, with sections for each function.
const manyObjects = `mkdir objects
for i in $(seq 120); do
	{
		for j in $(seq 60); do echo "static const char *const t${i}_$j[] = {\"string $i $j\", \"other $j\"}; const char *f${i}_$j(int n) { return n ? t${i}_$j[n & 1] : f${i}_$j(n + $j); }" | sed "s/: f\([0-9_]*\)(/: f\1(/"; done
	} >"objects/$i.c"
done
cd objects
ls *.c | xargs -n 30 gcc -g -O1 -w -fPIC -ffunction-sections -fdata-sections -c`
