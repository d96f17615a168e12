/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0) */
/*
 * The two variants of the walk over the same step functions; user space chooses between them before
 * loading.
 *
 * VARIANT_LOOP (5.17 and newer): bpf_loop calls global functions; 1,024 frames. VARIANT_TAIL
 * (older): WALK_STEPS inlined native steps a program, then a tail call to go on: 33 programs in
 * all. There a guess is a program of its own, and its search of the stack another; behind them
 * there is room for STEPS_AFTER_GUESS steps.
 *
 * In both, each language runtime has a program of its own, with the native unwinder beside it: the
 * verifier looks at each by itself, and one that it refuses is missing alone. User space loads them
 * when sampling has begun. Where another runtime's code is met there is a tail call.
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

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, WALK_RUNTIME + 32);
	__type(key, __u32);
	__type(value, __u32);
} walk_programs SEC(".maps");

#ifdef VARIANT_LOOP

struct loop_ctx {
	struct scratch *scratch;
};

#define STEPS_A_CALL 4
/* Besides steps that push a frame there are those that only change over to another runtime. */
#define MAX_STEPS (3 * MAX_USER_FRAMES)

#define LOOP_CALLS (MAX_STEPS / STEPS_A_CALL)

/* The loop of the program that has a runtime's unwinder; native: of the one that has none. */
#define WALK_LOOP(name)                                                                            \
	static int walk_##name(__u32 i, struct loop_ctx *ctx)                                      \
	{                                                                                          \
		struct scratch *s = ctx->scratch;                                                  \
		int ret = 0;                                                                       \
                                                                                                   \
		for (int n = 0; n < STEPS_A_CALL; n++) {                                           \
			if (s->walk.runtime == RUNTIME_native)                                     \
				ret = native_step(s);                                              \
			else if (s->walk.runtime == RUNTIME_##name)                                \
				ret = name##_step(s);                                              \
			else                                                                       \
				ret = STEP_STOP; /* of this program */                             \
			if (ret == STEP_GUESS)                                                     \
				ret = guesses ? guess_step(s) : guess_plainly(s);                  \
			ret = ret >= STEP_STALE;                                                   \
			if (ret)                                                                   \
				break;                                                             \
		}                                                                                  \
		opaque(ret);                                                                       \
		return ret & 1;                                                                    \
	}

#define WALK_AND_FINISH(ctx, s, c, name)                                                           \
	do {                                                                                       \
		struct loop_ctx loop = {s};                                                        \
		__u32 runtime, done = (s)->walk.calls;                                             \
                                                                                                   \
		if (done < LOOP_CALLS)                                                             \
			(s)->walk.calls =                                                          \
			    done + bpf_loop(LOOP_CALLS - done, walk_##name, &loop, 0);             \
		runtime = (s)->walk.runtime;                                                       \
		if (runtime != RUNTIME_native && runtime != RUNTIME_##name) {                      \
			bpf_tail_call(ctx, &walk_programs, WALK_RUNTIME + runtime);                \
			stop(&(s)->walk, STOP_TAIL_CALLS);                                         \
		}                                                                                  \
		finish(s, c);                                                                      \
	} while (0)

#else

#define WALK_STEPS 31
#define STEPS_AFTER_GUESS 2

#define WALK_AND_FINISH(ctx, s, c, name) GO_ON_AND_FINISH(ctx, s, c, STEP_FRAME, WALK_STEPS)

/* After a step that ended as first says: as many native steps as are left, and the next program. */
#define GO_ON_AND_FINISH(ctx, s, c, first, steps)                                                  \
	do {                                                                                       \
		int ret = (first);                                                                 \
		if (ret < STEP_STALE && (s)->walk.runtime == RUNTIME_native) {                     \
			for (int i = 0; i < (steps); i++) {                                        \
				ret = native_step(s);                                              \
				if (ret != STEP_FRAME)                                             \
					break;                                                     \
			}                                                                          \
		}                                                                                  \
		if (ret == STEP_GUESS)                                                             \
			bpf_tail_call(ctx, &walk_programs, WALK_GUESS);                            \
		else if (ret < STEP_STALE && (s)->walk.runtime != RUNTIME_native)                  \
			bpf_tail_call(ctx, &walk_programs, WALK_RUNTIME + (s)->walk.runtime);      \
		else if (ret < STEP_STALE)                                                         \
			bpf_tail_call(ctx, &walk_programs, WALK_ON);                               \
		if (ret == STEP_GUESS || ret < STEP_STALE)                                         \
			stop(&(s)->walk, STOP_TAIL_CALLS);                                         \
		finish(s, c);                                                                      \
	} while (0)

#endif
#endif
