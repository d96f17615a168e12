package debuginfod

import (
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

const (
	suffix     = ".debug"    // of a file whose name is a build id
	tempPrefix = "download-" // of a file that is being written
	// staleAfter is when a temporary file that nobody has written to is what a process that has ended left. Any other would
	// have given it up by then.
	staleAfter = time.Hour
	// step is how much room is made at a time for a file whose size is not known.
	step = 16 << 20
)

// cache is a directory of files. They are not changed once they have their names; when each was last wanted is its time of
// modification. Other processes may add and remove files: nothing that is remembered of the directory is relied upon. It is
// first looked at, and made, when something is wanted of it.
type cache struct {
	dir   string
	limit int64
	now   func() time.Time

	mu       sync.Mutex // held while the disk is waited for
	promised int64      // bytes that files being downloaded have room for, and have not written
	looked   atomic.Bool

	// Whoever counts waits for no disk.
	evictions, corrupt, lost atomic.Uint64
	bytes, files             atomic.Int64
}

func newCache(dir string, limit int64, now func() time.Time) (*cache, error) {
	if dir == "" {
		return nil, errors.New("no directory for debug information")
	}
	return &cache{dir: dir, limit: limit, now: now}, nil
}

// look makes the directory, tidies it up and counts what it has, once. That it is full stands in nobody's way who reads.
func (c *cache) look() error {
	if c.looked.Load() {
		return nil
	}
	err := c.room(0)
	if f := asFailure(err); f != nil && f.reason != noSpace {
		return fmt.Errorf("%w: %w", ErrCache, err)
	}
	c.looked.Store(true)
	return nil
}

func (c *cache) path(id string) string { return filepath.Join(c.dir, id+suffix) }

// open returns the file of a build id. What is there by that name and is something else is removed.
func (c *cache) open(id string) (*os.File, error) {
	if err := c.look(); err != nil {
		return nil, err
	}
	name := c.path(id)
	f, size, err := openRegular(name, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("debug information of build id %s: %w", id, ErrNotCached)
	}
	if err != nil {
		return nil, fmt.Errorf("opening debug information of build id %s: %w", id, err)
	}
	if err := verify(f, size, id); err != nil {
		c.corrupt.Add(1)
		err = fmt.Errorf("debug information of build id %s: %w: %w", id, ErrNotCached, err)
		return nil, errors.Join(err, f.Close(), os.Remove(name))
	}
	now := c.now()
	_ = os.Chtimes(name, now, now) // it may be somebody else's, or gone just now; then it goes sooner, or is gone
	return f, nil
}

func openRegular(path, name string) (*os.File, int64, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	err = unix.SetNonblock(fd, false) // or package os would ask for events of it
	f := os.NewFile(uintptr(fd), name)
	var st fs.FileInfo
	if err == nil {
		st, err = f.Stat()
	}
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file", path)
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, st.Size(), nil
}

// verify tells whether a file is complete and has the build id that it should have.
func verify(r io.ReaderAt, size int64, id string) error {
	f, err := elffile.NewDebug(r, size)
	if err != nil {
		return failed(wrongID, "what came for build id %s: %w", id, err)
	}
	if got, _ := f.BuildIDs(); got != id {
		return failed(wrongID, "what came for build id %s has %q", id, got)
	}
	if len(f.Sections) == 0 {
		return failed(truncated, "no section headers: %w", elffile.ErrTruncated)
	}
	for _, s := range f.Sections {
		if end := uint64(s.Offset) + s.Size; s.Type != elf.SHT_NOBITS && s.Type != elf.SHT_NULL && (end < s.Size || end > uint64(size)) {
			return failed(truncated, "section %s: %w", s.Name, elffile.ErrTruncated)
		}
	}
	return nil
}

// entry is a file of the cache.
type entry struct {
	path string
	size int64
	used time.Time
}

// scan lists the files that have names, oldest first, and counts what those take that have none yet. Temporary files that
// somebody left are removed. Files that are not the cache's are left alone.
func (c *cache) scan() (all []entry, temporary int64, err error) {
	list, err := os.ReadDir(c.dir)
	if errors.Is(err, fs.ErrNotExist) { // somebody tidied up
		return nil, 0, os.MkdirAll(c.dir, 0o700)
	}
	if err != nil {
		return nil, 0, err
	}
	for _, e := range list {
		id, named := strings.CutSuffix(e.Name(), suffix)
		named = named && validID(id) == nil
		if !named && !strings.HasPrefix(e.Name(), tempPrefix) || !e.Type().IsRegular() {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, 0, err
		}
		path := filepath.Join(c.dir, e.Name())
		switch {
		case named:
			all = append(all, entry{path, info.Size(), info.ModTime()})
		case c.now().Sub(info.ModTime()) > staleAfter && remove(path):
			c.lost.Add(1)
		default:
			temporary += info.Size()
		}
	}
	slices.SortFunc(all, func(a, b entry) int {
		return cmp.Or(a.used.Compare(b.used), strings.Compare(a.path, b.path))
	})
	return all, temporary, nil
}

// remove tells whether this process removed a file.
func remove(path string) bool { return os.Remove(path) == nil }

// room makes room for so many bytes more, by removing what was not wanted for longest, and promises them.
func (c *cache) room(bytes int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	all, total, err := c.scan()
	if err != nil {
		return failed(disk, "looking into the cache: %w", err)
	}
	total += c.promised + bytes
	kept, files := int64(0), len(all)
	for _, e := range all {
		total += e.size
		kept += e.size
	}
	defer func() {
		c.bytes.Store(kept)
		c.files.Store(int64(files))
	}()
	for _, e := range all {
		if total <= c.limit {
			break
		}
		if err := os.Remove(e.path); err == nil {
			c.evictions.Add(1)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return failed(disk, "making room in the cache: %w", err)
		}
		total -= e.size
		kept -= e.size
		files--
	}
	if total > c.limit {
		return failed(noSpace, "%d bytes do not fit the cache of %d beside what is being downloaded", bytes, c.limit)
	}
	c.promised += bytes
	return nil
}

// temporary is a file that is being written.
type temporary struct {
	c    *cache
	f    *os.File
	left int64 // promised and not written
}

// create begins a file of so many bytes, 0 if that is not known.
func (c *cache) create(bytes int64) (*temporary, error) {
	if err := c.room(bytes); err != nil {
		return nil, err
	}
	t := &temporary{c: c, left: bytes}
	f, err := os.CreateTemp(c.dir, tempPrefix)
	if err != nil {
		t.forgo()
		return nil, failed(disk, "making a file in the cache: %w", err)
	}
	t.f = f
	return t, nil
}

// forgo gives back what was promised and is not needed.
func (t *temporary) forgo() {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	t.c.promised -= t.left
	t.left = 0
}

func (t *temporary) write(b []byte) error {
	n := int64(len(b))
	if n > t.left {
		more := max(n-t.left, min(step, t.c.limit/16))
		if err := t.c.room(more); err != nil {
			return err
		}
		t.left += more
	}
	if _, err := t.f.Write(b); err != nil {
		if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
			return failed(noSpace, "writing to the cache: %w", err)
		}
		return failed(disk, "writing to the cache: %w", err)
	}
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	t.left -= n
	t.c.promised -= n
	return nil
}

// commit gives the file its name, if it is what it should be, and opens it for reading.
func (t *temporary) commit(id string, size int64) (*os.File, error) {
	if err := verify(t.f, size, id); err != nil {
		return nil, err
	}
	// After a crash of the machine it must not be there with holes.
	if err := t.f.Sync(); err != nil {
		return nil, failed(disk, "writing to the cache: %w", err)
	}
	name := t.c.path(id)
	f, _, err := openRegular(t.f.Name(), name)
	if err != nil {
		return nil, failed(disk, "opening a file of the cache: %w", err)
	}
	if err := os.Rename(t.f.Name(), name); err != nil {
		return nil, failed(disk, "naming a file of the cache: %w", errors.Join(err, f.Close()))
	}
	now := t.c.now()
	_ = os.Chtimes(name, now, now) // as in open
	return f, nil
}

// discard ends the writing; what has no name yet is removed.
func (t *temporary) discard() {
	t.forgo()
	_ = t.f.Close() // an error of writing was seen before
	_ = os.Remove(t.f.Name())
}
