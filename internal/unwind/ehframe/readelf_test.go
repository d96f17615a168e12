package ehframe

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
)

// systemBinaries are what every machine with a compiler has, as far as they exist.
func systemBinaries(t testing.TB) []string {
	var out []string
	for _, pattern := range []string{"/bin/bash", "/usr/bin/readelf", "/lib/*-linux-gnu/libc.so.6", "/lib/*-linux-gnu/libm.so.6",
		"/usr/lib/*-linux-gnu/libstdc++.so.6", "/lib/*-linux-gnu/ld-linux*", "/usr/lib/*-linux-gnu/libcrypto.so.3",
		"/usr/*-linux-gnu/lib/libc.so.6", "/usr/*-linux-gnu/lib/libstdc++.so.6", "/usr/*-linux-gnu/lib/ld-linux*"} {
		m, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, m...)
	}
	if len(out) < 4 {
		t.Fatalf("only %v found", out)
	}
	return out
}

func TestAgainstReadelf(t *testing.T) {
	for _, path := range append(systemBinaries(t), buildSample(t)...) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			f := unwindtest.Open(t, path)
			tab, st, err := EHFrame(f)
			if err != nil {
				t.Fatal(err)
			}
			checkTable(t, tab)
			n := compareWithReadelf(t, path, ".eh_frame", f, tab)
			t.Logf("%s %s: %d rows of readelf, %+v, %d rules", path, f.Arch, n, st, len(tab.Rules))
			if n < 20 || st.Malformed != 0 {
				t.Errorf("%d rows compared, %d malformed", n, st.Malformed)
			}
		})
	}
}

func TestDebugFrameAgainstReadelf(t *testing.T) {
	dir := t.TempDir()
	src := filepath.Join(dir, "a.go")
	if err := os.WriteFile(src, []byte("package main\nimport \"fmt\"\nfunc main() { fmt.Println() }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, arch := range []string{"amd64", "arm64"} {
		out := filepath.Join(dir, arch)
		cmd := exec.Command("go", "build", "-o", out, src)
		cmd.Env = append(os.Environ(), "GOARCH="+arch, "CGO_ENABLED=0")
		if b, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go build: %v\n%s", err, b)
		}
		f := unwindtest.Open(t, out)
		tab, st, err := DebugFrame(f)
		if err != nil {
			t.Fatal(err)
		}
		checkTable(t, tab)
		if n := compareWithReadelf(t, out, ".debug_frame", f, tab); n < 1000 || st.Malformed != 0 {
			t.Errorf("%d rows compared, %+v", n, st)
		}
	}
	dwarf := filepath.Join(dir, "dwarf")
	for _, version := range []string{"-gdwarf-2", "-gdwarf-3", "-gdwarf-4", "-gdwarf-5"} {
		gcc(t, "-O2", version, "-gz", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-o", dwarf,
			"../../../testdata/elf/src/sample.c")
		f := unwindtest.Open(t, dwarf)
		tab, st, err := DebugFrame(f)
		if err != nil {
			t.Fatal(err)
		}
		checkTable(t, tab)
		if n := compareWithReadelf(t, dwarf, ".debug_frame", f, tab); n < 5 || st.Malformed != 0 {
			t.Errorf("%s: %d rows compared, %+v", version, n, st)
		}
	}
}

func gcc(t testing.TB, args ...string) {
	t.Helper()
	if b, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("gcc %v: %v\n%s", args, err, b)
	}
}

// buildSample compiles a program that has every kind of frame.
func buildSample(t testing.TB) []string {
	out := filepath.Join(t.TempDir(), "sample")
	gcc(t, "-O2", "-o", out, "../../../testdata/elf/src/sample.c")
	return []string{out}
}

// checkTable checks what Table promises.
func checkTable(t testing.TB, tab *unwind.Table) {
	t.Helper()
	rules := map[unwind.Rule]bool{}
	for _, r := range tab.Rules {
		if rules[r] {
			t.Errorf("rule %v twice", r)
		}
		rules[r] = true
	}
	for i, r := range tab.Rows {
		if int(r.Rule) >= len(tab.Rules) {
			t.Fatalf("row %d: rule %d of %d", i, r.Rule, len(tab.Rules))
		}
		if i > 0 && (r.Start <= tab.Rows[i-1].Start || r.Rule == tab.Rows[i-1].Rule) {
			t.Fatalf("rows %d: %+v after %+v", i, r, tab.Rows[i-1])
		}
	}
	if n := len(tab.Rows); n > 0 && tab.Rules[tab.Rows[n-1].Rule] != (unwind.Rule{}) {
		t.Errorf("the last row is %v", tab.Rules[tab.Rows[n-1].Rule])
	}
}

// compareWithReadelf checks every row that readelf prints and returns how many there were.
func compareWithReadelf(t *testing.T, path, section string, f *elffile.File, tab *unwind.Table) int {
	t.Helper()
	c, err := unwindtest.Readelf(path, section, f.Arch, f.Executable(), tab)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range c.Differ {
		t.Errorf("%s: %s", path, d)
	}
	if c.Outside > 0 || c.Overlaps > 0 {
		t.Errorf("%s: of %d rows %d are in no segment with code, %d in several functions", path, c.Rows, c.Outside, c.Overlaps)
	}
	return c.Rows
}
