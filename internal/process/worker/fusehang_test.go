package worker

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostprofiles/hostprofiles/internal/process/procfs"
)

// hangFS is a file system with one file, "file", whose reads are never answered. The protocol is that of
// include/uapi/linux/fuse.h of Linux 6.1.
type hangFS struct {
	fd   int
	dir  string
	done sync.WaitGroup
	read chan struct{} // a read has arrived
	poll atomic.Int32  // requests to wait for events
}

const (
	fuseLookup  = 1
	fuseForget  = 2
	fuseGetattr = 3
	fuseOpen    = 14
	fuseRead    = 15
	fuseRelease = 18
	fuseFlush   = 25
	fuseInit    = 26
	fuseOpendir = 27
	fusePoll    = 40

	fuseInHeader = 40
	fuseBuffer   = 1 << 17
)

// mountHangFS mounts a hangFS, or skips the test where file systems in user space cannot be mounted.
func mountHangFS(t *testing.T) *hangFS {
	t.Helper()
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENODEV) {
		t.Skipf("not supported: file systems in user space: %v", err)
	}
	if err != nil {
		t.Fatalf("opening /dev/fuse: %v", err)
	}
	h := &hangFS{fd: fd, dir: t.TempDir(), read: make(chan struct{}, 64)}
	err = unix.Mount("hang", h.dir, "fuse.hang", unix.MS_NOSUID|unix.MS_NODEV,
		fmt.Sprintf("fd=%d,rootmode=40000,user_id=%d,group_id=%d", fd, os.Getuid(), os.Getgid()))
	if errors.Is(err, unix.EPERM) {
		unix.Close(fd)
		t.Skip("not supported: mounting is not permitted")
	}
	if err != nil {
		unix.Close(fd)
		t.Fatalf("mounting: %v", err)
	}
	h.done.Add(1)
	go h.serve()
	return h
}

// unmount ends the connection; reads that hang fail then.
func (h *hangFS) unmount(t *testing.T) {
	t.Helper()
	if err := unix.Unmount(h.dir, unix.MNT_FORCE|unix.MNT_DETACH); err != nil {
		t.Errorf("unmounting: %v", err)
	}
	h.done.Wait()
	unix.Close(h.fd)
}

func (h *hangFS) serve() {
	defer h.done.Done()
	buf := make([]byte, fuseBuffer)
	for {
		n, err := unix.Read(h.fd, buf)
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.ENOENT) {
			continue // the request was taken back
		}
		if err != nil || n < fuseInHeader {
			return // ENODEV: unmounted
		}
		opcode := binary.LittleEndian.Uint32(buf[4:])
		unique := binary.LittleEndian.Uint64(buf[8:])
		node := binary.LittleEndian.Uint64(buf[16:])
		switch opcode {
		case fuseForget:
		case fusePoll:
			h.poll.Add(1)
			h.reply(unique, -int32(unix.EIO), nil)
		case fuseRead:
			h.read <- struct{}{}
		case fuseInit:
			out := make([]byte, 64)
			binary.LittleEndian.PutUint32(out[0:], 7)
			binary.LittleEndian.PutUint32(out[4:], 31)
			binary.LittleEndian.PutUint32(out[8:], 4096) // max_readahead
			binary.LittleEndian.PutUint32(out[20:], 4096)
			h.reply(unique, 0, out)
		case fuseLookup:
			out := make([]byte, 40)
			binary.LittleEndian.PutUint64(out, 2) // nodeid
			h.reply(unique, 0, append(out, attr(2)...))
		case fuseGetattr:
			h.reply(unique, 0, append(make([]byte, 16), attr(node)...))
		case fuseOpen, fuseOpendir:
			h.reply(unique, 0, make([]byte, 16))
		case fuseRelease, fuseFlush:
			h.reply(unique, 0, nil)
		default:
			h.reply(unique, -int32(unix.ENOSYS), nil)
		}
	}
}

// attr is struct fuse_attr of the root directory (1) or the file (2).
func attr(node uint64) []byte {
	b := make([]byte, 88)
	mode := uint32(unix.S_IFREG | 0o755)
	if node == 1 {
		mode = unix.S_IFDIR | 0o755
	}
	binary.LittleEndian.PutUint64(b[0:], node)
	binary.LittleEndian.PutUint64(b[8:], 1<<20) // size
	binary.LittleEndian.PutUint32(b[60:], mode)
	binary.LittleEndian.PutUint32(b[64:], 1)    // nlink
	binary.LittleEndian.PutUint32(b[80:], 4096) // blksize
	return b
}

func (h *hangFS) reply(unique uint64, errno int32, body []byte) {
	b := make([]byte, 16, 16+len(body))
	binary.LittleEndian.PutUint32(b[0:], uint32(16+len(body)))
	binary.LittleEndian.PutUint32(b[4:], uint32(errno))
	binary.LittleEndian.PutUint64(b[8:], unique)
	_, _ = unix.Write(h.fd, append(b, body...)) // a request that was taken back cannot be answered
}

// TestHangingFile reads a file that never answers: the read passes its deadline, other keys go on, the key refuses, and
// closing does not wait.
func TestHangingFile(t *testing.T) {
	h := mountHangFS(t)
	unmounted := false
	defer func() {
		if !unmounted {
			h.unmount(t)
		}
	}()
	p := New[string, string, int](Options{Workers: 1})
	root, err := procfs.New("/proc").OpenRoot(uint32(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	read := func(context.Context) (int, error) {
		f, err := root.Open(filepath.Join(h.dir, "file"))
		if err != nil {
			return 0, err
		}
		defer f.Close()
		return f.ReadAt(make([]byte, 64), 0)
	}
	for i := range 3 {
		key := fmt.Sprint("hang", i)
		mustSubmit(t, p, key, 100*time.Millisecond, read)
		if r := take(t, p); r.Key != key || r.Err != ErrTimeout {
			t.Fatalf("%+v", r)
		}
		if _, err := submit(p, key, long, read); err != ErrStuck {
			t.Fatalf("after a hanging read: %v", err)
		}
	}
	select {
	case <-h.read:
	case <-time.After(5 * time.Second):
		t.Fatal("no read arrived at the file system: the jobs did not hang where they should")
	}
	for i := range 50 {
		mustSubmit(t, p, fmt.Sprint(i), long, func(context.Context) (int, error) { return i, nil })
		if r := take(t, p); r.Err != nil || r.Value != i {
			t.Fatalf("%+v", r)
		}
	}
	if s := p.Stats(); s.Stuck != 3 || s.Timeouts != 3 {
		t.Fatalf("%+v", s)
	}
	if n := h.poll.Load(); n != 0 {
		t.Errorf("asked the file for events %d times: were that not answered, every goroutine would wait", n)
	}
	begin := time.Now()
	p.Close(context.Background())
	if d := time.Since(begin); d > 5*time.Second {
		t.Fatalf("closing took %v", d)
	}
	h.unmount(t)
	unmounted = true
	eventually(t, "reads fail after unmounting", func() bool { return p.Stats().Stuck == 0 })
}
