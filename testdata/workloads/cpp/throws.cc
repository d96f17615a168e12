// throws spends its time in the unwinder: an exception goes through forty frames, each of which has a destructor to run, and a
// handler that does not fit every eighth; it is caught at the top.
#include "../common/hot.h"

#include <stdexcept>

namespace {

struct Guard {
	uint64_t *n;
	SOLID ~Guard() { ++*n; }
};

struct Other {};

template <int N> SOLID void down(uint64_t *n)
{
	Guard g{n};
	if constexpr (N == 0) {
		throw std::runtime_error("bottom");
	} else if constexpr (N % 8 == 0) {
		try {
			down<N - 1>(n);
		} catch (const Other &) {
			*n = 0;
		}
	} else {
		down<N - 1>(n);
	}
	KEEP(n);
}

SOLID uint64_t top()
{
	uint64_t n = 0;
	try {
		down<40>(&n);
	} catch (const std::exception &e) {
		n += uint64_t(e.what()[0]);
	}
	return n;
}

} // namespace

int main(int argc, char **argv)
{
	struct hot h;
	hot_parse(&h, argc, argv, 0);
	hot_ready();
	for (; h.rounds % 64 || hot_running(&h); h.rounds++) {
		uint64_t n = top();
		KEEP(n);
	}
	hot_done(&h);
	return 0;
}
