package procfs

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hostprofiles/hostprofiles/internal/process"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// ErrNotFile tells that what is mapped is no regular file (a device, for one). It will not become one.
var ErrNotFile = errors.New("not a regular file")

// errOther tells that a path leads to another file than the mapped one by now.
var errOther = errors.New("another file has the name now")

// OpenMapped opens the file of a mapping of process pid for reading. Reads are to be done with pread only, and may hang
// like all reads of files. In this order it tries
//
//  1. /proc/PID/map_files, which leads to the mapped file itself, whatever became of its name (needs
//     CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN);
//  2. the path below /proc/PID/root, in the process's mount namespace;
//  3. the same for the other candidates, which are processes that mapped the file too;
//  4. the path as the collector sees it.
//
// Each is first opened as a mere reference (O_PATH), which neither waits for a FIFO nor wakes a device, and is opened
// for reading only if it is a regular file and the mapped one: see matches. If all fail the errors are returned joined.
func (fs *FS) OpenMapped(pid uint32, m process.MmapInfo, others []process.Candidate) (*os.File, error) {
	if m.Anonymous || m.Path == process.PathVDSO {
		return nil, fmt.Errorf("opening %q: %w", m.Path, ErrNotFile)
	}
	var errs []error
	for _, try := range fs.ways(pid, m, others) {
		f, err := try()
		if err == nil {
			return f, nil
		}
		errs = append(errs, err)
		if errors.Is(err, ErrNotFile) {
			break
		}
	}
	return nil, fmt.Errorf("opening %q mapped by process %d: %w", m.Path, pid, errors.Join(errs...))
}

type way func() (*os.File, error)

func (fs *FS) ways(pid uint32, m process.MmapInfo, others []process.Candidate) []way {
	ways := []way{
		func() (*os.File, error) { return fs.openMapFile(pid, m) },
		func() (*os.File, error) { return fs.openBelow(fs.path(pid, "root"), m) },
	}
	for _, c := range others {
		if c.PID == pid {
			continue
		}
		seen := m
		seen.Start, seen.End, seen.Path = c.Start, c.End, c.Path
		ways = append(ways,
			func() (*os.File, error) { return fs.openMapFile(c.PID, seen) },
			func() (*os.File, error) { return fs.openBelow(fs.path(c.PID, "root"), seen) })
	}
	return append(ways, func() (*os.File, error) { return fs.openBelow("/", m) })
}

// openMapFile opens a mapping's link in map_files. Links are named after the kernel's mappings, whose bounds change as
// neighbours are joined, split and unmapped; so if there is none, the file's other mappings are looked for.
func (fs *FS) openMapFile(pid uint32, m process.MmapInfo) (*os.File, error) {
	f, err := fs.openLink(pid, m.Start, m.End, m)
	if !errors.Is(err, unix.ENOENT) && !errors.Is(err, errOther) || m.File.Inode == 0 {
		return f, err
	}
	start, end, ok := fs.findFile(pid, m.File)
	if !ok {
		return nil, err
	}
	return fs.openLink(pid, start, end, m)
}

func (fs *FS) openLink(pid uint32, start, end unwind.Addr, m process.MmapInfo) (*os.File, error) {
	link := fs.path(pid, "map_files/"+strconv.FormatUint(uint64(start), 16)+"-"+strconv.FormatUint(uint64(end), 16))
	fd, err := unix.Open(link, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("following %s: %w", link, err)
	}
	defer unix.Close(fd)
	return fs.reopen(fd, link, m, func() bool {
		// The file that is mapped there cannot fail to be the mapped one, unless the address was mapped anew: then it
		// has another name. What is asked is the name of what was opened: the link may lead elsewhere by now, where a
		// process maps files in turns.
		name, err := os.Readlink(fs.openedPath(fd))
		return err == nil && process.Undeleted(name) == process.Undeleted(m.Path)
	})
}

// findFile looks for any mapping of a file, executable or not.
func (fs *FS) findFile(pid uint32, id process.FileID) (start, end unwind.Addr, ok bool) {
	f, err := os.Open(fs.path(pid, "maps"))
	if err != nil {
		return 0, 0, false
	}
	defer f.Close()
	lines := 0
	err = eachMap(f, func(line []byte) (bool, error) {
		m, _, err := parseMapsLine(line)
		if err == nil && m.File.Inode == id.Inode && m.File.Major == id.Major && m.File.Minor == id.Minor {
			start, end, ok = m.Start, m.End, true
		}
		lines++
		return !ok && lines < MaxMaps, err
	})
	return start, end, ok && err == nil
}

// openBelow opens a mapping's path below a root directory. Symbolic links on the way, absolute ones too, stay below it.
func (fs *FS) openBelow(root string, m process.MmapInfo) (*os.File, error) {
	if !strings.HasPrefix(m.Path, "/") || strings.HasPrefix(m.Path, "//") {
		return nil, fmt.Errorf("no path to open: %q", m.Path)
	}
	dir, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", root, err)
	}
	defer unix.Close(dir)
	var errs []error
	for _, path := range spellings(m.Path) {
		f, err := fs.openAt(dir, path, m)
		if err == nil {
			return f, nil
		}
		errs = append(errs, fmt.Errorf("opening %q below %s: %w", path, root, err))
	}
	return nil, errors.Join(errs...)
}

// spellings lists what a path may be called: the kernel's " (deleted)" may be part of the name, and so may be \012.
func spellings(path string) []string {
	all := []string{path}
	if plain := process.Undeleted(path); plain != path {
		all = append(all, plain)
	}
	if strings.Contains(path, "\n") {
		for _, p := range all {
			all = append(all, strings.ReplaceAll(p, "\n", `\012`))
		}
	}
	return all
}

func (fs *FS) openAt(dir int, path string, m process.MmapInfo) (*os.File, error) {
	fd, err := openInRoot(dir, path)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return fs.reopen(fd, path, m, func() bool { return false })
}

// reopen opens for reading what fd refers to, if that is the regular file that m is of. sure is asked if the inode does
// not tell. Another generation of the inode is another file in any case.
func (fs *FS) reopen(fd int, name string, m process.MmapInfo, sure func() bool) (*os.File, error) {
	f, err := fs.openRegular(fd, m.Path, func(st *unix.Stat_t) error {
		if same, certain := matches(fd, st, m.File); !same && (certain || !sure()) {
			return fmt.Errorf("%w: %q is inode %d of device %d:%d", errOther, name, st.Ino, unix.Major(st.Dev), unix.Minor(st.Dev))
		}
		return nil
	})
	if err != nil || m.File.Generation == 0 {
		return f, err
	}
	if g, ok := generationOf(f); ok && g != m.File.Generation {
		f.Close()
		return nil, fmt.Errorf("%w: %q is generation %d of the inode, not %d", errOther, name, g, m.File.Generation)
	}
	return f, nil
}

// openRegular opens for reading what fd refers to, if check, which may be nil, has nothing against it and it is a regular
// file: else it is an ErrNotFile.
func (fs *FS) openRegular(fd int, name string, check func(*unix.Stat_t) error) (*os.File, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("looking at %q: %w", name, err)
	}
	if check != nil {
		if err := check(&st); err != nil {
			return nil, err
		}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, fmt.Errorf("%w: mode %o", ErrNotFile, st.Mode)
	}
	return reopenRegular(fs, fd, name)
}

// reopenRegular opens for reading the regular file that fd refers to.
//
// O_NONBLOCK is there so that a lease that somebody holds on the file fails the opening instead of delaying it, and is
// taken off again before package os sees the file: it would ask the file for events, which a file system in user space
// may leave unanswered, and all the while the kernel holds the lock of the one epoll instance that every goroutine of
// the collector depends on. For the same reason os.Open is never to be used on a target's file.
func reopenRegular(fs *FS, fd int, name string) (*os.File, error) {
	const flags = unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY
	self := fs.openedPath(fd)
	rfd, err := unix.Open(self, flags|unix.O_NOATIME, 0)
	if errors.Is(err, unix.EPERM) {
		rfd, err = unix.Open(self, flags, 0) // not the file's owner
	}
	if err != nil {
		return nil, fmt.Errorf("opening for reading: %w", err)
	}
	if err := unix.SetNonblock(rfd, false); err != nil {
		unix.Close(rfd)
		return nil, fmt.Errorf("opening for reading: %w", err)
	}
	return os.NewFile(uintptr(rfd), name), nil
}

// openedPath is where /proc has the collector's own descriptor.
func (fs *FS) openedPath(fd int) string { return fs.root + "/self/fd/" + strconv.Itoa(fd) }

// File systems whose stat(2) shows another device than the kernel has for a mapped inode; include/uapi/linux/magic.h of
// Linux 6.1, and fs/bcachefs/bcachefs_format.h of Linux 6.7.
var strangeDevices = [...]int64{
	0x794c7630, // overlayfs
	0x9123683e, // btrfs: a device number for each subvolume
	0xca451a4e, // bcachefs: likewise
}

// matches tells whether an opened file is the one that the kernel says is mapped, and whether that is certain. Normally
// device and inode number have to be equal, and on one device another number is another file. On overlayfs and btrfs the
// device may differ, and the number tells nothing for certain:
//
//   - btrfs shows a device per subvolume in stat, but the file system's in maps. The inode number is the same.
//   - overlayfs maps the file of the layer below. Before Linux 6.8 maps show that file's device and inode number, since
//     then the overlay's; perf events show the former up to Linux 6.17. stat shows the inode number of the layer below in
//     either case, with xino in the upper bits which layer it is (Documentation/filesystems/overlayfs.rst).
//
// There the inode number alone decides. A wrong file would need the same path and the same number.
func matches(fd int, st *unix.Stat_t, id process.FileID) (same, certain bool) {
	if id.Inode == 0 {
		return false, false // the kernel did not say
	}
	strange := isOn(fd, strangeDevices[:])
	if unix.Major(st.Dev) == id.Major && unix.Minor(st.Dev) == id.Minor {
		return st.Ino == id.Inode, !strange
	}
	const xinoMask = 1<<48 - 1
	return strange && (st.Ino == id.Inode || st.Ino&xinoMask == id.Inode), false
}

// isOn tells whether an opened file lies on a file system of one of these types.
func isOn(fd int, types []int64) bool {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return false
	}
	return slices.Contains(types, int64(fs.Type))
}

// File systems that tell the generation of an inode as the kernel has it, without waiting for anybody: fs/ext4/ioctl.c,
// fs/xfs/xfs_ioctl.c, fs/btrfs/ioctl.c and fs/f2fs/file.c of Linux 6.1.
var tellGeneration = [...]int64{unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC}

// getVersion is FS_IOC_GETVERSION, include/uapi/linux/fs.h of Linux 6.1: _IOR('v', 1, long).
const getVersion = 0x80087601

// generationOf returns the generation of an opened file's inode, of which the kernel keeps 32 bits; false if it can't be known. A
// file that was removed and another that has its inode number since differ in it.
func generationOf(f *os.File) (generation uint64, ok bool) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, false
	}
	err = raw.Control(func(fd uintptr) {
		if !isOn(int(fd), tellGeneration[:]) {
			return
		}
		// The kernel writes an int, although the number of the call says that it is a long.
		v, err := unix.IoctlGetUint32(int(fd), getVersion)
		generation, ok = uint64(v), err == nil
	})
	return generation, ok && err == nil
}

// Identify returns what tells an opened file's contents from others.
func Identify(f *os.File) (process.Identity, error) {
	st, err := fstat(f)
	if err != nil {
		return process.Identity{}, fmt.Errorf("identifying %q: %w", f.Name(), err)
	}
	return process.Identity{
		Size:  st.Size,
		MTime: st.Mtim.Nano(),
		CTime: st.Ctim.Nano(),
		Dev:   uint64(st.Dev),
		Inode: st.Ino,
	}, nil
}

// fstat is fstat(2), of which os.File.Stat leaves things out.
func fstat(f *os.File) (st unix.Stat_t, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return st, err
	}
	if cerr := raw.Control(func(fd uintptr) { err = unix.Fstat(int(fd), &st) }); cerr != nil {
		err = cerr
	}
	return st, err
}
