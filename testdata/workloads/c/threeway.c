// threeway burns 60/30/10 % of its CPU at the ends of three chains of calls: one of depth 14 through frames of every
// shape, one that goes through a function whose last instruction is a call that does not return, and a short one.
#include <setjmp.h>

#include "frames.h"

BURN(hot_sixty)
BURN(hot_thirty)
BURN(hot_ten)

LEVEL(sixty_12, hot_sixty)
LEVEL_ALLOCA(sixty_11, sixty_12)
LEVEL_SAVES(sixty_10, sixty_11)
LEVEL_ALIGNED(sixty_9, sixty_10)
LEVEL(sixty_8, sixty_9)
LEVEL_BIG(sixty_7, sixty_8)
LEVEL_ARGS(sixty_5, sixty_6, sixty_7)
LEVEL_SAVES(sixty_4, sixty_5)
LEVEL_ALIGNED(sixty_3, sixty_4)
LEVEL_ALLOCA(sixty_2, sixty_3)
LEVEL(sixty_1, sixty_2)

static jmp_buf back;

LEVEL(thirty_5, hot_thirty)

__attribute__((noipa, noreturn)) static void thirty_4(uint64_t n)
{
	thirty_5(n);
	longjmp(back, 1);
}

// The call is the last instruction: its return address lies behind the function.
__attribute__((noipa, noreturn)) static void thirty_3(uint64_t n)
{
	thirty_4(n + 0);
	__builtin_unreachable();
}

SOLID uint64_t thirty_2(uint64_t n)
{
	if (!_setjmp(back))
		thirty_3(n);
	return 1;
}

LEVEL_SAVES(thirty_1, thirty_2)

LEVEL(ten_1, hot_ten)

SOLID static void rounds(struct hot *h)
{
	int which;
	while ((which = hot_next(h)) >= 0) {
		if (which == 0)
			sixty_1(h->slice);
		else if (which == 1)
			thirty_1(h->slice);
		else
			ten_1(h->slice);
	}
}

int main(int argc, char **argv)
{
	struct hot h;
	hot_parse(&h, argc, argv, 0);
	hot_ready();
	rounds(&h);
	hot_done(&h);
	return 0;
}
