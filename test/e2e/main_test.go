// Package e2e profiles programs of known truth on this machine's kernel. The tests need what profiling needs (root, or the
// capabilities that the README lists); without, they are skipped and say so.
package e2e

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hostprofiles/hostprofiles/receiver"
	"github.com/hostprofiles/hostprofiles/test/e2e/analysis"
	"github.com/hostprofiles/hostprofiles/test/e2e/harness"
	"github.com/hostprofiles/hostprofiles/test/e2e/workloads"
)

// frequency of the tests, in Hz.
const frequency = 997

// fullTest is the environment variable that asks for the long tests.
const fullTest = "HOSTPROFILES_TEST_FULL"

// full tells whether the tests may take minutes, and packages that `make test` does without.
func full() bool { return os.Getenv(fullTest) != "" }

// needsFull skips a test that takes large packages or much time, unless it is asked for.
func needsFull(t *testing.T) {
	t.Helper()
	if !full() {
		t.Skipf("set %s=1: this test needs large packages, or much time", fullTest)
	}
}

func TestMain(m *testing.M) {
	if harness.IsChild() {
		harness.RunChild()
		return
	}
	os.Exit(m.Run())
}

// start starts a session that the test's end stops at the latest.
func start(t *testing.T, o harness.Options) *harness.Session {
	t.Helper()
	s, err := harness.Start(context.Background(), o)
	if errors.Is(err, harness.ErrNotSupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// stop ends a session and fails the test for what must never happen.
func stop(t *testing.T, s *harness.Session) harness.Result {
	t.Helper()
	r, err := s.Stop()
	if err != nil {
		t.Error(err)
	}
	if b := r.Balance; b.Taken != b.Delivered+b.Lost || b.Delivered != r.Total {
		t.Errorf("%d samples taken, %d delivered, %d lost; the consumer got %d", b.Taken, b.Delivered, b.Lost, r.Total)
	}
	for _, p := range r.Problems {
		t.Errorf("a payload is not conformant: %v", p)
	}
	if t.Failed() {
		t.Logf("log:\n%s", strings.Join(r.Logs, "\n"))
	}
	t.Logf("%d samples in %d payloads, the largest %d bytes\n%v", r.Total, r.Payloads, r.MaxPayload, r.Metrics)
	return r
}

func build(t *testing.T, name string) workloads.Built {
	t.Helper()
	p, ok := workloads.Find(name)
	if !ok {
		t.Fatalf("there is no workload %s", name)
	}
	return buildProgram(t, p)
}

func buildProgram(t testing.TB, p workloads.Program) workloads.Built {
	t.Helper()
	b, err := workloads.NewBuilder()
	if err != nil {
		t.Fatal(err)
	}
	built, err := b.Build(p)
	if err != nil {
		t.Fatal(err)
	}
	return built
}

// run starts a program that the test's end kills at the latest.
func run(t *testing.T, b workloads.Built, l workloads.Limits) *workloads.Running {
	t.Helper()
	return launched(t)(b.Start(l))
}

// command is one that ends with the test, and with this process where that ends before: by a timeout of go test, which runs no cleanup.
func command(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // the thread that starts it stays: none here ends before the process
	return cmd
}

// scriptLines are the words of each line that a script in scripts/ prints: so many.
func scriptLines(t testing.TB, words int, script string, args ...string) (lines [][]string) {
	t.Helper()
	cmd := exec.Command(source(t, "../../scripts/"+script), args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) != words {
			t.Fatalf("scripts/%s says %q", script, line)
		}
		lines = append(lines, f)
	}
	return lines
}

func launched(t *testing.T) func(*workloads.Running, error) *workloads.Running {
	return func(r *workloads.Running, err error) *workloads.Running {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Stop() })
		return r
	}
}

// copyTo copies the executable into a new file, an inode that nobody has seen before.
func copyTo(t *testing.T, b workloads.Built, dir string) workloads.Built {
	t.Helper()
	text, err := os.ReadFile(b.Path)
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(dir, filepath.Base(b.Path))
	if err := os.WriteFile(to, text, 0o755); err != nil {
		t.Fatal(err)
	}
	b.Path = to
	return b
}

// ours lets samples of processes below a folder through, and those of processes without an executable, whatever they are:
// a process whose executable was not found out is found by its pid.
func ours(dir string) func(analysis.Sample) bool {
	return func(s analysis.Sample) bool { return s.Executable == "" || strings.HasPrefix(s.Executable, dir+"/") }
}

// withPath fails the test if a process's samples do not say what it executed.
func withPath(t *testing.T, samples analysis.Samples) {
	t.Helper()
	without := samples.Where(func(s analysis.Sample) bool { return s.Executable == "" })
	if n := without.Count(); n > 0 {
		t.Errorf("%d of %d samples have no process.executable.path", n, samples.Count())
	}
}

// cache is the folder of all compiled workloads.
func cache(t *testing.T) string {
	t.Helper()
	b, err := workloads.NewBuilder()
	if err != nil {
		t.Fatal(err)
	}
	return b.Cache
}

// atLeast fails the test if n is less than part of total.
func atLeast(t *testing.T, what string, n, total int, part float64) {
	t.Helper()
	if float64(n) < part*float64(total) || total == 0 {
		t.Errorf("%s: %d of %d, %.2f %%, want %.2f %%", what, n, total, 100*float64(n)/float64(max(total, 1)), 100*part)
	}
}

// delivered fails the test if a process's samples are fewer than 97 % of its CPU time times the frequency, or many more: its CPU
// time leaves out interrupts, the samples in them do not.
func delivered(t *testing.T, what string, samples int, cpu time.Duration) {
	t.Helper()
	want := cpu.Seconds() * frequency
	// The period changes by 10 % at most a few times a second, independently for each CPU: three standard deviations of
	// that, and the ends of the run.
	slack := 3 * (0.06*want/math.Sqrt(4*max(cpu.Seconds(), 0.25)) + float64(runtime.NumCPU()))
	if float64(samples) < 0.97*want-slack || float64(samples) > 1.1*want+slack {
		t.Errorf("%s: %d samples delivered, the CPU time of %v makes %.0f", what, samples, cpu, want)
	}
}

func show(t *testing.T, r analysis.Report) {
	t.Helper()
	text := fmt.Sprint(r)
	if t.Failed() {
		text += "\n\t" + strings.Join(r.Wrong, "\n\t")
	}
	t.Log(text)
}

// smallest sets the smallest memory budget.
func smallest(c *receiver.Config) { c.Limits.MemoryMib = 32 }
