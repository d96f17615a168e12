// threeway burns 60/30/10 % of its CPU at the ends of chains of templates, lambdas and members of nested classes, all of which
// vanish when they are inlined.
#include "../common/hot.h"

#include <utility>

namespace shares {

struct Sixty {
	static constexpr uint64_t add = 60;
};
struct Thirty {
	static constexpr uint64_t add = 30;
};
struct Ten {
	static constexpr uint64_t add = 10;
};

template <typename Tag> uint64_t burn(uint64_t n)
{
	HOT_LOOP(n);
	return n + Tag::add;
}

template <typename Tag> class Chain
{
	uint64_t value;

      public:
	explicit Chain(uint64_t v) : value(v) {}

	template <typename F> uint64_t with(F &&f) const { return std::forward<F>(f)(value); }

	uint64_t operator()() const
	{
		return with([](uint64_t n) { return burn<Tag>(n); });
	}
};

template <typename Tag> uint64_t run(uint64_t n)
{
	return Chain<Tag>(n)();
}

} // namespace shares

static void rounds(struct hot *h)
{
	int which;
	while ((which = hot_next(h)) >= 0) {
		if (which == 0)
			shares::run<shares::Sixty>(h->slice);
		else if (which == 1)
			shares::run<shares::Thirty>(h->slice);
		else
			shares::run<shares::Ten>(h->slice);
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
