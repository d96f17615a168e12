package procfs

import (
	"bytes"
	"context"
	"errors"
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// TestSameText compares memory of this process with what it was copied from.
func TestSameText(t *testing.T) {
	const size = 300 << 10 // more than one read
	text := make([]byte, size)
	for i := range text {
		text[i] = byte(i*7 + i>>12)
	}
	mem, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mem)
	copy(mem, text)
	start := unwind.Addr(uintptr(unsafe.Pointer(&mem[0])))
	file := bytes.NewReader(append([]byte("before"), text...))
	fs, pid := New("/proc"), uint32(os.Getpid())
	same := func(start, end unwind.Addr) error {
		return fs.SameText(context.Background(), pid, start, end, file, unwind.FileOffset(len("before")))
	}
	protect := func(prot int) {
		t.Helper()
		if err := unix.Mprotect(mem, prot); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		what string
		prot int
		want error
	}{
		{"no code", unix.PROT_READ, ErrNotText},
		{"writable", unix.PROT_READ | unix.PROT_WRITE | unix.PROT_EXEC, ErrNotText},
		{"text", unix.PROT_READ | unix.PROT_EXEC, nil},
	} {
		if protect(c.prot); !errors.Is(same(start, start+size), c.want) {
			t.Errorf("%s: %v", c.what, same(start, start+size))
		}
	}
	if err := same(start, start+size+1<<30); !errors.Is(err, ErrNotText) {
		t.Errorf("too much: %v", err)
	}
	if err := same(start-4096, start+4096); err == nil {
		t.Error("what lies before is no such memory")
	}
	if err := same(start+4096, start+8192); !errors.Is(err, ErrNotText) {
		t.Errorf("from another place in the file: %v", err)
	}
	protect(unix.PROT_READ | unix.PROT_EXEC)
	short := bytes.NewReader(text[:size-1])
	if err := fs.SameText(context.Background(), pid, start, start+size, short, 0); !errors.Is(err, ErrNotText) {
		t.Errorf("more than the file has: %v", err)
	}
	protect(unix.PROT_READ | unix.PROT_WRITE)
	mem[size-1]++
	if protect(unix.PROT_READ | unix.PROT_EXEC); !errors.Is(same(start, start+size), ErrNotText) {
		t.Error("a byte differs")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := fs.SameText(ctx, pid, start, start+size, file, 6); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if err := fs.SameText(context.Background(), 1<<30, start, start+size, file, 6); !errors.Is(err, ErrGone) {
		t.Errorf("no such process: %v", err)
	}
}
