/* Signal handlers: on the same stack, on an alternate one, nested, and interrupting code at all sorts of places. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

static char stack[65536];
volatile int count;
static sigjmp_buf env;

NOINLINE int work(int n)
{
	int s = 0;
	for (int i = 0; i < n; i++)
		s += i ^ count;
	return s;
}

static void nested(int sig)
{
	count += work(3) != 0;
}

static void handler(int sig, siginfo_t *info, void *ctx)
{
	count++;
	if (sig == SIGUSR2)
		raise(SIGUSR1);
	work(5);
}

static void jump(int sig) { siglongjmp(env, 1); }

NOINLINE int fault(char *p)
{
	*p = 1;
	return work(4) + count;
}

static void repair(int sig, siginfo_t *info, void *ctx)
{
	mprotect((void *)((unsigned long)info->si_addr & ~4095UL), 4096, PROT_READ | PROT_WRITE);
}

static void set(int sig, void (*f)(int, siginfo_t *, void *), int flags)
{
	struct sigaction sa;
	memset(&sa, 0, sizeof sa);
	sa.sa_sigaction = f;
	sa.sa_flags = SA_SIGINFO | flags;
	sigaction(sig, &sa, 0);
}

int main(void)
{
	stack_t ss = {.ss_sp = stack, .ss_size = sizeof stack};
	char *page = mmap(0, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	sigaltstack(&ss, 0);
	signal(SIGUSR1, nested);
	set(SIGUSR2, handler, SA_ONSTACK);
	set(SIGSEGV, repair, SA_ONSTACK);
	signal(SIGTERM, jump);
	raise(SIGUSR1);
	raise(SIGUSR2);
	kill(getpid(), SIGUSR2);
	fault(page + 8);
	if (!sigsetjmp(env, 1))
		raise(SIGTERM);
	signal(SIGALRM, nested);
	for (int i = 0; i < 10; i++) {
		ualarm(50 + 37 * i, 0);
		work(60);
	}
	alarm(0);
	return 0;
}
