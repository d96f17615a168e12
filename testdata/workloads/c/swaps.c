// swaps opens one library, burns in it, closes it, and does the same with another: the kernel maps both at the same address, one
// after the other. -slice is how long it stays in each. The libraries stand beside the executable.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>

#include "frames.h"

typedef uint64_t burn(uint64_t n);

static char path[2][4096];
static uintptr_t bases[2];
static uint64_t same; // rounds in which both libraries were at one address

#define CALL(name)                                \
	SOLID static void name(burn *f, uint64_t n) \
	{                                         \
		uint64_t r = f(n);                \
		KEEP(r);                          \
	}
CALL(call_left)
CALL(call_right)

static void *open_side(int side, burn **f)
{
	struct link_map *map;
	void *library = dlopen(path[side], RTLD_NOW);
	if (!library || dlinfo(library, RTLD_DI_LINKMAP, &map))
		exit(2);
	*f = (burn *)dlsym(library, "swap_entry");
	bases[side] = (uintptr_t)map->l_addr;
	return library;
}

SOLID static void rounds(struct hot *h)
{
	for (; hot_running(h); h->rounds++) {
		burn *f;
		void *library = open_side(0, &f);
		call_left(f, 3 * h->slice);
		dlclose(library);
		library = open_side(1, &f);
		same += bases[0] == bases[1];
		call_right(f, 2 * h->slice);
		dlclose(library);
	}
}

int main(int argc, char **argv)
{
	struct hot h;
	const char *slash = strrchr(argv[0], '/');
	hot_parse(&h, argc, argv, 0);
	for (int i = 0; i < 2; i++)
		snprintf(path[i], sizeof path[i], "%.*s/libswap%d.so", slash ? (int)(slash - argv[0]) : 1, slash ? argv[0] : ".", i);
	hot_ready();
	rounds(&h);
	printf("{\"rounds\":%llu,\"same\":%llu}\n", (unsigned long long)h.rounds, (unsigned long long)same);
	return 0;
}
