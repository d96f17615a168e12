// Command guest is /init of a virtual machine: it mounts what is needed, profiles workloads of known truth with the
// receiver in this process, writes what came out to the console, and switches the machine off. Lines for the host start
// with Prefix and are JSON.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostprofiles/hostprofiles/test/e2e/analysis"
	"github.com/hostprofiles/hostprofiles/test/e2e/harness"
	"github.com/hostprofiles/hostprofiles/test/e2e/workloads"
	"github.com/hostprofiles/hostprofiles/test/kernels/console"
)

// frequency in Hz: low enough for an emulated machine.
const frequency = 199

func main() {
	defer func() {
		if r := recover(); r != nil {
			console.Print(os.Stdout, console.Check{Name: "no panic", Detail: fmt.Sprintf("%v\n%s", r, debug.Stack())})
		}
		console.Print(os.Stdout, console.Check{Name: console.Done, OK: true})
		unix.Sync()
		if err := unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF); err != nil {
			fmt.Println(err)
		}
	}()
	// Packages look at /proc when they are initialized, so there has to be one before this program really begins.
	if len(os.Args) == 1 && report("machine", setUp()) {
		report("second start", unix.Exec("/init", []string{"/init", "profile"}, os.Environ()))
	}
	describe()
	var programs []workloads.Built
	text, err := os.ReadFile("/workloads.json")
	if err == nil {
		err = json.Unmarshal(text, &programs)
	}
	report("workloads", err)
	var broken error
	for _, b := range programs {
		if o := run(b, workloads.Limits{CPU: 20 * time.Millisecond}); o.err != nil {
			broken = errors.Join(broken, o.err)
		}
	}
	report("workloads run by themselves", broken)
	profile(programs)
}

func report(name string, err error) bool {
	c := console.Check{Name: name, OK: err == nil}
	if err != nil {
		c.Detail = err.Error()
	}
	console.Print(os.Stdout, c)
	return c.OK
}

// setUp makes the machine usable: there is nothing but this process.
func setUp() error {
	for _, m := range []struct{ kind, dir string }{
		{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"tmpfs", "/tmp"},
	} {
		if err := os.MkdirAll(m.dir, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.kind, m.dir, m.kind, 0, ""); err != nil && err != unix.EBUSY {
			return fmt.Errorf("mounting %s: %w", m.dir, err)
		}
	}
	// Kernels before 5.11 charge maps to the locked memory.
	unlimited := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unlimited); err != nil {
		return fmt.Errorf("raising the limit of locked memory: %w", err)
	}
	return nil
}

func describe() {
	var u unix.Utsname
	err := unix.Uname(&u)
	_, btf := os.Stat("/sys/kernel/btf/vmlinux")
	detail := fmt.Sprintf("%s %s, BTF %v", unix.ByteSliceToString(u.Release[:]), unix.ByteSliceToString(u.Machine[:]), btf == nil)
	console.Print(os.Stdout, console.Check{Name: "kernel", OK: err == nil, Detail: detail})
}

func profile(programs []workloads.Built) {
	s, err := harness.Start(context.Background(), harness.Options{
		Frequency: frequency,
		Keep:      func(s analysis.Sample) bool { return strings.HasPrefix(s.Executable, "/workloads/") },
	})
	if !report("receiver starts", err) {
		return
	}
	// A first run lets the executables get known: an emulated CPU takes its time over their tables, and cold starts are
	// tested on real machines.
	runAll(programs, 300*time.Millisecond)
	time.Sleep(2 * time.Second)
	results := runAll(programs, 3*time.Second)
	all, err := s.Stop()
	report("receiver stops", err)
	var problem error
	if len(all.Problems) > 0 {
		problem = all.Problems[0]
	}
	report("payloads are conformant", problem)
	for _, o := range results {
		o.judge(all.Samples.PID(o.pid))
	}
	lost := all.Metrics.Sum("samples_lost")
	console.Print(os.Stdout, console.Check{Name: "nothing is lost", OK: lost == 0, Detail: all.Metrics.String()})
	warnings(all.Logs)
}

func warnings(lines []string) {
	for _, l := range lines {
		if strings.Contains(l, "WARN") || strings.Contains(l, "ERROR") {
			console.Print(os.Stdout, console.Check{Name: "log", OK: true, Detail: l})
		}
	}
}

// runAll runs the programs, two at once, for some CPU time each.
func runAll(programs []workloads.Built, cpu time.Duration) []outcome {
	results := make([]outcome, len(programs))
	slots := make(chan struct{}, 2)
	var wg sync.WaitGroup
	for i, b := range programs {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			results[i] = run(b, workloads.Limits{CPU: cpu})
		})
	}
	wg.Wait()
	return results
}

type outcome struct {
	built workloads.Built
	pid   int
	cpu   time.Duration
	err   error
}

func run(b workloads.Built, limits workloads.Limits) outcome {
	r, err := b.Start(limits)
	if err != nil {
		return outcome{built: b, err: err}
	}
	result, err := r.Wait()
	return outcome{built: b, pid: r.PID(), cpu: result.CPU, err: err}
}

// judge is looser about shares than the tests on a real machine: there are fewer samples, and an emulated CPU is uneven.
func (o outcome) judge(samples analysis.Samples) {
	if o.err != nil {
		report(o.built.Name, o.err)
		return
	}
	r := analysis.Judge(o.built, samples)
	want := o.cpu.Seconds() * frequency
	var wrong []string
	demand := func(ok bool, what string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Sprintf(what, args...))
		}
	}
	// An emulated CPU that the host takes away for a while loses the timer's interrupts of that while.
	demand(float64(r.Samples) > 0.25*want && float64(r.Samples) < 1.1*want, "%d samples, want %.0f", r.Samples, want)
	// While a table is on its way the stack is copied, as far as there is room, and the rest of the walk depends on how
	// fast this machine is. That is tested on real ones; here it is the walk by the kernel at hand that counts.
	cold := r.Stops["stale"] + r.Stops["no_table"] + r.Stops["copy_end"]
	demand(float64(cold) < 0.6*float64(r.Samples), "%d of %d samples are of the cold start", cold, r.Samples)
	demand(float64(r.Complete) >= 0.99*float64(r.Samples-cold), "%d of %d stacks are complete", r.Complete, r.Samples-cold)
	demand(float64(r.Chains) >= 0.99*float64(r.Covered-cold), "%d of %d chains are true", r.Chains, r.Covered-cold)
	demand(r.Named == r.Nameable, "%d of %d names", r.Named, r.Nameable)
	// Those losses do not hit all functions alike.
	allowed := 0.1
	if float64(r.Samples) < 0.85*want {
		allowed = 0.25
	}
	demand(r.ShareError(o.built.Truth) < allowed, "a share is wrong by %.1f points", 100*r.ShareError(o.built.Truth))
	if strings.HasPrefix(o.built.Name, "kernelmode") {
		demand(float64(r.Kernel) > 0.8*float64(r.Samples), "%d of %d samples in kernel mode", r.Kernel, r.Samples)
		demand(float64(r.KernelComplete) >= 0.99*float64(r.Kernel-cold), "%d of %d kernel-mode samples are complete", r.KernelComplete, r.Kernel)
	}
	detail := r.String()
	if len(wrong) > 0 {
		detail = strings.Join(append(wrong, append([]string{detail}, r.Wrong...)...), "\n")
	}
	console.Print(os.Stdout, console.Check{Name: o.built.Name, OK: len(wrong) == 0, Detail: detail})
}
