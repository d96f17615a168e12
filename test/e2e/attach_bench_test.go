package e2e

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
	"github.com/hostprofiles/hostprofiles/test/e2e/analysis"
	"github.com/hostprofiles/hostprofiles/test/e2e/harness"
)

// largeFunctions is how many functions the programs of BenchmarkAttach have and run; each has a heap of a gigabyte, too.
const largeFunctions = 100000

// The programs say READY, wait for a line, and burn.
const (
	largePython = `
import sys
heap = [(i, str(i)) for i in range(7000000)]
source = '\n'.join('def f%d(x):\n    return x * %d + 1' % (i, i) for i in range(COUNT))
names = {}
exec(compile(source, 'generated.py', 'exec'), names)
functions = [names['f%d' % i] for i in range(COUNT)]
print('READY')
sys.stdout.flush()
sys.stdin.readline()
while True:
    for f in functions:
        f(1)
`
	largeNode = `
const heap = [];
for (let i = 0; i < 12e6; i++) heap.push({ i, next: [i] });
const functions = [];
for (let i = 0; i < COUNT; i += 1000) {
	let source = '';
	for (let j = i; j < i + 1000; j++) source += 'function f' + j + '(x) { return x * ' + j + ' + 1 }, ';
	functions.push(...new Function('return [' + source + ']')());
}
console.log('READY');
require('fs').readSync(0, Buffer.alloc(1));
for (;;) for (const f of functions) f(1);
`
	largeJava = `
import java.util.function.IntUnaryOperator;
public class Large {
	public static void main(String[] args) throws Exception {
		Object[][] heap = new Object[1 << 20][];
		for (int i = 0; i < heap.length; i++) {
			heap[i] = new Object[48];
			for (int j = 0; j < 48; j++) heap[i][j] = new int[2];
		}
		Runnable[] all = new Runnable[COUNT / 100];
		for (int i = 0; i < all.length; i++) all[i] = (Runnable) Class.forName("Part" + i).getDeclaredConstructor().newInstance();
		for (Runnable r : all) r.run();
		System.out.println("READY");
		System.in.read();
		for (;;) for (Runnable r : all) r.run();
	}
}
`
)

// BenchmarkAttach is the CPU time that it takes from the first sample of a large process, which has run for a while, until a report names a function
// of its runtime: with the reading of its libraries' tables and of what there is to know of it, and the handling of all samples until then, by the test too.
func BenchmarkAttach(b *testing.B) {
	unwindtest.Need(b, "java")
	unwindtest.Need(b, "javac")
	count := fmt.Sprint(largeFunctions)
	write := func(dir, name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "COUNT", count)), 0o600); err != nil {
			b.Fatal(err)
		}
		return path
	}
	dir := b.TempDir()
	python := write(dir, "large.py", largePython)
	node := write(dir, "large.js", largeNode)
	write(dir, "Large.java", largeJava)
	for i := range largeFunctions / 100 {
		text := &strings.Builder{}
		fmt.Fprintf(text, "public class Part%d implements Runnable {\n\tstatic volatile int sink;\n", i)
		calls := ""
		for j := range 100 {
			fmt.Fprintf(text, "\tstatic int f%d(int x) { return x * %d + 1; }\n", j, j)
			calls += fmt.Sprintf(" + f%d(1)", j)
		}
		fmt.Fprintf(text, "\tpublic void run() { sink = 0%s; }\n}\n", calls)
		write(dir, fmt.Sprintf("Part%d.java", i), text.String())
	}
	if out, err := exec.Command("sh", "-c", "cd "+dir+" && javac *.java").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	for _, p := range []struct {
		name, kind string
		command    []string
	}{
		{"python", "cpython", []string{"python3", python}},
		{"node", "v8js", []string{unwindtest.Node(b), "--max-old-space-size=4000", node}},
		{"java", "jvm", []string{"java", "-Xmx3g", "-XX:ReservedCodeCacheSize=256m", "-cp", dir, "Large"}},
	} {
		b.Run(p.name, func(b *testing.B) {
			var cpu time.Duration
			for range b.N {
				cpu += attach(b, p.kind, p.command)
			}
			b.ReportMetric(float64(cpu.Milliseconds())/float64(b.N), "cpu-ms/first-name")
		})
	}
}

func attach(b *testing.B, kind string, command []string) time.Duration {
	b.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "READY\n" {
		b.Fatalf("%q, %v", line, err)
	}
	if size := residentBytes(b, cmd.Process.Pid); size < 900<<20 {
		b.Fatalf("the program has %d MiB only", size>>20)
	}
	s, err := harness.Start(context.Background(), harness.Options{Keep: func(s analysis.Sample) bool { return s.PID == cmd.Process.Pid }})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _, _ = s.Stop() }()
	time.Sleep(5 * time.Second) // unwinders are loaded, what runs besides is known
	var before, after unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &before) // it can't fail
	if _, err := in.Write([]byte("go\n")); err != nil {
		b.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		_ = unix.Getrusage(unix.RUSAGE_SELF, &after)
		for _, sample := range s.Samples() {
			for _, f := range sample.User() {
				if f.Type == kind && f.Name() != "" {
					return time.Duration(after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano())
				}
			}
		}
	}
	b.Fatal("no sample has a name")
	return 0
}

// residentBytes is how much of a process's memory is there.
func residentBytes(b *testing.B, pid int) int {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		b.Fatal(err)
	}
	var size, resident int
	if _, err := fmt.Sscan(string(text), &size, &resident); err != nil {
		b.Fatal(err)
	}
	return resident * os.Getpagesize()
}
