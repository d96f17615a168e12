package mix

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostprofiles/hostprofiles/test/e2e/workloads"
)

// A symbolization is a way to configure it.
type symbolization struct {
	name, config string
}

func symbolizations() []symbolization {
	return []symbolization{
		{"none", "{enabled: false}"},
		{"names", "{source_lines: false}"},
		{"names and lines", "{source_lines: true}"},
	}
}

// collector is the built distribution, profiling for nobody.
type collector struct {
	cmd *exec.Cmd
	log bytes.Buffer
}

// usage is what a collector has used.
type usage struct {
	cpu        time.Duration
	peak, size int // resident memory, KiB: the most ever, and now
}

// budgetMib is limits.memory_mib's default.
const budgetMib = 256

// startCollector returns when it has profiled for some seconds.
func startCollector(t *testing.T, s symbolization, frequency int) *collector {
	t.Helper()
	root, err := workloads.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "collector.yaml")
	text := fmt.Sprintf("receivers: {hostprofiles: {on_cpu: {frequency: %d}, symbolization: %s}}\nexporters: {nop: }\n"+
		"service: {telemetry: {metrics: {level: none}}, pipelines: {profiles: {receivers: [hostprofiles], exporters: [nop]}}}\n", frequency, s.config)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	c := &collector{cmd: exec.Command(filepath.Join(root, "build", "otelcol-hostprofiles"), "--config", config)}
	c.cmd.Stderr = &c.log
	if err := c.cmd.Start(); err != nil {
		t.Fatalf("starting the collector (make build makes it): %v", err)
	}
	t.Cleanup(func() {
		if c.cmd.ProcessState == nil {
			_ = c.cmd.Process.Kill()
			_ = c.cmd.Wait()
		}
	})
	time.Sleep(5 * time.Second)
	return c
}

// usage reads what it has used so far.
func (c *collector) usage(t *testing.T) (u usage) {
	t.Helper()
	var err error
	if u.size, u.peak, err = workloads.Memory(c.cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	// The process's clock, see clock_getcpuclockid(3): the times in stat are rounded to ticks.
	var now unix.Timespec
	if err := unix.ClockGettime(int32(^c.cmd.Process.Pid<<3|2), &now); err != nil {
		t.Fatalf("reading the collector's CPU time: %v", err)
	}
	u.cpu = time.Duration(now.Nano())
	return u
}

// end has it shut down and returns all CPU time that it used.
func (c *collector) end(t *testing.T) time.Duration {
	t.Helper()
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Wait(); err != nil {
		t.Fatalf("the collector: %v\n%s", err, c.log.String())
	}
	return c.cmd.ProcessState.UserTime() + c.cmd.ProcessState.SystemTime()
}

// costPrograms are those of the mix by which costs are compared: large and small executables, with and without debug
// information, and many short processes.
func costPrograms() []Program {
	names := []string{"gcc", "clang", "git", "sqlite3", "openssl", "xz", "PostgreSQL", "python3", "perl", "ImageMagick"}
	return slices.DeleteFunc(Programs(), func(p Program) bool { return !slices.Contains(names, p.Name) })
}

// TestSymbolizationCost runs part of the mix with and without names and lines.
func TestSymbolizationCost(t *testing.T) {
	needFull(t)
	dir := workDir(t)
	var works []*Work
	for _, p := range chosen(t, Programs(), costPrograms()) {
		w, err := Prepare(t.Context(), p, dir)
		if err != nil {
			t.Fatal(err)
		}
		works = append(works, w)
	}
	var b strings.Builder
	b.WriteString("| symbolization | CPU time of the collector | peak of resident memory |\n|---|---|---|\n")
	for _, s := range symbolizations() {
		c := startCollector(t, s, 997)
		before := c.usage(t)
		begin := time.Now()
		for _, w := range works {
			if err := w.Run(t.Context(), *spanFlag); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(12 * time.Second) // what was seen last is reported, and its lines are looked up
		wall, after := time.Since(begin), c.usage(t)
		c.end(t)
		fmt.Fprintf(&b, "| %s | %.2f s of %.0f s | %d MiB |\n", s.name, (after.cpu - before.cpu).Seconds(), wall.Seconds(), after.peak>>10)
		// Beside the budget there is the rest of a collector, and the pages of its binary.
		if after.peak>>10 > budgetMib+100 {
			t.Errorf("%s: %d MiB at most, the budget is %d", s.name, after.peak>>10, budgetMib)
		}
	}
	t.Log("\n" + b.String())
	write(t, "symbolization-cost.md", b.String())
}

const (
	steadyFor    = time.Minute
	steadyWarmUp = 15 * time.Second
	// steadyShare is what symbolization may take of one core when nothing new runs.
	steadyShare = 0.01
)

// TestSymbolizationSteady lets the same code run on: what was looked up once is not looked up again.
func TestSymbolizationSteady(t *testing.T) {
	needFull(t)
	all := symbolizations()
	var used []time.Duration
	var b strings.Builder
	b.WriteString("| symbolization | CPU time of the collector in a minute | resident memory |\n|---|---|---|\n")
	for _, s := range []symbolization{all[0], all[len(all)-1]} {
		c := startCollector(t, s, 997)
		stop := steadyWork(t)
		time.Sleep(steadyWarmUp)
		before := c.usage(t)
		time.Sleep(steadyFor)
		after := c.usage(t)
		stop()
		c.end(t)
		used = append(used, after.cpu-before.cpu)
		fmt.Fprintf(&b, "| %s | %.3f s | %d MiB |\n", s.name, (after.cpu - before.cpu).Seconds(), after.size>>10)
	}
	t.Log("\n" + b.String())
	write(t, "symbolization-steady.md", b.String())
	if more := used[1] - used[0]; more > time.Duration(steadyShare*float64(steadyFor)) {
		t.Errorf("%v of CPU time more than without in %v, at most %.0f %% are allowed", more, steadyFor, 100*steadyShare)
	}
}

// steadyWork starts two interpreters that do the same over and over, in code with and without debug information.
func steadyWork(t *testing.T) (stop func()) {
	t.Helper()
	var running []*exec.Cmd
	stop = func() {
		for _, cmd := range running {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		running = nil
	}
	t.Cleanup(stop)
	for _, command := range [][]string{
		{"/usr/bin/python3", "-c", "import re, json\nwhile True:\n s = json.dumps([{'n': i, 's': str(i)} for i in range(3000)]); json.loads(s); re.findall(r'\\d+', s); sorted(s)"},
		{"perl", "-e", `while (1) { my %h; $h{$_ * 7919 % 1009} .= chr(65 + $_ % 26) for 1..5000; my $n = () = join("", sort values %h) =~ /[A-M]+/g }`},
	} {
		cmd := exec.Command(command[0], command[1:]...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		running = append(running, cmd)
	}
	return stop
}
