package ebpf

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/ehframe"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
	"github.com/hostprofiles/hostprofiles/internal/unwind/reference"
	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
)

// chainsC has a few dozen chains of calls, through callbacks of libc, frames of unknown size, and realigned ones; it is deep
// in one of them nearly always.
const chainsC = `
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <alloca.h>
volatile unsigned long sink;
__attribute__((noinline)) static void burn(int n) { for (int i = 0; i < n; i++) sink += i * 3; }
__attribute__((noinline)) static void sized(int n) { char *p = alloca(n * 32 + 16); memset(p, n, n * 32); burn(600000); sink += p[n]; }
__attribute__((noinline)) static void aligned(int n) { char b[64] __attribute__((aligned(64))); memset(b, n, 64); sized(n); sink += b[n]; }
static int compare(const void *a, const void *b) { aligned(3); return *(const int *)a - *(const int *)b; }
__attribute__((noinline)) static void recurse(int n) { char b[24]; memset(b, n, 24); if (n) recurse(n - 1); else sized(1); sink += b[n % 24]; }
__attribute__((noinline)) static void sorting(void) { int a[3] = {3, 1, 2}; qsort(a, 3, sizeof(a[0]), compare); sink += a[0]; }
__attribute__((noinline)) static void searching(void) { int a[3] = {1, 2, 3}, k = 3; sink += !!bsearch(&k, a, 3, sizeof(a[0]), compare); }
int main(void) { puts("READY"); fflush(stdout); for (;;) { for (int n = 0; n < 8; n++) recurse(2 * n); sorting(); searching(); sized(5); } }
`

// codeOf finds the tables that BPF has too.
type codeOf struct {
	mappings []MappedTable
	tables   []*unwind.Table
}

func (c codeOf) Find(a unwind.Addr) (reference.Code, unwind.StopReason, bool) {
	for i, m := range c.mappings {
		if m.Contains(a) {
			return reference.Code{Mapping: m.Mapping, Table: c.tables[i], NoTable: m.NoTable}, 0, true
		}
	}
	return reference.Code{}, unwind.StopNoMapping, false
}

// TestWalkAgainstReference samples a live process twice: while BPF does not know it, so that each sample brings its registers and
// stack along, which the reference walker walks; and then with its mappings, walked by BPF in the kernel. All chains of callers
// that BPF finds are such that the reference walker found too.
func TestWalkAgainstReference(t *testing.T) {
	needsBPF(t)
	pid := startProgram(t, chainsC)
	arch := unwind.ArchAMD64
	if runtime.GOARCH == "arm64" {
		arch = unwind.ArchARM64
	}
	for name, v := range map[string]Variant{"loop": VariantLoop, "tail": VariantTail} {
		t.Run(name, func(t *testing.T) {
			k, _ := sampling(t, v)
			code := codeOf{mappings: mappedTables(t, k, pid)}
			code.tables = tablesOf(t, pid, code.mappings)
			const samples = 1500
			known := map[string]int{}
			var id ProcessID
			walked := 0
			for end := time.Now().Add(30 * time.Second); walked < samples && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
				readOf(t, k, pid, func(s *Sample) {
					id = s.ID
					at, chunks, stack := s.Stack()
					if !s.HasCopy || len(stack) == 0 {
						return
					}
					w := reference.Walker{NoCode: true}
					frames, stop := w.Walk(&s.Registers, arch, &reference.StackCopy{At: at, Chunks: chunks, Bytes: stack}, code, nil, 1024)
					if stop == unwind.StopRoot {
						known[chain(frames)]++
						walked++
					}
				})
			}
			if err := k.Processes.Put(id, code.mappings); err != nil {
				t.Fatal(err)
			}
			time.Sleep(20 * time.Millisecond)
			readOf(t, k, pid, func(*Sample) {})
			total, same, deep := 0, 0, 0
			other := map[string]int{}
			for end := time.Now().Add(30 * time.Second); total < samples && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
				readOf(t, k, pid, func(s *Sample) {
					total++
					frames := s.User(nil)
					c := chain(frames)
					switch {
					case s.Stop != unwind.StopRoot:
						other[s.Stop.String()]++
					case known[c] > 0:
						same++
					default:
						other[c]++
					}
					if len(frames) > 5 {
						deep++
					}
				})
			}
			t.Logf("the reference walker: %d samples, %d chains; BPF: %d samples, %d of them in these chains", walked, len(known), total, same)
			// A chain may be so rare (a leaf in a callback's first instruction) that only one of the two met it.
			if walked < 300 || total < 300 || len(known) < 8 || deep < total/2 || same < total-total/200 {
				t.Errorf("%d and %d samples, %d chains, %d deep, %d the same; others: %v", walked, total, len(known), deep, same, other)
			}
		})
	}
}

// chain is the callers of a leaf, by their return addresses.
func chain(frames []unwind.RawFrame) string {
	var b strings.Builder
	for i, f := range frames {
		if i > 0 {
			fmt.Fprintf(&b, "%#x ", f.A)
		}
	}
	return b.String()
}

// tablesOf builds the tables of what is mapped once more, for the reference walker; nil where there is none.
func tablesOf(t *testing.T, pid int, mappings []MappedTable) []*unwind.Table {
	t.Helper()
	out := make([]*unwind.Table, len(mappings))
	for i, m := range mappings {
		if m.NoTable {
			continue
		}
		f := unwindtest.Open(t, fmt.Sprintf("/proc/%d/map_files/%x-%x", pid, m.Start, m.End))
		tab, _, err := ehframe.EHFrame(f.Within(elffile.NewBudget("file", 256<<20)))
		if err != nil {
			t.Fatal(err)
		}
		out[i] = tab
	}
	return out
}
