/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0) */
/*
 * CPython: its frames stand for the native frames of the interpreter's loop. A native frame of the
 * loop evaluates one Python frame up to 3.10, from 3.11 on those down to the one that it was
 * entered with. What lies where, by version, is in internal/runtimes/python, which fills in
 * struct python_proc.
 */
#ifndef HOSTPROFILES_PYTHON_H
#define HOSTPROFILES_PYTHON_H

#include "../core/commit.h"
#include "native.h"
#include "runtime.h"

RUNTIME_PROCS(python)

#define PYTHON_FRAMES_A_PROGRAM 16

/* Notes that the thread's Python frames are missing. */
INLINE int no_python(struct scratch *s, __u32 line)
{
	s->record.sample.failed_runtime = RUNTIME_python;
	s->record.sample.failed_line = line;
	return 0;
}

/*
 * 32 bits that tell a code object from another one that takes its place in memory: from the
 * addresses of its names and tables. internal/runtimes/python does the same.
 */
INLINE __u32 python_check(const __u64 names[4])
{
	__u64 h = names[0];

	h = (h ^ names[1]) * 0x9e3779b97f4a7c15ull;
	h = (h ^ (h >> 29) ^ names[2]) * 0x9e3779b97f4a7c15ull;
	h = (h ^ (h >> 29) ^ names[3]) * 0x9e3779b97f4a7c15ull;
	return h >> 32;
}

/* The word at an offset in bytes of what was read last, at an offset in bytes. */
INLINE __u64 python_word(const struct python_walk *y, __u32 offset)
{
	return y->words[(offset >> 3) & (PYTHON_FRAME_WORDS - 1)] >> (8 * (offset & 7));
}

/* A thread state's address: by a key of pthread_key_create. 0 if the thread has none. */
INLINE __u64 python_by_key(struct scratch *s, const struct python_proc *p, __u64 tp)
{
	__u64 block, state;
	__u32 key[2] = {1}; /* Py_tss_t: whether it was made, and the key */
	__u32 bits = p->block_bits & 31;

	if (p->flags & PYTHON_BARE_KEY ? read_user(&key[1], sizeof(key[1]), p->key)
				       : read_user(key, sizeof(key), p->key))
		return no_python(s, __LINE__);
	if (!key[0] || key[1] == ~0u) /* the interpreter is being started, or has ended */
		return 0;
	if (key[1] >= PYTHON_MAX_KEY)
		return no_python(s, __LINE__);
	if (read_user(&block, sizeof(block), tp + p->thread_offset + 8 * (__u64)(key[1] >> bits)))
		return no_python(s, __LINE__);
	if (!block)
		return 0;
	block += p->stride * (__u64)(key[1] & ((1u << bits) - 1)) + p->value;
	if (read_user(&state, sizeof(state), block))
		return no_python(s, __LINE__);
	return state;
}

/* The same where it is in a thread-local variable. */
INLINE __u64 python_by_variable(struct scratch *s, const struct python_proc *p, __u64 tp)
{
	__u64 block = tp, state;

	if (p->thread == PYTHON_THREAD_DTV) {
		if (read_user(&block, sizeof(block), tp + p->dtv_offset) ||
		    read_user(&block, sizeof(block), block + p->dtv_slot))
			return no_python(s, __LINE__);
		if (!block || block == ~0ull) /* the thread has never used the module's */
			return 0;
	}
	if (read_user(&state, sizeof(state), block + p->thread_offset))
		return no_python(s, __LINE__);
	return state;
}

/* Reads a thread state; true if it is the calling thread's. */
INLINE int read_state(struct python_walk *y, const struct python_proc *p, __u64 state, __u64 self)
{
	__u32 bytes = 8 * (p->state_words & (PYTHON_FRAME_WORDS - 1));

	if (!state || read_user(y->words, bytes, state))
		return 0;
	return python_word(y, p->state_self) == self;
}

/* Finds the innermost Python frame of the thread. */
INLINE void find_python(struct scratch *s, const struct python_proc *p)
{
	__u64 tp = thread_pointer(), self = tp + p->self, state = 0;
	struct python_walk *y = &s->python;

	y->frame = 0;
	y->cframe = 0;
	if (p->current && read_user(&state, sizeof(state), p->current))
		state = 0;
	if (!read_state(y, p, state, self)) {
		if (p->thread == PYTHON_THREAD_NONE)
			return;
		state = p->thread == PYTHON_THREAD_KEY ? python_by_key(s, p, tp)
						       : python_by_variable(s, p, tp);
		if (!state)
			return;
		if (!read_state(y, p, state, self)) {
			no_python(s, __LINE__);
			return;
		}
	}
	y->frame = python_word(y, p->state_frame);
	if (p->flags & PYTHON_CFRAME) {
		y->cframe = y->frame;
		if (read_user(&y->frame, sizeof(y->frame), y->cframe + p->cframe_frame)) {
			y->frame = 0;
			no_python(s, __LINE__);
		}
	}
}

/*
 * At a native frame of the loop: makes the walk describe its caller, without a frame for it. The
 * Python frames follow.
 */
INLINE int enter_python(struct scratch *s, const struct python_proc *p)
{
	struct python_walk *y = &s->python;
	struct walk *w = &s->walk;

	if (!y->known) {
		y->known = 1;
		find_python(s, p);
	}
	y->pc = w->pc;
	y->pc_flags = w->flags;
	y->first = y->frame;
	y->first_words = w->words;
	y->first_frames = w->frames;
	y->part = w->mapping.part;
	y->sp = w->known & (1u << REG_SP) ? w->regs[REG_SP] : 0;
	w->hidden = 1;
	y->after = native_step(s);
	forget();
	if (y->after == STEP_STOP && can_resume(w->stop)) {
		/* user space goes on from the loop's frame, and does not know of Python's */
		no_python(s, __LINE__);
		w->hidden = 0;
		w->runtime = RUNTIME_native;
		return y->after;
	}
	y->cfa = y->after == STEP_FRAME && w->known & (1u << REG_SP) ? w->regs[REG_SP] : ~0ull;
	/* the frame that marks the end of Python's lies in that of the caller, of whatever size */
	if (p->flags & PYTHON_TAIL && y->cfa != ~0ull)
		y->cfa += PYTHON_ENTRY_BYTES;
	y->inside = 1;
	w->runtime = RUNTIME_python;
	return STEP_SWITCH;
}

/* Ends the frames of one native frame. If there are none, that stands for itself. */
INLINE int leave_python(struct scratch *s)
{
	struct python_walk *y = &s->python;
	struct walk *w = &s->walk;
	__u32 at = w->words;

	y->inside = 0;
	w->runtime = RUNTIME_native;
	if (at == y->first_words && !y->part) {
		if (w->frames >= w->max_frames)
			return stop(w, STOP_MAX_FRAMES);
		s->record.words[at & FRAME_MASK] = frame_word(RUNTIME_native, y->pc_flags, y->pc);
		w->words = at + 1;
		w->frames++;
	}
	return y->after;
}

/* The same where it turns out that the frames found are those of another native frame. */
INLINE int take_back_python(struct scratch *s)
{
	struct python_walk *y = &s->python;

	y->frame = y->first;
	s->walk.words = y->first_words;
	s->walk.frames = y->first_frames;
	return leave_python(s);
}

/* The address of the first instruction of a frame's code. */
INLINE __u64 python_bytes(const struct python_walk *y, const struct python_proc *p, __u64 code)
{
	__u32 copy = python_word(y, p->frame_copy);
	__u64 copies, at;

	if (p->flags & PYTHON_TLBC && copy && copy < PYTHON_MAX_COPY &&
	    !read_user(&copies, sizeof(copies), code + p->code_copies) &&
	    !read_user(&at, sizeof(at), copies + 8 + 8 * (__u64)copy))
		return at;
	return code + p->code_bytes;
}

/* One Python frame, or the end of those that belong to the native frame. */
INLINE int python_frame(struct scratch *s, const struct python_proc *p)
{
	struct python_walk *y = &s->python;
	__u32 bytes = p->frame_bytes & (8 * PYTHON_FRAME_WORDS - 1), owner, check;
	__u64 code, at, own = y->frame;

	if (!own || y->part)
		return leave_python(s);
	if (p->flags & PYTHON_ENTRY && y->cframe >= y->cfa) /* this one's is not there yet */
		return leave_python(s);
	if (read_user(y->words, bytes, own)) {
		no_python(s, __LINE__);
		y->frame = 0;
		return leave_python(s);
	}
	owner = (__u8)python_word(y, p->frame_owner);
	if (p->flags & PYTHON_SHIM && owner >= p->shim) {
		if (own >= y->cfa)
			return take_back_python(s);
		y->frame = python_word(y, p->frame_previous);
		/* one below is that of a native frame which the walk has passed over */
		return own < y->sp ? STEP_SWITCH : leave_python(s);
	}
	code = python_word(y, p->frame_code) & ~(__u64)p->code_tag;
	at = python_word(y, p->frame_at);
	if (p->flags & PYTHON_LINKED)
		at = (__u32)at;
	else
		at -= python_bytes(y, p, code);
	if (read_user(y->names, sizeof(y->names), code + p->code_names)) {
		no_python(s, __LINE__);
		y->frame = 0;
		return leave_python(s);
	}
	check = python_check(y->names);
	if (push_runtime_frame(s, RUNTIME_python, 0, code, (at << 32) | check))
		return stop(&s->walk, STOP_MAX_FRAMES);
	y->frame = python_word(y, p->frame_previous);
	if (p->flags & PYTHON_LINKED)
		return leave_python(s);
	if (p->flags & PYTHON_ENTRY && owner) {
		at = y->cframe;
		if (read_user(&y->cframe, sizeof(y->cframe), y->cframe + p->cframe_previous))
			y->cframe = 0;
		return at < y->sp ? STEP_SWITCH : leave_python(s);
	}
	return STEP_SWITCH;
}

INLINE int do_python_step(struct scratch *s)
{
	const struct python_proc *p = python_proc_of(s);

	if (!p) { /* the process is another one by now */
		no_python(s, __LINE__);
		s->walk.hidden = 0;
		return stop(&s->walk, STOP_STALE);
	}
	if (!s->python.inside)
		return enter_python(s, p);
	return python_frame(s, p);
}

#ifdef VARIANT_LOOP
UNWINDER(python)
#else
/* As many Python frames as fit into a program. */
INLINE int python_frames(struct scratch *s)
{
	int ret = do_python_step(s);

	for (int i = 0; i < PYTHON_FRAMES_A_PROGRAM && ret == STEP_SWITCH; i++) {
		const struct python_proc *p = python_proc_of(s);

		if (!p)
			break;
		ret = python_frame(s, p);
	}
	return ret;
}
#endif

#endif
