// ticks tells how many ticks of a CPU clock this machine itself misses: a hypervisor that takes a CPU away, or interrupts
// that are off for long, make a timer late, and the periods that it has slept through pass without a tick. It opens the
// clock's event on every CPU, as a profiler does but without any program, lets the kernel count the ticks, and prints at
// SIGTERM how many there should have been and how many there were. An idle CPU has no regular ticks, so each CPU is kept
// busy with what nothing else wants of it (SCHED_IDLE).
#define _GNU_SOURCE
#include <errno.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "hot.h"

#define CPUS 1024
#define PERIOD (1000000000 / 997)
#define PAGE 4096ul
#define RING (256ul * PAGE) // a record without fields has 8 bytes: room for two minutes
#define COUNT_EVERY 10      // seconds

static struct event {
	int fd;
	struct perf_event_mmap_page *head;
	uint64_t ticks;
} events[CPUS];

// occupy takes what is left of a CPU until the parent ends.
static void occupy(int cpu)
{
	struct sched_param none = { 0 };
	cpu_set_t set;
	if (fork())
		return;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || sched_setaffinity(0, sizeof set, &set) ||
	    sched_setscheduler(0, SCHED_IDLE, &none)) {
		perror("occupying a CPU");
		_exit(2);
	}
	for (uint64_t n = 0;; n++)
		KEEP(n);
}

// count counts the ticks in an event's ring, and makes room in it.
static void count(struct event *e)
{
	uint64_t head = atomic_load((_Atomic uint64_t *)&e->head->data_head), at = e->head->data_tail;
	// The kernel leaves a byte free at least, and drops a record for which there is no room: none here has 64 bytes.
	if (head - at + 64 >= RING) {
		fprintf(stderr, "a ring is full\n");
		exit(3);
	}
	while (at < head) {
		struct perf_event_header *r = (void *)((char *)e->head + PAGE + at % RING);
		e->ticks += r->type == PERF_RECORD_SAMPLE;
		at += r->size;
	}
	atomic_store((_Atomic uint64_t *)&e->head->data_tail, at);
}

int main(int argc, char **argv)
{
	struct hot h;
	sigset_t term;
	int n = 0;
	struct timespec pause = { .tv_sec = COUNT_EVERY };
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	unsigned long long due = 0, ticks = 0;
	hot_parse(&h, argc, argv, 0);
	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	sigprocmask(SIG_BLOCK, &term, NULL);
	for (int cpu = 0; cpu < cpus && n < CPUS; cpu++) {
		struct perf_event_attr attr;
		memset(&attr, 0, sizeof attr);
		attr.size = sizeof attr;
		attr.type = PERF_TYPE_SOFTWARE;
		attr.config = PERF_COUNT_SW_CPU_CLOCK;
		attr.sample_period = PERIOD;
		attr.disabled = 1;
		int fd = (int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, 0);
		if (fd < 0 && (errno == ENODEV || errno == ENXIO))
			continue; // it is offline
		if (fd < 0) {
			perror("opening an event");
			return 2;
		}
		events[n].head = mmap(NULL, PAGE + RING, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (events[n].head == MAP_FAILED) {
			perror("mapping a ring");
			return 2;
		}
		events[n++].fd = fd;
		occupy(cpu);
	}
	for (int i = 0; i < n; i++)
		ioctl(events[i].fd, PERF_EVENT_IOC_ENABLE, 0);
	hot_ready();
	while (sigtimedwait(&term, NULL, &pause) != SIGTERM)
		for (int i = 0; i < n; i++)
			count(&events[i]);
	for (int i = 0; i < n; i++) {
		uint64_t ns;
		ioctl(events[i].fd, PERF_EVENT_IOC_DISABLE, 0);
		if (read(events[i].fd, &ns, sizeof ns) != sizeof ns) {
			perror("reading an event");
			return 3;
		}
		count(&events[i]);
		due += ns / PERIOD;
		ticks += events[i].ticks;
	}
	printf("{\"due\":%llu,\"ticks\":%llu}\n", due, ticks);
	return 0;
}
