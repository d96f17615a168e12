// Frames of many shapes, some forty deep: recursion, arrays, saved registers, alloca.
#include <alloca.h>
#include <stdlib.h>
#include <string.h>

#include "point.h"

SOLID static int leaf(int n)
{
	POINT();
	return n + 1;
}

SOLID static int with_array(int n)
{
	char b[600];
	memset(b, n, sizeof b);
	__asm__ volatile("" ::"r"(b) : "memory");
	n = leaf(n) + b[n & 63];
	AFTER();
	return n;
}

SOLID static int with_alloca(int n)
{
	char *b = alloca(n * 3 + 40);
	memset(b, n, n * 3 + 40);
	__asm__ volatile("" ::"r"(b) : "memory");
	n = with_array(n) + b[1];
	AFTER();
	return n;
}

SOLID static int recursion(int n, int a, int b, int c, int d, int e)
{
	int r = n ? recursion(n - 1, a + 1, b + a, c ^ b, d - c, e + 2) : with_alloca(9);
	AFTER();
	return r + a * b * c * d * e;
}

SOLID static int compare(const void *x, const void *y)
{
	int r = recursion(32, 1, 2, 3, 4, 5);
	AFTER();
	return *(const int *)x - *(const int *)y + (r & 0);
}

int main(void)
{
	int v[2] = { 2, 1 };
	qsort(v, 2, sizeof v[0], compare); // through a library
	return v[0] - 1;
}
