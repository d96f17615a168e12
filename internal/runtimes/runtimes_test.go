package runtimes

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// declared reads RUNTIMES(X) of bpf/runtimes.h.
func declared(t *testing.T) map[string]int {
	t.Helper()
	b, err := os.ReadFile("../../bpf/runtimes.h")
	if err != nil {
		t.Fatal(err)
	}
	_, list, ok := strings.Cut(strings.ReplaceAll(string(b), "\\\n", " "), "#define RUNTIMES(X)")
	if !ok {
		t.Fatal("no RUNTIMES(X) in bpf/runtimes.h")
	}
	list, _, _ = strings.Cut(list, "\n")
	out := map[string]int{}
	for _, m := range regexp.MustCompile(`X\((\w+), (\d+)\)`).FindAllStringSubmatch(list, -1) {
		out[m[1]], _ = strconv.Atoi(m[2])
	}
	if len(out) == 0 {
		t.Fatalf("nothing in RUNTIMES(X): %q", list)
	}
	return out
}

// TestRegistered: every runtime of the walk has its number, its step function with its place in the walk, and its entry.
func TestRegistered(t *testing.T) {
	c := declared(t)
	trigger, err := os.ReadFile("../../bpf/trigger/on_cpu.h")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("../../bpf/profiler.bpf.c")
	if err != nil {
		t.Fatal(err)
	}
	walked := 0
	for i, e := range All() {
		if int(e.ID) != i {
			t.Errorf("%s has the number %d in place %d", e.Name, e.ID, i)
		}
		if !e.Walked {
			continue
		}
		walked++
		number, ok := c[e.Name]
		if !ok || number != int(e.ID) {
			t.Errorf("%s has the number %d here; bpf/runtimes.h: %v", e.Name, e.ID, c)
		}
		header := "unwind/" + e.Name + ".h"
		step, err := os.ReadFile("../../bpf/" + header)
		if err != nil {
			t.Error(err)
			continue
		}
		if !strings.Contains(string(step), "UNWINDER("+e.Name+")") {
			t.Errorf("bpf/%s has no UNWINDER(%s)", header, e.Name)
		}
		if !strings.Contains(string(program), `"`+header+`"`) {
			t.Errorf("bpf/profiler.bpf.c does not include %s", header)
		}
		if e.ID != unwind.RuntimeNative && !strings.Contains(string(trigger), "ON_CPU_RUNTIME("+e.Name+", ") {
			t.Errorf("bpf/trigger/on_cpu.h has no program for %s", e.Name)
		}
	}
	if walked != len(c) {
		t.Errorf("%d runtimes in bpf/runtimes.h, %d entries", len(c), walked)
	}
}
