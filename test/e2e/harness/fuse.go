package harness

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// FUSE is a file system with files of the same contents, served from memory, until it hangs: then no request is answered
// any more. The protocol is that of include/uapi/linux/fuse.h, Linux 6.18, spoken as version 7.31.
type FUSE struct {
	dir   string
	text  []byte
	fd    int
	hangs atomic.Bool
	done  chan struct{}
	guard *exec.Cmd
}

// fuseLife bounds the life of a file system: a thread that waits for one cannot be killed, nor can its process, so
// another process unmounts it if this one comes to grief.
const fuseLife = "120"

// Operations, enum fuse_opcode.
const (
	fuseLookup      = 1
	fuseForget      = 2
	fuseGetattr     = 3
	fuseOpen        = 14
	fuseRead        = 15
	fuseRelease     = 18
	fuseFlush       = 25
	fuseInit        = 26
	fuseOpendir     = 27
	fuseReleasedir  = 29
	fuseInterrupt   = 36
	fuseBatchForget = 42
)

const (
	fuseInHeader = 40
	fuseRootNode = 1
	fuseFileNode = 2 // of the first file; the one called 7 has a number higher by 7
	fuseBuffer   = 256 << 10
)

// ErrNoFUSE is wrapped by MountFUSE's error where no file system in user space can be mounted.
var ErrNoFUSE = errors.New("there are no file systems in user space here")

// noFUSE tells whether an error of opening /dev/fuse is the machine's or the container's doing.
func noFUSE(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM)
}

// MountFUSE mounts the file system at a folder. It has a file of every name, which holds text and may be executed; numbers
// are names of different files, all other names are one file's.
func MountFUSE(dir string, text []byte) (*FUSE, error) {
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if noFUSE(err) {
		return nil, fmt.Errorf("%w: opening /dev/fuse: %w", ErrNoFUSE, err)
	}
	if err != nil {
		return nil, fmt.Errorf("opening /dev/fuse: %w", err)
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fd)
	if err := unix.Mount("hostprofiles-test", dir, "fuse", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		err = fmt.Errorf("mounting a FUSE file system at %s: %w", dir, errors.Join(err, unix.Close(fd)))
		if errors.Is(err, unix.EPERM) {
			err = fmt.Errorf("%w: %w", ErrNoFUSE, err)
		}
		return nil, err
	}
	f := &FUSE{dir: dir, text: text, fd: fd, done: make(chan struct{})}
	go f.serve()
	f.guard = exec.Command("sh", "-c", `sleep "$1"; umount -f "$2"`, "sh", fuseLife, dir)
	f.guard.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := f.guard.Start(); err != nil {
		return nil, fmt.Errorf("guarding the FUSE file system at %s: %w", dir, errors.Join(err, f.Close()))
	}
	return f, nil
}

// Hang stops answering.
func (f *FUSE) Hang() { f.hangs.Store(true) }

// Close unmounts, which ends every request that hangs with an error.
func (f *FUSE) Close() error {
	if f.guard.Process != nil {
		_ = syscall.Kill(-f.guard.Process.Pid, syscall.SIGKILL)
		_ = f.guard.Wait()
	}
	err := unix.Unmount(f.dir, unix.MNT_FORCE|unix.MNT_DETACH)
	if err == nil {
		<-f.done
	}
	if err := errors.Join(err, unix.Close(f.fd)); err != nil {
		return fmt.Errorf("unmounting %s: %w", f.dir, err)
	}
	return nil
}

func (f *FUSE) serve() {
	defer close(f.done)
	buf := make([]byte, fuseBuffer)
	for {
		n, err := unix.Read(f.fd, buf)
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil || n < fuseInHeader {
			return // unmounted
		}
		if f.hangs.Load() {
			continue
		}
		if err := f.answer(buf[:n]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return
		}
	}
}

func (f *FUSE) answer(request []byte) error {
	le := binary.LittleEndian
	opcode, unique, node := le.Uint32(request[4:]), le.Uint64(request[8:]), le.Uint64(request[16:])
	var body []byte
	errno := unix.Errno(0)
	switch opcode {
	case fuseForget, fuseBatchForget, fuseInterrupt:
		return nil // these have no answer
	case fuseInit:
		body = make([]byte, 64)
		le.PutUint32(body, 7)
		le.PutUint32(body[4:], 31)
		le.PutUint32(body[20:], fuseBuffer/2) // max_write
	case fuseLookup:
		file := fuseFileNode + fuseNumber(request[fuseInHeader:])
		body = make([]byte, 40, 128)
		le.PutUint64(body, file)
		le.PutUint64(body[16:], 3600) // the name stays valid, the attributes do not
		body = append(body, f.attributes(file)...)
	case fuseGetattr:
		body = append(make([]byte, 16), f.attributes(node)...)
	case fuseOpen, fuseOpendir:
		body = make([]byte, 16)
	case fuseRead:
		from := min(le.Uint64(request[fuseInHeader+8:]), uint64(len(f.text)))
		size := min(uint64(le.Uint32(request[fuseInHeader+16:])), uint64(len(f.text))-from)
		body = f.text[from : from+size]
	case fuseRelease, fuseReleasedir, fuseFlush:
	default:
		errno = unix.ENOSYS
	}
	out := make([]byte, 16, 16+len(body))
	le.PutUint32(out, uint32(16+len(body)))
	le.PutUint32(out[4:], uint32(-int32(errno)))
	le.PutUint64(out[8:], unique)
	_, err := unix.Write(f.fd, append(out, body...))
	if errors.Is(err, unix.ENOENT) {
		return nil // the request was interrupted
	}
	if err != nil {
		return fmt.Errorf("answering FUSE request %d: %w", opcode, err)
	}
	return nil
}

// fuseNumber is the number that a file has for its name, which ends with a zero byte.
func fuseNumber(name []byte) uint64 {
	n, err := strconv.ParseUint(string(bytes.TrimRight(name, "\x00")), 10, 16)
	if err != nil {
		return 0
	}
	return n
}

// attributes is struct fuse_attr.
func (f *FUSE) attributes(node uint64) []byte {
	le := binary.LittleEndian
	a := make([]byte, 88)
	le.PutUint64(a, node)
	mode, size := uint32(unix.S_IFDIR|0o755), uint64(0)
	if node != fuseRootNode {
		mode, size = unix.S_IFREG|0o755, uint64(len(f.text))
	}
	le.PutUint64(a[8:], size)
	le.PutUint64(a[16:], (size+511)/512)
	le.PutUint32(a[60:], mode)
	le.PutUint32(a[64:], 1) // nlink
	le.PutUint32(a[80:], 4096)
	return a
}
