package procfs

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostprofiles/hostprofiles/internal/process"
)

// Why a file that is there is not taken for what a process says of its code: anyone may write to /tmp.
var (
	// ErrForeign: it belongs neither to the process's user nor to root.
	ErrForeign = errors.New("file of another user")
	// ErrStale: it was last written to before the process began. The process that wrote it had the same pid.
	ErrStale = errors.New("file of an earlier process")
)

// startSlack is how much earlier than the process a file may seem to be written: file systems' clocks are coarse, and the
// clock may have been set since.
const startSlack = 5 * time.Second

// OpenPerfMap opens the perf map of a process: what the process itself calls /tmp/perf-PID.map, with its pid in its own
// pid namespace, in its own mount namespace; or else what has that name in the collector's, with the pid of this proc
// file system, if both are in one mount namespace or the file belongs to the process's user. There is none if the error
// is unix.ENOENT. It has to be a regular file, no link, of the process's user or root, and not from before the
// process. Reads are to be done with pread only.
func (fs *FS) OpenPerfMap(pid uint32) (*os.File, error) {
	f, err := fs.openPerfMap(pid)
	if err != nil {
		return nil, fmt.Errorf("opening the perf map of process %d: %w", pid, err)
	}
	return f, nil
}

func (fs *FS) openPerfMap(pid uint32) (*os.File, error) {
	status, err := fs.Status(pid)
	if err != nil {
		return nil, err
	}
	from, err := fs.writerOf(pid, status)
	if err != nil {
		return nil, err
	}
	f, err := fs.openTmp(fs.path(pid, "root"), perfMapName(status.OwnPID(pid)), from)
	if err == nil || errors.Is(err, ErrForeign) || errors.Is(err, ErrStale) || errors.Is(err, ErrNotFile) {
		return f, err // what is there counts
	}
	if !fs.sharesMounts(pid) {
		from.root = false
	}
	f, hereErr := fs.openTmp("/", perfMapName(pid), from)
	if hereErr != nil {
		return nil, fmt.Errorf("%w (in the collector's: %v)", err, hereErr)
	}
	return f, nil
}

func perfMapName(pid uint32) string { return "perf-" + strconv.FormatUint(uint64(pid), 10) + ".map" }

// OpenJITDump opens the jitdump that process pid has mapped, as OpenMapped does; it has to belong to the process's user or
// root. That it is mapped tells that it is not an earlier process's.
func (fs *FS) OpenJITDump(pid uint32, m process.MmapInfo) (*os.File, error) {
	status, err := fs.Status(pid)
	if err != nil {
		return nil, fmt.Errorf("opening the jitdump of process %d: %w", pid, err)
	}
	f, err := fs.OpenMapped(pid, m, nil)
	if err != nil {
		return nil, err
	}
	st, err := fstat(f)
	if err == nil {
		err = writer{uids: status.UIDs, root: true}.owns(&st)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the jitdump %q of process %d: %w", m.Path, pid, err), f.Close())
	}
	return f, nil
}

// writer is who may have written a file that a process is believed about.
type writer struct {
	uids  []uint32 // of the process: real, effective, saved, and for files
	root  bool     // or root
	start time.Time
}

func (fs *FS) writerOf(pid uint32, status Status) (writer, error) {
	stat, err := fs.Stat(pid)
	if err != nil {
		return writer{}, err
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return writer{}, fmt.Errorf("reading the clock: %w", err)
	}
	age := now.Nano() - fs.boottimeOffset - int64(stat.StartTime)
	return writer{uids: status.UIDs, root: true, start: time.Now().Add(-time.Duration(age))}, nil
}

// owns tells by an error if a file is of somebody else.
func (w writer) owns(st *unix.Stat_t) error {
	if w.root && st.Uid == 0 || slices.Contains(w.uids, st.Uid) {
		return nil
	}
	return fmt.Errorf("%w: %d", ErrForeign, st.Uid)
}

// openTmp opens a file in /tmp below a root. /tmp may be a link, which does not leave the root, but the file may not.
func (fs *FS) openTmp(root, name string, from writer) (*os.File, error) {
	r, err := fs.openRoot(root)
	if err != nil {
		return nil, gone(err)
	}
	var f *os.File
	err = r.use(func(dir int) error {
		tmp, err := openInRoot(dir, "/tmp")
		if err != nil {
			return err
		}
		defer unix.Close(tmp)
		f, err = fs.openTrusted(tmp, name, from)
		return err
	})
	if err != nil {
		err = fmt.Errorf("opening /tmp/%s below %s: %w", name, root, err)
	}
	return f, errors.Join(err, r.Close())
}

func (fs *FS) openTrusted(dir int, name string, from writer) (*os.File, error) {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return fs.openRegular(fd, "/tmp/"+name, func(st *unix.Stat_t) error {
		if err := from.owns(st); err != nil {
			return err
		}
		if written := time.Unix(st.Mtim.Unix()); written.Before(from.start.Add(-startSlack)) {
			return fmt.Errorf("%w: written at %s, process of %s", ErrStale, written, from.start)
		}
		return nil
	})
}

// sharesMounts tells whether a process is known to be in the collector's mount namespace.
func (fs *FS) sharesMounts(pid uint32) bool {
	theirs, err := inodeOf(fs.path(pid, "ns/mnt"))
	if err != nil {
		return false
	}
	ours, err := inodeOf(fs.root + "/self/ns/mnt")
	return err == nil && ours == theirs
}
