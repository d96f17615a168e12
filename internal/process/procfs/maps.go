package procfs

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/hostprofiles/hostprofiles/internal/process"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// MaxMaps bounds how many executable mappings of one process are read. The kernel's default for all mappings of a process
// (vm.max_map_count) is 65,530.
const MaxMaps = 1 << 17

// maxMapsLine is longer than any line: a path is shorter than a page (d_path), and a newline in it takes four bytes.
const maxMapsLine = 32 << 10

// ErrMapsLine tells of a line of /proc/PID/maps that could not be understood.
var ErrMapsLine = errors.New("malformed line in maps")

// Maps reads the executable mappings of a process. When the thread-group leader has exited while other threads go on,
// the kernel shows no mappings under the pid any more; then those of another thread are read. No mappings and no error
// mean a kernel thread or a zombie.
func (fs *FS) Maps(pid uint32) ([]process.MmapInfo, error) {
	maps, err := fs.readMaps(pid, "maps")
	if err != nil || len(maps) > 0 {
		return maps, err
	}
	for _, tid := range fs.someThreads(pid) {
		if tid == pid {
			continue
		}
		if maps, err = fs.readMaps(pid, "task/"+strconv.FormatUint(uint64(tid), 10)+"/maps"); err == nil && len(maps) > 0 {
			return maps, nil
		}
	}
	return nil, nil
}

// someThreads lists a few threads of a process; any one that lives will do.
func (fs *FS) someThreads(pid uint32) []uint32 {
	d, err := os.Open(fs.path(pid, "task"))
	if err != nil {
		return nil
	}
	defer d.Close()
	names, err := d.Readdirnames(8)
	if err != nil {
		return nil
	}
	var tids []uint32
	for _, name := range names {
		if tid, err := strconv.ParseUint(name, 10, 32); err == nil {
			tids = append(tids, uint32(tid))
		}
	}
	return tids
}

func (fs *FS) readMaps(pid uint32, name string) ([]process.MmapInfo, error) {
	f, err := os.Open(fs.path(pid, name))
	if err != nil {
		return nil, fmt.Errorf("reading maps of process %d: %w", pid, gone(err))
	}
	defer f.Close()
	maps, err := mapsOf(f)
	if err != nil {
		return nil, fmt.Errorf("reading maps of process %d: %w", pid, gone(err))
	}
	return maps, nil
}

// mapsOf reads a maps file. The kernel writes it piece by piece, and once the process has exited or begun another program it has
// no more to say through a file that was opened before: what was read until then is a part of the mappings only, and an error.
func mapsOf(f interface {
	io.Reader
	io.ReaderAt
}) ([]process.MmapInfo, error) {
	maps, err := ParseMaps(f, MaxMaps)
	if err != nil || len(maps) == 0 {
		return nil, err
	}
	if n, err := f.ReadAt(make([]byte, 1), 0); n == 0 {
		return nil, errors.Join(ErrGone, err)
	}
	return maps, nil
}

// ParseMaps reads the executable mappings from the text of /proc/PID/maps, at most limit of them. It fails on the first
// line that it does not understand: what cannot be parsed is no maps file.
func ParseMaps(r io.Reader, limit int) ([]process.MmapInfo, error) {
	var maps []process.MmapInfo
	var last string // most neighbours are of the same file; its path is kept once
	err := eachMap(r, func(line []byte) (bool, error) {
		m, path, err := parseMapsLine(line)
		if err != nil {
			return false, err
		}
		if !m.Exec || m.Start > lastUserAddr {
			return true, nil // [vsyscall] is no mapping of the process
		}
		if string(path) != last {
			last = unescape(string(path))
		}
		m.Path = last
		m.Anonymous = process.IsAnonymous(last)
		maps = append(maps, m)
		return len(maps) < limit, nil
	})
	return maps, err
}

// lastUserAddr is the end of the lower half of the address space on both architectures.
const lastUserAddr = unwind.Addr(1<<63 - 1)

// eachMap calls f with every line until f returns false or an error.
func eachMap(r io.Reader, f func(line []byte) (bool, error)) error {
	b := bufio.NewReaderSize(r, maxMapsLine)
	for {
		line, err := b.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return fmt.Errorf("%w: longer than %d bytes", ErrMapsLine, maxMapsLine)
		case err != nil && !errors.Is(err, io.EOF):
			return err
		}
		if line = bytes.TrimSuffix(line, []byte("\n")); len(line) > 0 {
			if more, ferr := f(line); ferr != nil || !more {
				return ferr
			}
		}
		if err != nil {
			return nil
		}
	}
}

// parseMapsLine parses one line, as show_map_vma() in fs/proc/task_mmu.c of Linux 6.1 prints it:
//
//	start-end perms offset major:minor inode      path
//	7f5a1c000000-7f5a1c021000 r-xp 00002000 fe:00 247278                     /usr/bin/head
//
// The path is returned apart, still escaped and in line's memory.
func parseMapsLine(line []byte) (m process.MmapInfo, path []byte, err error) {
	p := fields{rest: line}
	m.Start = unwind.Addr(p.number(16, '-'))
	m.End = unwind.Addr(p.number(16, ' '))
	perms := p.until(' ')
	m.Offset = unwind.FileOffset(p.number(16, ' '))
	m.File.Major = uint32(p.number(16, ':'))
	m.File.Minor = uint32(p.number(16, ' '))
	inode, path, _ := bytes.Cut(p.rest, []byte(" "))
	m.File.Inode = p.parse(inode, 10)
	if p.bad || len(perms) != 4 || m.Start >= m.End {
		return process.MmapInfo{}, nil, fmt.Errorf("%w: %q", ErrMapsLine, clip(line))
	}
	m.Exec = perms[2] == 'x'
	return m, bytes.TrimLeft(path, " "), nil
}

// fields takes a line apart; bad is set, and stays set, when something is missing.
type fields struct {
	rest []byte
	bad  bool
}

func (p *fields) until(sep byte) []byte {
	i := bytes.IndexByte(p.rest, sep)
	if i < 0 {
		p.bad = true
		return nil
	}
	field := p.rest[:i]
	p.rest = p.rest[i+1:]
	return field
}

func (p *fields) number(base int, sep byte) uint64 { return p.parse(p.until(sep), base) }

func (p *fields) parse(digits []byte, base int) uint64 {
	// The conversion does not allocate: the compiler sees that the string does not escape.
	n, err := strconv.ParseUint(string(digits), base, 64)
	if err != nil {
		p.bad = true
	}
	return n
}

// unescape undoes what seq_path() does to newlines, the only character that it escapes in maps. A file whose name has
// the four characters \012 looks the same; OpenMapped tries both.
func unescape(path string) string { return strings.ReplaceAll(path, `\012`, "\n") }

// clip shortens hostile text for an error message.
func clip(b []byte) []byte { return b[:min(len(b), 200)] }
