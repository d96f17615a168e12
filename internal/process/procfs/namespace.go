package procfs

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// initPIDNamespace is the inode of the initial pid namespace: PROC_PID_INIT_INO in include/linux/proc_ns.h of Linux 6.1.
const initPIDNamespace = 0xEFFFFFFC

// Namespaces says which pid namespaces the collector and its proc file system are in. BPF programs see pids of the
// initial namespace; perf events those of the namespace of the process that opened them; this proc file system those of
// the namespace that it was mounted in.
type Namespaces struct {
	// SelfInitial: the collector is in the initial pid namespace; all three agree if ProcInitial is set too.
	SelfInitial bool
	// ProcInitial: /proc shows pids of the initial namespace, also when the collector is in another (the host's /proc,
	// mounted into a container).
	ProcInitial bool
	// ProcOwn: /proc shows pids of the collector's own namespace.
	ProcOwn bool
	// SelfPID is the collector as /proc calls it.
	SelfPID uint32
}

// Namespaces looks at the collector itself, so it does not block.
func (fs *FS) Namespaces() (Namespaces, error) {
	var ns Namespaces
	ino, err := inodeOf(fs.root + "/self/ns/pid")
	if err != nil {
		return ns, fmt.Errorf("finding the collector in %s: %w", fs.root, err)
	}
	ns.SelfInitial = ino == initPIDNamespace

	self, err := os.Readlink(fs.root + "/self")
	if err != nil {
		return ns, fmt.Errorf("finding the collector in %s: %w", fs.root, err)
	}
	pid, err := strconv.ParseUint(self, 10, 32)
	if err != nil {
		return ns, fmt.Errorf("finding the collector in %s: %w", fs.root, err)
	}
	ns.SelfPID = uint32(pid)

	status, err := fs.Status(ns.SelfPID)
	if err != nil {
		return ns, err
	}
	// The list begins with the pid in the namespace of the proc file system and ends with the one in the process's own:
	// task_state() in fs/proc/array.c of Linux 6.1.
	ns.ProcOwn = len(status.NSPIDs) <= 1
	ns.ProcInitial = ns.SelfInitial || !ns.ProcOwn && fs.showsInitial()
	return ns, nil
}

// showsInitial tells whether this is a proc file system of the initial pid namespace, by its first process's namespace
// or, if that may not be looked at, by kthreadd, which is process 2 there and nowhere else.
func (fs *FS) showsInitial() bool {
	if ino, err := inodeOf(fs.path(1, "ns/pid")); err == nil {
		return ino == initPIDNamespace
	}
	s, err := fs.Stat(2)
	return err == nil && s.Comm == "kthreadd" && s.KernelThread() && s.PPID == 0
}

func inodeOf(path string) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return 0, err
	}
	return st.Ino, nil
}

// OwnPID translates pid, which is the process's in this proc file system, into its own innermost pid namespace, in which the
// process itself and the runtimes in it speak of it (perf maps, attach sockets).
func (s Status) OwnPID(pid uint32) uint32 {
	if len(s.NSPIDs) == 0 {
		return pid // a kernel without pid namespaces
	}
	return s.NSPIDs[len(s.NSPIDs)-1]
}
