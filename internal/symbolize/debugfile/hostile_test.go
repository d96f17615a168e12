package debugfile

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

// section is a section of an ELF file made by image.
type section struct {
	name string
	typ  elf.SectionType
	data []byte
}

// image makes an ELF file of sections.
func image(sections ...section) []byte {
	le := binary.LittleEndian
	sections = append([]section{{}}, sections...)
	sections = append(sections, section{".shstrtab", elf.SHT_STRTAB, nil})
	names := []byte{0}
	for _, s := range sections {
		names = append(append(names, s.name...), 0)
	}
	sections[len(sections)-1].data = names
	out := make([]byte, 64)
	copy(out, elf.ELFMAG+"\x02\x01\x01")
	var headers []byte
	at := uint32(1)
	for _, s := range sections {
		headers = le.AppendUint32(le.AppendUint32(headers, at), uint32(s.typ))
		headers = le.AppendUint64(le.AppendUint64(headers, 0), 0)
		headers = le.AppendUint64(le.AppendUint64(headers, uint64(len(out))), uint64(len(s.data)))
		headers = append(headers, make([]byte, 24)...)
		out = append(out, s.data...)
		at += uint32(len(s.name)) + 1
	}
	le.PutUint16(out[16:], uint16(elf.ET_DYN))
	le.PutUint16(out[18:], uint16(elf.EM_X86_64))
	le.PutUint64(out[40:], uint64(len(out)))
	le.PutUint16(out[58:], 64)
	le.PutUint16(out[60:], uint16(len(sections)))
	le.PutUint16(out[62:], uint16(len(sections)-1))
	return append(out, headers...)
}

// buildID is a section with a build id.
func buildID(id []byte) section {
	b := binary.LittleEndian.AppendUint32([]byte{4, 0, 0, 0}, uint32(len(id)))
	b = append(append(b, "\x03\x00\x00\x00GNU\x00"...), id...)
	return section{".note.gnu.build-id", elf.SHT_NOTE, append(b, make([]byte, -len(id)&3)...)}
}

func link(name string, crc uint32) section {
	b := append([]byte(name), 0)
	b = append(b, make([]byte, -len(b)&3)...)
	return section{".gnu_debuglink", elf.SHT_PROGBITS, binary.LittleEndian.AppendUint32(b, crc)}
}

func parse(t testing.TB, b []byte) *elffile.File {
	t.Helper()
	f, err := elffile.NewDebug(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return f.Within(elffile.NewBudget("file", 1<<20))
}

var someID = [20]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}

// TestLinks reads links, good and bad ones.
func TestLinks(t *testing.T) {
	for _, c := range []struct {
		data string
		want string // empty: it is refused
	}{
		{"x.debug\x00\x78\x56\x34\x12", "x.debug"},
		{"abc.debug\x00\x00\x00\x78\x56\x34\x12", "abc.debug"},
		{"abc.debug\x00\x00\x00\x78\x56\x34", ""},
		{"abc.debug", ""},
		{"\x00\x00\x00\x00\x78\x56\x34\x12", ""},
		{"../../a\x00\x78\x56\x34\x12", ""},
		{"/etc/ab\x00\x78\x56\x34\x12", ""},
		{"..\x00\x00\x78\x56\x34\x12", ""},
		{".\x00\x00\x00\x78\x56\x34\x12", ""},
		{strings.Repeat("x", 259) + "\x00\x78\x56\x34\x12", ""},
		{strings.Repeat("x", 1<<16) + "\x00\x00\x00\x00\x78\x56\x34\x12", ""},
	} {
		f := parse(t, image(section{".gnu_debuglink", elf.SHT_PROGBITS, []byte(c.data)}))
		l, ok, err := debugLink(f)
		if ok != (c.want != "") || ok != (err == nil) || ok && (l.name != c.want || l.crc != 0x12345678) || f.Budget().Used() != 0 {
			t.Errorf("%.20q: %+v, %v, %v", c.data, l, ok, err)
		}
	}
	for _, c := range []struct {
		section, data, name, id string
		refused                 bool
	}{
		{".gnu_debugaltlink", "a/b\x00\xab\xcd", "a/b", "abcd", false},
		{".gnu_debugaltlink", "a/b", "a/b", "", false}, // without a build id it is not looked for
		{".debug_sup", "\x05\x00\x00a/b\x00\x02\xab\xcd", "a/b", "abcd", false},
		{".debug_sup", "\x05\x00\x00a/b\x00\x03\xab\xcd", "", "", true},
		{".debug_sup", "\x05\x00\x00a/b\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "", "", true},
		{".debug_sup", "\x05\x00\x00a/b", "", "", true},
		{".debug_sup", "\x06\x00\x00a/b\x00\x02\xab\xcd", "", "", true},
		{".debug_sup", "\x05", "", "", true},
		{".debug_sup", "\x05\x00\x01\x00\x02\xab\xcd", "", "", false}, // is one itself
	} {
		f := parse(t, image(section{c.section, elf.SHT_PROGBITS, []byte(c.data)}))
		l, ok, err := supplementLink(f)
		if ok != (c.name != "") || (err != nil) != c.refused || ok && (l.name != c.name || l.id != c.id) {
			t.Errorf("%s %q: %+v, %v, %v", c.section, c.data, l, ok, err)
		}
	}
}

// TestNames makes paths of names.
func TestNames(t *testing.T) {
	for _, c := range [][3]string{
		{"/usr/bin", "a.dwo", "/usr/bin/a.dwo"},
		{"/usr/bin", "../../../../etc/passwd", "/etc/passwd"},
		{"/usr/bin", "/../etc/passwd", "/etc/passwd"},
		{"/usr/bin", "//x//y/./z", "/x/y/z"},
		{"", "a.dwo", ""},
		{"relative", "a.dwo", ""},
		{"/a\x00b", "a.dwo", ""},
		{"/usr/bin", "a\x00b", ""},
		{"/usr/bin", "", ""},
		{"/usr/bin", strings.Repeat("a/", 2048), ""},
		{strings.Repeat("/a", 2048), "b", ""},
	} {
		if got, ok := cleanPath(c[0], c[1]); got != c[2] || ok != (c[2] != "") {
			t.Errorf("%.20q, %.20q: %q", c[0], c[1], got)
		}
	}
	for id, want := range map[string]string{
		"": "", "ab": "", "0000000000": "", "abcd": "/usr/lib/debug/.build-id/ab/cd.debug",
	} {
		if got, _ := buildIDPath(id); got != want {
			t.Errorf("%s: %q", id, got)
		}
	}
	for id, want := range map[string]bool{"0000000000000000": false, "abcdef01234567": false, "abcdef0123456789": true} {
		if unique(id) != want {
			t.Errorf("%s: %v", id, !want)
		}
	}
	for _, name := range []string{"", "/", "..", "a\x00b", "../.."} {
		s := &search{path: "/bin/prog", debugPath: "/bin/prog"}
		for _, p := range s.splitPaths(name, "/build") {
			if !filepath.IsAbs(p) || filepath.Clean(p) != p || strings.Contains(p, "\x00") {
				t.Errorf("%q: %q", name, p)
			}
		}
	}
}

// TestManyProblems meets more problems than anybody wants to read, and a root that cannot be read.
func TestManyProblems(t *testing.T) {
	f := parse(t, image(buildID(someID[:]), link("x.debug", 1)))
	denied := rootFunc(func(string) (*os.File, error) { return nil, fs.ErrPermission })
	var o Options
	for range 100 {
		o.Roots = append(o.Roots, denied)
	}
	found, err := Find(t.Context(), f, "/bin/x", o)
	if !errors.Is(err, fs.ErrPermission) || strings.Count(err.Error(), "permission denied") != maxProblems || found.Debug != nil {
		t.Errorf("%v, %v", found, err)
	}
}

type rootFunc func(string) (*os.File, error)

func (f rootFunc) Open(path string) (*os.File, error) { return f(path) }

// FuzzFind searches for the debug information of any file, whose links lead to any other file.
func FuzzFind(f *testing.F) {
	info := section{".debug_info", elf.SHT_PROGBITS, []byte("info")}
	addr := section{".debug_addr", elf.SHT_PROGBITS, []byte("addr")}
	dwo := section{".debug_info.dwo", elf.SHT_PROGBITS, []byte("\x11\x00\x00\x00\x05\x00\x05\x08\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00")}
	alt := section{".gnu_debugaltlink", elf.SHT_PROGBITS, append([]byte("../x/.dwz/y\x00"), someID[:]...)}
	sup := section{".debug_sup", elf.SHT_PROGBITS, []byte("\x05\x00\x00a/b\x00\x02\xab\xcd")}
	f.Add(image(buildID(someID[:]), link("x.debug", 0)), image(buildID(someID[:]), info, addr, alt, dwo), "a.dwo", "/src")
	f.Add(image(link("x.debug", 1)), image(info), "/a.dwo", "")
	f.Add(image(info, addr, sup), image(section{".debug_sup", elf.SHT_PROGBITS, []byte("\x05\x00\x01\x00\x02\xab\xcd")}, info, dwo), "../../a.dwo", "..")
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, file, other []byte, name, compDir string) {
		e, err := elffile.NewDebug(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			return
		}
		where := filepath.Join(dir, "other")
		if err := os.WriteFile(where, other, 0o600); err != nil {
			t.Fatal(err)
		}
		root := rootFunc(func(path string) (*os.File, error) {
			if !filepath.IsAbs(path) || filepath.Clean(path) != path || strings.Contains(path, "\x00") || len(path) > 2*maxPath {
				t.Errorf("%q is opened", path)
			}
			return os.Open(where)
		})
		budget := elffile.NewBudget("fuzz", 1<<20)
		found, err := Find(t.Context(), e.Within(budget), name, Options{Roots: []Root{root}})
		if (found.Debug == nil) != errors.Is(err, ErrNotFound) || (found.Debug == nil) != (found.Source == SourceNone) {
			t.Errorf("%v, %v", found, err)
		}
		if found.Debug != nil {
			_, c, err := found.Options.OpenSplit(name, compDir, 1)
			if err == nil {
				err = c.Close()
			}
			if err != nil && len(err.Error()) > 1<<20 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
		}
		if err := found.Close(); err != nil || budget.Used() != 0 {
			t.Errorf("%v, %d bytes left in the budget", err, budget.Used())
		}
	})
}
