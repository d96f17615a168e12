package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostprofiles/hostprofiles/test/e2e/analysis"
	"github.com/hostprofiles/hostprofiles/test/e2e/harness"
	"github.com/hostprofiles/hostprofiles/test/e2e/levels"
	"github.com/hostprofiles/hostprofiles/test/kernels/console"
)

const (
	// runtimeCPU is how long each runtime's program is profiled, in CPU time: starting takes an emulated virtual machine ten seconds.
	runtimeCPU = 30 * time.Second
	// runtimeRest bounds how long the receiver reads what the runtimes are made of.
	runtimeRest = 10 * time.Minute

	runtimeSamples  = 1500 // in the functions that burn
	runtimePoints   = 0.05 // by which shares may differ
	runtimeChains   = 0.98
	runtimePlaced   = 0.95 // V8's interpreter and Maglev have some lines of other places, in test/e2e, too
	runtimeComplete = 0.97
)

// profileRuntimes profiles programs in languages, one after the other.
func profileRuntimes(plan []byte) {
	var programs []console.Runtime
	if !report("runtimes", json.Unmarshal(plan, &programs)) {
		return
	}
	own := os.Getpid()
	s, err := harness.Start(context.Background(), harness.Options{
		Frequency: frequency, Keep: func(s analysis.Sample) bool { return s.PID != own },
	})
	if !report("receiver starts", err) {
		return
	}
	pids := make([]int, len(programs))
	for i, p := range programs {
		_, err := runRuntime(p, time.Second)
		report(p.Name+" runs by itself", err)
		report("receiver comes to rest", settle(runtimeRest))
		pids[i], err = runRuntime(p, runtimeCPU)
		report(p.Name+" runs", err)
	}
	all := stop(s)
	for i, p := range programs {
		judgeRuntime(p, all.Samples.PID(pids[i]))
	}
}

// runRuntime runs a program in its root on one CPU, as runOn does.
func runRuntime(p console.Runtime, cpu time.Duration) (pid int, err error) {
	if err := os.MkdirAll(filepath.Join(p.Root, "proc"), 0o755); err != nil {
		return 0, err
	}
	if err := unix.Mount("proc", filepath.Join(p.Root, "proc"), "proc", 0, ""); err != nil && !errors.Is(err, unix.EBUSY) {
		return 0, fmt.Errorf("mounting %s's /proc: %w", p.Name, err)
	}
	done := make(chan error)
	go func() {
		if err := pin(0); err != nil {
			done <- fmt.Errorf("running %s: %w", p.Name, err)
			return
		}
		cmd := exec.Command(p.Command[0], append(p.Command[1:len(p.Command):len(p.Command)], strconv.Itoa(int(cpu.Seconds())))...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: p.Root}
		cmd.Dir, cmd.Env = "/", []string{"PATH=/usr/bin:/bin"}
		text, err := cmd.CombinedOutput()
		if cmd.Process != nil {
			pid = cmd.Process.Pid
		}
		if err != nil {
			err = fmt.Errorf("%s: %w: %s", p.Name, err, text)
		}
		done <- err
	}()
	return pid, <-done
}

func judgeRuntime(p console.Runtime, samples analysis.Samples) {
	source, err := os.ReadFile(p.Source)
	if err != nil {
		report(p.Name, err)
		return
	}
	lines := levels.Lines(source)
	var r *levels.Report
	switch p.Name {
	case "python", "tail":
		r = levels.Python(samples, lines)
	case "node":
		r = levels.Node(samples, lines)
	case "java":
		r = levels.Java(samples, lines, false)
	default:
		report(p.Name, errors.New("there is no such runtime"))
		return
	}
	complete, stops := 0, map[string]int{}
	for _, s := range samples {
		if s.StopReason == "" {
			complete += s.Count
		} else {
			stops[s.StopReason] += s.Count
		}
	}
	var v verdict
	v.demand(r.Samples >= runtimeSamples, "%d samples in the three functions, want %d", r.Samples, runtimeSamples)
	v.demand(r.ShareError() <= runtimePoints, "shares differ by %.1f points", 100*r.ShareError())
	v.atLeast("stacks are complete", complete, samples.Count(), runtimeComplete)
	v.atLeast("chains are true", r.Chains, r.Samples, runtimeChains)
	v.atLeast("of them have true lines", r.Placed, r.Chains, runtimePlaced)
	detail := append([]string{fmt.Sprintf("%v; of %d stacks %d are complete, others end with %v", r, samples.Count(), complete, stops)}, v.wrong...)
	if len(v.wrong) > 0 {
		detail = append(detail, levels.Frequent(r.Wrong, 4)...)
		detail = append(detail, levels.Frequent(r.Without, 4)...)
	}
	console.Print(os.Stdout, console.Check{Name: p.Name, OK: len(v.wrong) == 0, Detail: strings.Join(detail, "\n")})
}
