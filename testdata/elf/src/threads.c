/* Threads: started, with thread-local storage, cancelled, and with a function that never returns normally. */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

static __thread int local;
volatile int sink;

NOINLINE int deep(int n) { return n ? deep(n - 1) + local : sink; }

static void *body(void *arg)
{
	local = (int)(long)arg;
	sink = deep(10);
	if (local == 2)
		pthread_exit(0);
	return 0;
}

int main(void)
{
	for (long i = 0; i < 3; i++) {
		pthread_t t;
		pthread_create(&t, 0, body, (void *)i);
		pthread_join(t, 0);
	}
	return 0;
}
