// late burns in one chain from its first instruction on and prints nothing: with a short -cpu its only samples are those
// of a process that nobody knew before.
#include "frames.h"

BURN(hot_first)
LEVEL_ALIGNED(first_3, hot_first)
LEVEL_SAVES(first_2, first_3)
LEVEL_ALLOCA(first_1, first_2)

int main(int argc, char **argv)
{
	struct hot h;
	hot_parse(&h, argc, argv, 0);
	while (hot_running(&h))
		first_1(h.slice);
	return 0;
}
