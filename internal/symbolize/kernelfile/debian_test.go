package kernelfile

import (
	"bufio"
	"debug/elf"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostprofiles/hostprofiles/internal/symbolize/dwarf"
	"github.com/hostprofiles/hostprofiles/internal/symbolize/kallsyms"
	"github.com/hostprofiles/hostprofiles/internal/symbolize/symbolizertest"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
)

// fullTest is the environment variable that asks for the long tests.
const fullTest = "HOSTPROFILES_TEST_FULL"

// workingBytes is what a batch of look-ups may take with the default budget of 256 MiB: engine.debugShare.
const workingBytes = 32 << 20

// TestDebianKernel looks functions of a real kernel up, and of its modules, as if they ran elsewhere.
func TestDebianKernel(t *testing.T) {
	if os.Getenv(fullTest) == "" {
		t.Skipf("downloads 300 MB of debug information; set %s=1 to run it", fullTest)
	}
	cmd := exec.Command("../../../scripts/kernels/debug.sh", "bookworm", "amd64")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := strings.TrimSpace(string(out))
	t.Run("vmlinux", func(t *testing.T) { testVmlinux(t, dir) })
	for _, name := range []string{"wp512", "nf_tables", "xfs"} {
		t.Run(name, func(t *testing.T) { testModule(t, filepath.Join(dir, name+".ko")) })
	}
}

func testVmlinux(t *testing.T, dir string) {
	const kaslr = 0x1d400000
	f := openFile(t, filepath.Join(dir, "vmlinux"))
	begin, end := systemMap(t, filepath.Join(dir, "System.map"), kaslr).Text()
	began := time.Now()
	slide, err := Slide(f, begin, end)
	if err != nil || slide != kaslr {
		t.Fatalf("%#x, %v", slide, err)
	}
	t.Logf("its place was found in %v", time.Since(began))
	var addrs []unwind.FileAddr
	size := end - begin
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		addrs = append(addrs, unwind.FileAddr(begin-slide+r.Uint64N(size)))
	}
	d, answers := lookUp(t, f, addrs)
	counts, wrong := symbolizertest.Compare(t, filepath.Join(dir, "vmlinux"), addrs, answers, symbolizertest.Options{})
	t.Logf("%d addresses: %v; %d bytes are kept", len(addrs), counts, d.Kept())
	for _, w := range wrong {
		t.Error(w)
	}
}

// systemMap is what /proc/kallsyms says of a kernel that was moved: System.map has the same lines.
func systemMap(t *testing.T, path string, slide uint64) *kallsyms.Table {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var text strings.Builder
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var addr uint64
		var typ, name string
		if _, err := fmt.Sscanf(lines.Text(), "%x %s %s", &addr, &typ, &name); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "%016x %s %s\n", addr+slide, typ, name)
	}
	table, err := kallsyms.Parse(strings.NewReader(text.String()), nil)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// testModule compares a module with what the linker makes of it.
func testModule(t *testing.T, path string) {
	linked := link(t, path)
	running := functions(t, filepath.Dir(linked), filepath.Base(linked))
	f, err := Place(openFile(t, path), func(yield func(string, uint64) bool) {
		for name, addr := range running {
			if !yield(name, addr) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	var addrs []unwind.FileAddr
	r := rand.New(rand.NewPCG(3, 4))
	for _, s := range f.Sections {
		if s.Flags&code != code || s.Addr == 0 {
			continue
		}
		for range 100 {
			addrs = append(addrs, s.Addr+unwind.FileAddr(r.Uint64N(s.Size)))
		}
	}
	_, got := lookUp(t, f, addrs)
	_, want := lookUp(t, openFile(t, linked), addrs)
	lines := 0
	for i, a := range addrs {
		if !slices.Equal(got[i].Lines, want[i].Lines) || got[i].Outside != want[i].Outside {
			t.Errorf("%#x: %v, want %v", uint64(a), got[i], want[i])
		}
		if len(want[i].Lines) > 0 {
			lines++
		}
	}
	if lines < len(addrs)/2 || len(addrs) < 100 {
		t.Errorf("%d of %d addresses have lines", lines, len(addrs))
	}
	t.Logf("%d of %d addresses have lines", lines, len(addrs))
}

// link puts a module's sections where a kernel could; what it wants of the kernel is left open.
func link(t *testing.T, path string) string {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var script strings.Builder
	script.WriteString("SECTIONS {\n")
	at := uint64(0xffffffffc0400000)
	for _, s := range f.Sections {
		if s.Flags&elf.SHF_EXECINSTR != 0 && s.Size > 0 {
			fmt.Fprintf(&script, ". = %#x; %s : { *(%s) }\n", at, s.Name, s.Name)
			at = (at + s.Size + 0x3fff) &^ 0xfff
		}
	}
	script.WriteString("/DISCARD/ : { *(.eh_frame .orc* .BTF* .comment .note*) } }\n")
	dir := t.TempDir()
	layout, linked := filepath.Join(dir, "layout.ld"), filepath.Join(dir, "linked")
	if err := os.WriteFile(layout, []byte(script.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	unwindtest.Need(t, "ld")
	// Relocations of what is left open do not fit: the file is made all the same.
	out, err := exec.Command("ld", "--noinhibit-exec", "--unresolved-symbols=ignore-all", "-T", layout, "-o", linked, path).CombinedOutput()
	if _, serr := os.Stat(linked); serr != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return linked
}

func openFile(t *testing.T, path string) *elffile.File {
	t.Helper()
	r, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	st, err := r.Stat()
	if err != nil {
		t.Fatal(err)
	}
	f, err := elffile.NewDebug(r, st.Size())
	if err != nil {
		t.Fatal(err)
	}
	return f.Within(elffile.NewBudget(path, workingBytes))
}

func lookUp(t *testing.T, f *elffile.File, addrs []unwind.FileAddr) (*dwarf.Data, []symbolizertest.Answer) {
	t.Helper()
	began := time.Now()
	d, err := dwarf.Open(f, dwarf.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	opened := time.Since(began)
	answers := make([]symbolizertest.Answer, len(addrs))
	err = d.LookupAll(addrs, func(n int, lines []unwind.Line, err error) {
		answers[n] = symbolizertest.Answer{Lines: slices.Clone(lines), Err: err, Outside: errors.Is(err, dwarf.ErrNotCovered)}
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Problems(); err != nil {
		t.Error(err)
	}
	t.Logf("opened in %v, %d addresses in %v", opened, len(addrs), time.Since(began)-opened)
	return d, answers
}
