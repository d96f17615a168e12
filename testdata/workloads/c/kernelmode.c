// kernelmode burns in the kernel: 60 % of its CPU in read(2) of /dev/zero, 30 % in getrandom(2), 10 % in page faults, each
// through several levels of calls. A slice takes a hundred microseconds or more,
// so that measuring it costs little. The slices differ in cost, so the next one goes to the function that is the furthest
// below its share of the CPU time measured so far.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "frames.h"

static int zero;
static char *buffer;

enum { BUFFER = 256 << 10, RANDOM = 16 << 10, PAGES = 32 };

SOLID uint64_t hot_sixty(uint64_t n)
{
	for (int i = 0; i < 32; i++)
		if (read(zero, buffer, BUFFER - (n % 64) * 1024) <= 0)
			exit(3);
	KEEP(n);
	return n;
}

SOLID uint64_t hot_thirty(uint64_t n)
{
	for (int i = 0; i < 16; i++)
		if (syscall(SYS_getrandom, buffer, RANDOM - (n % 64) * 64, 0) <= 0)
			exit(3);
	KEEP(n);
	return n;
}

SOLID static void touch(char *p, uint64_t size)
{
	for (uint64_t i = 0; i < size; i += 4096)
		*(volatile char *)(p + i) = 1;
}

SOLID uint64_t hot_ten(uint64_t n)
{
	uint64_t size = (PAGES - n % 16) * 4096;
	for (int i = 0; i < 10; i++) {
		char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (p == MAP_FAILED)
			exit(3);
		touch(p, size);
		munmap(p, size);
	}
	KEEP(n);
	return n;
}

LEVEL_ALLOCA(sixty_6, hot_sixty)
LEVEL(sixty_5, sixty_6)
LEVEL_SAVES(sixty_4, sixty_5)
LEVEL_ALIGNED(sixty_3, sixty_4)
LEVEL_BIG(sixty_2, sixty_3)
LEVEL(sixty_1, sixty_2)
LEVEL_SAVES(thirty_3, hot_thirty)
LEVEL(thirty_2, thirty_3)
LEVEL_ALLOCA(thirty_1, thirty_2)
LEVEL(ten_3, hot_ten)
LEVEL_ALIGNED(ten_2, ten_3)
LEVEL(ten_1, ten_2)

static uint64_t cpu_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

// furthest returns which function is the furthest below its share.
static int furthest(const uint64_t used[3])
{
	static const uint64_t weight[3] = { 60, 30, 10 };
	int which = 0;
	for (int i = 1; i < 3; i++)
		if (used[i] * weight[which] < used[which] * weight[i])
			which = i;
	return which;
}

SOLID static void rounds(struct hot *h)
{
	static uint64_t (*const burn[])(uint64_t) = { sixty_1, thirty_1, ten_1 };
	uint64_t used[3] = { 0 }, before = cpu_ns(), now;
	for (; h->rounds % 64 || hot_running(h); h->rounds++) {
		int which = furthest(used);
		burn[which](hot_random(h));
		now = cpu_ns();
		used[which] += now - before;
		before = now;
	}
}

int main(int argc, char **argv)
{
	struct hot h;
	hot_parse(&h, argc, argv, 0);
	zero = open("/dev/zero", O_RDONLY);
	buffer = malloc(BUFFER);
	if (zero < 0 || !buffer)
		return 2;
	memset(buffer, 1, BUFFER);
	hot_ready();
	rounds(&h);
	hot_done(&h);
	return 0;
}
