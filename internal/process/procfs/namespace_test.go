package procfs

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestMain lets the test's program stand for a collector in a pid namespace of its own.
func TestMain(m *testing.M) {
	switch os.Getenv("PROCFS_TEST_HELPER") {
	case "namespaces":
		ns, err := New(os.Getenv("PROCFS_TEST_ROOT")).Namespaces()
		text := ""
		if err != nil {
			text = err.Error()
		}
		_ = json.NewEncoder(os.Stdout).Encode(map[string]any{"ns": ns, "err": text, "pid": os.Getpid()})
		return
	case "leader":
		exitLeader()
		return
	}
	os.Exit(m.Run())
}

func TestNamespacesHere(t *testing.T) {
	ns, err := New("/proc").Namespaces()
	if err != nil || ns.SelfPID != uint32(os.Getpid()) || !ns.ProcOwn {
		t.Errorf("%+v %v", ns, err)
	}
	if ns.SelfInitial != ns.ProcInitial {
		t.Errorf("in one's own namespace both are initial or none: %+v", ns)
	}
	if _, err := New("/nonexistent").Namespaces(); err == nil {
		t.Error("no error without a proc file system")
	}
}

// TestNamespacesInside runs the detection in a new pid namespace, with the outer /proc and with one of its own.
func TestNamespacesInside(t *testing.T) {
	outer, err := New("/proc").Namespaces()
	if err != nil {
		t.Fatal(err)
	}
	own := t.TempDir()
	for _, root := range []string{"/proc", own} {
		args := []string{"-c", `exec "$0"`, os.Args[0]}
		if root == own {
			args[1] = `mount -t proc proc ` + own + ` && exec "$0"`
		}
		cmd := exec.Command("/bin/sh", args...)
		cmd.Env = append(os.Environ(), "PROCFS_TEST_HELPER=namespaces", "PROCFS_TEST_ROOT="+root)
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID, Unshareflags: unix.CLONE_NEWNS}
		out, err := cmd.Output()
		if errors.Is(err, unix.EPERM) {
			t.Skip("not supported: new namespaces are not permitted")
		}
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			NS  Namespaces
			Err string
			PID int
		}
		if err := json.Unmarshal(out, &got); err != nil || got.Err != "" || got.PID != 1 {
			t.Fatalf("%s: %s %v", root, out, err)
		}
		want := Namespaces{ProcOwn: root == own, ProcInitial: root == "/proc" && outer.ProcInitial, SelfPID: got.NS.SelfPID}
		if got.NS != want || (got.NS.SelfPID == 1) != (root == own) {
			t.Errorf("%s: %+v, want %+v", root, got.NS, want)
		}
	}
}

func init() {
	if os.Getenv("PROCFS_TEST_HELPER") == "leader" {
		runtime.LockOSThread() // during init that is the leader
	}
}

// exitLeader ends the thread-group leader while another thread goes on.
func exitLeader() {
	_, _ = os.Stdout.WriteString("ready\n")
	syscall.RawSyscall(syscall.SYS_EXIT, 0, 0, 0)
}

// TestLeaderGone reads the maps of a process whose leader has exited: the kernel shows none under its pid.
func TestLeaderGone(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "PROCFS_TEST_HELPER=leader")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	if _, err := out.Read(make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	fs, pid := New("/proc"), uint32(cmd.Process.Pid)
	var s Stat
	for end := time.Now().Add(10 * time.Second); s.State != 'Z'; {
		if s, err = fs.Stat(pid); err != nil || time.Now().After(end) {
			t.Fatalf("the leader does not exit: %+v %v", s, err)
		}
	}
	if b, err := os.ReadFile(fs.path(pid, "maps")); err != nil || len(b) != 0 {
		t.Fatalf("the leader still has maps: %d bytes, %v", len(b), err)
	}
	maps, err := fs.Maps(pid)
	if err != nil || len(maps) == 0 || !strings.HasSuffix(maps[0].Path, ".test") {
		t.Errorf("%+v %v", maps, err)
	}
}
