package kernelfile

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"iter"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/symbolize/kallsyms"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
)

const source = `
int counter;
int not_stext(int n) { return n + 1; }
static int hidden(int n) { return n * 3; }
__attribute__((noinline, section(".text.unlikely"))) int cold(int n) { return n - 1; }
__attribute__((section(".init.text"))) int start(int n) { return n; }
int work(int n) { return hidden(n) + cold(n) + not_stext(n) + counter; }
`

const kernelLayout = `SECTIONS {
	. = 0xffffffff81000000;
	.text : { _text = .; _stext = .; *(.text .text.unlikely) _etext = .; }
	.init.text : { *(.init.text) }
	.data : { my_stext = .; *(.data .bss) }
	/DISCARD/ : { *(.eh_frame .comment .note*) }
}
`

const moduleLayout = `SECTIONS {
	. = 0xffffffffc0400000; .text : { *(.text) }
	. = 0xffffffffc0560040; .text.unlikely : { *(.text.unlikely) }
	. = 0xffffffffc0700000; .init.text : { *(.init.text) }
	. = 0xffffffffc0800000; .data : { *(.data .bss) }
	/DISCARD/ : { *(.eh_frame .comment .note*) }
}
`

// build compiles the source to module.ko, and links it as vmlinux and as the module that runs.
func build(t testing.TB) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range map[string]string{"a.c": source, "kernel.ld": kernelLayout, "module.ld": moduleLayout} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range [][]string{
		append([]string{"gcc", "-g", "-O1", "-ffreestanding", "-c", "-o", "module.ko", "a.c"}, unwindtest.KernelFlags()...),
		{"ld", "-T", "kernel.ld", "-o", "vmlinux", "module.ko"},
		{"ld", "-T", "module.ld", "-o", "running", "module.ko"},
	} {
		unwindtest.Need(t, c[0])
		cmd := exec.Command(c[0], c[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", c, err, out)
		}
	}
	return dir
}

func open(t testing.TB, b []byte) *elffile.File {
	t.Helper()
	f, err := elffile.NewDebug(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return f.Within(elffile.NewBudget("test", 1<<20))
}

func read(t testing.TB, dir, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// functions are a linked file's, by name.
func functions(t testing.TB, dir, name string) map[string]uint64 {
	t.Helper()
	f, err := elf.Open(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]uint64{}
	for _, s := range symbols {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC || s.Name == kallsyms.TextBegin || s.Name == kallsyms.TextEnd {
			out[s.Name] = s.Value
		}
	}
	return out
}

func TestSlide(t *testing.T) {
	dir := build(t)
	known := functions(t, dir, "vmlinux")
	begin, end := known["_stext"], known["_etext"]
	if begin != 0xffffffff81000000 || end <= begin {
		t.Fatalf("%#x to %#x", begin, end)
	}
	f := open(t, read(t, dir, "vmlinux"))
	const kaslr = 0x1b000000
	below := begin - 0x7e0000000000 // arm64's may be anywhere
	for _, c := range []struct {
		begin, end uint64
		want       uint64
		err        error
	}{
		{begin, end, 0, nil},
		{begin + kaslr, end + kaslr, kaslr, nil},
		{begin + kaslr, 0, kaslr, nil},
		{below, below + (end - begin), below - begin, nil},
		{begin + kaslr, end + kaslr + 16, 0, ErrMismatch},
		{0, 0, 0, ErrMismatch},
	} {
		got, err := Slide(f, c.begin, c.end)
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%#x to %#x: %#x, %v", c.begin, c.end, got, err)
		}
	}
	if _, err := Slide(open(t, read(t, dir, "module.ko")), begin, end); !errors.Is(err, ErrMismatch) {
		t.Errorf("a file without _stext: %v", err)
	}
	if used := f.Budget().Used(); used != 0 {
		t.Errorf("%d bytes left in the budget", used)
	}
}

// TestPlace finds the sections of a module by some of its symbols; others are of no use, or are missing.
func TestPlace(t *testing.T) {
	dir := build(t)
	all := functions(t, dir, "running")
	f := open(t, read(t, dir, "module.ko"))
	of := func(names ...string) iter.Seq2[string, uint64] {
		return func(yield func(string, uint64) bool) {
			for _, n := range names {
				if !yield(n, all[n]) {
					return
				}
			}
		}
	}
	for _, c := range []struct {
		symbols iter.Seq2[string, uint64]
		want    map[string]unwind.FileAddr
	}{
		{maps.All(all), map[string]unwind.FileAddr{".text": 0xffffffffc0400000, ".text.unlikely": 0xffffffffc0560040, ".init.text": 0xffffffffc0700000}},
		{of("work", "cold", "unknown"), map[string]unwind.FileAddr{".text": 0xffffffffc0400000, ".text.unlikely": 0xffffffffc0560040, ".init.text": 0}},
	} {
		placed, err := Place(f, c.symbols)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range placed.Sections {
			if want, ok := c.want[s.Name]; ok && s.Addr != want {
				t.Errorf("%s is at %#x, want %#x", s.Name, uint64(s.Addr), uint64(want))
			}
		}
	}
	if i := slices.IndexFunc(f.Sections, func(s elffile.Section) bool { return s.Addr != 0 }); i >= 0 {
		t.Errorf("section %s was changed", f.Sections[i].Name)
	}
	twice := func(yield func(string, uint64) bool) {
		_ = yield("work", 1) && yield("work", all["work"]) && yield("cold", all["cold"])
	}
	if placed, err := Place(f, twice); err != nil || placed.Section(".text").Addr != 0 {
		t.Errorf("a name that is there twice: %v", err)
	}
	moved := func(yield func(string, uint64) bool) {
		_ = yield("work", all["work"]) && yield("not_stext", all["not_stext"]+16)
	}
	for name, symbols := range map[string]iter.Seq2[string, uint64]{"none": of("unknown"), "moved": moved} {
		if _, err := Place(f, symbols); !errors.Is(err, ErrMismatch) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Place(open(t, read(t, dir, "vmlinux")), maps.All(all)); !errors.Is(err, ErrMismatch) {
		t.Errorf("a linked file: %v", err)
	}
	if used := f.Budget().Used(); used != 0 {
		t.Errorf("%d bytes left in the budget", used)
	}
}

// TestHostile damages the tables of symbols: nothing panics, and what is found is right, or an error.
func TestHostile(t *testing.T) {
	dir := build(t)
	for _, name := range []string{"vmlinux", "module.ko"} {
		whole := read(t, dir, name)
		all := functions(t, dir, "running")
		f := open(t, whole)
		errs := 0
		for i, s := range f.Sections {
			if s.Type != elf.SHT_SYMTAB && s.Type != elf.SHT_STRTAB {
				continue
			}
			header := binary.LittleEndian.Uint64(whole[40:]) + uint64(i)*64
			var places []uint64
			for b := range uint64(64) {
				places = append(places, header+b)
			}
			for b := range s.Size {
				places = append(places, uint64(s.Offset)+b)
			}
			for _, p := range places {
				b := slices.Clone(whole)
				b[p] ^= 0xff
				damaged, err := elffile.NewDebug(bytes.NewReader(b), int64(len(b)))
				if err != nil {
					continue
				}
				damaged = damaged.Within(elffile.NewBudget("test", 1<<20))
				_, serr := Slide(damaged, 0xffffffff81000000, 0)
				_, perr := Place(damaged, maps.All(all))
				if serr != nil && perr != nil {
					errs++
				}
				if used := damaged.Budget().Used(); used != 0 {
					t.Fatalf("%d bytes left in the budget", used)
				}
			}
		}
		if errs == 0 {
			t.Errorf("%s: no damage was seen", name)
		}
	}
}

// dir is a root.
type root struct{ dir string }

func (r root) Open(path string) (*os.File, error) { return os.Open(filepath.Join(r.dir, path)) }

func TestPaths(t *testing.T) {
	r := root{t.TempDir()}
	write := func(text string) {
		path := filepath.Join(r.dir, "lib/modules/6.1.0-13-amd64/modules.dep")
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := ModulePaths(r, "6.1.0-13-amd64", "nft_chain_nat"); got != nil {
		t.Errorf("without modules.dep: %q", got)
	}
	write("kernel/net/nf-other.ko:\nkernel/net/netfilter/nft-chain-nat.ko.xz: kernel/net/nf_nat.ko.xz\nkernel/../../../../etc/evil.ko:\n/lib/own.ko:\n")
	for _, c := range []struct {
		release, module string
		want            []string
	}{
		{"6.1.0-13-amd64", "nft_chain_nat", []string{
			"/usr/lib/debug/lib/modules/6.1.0-13-amd64/kernel/net/netfilter/nft-chain-nat.ko",
			"/usr/lib/debug/lib/modules/6.1.0-13-amd64/kernel/net/netfilter/nft-chain-nat.ko.debug",
			"/lib/modules/6.1.0-13-amd64/kernel/net/netfilter/nft-chain-nat.ko",
			"/lib/modules/6.1.0-13-amd64/build/net/netfilter/nft-chain-nat.ko",
		}},
		{"6.1.0-13-amd64", "nf_other", []string{
			"/usr/lib/debug/lib/modules/6.1.0-13-amd64/kernel/net/nf-other.ko",
			"/usr/lib/debug/lib/modules/6.1.0-13-amd64/kernel/net/nf-other.ko.debug",
			"/lib/modules/6.1.0-13-amd64/kernel/net/nf-other.ko",
			"/lib/modules/6.1.0-13-amd64/build/net/nf-other.ko",
		}},
		{"6.1.0-13-amd64", "evil", []string{
			"/usr/lib/debug/lib/modules/6.1.0-13-amd64/etc/evil.ko", "/usr/lib/debug/lib/modules/6.1.0-13-amd64/etc/evil.ko.debug",
			"/lib/modules/6.1.0-13-amd64/etc/evil.ko", "/lib/modules/6.1.0-13-amd64/build/etc/evil.ko",
		}},
		{"6.1.0-13-amd64", "own", nil},
		{"6.1.0-13-amd64", "nf_nat", nil},
		{"6.1.0-13-amd64", "a/b", nil},
		{"..", "nf_other", nil},
		{"6.1/../..", "nf_other", nil},
	} {
		if got := ModulePaths(r, c.release, c.module); !slices.Equal(got, c.want) {
			t.Errorf("%s %s: %q", c.release, c.module, got)
		}
	}
	if got := VmlinuxPaths("6.1.0-13-amd64"); !slices.Contains(got, "/usr/lib/debug/boot/vmlinux-6.1.0-13-amd64") {
		t.Errorf("%q", got)
	}
	if got := VmlinuxPaths("../x"); got != nil {
		t.Errorf("%q", got)
	}
}
