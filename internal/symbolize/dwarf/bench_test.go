package dwarf

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

// benchFile is the environment variable that names a file with debug information for the benchmarks, instead of those
// that are built.
const benchFile = "HOSTPROFILES_BENCH_DWARF"

// large builds a library of one unit with many functions, into which much is inlined.
func large(b *testing.B, compiler string) string {
	b.Helper()
	if path := os.Getenv(benchFile); path != "" {
		return path
	}
	var s strings.Builder
	s.WriteString("#include <algorithm>\n#include <map>\n#include <string>\n#include <vector>\n")
	for n := range 200 {
		fmt.Fprintf(&s, `namespace n%[1]d {
struct T { int v; std::string s; };
int f(std::vector<T> &v, std::map<int, T> &m) {
	std::sort(v.begin(), v.end(), [](T const &a, T const &b) { return a.v %% %[2]d < b.v; });
	for (auto &x : m) v.push_back(x.second);
	return v.empty() ? %[1]d : v.back().v;
}
}
`, n, n+2)
	}
	dir := b.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "large.cc"), []byte(s.String()), 0o600); err != nil {
		b.Fatal(err)
	}
	run(b, dir, compiler, "-O2", "-g", "-shared", "-fPIC", "-o", "large.so", "large.cc")
	return filepath.Join(dir, "large.so")
}

// Benchmark measures with what GCC makes, which says where a DIE's children end, and with what LLVM makes.
func Benchmark(b *testing.B) {
	for _, compiler := range []string{"g++", "clang++-19"} {
		path := large(b, compiler)
		addrs := someOf(instructions(b, path), 10000)
		for _, x := range []struct {
			name string
			f    func(*testing.B, *Data, []unwind.FileAddr)
		}{{"open", benchOpen}, {"cold", benchCold}, {"batch", benchBatch}, {"warm", benchWarm},
			{"skip", benchSkip}, {"skip deep", benchSkipDeep}} {
			b.Run(x.name+" "+compiler, func(b *testing.B) {
				d, err := Open(openDebug(b, path).Within(elffile.NewBudget(path, 512<<20)), Options{})
				if err != nil {
					b.Fatal(err)
				}
				defer d.Close()
				x.f(b, d, addrs)
			})
		}
	}
}

// benchWarm looks addresses up that were looked up before.
func benchWarm(b *testing.B, d *Data, addrs []unwind.FileAddr) {
	var lines []unwind.Line
	total := 0
	for _, a := range addrs {
		lines, _ = d.Lookup(lines[:0], a)
		total += len(lines)
	}
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		lines, _ = d.Lookup(lines[:0], addrs[n%len(addrs)])
		n++
	}
	b.ReportMetric(float64(total)/float64(len(addrs)), "lines/op")
	b.ReportMetric(float64(d.Bytes())/(1<<20), "MiB")
}

// benchCold looks one address up in a unit of which nothing is known.
func benchCold(b *testing.B, d *Data, addrs []unwind.FileAddr) {
	n, size := 0, uint64(0)
	for b.Loop() {
		d.forget(0)
		a := addrs[n*7919%len(addrs)]
		n++
		if _, err := d.Lookup(nil, a); err != nil {
			continue
		}
		unit, _, err := d.unitOf(uint64(a))
		if err != nil {
			b.Fatal(err)
		}
		u, err := d.unit(d.main, d.main.units[unit], nil)
		if err != nil {
			b.Fatal(err)
		}
		size += u.end - u.off
	}
	b.ReportMetric(float64(size)/float64(n)/(1<<20), "MiB/unit")
}

// benchBatch looks 10,000 addresses up, with nothing known before.
func benchBatch(b *testing.B, d *Data, addrs []unwind.FileAddr) {
	for b.Loop() {
		d.forget(0)
		if err := d.LookupAll(addrs, func(int, []unwind.Line, error) {}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(addrs)), "ns/addr")
}

func benchSkip(b *testing.B, d *Data, _ []unwind.FileAddr)     { skip(b, d, false) }
func benchSkipDeep(b *testing.B, d *Data, _ []unwind.FileAddr) { skip(b, d, true) }

// skip walks through the largest unit for its functions.
func skip(b *testing.B, d *Data, deep bool) {
	var u *unit
	for _, off := range d.main.units {
		x, err := d.unit(d.main, off, nil)
		if err != nil {
			b.Fatal(err)
		}
		if u == nil || x.end-x.off > u.end-u.off {
			u = x
		}
	}
	b.SetBytes(int64(u.end - u.off))
	for b.Loop() {
		d.forget(0)
		d.steps = d.maxSteps
		if _, err := d.functions(u, deep); err != nil {
			b.Fatal(err)
		}
	}
}

// benchOpen reads which unit covers what.
func benchOpen(b *testing.B, d *Data, _ []unwind.FileAddr) {
	for b.Loop() {
		again, err := Open(d.main.file.Within(elffile.NewBudget("", 512<<20)), Options{})
		if err != nil {
			b.Fatal(err)
		}
		again.Close()
	}
	b.ReportMetric(float64(len(d.main.units)), "units")
}
