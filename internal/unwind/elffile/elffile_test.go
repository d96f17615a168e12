package elffile

import (
	"bytes"
	"compress/zlib"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

func open(t testing.TB, path string) *File {
	t.Helper()
	r, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	st, err := r.Stat()
	if err != nil {
		t.Fatal(err)
	}
	f, err := New(r, st.Size())
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return f
}

// TestAgainstDebugELF compares everything with the standard library's reader, on the test's own binary and on what the
// C compiler makes.
func TestAgainstDebugELF(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	paths := []string{self, compile(t, "-g", "-gz=zlib"), compile(t, "-static", "-s"), compile(t, "-no-pie")}
	for _, path := range paths {
		f := open(t, path)
		want, err := elf.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer want.Close()
		if f.Type != want.Type || uint64(f.Entry) != want.Entry || len(f.Progs) != len(want.Progs) ||
			len(f.Sections) != len(want.Sections) {
			t.Fatalf("%s: %v %#x %d progs %d sections, want %v %#x %d %d", path, f.Type, f.Entry, len(f.Progs),
				len(f.Sections), want.Type, want.Entry, len(want.Progs), len(want.Sections))
		}
		for i, w := range want.Progs {
			p := f.Progs[i]
			got := elf.ProgHeader{Type: p.Type, Flags: p.Flags, Off: uint64(p.Offset), Vaddr: uint64(p.VAddr),
				Paddr: w.Paddr, Filesz: p.FileSize, Memsz: p.MemSize, Align: p.Align}
			if got != w.ProgHeader {
				t.Errorf("%s: program header %d is %+v, want %+v", path, i, got, w.ProgHeader)
			}
		}
		for i, w := range want.Sections {
			s := &f.Sections[i]
			if s.Name != w.Name || s.Type != w.Type || s.Flags != w.Flags || uint64(s.Addr) != w.Addr ||
				uint64(s.Offset) != w.Offset || s.Size != w.FileSize || s.Link != w.Link || s.Info != w.Info ||
				s.EntSize != w.Entsize {
				t.Errorf("%s: section %d is %+v, want %+v", path, i, s, w.SectionHeader)
			}
			if w.Type == elf.SHT_NOBITS || w.Type == elf.SHT_NULL {
				continue
			}
			wd, err := w.Data()
			if err != nil {
				t.Fatal(err)
			}
			gd, err := f.SectionData(s, 64<<20)
			if err != nil || !bytes.Equal(wd, gd) {
				t.Errorf("%s: section %s: %d bytes, %v; want %d", path, s.Name, len(gd), err, len(wd))
			}
		}
	}
}

func compile(t testing.TB, args ...string) string {
	t.Helper()
	dir := t.TempDir()
	src, out := filepath.Join(dir, "a.c"), filepath.Join(dir, "a")
	if err := os.WriteFile(src, []byte("int x; int main(void) { return x; }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if b, err := exec.Command("gcc", append(args, "-o", out, src)...).CombinedOutput(); err != nil {
		t.Fatalf("gcc %v: %v\n%s", args, err, b)
	}
	return out
}

func TestBuildIDs(t *testing.T) {
	path := compile(t, "-Wl,--build-id=0x00112233445566778899aabbccddeeff00112233")
	if gnu, goID := open(t, path).BuildIDs(); gnu != "00112233445566778899aabbccddeeff00112233" || goID != "" {
		t.Errorf("gcc: %q %q", gnu, goID)
	}
	dir := t.TempDir()
	src, out := filepath.Join(dir, "a.go"), filepath.Join(dir, "a")
	if err := os.WriteFile(src, []byte("package main\nfunc main() {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "build", "-ldflags=-s -w -B 0xabcdef", "-o", out, src)
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, b)
	}
	want, err := exec.Command("go", "tool", "buildid", out).Output()
	if err != nil {
		t.Fatal(err)
	}
	if gnu, goID := open(t, out).BuildIDs(); gnu != "abcdef" || goID != strings.TrimSpace(string(want)) {
		t.Errorf("go: %q %q, want abcdef %s", gnu, goID, want)
	}
}

// TestNotePadding has a note padded to 8 bytes before the one that is looked for.
func TestNotePadding(t *testing.T) {
	note := func(typ uint32, name, desc string) []byte {
		b := binary.LittleEndian.AppendUint32(nil, uint32(len(name)))
		b = binary.LittleEndian.AppendUint32(b, uint32(len(desc)))
		b = append(binary.LittleEndian.AppendUint32(b, typ), name...)
		for len(b)%8 != 0 {
			b = append(b, 0)
		}
		b = append(b, desc...)
		for len(b)%8 != 0 {
			b = append(b, 0)
		}
		return b
	}
	b := append(note(5, "GNU\x00", "abcdefghijkl"), note(3, "GNU\x00", "\x01\x02")...)
	if gnu, _ := notes(b, 8); gnu != "0102" {
		t.Errorf("got %q", gnu)
	}
}

func TestHTLHash(t *testing.T) {
	mod := make([]byte, 10000)
	for i := range mod {
		mod[i] = byte(i % 251)
	}
	for _, c := range []struct {
		data []byte
		want string
	}{
		{nil, "af5570f5a1810b7af78caf4bc70a660f"},
		{[]byte("hello\n"), "4d9cbfd062dc96c836340b284e743e15"},
		{bytes.Repeat([]byte("A"), 5000), "c5917a8b578adea64fad36a06d2e5a29"},
		{mod, "29e3194e821b97b5565d43a5156ad97a"},
	} {
		if got, err := HTLHash(bytes.NewReader(c.data), int64(len(c.data))); err != nil || got != c.want {
			t.Errorf("%d bytes: %s, %v; want %s", len(c.data), got, err, c.want)
		}
	}
	if _, err := HTLHash(bytes.NewReader([]byte("abc")), 4); !errors.Is(err, ErrTruncated) {
		t.Errorf("short file: %v", err)
	}
}

func TestReadAddr(t *testing.T) {
	f := open(t, compile(t))
	s := f.Section(".text")
	want, err := f.SectionData(s, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(want))
	if err := f.ReadAddr(got, s.Addr); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%v", err)
	}
	if f.Section(".bss") != nil {
		t.Error(".bss has data")
	}
	for _, a := range []unwind.FileAddr{^unwind.FileAddr(0), 1 << 40} {
		if err := f.ReadAddr(got, a); !errors.Is(err, ErrNoData) {
			t.Errorf("%#x: %v", uint64(a), err)
		}
	}
}

// TestCode compares the ranges with the executable sections.
func TestCode(t *testing.T) {
	f := open(t, compile(t))
	var want []unwind.FileAddr
	for _, s := range f.Sections {
		if s.Flags&elf.SHF_EXECINSTR != 0 {
			want = append(want, s.Addr, s.Addr+unwind.FileAddr(s.Size))
		}
	}
	var got []unwind.FileAddr
	for _, g := range f.Code() {
		got = append(got, g.VAddr, g.VAddr+unwind.FileAddr(g.FileSize))
		b, c := make([]byte, g.FileSize), make([]byte, g.FileSize)
		if _, err := f.ReaderAt().ReadAt(b, int64(g.Offset)); err != nil {
			t.Fatal(err)
		}
		if err := f.ReadAddr(c, g.VAddr); err != nil || !bytes.Equal(b, c) {
			t.Errorf("%+v: %v", g, err)
		}
	}
	if !slices.Equal(got, want) || len(got) < 4 {
		t.Errorf("%x, want %x", got, want)
	}
	f.Sections = nil
	if !slices.Equal(f.Code(), f.Executable()) {
		t.Errorf("%+v", f.Code())
	}
}

func TestCodeExtents(t *testing.T) {
	const code = elf.SHF_EXECINSTR | elf.SHF_ALLOC
	f := &File{
		Segments: []unwind.Segment{{VAddr: 0x9000, MemSize: 0x100, Exec: true}, {VAddr: 0x8000, MemSize: 0x10}, {VAddr: 0x1000, MemSize: 0x10, Exec: true}},
		Sections: []Section{
			{}, {Flags: code, Addr: 0x3000, Size: 0x100}, {Flags: code, Type: elf.SHT_NOBITS, Addr: 0x1000, Size: 0x100},
			{Flags: elf.SHF_ALLOC, Addr: 0x2000, Size: 0x100}, {Flags: code, Addr: 0x1010, Size: 0x20}, {Flags: code, Addr: 0x10f0, Size: 0x20},
			{Flags: code, Addr: 0x1110, Size: 0x10}, {Flags: code, Addr: 0x5000}, {Flags: code, Addr: 1<<64 - 8, Size: 0x100},
		},
	}
	// One around another ends where the larger one does: what is behind the smaller one is code still.
	if got, want := f.CodeExtents(), []unwind.Extent{{Start: 0x1000, End: 0x1110}, {Start: 0x1110, End: 0x1120}, {Start: 0x3000, End: 0x3100}}; !slices.Equal(got, want) {
		t.Errorf("%#x, not %#x", got, want)
	}
	f.Sections = nil
	if got, want := f.CodeExtents(), []unwind.Extent{{Start: 0x1000, End: 0x1010}, {Start: 0x9000, End: 0x9100}}; !slices.Equal(got, want) {
		t.Errorf("%#x, not %#x", got, want)
	}
}

// image is a minimal ELF file: a header, one PT_LOAD, and the sections given.
func image(machine elf.Machine, sections ...testSection) []byte {
	names := []byte{0}
	all := append([]testSection{{}}, sections...)
	all = append(all, testSection{name: ".shstrtab", typ: elf.SHT_STRTAB})
	for _, s := range all[1:] {
		names = append(append(names, s.name...), 0)
	}
	all[len(all)-1].data = names
	b := make([]byte, headerSize+progSize)
	var headers []byte
	name := uint32(0)
	for i, s := range all {
		var h [secSize]byte
		if i > 0 {
			name++
		}
		binary.LittleEndian.PutUint32(h[0:], name)
		name += uint32(len(s.name))
		binary.LittleEndian.PutUint32(h[4:], uint32(s.typ))
		binary.LittleEndian.PutUint64(h[8:], uint64(s.flags))
		binary.LittleEndian.PutUint64(h[24:], uint64(len(b)))
		binary.LittleEndian.PutUint64(h[32:], uint64(len(s.data)))
		b = append(b, s.data...)
		headers = append(headers, h[:]...)
	}
	copy(b, "\x7fELF\x02\x01\x01")
	le := binary.LittleEndian
	le.PutUint16(b[16:], uint16(elf.ET_DYN))
	le.PutUint16(b[18:], uint16(machine))
	le.PutUint64(b[32:], headerSize)
	le.PutUint64(b[40:], uint64(len(b)))
	le.PutUint16(b[54:], progSize)
	le.PutUint16(b[56:], 1)
	le.PutUint16(b[58:], secSize)
	le.PutUint16(b[60:], uint16(len(all)))
	le.PutUint16(b[62:], uint16(len(all)-1))
	le.PutUint32(b[64:], uint32(elf.PT_LOAD))
	le.PutUint64(b[64+32:], uint64(len(b)))
	return append(b, headers...)
}

type testSection struct {
	name  string
	typ   elf.SectionType
	flags elf.SectionFlag
	data  []byte
}

func chdr(typ elf.CompressionType, size uint64, stream []byte) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(typ))
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint64(b, size)
	b = binary.LittleEndian.AppendUint64(b, 1)
	return append(b, stream...)
}

func deflate(t testing.TB, b []byte) []byte {
	var buf bytes.Buffer
	w := zlib.NewWriter(&buf)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestCompressed(t *testing.T) {
	data := bytes.Repeat([]byte("frame"), 1000)
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	zst, zlb := enc.EncodeAll(data, nil), deflate(t, data)
	gnu := append(binary.BigEndian.AppendUint64([]byte("ZLIB"), uint64(len(data))), zlb...)
	bomb := deflate(t, make([]byte, 1<<20))
	img := image(elf.EM_AARCH64,
		testSection{".zstd", elf.SHT_PROGBITS, elf.SHF_COMPRESSED, chdr(elf.COMPRESS_ZSTD, 5000, zst)},
		testSection{".zlib", elf.SHT_PROGBITS, elf.SHF_COMPRESSED, chdr(elf.COMPRESS_ZLIB, 5000, zlb)},
		testSection{".zdebug_frame", elf.SHT_PROGBITS, 0, gnu},
		testSection{".bomb", elf.SHT_PROGBITS, elf.SHF_COMPRESSED, chdr(elf.COMPRESS_ZLIB, 1<<20, bomb)},
		testSection{".lie", elf.SHT_PROGBITS, elf.SHF_COMPRESSED, chdr(elf.COMPRESS_ZLIB, 6000, zlb)},
		testSection{".other", elf.SHT_PROGBITS, elf.SHF_COMPRESSED, chdr(77, 6000, zlb)},
		testSection{".short", elf.SHT_PROGBITS, elf.SHF_COMPRESSED, []byte{1}},
	)
	f, err := New(bytes.NewReader(img), int64(len(img)))
	if err != nil {
		t.Fatal(err)
	}
	if f.Arch != unwind.ArchARM64 {
		t.Errorf("arch %v", f.Arch)
	}
	for name, want := range map[string]error{".zstd": nil, ".zlib": nil, ".zdebug_frame": nil, ".bomb": ErrTooLarge,
		".lie": ErrTruncated, ".other": ErrUnsupported, ".short": ErrTruncated} {
		got, err := f.SectionData(f.Section(name), 10000)
		if !errors.Is(err, want) || err == nil && !bytes.Equal(got, data) {
			t.Errorf("%s: %d bytes, %v; want error %v", name, len(got), err, want)
		}
	}
}

func TestRefused(t *testing.T) {
	good := image(elf.EM_X86_64)
	change := func(off int, v byte) []byte {
		b := bytes.Clone(good)
		b[off] = v
		return b
	}
	for _, c := range []struct {
		name string
		data []byte
		want error
	}{
		{"empty", nil, ErrNotELF},
		{"text", []byte("#!/bin/sh\n"), ErrNotELF},
		{"32-bit", change(elf.EI_CLASS, 1), ErrUnsupported},
		{"big endian", change(elf.EI_DATA, 2), ErrUnsupported},
		{"s390x", change(18, byte(elf.EM_S390)), ErrUnsupported},
		{"core", change(16, byte(elf.ET_CORE)), ErrUnsupported},
		{"header only", good[:20], ErrTruncated},
		{"program headers cut", good[:80], ErrTruncated},
		{"program headers elsewhere", change(39, 0xff), ErrTruncated},
	} {
		if _, err := New(bytes.NewReader(c.data), int64(len(c.data))); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	object := change(16, byte(elf.ET_REL))
	if _, err := New(bytes.NewReader(object), int64(len(object))); !errors.Is(err, ErrUnsupported) {
		t.Errorf("relocatable: %v", err)
	}
	if f, err := NewDebug(bytes.NewReader(object), int64(len(object))); err != nil || f.Type != elf.ET_REL {
		t.Errorf("relocatable: %v", err)
	}
	f, err := New(bytes.NewReader(change(47, 0xff)), int64(len(good)))
	if err != nil || len(f.Sections) != 0 || len(f.Segments) != 1 {
		t.Errorf("section headers elsewhere: %v", err)
	}
}

// lying claims a size that its data does not have, as a file that is truncated while it is read.
type lying struct{ io.ReaderAt }

func TestShrinking(t *testing.T) {
	img := image(elf.EM_X86_64)
	f, err := New(lying{bytes.NewReader(img)}, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	s := Section{Name: "x", Type: elf.SHT_PROGBITS, Offset: 0, Size: uint64(len(img)) + 1}
	if _, err := f.SectionData(&s, 1<<20); !errors.Is(err, ErrTruncated) {
		t.Errorf("%v", err)
	}
}

func FuzzNew(f *testing.F) {
	f.Add(image(elf.EM_X86_64))
	f.Add(image(elf.EM_AARCH64, testSection{".zlib", elf.SHT_NOTE, elf.SHF_COMPRESSED,
		chdr(elf.COMPRESS_ZLIB, 50, deflate(f, make([]byte, 50)))}))
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := New(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		file.BuildIDs()
		for i := range file.Sections {
			d, err := file.SectionData(&file.Sections[i], 1<<16)
			if err == nil && len(d) > 1<<16 {
				t.Fatalf("%d bytes", len(d))
			}
		}
		var w [8]byte
		_ = file.ReadAddr(w[:], file.Entry)
	})
}
