// An exception on its way: a destructor runs while it passes through frames.
#include "point.h"

struct Guard {
	int n;
	SOLID ~Guard()
	{
		POINT();
		AFTER();
	}
};

SOLID static void thrower(int n)
{
	POINT();
	if (n >= 0)
		throw n;
}

SOLID static void with_guard(int n)
{
	Guard g{n};
	thrower(n);
	AFTER();
}

SOLID static void between(int n)
{
	volatile char b[100];
	b[n] = 1;
	with_guard(n);
	AFTER();
}

SOLID static int catcher(int n)
{
	try {
		between(n);
	} catch (int caught) {
		return caught - n;
	}
	return 1;
}

int main(int argc, char **)
{
	int r = catcher(argc);
	AFTER();
	return r;
}
