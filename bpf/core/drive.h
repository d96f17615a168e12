/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0) */
/*
 * The two variants of the walk over the same step functions; user space chooses between them before
 * loading.
 *
 * VARIANT_LOOP (5.17 and newer): bpf_loop calls the runtimes' global functions; 1,024 frames in any
 * mix. VARIANT_TAIL (older): WALK_STEPS inlined native steps a program, then a tail call to go on:
 * 33 programs in all. There a guess is a program of its own, and its search of the stack another;
 * behind them there is room for STEPS_AFTER_GUESS steps. So is each language runtime, which goes on
 * with as many native steps as its own leave room for.
 */
#ifndef HOSTPROFILES_DRIVE_H
#define HOSTPROFILES_DRIVE_H

#include "commit.h"

/* Finishes the sample after the walk. */
INLINE void finish(struct scratch *s, struct counters *c)
{
	struct task_struct *task = current_task();
	struct walk *w = &s->walk;

	if (w->stop != STOP_ROOT && w->stop != STOP_NO_USER &&
	    (!BPF_CORE_READ(task, mm) || in_exec(task)))
		w->stop = STOP_GONE;
	commit(s, c);
}

#ifdef VARIANT_LOOP

struct loop_ctx {
	struct scratch *scratch;
};

#define STEPS_A_CALL 4
/* Besides steps that push a frame there are those that only change over to another runtime. */
#define MAX_STEPS (3 * MAX_USER_FRAMES)

INLINE int step_runtime(struct scratch *s)
{
	switch (s->walk.runtime) {
#define X(name, number)                                                                            \
	case number:                                                                               \
		return name##_step(s);
		RUNTIMES(X)
#undef X
	}
	return stop(&s->walk, STOP_RUNTIME);
}

static int walk_frames(__u32 i, struct loop_ctx *ctx)
{
	struct scratch *s = ctx->scratch;
	int ret = 0;

	for (int n = 0; n < STEPS_A_CALL; n++) {
		ret = step_runtime(s);
		if (ret == STEP_GUESS)
			ret = guesses ? guess_step(s) : guess_plainly(s);
		ret = ret >= STEP_STALE;
		if (ret)
			break;
	}
	opaque(ret);
	return ret & 1;
}

#define WALK_AND_FINISH(ctx, s, c)                                                                 \
	do {                                                                                       \
		struct loop_ctx loop = {s};                                                        \
		bpf_loop(MAX_STEPS / STEPS_A_CALL, walk_frames, &loop, 0);                         \
		finish(s, c);                                                                      \
	} while (0)

#else

#define WALK_STEPS 31
#define STEPS_AFTER_GUESS 2
#define STEPS_AFTER_PYTHON 8

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, WALK_PROGRAMS + 32); /* and runtimes', by their numbers */
	__type(key, __u32);
	__type(value, __u32);
} walk_programs SEC(".maps");

#define WALK_AND_FINISH(ctx, s, c) WALK_STEPS_AND_FINISH(ctx, s, c, WALK_STEPS)
#define WALK_STEPS_AND_FINISH(ctx, s, c, steps)                                                    \
	do {                                                                                       \
		int ret = STEP_FRAME;                                                              \
		for (int i = 0; i < (steps); i++) {                                                \
			ret = native_step(s);                                                      \
			if (ret != STEP_FRAME)                                                     \
				break;                                                             \
		}                                                                                  \
		if (ret == STEP_GUESS)                                                             \
			bpf_tail_call(ctx, &walk_programs, WALK_GUESS);                            \
		else if (ret == STEP_SWITCH)                                                       \
			bpf_tail_call(ctx, &walk_programs, WALK_PROGRAMS + (s)->walk.runtime);     \
		else if (ret == STEP_FRAME)                                                        \
			bpf_tail_call(ctx, &walk_programs, WALK_ON);                               \
		if (ret == STEP_GUESS || ret < STEP_STALE) {                                       \
			(s)->walk.stop = STOP_TAIL_CALLS;                                          \
			(s)->walk.stop_line = __LINE__;                                            \
		}                                                                                  \
		finish(s, c);                                                                      \
	} while (0)

#endif
#endif
