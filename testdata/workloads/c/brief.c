// brief starts processes that live for less than ten milliseconds, one after the other, and end in every way: by _exit, killed,
// by the exit of another thread than the first, and by replacing themselves. Each touches some megabytes first, which
// take their time to be taken away.
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "frames.h"

enum { MEMORY = 6 << 20 };

BURN(hot_brief)
LEVEL_ALLOCA(brief_2, hot_brief)
LEVEL_SAVES(brief_1, brief_2)

static void touch(void)
{
	char *p = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		_exit(3);
	for (int i = 0; i < MEMORY; i += 4096)
		p[i] = 1;
}

static void *ender(void *n)
{
	brief_1((uint64_t)n);
	_exit(0);
}

static void child(struct hot *h, char *self, unsigned how)
{
	pthread_t t;
	touch();
	brief_1(100 * h->slice);
	switch (how % 4) {
	case 0:
		_exit(0);
	case 1:
		raise(SIGKILL);
		_exit(3);
	case 2:
		if (pthread_create(&t, NULL, ender, (void *)h->slice))
			_exit(3);
		for (;;)
			brief_1(h->slice);
	default:
		execl(self, self, "end", NULL);
		_exit(3);
	}
}

int main(int argc, char **argv)
{
	struct hot h;
	if (argc == 2)
		return 0; // what the last kind becomes
	hot_parse(&h, argc, argv, 150);
	hot_ready();
	for (unsigned i = 0; i < h.arg; i++) {
		pid_t pid = fork();
		int status;
		if (!pid)
			child(&h, argv[0], i);
		if (pid < 0 || waitpid(pid, &status, 0) != pid || (WIFSIGNALED(status) ? WTERMSIG(status) != SIGKILL : status))
			return 3;
	}
	hot_done(&h);
	return 0;
}
