// ifunc calls its three functions through symbols that are resolved when the program starts (STT_GNU_IFUNC).
#include "frames.h"

BURN(hot_sixty)
BURN(hot_thirty)
BURN(hot_ten)
LEVEL_SAVES(sixty_target, hot_sixty)
LEVEL_ALLOCA(thirty_target, hot_thirty)
LEVEL_ALIGNED(ten_target, hot_ten)

typedef uint64_t burn(uint64_t n);

#define RESOLVED(name)                                     \
	static burn *name##_resolver(void)                 \
	{                                                  \
		return name##_target;                      \
	}                                                  \
	uint64_t name##_chosen(uint64_t n) __attribute__((ifunc(#name "_resolver")));
RESOLVED(sixty)
RESOLVED(thirty)
RESOLVED(ten)

SOLID static void rounds(struct hot *h)
{
	int which;
	while ((which = hot_next(h)) >= 0) {
		uint64_t r = which == 0 ? sixty_chosen(h->slice) : which == 1 ? thirty_chosen(h->slice) : ten_chosen(h->slice);
		KEEP(r);
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
