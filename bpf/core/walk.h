/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0) */
/* What step functions are made of. */
#ifndef HOSTPROFILES_WALK_H
#define HOSTPROFILES_WALK_H

#include "maps.h"
#include "memory.h"
#include "mapping.h"
#include "task.h"

/* What a step function returns. */
enum step {
	STEP_FRAME,  /* a frame was pushed; walk on */
	STEP_SWITCH, /* nothing pushed; another runtime owns the pc */
	STEP_STALE,  /* the runtime's plan no longer fits */
	STEP_STOP,   /* the walk is over; walk.stop says why */
	STEP_GUESS,  /* the frame was pushed; its caller has to be guessed */
};

/* Ends the walk: return stop(w, STOP_...). The line of code goes with the reason. */
#define stop(w, reason)                                                                            \
	({                                                                                         \
		(w)->stop = (reason);                                                              \
		(w)->stop_line = __LINE__;                                                         \
		STEP_STOP;                                                                         \
	})

/* On arm64 a return address may be signed (PAC): user addresses have 48 bits unless a program asks
 * for more. */
INLINE __u64 strip_pac(__u64 pc)
{
#if defined(__TARGET_ARCH_arm64)
	return pc & ((1ull << 48) - 1);
#else
	return pc;
#endif
}

/* A frame's first word. */
INLINE __u64 frame_word(__u32 runtime, __u32 flags, __u64 a)
{
	__u64 head = (__u64)(runtime << FRAME_FLAG_BITS | flags) << FRAME_ADDR_BITS;

	return head | (a & ((1ull << FRAME_ADDR_BITS) - 1));
}

/* Appends the native frame at walk.pc; non-zero if max_frames are there. */
INLINE int push_frame(struct scratch *s)
{
	__u32 at = s->walk.words;

	if (s->walk.frames >= s->walk.max_frames)
		return -1;
	s->record.words[at & FRAME_MASK] = frame_word(RUNTIME_native, s->walk.flags, s->walk.pc);
	s->walk.words = at + 1;
	s->walk.frames++;
	return 0;
}

/* Appends a frame of a language runtime; non-zero if max_frames are there. */
INLINE int push_runtime_frame(struct scratch *s, __u32 runtime, __u32 flags, __u64 a, __u64 b)
{
	__u32 at = s->walk.words;

	if (s->walk.frames >= s->walk.max_frames)
		return -1;
	s->record.words[at & FRAME_MASK] = frame_word(runtime, flags, a);
	s->record.words[(at + 1) & FRAME_MASK] = b;
	s->walk.words = at + 2;
	s->walk.frames++;
	return 0;
}

/*
 * Gives a runtime its place in the walk. With bpf_loop its step is a global function, verified on
 * its own; for older kernels it is inlined.
 */
#ifdef VARIANT_LOOP
#define UNWINDER(name)                                                                             \
	__attribute__((noinline)) int name##_step(struct scratch *s)                               \
	{                                                                                          \
		if (!s)                                                                            \
			return STEP_STOP;                                                          \
		return do_##name##_step(s);                                                        \
	}
#else
#define UNWINDER(name)                                                                             \
	INLINE int name##_step(struct scratch *s)                                                  \
	{                                                                                          \
		return do_##name##_step(s);                                                        \
	}
#endif

/* Guesses: how far they go, and functions of theirs. */
#ifdef VARIANT_LOOP
#define GUESS_CHUNKS GUESS_MAX_CHUNKS
#define GUESS_TRIES GUESS_MAX_TRIES
/* verified on its own */
#define GUESS_PART __attribute__((noinline))
#else
#define GUESS_CHUNKS GUESS_MIN_CHUNKS
#define GUESS_TRIES GUESS_MIN_TRIES
#define GUESS_PART static __attribute__((always_inline)) inline
#endif

/*
 * Results go through memory: the verifier then knows nothing of them, and needs to look only once
 * at what comes behind, not once for each way there.
 */
#define forget() asm volatile("" ::: "memory")

#endif
