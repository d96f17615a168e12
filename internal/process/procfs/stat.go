package procfs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// gone makes what the kernel says when a process exits during a read recognizable as ErrGone.
func gone(err error) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("%w (%w)", ErrGone, err)
	}
	return err
}

// Stat is what of /proc/PID/stat is of use.
type Stat struct {
	Comm    string // of the leader, at most 15 bytes
	State   byte   // R, S, D, Z, ...
	PPID    uint32
	Threads uint32
	// StartTime is when the leader started: ns of CLOCK_BOOTTIME, in steps of 10 ms.
	StartTime uint64
	Flags     uint32 // PF_* of the kernel
}

// kthreadFlag is PF_KTHREAD, include/linux/sched.h of Linux 6.1.
const kthreadFlag = 0x00200000

// KernelThread tells whether it is a thread of the kernel's own.
func (s Stat) KernelThread() bool { return s.Flags&kthreadFlag != 0 }

// nsPerClockTick is 1/USER_HZ, which is 100 on amd64 and arm64.
const nsPerClockTick = 10_000_000

// ErrStat tells that /proc/PID/stat could not be understood.
var ErrStat = errors.New("malformed stat")

// Stat reads /proc/PID/stat.
func (fs *FS) Stat(pid uint32) (Stat, error) {
	b, err := fs.read(pid, "stat", maxSmallFile)
	if err != nil {
		return Stat{}, err
	}
	s, err := parseStat(b)
	if err != nil {
		return Stat{}, fmt.Errorf("reading stat of process %d: %w", pid, err)
	}
	if offset := fs.boottimeOffset; offset < 0 || s.StartTime > uint64(offset) {
		s.StartTime -= uint64(offset)
	}
	return s, nil
}

// parseStat parses the line that do_task_stat() in fs/proc/array.c of Linux 6.1 prints. The comm may hold spaces and
// parentheses, but nothing after it does.
func parseStat(b []byte) (Stat, error) {
	open, shut := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 0 || shut < open {
		return Stat{}, fmt.Errorf("%w: no comm", ErrStat)
	}
	// From here on the fields are numbered from 3, as in proc_pid_stat(5).
	f := strings.Fields(string(b[shut+1:]))
	if len(f) < 20 || len(f[0]) != 1 {
		return Stat{}, fmt.Errorf("%w: %d fields after the comm", ErrStat, len(f))
	}
	field := func(n, bits int) (uint64, error) { return strconv.ParseUint(f[n-3], 10, bits) }
	ppid, err1 := field(4, 32)
	flags, err2 := field(9, 32)
	threads, err3 := field(20, 32)
	start, err4 := field(22, 64)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return Stat{}, fmt.Errorf("%w: %w", ErrStat, err)
	}
	if start > 1<<63/nsPerClockTick {
		return Stat{}, fmt.Errorf("%w: start time %d", ErrStat, start)
	}
	return Stat{
		Comm:      string(b[open+1 : shut]),
		State:     f[0][0],
		PPID:      uint32(ppid),
		Threads:   uint32(threads),
		StartTime: start * nsPerClockTick,
		Flags:     uint32(flags),
	}, nil
}

// parseBoottimeOffset finds the offset of CLOCK_BOOTTIME in the text of /proc/self/timens_offsets (lines of clock,
// seconds and nanoseconds; kernel/time/namespace.c of Linux 6.1); zero if there is none.
func parseBoottimeOffset(b []byte) int64 {
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) != 3 || f[0] != "boottime" && f[0] != "7" {
			continue
		}
		sec, err1 := strconv.ParseInt(f[1], 10, 32)
		nsec, err2 := strconv.ParseInt(f[2], 10, 32)
		if err1 == nil && err2 == nil {
			return sec*1_000_000_000 + nsec
		}
	}
	return 0
}

// Status is what of /proc/PID/status is of use.
type Status struct {
	TGID uint32
	// NSPIDs are the process's pids, from the pid namespace of this proc file system inward to its own.
	NSPIDs []uint32
	// UIDs are the real, effective, saved and file system user ids.
	UIDs []uint32
}

// maxPIDNamespaces is the kernel's MAX_PID_NS_LEVEL (include/linux/pid_namespace.h of Linux 6.1), and the first.
const maxPIDNamespaces = 33

// ErrStatus tells that /proc/PID/status could not be understood.
var ErrStatus = errors.New("malformed status")

// Status reads /proc/PID/status.
func (fs *FS) Status(pid uint32) (Status, error) {
	b, err := fs.read(pid, "status", maxSmallFile)
	if err != nil {
		return Status{}, err
	}
	s, err := parseStatus(b)
	if err != nil {
		return Status{}, fmt.Errorf("reading status of process %d: %w", pid, err)
	}
	return s, nil
}

// parseStatus parses lines of "Key:\tvalue\tvalue". The kernel escapes newlines in the name, so that it cannot forge
// other lines.
func parseStatus(b []byte) (Status, error) {
	var s Status
	for line := range strings.Lines(string(b)) {
		key, value, _ := strings.Cut(line, ":")
		values := strings.Fields(value)
		var err error
		switch key {
		case "Tgid":
			s.TGID, err = first(values)
		case "Uid":
			s.UIDs, err = numbers(values)
		case "NSpid":
			s.NSPIDs, err = numbers(values)
		}
		if err != nil {
			return Status{}, fmt.Errorf("%w: %s: %w", ErrStatus, key, err)
		}
	}
	if s.TGID == 0 {
		return Status{}, fmt.Errorf("%w: no Tgid", ErrStatus)
	}
	return s, nil
}

func first(values []string) (uint32, error) {
	if len(values) == 0 {
		return 0, errors.New("no value")
	}
	n, err := strconv.ParseUint(values[0], 10, 32)
	return uint32(n), err
}

func numbers(values []string) ([]uint32, error) {
	if len(values) == 0 || len(values) > maxPIDNamespaces {
		return nil, fmt.Errorf("%d values", len(values))
	}
	out := make([]uint32, 0, len(values))
	for i := range values {
		n, err := first(values[i:])
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	return out, nil
}

// Comm reads the name of a thread, without the newline; tid may be the pid.
func (fs *FS) Comm(pid, tid uint32) (string, error) {
	b, err := fs.read(pid, "task/"+strconv.FormatUint(uint64(tid), 10)+"/comm", 256)
	return strings.TrimSuffix(string(b), "\n"), err
}

// maxCommand bounds a command's length: longer than PATH_MAX no path is.
const maxCommand = 4096

// Command reads the first word of the command line, as the process left it; empty for kernel threads. The other words
// are dropped: people put secrets there.
func (fs *FS) Command(pid uint32) (string, error) {
	b, err := fs.read(pid, "cmdline", maxCommand)
	return parseCommand(b), err
}

// parseCommand finds the first word. A program that sets its title may have put all its words into the first, with
// spaces between them (Chromium does); what begins like an option there is dropped too.
func parseCommand(b []byte) string {
	word, _, _ := bytes.Cut(b, []byte{0})
	word, _, _ = bytes.Cut(word, []byte(" -"))
	return string(word)
}

// Exe reads the path of the program file, as it is called in the process's own mount namespace.
func (fs *FS) Exe(pid uint32) (string, error) {
	path, err := os.Readlink(fs.path(pid, "exe"))
	if err != nil {
		return "", fmt.Errorf("reading exe of process %d: %w", pid, gone(err))
	}
	return path, nil
}
