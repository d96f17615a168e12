/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0) */
/* Native frames: tables made from .eh_frame, .debug_frame and pclntab, guesses where there is none.
 */
#ifndef HOSTPROFILES_NATIVE_H
#define HOSTPROFILES_NATIVE_H

#include "table.h"
#include "steps.h"
#include "golang.h"
#include "guess.h"

/*
 * Guesses are rare and long: they are a function of their own, or with older kernels a program of
 * their own, which costs one of the tail calls. There, what most JIT compilers' frames need is
 * here.
 */
INLINE int short_guess(struct scratch *s)
{
	s->guess.reason = 0;
#ifndef VARIANT_LOOP
	struct guess *g = &s->guess;
	struct walk *w = &s->walk;

	look_at_fp(s);
	if (g->chain && w->flags & FRAME_RETURN)
		return record_step(w, g->pair, g->fp);
#endif
	return STEP_GUESS;
}

/* One native frame: pushes the frame at w->pc and makes w describe its caller. */
INLINE int do_native_step(struct scratch *s)
{
	struct walk *w = &s->walk;
	__u64 addr = w->pc - (w->flags & FRAME_RETURN);
	const struct rule *r;
	int number = 0;
	__u32 key;

	/*
	 * A return address of 0 that a rule has found: a coroutine's first function, and a
	 * process's first instructions, have it above them, where nobody says that there is no
	 * caller. A call to address 0 is something else.
	 */
	if (unlikely(w->pc == 0)) {
		if ((w->flags & (FRAME_RETURN | FRAME_GUESSED)) == FRAME_RETURN)
			return stop(w, STOP_ROOT);
		return stop(w, STOP_NO_MAPPING);
	}
	if (find_mapping(w, addr))
		return stop(w, w->flags & FRAME_GUESSED ? STOP_NO_RULE : STOP_NO_MAPPING);
	if (unlikely(w->mapping.runtime != RUNTIME_native) && !w->hidden) {
		w->runtime = w->mapping.runtime;
		return STEP_SWITCH;
	}
	if (w->mapping.flags & MAPPING_TABLE) {
		number = find_rule(&w->mapping, addr - w->mapping.bias);
		if (number < 0)
			return stop(w, STOP_STALE);
	} else if (!(w->mapping.flags & MAPPING_NO_TABLE)) {
		return stop(w, STOP_NO_TABLE);
	}
	key = number;
	r = bpf_map_lookup_elem(&rules, &key);
	if (!r)
		return stop(w, STOP_STALE);
	if (w->hidden)
		w->hidden = 0;
	else if (push_frame(s))
		return stop(w, STOP_MAX_FRAMES);
	switch (r->cfa) {
	case CFA_NONE:
		return short_guess(s);
	case CFA_ROOT:
		return stop(w, STOP_ROOT);
	case CFA_SIGNAL:
		return signal_step(w);
	case CFA_FRAME_POINTER:
		return frame_pointer_step(w);
	case CFA_GO_SWITCH:
#if defined(__TARGET_ARCH_arm64)
		if (r->reg == REG_SP)
			return go_cgocall_step(w, r);
#endif
		return go_switch_step(w);
	default:
		s->guess.reason = STOP_REGISTER;
		return cfa_step(w, r);
	}
}

UNWINDER(native)

#endif
