// jit calls its three functions through code that it writes into anonymous executable memory, as a JIT compiler does.
// With -arg 0 that code keeps a frame pointer, with -arg 1 it does not.
#include <sys/mman.h>

#include "frames.h"

BURN(hot_sixty)
BURN(hot_thirty)
BURN(hot_ten)
LEVEL_SAVES(sixty_1, hot_sixty)
LEVEL(thirty_1, hot_thirty)
LEVEL_ALLOCA(ten_1, hot_ten)

typedef uint64_t trampoline(uint64_t n, uint64_t (*f)(uint64_t));

#if defined(__x86_64__)
static const unsigned char with_fp[] = {
	0x55,                   // push %rbp
	0x48, 0x89, 0xe5,       // mov %rsp, %rbp
	0x48, 0x83, 0xec, 0x20, // sub $32, %rsp
	0xff, 0xd6,             // call *%rsi
	0xc9,                   // leave
	0xc3,                   // ret
};
static const unsigned char without_fp[] = {
	0x53,                   // push %rbx
	0x48, 0x83, 0xec, 0x30, // sub $48, %rsp
	0xff, 0xd6,             // call *%rsi
	0x48, 0x83, 0xc4, 0x30, // add $48, %rsp
	0x5b,                   // pop %rbx
	0xc3,                   // ret
};
#elif defined(__aarch64__)
static const unsigned int with_fp[] = {
	0xa9bd7bfd, // stp x29, x30, [sp, #-48]!
	0x910003fd, // mov x29, sp
	0xd63f0020, // blr x1
	0xa8c37bfd, // ldp x29, x30, [sp], #48
	0xd65f03c0, // ret
};
static const unsigned int without_fp[] = {
	0xf81d0ffe, // str x30, [sp, #-48]!
	0xd63f0020, // blr x1
	0xf84307fe, // ldr x30, [sp], #48
	0xd65f03c0, // ret
};
#endif

SOLID static void rounds(struct hot *h, trampoline *jit)
{
	static uint64_t (*const burn[])(uint64_t) = { sixty_1, thirty_1, ten_1 };
	int which;
	while ((which = hot_next(h)) >= 0)
		jit(h->slice, burn[which]);
}

int main(int argc, char **argv)
{
	struct hot h;
	hot_parse(&h, argc, argv, 0);
	char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (code == MAP_FAILED)
		return 2;
	if (h.arg)
		memcpy(code, without_fp, sizeof without_fp);
	else
		memcpy(code, with_fp, sizeof with_fp);
	if (mprotect(code, 4096, PROT_READ | PROT_EXEC))
		return 2;
	__builtin___clear_cache(code, code + 4096);
	hot_ready();
	rounds(&h, (trampoline *)code);
	hot_done(&h);
	return 0;
}
