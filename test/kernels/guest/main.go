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
	"runtime"
	"runtime/debug"
	"strings"
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
	if len(os.Args) == 3 && os.Args[1] == hashing {
		os.Exit(hash(os.Args[2]))
	}
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
	if text, err := os.ReadFile("/runtimes.json"); err == nil {
		profileRuntimes(text)
		return
	}
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

// profileCPU is how long each program is profiled, in CPU time.
const profileCPU = 3 * time.Second

func profile(programs []workloads.Built) {
	s, err := harness.Start(context.Background(), harness.Options{
		Frequency: frequency,
		Keep: func(s analysis.Sample) bool {
			return strings.HasPrefix(s.Executable, "/workloads/") || s.Executable == "/init" && s.PID != os.Getpid()
		},
	})
	if !report("receiver starts", err) {
		return
	}
	// A first run lets the executables get known: what is judged is the walk by the kernel at hand.
	runAll(programs, 300*time.Millisecond)
	report("receiver comes to rest", settle(30*time.Second))
	results := runAll(programs, profileCPU)
	rounds := runModules()
	all := stop(s)
	for _, o := range results {
		o.judge(all.Samples.PID(o.pid))
	}
	judgeModules(rounds, all.Samples)
	judgeShares(results, all.Samples)
	judgeColdStarts(results, all.Samples)
}

// stop judges what is the same for whatever was profiled.
func stop(s *harness.Session) harness.Result {
	all, err := s.Stop()
	report("receiver stops", err)
	var problem error
	if len(all.Problems) > 0 {
		problem = all.Problems[0]
	}
	report("payloads are conformant", problem)
	lost := all.Metrics.Sum("samples_lost")
	console.Print(os.Stdout, console.Check{Name: "nothing is lost", OK: lost == 0, Detail: all.Metrics.String()})
	warnings(all.Logs)
	return all
}

// settle waits until the receiver, which is in this process, has read what the first run showed it: then it uses little of
// a CPU.
func settle(limit time.Duration) error {
	const (
		interval = 500 * time.Millisecond
		atRest   = interval / 10
	)
	for begin := time.Now(); time.Since(begin) < limit; {
		before, err := cpuTime()
		if err != nil {
			return err
		}
		time.Sleep(interval)
		after, err := cpuTime()
		if err != nil {
			return err
		}
		if after-before < atRest {
			return nil
		}
	}
	return fmt.Errorf("it still uses more than %v of CPU in %v after %v", atRest, interval, limit)
}

// cpuTime is what this process has used.
func cpuTime() (time.Duration, error) {
	var ru unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &ru); err != nil {
		return 0, fmt.Errorf("reading the CPU time used: %w", err)
	}
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano()), nil
}

func warnings(lines []string) {
	for _, l := range lines {
		if strings.Contains(l, "WARN") || strings.Contains(l, "ERROR") {
			// every supported kernel takes all of the programs
			refused := strings.Contains(l, "verifier refuses") || strings.Contains(l, "kernel rejected") ||
				strings.Contains(l, "kernel does not take")
			console.Print(os.Stdout, console.Check{Name: "log", OK: !refused, Detail: l})
		}
	}
}

// runAll runs the programs for some CPU time each, one after the other, each on one CPU and both CPUs in turn. The
// emulator's CPUs take turns too, at the timers' deadlines at best: a program on both of them would be charged for the
// time that one waits for the other (for an interrupt, or for both to flush their TLBs).
func runAll(programs []workloads.Built, cpu time.Duration) []outcome {
	var results []outcome
	for i, b := range programs {
		done := make(chan outcome)
		go func() { done <- runOn(i%runtime.NumCPU(), b, workloads.Limits{CPU: cpu}) }()
		results = append(results, <-done)
	}
	return results
}

// runOn runs a program on one CPU: it inherits the choice from the thread that starts it.
func runOn(cpu int, b workloads.Built, limits workloads.Limits) outcome {
	if err := pin(cpu); err != nil {
		return outcome{built: b, err: fmt.Errorf("running %s: %w", b.Name, err)}
	}
	return run(b, limits)
}

// pin binds the calling goroutine's thread, and what it starts, to one CPU. The thread ends with the goroutine.
func pin(cpu int) error {
	runtime.LockOSThread() // and never unlock it
	var one unix.CPUSet
	one.Set(cpu)
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return fmt.Errorf("choosing CPU %d: %w", cpu, err)
	}
	return nil
}

type outcome struct {
	built workloads.Built
	pid   int
	began time.Time
	cpu   time.Duration
	err   error
}

func run(b workloads.Built, limits workloads.Limits) outcome {
	o := outcome{built: b, began: time.Now()}
	r, err := b.Start(limits)
	if err != nil {
		o.err = err
		return o
	}
	result, err := r.Wait()
	o.pid, o.cpu, o.err = r.PID(), result.CPU, err
	return o
}
