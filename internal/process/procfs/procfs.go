// Package procfs reads what /proc says of processes, and opens the files that they map. It is the edge at which the
// collector touches targets: every call here may block for as long as a target likes (a process that holds its mmap lock,
// a file on a hanging network file system), so it belongs on a worker with a deadline.
//
// All of it is hostile: a process chooses its name, its command line, the names of the files that it maps and how many
// there are. What is read is bounded and nothing is trusted to be well formed.
package procfs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
)

// FS is a mounted proc file system.
type FS struct {
	root string
	// boottimeOffset is what the kernel adds to boot times when it shows them to this process; it is zero outside of
	// time namespaces.
	boottimeOffset int64 // ns
}

// New returns the proc file system mounted at root ("/proc", or where the host's is mounted in a container). It never
// fails: what cannot be read is reported when it is asked for.
func New(root string) *FS {
	fs := &FS{root: root}
	if b, err := fs.readSmall("self/timens_offsets"); err == nil {
		fs.boottimeOffset = parseBoottimeOffset(b)
	}
	return fs
}

// ErrGone tells that the process is not there any more.
var ErrGone = errors.New("process is gone")

// maxSmallFile bounds what is read of the files whose size the kernel or the target's owner keeps small.
const maxSmallFile = 64 << 10

// maxPIDs is the kernel's PID_MAX_LIMIT (include/linux/threads.h of Linux 6.1) on 64 bits.
const maxPIDs = 4 << 20

// PIDs lists the processes, in ascending order.
func (fs *FS) PIDs() ([]uint32, error) {
	d, err := os.Open(fs.root)
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	defer d.Close()
	var pids []uint32
	for len(pids) < maxPIDs {
		names, err := d.Readdirnames(4096)
		for _, name := range names {
			if pid, err := strconv.ParseUint(name, 10, 32); err == nil && pid > 0 {
				pids = append(pids, uint32(pid))
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("listing processes: %w", err)
		}
	}
	slices.Sort(pids)
	return pids, nil
}

// path returns the name of a file of a process.
func (fs *FS) path(pid uint32, name string) string {
	return fs.root + "/" + strconv.FormatUint(uint64(pid), 10) + "/" + name
}

// readSmall reads at most maxSmallFile bytes of a file under the root.
func (fs *FS) readSmall(name string) ([]byte, error) { return readHead(fs.root+"/"+name, maxSmallFile) }

// read reads at most limit bytes of a file of a process.
func (fs *FS) read(pid uint32, name string, limit int64) ([]byte, error) {
	b, err := readHead(fs.path(pid, name), limit)
	if err != nil {
		return nil, fmt.Errorf("reading %s of process %d: %w", name, pid, gone(err))
	}
	return b, nil
}

func readHead(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit))
}
