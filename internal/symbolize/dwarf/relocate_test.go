package dwarf

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
)

// Of the module's two sources, functions are inlined within each, and its sections of code lie apart.
const (
	moduleFirst = `
struct point { long x, y; struct point *next; };
int helper(struct point *p, int n);
static inline __attribute__((always_inline)) long inner(struct point *p) { return p->x * 3 + p->y; }
static inline __attribute__((always_inline)) long outer(struct point *p) { return inner(p) ^ p->x; }
int work(struct point *p, int n) {
	long sum = 0;
	for (int i = 0; i < n; i++)
		sum += outer(p + i) / (i + 1);
	return helper(p, (int)sum);
}
__attribute__((section(".init.text"))) int start(struct point *p) { return (int)outer(p); }
`
	moduleSecond = `
struct point { long x, y; struct point *next; };
volatile int sink;
static inline __attribute__((always_inline)) void store(int n) { sink += n; sink ^= 5; }
__attribute__((section(".text.unlikely"))) void cold(int n) { store(n); store(n / 3); }
int helper(struct point *p, int n) {
	while (p && n-- > 0) { store((int)p->y); p = p->next; }
	if (n > 100) cold(n);
	return n;
}
`
	moduleLayout = `SECTIONS {
	. = 0xffffffffc0400000; .text : { *(.text) }
	. = 0xffffffffc0560040; .text.unlikely : { *(.text.unlikely) }
	. = 0xffffffffc0700000; .init.text : { *(.init.text) }
	. = 0xffffffffc0800000; .data : { *(.data .bss COMMON .rodata*) }
	/DISCARD/ : { *(.eh_frame .comment .note*) }
}
`
)

// moduleSections are where moduleLayout puts code.
func moduleSections() map[string]unwind.FileAddr {
	return map[string]unwind.FileAddr{".text": 0xffffffffc0400000, ".text.unlikely": 0xffffffffc0560040, ".init.text": 0xffffffffc0700000}
}

// TestRelocatable finds the same in a relocatable file, whose sections were given addresses, as in what the linker makes of it
// when it puts them there.
func TestRelocatable(t *testing.T) {
	native := unwindtest.KernelFlags()
	for _, m := range []struct {
		name   string
		cc     []string
		flags  []string
		binary string // prefix of the tools for binaries
		post   []string
	}{
		{"gcc, DWARF 5", []string{"gcc", "-gdwarf-5"}, native, "", nil},
		{"gcc, DWARF 4", []string{"gcc", "-gdwarf-4"}, native, "", nil},
		{"clang", []string{"clang", "-gdwarf-5"}, native, "", nil},
		{"separate", []string{"gcc", "-g"}, native, "", []string{"objcopy", "--only-keep-debug"}},
		{"compressed", []string{"gcc", "-g"}, native, "", []string{"objcopy", "--compress-debug-sections=zlib"}},
		{"arm64", []string{"aarch64-linux-gnu-gcc", "-g"}, []string{"-fno-pic"}, "aarch64-linux-gnu-", nil},
	} {
		t.Run(m.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range map[string]string{"first.c": moduleFirst, "second.c": moduleSecond, "layout.ld": moduleLayout} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for _, s := range []string{"first", "second"} {
				run(t, dir, m.cc[0], slices.Concat(m.cc[1:], m.flags, []string{"-O2", "-ffreestanding", "-fno-asynchronous-unwind-tables", "-c",
					"-o", s + ".o", s + ".c"})...)
			}
			run(t, dir, m.binary+"ld", "-r", "-o", "module.ko", "first.o", "second.o")
			run(t, dir, m.binary+"ld", "-T", "layout.ld", "-o", "linked", "module.ko")
			if m.post != nil {
				run(t, dir, m.post[0], append(slices.Clone(m.post[1:]), "module.ko", "module.debug")...)
				if err := os.Rename(filepath.Join(dir, "module.debug"), filepath.Join(dir, "module.ko")); err != nil {
					t.Fatal(err)
				}
			}
			linked := openDebug(t, filepath.Join(dir, "linked"))
			module := openDebug(t, filepath.Join(dir, "module.ko"))
			compareRelocated(t, placed(module), linked)
		})
	}
}

// placed is a module with its sections where moduleLayout has them.
func placed(f *elffile.File) *elffile.File {
	addrs := map[int]unwind.FileAddr{}
	for i, s := range f.Sections {
		if a, ok := moduleSections()[s.Name]; ok {
			addrs[i] = a
		}
	}
	return f.WithAddrs(addrs)
}

func compareRelocated(t *testing.T, module, linked *elffile.File) {
	t.Helper()
	want, err := Open(linked, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer want.Close()
	got, err := Open(module, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	inlined, addresses := 0, 0
	for _, s := range linked.Sections {
		if s.Flags&elf.SHF_EXECINSTR == 0 {
			continue
		}
		for a := s.Addr; a < s.Addr+unwind.FileAddr(s.Size); a++ {
			w, werr := want.Lookup(nil, a)
			g, gerr := got.Lookup(nil, a)
			if !slices.Equal(w, g) || errors.Is(werr, ErrNotCovered) != errors.Is(gerr, ErrNotCovered) {
				t.Fatalf("%#x: %v, %v; want %v, %v", uint64(a), g, gerr, w, werr)
			}
			if len(w) > 0 {
				addresses++
			}
			if len(w) > 1 {
				inlined++
			}
		}
	}
	if addresses < 100 || inlined < 20 {
		t.Errorf("%d addresses, %d of them of inlined calls", addresses, inlined)
	}
	if err := errors.Join(got.Problems(), want.Problems()); err != nil {
		t.Error(err)
	}
}

// TestRelocations reads a section in pieces of all sizes: values that a piece has a part of are right as well.
func TestRelocations(t *testing.T) {
	const n = 3 * relaStep
	var table []byte
	want := make([]byte, 16*n)
	for i := range n {
		width, kind := 8, uint64(elf.R_X86_64_64)
		if i%2 == 1 {
			width, kind = 4, uint64(elf.R_X86_64_32)
		}
		if i%5 == 4 {
			kind = uint64(elf.R_X86_64_DTPOFF64) // nothing happens
		}
		table = binary.LittleEndian.AppendUint64(table, uint64(16*i+3))
		table = binary.LittleEndian.AppendUint64(table, uint64(i%3)<<32|kind)
		table = binary.LittleEndian.AppendUint64(table, uint64(i))
		if i%5 != 4 {
			var v [8]byte
			binary.LittleEndian.PutUint64(v[:], symbolsOfTest()[i%3]+uint64(i))
			copy(want[16*i+3:], v[:width])
		}
	}
	d := &Data{maxSteps: defaultSteps}
	d.begin()
	rel := &relocations{d: d, r: bytes.NewReader(table), n: n, symbols: symbolsOfTest(), arch: unwind.ArchAMD64}
	for i := 0; i < n; i += relaStep {
		rel.marks = append(rel.marks, uint64(16*i+3))
	}
	s := &relocated{r: bytes.NewReader(make([]byte, 16*n)), rel: rel}
	for _, size := range []int{1, 2, 7, 16, 4099, 16 * n} {
		got := make([]byte, 16*n)
		for off := 0; off < len(got); off += size {
			if _, err := s.ReadAt(got[off:min(off+size, len(got))], int64(off)); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("pieces of %d bytes differ", size)
		}
	}
	piece := make([]byte, 16)
	d.maxSteps = 50
	d.begin()
	if _, err := s.ReadAt(piece, 16*100); !errors.Is(err, ErrTooMuchWork) {
		t.Errorf("reading 100 relocations in 50 steps: %v", err)
	}
	d.maxSteps = 1000
	d.begin()
	rel.marks[1] = 1600
	if _, err := s.ReadAt(piece, 0); err != nil { // up to the first mark behind, whatever lies before it
		t.Error(err)
	}
	rel.r = bytes.NewReader(table[:10])
	if _, err := s.ReadAt(piece, 0); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a table cut short: %v", err)
	}
}

func symbolsOfTest() []uint64 { return []uint64{0, 0xffffffffc0400000, 0x12345678} }

// TestHostileRelocations changes every byte of a module's tables: nothing may panic, and what cannot be is an error.
func TestHostileRelocations(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "first.c"), []byte(moduleFirst), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, dir, "gcc", append(unwindtest.KernelFlags(), "-g", "-O2", "-ffreestanding", "-c", "-o", "module.ko", "first.c")...)
	whole, err := os.ReadFile(filepath.Join(dir, "module.ko"))
	if err != nil {
		t.Fatal(err)
	}
	open := func(b []byte) error {
		f, err := elffile.NewDebug(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return err
		}
		d, err := Open(placed(f), Options{})
		if err != nil {
			return err
		}
		defer d.Close()
		_, err = d.Lookup(nil, 0xffffffffc0400010)
		return errors.Join(err, d.Problems())
	}
	if err := open(whole); err != nil {
		t.Fatal(err)
	}
	f, err := elffile.NewDebug(bytes.NewReader(whole), int64(len(whole)))
	if err != nil {
		t.Fatal(err)
	}
	damaged := 0
	for i, s := range f.Sections {
		if s.Type != elf.SHT_RELA && s.Type != elf.SHT_SYMTAB {
			continue
		}
		header := binary.LittleEndian.Uint64(whole[40:]) + uint64(i)*64
		places := []uint64{}
		for b := range uint64(64) {
			places = append(places, header+b)
		}
		for b := uint64(0); b < s.Size; b += 5 {
			places = append(places, uint64(s.Offset)+b)
		}
		for _, p := range places {
			b := slices.Clone(whole)
			b[p] ^= 0xff
			if open(b) != nil {
				damaged++
			}
		}
	}
	if damaged == 0 {
		t.Error("no damage was seen")
	}
	i := slices.IndexFunc(f.Sections, func(s elffile.Section) bool { return s.Name == ".rela.debug_info" })
	at := f.Sections[i].Offset
	for name, second := range map[string][]byte{
		"out of order":         make([]byte, 8),
		"the same place twice": whole[at : at+8],
	} {
		b := slices.Clone(whole)
		copy(b[at+relaSize:], second)
		if err := open(b); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "not in order") {
			t.Errorf("%s: %v", name, err)
		}
	}
	t.Logf("%d kinds of damage were seen", damaged)
}

// TestRelocationsOfWhat: sections of split files have none, a file's symbols are of one table, and what took too many steps once is
// tried again.
func TestRelocationsOfWhat(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "first.c"), []byte(moduleFirst), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, flag := range []string{"-gz=none", "-gz=zlib"} {
		run(t, dir, "gcc", append(unwindtest.KernelFlags(), "-g", flag, "-O2", "-ffreestanding", "-c", "-o", "module.ko", "first.c")...)
		f := placed(openDebug(t, filepath.Join(dir, "module.ko")))
		budget := elffile.NewBudget("test", defaultBudget)
		d, err := Open(f.Within(budget), Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		split := d.newObject(f, "")
		if s, err := split.section(secInfo); err != nil || s.r != f.ReaderAt() && s.mem == nil || split.symbols != nil {
			t.Errorf("a split file: %+v, %v", s, err)
		}
		split.close()
		if _, err := d.main.symbolValues(d.main.symbolsOf + 1); !errors.Is(err, ErrFormat) {
			t.Errorf("another table of symbols: %v", err)
		}
		fresh := d.newObject(f, "")
		d.main, fresh = fresh, d.main
		used := budget.Used()
		for range 3 {
			d.left, d.steps = 3, 0
			if _, err := d.main.section(secInfo); !errors.Is(err, ErrTooMuchWork) {
				t.Errorf("%s: three steps: %v", flag, err)
			}
		}
		if budget.Used() != used || d.Stats().Failed != 0 {
			t.Errorf("%s: %d bytes were kept, %+v", flag, budget.Used()-used, d.Stats())
		}
		d.begin()
		if s, err := d.main.section(secInfo); err != nil || s == nil {
			t.Errorf("%s: in the next lookup: %v", flag, err)
		}
		fresh.close()
	}
}
