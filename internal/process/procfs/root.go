package procfs

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Root is a directory that stands for the root of a file system: that of a process, or the host's. It is kept open, so that
// it stays the same one whatever becomes of the process and of its id. Meanwhile it keeps the mount that it is on from going
// away, so it is to be closed when nothing is wanted below it any more. It may be used by several goroutines.
type Root struct {
	fs   *FS
	dir  *os.File // O_PATH
	name string   // for errors
}

// OpenRoot opens the root directory of process pid, in its mount namespace.
func (fs *FS) OpenRoot(pid uint32) (*Root, error) {
	r, err := fs.openRoot(fs.path(pid, "root"))
	if err != nil {
		return nil, fmt.Errorf("opening the root of process %d: %w", pid, gone(err))
	}
	return r, nil
}

// OpenHostRoot opens the host's root: "/", or where it is mounted in the collector's container.
func (fs *FS) OpenHostRoot(dir string) (*Root, error) {
	r, err := fs.openRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the host's root %s: %w", dir, err)
	}
	return r, nil
}

func (fs *FS) openRoot(name string) (*Root, error) {
	fd, err := unix.Open(name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return &Root{fs: fs, dir: os.NewFile(uintptr(fd), name), name: strings.TrimRight(name, "/")}, nil
}

// Close closes the directory. Files that were opened below it stay open.
func (r *Root) Close() error {
	if err := r.dir.Close(); err != nil {
		return fmt.Errorf("closing root %s: %w", r.name, err)
	}
	return nil
}

// Same tells whether both are the same directory on the same mount, so that one needs no looking into if the other was. It
// says no if the kernel, older than 5.8, does not tell the mount.
func (r *Root) Same(other *Root) bool {
	a, aErr := r.stat()
	b, bErr := other.stat()
	return aErr == nil && bErr == nil && a.Mask&b.Mask&unix.STATX_MNT_ID != 0 && a.Mnt_id == b.Mnt_id &&
		a.Ino == b.Ino && a.Dev_major == b.Dev_major && a.Dev_minor == b.Dev_minor
}

func (r *Root) stat() (st unix.Statx_t, err error) {
	err = r.use(func(fd int) error {
		return unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_INO|unix.STATX_MNT_ID, &st)
	})
	return st, err
}

// use calls f with the directory, which is not closed meanwhile.
func (r *Root) use(f func(dir int) error) error {
	raw, err := r.dir.SyscallConn()
	if err != nil {
		return err
	}
	if cerr := raw.Control(func(fd uintptr) { err = f(int(fd)) }); cerr != nil {
		return cerr
	}
	return err
}

// Open opens the regular file of a path below the root for reading, which is to be done with pread only. Symbolic links are
// followed as the process would follow them, but those of /proc that lead elsewhere (magic ones) are not. The path is first
// opened as a mere reference (O_PATH), which neither waits for a FIFO nor wakes a device; it is an ErrNotFile if it leads to
// something else than a regular file.
func (r *Root) Open(path string) (*os.File, error) {
	var f *os.File
	err := r.use(func(dir int) (err error) {
		f, err = r.open(dir, path)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("opening %q below %s/: %w", path, r.name, err)
	}
	return f, nil
}

func (r *Root) open(dir int, path string) (*os.File, error) {
	fd, err := openInRoot(dir, path)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return r.fs.openRegular(fd, r.name+"/"+strings.TrimLeft(path, "/"), nil)
}

// openInRoot makes a reference to what has the path below dir.
func openInRoot(dir int, path string) (int, error) {
	const attempts = 4
	for range attempts {
		fd, err := unix.Openat2(dir, path, &unix.OpenHow{
			Flags:   unix.O_PATH | unix.O_CLOEXEC,
			Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
		})
		switch {
		case errors.Is(err, unix.EAGAIN): // something was renamed while a ".." was followed
		case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM): // sandboxes that do not know openat2(2) refuse it
			return walk(dir, path)
		default:
			return fd, err
		}
	}
	return walk(dir, path)
}

const (
	maxDepth = 64 // directories, each of which is open while walk is below it
	maxLinks = 40 // as many as Linux follows: MAXSYMLINKS in include/linux/namei.h of Linux 6.1
)

// walk does what openat2(2) does: it opens one name after the other, and follows symbolic links itself. ".." leads to the
// directory that was there before, which is open still, so that nobody can move the way out of the root.
func walk(root int, path string) (int, error) {
	w := walker{root: root}
	defer w.back(0)
	if err := w.follow(strings.Split(path, "/")); err != nil {
		return -1, err
	}
	if len(w.open) == 0 {
		return unix.Dup(root)
	}
	last := len(w.open) - 1
	fd := w.open[last]
	w.open = w.open[:last]
	return fd, nil
}

type walker struct {
	root int
	open []int // directories below root, and at last what the path leads to
}

// back closes all but the first n.
func (w *walker) back(n int) {
	for _, fd := range w.open[n:] {
		_ = unix.Close(fd) // they are references only
	}
	w.open = w.open[:n]
}

func (w *walker) follow(names []string) error {
	for links := 0; len(names) > 0; {
		name := names[0]
		names = names[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			w.back(max(len(w.open)-1, 0))
			continue
		}
		target, err := w.enter(name)
		if err != nil {
			return err
		}
		if target == "" {
			continue
		}
		if links++; links > maxLinks {
			return unix.ELOOP
		}
		if target[0] == '/' {
			w.back(0)
		}
		names = append(strings.Split(target, "/"), names...)
	}
	return nil
}

// enter opens what has the name in the directory where the walk is. A symbolic link is not entered: where it leads is
// returned.
func (w *walker) enter(name string) (target string, err error) {
	if len(w.open) == maxDepth {
		return "", unix.ENAMETOOLONG
	}
	dir := w.root
	if n := len(w.open); n > 0 {
		dir = w.open[n-1]
	}
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return "", errors.Join(err, unix.Close(fd))
	}
	if st.Mode&unix.S_IFMT != unix.S_IFLNK {
		w.open = append(w.open, fd)
		return "", nil
	}
	defer unix.Close(fd)
	b := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", b)
	switch {
	case err != nil:
		return "", err
	case n == 0:
		return "", unix.ENOENT
	case n == len(b):
		return "", unix.ENAMETOOLONG
	}
	return string(b[:n]), nil
}
