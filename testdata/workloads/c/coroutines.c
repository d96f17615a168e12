// coroutines burns 60/30/10 % in three coroutines, each of which has a stack of its own and is switched to for every slice.
//
//	-arg 0   ucontext: the entry of glibc says that it has no caller
//	-arg 1   a switch in assembler, with an entry whose unwind information says the same
//	-arg 2   the same without any unwind information at the entry, over a return address of 0
//	-arg 3   the same over a return address that is no code, with a frame pointer that is none
#include <ucontext.h>

#include "frames.h"

BURN(hot_sixty)
BURN(hot_thirty)
BURN(hot_ten)
LEVEL_SAVES(sixty_3, hot_sixty)
LEVEL_ALIGNED(sixty_2, sixty_3)
LEVEL_BIG(sixty_1, sixty_2)
LEVEL_ALLOCA(thirty_2, hot_thirty)
LEVEL(thirty_1, thirty_2)
LEVEL_SAVES(ten_1, hot_ten)

enum { STACK = 64 << 10 };

static struct hot h;
static ucontext_t contexts[4]; // the last one is main's
static void *stacks[4];        // stack pointers of those that do not run
static char memory[3][STACK] __attribute__((aligned(16)));

// switch_stack(from, to) saves where it stands in *from and goes on at to.
void switch_stack(void **from, void *to);
void described_entry(void);
void silent_entry(void);

#if defined(__x86_64__)
__asm__(".text\n"
	".globl switch_stack\n"
	".type switch_stack, @function\n"
	"switch_stack:\n"
	".cfi_startproc\n"
	"push %rbp\n .cfi_adjust_cfa_offset 8\n .cfi_rel_offset rbp, 0\n"
	"push %rbx\n .cfi_adjust_cfa_offset 8\n .cfi_rel_offset rbx, 0\n"
	"push %r12\n .cfi_adjust_cfa_offset 8\n"
	"push %r13\n .cfi_adjust_cfa_offset 8\n"
	"push %r14\n .cfi_adjust_cfa_offset 8\n"
	"push %r15\n .cfi_adjust_cfa_offset 8\n"
	"mov %rsp, (%rdi)\n"
	"mov %rsi, %rsp\n"
	"pop %r15\n .cfi_adjust_cfa_offset -8\n"
	"pop %r14\n .cfi_adjust_cfa_offset -8\n"
	"pop %r13\n .cfi_adjust_cfa_offset -8\n"
	"pop %r12\n .cfi_adjust_cfa_offset -8\n"
	"pop %rbx\n .cfi_adjust_cfa_offset -8\n .cfi_restore rbx\n"
	"pop %rbp\n .cfi_adjust_cfa_offset -8\n .cfi_restore rbp\n"
	"ret\n"
	".cfi_endproc\n"
	".size switch_stack, . - switch_stack\n"
	".globl described_entry\n"
	".type described_entry, @function\n"
	"described_entry:\n"
	".cfi_startproc\n"
	".cfi_undefined rip\n"
	"mov %rbx, %rdi\n"
	"call coroutine\n"
	"ud2\n"
	".cfi_endproc\n"
	".size described_entry, . - described_entry\n"
	".globl silent_entry\n"
	".type silent_entry, @function\n"
	"silent_entry:\n"
	"mov %rbx, %rdi\n"
	"call coroutine\n"
	"ud2\n"
	".size silent_entry, . - silent_entry\n");

static void *fresh(int which)
{
	static uint64_t no_code;
	uint64_t *sp = (uint64_t *)(memory[which] + STACK);
	// two, so that the entry's stack pointer is a multiple of 16
	*--sp = h.arg == 3 ? (uint64_t)&no_code : 0;
	*--sp = h.arg == 3 ? (uint64_t)&no_code : 0;
	*--sp = h.arg == 1 ? (uint64_t)described_entry : (uint64_t)silent_entry;
	*--sp = h.arg == 3;      // rbp: 0 would say that nothing is above
	*--sp = (uint64_t)which; // rbx
	return sp - 4;
}
#endif

SOLID static void go_on(int from, int to)
{
#if defined(__x86_64__)
	if (h.arg) {
		switch_stack(&stacks[from], stacks[to]);
		return;
	}
#endif
	swapcontext(&contexts[from], &contexts[to]);
}

__attribute__((noipa, noreturn)) void coroutine(int which)
{
	static uint64_t (*const burn[])(uint64_t) = { sixty_1, thirty_1, ten_1 };
	for (;;) {
		uint64_t r = burn[which](h.slice);
		KEEP(r);
		go_on(which, 3);
	}
}

SOLID static void rounds(void)
{
	int which;
	while ((which = hot_next(&h)) >= 0)
		go_on(3, which);
}

int main(int argc, char **argv)
{
	hot_parse(&h, argc, argv, 0);
	for (int i = 0; i < 3; i++) {
#if defined(__x86_64__)
		if (h.arg) {
			stacks[i] = fresh(i);
			continue;
		}
#endif
		getcontext(&contexts[i]);
		contexts[i].uc_stack.ss_sp = memory[i];
		contexts[i].uc_stack.ss_size = STACK;
		contexts[i].uc_link = NULL;
		makecontext(&contexts[i], (void (*)(void))coroutine, 1, i);
	}
	hot_ready();
	rounds();
	hot_done(&h);
	return 0;
}
