package mix

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Work is a program that is ready to run.
type Work struct {
	Program
	Dir string
}

// grace bounds a program's Setup, and what Run may take beyond what it was told.
const grace = 90 * time.Second

// Prepare runs the program's Setup in a new folder below dir.
func Prepare(ctx context.Context, p Program, dir string) (*Work, error) {
	w := &Work{Program: p, Dir: filepath.Join(dir, strings.ReplaceAll(p.Name, " ", "-"))}
	// The servers among the programs run as users of their own.
	for _, d := range []string{dir, w.Dir} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, fmt.Errorf("preparing %s: %w", p.Name, err)
		}
		if err := os.Chmod(d, 0o755); err != nil {
			return nil, fmt.Errorf("preparing %s: %w", p.Name, err)
		}
	}
	if err := w.script(ctx, p.Setup, 0); err != nil {
		return nil, fmt.Errorf("preparing %s: %w", p.Name, err)
	}
	return w, nil
}

// Run lets the program work, for about span. Nothing of it is left when it returns.
func (w *Work) Run(ctx context.Context, span time.Duration) error {
	if err := w.script(ctx, w.Program.Run, span); err != nil {
		return fmt.Errorf("running %s: %w", w.Name, err)
	}
	return nil
}

// script runs one with bash in a process group of its own, and kills what is left of the group.
func (w *Work) script(ctx context.Context, text string, span time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, span+grace)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", prelude+text)
	cmd.Dir = w.Dir
	ports, err := freePorts(2)
	if err != nil {
		return err
	}
	cmd.Env = append(os.Environ(), fmt.Sprintf("SPAN=%d", int(span.Seconds())), fmt.Sprintf("PORT=%d", ports[0]), fmt.Sprintf("PORT2=%d", ports[1]))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var said bytes.Buffer
	log, err := os.OpenFile(filepath.Join(w.Dir, ".said"), os.O_CREATE|os.O_RDWR|os.O_TRUNC, 0o644)
	if err != nil {
		return fmt.Errorf("running a script: %w", err)
	}
	defer func() { _ = log.Close() }()
	// A file, not a pipe: what stays in the background must not keep Wait from returning.
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err = cmd.Run()
	if cmd.Process != nil {
		err = errors.Join(err, endGroup(cmd.Process.Pid))
	}
	if err != nil {
		if _, readErr := log.Seek(0, 0); readErr == nil {
			_, _ = said.ReadFrom(log)
		}
		return fmt.Errorf("%w: %s", errors.Join(err, ctx.Err()), tail(said.String(), 2000))
	}
	return nil
}

// endGroup ends a process group, kindly at first, and returns when nothing is left of it.
func endGroup(id int) error {
	for i := range 100 {
		signal := syscall.SIGTERM
		if i >= 50 {
			signal = syscall.SIGKILL
		}
		if err := syscall.Kill(-id, signal); errors.Is(err, syscall.ESRCH) {
			return nil
		}
		time.Sleep(40 * time.Millisecond)
	}
	return fmt.Errorf("ending the process group %d: it is still there", id)
}

func tail(s string, n int) string { return strings.TrimSpace(s[max(0, len(s)-n):]) }

// freePorts returns ports of the loopback interface on which nobody listens now.
func freePorts(n int) (ports []int, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("looking for a free port: %w", err)
		}
		defer func() { _ = l.Close() }() // at the end, so that the ports differ
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
