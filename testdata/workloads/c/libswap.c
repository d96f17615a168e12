// One of the two libraries of swaps, that of SIDE: the same places in both files hold functions with frames of other shapes.
#include "frames.h"

#if SIDE == 0
BURN(hot_left)
LEVEL_SAVES(left_3, hot_left)
LEVEL_BIG(left_2, left_3)
LEVEL(left_1, left_2)
#define ENTRY left_1
#else
BURN(hot_right)
LEVEL(right_4, hot_right)
LEVEL_ALIGNED(right_3, right_4)
LEVEL_SAVES(right_2, right_3)
LEVEL_ARGS(right_1, right_0, right_2)
#define ENTRY right_1
#endif

uint64_t swap_entry(uint64_t n)
{
	uint64_t r = ENTRY(n);
	KEEP(r);
	return r;
}
