package ebpf

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/ehframe"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

// deepC burns CPU twelve calls deep, without frame pointers.
const deepC = `
#include <stdio.h>
#include <unistd.h>
volatile unsigned long sink;
__attribute__((noinline)) static void burn(int n) { for (int i = 0; i < n; i++) sink += i * 3; }
#define LEVEL(n, next) __attribute__((noinline)) static void level##n(int x) { char b[n * 16 + 8]; __asm__ volatile("" :: "r"(b) : "memory"); next(x + n); sink++; }
LEVEL(1, burn) LEVEL(2, level1) LEVEL(3, level2) LEVEL(4, level3) LEVEL(5, level4) LEVEL(6, level5)
LEVEL(7, level6) LEVEL(8, level7) LEVEL(9, level8) LEVEL(10, level9)
int main(void) { puts("READY"); fflush(stdout); for (;;) level10(10000); }
`

// mappedTables builds the tables of every file that a process maps executable; anonymous memory has none.
func mappedTables(t testing.TB, k *Kernel, pid int) []MappedTable {
	t.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []MappedTable
	for s := bufio.NewScanner(f); s.Scan(); {
		var m MappedTable
		var perms, dev, path string
		var inode uint64
		n, _ := fmt.Sscanf(s.Text(), "%x-%x %s %x %s %d %s", &m.Start, &m.End, &perms, &m.Offset, &dev, &inode, &path)
		if n >= 6 && perms[2] == 'x' && inode == 0 && path == "" {
			m.NoTable = true // generated code
			out = append(out, m)
			continue
		}
		if n < 7 || perms[2] != 'x' || !strings.HasPrefix(path, "/") {
			continue
		}
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		st, _ := file.Stat()
		e, err := elffile.New(file, st.Size())
		if err != nil {
			t.Fatal(err)
		}
		if !m.SetBias(e.Segments, 4096) {
			t.Fatalf("no segment for %s", s.Text())
		}
		table, _, err := ehframe.EHFrame(e)
		if err != nil {
			t.Fatal(err)
		}
		if m.Table, err = k.Tables.Add(table, nil); err != nil {
			t.Fatal(err)
		}
		out = append(out, m)
	}
	return out
}

// startDeep compiles and runs deepC until the test ends.
func startDeep(t testing.TB) (pid int) { return startProgram(t, deepC) }

// startProgram compiles and runs a C program without frame pointers until the test ends.
func startProgram(t testing.TB, source string) (pid int) {
	t.Helper()
	dir := t.TempDir()
	src, bin := filepath.Join(dir, "deep.c"), filepath.Join(dir, "deep")
	if err := os.WriteFile(src, []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	gcc := exec.Command("gcc", "-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-o", bin, src)
	if out, err := gcc.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return startAndWait(t, exec.Command(bin))
}

// startAndWait runs a program until the test ends; it waits for a line of output.
func startAndWait(t testing.TB, cmd *exec.Cmd) (pid int) {
	t.Helper()
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	if _, err := bufio.NewReader(pipe).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}

// readOf hands the samples of one process that are in the ring to f.
func readOf(t testing.TB, k *Kernel, pid int, f func(*Sample)) {
	t.Helper()
	err := k.ReadSamples(func(b []byte) {
		var s Sample
		if err := s.Decode(b); err != nil {
			t.Fatal(err)
		}
		if s.PID == uint32(pid) {
			f(&s)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// sampling is a kernel that samples all CPUs until the test ends.
func sampling(t testing.TB, v Variant) (*Kernel, *OnCPU) {
	t.Helper()
	k, err := Load(zaptest.NewLogger(t), Options{Variant: v, MaxFrames: 1024, MemoryBytes: 256 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return k, sampled(t, k)
}

// sampled has a kernel sample all CPUs until the test ends, which closes both.
func sampled(t testing.TB, k *Kernel) *OnCPU {
	t.Helper()
	t.Cleanup(func() { k.Close() })
	cpu, err := k.StartOnCPU(997)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cpu.Close() })
	return cpu
}

// publish waits for a sample of the process, which tells its identity, and makes BPF know its mappings.
func publish(t testing.TB, k *Kernel, pid int) {
	t.Helper()
	var id ProcessID
	for end := time.Now().Add(5 * time.Second); id.PID == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no sample of process %d in 5 s", pid)
		}
		readOf(t, k, pid, func(s *Sample) { id = s.ID })
	}
	if err := k.Processes.Put(id, mappedTables(t, k, pid)); err != nil {
		t.Fatal(err)
	}
	time.Sleep(20 * time.Millisecond)
	readOf(t, k, pid, func(*Sample) {})
}

func TestWalkDeep(t *testing.T) {
	needsBPF(t)
	pid := startDeep(t)
	for name, v := range map[string]Variant{"loop": VariantLoop, "tail": VariantTail} {
		t.Run(name, func(t *testing.T) {
			k, _ := sampling(t, v)
			publish(t, k, pid)
			var stops [unwind.StopReasons]int
			total, deep := 0, 0
			// a busy machine gives the program its CPU time later, not never
			for end := time.Now().Add(20 * time.Second); total < 100 && time.Now().Before(end); {
				time.Sleep(100 * time.Millisecond)
				readOf(t, k, pid, func(s *Sample) {
					stops[s.Stop]++
					total++
					if n := len(s.User(nil)); n >= 14 {
						deep++
					}
				})
			}
			if total < 100 || stops[unwind.StopRoot] != total || deep < total*9/10 {
				t.Errorf("of %d walks %d reached the root, %d are 14 or more frames deep; stops %v",
					total, stops[unwind.StopRoot], deep, stops)
			}
		})
	}
}
