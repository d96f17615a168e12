package process

import (
	"slices"
	"strings"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

const (
	// maxCandidates bounds how many mappings a File remembers as ways to open it.
	maxCandidates = 4
	// maxPaths bounds the paths of a File besides the first.
	maxPaths = 8
)

// Candidate is a mapping through which a file can be opened while its process lives.
type Candidate struct {
	PID        uint32
	Start, End unwind.Addr
	Offset     unwind.FileOffset
	Path       string
}

// File is a mapped file as the kernel identifies it. It is owned by an Executables.
type File struct {
	ID   FileID
	Path string // as first seen

	key        inodeKey
	refs       int      // mappings in lists that the Table holds
	next       *File    // with the same key, another generation or path
	paths      []string // others that the kernel told it by: hard links, and mounts that show it
	candidates []Candidate
	oldest     uint8 // index of the candidate to be replaced next
	owner      any   // the current *Executable[T]
}

// VDSO tells whether the file is the kernel's vdso, which is read from memory.
func (f *File) VDSO() bool { return f.Path == PathVDSO }

// Mapped returns how many mappings of the file are known.
func (f *File) Mapped() int { return f.refs }

// Candidates returns mappings to open the file through, the most recently seen first.
func (f *File) Candidates() []Candidate {
	n := len(f.candidates)
	out := make([]Candidate, 0, n)
	for i := range n {
		out = append(out, f.candidates[(int(f.oldest)+2*n-1-i)%n])
	}
	return out
}

// seen remembers a mapping of the file; fresh tells that its process was not among the candidates.
func (f *File) seen(m *MmapInfo, pid uint32) (fresh bool) {
	c := Candidate{PID: pid, Start: m.Start, End: m.End, Offset: m.Offset, Path: f.Path}
	if m.Path != f.Path {
		c.Path = m.Path
	}
	for i := range f.candidates {
		if f.candidates[i].PID == pid {
			f.candidates[i] = c
			return false
		}
	}
	if len(f.candidates) < maxCandidates {
		// The next to be replaced stays the first until the slice is full.
		f.candidates = append(f.candidates, c)
		f.oldest = 0
		return true
	}
	f.candidates[f.oldest] = c
	f.oldest = (f.oldest + 1) % maxCandidates
	return true
}

// inodeKey finds files. Length tells vdsos apart: a 32-bit process has another than a 64-bit one, and neither has an
// inode.
type inodeKey struct {
	major, minor uint32
	inode        uint64
	length       uint64
}

func keyOf(m *MmapInfo) inodeKey {
	if m.Path == PathVDSO {
		return inodeKey{length: uint64(m.End - m.Start)}
	}
	return inodeKey{major: m.File.Major, minor: m.File.Minor, inode: m.File.Inode}
}

// is tells whether a mapping is of f. With a generation the kernel's word is final. Without one (/proc/PID/maps) the
// path has to be the same too: a hard link under another name costs a second table, while taking two files for one
// (btrfs subvolumes repeat inode numbers, and a freed number is used again) would give wrong stacks. Any path will do that came with
// the generation. Of a process with another root the kernel's records have the path below that, and /proc/PID/maps has it in full.
func (f *File) is(m *MmapInfo) bool {
	if f.ID.Generation != 0 && m.File.Generation != 0 {
		return f.ID.Generation == m.File.Generation
	}
	return f.hasPath(m.Path, f.ID.Generation != 0 || m.File.Generation != 0)
}

// hasPath tells whether f was seen under a path; told: one of them is from the kernel's records.
func (f *File) hasPath(path string, told bool) bool {
	same := samePath
	if !told {
		same = func(a, b string) bool { return a == b }
	}
	path = Undeleted(path)
	return same(Undeleted(f.Path), path) || slices.ContainsFunc(f.paths, func(p string) bool { return same(p, path) })
}

// alsoAt remembers the path of a mapping that the kernel told to be of f, and returns how many bytes more f takes.
func (f *File) alsoAt(path string) (bytes int) {
	if path == f.Path || f.hasPath(path, true) {
		return 0
	}
	path = Undeleted(path)
	if len(f.paths) == maxPaths {
		bytes -= len(f.paths[0])
		f.paths = slices.Delete(f.paths, 0, 1)
	}
	f.paths = append(f.paths, path)
	return bytes + len(path)
}

// samePath tells whether one absolute path is the other, or ends with it: below a root of a process's own.
func samePath(a, b string) bool {
	if len(a) < len(b) {
		a, b = b, a
	}
	return a == b || strings.HasPrefix(b, "/") && strings.HasSuffix(a, b)
}
