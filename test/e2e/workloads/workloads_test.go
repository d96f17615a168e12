package workloads

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestPrograms builds every program, runs it for an instant, and looks up every function of its truth in its symbols.
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
