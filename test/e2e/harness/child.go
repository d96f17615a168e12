package harness

import (
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/test/e2e/analysis"
	"github.com/hostprofiles/hostprofiles/test/e2e/workloads"
)

// childVariable is set in the environment of a test binary that is to profile instead of testing.
const childVariable = "HOSTPROFILES_E2E_CHILD"

// ChildOptions say what a child does.
type ChildOptions struct {
	Below string // only samples of executables below this folder are reported, and those of processes outside the pid namespace
	// Run is a workload that the child itself starts, for Limits; its pid as the child sees it is reported.
	Run    string
	Limits workloads.Limits
	// MountProc mounts a new /proc first: for a child in a pid namespace of its own.
	MountProc bool
	Interval  time.Duration // between reports; 0 means 1 s
}

// ChildResult is what a child reports at its end.
type ChildResult struct {
	Result
	Problem string // the first problem with a payload; errors do not travel
	PID     int    // of ChildOptions.Run
	CPU     time.Duration
	Err     string
	Skip    bool // the error is ErrNotSupported
}

// Child is a copy of the test's process that profiles until it is told to stop.
type Child struct {
	Cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *os.File
}

// IsChild tells whether this process was started by StartChild.
func IsChild() bool { return os.Getenv(childVariable) != "" }

// StartChild starts one and returns when it profiles. change may change the command: its user, namespaces or limits.
func StartChild(o ChildOptions, change func(*exec.Cmd)) (*Child, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("starting a child: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("starting a child: %w", err)
	}
	from, to, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("starting a child: %w", err)
	}
	defer func() { _ = to.Close() }()
	c := &Child{Cmd: exec.Command(self), stdout: from}
	c.Cmd.Env = append(os.Environ(), childVariable+"="+string(text))
	c.Cmd.ExtraFiles = []*os.File{to}
	c.Cmd.Stderr = os.Stderr
	if c.stdin, err = c.Cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("starting a child: %w", err)
	}
	if change != nil {
		change(c.Cmd)
	}
	if err := c.Cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting a child: %w", err)
	}
	var ready [1]byte
	if _, err := io.ReadFull(from, ready[:]); err != nil {
		return nil, fmt.Errorf("starting a child: it ended: %w", errors.Join(err, c.Cmd.Wait()))
	}
	return c, nil
}

// Stop has the child shut its receiver down and report.
func (c *Child) Stop() (ChildResult, error) {
	var r ChildResult
	if err := c.stdin.Close(); err != nil {
		return r, fmt.Errorf("stopping a child: %w", err)
	}
	if err := gob.NewDecoder(c.stdout).Decode(&r); err != nil {
		return r, fmt.Errorf("reading a child's report: %w", errors.Join(err, c.Cmd.Wait()))
	}
	if err := c.Cmd.Wait(); err != nil {
		return r, fmt.Errorf("stopping a child: %w", err)
	}
	if r.Skip {
		return r, fmt.Errorf("%w: %s", ErrNotSupported, r.Err)
	}
	if r.Err != "" {
		return r, errors.New(r.Err)
	}
	return r, nil
}

// Kill kills the child, which reports nothing.
func (c *Child) Kill() {
	_ = c.Cmd.Process.Kill()
	_ = c.Cmd.Wait()
	_ = c.stdout.Close()
}

// RunChild is the child's main function.
func RunChild() {
	report := os.NewFile(3, "report")
	var o ChildOptions
	err := json.Unmarshal([]byte(os.Getenv(childVariable)), &o)
	var r ChildResult
	if err == nil {
		r, err = profile(o, report)
	}
	if err != nil {
		r.Err, r.Skip = err.Error(), errors.Is(err, ErrNotSupported)
	}
	for _, p := range r.Problems {
		r.Problem = p.Error()
		break
	}
	r.Problems = nil
	if err := gob.NewEncoder(report).Encode(r); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// profile runs a session until standard input ends. It writes one byte to ready when it profiles, or cannot.
func profile(o ChildOptions, ready io.Writer) (r ChildResult, err error) {
	if o.MountProc {
		if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
			_, _ = ready.Write([]byte{0})
			return r, fmt.Errorf("mounting /proc: %w", err)
		}
	}
	s, err := Start(context.Background(), Options{
		ReportInterval: o.Interval,
		Keep: func(s analysis.Sample) bool {
			return strings.HasPrefix(s.Executable, o.Below) || s.StopReason == unwind.StopElsewhere.String()
		},
	})
	if _, writeErr := ready.Write([]byte{0}); writeErr != nil || err != nil {
		return r, errors.Join(err, writeErr)
	}
	if o.Run != "" {
		r.PID, r.CPU, err = runInChild(o)
	}
	_, readErr := io.Copy(io.Discard, os.Stdin)
	var stopErr error
	r.Result, stopErr = s.Stop()
	return r, errors.Join(err, readErr, stopErr)
}

func runInChild(o ChildOptions) (int, time.Duration, error) {
	b := workloads.Built{Path: o.Run}
	running, err := b.Start(o.Limits)
	if err != nil {
		return 0, 0, err
	}
	result, err := running.Wait()
	return running.PID(), result.CPU, err
}
