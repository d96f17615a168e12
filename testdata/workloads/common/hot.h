// hot.h is what the C and C++ workloads share: the command line, the order of the slices, and the loop that burns.
//
// A workload burns CPU in three functions, 60, 30 and 10 % of it. The shares are exact by construction: a slice is a
// fixed number of iterations of one loop, the loop is the same dependency chain in all three functions (its speed is the
// multiplier's latency, whatever its alignment), and a round is six, three and one slices in random order. A slice takes
// tens of microseconds, so that no sampling period aliases with it.
//
// Options: -seconds N (wall time), -cpu N (CPU time of the process), -slice N (iterations), -arg N (a meaning of the
// workload's own). Without -seconds and -cpu a workload runs until it is killed. It prints READY when it begins, and at
// the end one line of JSON with the CPU time used.
#ifndef HOT_H
#define HOT_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// A function that stays as it is written: not inlined, not cloned, not merged with an equal one.
#define SOLID __attribute__((noipa))
// Makes v opaque: a value that the compiler can neither fold nor forget, so a call before it is no tail call.
#define KEEP(v) __asm__ volatile("" : "+r"(v))

struct hot {
	double seconds, cpu;
	uint64_t slice, arg;
	uint64_t random;
	uint64_t rounds;
	struct timespec wall_end, cpu_end;
	int next;
	unsigned char order[10];
};

static inline void hot_after(clockid_t clock, double seconds, struct timespec *t)
{
	clock_gettime(clock, t);
	t->tv_sec += (time_t)seconds;
	t->tv_nsec += (long)((seconds - (double)(time_t)seconds) * 1e9);
	if (t->tv_nsec >= 1000000000) {
		t->tv_sec++;
		t->tv_nsec -= 1000000000;
	}
}

static inline int hot_passed(clockid_t clock, const struct timespec *t)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return now.tv_sec > t->tv_sec || (now.tv_sec == t->tv_sec && now.tv_nsec >= t->tv_nsec);
}

static inline void hot_ready(void)
{
	static const char line[] = "READY\n";
	if (write(1, line, sizeof line - 1) < 0)
		_exit(3);
}

// hot_parse reads the command line; arg is the default of -arg.
static inline void hot_parse(struct hot *h, int argc, char **argv, uint64_t arg)
{
	memset(h, 0, sizeof *h);
	h->slice = 12000;
	h->arg = arg;
	for (int i = 1; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "-seconds"))
			h->seconds = atof(argv[i + 1]);
		else if (!strcmp(argv[i], "-cpu"))
			h->cpu = atof(argv[i + 1]);
		else if (!strcmp(argv[i], "-slice"))
			h->slice = strtoull(argv[i + 1], NULL, 0);
		else if (!strcmp(argv[i], "-arg"))
			h->arg = strtoull(argv[i + 1], NULL, 0);
	}
	hot_after(CLOCK_MONOTONIC, h->seconds, &h->wall_end);
	hot_after(CLOCK_PROCESS_CPUTIME_ID, h->cpu, &h->cpu_end);
	h->random = 88172645463325252ull ^ ((uint64_t)getpid() << 20) ^ (uint64_t)h->wall_end.tv_nsec;
	h->next = 10;
}

static inline uint64_t hot_random(struct hot *h)
{
	h->random ^= h->random << 13;
	h->random ^= h->random >> 7;
	h->random ^= h->random << 17;
	return h->random;
}

// hot_running tells whether the time is not up yet.
static inline int hot_running(struct hot *h)
{
	if (h->seconds > 0 && hot_passed(CLOCK_MONOTONIC, &h->wall_end))
		return 0;
	return !(h->cpu > 0 && hot_passed(CLOCK_PROCESS_CPUTIME_ID, &h->cpu_end));
}

static inline void hot_shuffle(struct hot *h)
{
	memcpy(h->order, "\0\0\0\0\0\0\1\1\1\2", 10);
	for (int i = 9; i > 0; i--) {
		int j = (int)(hot_random(h) % (uint64_t)(i + 1));
		unsigned char t = h->order[i];
		h->order[i] = h->order[j];
		h->order[j] = t;
	}
	h->next = 0;
	h->rounds++;
}

// hot_next returns which function burns next (0, 1, 2), or -1 when the time is up, which it looks at between rounds.
static inline int hot_next(struct hot *h)
{
	if (h->next == 10) {
		if (h->rounds % 8 == 0 && !hot_running(h))
			return -1;
		hot_shuffle(h);
	}
	return h->order[h->next++];
}

// hot_done prints what the process used.
static inline void hot_done(const struct hot *h)
{
	struct timespec cpu;
	char line[128];
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
	int n = snprintf(line, sizeof line, "{\"cpu_ns\":%lld,\"rounds\":%llu}\n",
			 (long long)cpu.tv_sec * 1000000000 + cpu.tv_nsec, (unsigned long long)h->rounds);
	if (n < 0 || write(1, line, (size_t)n) < 0)
		_exit(3);
}

// HOT_LOOP burns n iterations. The multiplication depends on the one before, so nothing but its latency counts.
#define HOT_LOOP(n)                                            \
	do {                                                   \
		uint64_t hot_x = (n);                          \
		for (uint64_t hot_i = (n); hot_i; hot_i--) {   \
			hot_x = hot_x * 6364136223846793005u + 1; \
			KEEP(hot_x);                           \
		}                                              \
	} while (0)

// BURN defines a leaf that burns n iterations.
#define BURN(name)                        \
	SOLID uint64_t name(uint64_t n)   \
	{                                 \
		HOT_LOOP(n);              \
		return n;                 \
	}

// LEVEL defines a function that calls the next one down, in a plain frame.
#define LEVEL(name, down)                 \
	SOLID uint64_t name(uint64_t n)   \
	{                                 \
		uint64_t r = down(n);     \
		KEEP(r);                  \
		return r;                 \
	}

#endif
