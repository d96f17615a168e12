// plt does little but call an empty function of a shared library through its PLT, from three functions, 60/30/10 % of the
// calls each: most samples land in prologues, epilogues and PLT stubs. The time is each caller's inclusive one. Nothing but
// the front end limits these calls, so where a loop lies within a cache line decides about its speed (20 % were seen): the
// three callers lie alike, and a call takes the same time from each.
#include "hot.h"

void library_nothing(void);

#define CALLS(name)                                     \
	SOLID __attribute__((aligned(64)))              \
	void name(uint64_t n)                           \
	{                                               \
		for (; n; n--)                          \
			library_nothing();              \
	}
CALLS(hot_sixty)
CALLS(hot_thirty)
CALLS(hot_ten)

int main(int argc, char **argv)
{
	struct hot h;
	int which;
	hot_parse(&h, argc, argv, 0);
	hot_ready();
	while ((which = hot_next(&h)) >= 0) {
		if (which == 0)
			hot_sixty(h.slice);
		else if (which == 1)
			hot_thirty(h.slice);
		else
			hot_ten(h.slice);
	}
	hot_done(&h);
	return 0;
}
