#include "../common/hot.h"
#include "chain.h"

static uint64_t hot_sixty(uint64_t n)
{
	HOT_LOOP(n);
	return n + 60;
}

static uint64_t sixty_inner(uint64_t n)
{
	return hot_sixty(n) + 61;
}

uint64_t sixty_middle(uint64_t n)
{
	return sixty_inner(n) + 62;
}
