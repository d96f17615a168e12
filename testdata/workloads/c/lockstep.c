// lockstep alternates two functions, each for exactly -arg nanoseconds of wall time (default: the period of 997 Hz): a
// profiler that samples with just that period sees one of them only. The functions spend their time in
// clock_gettime, that is, in the vdso.
#include "hot.h"

#define WAIT(name)                                                                \
	SOLID void name(int64_t until)                                            \
	{                                                                         \
		struct timespec t;                                                \
		do                                                                \
			clock_gettime(CLOCK_MONOTONIC, &t);                       \
		while ((int64_t)t.tv_sec * 1000000000 + t.tv_nsec < until);       \
	}
WAIT(hot_even)
WAIT(hot_odd)

SOLID static void rounds(struct hot *h)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	int64_t until = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
	while (hot_running(h)) {
		hot_even(until += (int64_t)h->arg);
		hot_odd(until += (int64_t)h->arg);
		h->rounds++;
	}
}

int main(int argc, char **argv)
{
	struct hot h;
	hot_parse(&h, argc, argv, 1000000000 / 997);
	hot_ready();
	rounds(&h);
	hot_done(&h);
	return 0;
}
