package workloads

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// fullTest is the environment variable that asks for the long tests.
const fullTest = "HOSTPROFILES_TEST_FULL"

// TestPrograms builds every program of All, runs it for an instant, and looks up every function of its truth in its symbols.
func TestPrograms(t *testing.T) {
	b, err := NewBuilder()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range All() {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			built, err := b.Build(p)
			if err != nil {
				t.Fatal(err)
			}
			checkTruth(t, built)
			switch p.Name {
			case "memfd", "storm", "late", "bpfhammer", "bpfobjects", "ticks":
				return // they take arguments or privileges of their own
			}
			limits := Limits{CPU: 20 * time.Millisecond}
			if strings.HasPrefix(p.Name, "nostack") {
				limits = Limits{}
			}
			r, err := built.Start(limits)
			if err != nil {
				t.Fatal(err)
			}
			if limits.CPU == 0 {
				if r.Stop() < 0 {
					t.Error("a negative CPU time")
				}
				return
			}
			res, err := r.Wait()
			if err != nil {
				t.Fatal(err)
			}
			if res.Report == nil || res.CPU < limits.CPU {
				t.Errorf("used %v and reports %v", res.CPU, res.Report)
			}
		})
	}
}

// TestOtherTruths builds the programs that need conditions of their own to be run, and looks up every function of theirs: those of
// `make test`, and, where the full tests are wanted, those of rarer compilers and libraries.
func TestOtherTruths(t *testing.T) {
	b, err := NewBuilder()
	if err != nil {
		t.Fatal(err)
	}
	programs := sharingPrograms()
	if os.Getenv(fullTest) != "" {
		programs = Edges()
		for _, p := range Compiled() {
			programs = append(programs, p.Program)
		}
	}
	for _, p := range programs {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			built, err := b.Build(p)
			if errors.Is(err, ErrNotHere) {
				t.Skipf("not supported: %v", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			checkTruth(t, built)
		})
	}
}

func checkTruth(t *testing.T, b Built) {
	t.Helper()
	var names []string
	for _, path := range append([]string{b.Full}, b.Libraries...) {
		s, err := LoadSymbols(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, sym := range s.symbols {
			names = append(names, sym.Name)
			if got := s.At(sym.Value + sym.Size - 1); !slices.Contains(got, sym.Name) {
				t.Errorf("%s is not found by its last address, but %v", sym.Name, got)
			}
		}
	}
	total := 0.0
	for _, share := range b.Truth {
		total += share.Of
		for _, f := range append(share.Chain, share.Function) {
			if f != Any && !slices.ContainsFunc(names, func(n string) bool { return Match(f, n) }) {
				t.Errorf("there is no function %s", f)
			}
		}
	}
	if len(b.Truth) > 0 && (total < 0.999 || total > 1.001) {
		t.Errorf("the shares add up to %v", total)
	}
}

// TestLanguagesTable: the first table of docs/languages.md has a row for each program of Compiled, and no others.
func TestLanguagesTable(t *testing.T) {
	root, err := ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", "languages.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "\n| language | compiler, flags |")
	if !found {
		t.Fatal("there is no table of measured programs")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	var rows, programs []string
	for _, line := range strings.Split(table, "\n")[2:] { // behind the rest of the head and the rule
		cells := strings.Split(line, "|")
		if len(cells) < 3 {
			t.Fatalf("%q is no row", line)
		}
		compiler, _, _ := strings.Cut(strings.TrimSpace(cells[2]), " ")
		rows = append(rows, strings.TrimSpace(cells[1])+", "+compiler)
	}
	for _, p := range Compiled() {
		programs = append(programs, p.Language+", "+p.Compiler)
	}
	slices.Sort(rows)
	slices.Sort(programs)
	if !slices.Equal(rows, programs) {
		t.Errorf("the table has %q, the programs are %q", rows, programs)
	}
}

// TestKeyOfScripts: what a shell script calls is part of what a program depends on.
func TestKeyOfScripts(t *testing.T) {
	bin := t.TempDir()
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	b := &Builder{Source: t.TempDir(), Cache: t.TempDir(), Arch: runtime.GOARCH}
	p := Program{Name: "x", steps: []step{{argv: []string{"sh", "-c", "cd {out} && x-compiler -o {name}"}}}}
	var keys []string
	for _, text := range []string{"", "#!/bin/sh\n", "#!/bin/sh\n", "#!/bin/sh\ntrue\n"} {
		if text != "" {
			path := filepath.Join(bin, "x-compiler")
			if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(path, time.Unix(1, 0), time.Unix(1, 0)); err != nil {
				t.Fatal(err)
			}
		}
		key, err := b.key(p)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	if keys[0] == keys[1] || keys[1] != keys[2] || keys[2] == keys[3] {
		t.Errorf("without a compiler, with one, with the same and with another: %q", keys)
	}
}

func TestCompilerMissing(t *testing.T) {
	b := &Builder{Source: t.TempDir(), Cache: t.TempDir(), Arch: "amd64"}
	_, err := b.Build(Program{Name: "x", steps: []step{words("no-such-compiler x")}})
	if err == nil || !strings.Contains(err.Error(), "no-such-compiler is not installed") {
		t.Errorf("got %v", err)
	}
	_, err = (&Builder{Arch: "none"}).Build(Program{Name: "x", native: true})
	if !errors.Is(err, ErrNotHere) {
		t.Errorf("got %v", err)
	}
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, symbol string
		want            bool
	}{{"main", "main", true}, {"main", "main.main", false}, {"~main", "main.main", true}, {"~x", "main", false}} {
		if got := Match(c.pattern, c.symbol); got != c.want {
			t.Errorf("Match(%q, %q) = %v", c.pattern, c.symbol, got)
		}
	}
}
