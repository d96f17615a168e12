package elfsym

import (
	"bytes"
	"debug/elf"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

func crcOf(b []byte) uint32 { return crc32.ChecksumIEEE(b) }

// FuzzLoad loads any file and looks up around everything that it found.
func FuzzLoad(f *testing.F) {
	syms := []testSymbol{{"f", 0x1000, 16, globalFunc}, {"g", 0x1008, 0, localLabel}, {"$x", 0x1010, 0, localLabel}}
	f.Add(synth(elf.EM_X86_64, syms, nil))
	f.Add(synth(elf.EM_AARCH64, syms, map[string][]byte{".gnu_debugdata": xzBytes(f, synth(elf.EM_AARCH64, syms, nil))}))
	for _, seed := range seeds(f) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := elffile.New(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		tab, _ := Load(file.Within(elffile.NewBudget("fuzzed", 8<<20)), Options{MaxSymbols: 1 << 16})
		if tab.Len() > 1<<16 {
			t.Fatalf("%d symbols", tab.Len())
		}
		for i, r := range tab.rows {
			if i > 0 && tab.rows[i-1].addr > r.addr {
				t.Fatal("not sorted")
			}
			for _, a := range []uint64{r.addr - 1, r.addr, r.addr + uint64(r.size())} {
				s, ok, err := tab.Symbol(unwind.FileAddr(a))
				if ok && (s.Name == "" || err != nil) {
					t.Fatalf("%#x: %+v, %v", a, s, err)
				}
			}
		}
	})
}

// seeds are small files as linkers make them, if there are some here.
func seeds(f *testing.F) (out [][]byte) {
	dir := f.TempDir()
	src := filepath.Join(dir, "a.c")
	if err := os.WriteFile(src, []byte("int g(void); int f(void) { return g() + 1; }\n"), 0o600); err != nil {
		f.Fatal(err)
	}
	for _, cc := range []string{"gcc", "aarch64-linux-gnu-gcc"} {
		path := filepath.Join(dir, cc)
		err := exec.Command(cc, "-shared", "-fPIC", "-nostdlib", "-Wl,-z,max-page-size=64,-z,noseparate-code", "-o", path, src).Run()
		if err != nil {
			f.Logf("%s: %v", cc, err)
			continue
		}
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		out = append(out, b)
	}
	return out
}

func FuzzXZ(f *testing.F) {
	f.Add(xzBytes(f, bytes.Repeat([]byte("data "), 100)))
	f.Add(bigDictionary(f))
	f.Fuzz(func(t *testing.T, b []byte) {
		out, err := xzBytesOf(b, 1<<16)
		if err == nil && len(out) > 1<<16 {
			t.Fatalf("%d bytes", len(out))
		}
	})
}

func FuzzStubs(f *testing.F) {
	f.Add([]byte("\xf3\x0f\x1e\xfa\xff\x25\x12\x34\x00\x00\x66\x0f\x1f\x44\x00\x00"), uint64(0x1000), uint64(16))
	f.Add([]byte("\x10\x00\x00\xf0\x11\x0e\x40\xf9\x10\x62\x00\x91\x20\x02\x1f\xd6"), uint64(0x1000), uint64(0))
	f.Fuzz(func(t *testing.T, b []byte, addr, entSize uint64) {
		stubsAMD64(nil, b, addr, entSize)
		stubsARM64(nil, b, addr)
	})
}
