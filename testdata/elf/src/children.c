/* Child processes: by fork, by vfork on the same stack, and by posix_spawn. */
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

extern char **environ;
volatile int sink;

NOINLINE int work(int n) { return n ? work(n - 1) + 1 : sink; }

NOINLINE int forked(void)
{
	pid_t p = fork();
	if (!p)
		_exit(work(3) == 77);
	return waitpid(p, 0, 0) == p;
}

NOINLINE int vforked(void)
{
	pid_t p = vfork();
	if (!p) {
		sink = work(2) == 77;
		_exit(sink);
	}
	return waitpid(p, 0, 0) == p;
}

NOINLINE int spawned(void)
{
	char *argv[] = {"/bin/true", 0};
	pid_t p;
	if (posix_spawn(&p, argv[0], 0, 0, argv, environ))
		return 0;
	return waitpid(p, 0, 0) == p;
}

int main(void) { return !(forked() && vforked() && spawned()); }
