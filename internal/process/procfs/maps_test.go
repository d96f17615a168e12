package procfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/process"
)

const fixtures = "../../../testdata/maps"

// TestParseMapsGolden reads maps of real processes. The golden files were made from the same text by a regular expression
// in another language. weird.maps is of a program that mapped files with strange names, deleted files, a memfd, shared
// and named anonymous memory, /dev/zero and a System V segment.
func TestParseMapsGolden(t *testing.T) {
	names, err := filepath.Glob(fixtures + "/*.maps")
	if err != nil || len(names) < 4 {
		t.Fatalf("fixtures: %v %v", names, err)
	}
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			f, err := os.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			maps, err := ParseMaps(f, MaxMaps)
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			for _, m := range maps {
				kind := "file"
				if m.Anonymous {
					kind = "anon"
				}
				path := strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace(m.Path)
				fmt.Fprintf(&got, "%#x %#x %#x %d:%d %d %s \"%s\"\n", uint64(m.Start), uint64(m.End), uint64(m.Offset),
					m.File.Major, m.File.Minor, m.File.Inode, kind, path)
				if !m.Exec {
					t.Errorf("not executable: %+v", m)
				}
			}
			want, err := os.ReadFile(strings.TrimSuffix(name, ".maps") + ".golden")
			if err != nil {
				t.Fatal(err)
			}
			if got.String() != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got.String(), want)
			}
		})
	}
}

func TestParseMapsMalformed(t *testing.T) {
	const ok = "1000-2000 r-xp 00000000 fe:00 12 /a\n"
	for _, bad := range []string{
		"x\n",
		"1000-2000\n",
		"1000-2000 r-xp 00000000 fe:00\n",
		"2000-1000 r-xp 00000000 fe:00 12 /a\n",
		"1000-1000 r-xp 00000000 fe:00 12 /a\n",
		"1000-2000 r-x 00000000 fe:00 12 /a\n",
		"-1000-2000 r-xp 00000000 fe:00 12 /a\n",
		"1000-20000000000000000 r-xp 0 fe:00 12 /a\n",
		"1000-2000 r-xp 00000000 fe:00 1x2 /a\n",
		"1000-2000 r-xp 00000000 fe:00 12 " + strings.Repeat("a", maxMapsLine) + "\n",
	} {
		maps, err := ParseMaps(strings.NewReader(ok+bad), MaxMaps)
		if !errors.Is(err, ErrMapsLine) {
			t.Errorf("%.60q: %v %v", bad, maps, err)
		}
	}
	// An inode without a path has no blank behind it in some files; a file may end without a newline.
	maps, err := ParseMaps(strings.NewReader("1000-2000 r-xp 00000000 00:00 0"), MaxMaps)
	if err != nil || len(maps) != 1 || !maps[0].Anonymous {
		t.Errorf("%+v %v", maps, err)
	}
}

func TestParseMapsLimit(t *testing.T) {
	var b bytes.Buffer
	for i := range 30000 {
		fmt.Fprintf(&b, "%x-%x r-xp 00000000 00:00 0 \n", 0x1000*i+0x1000, 0x1000*i+0x1800)
		fmt.Fprintf(&b, "%x-%x rw-p 00000000 00:00 0 \n", 0x1000*i+0x1800, 0x1000*i+0x2000)
	}
	text := b.Bytes()
	for _, limit := range []int{1, 20000, MaxMaps} {
		maps, err := ParseMaps(bytes.NewReader(text), limit)
		if err != nil || len(maps) != min(limit, 30000) {
			t.Errorf("limit %d: %d mappings, %v", limit, len(maps), err)
		}
	}
}

func TestOwnMaps(t *testing.T) {
	maps, err := New("/proc").Maps(uint32(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	vdso, self := false, false
	for _, m := range maps {
		vdso = vdso || m.Path == process.PathVDSO && !m.Anonymous
		self = self || m.Path == exe
	}
	if !vdso || !self {
		t.Errorf("vdso %v, own program %v: %+v", vdso, self, maps)
	}
}

// rest is a maps file of which some was read, and that now says something else.
type rest struct {
	io.Reader
	now string
}

func (r rest) ReadAt(b []byte, off int64) (int, error) {
	return strings.NewReader(r.now).ReadAt(b, off)
}

// TestMapsOfTheDead reads the mappings of processes that exit meanwhile: there are none, or an error, and never a part of them.
func TestMapsOfTheDead(t *testing.T) {
	const line = "1000-2000 r-xp 00000000 00:00 0\n"
	if maps, err := mapsOf(rest{strings.NewReader(line), line}); err != nil || len(maps) != 1 {
		t.Errorf("alive: %v, %v", maps, err)
	}
	if maps, err := mapsOf(rest{strings.NewReader(line), ""}); !errors.Is(err, ErrGone) || maps != nil {
		t.Errorf("dead: %v, %v", maps, err)
	}
	// The kernel does as is assumed here.
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 1)
	if n, err := f.ReadAt(b, 0); n != 1 {
		t.Fatalf("alive: %v", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	if n, err := f.ReadAt(b, 0); n != 0 || err != nil && !errors.Is(err, io.EOF) && !errors.Is(gone(err), ErrGone) {
		t.Errorf("dead: %d bytes, %v", n, err)
	}
	if maps, err := mapsOf(f); len(maps) != 0 || err != nil && !errors.Is(gone(err), ErrGone) {
		t.Errorf("dead: %v, %v", maps, err)
	}
}

func FuzzParseMaps(f *testing.F) {
	names, err := filepath.Glob(fixtures + "/*.maps")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte("1000-2000 r-xp 00000000 fe:00 12 /a\\012b (deleted)\n"))
	f.Add([]byte("1000-2000 r-xp 00000000 00:00 0"))
	f.Fuzz(func(t *testing.T, b []byte) {
		maps, err := ParseMaps(bytes.NewReader(b), 100)
		if len(maps) > 100 {
			t.Fatalf("%d mappings", len(maps))
		}
		if err != nil && !errors.Is(err, ErrMapsLine) {
			t.Fatal(err)
		}
		for _, m := range maps {
			if !m.Exec || m.Start >= m.End || strings.Contains(m.Path, `\012`) {
				t.Fatalf("%+v", m)
			}
		}
	})
}

func BenchmarkParseMaps(b *testing.B) {
	text, err := os.ReadFile(fixtures + "/java.maps")
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseMaps(bytes.NewReader(text), MaxMaps); err != nil {
			b.Fatal(err)
		}
	}
}
