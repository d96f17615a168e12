// threeway burns 60/30/10 % of its CPU at the ends of chains of template instances. The thirty's chain throws an exception
// through its frames on every call and burns in a destructor that runs while the stack is unwound, the ten's burns in a
// handler.
#include "../common/hot.h"

#include <stdexcept>
#include <string>

namespace {

struct Sixty {};
struct Thirty {};
struct Ten {};

struct Abort : std::runtime_error {
	explicit Abort(const std::string &what) : std::runtime_error(what) {}
};

template <typename Tag> SOLID uint64_t burn(uint64_t n)
{
	HOT_LOOP(n);
	return n;
}

// Chain<Tag, T, N>::run has N frames above the leaf.
template <typename Tag, typename T, int N> struct Chain {
	T value;
	SOLID uint64_t run(uint64_t n)
	{
		Chain<Tag, T, N - 1> next{value};
		uint64_t r = next.run(n);
		KEEP(r);
		return r + uint64_t(next.value - value);
	}
};

template <typename Tag, typename T> struct Chain<Tag, T, 0> {
	T value;
	SOLID uint64_t run(uint64_t n)
	{
		uint64_t r = burn<Tag>(n);
		KEEP(r);
		return r;
	}
};

struct Cleanup {
	uint64_t n;
	SOLID ~Cleanup()
	{
		Chain<Thirty, long, 3> chain{1};
		uint64_t r = chain.run(n);
		KEEP(r);
	}
};

SOLID void fail(uint64_t n)
{
	throw Abort(std::to_string(n));
}

template <int N> SOLID void unwound(uint64_t n)
{
	if constexpr (N == 0) {
		Cleanup c{n};
		fail(n);
	} else {
		unwound<N - 1>(n);
		KEEP(n);
	}
}

SOLID uint64_t sixty(uint64_t n)
{
	Chain<Sixty, double, 11> chain{1};
	uint64_t r = chain.run(n);
	KEEP(r);
	return r;
}

SOLID uint64_t thirty(uint64_t n)
{
	try {
		unwound<4>(n);
	} catch (const Abort &e) {
		return e.what()[0];
	}
	return 0;
}

SOLID uint64_t ten(uint64_t n)
{
	try {
		fail(n);
	} catch (const std::exception &) {
		Chain<Ten, short, 2> chain{1};
		return chain.run(n);
	}
	return 0;
}

} // namespace

int main(int argc, char **argv)
{
	struct hot h;
	hot_parse(&h, argc, argv, 0);
	hot_ready();
	int which;
	while ((which = hot_next(&h)) >= 0) {
		if (which == 0)
			sixty(h.slice);
		else if (which == 1)
			thirty(h.slice);
		else
			ten(h.slice);
	}
	hot_done(&h);
	return 0;
}
