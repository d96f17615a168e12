#include "../common/hot.h"
#include "chain.h"

uint64_t thirty(uint64_t n)
{
	return thirty_middle(n) + 32;
}

static uint64_t hot_ten(uint64_t n)
{
	HOT_LOOP(n);
	return n + 10;
}

uint64_t ten(uint64_t n)
{
	return hot_ten(n) + 11;
}
