package codeflow

import (
	"bytes"
	"debug/elf"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/ehframe"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
	"github.com/hostprofiles/hostprofiles/internal/unwind/tablebuild"
	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
)

// TestAgainstCFI follows the code of binaries that have call frame information, without looking at it, and compares the
// two: where code is followed, it must hardly ever say something else about the CFA and the return address.
func TestAgainstCFI(t *testing.T) {
	var paths []string
	for _, pattern := range []string{"/bin/bash", "/usr/bin/readelf", "/lib/*-linux-gnu/libc.so.6", "/lib/*-linux-gnu/libm.so.6",
		"/usr/lib/*-linux-gnu/libstdc++.so.6", "/usr/lib/*-linux-gnu/libcrypto.so.3", "/usr/*-linux-gnu/lib/libc.so.6",
		"/usr/*-linux-gnu/lib/libstdc++.so.6"} {
		m, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, m...)
	}
	if len(paths) < 3 {
		t.Fatalf("only %v found", paths)
	}
	for _, path := range paths {
		f := unwindtest.Open(t, path)
		truth, _, err := ehframe.EHFrame(f)
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		got, st, err := Find(f, &unwind.Table{})
		took := time.Since(begin)
		if err != nil || st.TooLarge {
			t.Fatalf("%s: %+v, %v", path, st, err)
		}
		var same, wrong, missing uint64
		shown := 0
		for _, g := range f.Code() {
			for a := g.VAddr; a < g.VAddr+unwind.FileAddr(g.FileSize); a++ {
				want, have := truth.Lookup(a), got.Lookup(a)
				switch {
				case want.CFA == unwind.CFANone || want.CFA == unwind.CFARoot:
				case have.CFA == unwind.CFANone:
					missing++
				case equivalent(want, have):
					same++
				default:
					if wrong++; shown < 5 && truth.Lookup(a-1) != want {
						shown++
						t.Logf("%#x: %v, want %v", uint64(a), have, want)
					}
				}
			}
		}
		all := same + wrong + missing
		t.Logf("%s: %.2f %% same, %.3f %% wrong, %.2f %% missing; %v for %d bytes, %+v", path, 100*float64(same)/float64(all),
			100*float64(wrong)/float64(all), 100*float64(missing)/float64(all), took, st.Code, st)
		// Much of what is wrong lies behind calls that do not return: the way on comes to code that was followed with
		// another stack, and what it noted before stays. To drop that made bash's and perl's wrong bytes a fifth and a
		// tenth, but took a sixtieth of libc's right ones and none of its wrong ones. What is missing lies, for the
		// most part, in assembly that keeps the stack pointer in another register.
		if wrong*100 > 2*all || same*100 < 75*all {
			t.Errorf("%s: %d of %d bytes wrong, %d the same", path, wrong, all, same)
		}
	}
}

// equivalent tells whether two rules lead to the same caller as far as can be told without running: bases may differ (a
// frame pointer instead of the stack pointer, or the other way round), and what they say then about the CFA.
func equivalent(want, have unwind.Rule) bool {
	if want.RA != have.RA || want.RAOffset != have.RAOffset {
		return false
	}
	if want.CFA != unwind.CFAReg || have.CFA != unwind.CFAReg || want.Reg != have.Reg {
		return want.FP != unwind.SaveAtCFA || have.FP != unwind.SaveAtCFA || want.FPOffset == have.FPOffset
	}
	return want.Offset == have.Offset
}

// assemble makes a file of code that gcc or its cross compiler assembles.
func assemble(t *testing.T, machine elf.Machine, source string) *elffile.File {
	t.Helper()
	compiler := map[elf.Machine]string{elf.EM_X86_64: "x86_64-linux-gnu-gcc", elf.EM_AARCH64: "aarch64-linux-gnu-gcc"}[machine]
	unwindtest.Need(t, compiler)
	dir := t.TempDir()
	src, obj := filepath.Join(dir, "a.s"), filepath.Join(dir, "a.o")
	if err := os.WriteFile(src, []byte("\t.text\n"+source), 0o600); err != nil {
		t.Fatal(err)
	}
	if b, err := exec.Command(compiler, "-c", "-o", obj, src).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	f, err := elf.Open(obj)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	code, err := f.Section(".text").Data()
	if err != nil {
		t.Fatal(err)
	}
	return unwindtest.Image(t, machine, 0x10000, code)
}

func checkSource(t *testing.T, machine elf.Machine, name, source, want string) {
	t.Helper()
	tab, st, err := Find(assemble(t, machine, source), &unwind.Table{})
	if got := unwindtest.Dump(tab); err != nil || got != want {
		t.Errorf("%s: %+v, %v\n%swant\n%s", name, st, err, got, want)
	}
}

func TestAMD64(t *testing.T) {
	for _, c := range [][3]string{
		{"pushes and locals", `
			push %rbp; push %rbx; sub $24, %rsp; xor %ebx, %ebx; mov %rsp, %rbp
			add $24, %rsp; pop %rbx; pop %rbp; ret`, `
			0x10000 cfa=r7+8 ra=c-8
			0x10001 cfa=r7+16 ra=c-8 fp=c-16
			0x10002 cfa=r7+24 ra=c-8 fp=c-16 bx=c-24
			0x10006 cfa=r7+48 ra=c-8 fp=c-16 bx=c-24
			0x1000f cfa=r7+24 ra=c-8 fp=c-16 bx=c-24
			0x10010 cfa=r7+16 ra=c-8 fp=c-16
			0x10011 cfa=r7+8 ra=c-8
			0x10012 none`},
		{"frame pointer", `
			push %rbp; mov %rsp, %rbp; sub %rax, %rsp; and $-64, %rsp; call 1f; leave; ret; 1: nop; ret`, `
			0x10000 cfa=r7+8 ra=c-8
			0x10001 cfa=r7+16 ra=c-8 fp=c-16
			0x10004 cfa=r6+16 ra=c-8 fp=c-16
			0x10011 cfa=r7+8 ra=c-8
			0x10014 none`},
		{"branches and a tail call", `
			test %edi, %edi; je 1f; push %rax; call f; pop %rdx; 1: jmp f
			ud2
			f: ret`, `
			0x10000 cfa=r7+8 ra=c-8
			0x10005 cfa=r7+16 ra=c-8
			0x1000b cfa=r7+8 ra=c-8
			0x10010 none`},
		{"a call that does not return", `
			sub $8, %rsp; call f; .balign 16
			g: push %rbx; xor %ebx, %ebx; call f; pop %rbx; ret; .balign 16
			f: ret`, `
			0x10000 cfa=r7+8 ra=c-8
			0x10004 cfa=r7+16 ra=c-8
			0x10009 none
			0x10010 cfa=r7+8 ra=c-8
			0x10011 cfa=r7+16 ra=c-8 bx=c-16
			0x10019 cfa=r7+8 ra=c-8
			0x1001a none
			0x10020 cfa=r7+8 ra=c-8
			0x10021 none`},
		{"a jump table", `
			sub $40, %rsp; cmp $3, %edi; ja 1f; jmp *%rax
			lea 1(%rax), %edi; jmp 1f
			lea 2(%rax), %edi
			1: add $40, %rsp; ret`, `
			0x10000 cfa=r7+8 ra=c-8
			0x10004 cfa=r7+48 ra=c-8
			0x10017 cfa=r7+8 ra=c-8
			0x10018 none`},
		{"a threaded interpreter, whose handlers are no functions", `
			push %rbx; sub $16, %rsp; mov (%rdi), %eax; jmp *(%rsi,%rax,8)
			.balign 16
			add $16, %rsp; pop %rbx; ret
			.balign 16
			add $1, %rdi; mov (%rdi), %eax; jmp *(%rsi,%rax,8)`, `
			0x10000 cfa=r7+8 ra=c-8
			0x10001 cfa=r7+16 ra=c-8 bx=c-16
			0x10005 cfa=r7+32 ra=c-8 bx=c-16
			0x1000a none
			0x10010 cfa=r7+32 ra=c-8 bx=c-16
			0x10014 cfa=r7+16 ra=c-8 bx=c-16
			0x10015 cfa=r7+8 ra=c-8
			0x10016 none`},
		{"functions with return addresses elsewhere, as GHC's", `
			call f; call g; call h; ret
			.balign 16
			g: lea -16(%rbp), %rax; cmp %r15, %rax; jb 1f; add $16, %rbp; jmp *(%rbp); 1: jmp *-16(%r13)
			.balign 16
			h: mov 8(%rbp), %rbx; add $16, %rbp; jmp *(%rbx)
			.balign 16
			f: push %rbx; mov %rdi, %rbx; mov (%rbx), %rax; pop %rbx; test %eax, %eax; jne 1f; ret; 1: jmp *8(%rax)`, `
			0x10000 cfa=r7+8 ra=c-8
			0x10010 none
			0x10040 cfa=r7+8 ra=c-8
			0x10041 cfa=r7+16 ra=c-8 bx=c-16
			0x10048 cfa=r7+8 ra=c-8
			0x10050 none`},
		{"vfork", `
			pop %rdx; mov $58, %eax; syscall; push %rdx; ret; .skip 16, 0xcc`, `
			0x10000 cfa=r7+8 ra=c-8
			0x10001 cfa=r7+0 ra=r1
			0x10009 cfa=r7+8 ra=c-8
			0x1000a none`},
		{"exchanges", `
			xchg %rbx, (%rdi); xadd %rbp, (%rdi); ret
			.balign 16
			push %rbp; mov %rsp, %rbp; xchg %rsp, (%rdi); call f; leave; ret
			.balign 16
			f: sub $8, %rsp; xadd %rsp, (%rdi); ret`, `
			0x10000 cfa=r7+8 ra=c-8
			0x10003 cfa=r7+8 ra=c-8 bx=u
			0x10007 cfa=r7+8 ra=c-8 fp=u bx=u
			0x10008 none
			0x10010 cfa=r7+8 ra=c-8
			0x10011 cfa=r7+16 ra=c-8 fp=c-16
			0x10014 cfa=r6+16 ra=c-8 fp=c-16
			0x1001d cfa=r7+8 ra=c-8
			0x1001e none
			0x10020 cfa=r7+8 ra=c-8
			0x10024 cfa=r7+16 ra=c-8
			0x10028 none`},
		{"stores instead of pushes", `
			sub $24, %rsp; mov %rbx, 8(%rsp); mov %rbp, 16(%rsp); xor %ebx, %ebx
			mov 8(%rsp), %rbx; mov 16(%rsp), %rbp; add $24, %rsp; ret`, `
			0x10000 cfa=r7+8 ra=c-8
			0x10004 cfa=r7+32 ra=c-8
			0x10009 cfa=r7+32 ra=c-8 bx=c-24
			0x1000e cfa=r7+32 ra=c-8 fp=c-16 bx=c-24
			0x10015 cfa=r7+32 ra=c-8 fp=c-16
			0x1001a cfa=r7+32 ra=c-8
			0x1001e cfa=r7+8 ra=c-8
			0x1001f none`},
	} {
		checkSource(t, elf.EM_X86_64, c[0], strings.ReplaceAll(c[1], ";", "\n")+"\n", unindent(c[2]))
	}
}

func TestARM64(t *testing.T) {
	for _, c := range [][3]string{
		{"frame", `
			stp x29, x30, [sp, #-32]!; mov x29, sp; str x19, [sp, #16]; bl f; ldr x19, [sp, #16]
			ldp x29, x30, [sp], #32; ret
			f: ret`, `
			0x10000 cfa=r31+0 ra=r30
			0x10004 cfa=r31+32 ra=c-24 fp=c-32
			0x10008 cfa=r29+32 ra=c-24 fp=c-32
			0x10018 cfa=r31+0 ra=r30
			0x10020 none`},
		{"link register only", `
			sub sp, sp, #0x1000; str x30, [sp, #-16]!; bl f; ldr x30, [sp], #16; add sp, sp, #1, lsl #12; ret
			f: ret`, `
			0x10000 cfa=r31+0 ra=r30
			0x10004 cfa=r31+4096 ra=r30
			0x10008 cfa=r31+4112 ra=c-4112
			0x10010 cfa=r31+4096 ra=r30
			0x10014 cfa=r31+0 ra=r30
			0x1001c none`},
		{"variable", `
			stp x29, x30, [sp, #-48]!; mov x29, sp; sub sp, sp, x0; bl f; mov sp, x29; ldp x29, x30, [sp], #48; ret
			f: ret`, `
			0x10000 cfa=r31+0 ra=r30
			0x10004 cfa=r31+48 ra=c-40 fp=c-48
			0x10008 cfa=r29+48 ra=c-40 fp=c-48
			0x10018 cfa=r31+0 ra=r30
			0x10020 none`},
		{"vectors", `
			sub sp, sp, #256; st1 {v0.16b-v3.16b}, [sp], #64; ld1 {v0.8b}, [sp], #8; ld4 {v0.2d-v3.2d}, [sp], #64
			st1 {v0.s}[1], [sp], #4; ld1 {v0.d}[1], [sp], #8; st3 {v0.b-v2.b}[3], [sp], #3; ld4r {v0.4h-v3.4h}, [sp], #8
			st3 {v0.8h-v2.8h}, [sp]; ld3r {v0.2d-v2.2d}, [sp], #24; add sp, sp, #73; ret`, `
			0x10000 cfa=r31+0 ra=r30
			0x10004 cfa=r31+256 ra=r30
			0x10008 cfa=r31+192 ra=r30
			0x1000c cfa=r31+184 ra=r30
			0x10010 cfa=r31+120 ra=r30
			0x10014 cfa=r31+116 ra=r30
			0x10018 cfa=r31+108 ra=r30
			0x1001c cfa=r31+105 ra=r30
			0x10020 cfa=r31+97 ra=r30
			0x10028 cfa=r31+73 ra=r30
			0x1002c cfa=r31+0 ra=r30
			0x10030 none`},
		{"vectors by a register", `
			sub sp, sp, #32; st1 {v0.16b}, [sp], x3; add sp, sp, #16; ret`, `
			0x10000 cfa=r31+0 ra=r30
			0x10004 cfa=r31+32 ra=r30
			0x10008 none`},
		{"vectors of any length", `
			.arch armv8-a+sve
			stp x29, x30, [sp, #-16]!; addvl sp, sp, #-1; mov x29, sp; addpl sp, sp, #8; ldp x29, x30, [sp], #16; ret`, `
			0x10000 cfa=r31+0 ra=r30
			0x10004 cfa=r31+16 ra=c-8 fp=c-16
			0x10008 none`},
		{"vectors of any length and a frame pointer", `
			.arch armv8-a+sve
			stp x29, x30, [sp, #-16]!; mov x29, sp; addvl sp, sp, #-1; bl f; mov sp, x29; ldp x29, x30, [sp], #16; ret
			f: addvl x29, sp, #1; ret`, `
			0x10000 cfa=r31+0 ra=r30
			0x10004 cfa=r31+16 ra=c-8 fp=c-16
			0x10008 cfa=r29+16 ra=c-8 fp=c-16
			0x10018 cfa=r31+0 ra=r30
			0x10020 cfa=r31+0 ra=r30 fp=u
			0x10024 none`},
		{"branches", `
			cbz x0, 1f; tbnz x1, #3, 2f; stp x29, x30, [sp, #-16]!; bl f; ldp x29, x30, [sp], #16; 1: ret; 2: b.eq 1b; b f
			brk #1
			f: ret`, `
			0x10000 cfa=r31+0 ra=r30
			0x1000c cfa=r31+16 ra=c-8 fp=c-16
			0x10014 cfa=r31+0 ra=r30
			0x10028 none`},
	} {
		checkSource(t, elf.EM_AARCH64, c[0], strings.ReplaceAll(c[1], ";", "\n")+"\n", unindent(c[2]))
	}
}

// TestLost counts the instructions behind which the stack pointer is not known once, however often they are tried.
func TestLost(t *testing.T) {
	f := assemble(t, elf.EM_X86_64, strings.ReplaceAll(`
		call f; call g; ret
		.balign 16
		f: test %edi, %edi; je 1f; mov (%rdi), %rsp; ret; 1: call g; ret
		.balign 16
		g: test %edi, %edi; je 1f; mov (%rdi), %rsp; ret; 1: ret
`, ";", "\n"))
	if _, st, err := Find(f, &unwind.Table{}); err != nil || st.Functions != 3 || st.Lost != 2 {
		t.Errorf("%+v, %v", st, err)
	}
}

func unindent(s string) string { return strings.ReplaceAll(strings.TrimSpace(s), "\t", "") + "\n" }

// TestTooLarge leaves more code than is worth following alone.
func TestTooLarge(t *testing.T) {
	tab, st, err := Find(unwindtest.Image(t, elf.EM_X86_64, 0x10000, make([]byte, maxCode+1)), &unwind.Table{})
	if err != nil || !st.TooLarge || len(tab.Rows) != 0 {
		t.Errorf("%+v, %v", st, err)
	}
}

// TestBudgetForSome has room for one of two regions: that one is followed, and the error says that the other is missing.
func TestBudgetForSome(t *testing.T) {
	code := append(bytes.Repeat([]byte{0x50, 0x58, 0xc3}, 100), make([]byte, 2<<20)...)
	var b tablebuild.Builder
	if err := b.Add(0x10200, unwind.Rule{CFA: unwind.CFARoot}); err != nil {
		t.Fatal(err)
	}
	f := unwindtest.Image(t, elf.EM_X86_64, 0x10000, code).Within(elffile.NewBudget("file", maxWay+1<<20))
	tab, st, err := Find(f, b.Table(0x10300))
	var large *elffile.TooLargeError
	if !errors.As(err, &large) || large.Part != "code" || st.TooLarge || tab.Lookup(0x10001).Offset != 16 {
		t.Errorf("%+v, %v\n%s", st, err, unwindtest.Dump(tab))
	}
}

// TestBounded gives code that is made to be followed again and again.
func TestBounded(t *testing.T) {
	for name, pattern := range map[string][]byte{
		"calls":     {0xe8, 0, 0, 0, 0},
		"branches":  {0x74, 0x80, 0x75, 0x7f},
		"pushes":    {0x50},
		"tables":    {0x48, 0x83, 0xec, 8, 0xff, 0xe0},
		"functions": {0x50, 0xe8, 0xf0, 0xff, 0xff, 0xff, 0xc3},
		"returns":   {0x50, 0xc3},
		"addresses": {0x48, 0x8d, 0x05, 0, 0, 0, 0},
	} {
		begin := time.Now()
		_, st, err := Find(unwindtest.Image(t, elf.EM_X86_64, 0x10000, bytes.Repeat(pattern, maxCode/len(pattern))), &unwind.Table{})
		if took := time.Since(begin); err != nil || took > 10*time.Second {
			t.Errorf("%s: %v, %v", name, took, err)
		} else {
			t.Logf("%s: %v, %+v", name, took, st)
		}
	}
}

func FuzzFind(f *testing.F) {
	f.Add(true, uint16(0), []byte{0x55, 0x48, 0x89, 0xe5, 0xe8, 5, 0, 0, 0, 0x5d, 0xc3, 0x90, 0x90, 0x90, 0x48, 0x83, 0xec, 8, 0xff, 0xe0, 0x48, 0x83, 0xc4, 8, 0xc3})
	f.Add(false, uint16(4), []byte{0xfd, 0x7b, 0xbe, 0xa9, 0xfd, 3, 0, 0x91, 0, 0, 0, 0x94, 0xfd, 0x7b, 0xc2, 0xa8, 0xc0, 3, 0x5f, 0xd6})
	f.Fuzz(func(t *testing.T, isAMD64 bool, entry uint16, code []byte) {
		m := elf.EM_AARCH64
		if isAMD64 {
			m = elf.EM_X86_64
		}
		tab, _, err := Find(unwindtest.Image(t, m, 0x10000+uint64(entry), code), &unwind.Table{})
		if err != nil {
			t.Fatal(err)
		}
		unwindtest.WellFormed(t, tab)
	})
}
