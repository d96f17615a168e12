// manymaps maps one page of its own text -arg times (default 20,000) at addresses that the kernel cannot merge, and burns
// in it through a mapping chosen at random for each slice.
#include <fcntl.h>
#include <sys/mman.h>

#include "hot.h"

// The functions of the page are free of relocations: they work at any address.
__attribute__((noipa, section(".text.island"), aligned(4096))) uint64_t hot_island(uint64_t n)
{
	HOT_LOOP(n);
	return n;
}

extern char __executable_start[];

SOLID static void rounds(struct hot *h, uint64_t (**copies)(uint64_t))
{
	while (hot_next(h) >= 0) {
		uint64_t r = copies[hot_random(h) % h->arg](h->slice);
		KEEP(r);
	}
}

int main(int argc, char **argv)
{
	struct hot h;
	hot_parse(&h, argc, argv, 20000);
	int self = open("/proc/self/exe", O_RDONLY);
	// The text segment's offset in the file equals its distance from the start of the image: -z separate-code links it so.
	off_t offset = (off_t)((char *)hot_island - __executable_start);
	char *area = mmap(NULL, h.arg * 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint64_t (**copies)(uint64_t) = calloc(h.arg, sizeof *copies);
	if (self < 0 || area == MAP_FAILED || !copies)
		return 2;
	for (uint64_t i = 0; i < h.arg; i++) {
		void *p = mmap(area + i * 8192, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, self, offset);
		if (p == MAP_FAILED || memcmp(p, (void *)hot_island, 32))
			return 2;
		copies[i] = (uint64_t(*)(uint64_t))p;
	}
	hot_ready();
	rounds(&h, copies);
	hot_done(&h);
	return 0;
}
