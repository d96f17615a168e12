// signals burns in signal handlers on an alternate stack. With -arg 0 each slice is a signal that the process sends to
// itself from a function that is known; with -arg 1 a timer interrupts main code, which burns too, at arbitrary
// instructions (the shares then hold among the handler's three functions).
#include <signal.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include "frames.h"

BURN(hot_sixty)
BURN(hot_thirty)
BURN(hot_ten)
LEVEL_SAVES(sixty_2, hot_sixty)
LEVEL_ALIGNED(sixty_1, sixty_2)
LEVEL_ALLOCA(thirty_1, hot_thirty)
LEVEL(ten_1, hot_ten)

static struct hot h;
static volatile sig_atomic_t which;

SOLID static void handler(int sig)
{
	static uint64_t (*const burn[])(uint64_t) = { sixty_1, thirty_1, ten_1 };
	(void)sig;
	if (h.arg)
		which = hot_next(&h);
	if (which >= 0)
		burn[which](h.slice);
	__asm__ volatile("");
}

// The instruction after the system call is interrupted: the signal is delivered on return from it.
SOLID static void interrupted(void)
{
	syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGUSR1);
	__asm__ volatile("");
}

BURN(interrupted_loop)
LEVEL_SAVES(interrupted_2, interrupted_loop)
LEVEL_ALLOCA(interrupted_1, interrupted_2)

SOLID static void asynchronous(void)
{
	struct itimerval t = { { 0, 997 }, { 0, 997 } };
	setitimer(ITIMER_REAL, &t, NULL);
	while (which >= 0)
		interrupted_1(20);
	memset(&t, 0, sizeof t);
	setitimer(ITIMER_REAL, &t, NULL);
}

SOLID static void synchronous(void)
{
	int w;
	while ((w = hot_next(&h)) >= 0) {
		which = w;
		interrupted();
	}
}

int main(int argc, char **argv)
{
	static char stack[65536] __attribute__((aligned(16)));
	stack_t alternate = { .ss_sp = stack, .ss_size = sizeof stack };
	struct sigaction sa = { .sa_handler = handler, .sa_flags = SA_ONSTACK | SA_RESTART };
	hot_parse(&h, argc, argv, 0);
	if (sigaltstack(&alternate, NULL) || sigaction(SIGUSR1, &sa, NULL) || sigaction(SIGALRM, &sa, NULL))
		return 2;
	hot_ready();
	if (h.arg)
		asynchronous();
	else
		synchronous();
	hot_done(&h);
	return 0;
}
