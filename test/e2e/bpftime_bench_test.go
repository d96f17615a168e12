package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/hostprofiles/hostprofiles/test/e2e/analysis"
	"github.com/hostprofiles/hostprofiles/test/e2e/harness"
	"github.com/hostprofiles/hostprofiles/test/e2e/workloads"
)

const (
	timeWarmUp = 4 * time.Second // tables are made, runtimes found, code compiled
	timeFor    = 4 * time.Second
)

// BenchmarkBPFTime is how long the on-CPU program takes for a sample, by the kernel's own statistics of BPF programs, which count what is
// reached by tail calls, too. A copy of the profiled program keeps each CPU busy; what little else runs counts as well.
func BenchmarkBPFTime(b *testing.B) {
	stats, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = stats.Close() })
	var sum float64
	n := 0
	for _, p := range timedPrograms(b) {
		b.Run(p.name, func(b *testing.B) {
			each, samples := p.time(b)
			b.ReportMetric(each, "bpf-ns/sample")
			b.ReportMetric(float64(samples), "samples")
			sum += each
			n++
		})
	}
	b.Run("mean", func(b *testing.B) { b.ReportMetric(sum/float64(max(n, 1)), "bpf-ns/sample") })
}

// timedProgram is run until it is killed.
type timedProgram struct {
	name    string
	command []string
	dir     string
}

func timedPrograms(b *testing.B) (all []timedProgram) {
	b.Helper()
	builder, err := workloads.NewBuilder()
	if err != nil {
		b.Fatal(err)
	}
	for _, p := range workloads.All() {
		built, err := builder.Build(p)
		if err != nil {
			b.Fatal(err)
		}
		cmd := built.Command(workloads.Limits{})
		all = append(all, timedProgram{name: "native/" + p.Name, command: cmd.Args, dir: cmd.Dir})
	}
	const forever = "1000000"
	for _, c := range pythons(b) {
		all = append(all, timedProgram{name: "cpython/" + c.name, command: append(c.command(b, "threeway.py"), forever)})
	}
	for _, line := range scriptLines(b, 2, "nodes.sh") {
		all = append(all, timedProgram{name: "v8/node" + line[0], command: []string{line[1], source(b, "js/levels.js"), forever}})
	}
	for _, java := range javas(b) {
		all = append(all, timedProgram{name: "hotspot/" + strings.ReplaceAll(java.name, " ", "-"),
			command: append(append([]string{}, java.command...), "-XX:ActiveProcessorCount=2", "-cp", java.classes, "Levels", forever)})
	}
	return all
}

// time is what a sample takes on average, in ns, and how many there were.
func (p timedProgram) time(b *testing.B) (each float64, samples uint64) {
	b.Helper()
	others := onCPUPrograms(b, nil)
	s, err := harness.Start(context.Background(), harness.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _, _ = s.Stop() }()
	for cpu := range runtime.NumCPU() {
		cmd := exec.Command("taskset", append([]string{"-c", fmt.Sprint(cpu)}, p.command...)...)
		cmd.Dir = p.dir
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		defer func() { _ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL); _ = cmd.Wait() }()
	}
	time.Sleep(timeWarmUp)
	warm := uint64(time.Now().UnixNano())
	mine := onCPUPrograms(b, others)
	if len(mine) != 1 {
		b.Fatalf("%d programs have the receiver's name", len(mine))
	}
	var took time.Duration
	for id, before := range mine {
		time.Sleep(timeFor)
		after := onCPUPrograms(b, others)[id]
		took, samples = after.took-before.took, after.runs-before.runs
		if after.runs <= before.runs {
			b.Fatal("the program did not run")
		}
	}
	r, err := s.Stop()
	if err != nil {
		b.Fatal(err)
	}
	end := r.Samples.Where(func(s analysis.Sample) bool { return s.Last >= warm })
	if stops := stopsOf(end); end.Count() == 0 || stops[""] < end.Count()*9/10 {
		b.Errorf("stacks end by %v", stops)
	}
	return float64(took) / float64(samples), samples
}

// ranFor is what the kernel says of a BPF program.
type ranFor struct {
	took time.Duration
	runs uint64
}

// onCPUPrograms are the BPF programs of receivers, those in except excepted.
func onCPUPrograms(b *testing.B, except map[ebpf.ProgramID]ranFor) map[ebpf.ProgramID]ranFor {
	b.Helper()
	found := map[ebpf.ProgramID]ranFor{}
	for id := ebpf.ProgramID(0); ; {
		var err error
		if id, err = ebpf.ProgramGetNextID(id); err != nil {
			return found
		}
		p, err := ebpf.NewProgramFromID(id)
		if err != nil {
			continue // it is gone
		}
		info, err := p.Info()
		stats, statsErr := p.Stats()
		_ = p.Close()
		if _, known := except[id]; err == nil && statsErr == nil && !known && info.Name == "on_cpu" {
			found[id] = ranFor{stats.Runtime, stats.RunCount}
		}
	}
}
