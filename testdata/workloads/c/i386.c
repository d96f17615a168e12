// i386 is a 32-bit program without a libc: it burns CPU time in user mode and in the kernel by turns, until it is killed.
static int call(int number, long a, const void *b, long c)
{
	int r;
	__asm__ volatile("int $0x80" : "=a"(r) : "a"(number), "b"(a), "c"(b), "d"(c) : "memory");
	return r;
}

enum { READ = 3, WRITE = 4, OPEN = 5 };

// So large that entering the kernel, which some processors take longer for than for 256 KiB of zeroes, does not count.
static char buffer[4 << 20];

__attribute__((noipa)) unsigned hot_user(unsigned n)
{
	unsigned x = n;
	while (n--)
		__asm__ volatile("imull $1664525, %0" : "+r"(x));
	return x;
}

__attribute__((noipa)) int hot_kernel(int zero)
{
	return call(READ, zero, buffer, sizeof buffer);
}

void _start(void)
{
	int zero = call(OPEN, (long)"/dev/zero", 0, 0);
	call(WRITE, 1, "READY\n", 6);
	for (;;) {
		// So short that the kernel has a tenth of the time however fast it writes zeroes, up to 300 GB/s.
		hot_user(100000);
		hot_kernel(zero);
	}
}
