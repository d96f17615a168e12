package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostprofiles/hostprofiles/test/e2e/analysis"
	"github.com/hostprofiles/hostprofiles/test/e2e/harness"
	"github.com/hostprofiles/hostprofiles/test/e2e/workloads"
)

// mounted mounts something until the test ends.
func mounted(t *testing.T, source, dir, kind string, flags uintptr, data string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(source, dir, kind, flags, data); err != nil {
		t.Fatalf("mounting a %s: %v", kind, err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmounting %s: %v", dir, err)
		}
	})
}

// places puts a program into file systems of many kinds, all below dir, and returns how it is started in each.
func places(t *testing.T, program workloads.Built, dir string, l workloads.Limits) map[string]func() *exec.Cmd {
	t.Helper()
	mounted(t, "hostprofiles", dir, "tmpfs", 0, "")
	at := func(dir string) func() *exec.Cmd {
		return func() *exec.Cmd {
			cmd := program.Command(l)
			cmd.Path = filepath.Join(dir, filepath.Base(program.Path))
			return cmd
		}
	}
	made := func(name string) string {
		d := filepath.Join(dir, name)
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
		return d
	}
	lower, upper, work, other, inside := made("lower"), made("upper"), made("work"), made("other"), made("inside")
	copyTo(t, program, lower)
	mounted(t, "overlay", filepath.Join(dir, "overlay"), "overlay", 0, fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", lower, upper, work))
	mounted(t, lower, other, "", unix.MS_BIND, "")
	over := at(filepath.Join(dir, "overlay"))
	all := map[string]func() *exec.Cmd{
		"tmpfs": at(lower), "bind mount": at(other), "overlay, lower": over,
		"overlay, copied up": func() *exec.Cmd {
			cmd := over()
			if err := os.Chmod(cmd.Path, 0o711); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(filepath.Join(upper, filepath.Base(program.Path))); err != nil {
				t.Fatalf("nothing was copied up: %v", err)
			}
			return cmd
		},
		// A file that only the process's own mount namespace shows.
		"mount namespace": func() *exec.Cmd {
			cmd := over()
			script := fmt.Sprintf(`mount -t tmpfs inside %[1]s && cp %[2]s %[1]s/ && exec %[1]s/"$@"`, inside, program.Path)
			return exec.Command("unshare", append([]string{"-m", "sh", "-c", script, "sh", filepath.Base(program.Path)}, cmd.Args[1:]...)...)
		},
	}
	if full() {
		all["squashfs"] = at(squashed(t, lower, dir))
	}
	return all
}

// squashed makes an image of a folder and mounts it.
func squashed(t *testing.T, from, dir string) string {
	t.Helper()
	image, at := filepath.Join(dir, "image"), filepath.Join(dir, "squashfs")
	if err := os.Mkdir(at, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, argv := range [][]string{{"mksquashfs", from, image, "-quiet"}, {"mount", "-t", "squashfs", "-o", "loop", image, at}} {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", argv, err, out)
		}
	}
	t.Cleanup(func() {
		if err := exec.Command("umount", at).Run(); err != nil {
			t.Errorf("unmounting %s: %v", at, err)
		}
	})
	return at
}

// TestEdgesOfFiles runs a program from file systems whose inodes and devices the kernel shows in ways of their own, and from
// places that only the process sees; programs under names that other running programs had; and a library that is written to
// while a process maps it. Each has the names of what it runs.
func TestEdgesOfFiles(t *testing.T) {
	needRoot(t)
	program := build(t, "c")
	dir := t.TempDir()
	starts := places(t, program, filepath.Join(dir, "places"), workloads.Limits{CPU: edgeCPU()})
	s := start(t, harness.Options{})
	warmUp()
	before := overwrite(t, build(t, "libs"), edge(t, "libs-renamed"), filepath.Join(dir, "libs"))
	written := time.Now()
	runs := map[string]ran{}
	for _, name := range []string{"tmpfs", "bind mount", "overlay, lower", "overlay, copied up", "mount namespace", "squashfs"} {
		if starts[name] == nil {
			continue
		}
		r := launched(t)(program.Launch(starts[name]()))
		result, err := r.Wait()
		runs[name] = ran{built: program, pid: r.PID(), cpu: result.CPU, err: err}
	}
	replaced := replace(t, dir, build(t, "c"), edge(t, "ifunc"))
	time.Sleep(time.Until(written.Add(4 * time.Second))) // a tick of executables
	after := run(t, before.Built, workloads.Limits{})
	time.Sleep(2 * edgeCPU())
	for _, r := range []*workloads.Running{before, after} {
		r.Stop()
	}
	all := stop(t, s)
	for name, r := range runs {
		t.Run(name, func(t *testing.T) {
			if r.err != nil {
				t.Fatal(r.err)
			}
			judgeEdge(t, r, all.Samples.PID(r.pid))
		})
	}
	for _, r := range replaced {
		t.Run("replaced, "+r.built.Name, func(t *testing.T) { judgeEdge(t, r, all.Samples.PID(r.pid)) })
	}
	t.Run("overwritten", func(t *testing.T) { judgeOverwritten(t, all.Samples.PID(before.PID()), all.Samples.PID(after.PID())) })
}

// replace has two programs run under one name, of which the second takes the first one's place while that runs.
func replace(t *testing.T, dir string, programs ...workloads.Built) (runs []ran) {
	t.Helper()
	path := filepath.Join(dir, "program")
	var running []*workloads.Running
	for i, b := range programs {
		// One copy to run, and one to be compared with, which stays.
		kept := filepath.Join(dir, fmt.Sprint(i))
		if err := os.Mkdir(kept, 0o755); err != nil {
			t.Fatal(err)
		}
		for from, to := range map[string]string{copyTo(t, b, dir).Path: path, copyTo(t, b, kept).Path: filepath.Join(kept, "program")} {
			if err := os.Rename(from, to); err != nil {
				t.Fatal(err)
			}
		}
		b.Path = path
		r := run(t, b, workloads.Limits{})
		r.Path = filepath.Join(kept, "program")
		r.Full = r.Path
		running = append(running, r)
	}
	time.Sleep(2 * edgeCPU())
	for _, r := range running {
		runs = append(runs, ran{built: r.Built, pid: r.PID(), cpu: r.Stop()})
	}
	return runs
}

func judgeOverwritten(t *testing.T, before, after analysis.Samples) {
	t.Helper()
	if n := inFunction(before, "library_inner").Count(); n < 50 {
		t.Errorf("only %d samples have the name from before the library was overwritten", n)
	}
	was, is := inFunction(after, "library_inner").Count(), inFunction(after, "library_other").Count()
	t.Logf("afterwards %d samples have the old name, %d the new one", was, is)
	atLeast(t, "samples with the new name in a process that came after", is, was+is, 0.95)
}

// overwrite runs a program and writes other contents into its library while it runs. The program goes on.
func overwrite(t *testing.T, libs, renamed workloads.Built, dir string) *workloads.Running {
	t.Helper()
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	moved := copyTo(t, libs, dir)
	var library []byte
	for i, l := range libs.Libraries {
		copyTo(t, workloads.Built{Path: l}, dir)
		if strings.HasSuffix(l, "libhot.so") {
			was, err := os.ReadFile(l)
			if err != nil {
				t.Fatal(err)
			}
			if library, err = os.ReadFile(renamed.Libraries[i]); err != nil {
				t.Fatal(err)
			}
			if len(was) != len(library) {
				t.Fatalf("the libraries have %d and %d bytes: who maps the one would not survive the other", len(was), len(library))
			}
		}
	}
	first := run(t, moved, workloads.Limits{})
	time.Sleep(edgeCPU())
	// No truncation: pages that are mapped stay there all the time.
	f, err := os.OpenFile(filepath.Join(dir, "libhot.so"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(library, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return first
}
