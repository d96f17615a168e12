package procfs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Cgroup says in which control group a process is, and what container runtimes mean by its name.
type Cgroup struct {
	Path        string // in the unified hierarchy, or in systemd's or the first named one of version 1
	ContainerID string // 64 hex digits (Fargate: 32 hex digits and a number); empty outside of containers
	PodUID      string // Kubernetes' uid of the pod, with dashes; empty outside of pods
}

// Cgroup reads /proc/PID/cgroup. Paths are relative to the cgroup namespace of the collector: from inside one they may
// begin with "/..", and a process in the collector's own group is at "/".
func (fs *FS) Cgroup(pid uint32) (Cgroup, error) {
	b, err := fs.read(pid, "cgroup", maxSmallFile)
	if err != nil {
		return Cgroup{}, err
	}
	return parseCgroup(b), nil
}

// inUnified calls fn with where the unified hierarchy may be mounted (alone, or beside version 1's), until it succeeds.
func inUnified(fn func(mount string) error) error {
	var errs []error
	for _, mount := range [...]string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		var st unix.Statfs_t
		if err := unix.Statfs(mount, &st); err != nil || st.Type != unix.CGROUP2_SUPER_MAGIC {
			continue
		}
		err := fn(mount)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	if len(errs) == 0 {
		return fmt.Errorf("%w: no unified hierarchy is mounted", errors.ErrUnsupported)
	}
	return errors.Join(errs...)
}

// CgroupID is the id of the control group with a path in the unified hierarchy.
func (fs *FS) CgroupID(path string) (uint64, error) {
	var st unix.Stat_t
	err := inUnified(func(mount string) error { return unix.Stat(mount+path, &st) })
	if err != nil {
		return 0, fmt.Errorf("looking at control group %s: %w", path, err)
	}
	return st.Ino, nil
}

// CgroupByID finds a control group by its id in the unified hierarchy (which bpf_get_current_cgroup_id tells), as long as it
// exists. It needs CAP_DAC_READ_SEARCH.
func (fs *FS) CgroupByID(id uint64) (Cgroup, error) {
	var c Cgroup
	err := inUnified(func(mount string) (err error) {
		c.Path, err = cgroupPath(mount, id)
		return err
	})
	if err != nil {
		return Cgroup{}, fmt.Errorf("finding control group %d: %w", id, err)
	}
	c.ContainerID, c.PodUID = identify(c.Path)
	return c, nil
}

// fileIDKernfs is FILEID_KERNFS of include/linux/exportfs.h, Linux 5.10: a handle of 8 bytes, the id.
const fileIDKernfs = 0xfe

// cgroupPath opens the group's directory by its handle and asks where that is.
func cgroupPath(mount string, id uint64) (string, error) {
	root, err := unix.Open(mount, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(root)
	handle := unix.NewFileHandle(fileIDKernfs, binary.NativeEndian.AppendUint64(nil, id))
	fd, err := unix.OpenByHandleAt(root, handle, unix.O_PATH|unix.O_CLOEXEC)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	return strings.TrimPrefix(path, mount), err
}

// parseCgroup reads lines of "hierarchy:controllers:path" (cgroups(7)). With both versions mounted, the unified
// hierarchy's path is often "/", and the container is found in the others.
func parseCgroup(b []byte) Cgroup {
	var best Cgroup
	bestRank := -1
	for len(b) > 0 {
		var line []byte
		line, b, _ = bytes.Cut(b, []byte("\n"))
		hierarchy, rest, _ := strings.Cut(string(line), ":")
		controllers, path, ok := strings.Cut(rest, ":")
		if !ok || !strings.HasPrefix(path, "/") {
			continue
		}
		c := Cgroup{Path: path}
		c.ContainerID, c.PodUID = identify(path)
		if rank := c.rank(hierarchy, controllers); rank > bestRank {
			best, bestRank = c, rank
		}
	}
	return best
}

// rank orders a process's groups by how much they say.
func (c *Cgroup) rank(hierarchy, controllers string) int {
	rank := 0
	switch {
	case hierarchy == "0" && controllers == "":
		rank = 2
	case controllers == "name=systemd":
		rank = 1
	}
	if c.Path != "/" {
		rank += 4
	}
	if c.PodUID != "" {
		rank += 8
	}
	if c.ContainerID != "" {
		rank += 16
	}
	return rank
}

// identify finds the innermost container and pod in a cgroup's path. Nested ones (a cluster inside of containers) have
// several; the last is where the process is.
func identify(path string) (containerID, podUID string) {
	for segment := range strings.SplitSeq(path, "/") {
		if uid, ok := podUIDOf(segment); ok {
			podUID, containerID = uid, ""
		}
		if id, ok := containerIDOf(segment); ok {
			containerID = id
		}
	}
	return containerID, podUID
}

// containerIDOf finds a container's id in one segment of a path. Runtimes write
//
//	ID                        docker, containerd and podman with cgroupfs
//	docker-ID.scope           docker, containerd, cri-o and podman with systemd: prefixes docker, nerdctl,
//	cri-containerd-ID.scope   cri-containerd, crio, libpod
//	UNIT:cri-containerd:ID    containerd, told to use cgroupfs but given systemd's names
//	TASK-NUMBER               Amazon ECS on Fargate, where TASK is 32 hex digits
//
// crio-conmon-ID.scope and libpod-conmon-ID.scope hold the monitor of a container, which is not inside it.
func containerIDOf(segment string) (string, bool) {
	name := strings.TrimSuffix(segment, ".scope")
	if i := strings.LastIndexByte(name, ':'); i >= 0 {
		name = name[i+1:]
	}
	if isTask(name) {
		return name, true
	}
	prefix, id := "", name
	if i := strings.LastIndexByte(name, '-'); i >= 0 {
		prefix, id = name[:i], name[i+1:]
	}
	if !isHex(id, 64) || strings.HasSuffix(prefix, "conmon") {
		return "", false
	}
	return id, true
}

// isTask tells whether name is 32 hex digits, a dash and a number.
func isTask(name string) bool {
	task, number, ok := strings.Cut(name, "-")
	return ok && isHex(task, 32) && number != "" && len(number) <= 20 && strings.Trim(number, "0123456789") == ""
}

func isHex(s string, n int) bool { return len(s) == n && strings.Trim(s, "0123456789abcdef") == "" }

// podUIDOf finds a pod's uid in one segment of a path:
//
//	podUID                                    kubelet with cgroupfs
//	kubepods-burstable-podUID.slice           kubelet with systemd, which has underscores for the uid's dashes
//	kubepods-podUID.slice:cri-containerd:ID   see containerIDOf
//
// A static pod's uid is 32 hex digits, any other a UUID.
func podUIDOf(segment string) (string, bool) {
	segment, _, _ = strings.Cut(segment, ":")
	segment = strings.TrimSuffix(segment, ".slice")
	i := strings.LastIndex(segment, "pod")
	if i < 0 || i > 0 && segment[i-1] != '-' {
		return "", false
	}
	uid := strings.ReplaceAll(segment[i+len("pod"):], "_", "-")
	return uid, isHex(uid, 32) || isUUID(uid)
}

func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i, want := range []byte("xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx") {
		if want == '-' && s[i] != '-' || want == 'x' && !isHex(s[i:i+1], 1) {
			return false
		}
	}
	return true
}
