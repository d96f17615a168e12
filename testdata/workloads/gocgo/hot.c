// The C side of gocgo.
#include "hot.h"

#include "_cgo_export.h"

BURN(hot_sixty)
LEVEL(sixty_3, hot_sixty)
LEVEL(sixty_2, sixty_3)
LEVEL(sixty_1, sixty_2)

void sixty(uint64_t n)
{
	KEEP(n);
	sixty_1(n);
	KEEP(n);
}

SOLID static uint64_t call_back(uint64_t n)
{
	goCallback(n);
	KEEP(n);
	return n;
}
LEVEL(thirty_2, call_back)
LEVEL(thirty_1, thirty_2)

void thirty(uint64_t n)
{
	KEEP(n);
	thirty_1(n);
	KEEP(n);
}
