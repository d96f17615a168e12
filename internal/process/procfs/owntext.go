package procfs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// MaxOwnText bounds how much memory of a process SameText compares, in bytes.
const MaxOwnText = 64 << 20

// ErrNotText tells that memory cannot be the unchanged code of a file: it can be written to, is shared, or holds something else.
var ErrNotText = errors.New("not the code of the file")

// SameText compares memory of a process, all of it, with a file from offset on. The error is nil if the memory is private and
// executable and cannot be written to, and holds what the file holds. While that is so nobody can change it but by making it
// writable, and executable again after that. It may hang like all reads of a target's memory. Errors other than ErrNotText
// and ErrGone say nothing of the memory.
func (fs *FS) SameText(ctx context.Context, pid uint32, start, end unwind.Addr, file io.ReaderAt, offset unwind.FileOffset) error {
	if start >= end || end-start > MaxOwnText {
		return fmt.Errorf("comparing %d bytes of process %d: %w", end-start, pid, ErrNotText)
	}
	if err := fs.onlyExecutable(pid, start, end); err != nil {
		return err
	}
	mem, err := os.Open(fs.path(pid, "mem"))
	if err != nil {
		return fmt.Errorf("reading memory of process %d: %w", pid, gone(err))
	}
	defer mem.Close()
	var is, want [64 << 10]byte
	for at := uint64(0); at < uint64(end-start); {
		n := min(uint64(end-start)-at, uint64(len(is)))
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("comparing memory of process %d: %w", pid, err)
		}
		if _, err := mem.ReadAt(is[:n], int64(uint64(start)+at)); err != nil {
			return fmt.Errorf("reading memory of process %d: %w", pid, lost(err))
		}
		if _, err := file.ReadAt(want[:n], int64(uint64(offset)+at)); errors.Is(err, io.EOF) {
			return fmt.Errorf("comparing memory of process %d with the end of the file: %w", pid, ErrNotText)
		} else if err != nil {
			return fmt.Errorf("reading the file that process %d has mapped: %w", pid, err)
		}
		if !bytes.Equal(is[:n], want[:n]) {
			return fmt.Errorf("comparing memory of process %d: %w", pid, ErrNotText)
		}
		at += n
	}
	// It was not writable all the time, if nobody made it so meanwhile; who did had to make it executable again, which the
	// kernel tells of.
	return fs.onlyExecutable(pid, start, end)
}

// lost tells apart why memory cannot be read: at its end the process has none (0 bytes, which Go calls EOF), and what it has unmapped
// cannot be read (EIO). mem_rw() in fs/proc/base.c of Linux 6.1.
func lost(err error) error {
	if errors.Is(err, unix.EIO) {
		return fmt.Errorf("%w (%w)", ErrNotText, err)
	}
	return ended(err)
}

// ended is gone for reads of a process's memory.
func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w (%w)", ErrGone, err)
	}
	return gone(err)
}

// onlyExecutable fails unless all of the range is anonymous memory that is readable, executable and private, and not writable.
func (fs *FS) onlyExecutable(pid uint32, start, end unwind.Addr) error {
	f, err := os.Open(fs.path(pid, "maps"))
	if err != nil {
		return fmt.Errorf("reading maps of process %d: %w", pid, gone(err))
	}
	defer f.Close()
	err = eachMap(f, func(line []byte) (bool, error) {
		m, _, err := parseMapsLine(line)
		if err != nil || m.End <= start {
			return err == nil, err
		}
		perms := bytes.Fields(line)[1] // it is there, or the line would not have been understood
		if m.Start > start || m.File.Inode != 0 || string(perms) != "r-xp" {
			return false, nil
		}
		start = m.End
		return start < end, nil
	})
	if err == nil && start < end {
		err = fmt.Errorf("looking at memory of process %d: %w", pid, ErrNotText)
	}
	return gone(err)
}
