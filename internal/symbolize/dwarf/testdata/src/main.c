#include "inline.h"
#include <stdio.h>
#include <stdlib.h>

int other(int n, const char *text);

static int helper(int n) { return twice(n) + square(n); }

static __attribute__((noinline)) int cold_path(int n)
{
	if (__builtin_expect(n > 1000, 0)) {
		fprintf(stderr, "large: %d\n", n);
		abort();
	}
	return helper(n)
		+ helper(n + 1);
}

__attribute__((noinline)) static int constant(int n, int by) { return n * by + by; }

/* Lines from another file inside a function. */
int table(int n)
{
	switch (n) {
#include "cases.h"
	}
	return -1;
}

#line 1000 "generated.y"
int generated(int n) { return twice(n) / 3; }

int main(int argc, char **argv)
{
	int sum = 0;
	for (int i = 0; i < argc; i++) {
		int nested = square(i);
		{
			int inner = twice(nested);
			sum += cold_path(inner) + constant(inner, 7);
		}
		sum += other(i, argv[i]) + table(i) + generated(sum);
	}
	printf("%d\n", sum);
	return sum & 1;
}
