package procfs

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const statTail = " S 11238 11238 3477 0 -1 4194304 141 0 0 0 0 0 0 0 20 0 1 0 225308 2990080 416 18446744073709551615 94255197560832" +
	" 94255197578761 140732783659536 0 0 0 0 6 0 1 0 0 17 0 0 0 0 0 0 94255197592848 94255197594112 94255566798848" +
	" 140732783663613 140732783663622 140732783663622 140732783665129 0\n"

func TestParseStat(t *testing.T) {
	for _, comm := range []string{"sleep", "a b", "(sd-pam)", ") R 1 1 1 (", "", "tmux: server", "\n", ")"} {
		s, err := parseStat([]byte("11293 (" + comm + ")" + statTail))
		want := Stat{Comm: comm, State: 'S', PPID: 11238, Threads: 1, StartTime: 2253080 * 1e6, Flags: 4194304}
		if err != nil || s != want {
			t.Errorf("%q: %+v %v", comm, s, err)
		}
	}
	for _, bad := range []string{"", "1", "1 (a", "1 a)", "1 )a(", "1 (a) S 1", "1 (a) SS" + statTail[2:],
		"1 (a)" + strings.Replace(statTail, "225308", "99999999999999999999", 1),
		"1 (a)" + strings.Replace(statTail, "225308", "9223372036854775807", 1),
		"1 (a)" + strings.Replace(statTail, "225308", "-1", 1),
	} {
		if s, err := parseStat([]byte(bad)); !errors.Is(err, ErrStat) {
			t.Errorf("%q: %+v %v", bad, s, err)
		}
	}
}

func TestParseStatus(t *testing.T) {
	// From a container: /proc of the host, then two namespaces deep.
	s, err := parseStatus([]byte("Name:\ta\\nTgid:\t7\nUmask:\t0022\nState:\tS (sleeping)\nTgid:\t4711\nNgid:\t0\nPid:\t4711\n" +
		"PPid:\t1\nUid:\t1000\t1001\t1002\t1003\nGid:\t0\t0\t0\t0\nNStgid:\t4711\t40\t7\nNSpid:\t4711\t40\t7\n"))
	if err != nil || s.TGID != 4711 || !slices.Equal(s.UIDs, []uint32{1000, 1001, 1002, 1003}) || !slices.Equal(s.NSPIDs, []uint32{4711, 40, 7}) {
		t.Errorf("%+v %v", s, err)
	}
	for _, bad := range []string{"", "Tgid:\t\n", "Tgid:\tx\n", "Tgid:\t1\nNSpid:\n", "Tgid:\t1\nNSpid:\t1\tx\n",
		"Tgid:\t1\nUid:\t-1\n", "Tgid:\t1\nUid:\t1\t2\t3\tx\n", "Tgid:\t1\nUid:\n", "Tgid:\t1\nNSpid:" + strings.Repeat("\t1", 40) + "\n"} {
		if s, err := parseStatus([]byte(bad)); !errors.Is(err, ErrStatus) {
			t.Errorf("%q: %+v %v", bad, s, err)
		}
	}
}

func TestParseCommand(t *testing.T) {
	for line, want := range map[string]string{
		"/usr/bin/curl\x00-u\x00user:secret\x00":               "/usr/bin/curl",
		"/opt/chrome --type=renderer --key=secret\x00\x00\x00": "/opt/chrome",
		"nginx: worker process\x00":                            "nginx: worker process",
		"/opt/my app/run\x00x\x00":                             "/opt/my app/run",
		"/usr/bin/x-y\x00":                                     "/usr/bin/x-y",
		"":                                                     "",
		"\x00":                                                 "",
	} {
		if got := parseCommand([]byte(line)); got != want {
			t.Errorf("%q: %q", line, got)
		}
	}
}

func TestParseBoottimeOffset(t *testing.T) {
	for text, want := range map[string]int64{
		"":                                       0,
		"monotonic   0   0\nboottime    0   0":   0,
		"monotonic 86400 0\nboottime 604800 5\n": 604800*1e9 + 5,
		"monotonic 1 1\nboottime -10 500000000\n": -9.5e9,
		"boottime x 1\n": 0,
	} {
		if got := parseBoottimeOffset([]byte(text)); got != want {
			t.Errorf("%q: %d", text, got)
		}
	}
}

// TestLiveProcess compares what is read of a child with what is known of it.
func TestLiveProcess(t *testing.T) {
	fs := New("/proc")
	var before, after unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &before); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := uint32(cmd.Process.Pid)
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &after); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	// The name changes before the new command line is in place: the latter is what an exec does last.
	for {
		if command, err := fs.Command(pid); err == nil && command == "/bin/sleep" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the child does not start")
		}
	}
	s, err := fs.Stat(pid)
	if err != nil || s.Comm != "sleep" || s.PPID != uint32(os.Getpid()) || s.Threads != 1 || s.KernelThread() {
		t.Errorf("%+v %v", s, err)
	}
	if start := int64(s.StartTime); start < before.Nano()-nsPerClockTick || start > after.Nano() {
		t.Errorf("started at %d, between %d and %d", start, before.Nano(), after.Nano())
	}
	status, err := fs.Status(pid)
	if err != nil || status.TGID != pid || len(status.UIDs) != 4 || status.UIDs[0] != uint32(os.Getuid()) || len(status.NSPIDs) == 0 || status.NSPIDs[0] != pid {
		t.Errorf("%+v %v", status, err)
	}
	if own := status.OwnPID(pid); own != pid {
		t.Errorf("%d %v", own, err)
	}
	if comm, err := fs.Comm(pid, pid); err != nil || comm != "sleep" {
		t.Errorf("%q %v", comm, err)
	}
	if exe, err := fs.Exe(pid); err != nil || !strings.HasSuffix(exe, "/sleep") {
		t.Errorf("%q %v", exe, err)
	}
	if _, err := fs.Cgroup(pid); err != nil {
		t.Error(err)
	}
	pids, err := fs.PIDs()
	if err != nil || !slices.Contains(pids, pid) || !slices.Contains(pids, uint32(os.Getpid())) || !slices.IsSorted(pids) {
		t.Errorf("%v %v", pids, err)
	}
}

func TestGone(t *testing.T) {
	cmd := exec.Command("/bin/true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	fs, pid := New("/proc"), uint32(cmd.Process.Pid)
	_, statErr := fs.Stat(pid)
	_, mapsErr := fs.Maps(pid)
	_, exeErr := fs.Exe(pid)
	_, commErr := fs.Comm(pid, pid)
	for _, err := range []error{statErr, mapsErr, exeErr, commErr} {
		if !errors.Is(err, ErrGone) {
			t.Errorf("%v", err)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("11293 (sleep)" + statTail))
	f.Add([]byte("1 () S) R (" + statTail))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := parseStat(b)
		if err == nil && s.StartTime%nsPerClockTick != 0 {
			t.Fatalf("%+v", s)
		}
	})
}

func FuzzParseStatus(f *testing.F) {
	f.Add([]byte("Name:\tx\nTgid:\t1\nUid:\t0\t0\t0\t0\nNSpid:\t1\t2\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := parseStatus(b)
		if err == nil && (s.TGID == 0 || len(s.NSPIDs) > maxPIDNamespaces) {
			t.Fatalf("%+v", s)
		}
	})
}
