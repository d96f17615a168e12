package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
	"github.com/hostprofiles/hostprofiles/internal/unwind/tables"
	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
)

// withFrames is f with a .eh_frame that claims another size.
func withFrames(t *testing.T, size uint64) *elffile.File {
	t.Helper()
	f := unwindtest.Open(t, "/proc/self/exe").Within(nil)
	f.Sections = slices.DeleteFunc(slices.Clone(f.Sections), func(s elffile.Section) bool { return s.Name == ".eh_frame" })
	f.Sections = append(f.Sections, elffile.Section{Name: ".eh_frame", Type: 1, Size: size})
	return f
}

// TestLargeBuilds starts builds that are large by their headers: one runs at a time, and small ones beside it.
func TestLargeBuilds(t *testing.T) {
	b := newBuilds(256 << 20)
	if b.bytes != 64<<20 {
		t.Errorf("%d bytes", b.bytes)
	}
	var running, most atomic.Int32
	var done sync.WaitGroup
	for range 4 {
		f := withFrames(t, 60<<20) // more than the file has: an error, but no reason not to use the rest
		done.Go(func() {
			err := b.build(t.Context(), "large", f, func(table *unwind.Table, _ tables.Info) error {
				n := running.Add(1)
				for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
				}
				time.Sleep(20 * time.Millisecond)
				running.Add(-1)
				if len(table.Rows) == 0 {
					return errors.New("no rows")
				}
				return nil
			})
			if !errors.Is(err, elffile.ErrTruncated) {
				t.Error(err)
			}
		})
	}
	done.Wait()
	if most.Load() != 1 {
		t.Errorf("%d large builds at a time", most.Load())
	}
	release, err := b.acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	used := false
	small := unwindtest.Open(t, "../../testdata/elf/gcc_amd64.elf")
	err = b.build(t.Context(), "small", small, func(table *unwind.Table, _ tables.Info) error {
		used = len(table.Rows) > 0
		return nil
	})
	if err != nil || !used {
		t.Errorf("a small build beside a large one: %v, used: %v", err, used)
	}
}

// TestLargeBuildWaits gives up at its ctx's end, and does not wait for one whose ctx has ended.
func TestLargeBuildWaits(t *testing.T) {
	b := newBuilds(256 << 20)
	hanging, end := context.WithCancel(t.Context())
	release, err := b.acquire(hanging)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	err = b.build(ctx, "large", withFrames(t, 60<<20), func(*unwind.Table, tables.Info) error {
		t.Error("two large builds at a time")
		return nil
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	end()
	next, err := b.acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	release() // of the one that hung: the next one is not touched
	select {
	case b.large <- struct{}{}:
		t.Error("two large builds at a time")
	default:
	}
	next()
	if len(b.large) != 0 {
		t.Error("not released")
	}
}

// TestUnderestimatedBuild has a file whose headers promise little: what is found to be large is built again as such.
func TestUnderestimatedBuild(t *testing.T) {
	le := binary.LittleEndian
	// a CIE and functions with two rows each, found by PT_GNU_EH_FRAME alone, without section headers
	const functions, text = 20000, 0x1000000
	frames := le.AppendUint32(nil, 16)
	frames = append(le.AppendUint32(frames, 0), 1, 0, 1, 0x78, 16, 0x0c, 7, 8, 0x90, 1, 0, 0)
	for i := range functions {
		at := len(frames)
		frames = le.AppendUint32(frames, 24)
		frames = le.AppendUint32(frames, uint32(at+4))
		frames = le.AppendUint64(le.AppendUint64(frames, text+16*uint64(i)), 16)
		frames = append(frames, 0x44, 0x0e, byte(16+8*(i%8)), 0) // advance 4, CFA offset
	}
	const headers = 64 + 3*56
	header := append([]byte{1, 0x04, 0xff, 0xff}, le.AppendUint64(nil, headers+12)...)
	img := make([]byte, headers, headers+len(header)+len(frames)+4)
	img = append(append(append(img, header...), frames...), 0, 0, 0, 0)
	copy(img, "\x7fELF\x02\x01\x01")
	le.PutUint16(img[16:], 3)
	le.PutUint16(img[18:], 62)
	le.PutUint64(img[32:], 64)
	le.PutUint16(img[54:], 56)
	le.PutUint16(img[56:], 3)
	program := func(i int, typ, flags uint32, off, addr, size uint64) {
		p := img[64+56*i:]
		le.PutUint32(p, typ)
		le.PutUint32(p[4:], flags)
		for j, v := range []uint64{off, addr, addr, size, size, 1} {
			le.PutUint64(p[8+8*j:], v)
		}
	}
	program(0, 1, 4, 0, 0, uint64(len(img)))
	program(1, 1, 5, 0, text, 16*functions)
	program(2, 0x6474e550, 4, headers, headers, 12)
	f, err := elffile.New(bytes.NewReader(img), int64(len(img)))
	if err != nil {
		t.Fatal(err)
	}
	b := newBuilds(buildShare * 4 << 20)
	if n := tables.Estimate(f); n > b.bytes/smallShare {
		t.Fatalf("estimated at %d bytes", n)
	}
	rows := 0
	err = b.build(t.Context(), "file", f, func(table *unwind.Table, _ tables.Info) error {
		rows = len(table.Rows)
		if len(b.large) != 1 {
			t.Error("not built as a large one")
		}
		return nil
	})
	if err != nil || rows != 2*functions+1 {
		t.Errorf("%d rows, %v", rows, err)
	}
}

// TestLargeSymbols has a file whose compressed symbols need more than a small budget: they are read when nothing else that is
// large is.
func TestLargeSymbols(t *testing.T) {
	unwindtest.Need(t, "gcc", "xz", "objcopy")
	path := filepath.Join(t.TempDir(), "file")
	cmd := exec.Command("sh", "-ec", `
		echo 'int main(void) { return 0; }' | gcc -x c -o "$0.whole" -
		xz --keep --stdout "$0.whole" > "$0.xz" # asks for a dictionary of 8 MiB
		objcopy --strip-all --add-section .gnu_debugdata="$0.xz" "$0.whole" "$0"`, path)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	f := unwindtest.Open(t, path)
	b := newBuilds(128 << 20)
	release, err := b.acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if names, err := b.symbols(ctx, path, f); !errors.Is(err, context.DeadlineExceeded) || names == nil {
		t.Errorf("beside something else that is large: %v", err)
	}
	release()
	if names, err := b.symbols(t.Context(), path, f); err != nil || !names.HasSymbols() {
		t.Error(err)
	}
	if len(b.large) != 0 {
		t.Error("not released")
	}
}
