package procfs

import (
	"fmt"
	"os"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// Memory reads the memory of one incarnation of a process: after another exec it reads nothing. Reads may hang like all reads of a
// target's memory.
type Memory struct {
	pid  uint32
	file *os.File
}

// OpenMemory opens the memory of the process that started at start, in ns of CLOCK_BOOTTIME; ErrGone if it is no more.
func (fs *FS) OpenMemory(pid uint32, start uint64) (*Memory, error) {
	f, err := os.Open(fs.path(pid, "mem"))
	if err != nil {
		return nil, fmt.Errorf("reading memory of process %d: %w", pid, gone(err))
	}
	// the memory is the process's that the pid stood for then, whatever happens from now on
	stat, err := fs.Stat(pid)
	if err == nil && start != 0 && stat.StartTime/1e7 != start/1e7 {
		err = ErrGone
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("reading memory of process %d: %w", pid, err)
	}
	return &Memory{pid, f}, nil
}

// Read implements unwind.Memory.
func (m *Memory) Read(a unwind.Addr, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if int64(a) < 0 {
		return fmt.Errorf("reading %d bytes of process %d at %#x: no user address", len(b), m.pid, uint64(a))
	}
	if _, err := m.file.ReadAt(b, int64(a)); err != nil {
		return fmt.Errorf("reading %d bytes of process %d at %#x: %w", len(b), m.pid, uint64(a), ended(err))
	}
	return nil
}

// Close ends reading.
func (m *Memory) Close() error { return m.file.Close() }
