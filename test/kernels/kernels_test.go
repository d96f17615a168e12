package kernels

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostprofiles/hostprofiles/test/e2e/workloads"
	"github.com/hostprofiles/hostprofiles/test/kernels/console"
)

var (
	archFlag  = flag.String("arch", "amd64,arm64", "architectures, separated by commas")
	suiteFlag = flag.String("suites", "bullseye,bookworm,trixie,trixie-backports:6.18,sid",
		"Debian suites, separated by commas, each with the series of its kernel if that is not the newest")
	clockFlag = flag.String("clock", "", "what machines tell the time by: host or instructions; both, if it is empty")
)

// machineTimeout bounds one virtual machine. It needs two to four minutes, more than one of which it waits for the receiver to read the
// kernel's symbols again (moduleRest in guest/modules.go, three times).
const machineTimeout = 8 * time.Minute

// TestKernels profiles on 5.10, 6.1, 6.12, 6.18 and the newest.
func TestKernels(t *testing.T) {
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
		if err := writeInitramfs(initramfs, arch, root, func(a *archive) error { return a.workloads(arch) }); err != nil {
			t.Fatal(err)
		}
		for _, suite := range strings.Split(*suiteFlag, ",") {
			t.Run(arch+"/"+suite, func(t *testing.T) {
				image := fetch(t, root, suite, arch)
				whole := filepath.Join(filepath.Dir(image), "initramfs")
				if err := withModules(whole, initramfs, filepath.Dir(image)); err != nil {
					t.Fatal(err)
				}
				testKernel(t, arch, image, whole)
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

// testKernel has a kernel pass each check by one of the emulator's clocks: a fault of ours fails by both, what the emulator
// does to the CPUs' shares and to the cost of signals does not.
func testKernel(t *testing.T, arch, image, initramfs string) {
	held := map[string]bool{}   // the checks that held by some clock
	text := map[string]string{} // what the others found
	all := slices.DeleteFunc(clocks(), func(by clock) bool { return !strings.HasSuffix(string(by), *clockFlag) })
	if len(all) == 0 {
		t.Fatalf("there is no clock %q", *clockFlag)
	}
	for _, by := range all {
		checks, err := runMachine(t, machineTimeout, machine{by, arch, 1024, image, initramfs})
		for _, c := range checks {
			held[c.Name] = held[c.Name] || c.OK
			if !c.OK {
				text[c.Name] += fmt.Sprintf("\nwith time told by %s: %s", by, c.Detail)
			}
		}
		if err != nil {
			held["the machine"] = false // unless the other one comes to its end
			text["the machine"] += fmt.Sprintf("\nwith time told by %s: %v", by, err)
		} else {
			held["the machine"] = true
		}
		if !slices.Contains(slices.Collect(maps.Values(held)), false) {
			return
		}
	}
	for name, ok := range held {
		if !ok {
			t.Errorf("%s:%s", name, text[name])
		}
	}
}

// runMachine returns the checks that were made; with an error, those before it.
func runMachine(t *testing.T, limit time.Duration, m machine) ([]console.Check, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	checks, err := m.boot(ctx)
	for _, c := range checks {
		t.Logf("%s: %s (time told by %s, ok: %v)", c.Name, c.Detail, m.by, c.OK)
	}
	return checks, err
}
