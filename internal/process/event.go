package process

import (
	"strings"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// EventKind says what happened to a process.
type EventKind uint8

// The kinds, after the records of perf_event_open(2) that they come from.
const (
	EventExec EventKind = iota + 1 // PERF_RECORD_COMM with PERF_RECORD_MISC_COMM_EXEC
	EventComm                      // PERF_RECORD_COMM
	EventMmap                      // PERF_RECORD_MMAP2
	EventFork                      // PERF_RECORD_FORK
	EventExit                      // PERF_RECORD_EXIT
)

// Event is one side-band record. Events come merged by Time.
type Event struct {
	Kind EventKind
	Time uint64 // CLOCK_MONOTONIC, ns

	PID, TID uint32
	// PPID and PTID are who forked (EventFork). PPID == PID means a new thread, not a new process.
	PPID, PTID uint32

	Comm string   // EventExec, EventComm
	Map  MmapInfo // EventMmap
}

// FileID is a file as the kernel identifies it in PERF_RECORD_MMAP2 and /proc/PID/maps: the device of the inode's
// superblock and the inode number. It is not always what stat(2) says: btrfs gives each subvolume a device number of
// its own in stat only, and overlayfs shows, depending on the kernel's version, its own inode or the one of the layer
// below.
type FileID struct {
	Major, Minor uint32
	Inode        uint64
	// Generation tells apart files that had the same inode number one after the other. /proc/PID/maps does not have
	// it and some file systems never set it, so zero means unknown.
	Generation uint64
}

// MmapInfo is one executable mapping as the kernel reports it.
type MmapInfo struct {
	Start, End unwind.Addr
	Offset     unwind.FileOffset
	File       FileID
	Path       string // as the kernel prints it, with " (deleted)" if it says so
	Exec       bool
	Anonymous  bool // nothing that could be opened; see IsAnonymous
}

// PathVDSO is the name of the one mapping that has code but no file: the same bytes in every process, to be read from
// the memory of any of them.
const PathVDSO = "[vdso]"

const deletedSuffix = " (deleted)"

// Undeleted returns the path without the " (deleted)" that the kernel appends once the name is gone. A file whose name
// really ends so cannot be told apart.
func Undeleted(path string) string { return strings.TrimSuffix(path, deletedSuffix) }

// IsAnonymous tells whether a mapping's name stands for memory rather than for a file that could be opened: heaps,
// stacks, named anonymous areas, and shared memory without a name of its own. Files of memfd_create(2) are files, and so
// are those whose name the kernel could not print ("//toolong", "//enomem"). [vdso] is no file, but no mere memory
// either: it has tables and symbols.
func IsAnonymous(path string) bool {
	if path == PathVDSO {
		return false
	}
	if !strings.HasPrefix(path, "/") {
		// "[heap]", "[stack]", "[anon:NAME]", "[uprobes]", "anon_inode:[NAME]" and no name at all.
		return true
	}
	path = Undeleted(path)
	switch path {
	case "//anon", "/dev/zero", "/anon_hugepage":
		return true
	}
	return isSysVSegment(path)
}

// isSysVSegment tells whether path is a System V shared memory segment: ipc/shm.c of Linux 6.1, newseg(), names them
// "SYSV%08x".
func isSysVSegment(path string) bool {
	key, ok := strings.CutPrefix(path, "/SYSV")
	if !ok || len(key) != 8 {
		return false
	}
	return strings.Trim(key, "0123456789abcdef") == ""
}
