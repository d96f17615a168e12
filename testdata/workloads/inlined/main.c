// main burns 60/30/10 % of its CPU at the ends of three chains of calls that vanish when they are inlined.
#include "../common/hot.h"
#include "chain.h"

static void rounds(struct hot *h)
{
	int which;
	while ((which = hot_next(h)) >= 0) {
		if (which == 0)
			sixty(h->slice);
		else if (which == 1)
			thirty(h->slice);
		else
			ten(h->slice);
	}
}

int main(int argc, char **argv)
{
	struct hot h;
	hot_parse(&h, argc, argv, 0);
	hot_ready();
	rounds(&h);
	hot_done(&h);
	return 0;
}
