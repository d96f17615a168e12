// A thread: its stack begins in the C library's clone.
#include <pthread.h>

#include "point.h"

SOLID static void work(void)
{
	POINT();
	AFTER();
}

static void *run(void *arg)
{
	work();
	AFTER();
	return arg;
}

int main(void)
{
	pthread_t t;
	if (pthread_create(&t, 0, run, 0))
		return 2;
	pthread_join(t, 0);
	return 0;
}
