// C++ exceptions: thrown through frames with clean-ups, rethrown, and from a callback of the standard library.
#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#define NOINLINE __attribute__((noinline, noclone))

volatile int sink;

struct Guard {
	int *n;
	~Guard() { ++*n; }
};

NOINLINE int raise_it(int n)
{
	if (n == 0)
		throw std::runtime_error(std::string(40, 'x') + "y");
	int k = 0;
	Guard g{&k};
	return raise_it(n - 1) + k;
}

NOINLINE int rethrow(int n)
{
	try {
		return raise_it(n);
	} catch (const std::exception &e) {
		sink = e.what()[0];
		throw;
	}
}

int main()
{
	std::vector<int> v{5, 3, 4, 1, 2};
	std::sort(v.begin(), v.end(), [](int a, int b) { return a < b; });
	try {
		rethrow(3);
	} catch (const std::runtime_error &) {
		sink = 1;
	}
	try {
		std::for_each(v.begin(), v.end(), [](int x) {
			if (x == 3)
				throw x;
		});
	} catch (int x) {
		sink = x;
	}
	return v[0] != 1;
}
