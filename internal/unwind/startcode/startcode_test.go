package startcode

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/ehframe"
	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
)

const program = `
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <threads.h>
static void *thread(void *a) { return a; }
static int thread11(void *a) { return a != 0; }
static void handler(int s) {}
int main(int c, char **v)
{
	pthread_t t;
	thrd_t u;
	signal(SIGUSR1, handler);
	pthread_create(&t, 0, thread, 0);
	thrd_create(&u, thread11, 0);
	return printf("%d", c) == 7;
}
`

func build(t testing.TB, args ...string) string {
	t.Helper()
	dir := t.TempDir()
	src, out := filepath.Join(dir, "a.c"), filepath.Join(dir, "a")
	if err := os.WriteFile(src, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("musl-gcc", append(args, "-O2", "-o", out, src)...)
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, b)
	}
	return out
}

// TestMusl takes the truth from the symbols of an unstripped build and looks for the same in a stripped one.
func TestMusl(t *testing.T) {
	whole := build(t, "-static")
	stripped := whole + ".stripped"
	if b, err := exec.Command("strip", "-o", stripped, whole).CombinedOutput(); err != nil {
		t.Fatalf("strip: %v\n%s", err, b)
	}
	syms := symbols(t, whole)
	for _, path := range []string{whole, stripped} {
		f := unwindtest.Open(t, path)
		eh, _, err := ehframe.EHFrame(f)
		if err != nil {
			t.Fatal(err)
		}
		tab, st, err := Find(f, eh)
		if err != nil {
			t.Fatal(err)
		}
		if st.Starts != 4 || st.Trampolines != 1 || !st.Entry {
			t.Errorf("%s: %+v", path, st)
		}
		for _, name := range []string{"libc_start_main_stage2", "start", "start_c11", "__clone"} {
			if n := roots(tab, syms[name]); n == 0 {
				t.Errorf("%s: no root in %s", path, name)
			}
		}
		for _, name := range []string{"main", "exit", "thread", "pthread_create"} {
			if n := roots(tab, syms[name]); n != 0 {
				t.Errorf("%s: %d roots in %s", path, n, name)
			}
		}
		restore := unwind.FileAddr(syms["__restore_rt"].Value)
		for _, a := range []unwind.FileAddr{restore - 1, restore, restore + 8} {
			if r := tab.Lookup(a); r.CFA != unwind.CFASignal {
				t.Errorf("%s: restore%+d: %v", path, int64(a-restore), r)
			}
		}
		if r := tab.Lookup(f.Entry); r.CFA != unwind.CFARoot {
			t.Errorf("%s: entry: %v", path, r)
		}
	}
}

func symbols(t testing.TB, path string) map[string]elf.Symbol {
	t.Helper()
	m := map[string]elf.Symbol{}
	for _, s := range unwindtest.Symbols(t, path) {
		if elf.ST_TYPE(s.Info) != elf.STT_FILE {
			m[s.Name] = s
		}
	}
	return m
}

// roots counts the bytes of a symbol that are roots; assembly has no sizes, but ends within 64 bytes.
func roots(tab *unwind.Table, s elf.Symbol) (n int) {
	size := s.Size
	if size == 0 {
		size = 64
	}
	for a := s.Value; a < s.Value+size; a++ {
		if tab.Lookup(unwind.FileAddr(a)).CFA == unwind.CFARoot {
			n++
		}
	}
	return n
}

// TestMuslLibrary looks at the shared musl, which has no more starts than the static one.
func TestMuslLibrary(t *testing.T) {
	path := "/lib/ld-musl-x86_64.so.1"
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	f := unwindtest.Open(t, path)
	_, st, err := Find(f, &unwind.Table{})
	if err != nil || st.Starts != 4 || st.Trampolines != 1 {
		t.Errorf("%+v, %v", st, err)
	}
}

// TestARM64 has musl's code for aarch64, as gcc 12 compiles it: __libc_start_main's call of main, pthread_create's start
// and start_c11 with their call of __pthread_exit, a pair of calls that means nothing, clone, and the trampoline.
func TestARM64(t *testing.T) {
	words := []uint32{
		0xd280001d, 0xd280001e, 0x910003e0, 0x90000001, 0x91000021, 0x927cec1f, 0x14000002, 0xd503201f, // 0: _start
		0xd63f02a0, 0x94000010, 0xd503201f, // 20: blr x21; bl 0x10064 (exit)
		0xd63f0020, 0x94000010, 0xaa1303e0, // 2c: blr x1; bl 0x10070 (__pthread_exit), and more code
		0xd63f0020, 0x93407c00, 0x9400000c, 0xd503201f, // 38: the same with sxtw and padding
		0xd63f0060, 0x94000010, 0xb9400000, // 48: blr x3; bl 0x1008c (__errno_location), ldr w0, [x0]
		0xa8c103e1, 0xd63f0020, 0xd2800ba8, 0xd4000001, 0xd503201f, // 54: clone
		0xd2801168, 0xd4000001, 0xd503201f, 0xd503201f, 0xd503201f, 0xd503201f, // 68: __restore_rt
	}
	var code []byte
	for _, w := range words {
		code = binary.LittleEndian.AppendUint32(code, w)
	}
	f := unwindtest.Image(t, elf.EM_AARCH64, 0x10000, code)
	tab, st, err := Find(f, &unwind.Table{})
	if err != nil {
		t.Fatal(err)
	}
	want := `0x10000 root
0x1001c none
0x10020 root
0x10028 none
0x1002c root
0x10034 none
0x10038 root
0x10044 none
0x10058 root
0x10064 none
0x10067 signal
0x10070 none
`
	if got := unwindtest.Dump(tab); got != want {
		t.Errorf("%+v\n%swant\n%s", st, got, want)
	}
}

// TestAcrossChunks puts the patterns at every place around where a chunk ends.
func TestAcrossChunks(t *testing.T) {
	pattern := []byte{0xff, 0x54, 0x24, 0x08, 0x48, 0x89, 0xc7, 0xe8, 0, 0, 0, 0}
	for shift := -50; shift < 20; shift++ {
		code := bytes.Repeat([]byte{0x90}, chunk+1000)
		at := chunk + shift
		copy(code[at:], pattern)
		copy(code[at+len(pattern):], sigreturnRAX)
		_, st, err := Find(unwindtest.Image(t, elf.EM_X86_64, 0, code), &unwind.Table{})
		if err != nil || st.Starts != 1 || st.Trampolines != 1 {
			t.Errorf("%d: %+v, %v", shift, st, err)
		}
	}
}

func TestIndirectCall(t *testing.T) {
	for _, c := range []struct {
		code []byte
		want int
	}{
		{[]byte{0xff, 0xd3}, 2},                                     // call *%rbx
		{[]byte{0x41, 0xff, 0xd1}, 3},                               // call *%r9
		{[]byte{0xff, 0x13}, 2},                                     // call *(%rbx)
		{[]byte{0xff, 0x53, 0x10}, 3},                               // call *16(%rbx)
		{[]byte{0xff, 0x54, 0x24, 0x08}, 4},                         // call *8(%rsp)
		{[]byte{0xff, 0x93, 0, 1, 0, 0}, 6},                         // call *256(%rbx)
		{[]byte{0xff, 0x94, 0x24, 0, 1, 0, 0}, 7},                   // call *256(%rsp)
		{[]byte{0xff, 0x14, 0xc5, 0, 0, 0, 0}, 7},                   // call *0(,%rax,8)
		{[]byte{0xff, 0x15, 0, 1, 0, 0}, 0},                         // call *256(%rip)
		{[]byte{0xff, 0xe0}, 0},                                     // jmp *%rax
		{[]byte{0xff, 0x30}, 0},                                     // push (%rax)
		{[]byte{0xff}, 0},                                           // cut
		{[]byte{0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90}, 0}, // nothing
	} {
		if got := indirectCall(c.code); got != c.want {
			t.Errorf("% x: %d, want %d", c.code, got, c.want)
		}
	}
}

// TestClone looks at glibc's clone and clone3.
func TestClone(t *testing.T) {
	f := unwindtest.Open(t, "/lib/x86_64-linux-gnu/libc.so.6") // package libc6
	eh, _, err := ehframe.EHFrame(f)
	if err != nil {
		t.Fatal(err)
	}
	tab, st, err := Find(f, eh)
	if err != nil || st.Syscalls != 2 || st.Contexts != 1 || st.Starts != 0 || st.Trampolines != 0 {
		t.Errorf("%+v, %v\n%s", st, err, unwindtest.Dump(tab))
	}
}

// TestCovered leaves alone what has rules, and needs a trampoline to believe in starts.
func TestCovered(t *testing.T) {
	code := bytes.Repeat([]byte{0x90}, 256)
	copy(code[100:], []byte{0xff, 0xd3, 0x89, 0xc7, 0xe8, 0, 0, 0, 0})
	if tab, st, err := Find(unwindtest.Image(t, elf.EM_X86_64, 0, code), &unwind.Table{}); err != nil || len(tab.Rows) != 0 {
		t.Errorf("no trampoline: %+v, %v", st, err)
	}
	copy(code[150:], sigreturnEAX)
	covered := &unwind.Table{
		Rows:  []unwind.Row{{Start: 0x10000, Rule: 1}, {Start: 0x10000 + 120}},
		Rules: []unwind.Rule{{}, {CFA: unwind.CFAReg, Reg: 7, Offset: 8}},
	}
	_, st, err := Find(unwindtest.Image(t, elf.EM_X86_64, 0x10000, code), covered)
	if err != nil || st.Starts != 0 || st.Trampolines != 1 || st.Entry {
		t.Errorf("%+v, %v", st, err)
	}
}

// TestShortGap has the end of the vdso of Linux 5.10 for arm64 (Debian's 5.10.0-32): the nop and the trampoline behind the
// last function that has a rule.
func TestShortGap(t *testing.T) {
	var code []byte
	for _, w := range []uint32{0xd4000001, 0xd50323bf, 0xd65f03c0, 0xd503201f, 0xd2801168, 0xd4000001} {
		code = binary.LittleEndian.AppendUint32(code, w)
	}
	covered := &unwind.Table{
		Rows:  []unwind.Row{{Start: unwindtest.ImageBase, Rule: 1}, {Start: unwindtest.ImageBase + 12}},
		Rules: []unwind.Rule{{}, {CFA: unwind.CFAReg, Reg: unwind.ARM64SP, RA: unwind.RAReg, RAOffset: unwind.ARM64LR}},
	}
	tab, st, err := Find(unwindtest.Image(t, elf.EM_AARCH64, 0, code), covered)
	if got, want := unwindtest.Dump(tab), "0x1000f signal\n0x10018 none\n"; err != nil || got != want {
		t.Errorf("%+v, %v\n%swant\n%s", st, err, got, want)
	}
}

// TestEntry has an entry point whose first call is as far away as those of Free Pascal's programs.
func TestEntry(t *testing.T) {
	code := bytes.Repeat([]byte{0x90}, 256)
	copy(code[67:], []byte{0xe8, 0, 0, 0, 0})
	tab, st, err := Find(unwindtest.Image(t, elf.EM_X86_64, 0x10000, code), &unwind.Table{})
	if got, want := unwindtest.Dump(tab), "0x10000 root\n0x10048 none\n"; err != nil || got != want || !st.Entry {
		t.Errorf("%+v, %v\n%swant\n%s", st, err, got, want)
	}
}

func FuzzFind(f *testing.F) {
	f.Add(true, uint64(0x10000), append([]byte{0xff, 0xd3, 0x89, 0xc7, 0xe8, 0, 0, 0, 0}, sigreturnRAX...))
	f.Add(false, uint64(0x10004), []byte{0x20, 0, 0x3f, 0xd6, 0, 0, 0, 0x94, 0x68, 0x11, 0x80, 0xd2, 1, 0, 0, 0xd4})
	f.Fuzz(func(t *testing.T, amd64 bool, entry uint64, code []byte) {
		m := elf.EM_AARCH64
		if amd64 {
			m = elf.EM_X86_64
		}
		tab, _, err := Find(unwindtest.Image(t, m, entry, code), &unwind.Table{})
		if err != nil {
			t.Fatal(err)
		}
		unwindtest.WellFormed(t, tab)
	})
}

// TestContext has the function that a coroutine returns to, and the same instructions where nothing returns to: in the middle of
// code, and in a function that is too long.
func TestContext(t *testing.T) {
	code := bytes.Repeat([]byte{0x90}, 0x400)
	for _, at := range []int{0x40, 0x90, 0x140, 0x240} {
		copy(code[at:], contextAMD64)
	}
	covered := &unwind.Table{Rules: []unwind.Rule{{}, {CFA: unwind.CFAReg, Reg: unwind.AMD64RSP, Offset: 8}}}
	for _, f := range [][2]unwind.FileAddr{{0, 0x3a}, {0x40, 0x5a}, {0x60, 0x139}, {0x140, 0x239}, {0x240, 0x25a}, {0x260, 0x400}} {
		covered.Rows = append(covered.Rows, unwind.Row{Start: 0x10000 + f[0], Rule: 1}, unwind.Row{Start: 0x10000 + f[1]})
	}
	tab, st, err := Find(unwindtest.Image(t, elf.EM_X86_64, 0x10000, code), covered)
	if err != nil {
		t.Fatal(err)
	}
	want := "0x1003f root\n0x10040 none\n0x1023f root\n0x10240 none\n"
	if got := unwindtest.Dump(tab); got != want || st.Contexts != 2 {
		t.Errorf("%+v\n%swant\n%s", st, got, want)
	}
}

// TestFiber has what a fiber of Boost.Context's returns to, and code that is like it in all but one thing.
func TestFiber(t *testing.T) {
	words := func(all ...uint32) (b []byte) {
		for _, w := range all {
			b = binary.LittleEndian.AppendUint32(b, w)
		}
		return b
	}
	for _, x := range []struct {
		name    string
		machine elf.Machine
		code    []byte
		want    string
	}{
		{"amd64", elf.EM_X86_64, []byte("\x55\xff\xe3\x48\x31\xff\xe8\x00\x01\x00\x00\xf4"), "0x10022 root\n0x1002c none\n"},
		{"endbr64", elf.EM_X86_64, []byte("\x55\xff\xe3\xf3\x0f\x1e\xfa\x48\x31\xff\xe8\x00\x01\x00\x00\xf4"), "0x10022 root\n0x10030 none\n"},
		{"another jump", elf.EM_X86_64, []byte("\x55\xff\xe0\x48\x31\xff\xe8\x00\x01\x00\x00\xf4"), ""},
		{"another argument", elf.EM_X86_64, []byte("\x55\xff\xe3\x48\x31\xf6\xe8\x00\x01\x00\x00\xf4"), ""},
		{"it may return", elf.EM_X86_64, []byte("\x55\xff\xe3\x48\x31\xff\xe8\x00\x01\x00\x00\xc3"), ""},
		{"no call", elf.EM_X86_64, []byte("\x55\xff\xe3\x48\x31\xff\xe9\x00\x01\x00\x00\xf4"), ""},
		{"arm64", elf.EM_AARCH64, words(0xf9004c01, 0xd65f03c0, 0xd2800000, 0x94000040), "0x10027 root\n0x10030 none\n"},
		{"arm64, nothing is noted", elf.EM_AARCH64, words(0xf9004c02, 0xd65f03c0, 0xd2800000, 0x94000040), ""},
		{"arm64, another argument", elf.EM_AARCH64, words(0xf9004c01, 0xd65f03c0, 0xd2800020, 0x94000040), ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			code := make([]byte, 0x200)
			copy(code[0x20:], x.code)
			tab, st, err := Find(unwindtest.Image(t, x.machine, 0, code), &unwind.Table{})
			if err != nil {
				t.Fatal(err)
			}
			if got := unwindtest.Dump(tab); got != x.want || (st.Contexts == 1) != (x.want != "") {
				t.Errorf("%+v\n%swant\n%s", st, got, x.want)
			}
		})
	}
}
