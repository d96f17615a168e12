// Calls that go through code that compilers did not write: the vdso, a lazily bound function, vfork.
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "point.h"

SOLID static int clock_caller(void)
{
	struct timespec t;
	POINT();
	int r = clock_gettime(CLOCK_MONOTONIC, &t);
	AFTER();
	return r;
}

SOLID static int lazy_caller(void)
{
	POINT();
	int r = abs(atoi("7"));
	AFTER();
	return r;
}

SOLID static int vfork_caller(void)
{
	POINT();
	int pid = vfork();
	if (pid == 0)
		_exit(0);
	AFTER();
	return waitpid(pid, 0, 0);
}

int main(int argc, char **argv)
{
	(void)argv;
	switch (argc) {
	case 1:
		clock_caller();
		break;
	case 2:
		lazy_caller();
		break;
	default:
		vfork_caller();
	}
	AFTER();
	return 0;
}
