// sigjump burns in handlers on an alternate stack that leave by siglongjmp instead of returning, 60/30/10 %. The handler of
// the ten runs on the stack that was interrupted.
#include <setjmp.h>
#include <signal.h>
#include <sys/syscall.h>

#include "frames.h"

BURN(hot_sixty)
BURN(hot_thirty)
BURN(hot_ten)
LEVEL_SAVES(sixty_2, hot_sixty)
LEVEL_ALIGNED(sixty_1, sixty_2)
LEVEL_ALLOCA(thirty_1, hot_thirty)
LEVEL(ten_1, hot_ten)

static struct hot h;
static sigjmp_buf back;
static volatile sig_atomic_t which;

SOLID static void handler(int sig)
{
	static uint64_t (*const burn[])(uint64_t) = { sixty_1, thirty_1, ten_1 };
	(void)sig;
	burn[which](h.slice);
	siglongjmp(back, 1);
}

SOLID static void interrupted(int w)
{
	which = w;
	syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), w == 2 ? SIGUSR2 : SIGUSR1);
	__asm__ volatile("");
}

SOLID static void jumps(int w)
{
	if (!sigsetjmp(back, 1))
		interrupted(w);
	__asm__ volatile("");
}

SOLID static void rounds(void)
{
	int w;
	while ((w = hot_next(&h)) >= 0)
		jumps(w);
}

int main(int argc, char **argv)
{
	static char stack[65536] __attribute__((aligned(16)));
	stack_t alternate = { .ss_sp = stack, .ss_size = sizeof stack };
	struct sigaction sa = { .sa_handler = handler, .sa_flags = SA_ONSTACK | SA_RESTART };
	hot_parse(&h, argc, argv, 0);
	if (sigaltstack(&alternate, NULL) || sigaction(SIGUSR1, &sa, NULL))
		return 2;
	sa.sa_flags = SA_RESTART;
	if (sigaction(SIGUSR2, &sa, NULL))
		return 2;
	hot_ready();
	rounds();
	hot_done(&h);
	return 0;
}
