package kernels

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hostprofiles/hostprofiles/test/e2e/workloads"
)

var (
	archFlag  = flag.String("arch", "amd64,arm64", "architectures, separated by commas")
	suiteFlag = flag.String("suites", "bullseye,bookworm,trixie,trixie-backports:6.18,sid",
		"Debian suites, separated by commas, each with the series of its kernel if that is not the newest")
)

// machineTimeout bounds one virtual machine, which needs one to three minutes.
const machineTimeout = 6 * time.Minute

// TestKernels profiles on 5.10, 6.1, 6.12, 6.18 and the newest.
func TestKernels(t *testing.T) {
	if testing.Short() {
		t.Skip("reserved for make test-full and make test-kernels: virtual machines take minutes")
	}
	root, err := workloads.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, ".cache", "kernels")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, arch := range strings.Split(*archFlag, ",") {
		initramfs := filepath.Join(dir, "initramfs-"+arch)
		if err := writeInitramfs(initramfs, arch, root); err != nil {
			t.Fatal(err)
		}
		for _, suite := range strings.Split(*suiteFlag, ",") {
			t.Run(arch+"/"+suite, func(t *testing.T) {
				testKernel(t, arch, fetch(t, root, suite, arch), initramfs)
			})
		}
	}
}

// fetch returns the path of a kernel's image.
func fetch(t *testing.T, root, suite, arch string) string {
	t.Helper()
	cmd := exec.Command(filepath.Join(root, "scripts", "kernels", "fetch.sh"), suite, arch)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("fetching the kernel: %v\n%s", err, stderr.String())
	}
	_, image, _ := strings.Cut(strings.TrimSpace(string(out)), "=")
	return image
}

// testKernel has a kernel pass all checks by one of the emulator's clocks: a fault of ours fails by both.
func testKernel(t *testing.T, arch, image, initramfs string) {
	var failures []string
	for _, by := range clocks(arch) {
		failed := runMachine(t, by, arch, image, initramfs)
		if len(failed) == 0 {
			return
		}
		failures = append(failures, fmt.Sprintf("with time told by %s:\n%s", by, strings.Join(failed, "\n")))
	}
	t.Error(strings.Join(failures, "\n"))
}

// runMachine returns what failed.
func runMachine(t *testing.T, by clock, arch, image, initramfs string) (failed []string) {
	ctx, cancel := context.WithTimeout(context.Background(), machineTimeout)
	defer cancel()
	checks, err := boot(ctx, by, arch, image, initramfs)
	for _, c := range checks {
		text := fmt.Sprintf("%s: %s", c.Name, c.Detail)
		t.Logf("%s (time told by %s, ok: %v)", text, by, c.OK)
		if !c.OK {
			failed = append(failed, text)
		}
	}
	if err != nil {
		failed = append(failed, err.Error())
	}
	return failed
}
