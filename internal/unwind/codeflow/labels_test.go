package codeflow

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
	"github.com/hostprofiles/hostprofiles/internal/unwind/tablebuild"
	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
)

// v8Call is how V8 calls C from its built-in functions: what is to be the caller's address and its frame is noted before. The
// label is aligned, and what comes before it ends like padding.
const v8Call = `
	push %rbp; mov %rsp, %rbp; sub $0x100, %rsp; movabs $0x1122334455667788, %rax; xor %ecx, %ecx; xor %ecx, %ecx
	lea 0(%rip), %r10
	mov %r10, 0x70(%r13); mov %rbp, 0x68(%r13); call *%rax; movq $0, 0x68(%r13); leave; ret`

// TestLabels has labels in functions whose address is taken, as a function's is that is called by pointer.
func TestLabels(t *testing.T) {
	for _, c := range []struct {
		machine            elf.Machine
		name, source, want string
	}{
		{elf.EM_X86_64, "the next instruction", v8Call, `
			0x10000 cfa=r7+8 ra=c-8
			0x10001 cfa=r7+16 ra=c-8 fp=c-16
			0x10004 cfa=r6+16 ra=c-8 fp=c-16
			0x10033 cfa=r7+8 ra=c-8
			0x10034 none`},
		{elf.EM_X86_64, "behind a call", `
			push %rbp; mov %rsp, %rbp; sub $0x100, %rsp
			lea 1f(%rip), %r10
			mov %r10, 0x70(%r13); mov %rbp, 0x68(%r13); mov %r8, %r8; call *%rax; 1: movq $0, 0x68(%r13); leave; ret`, `
			0x10000 cfa=r7+8 ra=c-8
			0x10001 cfa=r7+16 ra=c-8 fp=c-16
			0x10004 cfa=r6+16 ra=c-8 fp=c-16
			0x10028 cfa=r7+8 ra=c-8
			0x10029 none`},
		{elf.EM_X86_64, "code goes on to it", `
			push %rbp; mov %rsp, %rbp; lea 1f(%rip), %rax; mov %rax, (%rdi); jmp 2f
			2: mov $0, %eax; 1: call *%rcx; leave; ret`, `
			0x10000 cfa=r7+8 ra=c-8
			0x10001 cfa=r7+16 ra=c-8 fp=c-16
			0x10004 cfa=r6+16 ra=c-8 fp=c-16
			0x10018 cfa=r7+8 ra=c-8
			0x10019 none`},
		{elf.EM_X86_64, "code goes on to it, and a number has the bytes of a call", `
			push %rbp; mov %rsp, %rbp; .byte 0x48, 0xb8, 0xe8; .long 1f-.-4; .byte 0, 0, 0
			mov $0, %edi; 1: call *%rcx; leave; ret`, `
			0x10000 cfa=r7+8 ra=c-8
			0x10001 cfa=r7+16 ra=c-8 fp=c-16
			0x10004 cfa=r6+16 ra=c-8 fp=c-16
			0x10016 cfa=r7+8 ra=c-8
			0x10017 none`},
		{elf.EM_X86_64, "a function behind one that ends with a call that does not return", `
			lea f(%rip), %rdi; push %rbx; mov $1, %edx; movabs $1, %rcx; mov %edx, %eax; mov %edx, %esi; call die
			f: push %rbx; mov %edi, %ebx; call *%rax; pop %rbx; ret
			.balign 16
			die: ud2`, `
			0x10000 cfa=r7+8 ra=c-8
			0x10008 cfa=r7+16 ra=c-8 bx=c-16
			0x10020 cfa=r7+8 ra=c-8
			0x10021 cfa=r7+16 ra=c-8 bx=c-16
			0x10026 cfa=r7+8 ra=c-8
			0x10027 none
			0x10030 cfa=r7+8 ra=c-8
			0x10032 none`},
		{elf.EM_AARCH64, "the next instruction, arm64", `
			stp x29, x30, [sp, #-16]!; mov x29, sp; adr x10, 1f
			nop
			1: str x10, [x26, #112]; str x29, [x26, #104]; blr x8; str xzr, [x26, #104]; ldp x29, x30, [sp], #16; ret`, `
			0x10000 cfa=r31+0 ra=r30
			0x10004 cfa=r31+16 ra=c-8 fp=c-16
			0x10008 cfa=r29+16 ra=c-8 fp=c-16
			0x10024 cfa=r31+0 ra=r30
			0x10028 none`},
	} {
		checkSource(t, c.machine, c.name, strings.ReplaceAll(c.source, ";", "\n")+"\n", unindent(c.want))
	}
}

// TestArguments has a way that leaves a function with an argument on the stack for the next one, as V8's go to its runtime: the other
// ways are followed nevertheless.
func TestArguments(t *testing.T) {
	checkSource(t, elf.EM_X86_64, "arguments on the stack", strings.ReplaceAll(`
		push %rbp; mov %rsp, %rbp; test %edi, %edi; jne 1f; leave; push %rdi; jmp f
		1: call *%rax; leave; ret
		.balign 16
		f: call *%rax; ret $8; .balign 16
		call f; ret
`, ";", "\n"), unindent(`
		0x10000 cfa=r7+8 ra=c-8
		0x10001 cfa=r7+16 ra=c-8 fp=c-16
		0x10004 cfa=r6+16 ra=c-8 fp=c-16
		0x10009 cfa=r7+8 ra=c-8
		0x1000a cfa=r7+16 ra=c-8
		0x1000c cfa=r6+16 ra=c-8 fp=c-16
		0x1000f cfa=r7+8 ra=c-8
		0x10015 none
		0x10020 cfa=r7+8 ra=c-8
		0x10026 none`))
}

// TestLabelIsNoFunction has Functions not take such a label for one.
func TestLabelIsNoFunction(t *testing.T) {
	got, err := Functions(assemble(t, elf.EM_X86_64, strings.ReplaceAll(v8Call, ";", "\n")+"\n"), &unwind.Table{})
	if err != nil || len(got) != 1 || got[0] != (unwind.Extent{Start: 0x10000, End: 0x10034}) {
		t.Errorf("%#x, %v", got, err)
	}
}

// TestInsideSymbol has a label that only a computed jump leads to: a symbol says that it lies in a function.
func TestInsideSymbol(t *testing.T) {
	const source = `
		.globl _start
		.type _start, @function
		_start: push %rbp; mov %rsp, %rbp; lea 1f(%rip), %rax; lea 2f(%rip), %rcx; cmove %rcx, %rax; mov (%rdi), %edx; jmp *%rax
		1: call *%rdx; leave; ret
		2: xor %eax, %eax; leave; ret
		.size _start, .-_start`
	want := unindent(`
			0x0 cfa=r7+8 ra=c-8
			0x1 cfa=r7+16 ra=c-8 fp=c-16
			0x4 cfa=r6+16 ra=c-8 fp=c-16
			0x1d cfa=r7+8 ra=c-8
			0x1e cfa=r6+16 ra=c-8 fp=c-16
			0x21 cfa=r7+8 ra=c-8
			0x22 none`)
	f := link(t, source)
	tab, st, err := Find(f, &unwind.Table{})
	if err != nil {
		t.Fatal(err)
	}
	var b tablebuild.Builder
	for _, r := range tab.Rows {
		if err := b.Add(r.Start-f.Entry, tab.Rules[r.Rule]); err != nil {
			t.Fatal(err)
		}
	}
	if got := unwindtest.Dump(b.Table(0x1000)); got != want {
		t.Errorf("%+v\n%swant\n%s", st, got, want)
	}
}

// link makes an executable of amd64 code without unwind information.
func link(t *testing.T, source string) *elffile.File {
	t.Helper()
	unwindtest.Need(t, "x86_64-linux-gnu-gcc")
	dir := t.TempDir()
	src, out := filepath.Join(dir, "a.s"), filepath.Join(dir, "a")
	if err := os.WriteFile(src, []byte("\t.text\n"+strings.ReplaceAll(source, ";", "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if b, err := exec.Command("x86_64-linux-gnu-gcc", "-nostdlib", "-static", "-o", out, src).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	return unwindtest.Open(t, out)
}
