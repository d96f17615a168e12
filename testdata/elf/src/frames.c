/* Frames that compilers make, without a C library: fixed, variable, realigned, large, noreturn, tail and PLT calls. */
#define NOINLINE __attribute__((noinline, noclone))

extern int outside(int, ...);
extern void fill(char *, int, unsigned long);
volatile int sink;

int leaf(int x) { return x * 3 + sink; }

int saved(int a, int b)
{
	int r = outside(a);
	r += outside(b + r);
	return r * a + b;
}

int variable(int n)
{
	char buf[n];
	fill(buf, n, n);
	return outside(buf[n - 1]) + n;
}

int aligned(int n, int a, int b, int c, int d, int e, int on_stack)
{
	char buf[n] __attribute__((aligned(64)));
	int fixed[16] __attribute__((aligned(128)));
	fill(buf, n, n);
	fill((char *)fixed, a, sizeof fixed);
	return outside(n) + on_stack + fixed[c & 15] + d + e + b;
}

int large(int n)
{
	char buf[100000];
	fill(buf, n, sizeof buf);
	return outside(buf[n + 1]);
}

_Noreturn void leave(int n)
{
	outside(n);
	for (;;)
		;
}

int early(int a, int b)
{
	if (a < 3)
		return leaf(b);
	int r = outside(a, b, a + b, a - b, a * b, 1, 2, 3, 4);
	return r + outside(r);
}
