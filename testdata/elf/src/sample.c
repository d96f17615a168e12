/* A program with every kind of frame that C compilers make: none, fixed, variable, realigned, noreturn, through the PLT. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOINLINE __attribute__((noinline, noclone))

volatile int sink;
static jmp_buf env;

NOINLINE int leaf(int x) { return x * 3 + sink; }

NOINLINE int saved(int a, int b)
{
	int r = leaf(a);
	r += leaf(b + r);
	return r * a + b;
}

NOINLINE int variable(int n)
{
	char buf[n];
	memset(buf, n, n);
	sink = buf[n / 2];
	return saved(n, buf[n - 1]) + n;
}

NOINLINE int aligned(int n, int a, int b, int c, int d, int e, int on_stack)
{
	char buf[n] __attribute__((aligned(64)));
	int fixed[16] __attribute__((aligned(128)));
	memset(buf, n, n);
	memset(fixed, a, sizeof fixed);
	sink = buf[0] + fixed[b & 15];
	return variable(n) + on_stack + fixed[c & 15] + d + e;
}

NOINLINE int large(int n)
{
	char buf[100000];
	memset(buf, n, 200); /* each step of a string instruction is one for a debugger */
	sink = buf[n];
	return aligned(n, 1, 2, 3, 4, 5, 6) + buf[n + 1];
}

NOINLINE _Noreturn void leave(int n)
{
	sink = n;
	longjmp(env, 1);
}

static int compare(const void *a, const void *b) { return leaf(*(const int *)a) - leaf(*(const int *)b); }

int main(void)
{
	int v[] = {3, 1, 2};
	qsort(v, 3, sizeof v[0], compare);
	if (!setjmp(env)) {
		printf("%d\n", large(64));
		leave(1);
	}
	return v[0] != 1;
}
