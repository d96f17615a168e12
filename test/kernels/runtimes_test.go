package kernels

import (
	"encoding/json"
	"flag"
	"fmt"
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

var runtimesFlag = flag.String("runtimes", "arm64", "architectures whose language runtimes are profiled, separated by commas")

const (
	// runtimesTimeout bounds a machine whose receiver reads what the runtimes are made of first.
	runtimesTimeout = 25 * time.Minute
	runtimesMemory  = 3072 // MiB; half a GiB of files are in it twice, in the archive and unpacked
	runtimesSuite   = "trixie"
)

// TestRuntimes profiles CPython, Node.js and Java on the architecture that this machine has not: test/e2e does it with its own.
func TestRuntimes(t *testing.T) {
	root, err := workloads.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	for _, arch := range strings.Split(*runtimesFlag, ",") {
		t.Run(arch, func(t *testing.T) {
			image := fetch(t, root, runtimesSuite, arch)
			initramfs := filepath.Join(root, ".cache", "kernels", "runtimes-"+arch)
			if err := writeInitramfs(initramfs, arch, root, func(a *archive) error { return a.runtimes(root, arch) }); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = os.Remove(initramfs) }()
			checks, err := runMachine(t, runtimesTimeout, machine{byHost, arch, runtimesMemory, image, initramfs})
			if err != nil {
				t.Error(err)
			}
			for _, c := range checks {
				if !c.OK {
					t.Errorf("%s: %s", c.Name, c.Detail)
				}
			}
			for _, p := range runtimePrograms() {
				if !slices.ContainsFunc(checks, func(c console.Check) bool { return c.Name == p.Name }) {
					t.Errorf("nothing was said of %s", p.Name)
				}
			}
		})
	}
}

// runtimePrograms are run in guests; their commands begin with the runtime, which scripts/kernels/runtimes.sh says.
func runtimePrograms() []console.Runtime {
	return []console.Runtime{
		{Name: "python", Source: "/threeway.py", Command: []string{"/threeway.py"}},
		{Name: "tail", Source: "/threeway.py", Command: []string{"/threeway.py"}},
		{Name: "node", Source: "/levels.js", Command: []string{"/levels.js"}},
		{Name: "java", Source: "/Levels.java", Command: []string{"-Xmx256m", "-XX:ActiveProcessorCount=2", "-cp", "/classes", "Levels"}},
	}
}

// runtimes adds the runtimes, each in a root of its own, and what they run.
func (a *archive) runtimes(root, arch string) error {
	cmd := exec.Command(filepath.Join(root, "scripts", "kernels", "runtimes.sh"), arch)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("fetching runtimes for %s: %w", arch, err)
	}
	programs := runtimePrograms()
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		i := slices.IndexFunc(programs, func(p console.Runtime) bool { return len(f) == 3 && p.Name == f[0] })
		if i < 0 {
			return fmt.Errorf("runtimes.sh says %q", line)
		}
		p := &programs[i]
		p.Root, p.Command = "/roots/"+p.Name, append([]string{f[2]}, p.Command...)
		if err := a.tree(p.Root, f[1]); err != nil {
			return err
		}
	}
	for i, p := range programs {
		if p.Root == "" {
			return fmt.Errorf("runtimes.sh says nothing of %s", p.Name)
		}
		folder := map[string]string{"python": "python", "tail": "python", "node": "js", "java": "java"}[p.Name]
		a.file(p.Root+p.Source, filepath.Join(root, "testdata", "workloads", folder, p.Source))
		programs[i].Source = p.Root + p.Source
	}
	if err := a.classes("/roots/java/classes"); err != nil {
		return err
	}
	text, err := json.Marshal(programs)
	if err != nil {
		return fmt.Errorf("describing runtimes: %w", err)
	}
	a.entry("runtimes.json", 0o100644, text)
	return a.err
}

// classes adds those of Levels.
func (a *archive) classes(to string) error {
	b, err := workloads.NewBuilder()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(workloads.JIT(), func(p workloads.Program) bool { return p.Name == "Levels.class" })
	built, err := b.Build(workloads.JIT()[i])
	if err != nil {
		return err
	}
	found, err := filepath.Glob(filepath.Join(filepath.Dir(built.Path), "Levels*.class"))
	if err != nil {
		return fmt.Errorf("looking for classes: %w", err)
	}
	for _, path := range found {
		a.file(filepath.Join(to, filepath.Base(path)), path)
	}
	return nil
}
