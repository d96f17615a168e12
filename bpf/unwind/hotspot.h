/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0) */
/*
 * HotSpot, the Java virtual machine of OpenJDK: interpreted, compiled and native methods' frames,
 * and those of its stubs. What lies where is said by the process itself, in vmStructs;
 * internal/runtimes/hotspot reads it and fills in struct hotspot_proc.
 */
#ifndef HOSTPROFILES_HOTSPOT_H
#define HOSTPROFILES_HOTSPOT_H

#include "native.h"
#include "hotspot_leaf.h"

#define HOTSPOT_FRAMES_A_PROGRAM 2

/* Words of an interpreted frame that are at the same place in all versions, from 12 words below the
 * frame pointer on: cpu/x86/frame_x86.hpp and cpu/aarch64/frame_aarch64.hpp, JDK 8 to 26. */
enum hotspot_interpreter_frame {
	HOTSPOT_IN_METHOD = 9,
	HOTSPOT_IN_SENDER = 11, /* the caller's stack pointer */
	HOTSPOT_IN_FP,
	HOTSPOT_IN_RETURN,
	HOTSPOT_IN_WORDS,
};

/* A frame's caller, and the size of what is between, have to be on the same stack. */
#define HOTSPOT_STACK (1ull << 24)

/*
 * The end of what HotSpot tells: the caller is guessed, as that of any code that nothing is known
 * of. The frame was pushed, or is what it is natively.
 */
INLINE int hotspot_guess(struct scratch *s, int pushed, __u32 line)
{
	struct walk *w = &s->walk;

	no_hotspot(s, line);
	w->runtime = RUNTIME_native;
	/* from a place without a mapping user space would go on, and push the frame again */
	if (find_mapping(w, w->pc - (w->flags & FRAME_RETURN)))
		return stop(w, pushed ? STOP_NO_RULE : STOP_NO_MAPPING);
	if (!pushed && push_frame(s))
		return stop(w, STOP_MAX_FRAMES);
	s->guess.reason = 0;
	return STEP_GUESS;
}

/* The caller is described: whose frame is it? */
INLINE int hotspot_go_on(struct scratch *s, const struct hotspot_proc *p)
{
	struct walk *w = &s->walk;

	if (!hotspot_within(w->pc - 1, p->low, p->high))
		w->runtime = RUNTIME_native;
	return STEP_FRAME;
}

INLINE int push_hotspot(struct scratch *s, __u32 kind, __u64 a, __u64 b)
{
	if (!(s->walk.flags & FRAME_RETURN))
		kind |= HOTSPOT_LEAF;
	a &= (1ull << HOTSPOT_ADDR_BITS) - 1;
	a |= (__u64)kind << HOTSPOT_ADDR_BITS;
	return push_runtime_frame(s, RUNTIME_hotspot, s->walk.flags, a, b);
}

/*
 * A frame that is no method's and has a frame pointer: of the stub that calls Java from C++, and of
 * those that call C++.
 */
INLINE int hotspot_by_fp(struct scratch *s, const struct hotspot_proc *p, int pushed)
{
	struct walk *w = &s->walk;
	__u64 fp, pair[2], sp = w->regs[REG_SP];

	if (get_reg(w, REG_FP, &fp) || (fp & 7))
		return hotspot_guess(s, pushed, __LINE__);
	if ((w->known & (1u << REG_SP)) && (fp < sp || fp - sp >= HOTSPOT_STACK))
		return hotspot_guess(s, pushed, __LINE__);
	if (read_user(pair, sizeof(pair), fp))
		return hotspot_guess(s, pushed, __LINE__);
	w->known = 0;
	w->lazy = 0;
#ifdef REG_BX
	/* StubGenerator::generate_call_stub of cpu/x86, JDK 8 to 26 */
	if (w->pc == p->call_return)
		set_reg_lazy(w, REG_BX, fp - 56);
#endif
	set_reg(w, REG_FP, pair[0]);
	set_reg(w, REG_SP, fp + 16);
	w->pc = strip_pac(pair[1]);
	w->flags = FRAME_RETURN;
	return hotspot_go_on(s, p);
}

/* Whether a frame of the carrier's that mounted a virtual thread is at fp: it was called from Java.
 */
INLINE int hotspot_mounted(const struct hotspot_proc *p, __u64 fp)
{
	__u64 ra;

	return !(fp & 7) && !read_user(&ra, sizeof(ra), fp + 8) &&
	       hotspot_within(strip_pac(ra), p->low, p->high);
}

/*
 * What a virtual thread returns to when those that called it are not on the stack: the carrier's
 * frame that mounted it (StubRoutines::cont_returnBarrier). Without arguments on the stack that
 * lies behind the ContinuationEntry, which the stack pointer points at (SharedRuntime's
 * continuation_enter_setup). Its frame pointer is also in the register if the frame returned from
 * has saved it (ThawBase::patch_pd of cpu/x86, JDK 26). Not all compiled ones do, and what is there
 * then may lead to what other frames have left on the stack.
 */
INLINE int hotspot_at_barrier(struct scratch *s, const struct hotspot_proc *p)
{
	struct walk *w = &s->walk;
	__u64 fp;

	s->hotspot.done = 0;
	if (p->entry_bytes && (w->known & (1u << REG_SP))) {
		fp = w->regs[REG_SP] + p->entry_bytes;
		s->hotspot.done = hotspot_mounted(p, fp);
		if (s->hotspot.done)
			set_reg(w, REG_FP, fp);
	}
	forget();
	if (!s->hotspot.done && (get_reg(w, REG_FP, &fp) || !hotspot_mounted(p, fp)))
		return hotspot_guess(s, 0, __LINE__);
	return hotspot_by_fp(s, p, 0);
}

/* Reads what leads from a Method to its bytecodes; 0 if it is none. */
INLINE __u64 hotspot_const(const struct hotspot_proc *p, __u64 method)
{
	__u64 cm;

	if (!method || (method & 7) || read_user(&cm, sizeof(cm), method + p->method_const) ||
	    (cm & 7))
		return 0;
	return cm;
}

/* The index of the bytecode at bcp, HOTSPOT_NO_BCI if it can't be one. */
INLINE __u64 hotspot_bci(const struct hotspot_proc *p, __u64 cm, __u64 bcp)
{
	__u64 i = bcp - (cm + p->const_bytes);

	if (p->flags & HOTSPOT_BCI && bcp < HOTSPOT_NO_BCI)
		return bcp;
	return i < HOTSPOT_NO_BCI ? i : HOTSPOT_NO_BCI;
}

INLINE int push_interpreted(struct scratch *s, __u64 method, __u64 cm, __u64 bci)
{
	return push_hotspot(s, HOTSPOT_INTERPRETED, method,
			    bci << HOTSPOT_METHOD_BITS |
				(cm & ((1ull << HOTSPOT_METHOD_BITS) - 1)));
}

/* The interpreter's code without a frame that is worth one: of entries and exits. */
INLINE int hotspot_entry(struct scratch *s, const struct hotspot_proc *p)
{
	struct hotspot_walk *y = &s->hotspot;
	struct walk *w = &s->walk;
	__u64 sp = w->regs[REG_SP], method = 0, cm;

	if (w->flags & FRAME_RETURN || !(w->known & (1u << REG_SP)))
		return hotspot_guess(s, 0, __LINE__);
	get_reg(w, HOTSPOT_METHOD_REG, &method);
	cm = hotspot_const(p, method);
	if (cm ? push_interpreted(s, method, cm, 0) : push_frame(s))
		return stop(w, STOP_MAX_FRAMES);
	y->found = 0;
#if defined(__TARGET_ARCH_x86)
	hotspot_slot(y, sp, 0, sp + 8);
#else
	hotspot_slot(y, 0, 0, sp);
#endif
	if (!hotspot_try_slots(s, p))
		return hotspot_guess(s, 1, __LINE__);
	return hotspot_go_on(s, p);
}

/* An interpreted method's frame. */
INLINE int hotspot_interpreted(struct scratch *s, const struct hotspot_proc *p)
{
	struct hotspot_walk *y = &s->hotspot;
	struct walk *w = &s->walk;
	__u64 fp, sp, method, cm, sender, ra, bcp = 0, bci;
	int leaf = !(w->flags & FRAME_RETURN);

	if (get_reg(w, REG_FP, &fp) || (fp & 7))
		return hotspot_entry(s, p);
	if (read_user(y->words, 8 * HOTSPOT_IN_WORDS, fp - 8 * HOTSPOT_IN_FP))
		return hotspot_entry(s, p);
	forget();
	sp = w->known & (1u << REG_SP) ? w->regs[REG_SP] : fp - HOTSPOT_STACK / 2;
	method = y->words[HOTSPOT_IN_METHOD];
	sender = y->words[HOTSPOT_IN_SENDER];
	ra = strip_pac(y->words[HOTSPOT_IN_RETURN]);
	bcp = y->words[(HOTSPOT_IN_FP - p->bcp) & 15];
	if (leaf && fp - sp < 8 * (__u64)p->frame_words) { /* just being made */
		get_reg(w, HOTSPOT_METHOD_REG, &method);
		if (fp - sp < 8)
			get_reg(w, HOTSPOT_SENDER_REG, &sender);
		leaf = 0;
		bcp = 0;
	}
#if defined(__TARGET_ARCH_arm64)
	/* An interpreted caller's stack pointer has room for its whole expression stack, a part of
	 * which the callee lies on (generate_normal_entry of cpu/aarch64, JDK 8 to 26). */
	else if (sender < fp + 16 && !(sender & 15) && fp + 16 - sender < HOTSPOT_STACK &&
		 hotspot_within(ra, p->interpreter_low, p->interpreter_high))
		sender = fp + 16;
#endif
	if (fp < sp || fp - sp >= HOTSPOT_STACK || !hotspot_within(ra, p->low, p->high) ||
	    sender < fp + 16 || sender - fp >= HOTSPOT_STACK || (sender & 7))
		return hotspot_entry(s, p);
	cm = hotspot_const(p, method);
	if (!cm)
		return hotspot_entry(s, p);
	bci = HOTSPOT_NO_BCI;
	if (leaf && !get_reg(w, HOTSPOT_BCP_REG, &sp)) /* the frame has that of the last call */
		bci = hotspot_bci(p, cm, sp);
	if (bci == HOTSPOT_NO_BCI)
		bci = hotspot_bci(p, cm, bcp);
	if (push_interpreted(s, method, cm, bci))
		return stop(w, STOP_MAX_FRAMES);
	w->known = 0;
	w->lazy = 0;
	set_reg(w, REG_FP, y->words[HOTSPOT_IN_FP]);
	set_reg(w, REG_SP, sender);
	w->pc = ra;
	w->flags = FRAME_RETURN;
	return STEP_FRAME;
}

/* The step from a blob's frame that has called something. */
INLINE int hotspot_leave(struct scratch *s, const struct hotspot_proc *p)
{
	struct hotspot_walk *y = &s->hotspot;
	struct walk *w = &s->walk;
	__u64 ra, cfa;

	if (y->frame_size <= 0)
		return hotspot_by_fp(s, p, 1);
	cfa = w->regs[REG_SP] + 8 * (__u64)(__u32)y->frame_size;
	if (read_stack(w, &ra, cfa - 8))
		return stop(w, STOP_MEMORY);
	hotspot_to(w, strip_pac(ra), cfa - 16, cfa);
	return hotspot_go_on(s, p);
}

/* A compiled method's frame, or that of a stub; leaf: it may be one. */
INLINE int hotspot_blob(struct scratch *s, const struct hotspot_proc *p, int leaf)
{
	struct hotspot_walk *y = &s->hotspot;
	struct walk *w = &s->walk;
	int full;

	if (!(w->known & (1u << REG_SP)) || hotspot_find_blob(s, p, w->pc))
		return hotspot_guess(s, 0, __LINE__);
	if (y->nmethod) {
		if (w->flags & FRAME_RETURN)
			hotspot_undo_deopt(s, p);
		forget();
		full = push_hotspot(s, HOTSPOT_COMPILED, y->blob,
				    hotspot_word(y, p->compile_id) << 32 | y->offset);
	} else {
		full = push_hotspot(s, HOTSPOT_STUB, y->blob, y->name);
	}
	if (full)
		return stop(w, STOP_MAX_FRAMES);
	if (w->flags & FRAME_RETURN)
		return hotspot_leave(s, p);
	if (!leaf)
		return hotspot_guess(s, 1, __LINE__);
	if (!y->kind && !y->nmethod && read_user(&y->kind, sizeof(y->kind), y->name))
		y->kind = 0;
	forget();
	if (!hotspot_leave_leaf(s, p))
		return hotspot_guess(s, 1, __LINE__);
	return hotspot_go_on(s, p);
}

/* One frame, at w->pc. */
INLINE int hotspot_frame(struct scratch *s, int leaf)
{
	const struct hotspot_proc *p = hotspot_proc_of(s);
	struct walk *w = &s->walk;
	__u32 ret = w->flags & FRAME_RETURN;

	if (!p) { /* the process is another one by now */
		no_hotspot(s, __LINE__);
		return stop(w, STOP_STALE);
	}
	if (!hotspot_within(w->pc - ret, p->low, p->high))
		return hotspot_guess(s, 0, __LINE__);
	if (hotspot_within(w->pc, p->interpreter_low, p->interpreter_high))
		return hotspot_interpreted(s, p);
	if (ret && w->pc == p->call_return)
		return hotspot_by_fp(s, p, 0);
	if (ret && hotspot_within(w->pc, p->barrier_low, p->barrier_high))
		return hotspot_at_barrier(s, p);
	return hotspot_blob(s, p, leaf);
}

INLINE int do_hotspot_step(struct scratch *s)
{
	return hotspot_frame(s, 1);
}

#ifdef VARIANT_LOOP
UNWINDER(hotspot)
#else
/* As many frames as fit into a program. */
INLINE int hotspot_frames(struct scratch *s)
{
	int ret;

	s->guess.step = hotspot_frame(s, 1);
	for (int i = 0; i < HOTSPOT_FRAMES_A_PROGRAM; i++) {
		forget();
		ret = s->guess.step;
		if (ret != STEP_FRAME || s->walk.runtime != RUNTIME_hotspot)
			return ret;
		s->guess.step = hotspot_frame(s, 0);
	}
	forget();
	return s->guess.step;
}
#endif

#endif
