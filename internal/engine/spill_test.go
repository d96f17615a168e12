package engine

import (
	"errors"
	"os"
	"testing"
)

// TestSpills makes temporary files until there is no more room for them, and gives it back.
func TestSpills(t *testing.T) {
	s := newSpills()
	s.dirs = []string{"/nonexistent", t.TempDir()}
	a, err := s.create(1 << 20)
	if errors.Is(err, errInMemory) {
		t.Skip("not supported: the folder for temporary files is in memory: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Write([]byte("debug")); err != nil {
		t.Fatal(err)
	}
	var b [3]byte
	if _, err := a.ReadAt(b[:], 2); err != nil || string(b[:]) != "bug" {
		t.Errorf("%q, %v", b, err)
	}
	if left, err := os.ReadDir(s.dirs[1]); err != nil || len(left) != 0 {
		t.Errorf("%v, %v: the file has a name", left, err)
	}
	for _, size := range []uint64{maxSpill + 1, maxSpill - 1<<20 + 1, 1 << 63, 1<<64 - 1} {
		if f, err := s.create(size); err == nil {
			t.Errorf("%d bytes more: %v", size, f.Close())
		}
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if n := s.left.Load(); n != maxSpill {
		t.Errorf("%d bytes left", n)
	}
	if f, err := temporary("/dev/shm", 1); !errors.Is(err, errInMemory) {
		t.Errorf("a file in memory: %v, %v", f, err)
	}
}
