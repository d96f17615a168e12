#include "../common/hot.h"
#include "chain.h"

uint64_t sixty(uint64_t n)
{
	return sixty_middle(n) + 63;
}

static uint64_t hot_thirty(uint64_t n)
{
	HOT_LOOP(n);
	return n + 30;
}

uint64_t thirty_middle(uint64_t n)
{
	return hot_thirty(n) + 31;
}
