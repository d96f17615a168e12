static inline __attribute__((always_inline)) int add(int a, int b) { return a + b; }

static inline __attribute__((always_inline)) int twice(int n)
{
	return add(n, n) ^ 3;
}

static inline __attribute__((always_inline)) int square(int n)
{
	int sum = 0;
	for (int i = 0; i < n; i++)
		sum = add(sum, n);
	return sum;
}
