package elffile

import (
	"bytes"
	"debug/elf"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

func TestBudget(t *testing.T) {
	b := NewBudget("file", 100)
	if err := b.Take(60, "part"); err != nil || b.Left() != 40 || b.Used() != 60 {
		t.Errorf("%v, %d left", err, b.Left())
	}
	err := b.Take(41, "part")
	var large *TooLargeError
	if !errors.As(err, &large) || !errors.Is(err, ErrTooLarge) || large.File != "file" || large.Part != "part" || b.Used() != 60 {
		t.Errorf("%v, %d used", err, b.Used())
	}
	for _, n := range []uint64{1 << 63, 1<<64 - 1} {
		if b.Take(n, "part") == nil {
			t.Errorf("%d bytes taken", n)
		}
	}
	b.Give(30)
	b.Keep(50) // has 30
	if b.Used() != 30 {
		t.Errorf("%d used", b.Used())
	}
	if err := b.Take(70, "part"); err != nil || b.Left() != 0 {
		t.Errorf("%v, %d left", err, b.Left())
	}
	b.Keep(10)
	b.Give(1000)
	if b.Used() != 0 || b.Left() != 100 {
		t.Errorf("%d used, %d left", b.Used(), b.Left())
	}
	var none *Budget
	none.Give(1)
	none.Keep(1)
	if none.Take(1<<63, "part") != nil || none.Left() != 1<<64-1 || none.Used() != 0 {
		t.Error("no budget refuses")
	}
}

// TestBudgetCollects takes and gives back many times the budget: the heap stays below it.
func TestBudgetCollects(t *testing.T) {
	const limit, piece = 64 << 20, 16 << 20
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	before := m.HeapAlloc
	b := NewBudget("file", limit)
	for range 40 {
		if err := b.Take(piece, "part"); err != nil {
			t.Fatal(err)
		}
		p := make([]byte, piece)
		runtime.ReadMemStats(&m)
		if grown := int64(m.HeapAlloc) - int64(before); grown > limit+1<<20 {
			t.Fatalf("the heap has grown by %d bytes", grown)
		}
		runtime.KeepAlive(p)
		b.Give(piece)
	}
}

// TestSectionBudget reads sections, compressed or not, with and without room for them.
func TestSectionBudget(t *testing.T) {
	const size = 1 << 20
	data := bytes.Repeat([]byte("frame..."), size/8)
	bomb := deflate(t, make([]byte, size))
	img := image(elf.EM_X86_64,
		testSection{".plain", elf.SHT_PROGBITS, 0, data},
		testSection{".zlib", elf.SHT_PROGBITS, elf.SHF_COMPRESSED, chdr(elf.COMPRESS_ZLIB, size, bomb)},
	)
	f, err := New(bytes.NewReader(img), int64(len(img)))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".plain", ".zlib"} {
		b := NewBudget("some file", 4*size)
		if got, err := f.Within(b).SectionData(f.Section(name), size); err != nil || len(got) != size || b.Used() != size {
			t.Errorf("%s: %d bytes, %v, %d counted", name, len(got), err, b.Used())
		}
		b = NewBudget("some file", size-1)
		_, err := f.Within(b).SectionData(f.Section(name), size)
		var large *TooLargeError
		if !errors.As(err, &large) || !strings.Contains(err.Error(), "some file") || !strings.Contains(err.Error(), name) || b.Used() != 0 {
			t.Errorf("%s: %v, %d counted", name, err, b.Used())
		}
	}
}

// TestSparseSection has a section of 2 GiB that takes no room on disk.
func TestSparseSection(t *testing.T) {
	img := image(elf.EM_X86_64, testSection{name: ".hole", typ: elf.SHT_PROGBITS, data: []byte{0}})
	path := filepath.Join(t.TempDir(), "sparse")
	if err := os.WriteFile(path, img, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 2<<30); err != nil {
		t.Fatal(err)
	}
	r, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	f, err := New(r, 2<<30)
	if err != nil {
		t.Fatal(err)
	}
	s := f.Section(".hole")
	s.Size = 1 << 30
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	before := m.TotalAlloc
	_, err = f.Within(NewBudget(path, 64<<20)).SectionData(s, 1<<31)
	runtime.ReadMemStats(&m)
	if !errors.Is(err, ErrTooLarge) || m.TotalAlloc-before > 1<<20 {
		t.Errorf("%v, %d bytes allocated", err, m.TotalAlloc-before)
	}
}

// TestZstdWindow reads a section whose window is too large for some budgets: they are refused as too small, and nothing else
// is.
func TestZstdWindow(t *testing.T) {
	const window, size = 8 << 20, 12 << 20
	var zst bytes.Buffer
	w, err := zstd.NewWriter(&zst, zstd.WithWindowSize(window), zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	img := image(elf.EM_X86_64, testSection{".zstd", elf.SHT_PROGBITS, elf.SHF_COMPRESSED, chdr(elf.COMPRESS_ZSTD, size, zst.Bytes())})
	f, err := New(bytes.NewReader(img), int64(len(img)))
	if err != nil {
		t.Fatal(err)
	}
	for budget, fits := range map[uint64]bool{16 << 20: false, 24 << 20: false, 128 << 20: true} {
		b := NewBudget("file", budget)
		got, err := f.Within(b).SectionData(f.Section(".zstd"), size)
		var large *TooLargeError
		if fits && (err != nil || len(got) != size) || !fits && (!errors.As(err, &large) || b.Used() != 0) {
			t.Errorf("%d MiB: %d bytes, %v, %d in use", budget>>20, len(got), err, b.Used())
		}
	}
	// What goes elsewhere needs the window only.
	for budget, fits := range map[uint64]bool{4 << 20: false, 16 << 20: false, 31 << 20: false, 40 << 20: true} {
		b := NewBudget("file", budget)
		var out bytes.Buffer
		err := f.Within(b).Decompress(&out, f.Section(".zstd"), size)
		var large *TooLargeError
		if fits && (err != nil || out.Len() != size) || !fits && (!errors.As(err, &large) || large.Bytes < 2*window) || b.Used() != 0 {
			t.Errorf("%d MiB, written: %d bytes, %v, %d in use", budget>>20, out.Len(), err, b.Used())
		}
	}
	broken := bytes.Clone(img)
	broken[bytes.Index(img, zst.Bytes())] ^= 0xff
	if f, err = New(bytes.NewReader(broken), int64(len(broken))); err != nil {
		t.Fatal(err)
	}
	_, err = f.Within(NewBudget("file", 16<<20)).SectionData(f.Section(".zstd"), size)
	if err == nil || errors.Is(err, ErrTooLarge) {
		t.Errorf("what is no stream: %v", err)
	}
	err = f.Within(NewBudget("file", 16<<20)).Decompress(io.Discard, f.Section(".zstd"), size)
	if err == nil || errors.Is(err, ErrTooLarge) {
		t.Errorf("what is no stream, written: %v", err)
	}
}
