package jitcode

import (
	"errors"
	"io"
	"strings"
	"testing"
)

type broken struct{ err error }

func (b broken) ReadAt([]byte, int64) (int, error) { return 0, b.err }

func TestFollower(t *testing.T) {
	long := strings.Repeat("0123456789", 30)
	var f Follower
	id := FileID{Dev: 1, Inode: 2}
	state := func(text string, mtime int64) (io.ReaderAt, FileID) {
		id.Size, id.MTime = int64(len(text)), mtime
		return strings.NewReader(text), id
	}
	for i, c := range []struct {
		text  string
		mtime int64
		inode uint64
		fresh bool
		left  int64
	}{
		{"", 1, 2, false, 0},
		{long, 2, 2, false, 300},
		{long, 3, 2, false, 0},                    // touched
		{long + "more", 3, 2, false, 4},           // appended
		{long + "mor", 3, 2, true, 303},           // truncated
		{"x" + long[1:] + "mor", 4, 2, true, 303}, // overwritten, as long as before
		{"x" + long[1:] + "mol" + long, 5, 2, true, 603},
		{"x" + long[1:] + "mol" + long, 5, 3, true, 603}, // replaced
		{"", 6, 3, true, 0},
		{"short", 7, 3, false, 5},
		{"short and long", 8, 3, false, 9},
		{"skort and long", 9, 3, true, 14},
	} {
		id.Inode = c.inode
		r, id := state(c.text, c.mtime)
		fresh, left, err := f.Begin(r, id)
		if err != nil || fresh != c.fresh || left != c.left {
			t.Errorf("%d: %v %d %v", i, fresh, left, err)
		}
		b, err := f.Read(r, make([]byte, 1000))
		if err != nil || string(b) != c.text[len(c.text)-int(left):] {
			t.Errorf("%d: read %q %v", i, b, err)
		}
		f.Advance(left)
		if err := f.End(r); err != nil || f.Offset() != int64(len(c.text)) {
			t.Errorf("%d: %d %v", i, f.Offset(), err)
		}
	}
	bad := errors.New("bad disk")
	id.MTime++
	if _, _, err := f.Begin(broken{bad}, id); !errors.Is(err, bad) {
		t.Error(err)
	}
	if err := f.End(broken{bad}); !errors.Is(err, bad) {
		t.Error(err)
	}
}
