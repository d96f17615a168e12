package procfs

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostprofiles/hostprofiles/internal/process"
)

// inTmp names a file in /tmp for the time of the test.
func inTmp(t *testing.T, name string) string {
	t.Helper()
	path := "/tmp/" + name
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("%s is there already: %v", path, err)
	}
	t.Cleanup(func() { _ = os.Remove(path) })
	return path
}

// someone is a user who is not the test's.
const someone = 12345

// disown gives a file to someone.
func disown(t *testing.T, path string) {
	t.Helper()
	err := os.Lchown(path, someone, -1)
	if errors.Is(err, unix.EPERM) {
		t.Skip("not supported: files cannot be given away")
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestOpenPerfMap(t *testing.T) {
	fs, pid := New("/proc"), uint32(os.Getpid())
	path := inTmp(t, perfMapName(pid))
	if f, err := fs.OpenPerfMap(pid); !errors.Is(err, unix.ENOENT) || errors.Is(err, ErrGone) {
		t.Errorf("%v %v", f, err)
	}
	write(t, path, "good")
	f, err := fs.OpenPerfMap(pid)
	if got := begins(t, f, err); got != "good" {
		t.Errorf("%q %v", got, err)
	}
	refused := func(what string, want error) {
		t.Helper()
		if f, err := fs.OpenPerfMap(pid); !errors.Is(err, want) {
			t.Errorf("%s: %v %v", what, f, err)
		}
	}
	past := time.Now().Add(-time.Since(startOf(t, fs, pid)) - time.Minute)
	if err := os.Chtimes(path, past, past); err != nil {
		t.Fatal(err)
	}
	refused("stale", ErrStale)
	target := filepath.Join(t.TempDir(), "target")
	write(t, target, "good")
	for what, make := range map[string]func() error{
		"link":      func() error { return os.Symlink(target, path) },
		"fifo":      func() error { return unix.Mkfifo(path, 0o666) },
		"directory": func() error { return os.Mkdir(path, 0o755) },
	} {
		if err := errors.Join(os.Remove(path), make()); err != nil {
			t.Fatal(err)
		}
		refused(what, ErrNotFile)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := fs.OpenPerfMap(1 << 30); !errors.Is(err, ErrGone) {
		t.Error(err)
	}
	write(t, path, "good")
	disown(t, path)
	refused("of another user", ErrForeign)
}

func startOf(t *testing.T, fs *FS, pid uint32) time.Time {
	t.Helper()
	status, err := fs.Status(pid)
	if err != nil {
		t.Fatal(err)
	}
	w, err := fs.writerOf(pid, status)
	if err != nil {
		t.Fatal(err)
	}
	if age := time.Since(w.start); age < 0 || age > time.Hour {
		t.Errorf("the process began %s ago", age)
	}
	return w.start
}

// startShell runs a script in new namespaces; it writes a line when it is ready.
func startShell(t *testing.T, flags uintptr, script string) uint32 {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags &^ unix.CLONE_NEWNS, Unshareflags: flags & unix.CLONE_NEWNS}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	err = cmd.Start()
	if errors.Is(err, unix.EPERM) {
		t.Skip("not supported: new namespaces are not permitted")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the script does not start: %q %v", line, err)
	}
	return uint32(cmd.Process.Pid)
}

// TestOpenPerfMapInNamespaces: a process with a /tmp and pids of its own calls itself 1.
func TestOpenPerfMapInNamespaces(t *testing.T) {
	fs := New("/proc")
	pid := startShell(t, unix.CLONE_NEWPID|unix.CLONE_NEWNS,
		`mount -t tmpfs tmpfs /tmp && echo good >/tmp/perf-$$.map && echo ready && exec sleep 60`)
	outer := inTmp(t, perfMapName(pid))
	write(t, outer, "outer")
	f, err := fs.OpenPerfMap(pid)
	if got := begins(t, f, err); got != "good" {
		t.Errorf("%q %v", got, err)
	}
	if fs.sharesMounts(pid) || !fs.sharesMounts(uint32(os.Getpid())) {
		t.Error("mount namespaces")
	}
	// Without one of its own, the collector's counts if it is of the same user.
	pid = startShell(t, unix.CLONE_NEWPID|unix.CLONE_NEWNS, `mount -t tmpfs tmpfs /tmp && echo ready && exec sleep 60`)
	outer = inTmp(t, perfMapName(pid))
	write(t, outer, "outer")
	f, err = fs.OpenPerfMap(pid)
	if got := begins(t, f, err); got != "oute" {
		t.Errorf("%q %v", got, err)
	}
	// Root's does not count for another user's process, which sees another /tmp.
	pid = startShell(t, unix.CLONE_NEWPID|unix.CLONE_NEWNS, fmt.Sprintf(
		`mount -t tmpfs tmpfs /tmp && exec setpriv --reuid %d --clear-groups sh -c "echo ready && exec sleep 60"`, someone))
	outer = inTmp(t, perfMapName(pid))
	write(t, outer, "outer")
	if f, err := fs.OpenPerfMap(pid); !errors.Is(err, unix.ENOENT) || !strings.Contains(err.Error(), ErrForeign.Error()) {
		t.Errorf("%v %v", f, err)
	}
	disown(t, outer)
	f, err = fs.OpenPerfMap(pid)
	if got := begins(t, f, err); got != "oute" {
		t.Errorf("%q %v", got, err)
	}
}

func TestOpenJITDump(t *testing.T) {
	fs, pid := New("/proc"), uint32(os.Getpid())
	path := filepath.Join(t.TempDir(), "jit-"+strconv.Itoa(os.Getpid())+".dump")
	write(t, path, "good")
	m := mapFile(t, path)
	f, err := fs.OpenJITDump(pid, m)
	if got := begins(t, f, err); got != "good" {
		t.Errorf("%q %v", got, err)
	}
	if _, err := fs.OpenJITDump(pid, process.MmapInfo{Anonymous: true}); !errors.Is(err, ErrNotFile) {
		t.Error(err)
	}
	disown(t, path)
	if f, err := fs.OpenJITDump(pid, m); !errors.Is(err, ErrForeign) {
		t.Errorf("%v %v", f, err)
	}
}
