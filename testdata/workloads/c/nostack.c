// nostack unmaps its own stack and goes on burning without one: -arg 0 unmaps all of it, -arg 1 leaves the leaf's page and
// unmaps everything above, so that a walk finds the first frames and then nothing. Only kill ends it, or -seconds (an
// alarm with its default action).
#include <sys/mman.h>

#include "hot.h"

enum { STACK = 1 << 20 };

// burn_without_stack unmaps [from, from+size) by a raw system call and never returns; nothing in it touches the stack.
__attribute__((noipa, noreturn)) static void burn_without_stack(char *from, uint64_t size)
{
#if defined(__x86_64__)
	__asm__ volatile("syscall\n"
			 "1: imul %%rdx, %%rax\n"
			 "add $1, %%rax\n"
			 "jmp 1b\n"
			 :
			 : "a"(11L), "D"(from), "S"(size), "d"(3L)
			 : "rcx", "r11", "memory");
#elif defined(__aarch64__)
	register uint64_t x8 __asm__("x8") = 215, x0 __asm__("x0") = (uint64_t)from, x1 __asm__("x1") = size;
	__asm__ volatile("svc #0\n"
			 "1: madd x0, x0, x8, x8\n"
			 "b 1b\n"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1)
			 : "memory");
#endif
	__builtin_unreachable();
}

SOLID static void hot_unmapped(char *stack, uint64_t keep)
{
	char here;
	uint64_t page = (uint64_t)&here & ~4095ull;
	if (keep)
		burn_without_stack((char *)page + 4096, (uint64_t)stack + STACK - page - 4096);
	burn_without_stack(stack, STACK);
}

// Frames of two pages each: the ones above the leaf are on pages of their own.
SOLID static void unmapped_2(char *stack, uint64_t keep)
{
	char a[8192], *p = a;
	KEEP(p);
	p[0] = 1;
	hot_unmapped(stack, keep);
	KEEP(p);
}

SOLID static void unmapped_1(char *stack, uint64_t keep)
{
	char a[8192], *p = a;
	KEEP(p);
	p[0] = 1;
	unmapped_2(stack, keep);
	KEEP(p);
}

int main(int argc, char **argv)
{
	struct hot h;
	hot_parse(&h, argc, argv, 0);
	char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (stack == MAP_FAILED)
		return 2;
	if (h.seconds > 0)
		alarm((unsigned)h.seconds);
	hot_ready();
	uint64_t keep = h.arg;
	char *top = stack + STACK;
#if defined(__x86_64__)
	__asm__ volatile("mov %0, %%rsp\nmov %1, %%rdi\nmov %2, %%rsi\ncall *%3\n"
			 :
			 : "r"(top), "r"(stack), "r"(keep), "r"(unmapped_1)
			 : "rdi", "rsi", "memory");
#elif defined(__aarch64__)
	__asm__ volatile("mov sp, %0\nmov x0, %1\nmov x1, %2\nblr %3\n"
			 :
			 : "r"(top), "r"(stack), "r"(keep), "r"(unmapped_1)
			 : "x0", "x1", "x30", "memory");
#endif
	__builtin_unreachable();
}
