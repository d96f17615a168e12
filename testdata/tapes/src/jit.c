// Code in anonymous memory, as a JIT compiler makes it: it calls back. With an argument it keeps no frame pointer.
#include <string.h>
#include <sys/mman.h>

#include "point.h"

SOLID static void back(void)
{
	POINT();
	AFTER();
}

#if defined(__x86_64__)
static const unsigned char with_fp[] = {
	0x55, // push %rbp
	0x48, 0x89, 0xe5, // mov %rsp, %rbp
	0x48, 0x83, 0xec, 0x20, // sub $32, %rsp
	0xff, 0xd7, // call *%rdi
	0xc9, // leave
	0xc3, // ret
};
static const unsigned char without_fp[] = {
	0x53, // push %rbx
	0x48, 0x83, 0xec, 0x30, // sub $48, %rsp
	0x31, 0xed, // xor %ebp, %ebp
	0x83, 0xcd, 0x11, // or $17, %ebp
	0xff, 0xd7, // call *%rdi
	0x48, 0x83, 0xc4, 0x30, // add $48, %rsp
	0x5b, // pop %rbx
	0xc3, // ret
};
#else
static const unsigned int with_fp[] = {
	0xa9bd7bfd, // stp x29, x30, [sp, #-48]!
	0x910003fd, // mov x29, sp
	0xd63f0000, // blr x0
	0xa8c37bfd, // ldp x29, x30, [sp], #48
	0xd65f03c0, // ret
};
static const unsigned int without_fp[] = {
	0xf81d0ffe, // str x30, [sp, #-48]!
	0xd63f0000, // blr x0
	0xf84307fe, // ldr x30, [sp], #48
	0xd65f03c0, // ret
};
#endif

SOLID static void caller(void (*code)(void (*)(void)))
{
	char b[40];
	__asm__ volatile("" ::"r"(b) : "memory");
	code(back);
#if defined(__x86_64__)
	__asm__ volatile("" ::: "memory", "rbp"); // without_fp does not keep it
#endif
}

int main(int argc, char **argv)
{
	char *code = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	(void)argv;
	if (code == MAP_FAILED)
		return 2;
	if (argc > 1)
		memcpy(code, without_fp, sizeof without_fp);
	else
		memcpy(code, with_fp, sizeof with_fp);
	if (mprotect(code, 4096, PROT_READ | PROT_EXEC))
		return 2;
	__builtin___clear_cache(code, code + 4096);
	caller((void (*)(void (*)(void)))code);
	AFTER();
	return 0;
}
