// ownpages moves a part of its own text into anonymous memory, as programs do that want their text in huge pages, and burns
// there.
//
//	-arg 0   the copy is moved over the text by mremap
//	-arg 1   memory is mapped over the text, and the copy is copied there
//	-arg 2   as 1, but what is put there is other code: the ten's loop in the place of the sixty's entry
#define _GNU_SOURCE
#include <sys/mman.h>

#include "frames.h"

#define OWN __attribute__((noipa, section("own")))
#undef SOLID
#define SOLID OWN

BURN(hot_sixty)
BURN(hot_thirty)
BURN(hot_ten)
LEVEL_SAVES(sixty_3, hot_sixty)
LEVEL_ALIGNED(sixty_2, sixty_3)
LEVEL_BIG(sixty_1, sixty_2)
LEVEL_ALLOCA(thirty_2, hot_thirty)
LEVEL(thirty_1, thirty_2)
LEVEL_SAVES(ten_1, hot_ten)

// The linker says where the section is. It begins a page; its last page holds the beginning of what follows it too.
extern char __start_own[], __stop_own[];
__asm__(".section own, \"ax\", %progbits\n"
	".balign 4096\n"
	".text\n");

__attribute__((noipa)) static void rounds(struct hot *h)
{
	static uint64_t (*const burn[])(uint64_t) = { sixty_1, thirty_1, ten_1 };
	int which;
	while ((which = hot_next(h)) >= 0)
		burn[which](h->slice);
}

static int move(uint64_t how)
{
	char *own_begin = __start_own;
	size_t size = ((size_t)(__stop_own - __start_own) + 4095) & ~4095ul;
	char *copy = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (copy == MAP_FAILED)
		return 2;
	memcpy(copy, own_begin, size);
	if (how == 2)
		memcpy(copy + ((char *)sixty_1 - own_begin), (char *)hot_ten, 48);
	if (!how) {
		if (mprotect(copy, size, PROT_READ | PROT_EXEC))
			return 2;
		return mremap(copy, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, own_begin) == own_begin ? 0 : 2;
	}
	if (mmap(own_begin, size, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != own_begin)
		return 2;
	memcpy(own_begin, copy, size);
	return mprotect(own_begin, size, PROT_READ | PROT_EXEC) ? 2 : 0;
}

int main(int argc, char **argv)
{
	struct hot h;
	hot_parse(&h, argc, argv, 0);
	int failed = move(h.arg);
	if (failed)
		return failed;
	hot_ready();
	rounds(&h);
	hot_done(&h);
	return 0;
}
