package gopclntab

import (
	"debug/dwarf"
	"debug/elf"
	"os"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
)

// versions are the Go versions that the long tests build programs with; the go command fetches them.
func versions(t *testing.T) []string {
	if os.Getenv(fullTest) == "" {
		t.Skip("reserved for make test-full: builds with every supported version of Go (" + fullTest + " is not set)")
	}
	return []string{
		"go1.18.10", "go1.19.13", "go1.20.14", "go1.21.13", "go1.22.12", "go1.23.12", "go1.24.9", "go1.25.3",
		"go1.26.0", "go1.27.0",
	}
}

// TestVersions compares everything that depends on the version with what each version's programs say of themselves.
func TestVersions(t *testing.T) {
	for _, v := range versions(t) {
		for _, b := range builds(v) {
			t.Run(v+"/"+b.name, func(t *testing.T) {
				testLookup(t, b)
				testFind(t, b.run(t))
			})
		}
		for _, arch := range []string{"amd64", "arm64"} {
			t.Run(v+"/offsets/"+arch, func(t *testing.T) {
				testOffsets(t, build{name: "plain", dir: "prog", goVer: v, arch: arch}, v)
			})
		}
	}
}

func TestOffsets(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		t.Run(arch, func(t *testing.T) {
			testOffsets(t, build{name: "plain", dir: "prog", arch: arch}, "")
		})
	}
}

// testOffsets compares Offsets with DWARF.
func testOffsets(t *testing.T, b build, version string) {
	path := b.run(t)
	tab := open(t, path)
	if version != "" && tab.Version() != version {
		t.Errorf("version %q, want %q", tab.Version(), version)
	}
	got, err := tab.Offsets()
	if err != nil {
		t.Fatal(err)
	}
	d := structs(t, path)
	want := Offsets{
		GReg: 14, TLSG: -8,
		GStackHi: d["g.stack"] + d["stack.hi"], GM: d["g.m"], MCurg: d["m.curg"], MG0: d["m.g0"],
		MGSignal: d["m.gsignal"],
		GSchedSP: d["g.sched"] + d["gobuf.sp"], GSchedPC: d["g.sched"] + d["gobuf.pc"],
		GSchedBP: d["g.sched"] + d["gobuf.bp"], GSchedLR: d["g.sched"] + d["gobuf.lr"],
	}
	if b.arch == "arm64" {
		want.GReg, want.TLSG = 28, 16
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// structs reads the offsets of fields of the runtime's structs.
func structs(t *testing.T, path string) map[string]uint32 {
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d, err := f.DWARF()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]uint32{}
	for r := d.Reader(); ; {
		e, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if e == nil {
			return out
		}
		name, _ := e.Val(dwarf.AttrName).(string)
		switch name {
		case "runtime.g", "runtime.m", "runtime.gobuf", "runtime.stack":
		default:
			continue
		}
		if typ, err := d.Type(e.Offset); err == nil {
			if s, ok := typ.(*dwarf.StructType); ok {
				for _, field := range s.Field {
					out[name[len("runtime."):]+"."+field.Name] = uint32(field.ByteOffset)
				}
			}
		}
	}
}

// TestTLSInLibrary looks at a library, whose thread-local storage is placed when it is loaded.
func TestTLSInLibrary(t *testing.T) {
	path := build{name: "c-shared", dir: "cgoprog", flags: []string{"-buildmode=c-shared"}}.run(t)
	o, err := open(t, path).Offsets()
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := f.Section(".got")
	if o.TLSG != 0 || uint64(o.TLSGot) < s.Addr || uint64(o.TLSGot) >= s.Addr+s.Size {
		t.Errorf("offset %d or at %#x, want it in .got at %#x", o.TLSG, uint64(o.TLSGot), s.Addr)
	}
}

func TestParseVersion(t *testing.T) {
	for s, want := range map[string]goVersion{
		"go1.26.3": {26, 3}, "go1.27rc1": {27, 0}, "go1.25.1 X:nocoverageredesign": {25, 1},
		"devel go1.28-0123abc Thu Jan 1": {28, 0}, "go1.18": {18, 0}, "go1.21.5-custom": {21, 5},
	} {
		if got, ok := parseVersion(s); !ok || got != want {
			t.Errorf("%s: got %v, %v", s, got, ok)
		}
	}
	for _, s := range []string{"", "go2.1", "unknown", "go1."} {
		if v, ok := parseVersion(s); ok {
			t.Errorf("%q: %v", s, v)
		}
	}
}

// testFind looks for the table in a file without section headers: everything must be found there all the same.
func testFind(t *testing.T, path string) {
	t.Helper()
	want, got := open(t, path), find(t, withoutSections(t, path))
	if got.base != want.base || got.text != want.text || got.gofunc != want.gofunc || got.gofunc == 0 ||
		got.nfunc != want.nfunc || got.version != want.version {
		t.Errorf("got %#x %#x %#x %d %q, want %#x %#x %#x %d %q", uint64(got.base), uint64(got.text),
			uint64(got.gofunc), got.nfunc, got.version, uint64(want.base), uint64(want.text), uint64(want.gofunc),
			want.nfunc, want.version)
	}
	a, err1 := want.UnwindTable()
	b, err2 := got.UnwindTable()
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	if len(a.Rows) != len(b.Rows) || len(a.Rows) < want.nfunc {
		t.Errorf("%d and %d rows for %d functions", len(a.Rows), len(b.Rows), want.nfunc)
	}
}

func TestFindWithoutSections(t *testing.T) {
	for _, b := range append(builds(""), build{name: "arm64", dir: "prog", arch: "arm64"},
		build{name: "arm64-pie", dir: "prog", arch: "arm64", flags: []string{"-buildmode=pie"}},
		build{name: "c-shared", dir: "cgoprog", flags: []string{"-buildmode=c-shared"}}) {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			testFind(t, b.run(t))
		})
	}
}

func TestNotGo(t *testing.T) {
	for _, path := range []string{"/bin/true", "/bin/bash"} {
		if _, err := Find(unwindtest.Open(t, path)); err != ErrNotGo {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestWithoutModuledata takes the pointers to the table away, so that only the code itself tells where the text is.
func TestWithoutModuledata(t *testing.T) {
	path := build{name: "plain", dir: "prog"}.run(t)
	want := open(t, path)
	got := open(t, path)
	got.text, got.gofunc = 0, 0
	if !got.place(nil) || got.text != want.text || got.HasInlining() {
		t.Errorf("text %#x, want %#x; inlining %v", uint64(got.text), uint64(want.text), got.HasInlining())
	}
	lines, ok := got.Lookup(nil, want.text)
	if !ok || len(lines) != 1 {
		t.Errorf("got %v", lines)
	}
	var none unwind.Line
	if lines[0] == none {
		t.Error("empty line")
	}
}
