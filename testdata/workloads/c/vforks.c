// vforks burns in children that share its memory: 40 % in children of vfork before their exec, 30 % in what they execute, 30 %
// in processes made by clone(CLONE_VM), which are no threads. With -arg 1 the parent opens a library while such a process
// runs already, and has it burn there: the kernel tells only of the parent that something was mapped.
//
// A last argument "child" makes it the program that is executed.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "frames.h"

extern char **environ;

BURN(hot_vfork)
BURN(hot_exec)
BURN(hot_clone)
LEVEL_ALLOCA(vfork_2, hot_vfork)
LEVEL_SAVES(vfork_1, vfork_2)
LEVEL_ALIGNED(exec_1, hot_exec)
LEVEL_SAVES(clone_2, hot_clone)
LEVEL_ALLOCA(clone_1, clone_2)

enum { STACK = 256 << 10 };

static char *self, length[32];
static struct hot h;

static void reap(pid_t pid)
{
	int status;
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
		_exit(4);
}

SOLID static void with_vfork(void)
{
	char *argv[] = { self, length, "child", NULL };
	pid_t pid = vfork();
	if (!pid) {
		vfork_1(4 * h.slice);
		execve(self, argv, environ);
		_exit(5);
	}
	reap(pid);
}

SOLID static void with_spawn(void)
{
	char *argv[] = { self, length, "child", NULL };
	pid_t pid;
	if (posix_spawn(&pid, self, NULL, NULL, argv, environ))
		_exit(5);
	reap(pid);
}

// Who has its parent's memory ends with it: left alone it would burn on.
static void end_with_parent(void)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL))
		_exit(6);
}

SOLID static int cloned(void *arg)
{
	end_with_parent();
	clone_1(*(uint64_t *)arg);
	return 0;
}

SOLID static void with_clone(char *stack)
{
	uint64_t n = 3 * h.slice;
	reap(clone(cloned, stack + STACK, CLONE_VM | SIGCHLD, &n));
}

// What the parent maps and the process that it cloned before calls.
static uint64_t (*volatile later)(uint64_t);

SOLID static int waits(void *arg)
{
	(void)arg;
	end_with_parent();
	while (!later)
		hot_clone(1000);
	while (hot_running(&h)) {
		uint64_t r = later(h.slice);
		KEEP(r);
	}
	return 0;
}

static int opens_later(char *stack)
{
	char path[4096];
	const char *slash = strrchr(self, '/');
	snprintf(path, sizeof path, "%.*s/libplugin.so", slash ? (int)(slash - self) : 1, slash ? self : ".");
	pid_t pid = clone(waits, stack + STACK, CLONE_VM | SIGCHLD, NULL);
	usleep(300000); // by now it is known
	void *plugin = dlopen(path, RTLD_NOW);
	if (!plugin)
		return 2;
	later = (uint64_t(*)(uint64_t))dlsym(plugin, "plugin_burn");
	printf("{\"cloned\":%d}\n", (int)pid);
	fflush(stdout);
	reap(pid);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[2], "child")) {
		exec_1(strtoull(argv[1], NULL, 0));
		_exit(0);
	}
	self = argv[0];
	hot_parse(&h, argc, argv, 0);
	char *stack = malloc(STACK);
	if (!stack)
		return 2;
	// clone's child ends by exit: it shares the buffer, which has to be empty.
	setvbuf(stdout, NULL, _IONBF, 0);
	hot_ready();
	if (h.arg)
		return opens_later(stack);
	// hot_running looks at this process's CPU time only, so time is counted in rounds.
	for (int i = 0; hot_running(&h); i++) {
		snprintf(length, sizeof length, "%llu", (unsigned long long)(i % 2 ? 0 : 6 * h.slice));
		with_vfork();
		snprintf(length, sizeof length, "%llu", 0ull);
		with_spawn();
		with_clone(stack);
	}
	hot_done(&h);
	return 0;
}
