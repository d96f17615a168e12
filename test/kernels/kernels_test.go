package kernels

import (
	"context"
	"flag"
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

// machineTimeout bounds one virtual machine. It needs about a minute of one of the host's CPUs; how fast it gets that does
// not change what it finds.
const machineTimeout = 15 * time.Minute

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
				t.Parallel() // a machine uses one of the host's CPUs
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

func testKernel(t *testing.T, arch, image, initramfs string) {
	ctx, cancel := context.WithTimeout(context.Background(), machineTimeout)
	defer cancel()
	checks, err := boot(ctx, arch, image, initramfs)
	for _, c := range checks {
		if c.OK {
			t.Logf("%s: %s", c.Name, c.Detail)
		} else {
			t.Errorf("%s: %s", c.Name, c.Detail)
		}
	}
	if err != nil {
		t.Error(err)
	}
}
