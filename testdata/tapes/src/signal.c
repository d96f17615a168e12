// A signal handler on a stack of its own. With an argument the signal is a fault, which interrupts at an exact instruction.
#include <signal.h>
#include <unistd.h>

#include "point.h"

static char stack[65536] __attribute__((aligned(16)));

SOLID static int in_handler(int n)
{
	POINT();
	return n;
}

SOLID static void handler(int signo)
{
	in_handler(signo);
	AFTER();
	if (signo == SIGSEGV)
		_exit(0);
}

SOLID static void interrupted(int fault)
{
	if (fault)
		*(volatile int *)8 = 1;
	else
		kill(getpid(), SIGUSR1);
	AFTER();
}

SOLID static void middle(int fault)
{
	char b[40];
	__asm__ volatile("" ::"r"(b) : "memory");
	interrupted(fault);
	AFTER();
}

int main(int argc, char **argv)
{
	stack_t s = { .ss_sp = stack, .ss_size = sizeof stack };
	struct sigaction a = { .sa_handler = handler, .sa_flags = SA_ONSTACK };
	(void)argv;
	if (sigaltstack(&s, 0) || sigaction(SIGUSR1, &a, 0) || sigaction(SIGSEGV, &a, 0))
		return 2;
	middle(argc > 1);
	AFTER();
	return 0;
}
