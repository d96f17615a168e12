package jitcode

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// FileID is what tells one state of a file from others.
type FileID struct {
	Dev, Inode uint64
	Size       int64 // bytes
	MTime      int64 // ns since 1970
}

// Follower reads a file that its writer appends to, and notices when it has become another one: another inode, fewer
// bytes than were read, or other bytes at the beginning or before the place that was reached (the tool that writes a
// HotSpot's perf map overwrites the old one).
type Follower struct {
	seen FileID
	off  int64 // all before was read
	head []byte
	tail []byte
	end  int64 // of tail
}

const sampleBytes = 64 // of head and tail

// Offset is up to where the file was read.
func (f *Follower) Offset() int64 { return f.off }

// Advance says that n bytes more were read.
func (f *Follower) Advance(n int64) { f.off += n }

// Begin compares a file, opened anew or still open, with what was read. fresh tells that nothing of what was read counts
// any more, and that the file is read from its beginning; it is false for the first file. left is how many bytes there
// are to be read now.
func (f *Follower) Begin(r io.ReaderAt, id FileID) (fresh bool, left int64, err error) {
	switch {
	case f.off == 0 && f.seen == FileID{}:
	case id.Inode != f.seen.Inode || id.Dev != f.seen.Dev || id.Size < f.off:
		fresh = true
	case id != f.seen:
		same, err := f.sameBytes(r)
		if err != nil {
			return false, 0, err
		}
		fresh = !same
	}
	if fresh {
		*f = Follower{}
	}
	f.seen = id
	return fresh, max(id.Size-f.off, 0), nil
}

func (f *Follower) sameBytes(r io.ReaderAt) (bool, error) {
	var b [sampleBytes]byte
	for _, known := range []struct {
		bytes []byte
		at    int64
	}{{f.head, 0}, {f.tail, f.end - int64(len(f.tail))}} {
		now, err := readAt(r, b[:len(known.bytes)], known.at)
		if err != nil || !bytes.Equal(now, known.bytes) {
			return false, err
		}
	}
	return true, nil
}

// End remembers what stands at the beginning and before the place that was reached.
func (f *Follower) End(r io.ReaderAt) error {
	n := min(sampleBytes, f.off)
	head, err := readAt(r, make([]byte, n), 0)
	if err != nil {
		return err
	}
	tail, err := readAt(r, make([]byte, n), f.off-n)
	if err != nil {
		return err
	}
	f.head, f.tail, f.end = head, tail, f.off
	return nil
}

// Read fills b from the place that was reached, or as much of it as there is.
func (f *Follower) Read(r io.ReaderAt, b []byte) ([]byte, error) { return readAt(r, b, f.off) }

// readAt returns what there is; that a file ends is no error.
func readAt(r io.ReaderAt, b []byte, at int64) ([]byte, error) {
	n, err := r.ReadAt(b, at)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("reading at %d: %w", at, err)
	}
	return b[:n], nil
}
