// Functions that realign their stack, so that their CFA is in memory: one with a variable-sized array, one called with
// arguments on the stack.
#include <string.h>

#include "point.h"

SOLID static long leaf(long n)
{
	POINT();
	return n;
}

SOLID static long variable(long n)
{
	__attribute__((aligned(64))) char b[64];
	char v[n + 8];
	memset(b, 1, sizeof b);
	memset(v, 2, sizeof v);
	__asm__ volatile("" ::"r"(b), "r"(v) : "memory");
	long r = leaf(n) + b[1] + v[1];
	AFTER();
	return r;
}

SOLID static long arguments(long a, long b, long c, long d, long e, long f, long g, long h)
{
	__attribute__((aligned(128))) long x[16];
	for (int i = 0; i < 16; i++)
		x[i] = a * i + b;
	__asm__ volatile("" ::"r"(x) : "memory");
	long r = variable(11) + x[3] + c + d + e + f + g + h;
	AFTER();
	return r;
}

int main(void)
{
	long r = arguments(1, 2, 3, 4, 5, 6, 7, 8);
	AFTER();
	return r == 0;
}
