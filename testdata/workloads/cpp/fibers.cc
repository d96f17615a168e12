// fibers burns 60/30/10 % in three coroutines of Boost: with -arg 0 those of Boost.Context, with -arg 1 of Boost.Coroutine2.
#include "../common/frames.h"

#include <boost/context/fiber.hpp>
#include <boost/coroutine2/all.hpp>

extern "C" {
BURN(hot_sixty)
BURN(hot_thirty)
BURN(hot_ten)
LEVEL_SAVES(sixty_2, hot_sixty)
LEVEL(sixty_1, sixty_2)
LEVEL_SAVES(thirty_1, hot_thirty)
LEVEL(ten_1, hot_ten)

SOLID void body(struct hot *h, int which)
{
	static uint64_t (*const burn[])(uint64_t) = { sixty_1, thirty_1, ten_1 };
	uint64_t r = burn[which](h->slice);
	KEEP(r);
}
}

namespace ctx = boost::context;
using coroutine = boost::coroutines2::coroutine<int>;

static void with_fibers(struct hot *h)
{
	ctx::fiber fibers[3];
	for (int i = 0; i < 3; i++)
		fibers[i] = ctx::fiber([h, i](ctx::fiber &&back) {
			for (;;) {
				body(h, i);
				back = std::move(back).resume();
			}
			return std::move(back);
		});
	int which;
	while ((which = hot_next(h)) >= 0)
		fibers[which] = std::move(fibers[which]).resume();
}

static void with_coroutines(struct hot *h)
{
	auto make = [h](int i) {
		return coroutine::push_type([h, i](coroutine::pull_type &from) {
			while (from) {
				body(h, i);
				from();
			}
		});
	};
	coroutine::push_type all[] = { make(0), make(1), make(2) };
	int which;
	while ((which = hot_next(h)) >= 0)
		all[which](which);
}

int main(int argc, char **argv)
{
	struct hot h;
	hot_parse(&h, argc, argv, 0);
	hot_ready();
	if (h.arg)
		with_coroutines(&h);
	else
		with_fibers(&h);
	hot_done(&h);
	return 0;
}
