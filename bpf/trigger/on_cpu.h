/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0) */
/* On-CPU: a perf event (cpu-clock) per CPU. */
#ifndef HOSTPROFILES_ON_CPU_H
#define HOSTPROFILES_ON_CPU_H

#include "../core/begin.h"
#include "../core/drive.h"

/* struct bpf_perf_event_data of the uapi, with this project's names for the registers. */
struct perf_ctx {
	struct saved_regs regs;
};

INLINE struct counters *my_counters(__u32 cpu)
{
	return bpf_map_lookup_elem(&cpu_counters, &cpu);
}

/* The kernel's part of the stack, leaf first. */
INLINE void kernel_stack(void *ctx, struct scratch *s)
{
	long bytes = 0;

	s->record.sample.flags |= SAMPLE_KERNEL_MODE;
	if (kernel_stacks)
		bytes = bpf_get_stack(ctx, s->record.words, MAX_KERNEL_FRAMES * 8, 0);
	if (bytes > 0)
		s->record.sample.kernel_words = bytes / 8;
}

#ifdef VARIANT_LOOP
WALK_LOOP(native)
#endif

SEC("perf_event")
int on_cpu(struct perf_ctx *ctx)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct counters *c = my_counters(cpu);
	struct saved_regs *regs;
	struct task_struct *task;
	struct scratch *s;

	if (!c)
		return 0;
	c->taken++;
	s = bpf_map_lookup_elem(&scratches, &cpu);
	if (!s)
		return 0;
	task = current_task();
	begin_record(s, task, TRIGGER_ON_CPU);
	regs = (struct saved_regs *)s->user_regs;
	_Static_assert(sizeof(*regs) <= sizeof(s->user_regs), "user_regs is too small");
	*regs = ctx->regs;
	if (!user_mode(regs)) {
		kernel_stack(ctx, s);
		if (read_task_regs(task, regs))
			__builtin_memset(regs, 0, sizeof(*regs));
	}
	if (begin_walk(s, task, regs))
		WALK_AND_FINISH(ctx, s, c, native);
	else
		finish(s, c);
	return 0;
}

/* A program that goes on with the sample that an earlier one began; its body is that of a function
 * of ctx, s and c. */
#define ON_CPU_PART(name)                                                                          \
	INLINE void do_##name(struct perf_ctx *ctx, struct scratch *s, struct counters *c);        \
	SEC("perf_event")                                                                          \
	int name(struct perf_ctx *ctx)                                                             \
	{                                                                                          \
		__u32 cpu = bpf_get_smp_processor_id();                                            \
		struct counters *c = my_counters(cpu);                                             \
		struct scratch *s = bpf_map_lookup_elem(&scratches, &cpu);                         \
                                                                                                   \
		if (c && s)                                                                        \
			do_##name(ctx, s, c);                                                      \
		return 0;                                                                          \
	}                                                                                          \
	INLINE void do_##name(struct perf_ctx *ctx, struct scratch *s, struct counters *c)

/* A runtime's frames, and the native ones between them: as many as fit into a program. */
#ifdef VARIANT_LOOP
#define ON_CPU_RUNTIME(name, steps)                                                                \
	WALK_LOOP(name)                                                                            \
	ON_CPU_PART(on_cpu_##name)                                                                 \
	{                                                                                          \
		WALK_AND_FINISH(ctx, s, c, name);                                                  \
	}
#else
#define ON_CPU_RUNTIME(name, steps)                                                                \
	ON_CPU_PART(on_cpu_##name)                                                                 \
	{                                                                                          \
		s->guess.step = name##_frames(s);                                                  \
		forget();                                                                          \
		GO_ON_AND_FINISH(ctx, s, c, s->guess.step, steps);                                 \
	}
#endif

ON_CPU_RUNTIME(python, 8)
ON_CPU_RUNTIME(hotspot, 2)
ON_CPU_RUNTIME(v8, 8)

#ifndef VARIANT_LOOP
/* The next WALK_STEPS steps. */
ON_CPU_PART(on_cpu_next)
{
	WALK_AND_FINISH(ctx, s, c, native);
}

/* A guess, and the next STEPS_AFTER_GUESS steps. */
ON_CPU_PART(on_cpu_guess)
{
	s->guess.step = guess_by_code(s);
	forget();
	if (s->guess.step == STEP_FRAME) {
		GO_ON_AND_FINISH(ctx, s, c, STEP_FRAME, STEPS_AFTER_GUESS);
	} else {
		bpf_tail_call(ctx, &walk_programs, WALK_SEARCH);
		stop(&s->walk, STOP_TAIL_CALLS);
		finish(s, c);
	}
}

/* What comes after the last part of a guess, which was this step. */
INLINE void after_guess(struct perf_ctx *ctx, struct scratch *s, struct counters *c, __u32 step)
{
	s->guess.step = step;
	forget();
	GO_ON_AND_FINISH(ctx, s, c, s->guess.step, STEPS_AFTER_GUESS);
}

/* The rest of a guess that the code at pc did not tell. */
ON_CPU_PART(on_cpu_search)
{
	after_guess(ctx, s, c, guess_by_stack(s));
}

/* In place of both where the verifier refuses them. */
ON_CPU_PART(on_cpu_by_fp)
{
	after_guess(ctx, s, c, do_guess_plainly(s));
}
#endif

#endif
