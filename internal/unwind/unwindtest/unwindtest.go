// Package unwindtest is what tests of several packages share: files, tables as text, tools. It is for tests only.
package unwindtest

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

// Need fails the test if a tool (a command, or a command's path) is not on the machine: a test that needs a tool does not
// pass without it. scripts/setup.sh installs them all.
func Need(t testing.TB, tools ...string) {
	t.Helper()
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("%s is missing: install it with make setup (%v)", tool, err)
		}
	}
}

// KernelFlags are what compilers of the machine's own architecture need for code at the kernel's addresses.
func KernelFlags() []string {
	if runtime.GOARCH == "amd64" {
		return []string{"-fno-pic", "-mcmodel=kernel"}
	}
	return []string{"-fno-pic"} // arm64's reaches its surroundings, wherever it lies
}

// Open opens an ELF file, which stays open until the test ends.
func Open(t testing.TB, path string) *elffile.File {
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
	f, err := elffile.New(r, st.Size())
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return f
}

// Seeds reads those of testdata's ELF files that are small enough for fuzzing; root is the path to the project's.
func Seeds(t testing.TB, root string, names ...string) (all [][]byte) {
	t.Helper()
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(root, "testdata/elf", name+".elf"))
		if err != nil {
			t.Fatal(err)
		}
		if len(b) < 1<<17 {
			all = append(all, b)
		}
	}
	return all
}

// Symbols are those of a file's .symtab.
func Symbols(t testing.TB, path string) []elf.Symbol {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return symbols
}

// ImageBase is where an Image's code begins.
const ImageBase = 0x10000

// Image is an ELF file with nothing but one executable segment of code at ImageBase.
func Image(t testing.TB, machine elf.Machine, entry uint64, code []byte) *elffile.File {
	t.Helper()
	const header, program = 64, 56 // sizes of Elf64_Ehdr and Elf64_Phdr
	le := binary.LittleEndian
	b := make([]byte, header+program, header+program+len(code))
	copy(b, "\x7fELF\x02\x01\x01")
	le.PutUint16(b[16:], uint16(elf.ET_EXEC))
	le.PutUint16(b[18:], uint16(machine))
	le.PutUint64(b[24:], entry)
	le.PutUint64(b[32:], header)  // e_phoff
	le.PutUint16(b[54:], program) // e_phentsize
	le.PutUint16(b[56:], 1)       // e_phnum
	p := b[header:]
	le.PutUint32(p, uint32(elf.PT_LOAD))
	le.PutUint32(p[4:], uint32(elf.PF_X|elf.PF_R))
	le.PutUint64(p[8:], header+program) // p_offset
	le.PutUint64(p[16:], ImageBase)     // p_vaddr
	le.PutUint64(p[32:], uint64(len(code)))
	le.PutUint64(p[40:], uint64(len(code)))
	b = append(b, code...)
	f, err := elffile.New(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Dump writes a table as text: a line a row.
func Dump(tab *unwind.Table) string {
	var s strings.Builder
	for _, r := range tab.Rows {
		fmt.Fprintf(&s, "%#x %v\n", uint64(r.Start), tab.Rules[r.Rule])
	}
	return s.String()
}

// WellFormed fails the test if rows are not in order or if neighbours say the same.
func WellFormed(t testing.TB, tab *unwind.Table) {
	t.Helper()
	for i := 1; i < len(tab.Rows); i++ {
		if tab.Rows[i].Start <= tab.Rows[i-1].Start || tab.Rows[i].Rule == tab.Rows[i-1].Rule {
			t.Fatalf("row %d: %+v", i, tab.Rows)
		}
	}
}
