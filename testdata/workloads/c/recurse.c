// recurse burns below -arg calls of one recursive function.
#include "hot.h"

BURN(hot_sixty)
BURN(hot_thirty)
BURN(hot_ten)

static struct hot h;

SOLID static int bottom(void)
{
	int which = -1;
	for (int i = 0; i < 100 && (which = hot_next(&h)) >= 0; i++) {
		if (which == 0)
			hot_sixty(h.slice);
		else if (which == 1)
			hot_thirty(h.slice);
		else
			hot_ten(h.slice);
		__asm__ volatile("");
	}
	return which;
}

SOLID static int descend(uint64_t depth)
{
	int r = depth <= 1 ? bottom() : descend(depth - 1);
	KEEP(r);
	return r;
}

int main(int argc, char **argv)
{
	hot_parse(&h, argc, argv, 900);
	hot_ready();
	while (descend(h.arg) >= 0)
		;
	hot_done(&h);
	return 0;
}
