package engine

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/hostprofiles/hostprofiles/internal/symbolize/dwarf"
)

// maxSpill bounds what all decompressed sections of debug information take on disk.
const maxSpill = 4 << 30

// spills are temporary files without a name for decompressed debug information: it is many times larger than the memory that there
// is for it, and decompressing it anew for each batch would cost more than anything else.
type spills struct {
	dirs []string
	left atomic.Int64
}

func newSpills() *spills {
	s := &spills{dirs: []string{os.TempDir(), "/var/tmp"}}
	s.left.Store(maxSpill)
	return s
}

// create makes a file. It is called on workers.
func (s *spills) create(size uint64) (dwarf.Spill, error) {
	if size > maxSpill || s.left.Add(-int64(size)) < 0 {
		if size <= maxSpill {
			s.left.Add(int64(size))
		}
		return nil, fmt.Errorf("%d bytes: no more than %d in all", size, int64(maxSpill))
	}
	var errs []error
	for _, dir := range s.dirs {
		f, err := temporary(dir, size)
		if err == nil {
			return &spilled{File: f, of: s, size: int64(size)}, nil
		}
		errs = append(errs, fmt.Errorf("making a temporary file in %s: %w", dir, err))
	}
	s.left.Add(int64(size))
	return nil, errors.Join(errs...)
}

// minFree is the part of a file system that is left to others: one in so many bytes.
const minFree = 10

// errInMemory is why a folder is not used for what takes too much memory.
var errInMemory = errors.New("it is in memory")

// temporary makes a file without a name, unless its file system is memory or nearly full.
func temporary(dir string, size uint64) (*os.File, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return nil, err
	}
	if st.Type == unix.TMPFS_MAGIC || st.Type == unix.RAMFS_MAGIC {
		return nil, errInMemory
	}
	if block := uint64(st.Bsize); size/block+st.Blocks/minFree > st.Bavail {
		return nil, unix.ENOSPC
	}
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err == nil {
		return os.NewFile(uintptr(fd), dir), nil
	}
	f, err := os.CreateTemp(dir, "hostprofiles-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// spilled is one file.
type spilled struct {
	*os.File
	of   *spills
	size int64
}

// Close gives the room back.
func (s *spilled) Close() error {
	s.of.left.Add(s.size)
	return s.File.Close()
}
