package workloads

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// Limits say how long a program runs; without any it runs until it is killed.
type Limits struct {
	CPU  time.Duration // of the process
	Wall time.Duration
}

// Running is a program that has said READY.
type Running struct {
	Built
	Cmd    *exec.Cmd
	stdout *bufio.Reader
}

// Result is what a program says of itself, and the kernel of it.
type Result struct {
	// CPU is the user and system time of the process and of the children it waited for, until it ended.
	CPU    time.Duration
	Report map[string]any // the JSON line that it printed last, nil if none
}

// Command returns the command that runs the program, for a caller that wants to change it before Launch.
func (b Built) Command(l Limits) *exec.Cmd {
	args := append([]string(nil), b.Args...)
	if l.CPU > 0 {
		args = append(args, "-cpu", strconv.FormatFloat(l.CPU.Seconds(), 'f', -1, 64))
	}
	if l.Wall > 0 {
		args = append(args, "-seconds", strconv.FormatFloat(l.Wall.Seconds(), 'f', -1, 64))
	}
	return exec.Command(b.Path, args...)
}

// Start runs the program and returns when it is READY.
func (b Built) Start(l Limits) (*Running, error) { return b.Launch(b.Command(l)) }

// Launch starts a command that ends up running the program and returns when that is READY. What it writes to standard
// error is part of the errors.
func (b Built) Launch(cmd *exec.Cmd) (*Running, error) {
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", b.Name, err)
	}
	stderr := &strings.Builder{}
	if cmd.Stderr == nil {
		cmd.Stderr = stderr
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", b.Name, err)
	}
	r := &Running{Built: b, Cmd: cmd, stdout: bufio.NewReader(out)}
	line, err := r.stdout.ReadString('\n')
	if err != nil || line != "READY\n" {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return nil, fmt.Errorf("starting %s: it says %q, %q instead of READY (%w)", b.Name, line, stderr.String(), errors.Join(err))
	}
	return r, nil
}

// PID is the process's id.
func (r *Running) PID() int { return r.Cmd.Process.Pid }

// Wait waits for the end of a program that was started with limits.
func (r *Running) Wait() (Result, error) {
	text, readErr := io.ReadAll(r.stdout)
	if err := errors.Join(readErr, r.Cmd.Wait()); err != nil {
		return Result{}, fmt.Errorf("waiting for %s: %w", r.Name, err)
	}
	res := Result{CPU: r.Cmd.ProcessState.UserTime() + r.Cmd.ProcessState.SystemTime()}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if last := lines[len(lines)-1]; strings.HasPrefix(last, "{") {
		if err := json.Unmarshal([]byte(last), &res.Report); err != nil {
			return res, fmt.Errorf("reading the report of %s: %w", r.Name, err)
		}
	}
	return res, nil
}

// Stop kills the program and returns the CPU time that it used.
func (r *Running) Stop() time.Duration {
	_ = r.Cmd.Process.Kill()
	_, _ = io.Copy(io.Discard, r.stdout)
	_ = r.Cmd.Wait()
	if r.Cmd.ProcessState == nil {
		return 0
	}
	return r.Cmd.ProcessState.UserTime() + r.Cmd.ProcessState.SystemTime()
}

// Memory returns the resident memory of a process in KiB: now, and the most ever.
func Memory(pid int) (size, peak int, err error) {
	path := fmt.Sprintf("/proc/%d/status", pid)
	status, err := os.ReadFile(path)
	if err != nil {
		return 0, 0, fmt.Errorf("reading resident memory: %w", err)
	}
	for line := range strings.Lines(string(status)) {
		_, _ = fmt.Sscanf(line, "VmRSS: %d kB", &size)
		_, _ = fmt.Sscanf(line, "VmHWM: %d kB", &peak)
	}
	if size == 0 || peak == 0 {
		return 0, 0, fmt.Errorf("%s tells of no resident memory", path)
	}
	return size, peak, nil
}
