// Package kernels boots kernels in virtual machines (qemu without KVM) and has a guest profile workloads of known truth in
// each. The tests of this package do it for Debian's kernels:
//
//	go test -v ./test/kernels -arch arm64 -suites bullseye,sid
package kernels

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"github.com/hostprofiles/hostprofiles/test/kernels/console"
)

// clock is what a virtual machine tells the time by.
type clock string

// The two that there are. Neither is good for all: what holds by one of them holds.
const (
	// byHost is the host's clock. A CPU that the host takes away for a while loses the timer's interrupts of that while: on
	// a busy host a third to a half of the samples is missing, as cpu-clock events do not make up for expirations that
	// were late.
	byHost clock = "the host"
	// byInstructions counts instructions (-icount): one is one nanosecond, whatever the host is doing, and idle time passes
	// at once. All CPUs take turns on one of the host's then, at the timers' deadlines, so that the profiler may wait for its
	// turn for some hundred milliseconds; and 5.10 on amd64 does not get beyond starting its second CPU.
	byInstructions clock = "instructions"
)

// clocks are those to try, the more promising one first: on a host with nothing else to do no check needs the other.
func clocks() []clock { return []clock{byHost, byInstructions} }

func (c clock) arguments() []string {
	if c == byInstructions {
		return []string{"-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off"}
	}
	return []string{"-accel", "tcg,thread=multi"}
}

// machine is a virtual one, with two CPUs and its console on standard output.
type machine struct {
	by               clock
	arch             string
	memory           int // MiB
	image, initramfs string
}

// command ends with the context, and with this process, which a timeout of go test ends without any cleanup.
func (m machine) command(ctx context.Context) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "nice", m.emulator()...) // which becomes the emulator
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

func (m machine) emulator() []string {
	common := append(m.by.arguments(), "-m", strconv.Itoa(m.memory), "-smp", "2",
		"-nodefaults", "-nographic", "-no-reboot", "-serial", "stdio",
		"-kernel", m.image, "-initrd", m.initramfs, "-append",
	)
	if m.arch == "arm64" {
		args := append([]string{"qemu-system-aarch64", "-M", "virt,gic-version=3", "-cpu", "neoverse-n1"}, common...)
		return append(args, "console=ttyAMA0 panic=-1 quiet")
	}
	args := append([]string{"qemu-system-x86_64", "-M", "q35", "-cpu", "max"}, common...)
	return append(args, "console=ttyS0 panic=-1 quiet mitigations=off tsc=reliable")
}

// boot runs one machine to its end and returns the checks that its guest made. An error means that it did not get to its
// last one; the end of the console is in it.
func (m machine) boot(ctx context.Context) ([]console.Check, error) {
	cmd := m.command(ctx)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("starting the machine: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the machine: %w", err)
	}
	checks, done, tail := watch(out)
	err = cmd.Wait()
	if !done {
		return checks, fmt.Errorf("the machine did not finish (%w); its console ends:\n%s", err, strings.Join(tail, "\n"))
	}
	return checks, nil
}

// watch reads a console: the checks, whether the last one came, and the end of what else there was.
func watch(out io.Reader) (checks []console.Check, done bool, tail []string) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		c, ok := console.Parse(lines.Text())
		switch {
		case !ok:
			if tail = append(tail, lines.Text()); len(tail) > 60 {
				tail = tail[1:]
			}
		case c.Name == console.Done:
			done = true
		default:
			checks = append(checks, c)
		}
	}
	return checks, done, tail
}
