// Command kernels boots kernels in virtual machines (qemu without KVM), has a guest profile workloads of known truth in
// each, and reports. scripts/kernels/run.sh fetches the kernels and calls it:
//
//	kernels -arch arm64 LABEL=VMLINUZ...
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/hostprofiles/hostprofiles/test/e2e/workloads"
	"github.com/hostprofiles/hostprofiles/test/kernels/console"
)

func main() {
	arch := flag.String("arch", "amd64", "amd64 or arm64")
	timeout := flag.Duration("timeout", 4*time.Minute, "for each machine")
	verbose := flag.Bool("v", false, "print every check's detail, and the console of a machine that failed")
	flag.Parse()
	failed, err := runAll(*arch, *timeout, *verbose, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if failed > 0 {
		os.Exit(1)
	}
}

func runAll(arch string, timeout time.Duration, verbose bool, kernels []string) (failed int, err error) {
	root, err := workloads.ModuleRoot()
	if err != nil {
		return 0, err
	}
	dir := filepath.Join(root, ".cache", "kernels")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, fmt.Errorf("creating the cache: %w", err)
	}
	initramfs := filepath.Join(dir, "initramfs-"+arch)
	if err := writeInitramfs(initramfs, arch, root); err != nil {
		return 0, err
	}
	for _, k := range kernels {
		label, image, ok := strings.Cut(k, "=")
		if !ok {
			return failed, fmt.Errorf("%q is not LABEL=VMLINUZ", k)
		}
		began := time.Now()
		bad, err := boot(arch, image, initramfs, timeout, verbose)
		result := "ok"
		if err != nil || bad > 0 {
			result = "FAILED"
			failed++
		}
		fmt.Printf("%-6s %s %s in %.0f s\n", result, arch, label, time.Since(began).Seconds())
		if err != nil {
			fmt.Printf("       %v\n", err)
		}
	}
	return failed, nil
}

// machine is the command that runs a virtual machine with two CPUs and its console on standard output.
func machine(ctx context.Context, arch, image, initramfs string) *exec.Cmd {
	common := []string{
		"-m", "1024", "-smp", "2", "-accel", "tcg,thread=multi", "-nodefaults", "-nographic", "-no-reboot", "-serial", "stdio",
		"-kernel", image, "-initrd", initramfs, "-append",
	}
	if arch == "arm64" {
		args := append([]string{"-M", "virt,gic-version=3", "-cpu", "cortex-a72"}, common...)
		return exec.CommandContext(ctx, "qemu-system-aarch64", append(args, "console=ttyAMA0 panic=-1 quiet")...)
	}
	args := append([]string{"-M", "q35", "-cpu", "max"}, common...)
	return exec.CommandContext(ctx, "qemu-system-x86_64",
		append(args, "console=ttyS0 panic=-1 quiet mitigations=off tsc=reliable")...)
}

// boot runs one machine to its end and returns the number of checks that failed.
func boot(arch, image, initramfs string, timeout time.Duration, verbose bool) (failed int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	cmd := machine(ctx, arch, image, initramfs)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("starting the machine: %w", err)
	}
	failed, done, tail := watch(out, verbose)
	if err := cmd.Wait(); err != nil && !done {
		err = fmt.Errorf("the machine did not finish: %w", err)
		fmt.Printf("%s\n", strings.Join(tail, "\n"))
		return failed, err
	}
	if !done {
		fmt.Printf("%s\n", strings.Join(tail, "\n"))
		return failed, fmt.Errorf("the machine stopped before its last check")
	}
	return failed, nil
}

// watch prints the checks and returns how many failed, whether the last one came, and the end of the console.
func watch(out io.Reader, verbose bool) (failed int, done bool, tail []string) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		c, ok := console.Parse(lines.Text())
		if !ok {
			if tail = append(tail, lines.Text()); len(tail) > 60 {
				tail = tail[1:]
			}
			continue
		}
		if c.Name == console.Done {
			done = true
			continue
		}
		if !c.OK {
			failed++
		}
		if !c.OK || verbose || c.Name == "kernel" {
			fmt.Printf("  %-5v %s: %s\n", c.OK, c.Name, strings.ReplaceAll(c.Detail, "\n", "\n        "))
		}
	}
	return failed, done, tail
}
