// threads burns in three threads at once, one function each, six, three and one slices to a round; a barrier ends the
// round.
#include <pthread.h>
#include <stdatomic.h>
#include <sys/prctl.h>

#include "hot.h"

BURN(hot_sixty)
BURN(hot_thirty)
BURN(hot_ten)
LEVEL(sixty_2, hot_sixty)
LEVEL(sixty_1, sixty_2)
LEVEL(thirty_1, hot_thirty)
LEVEL(ten_1, hot_ten)

static struct hot h;
static pthread_barrier_t barrier;
static atomic_int stop;

struct job {
	const char *name;
	uint64_t (*burn)(uint64_t);
	int slices;
};

SOLID static void *worker(void *arg)
{
	const struct job *j = arg;
	prctl(PR_SET_NAME, j->name);
	while (!stop) {
		for (int i = 0; i < j->slices && !stop; i++)
			j->burn(h.slice);
		pthread_barrier_wait(&barrier);
		if (j->slices == 60 && !hot_running(&h))
			stop = 1;
		pthread_barrier_wait(&barrier);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	static const struct job jobs[] = { { "sixty", sixty_1, 60 }, { "thirty", thirty_1, 30 }, { "ten", ten_1, 10 } };
	pthread_t threads[3];
	hot_parse(&h, argc, argv, 0);
	pthread_barrier_init(&barrier, NULL, 3);
	hot_ready();
	for (int i = 0; i < 3; i++)
		if (pthread_create(&threads[i], NULL, worker, (void *)&jobs[i]))
			return 2;
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	hot_done(&h);
	return 0;
}
