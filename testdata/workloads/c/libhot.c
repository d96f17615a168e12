// The shared library of libs.
#include "frames.h"

BURN(hot_thirty)
LEVEL_SAVES(library_inner, hot_thirty)

uint64_t library_call(uint64_t (*back)(uint64_t), uint64_t n)
{
	uint64_t r = back(n);
	KEEP(r);
	return r;
}

uint64_t library_burn(uint64_t n)
{
	uint64_t r = library_inner(n);
	KEEP(r);
	return r;
}

SOLID void library_nothing(void)
{
	__asm__ volatile("");
}
