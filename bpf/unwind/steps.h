/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0) */
/* Steps from a frame to its caller by rules, by frame pointers and through signal frames. */
#ifndef HOSTPROFILES_STEPS_H
#define HOSTPROFILES_STEPS_H

#include "../core/walk.h"

/* The frame record that fp points to, if it may be one: [fp] is the caller's fp, [fp + 8] the
 * return address. */
INLINE int read_record(const struct walk *w, __u64 pair[2], __u64 fp)
{
	return (fp & 7) || fp < w->regs[REG_SP] || read_user(pair, 16, fp);
}

/* The guessed step by the frame record pair at fp. */
INLINE int record_step(struct walk *w, const __u64 pair[2], __u64 fp)
{
	w->known = 0;
	w->lazy = 0;
	set_reg(w, REG_FP, pair[0]);
	set_reg(w, REG_SP, fp + 16);
#if defined(__TARGET_ARCH_arm64)
	/* gcc puts the frame record at the bottom of the frame: then this is a lower bound only */
	w->known &= ~(1u << REG_SP);
#endif
	w->pc = strip_pac(pair[1]);
	w->flags = FRAME_RETURN | FRAME_GUESSED;
	return STEP_FRAME;
}

/* A step from code that is known to keep the chain of frame records. */
INLINE int frame_pointer_step(struct walk *w)
{
	__u64 fp, sp = w->regs[REG_SP], pair[2];
	int err = get_reg(w, REG_FP, &fp);

	if (err)
		return stop(w, err);
	if (fp == 0)
		return stop(w, STOP_ROOT);
	if ((fp & 7) || fp < sp)
		return stop(w, STOP_NO_RULE);
	if (read_user(pair, sizeof(pair), fp))
		return stop(w, STOP_MEMORY);
	pair[1] = strip_pac(pair[1]);
	if (pair[1] == 0)
		return stop(w, STOP_ROOT);
	w->known = 0;
	w->lazy = 0;
	set_reg(w, REG_FP, pair[0]);
	set_reg(w, REG_SP, fp + 16);
	w->pc = pair[1];
	w->flags = FRAME_RETURN;
	return STEP_FRAME;
}

#if defined(__TARGET_ARCH_arm64)
/* A step from a frame that was guessed, so that its stack pointer is not known: the chain goes on.
 */
INLINE int chain_step(struct walk *w)
{
	__u64 fp, pair[2];

	if (get_reg(w, REG_FP, &fp))
		return stop(w, STOP_NO_RULE);
	if (fp == 0)
		return stop(w, STOP_ROOT);
	if (read_record(w, pair, fp))
		return stop(w, STOP_NO_RULE);
	if (strip_pac(pair[1]) == 0)
		return stop(w, STOP_ROOT);
	return record_step(w, pair, fp);
}
#endif

#if defined(__TARGET_ARCH_x86)

/*
 * struct rt_sigframe behind its return address (arch/x86/include/asm/sigframe.h, Linux 6.18):
 * struct ucontext, whose uc_mcontext (offset 40) begins r8..r15, di, si, bp, bx, dx, ax, cx, sp, ip
 * (arch/x86/include/uapi/asm/sigcontext.h).
 */
INLINE int signal_step(struct walk *w)
{
	__u64 *gregs = w->window; /* it has room, and is of another stack afterwards */

	w->window_bytes = 0;
	if (read_user(gregs, 17 * 8, w->regs[REG_SP] + 40))
		return stop(w, STOP_MEMORY);
	w->regs[8] = gregs[0];
	w->regs[9] = gregs[1];
	w->regs[10] = gregs[2];
	w->regs[11] = gregs[3];
	w->regs[12] = gregs[4];
	w->regs[13] = gregs[5];
	w->regs[14] = gregs[6];
	w->regs[15] = gregs[7];
	w->regs[5] = gregs[8];
	w->regs[4] = gregs[9];
	w->regs[6] = gregs[10];
	w->regs[3] = gregs[11];
	w->regs[1] = gregs[12];
	w->regs[0] = gregs[13];
	w->regs[2] = gregs[14];
	w->regs[7] = gregs[15];
	w->pc = gregs[16];
	w->known = 0xffff;
	w->lazy = 0;
	w->flags = 0;
	return STEP_FRAME;
}

#else

/*
 * struct rt_sigframe: siginfo (128 bytes), struct ucontext, whose uc_mcontext (offset 176) has
 * fault_address, regs[31], sp, pc (arch/arm64/kernel/signal.c and include/uapi/asm/sigcontext.h,
 * Linux 6.18).
 */
INLINE int signal_step(struct walk *w)
{
	__u64 pc, sp = w->regs[REG_SP];

	if (!(w->known & (1u << REG_SP)))
		return stop(w, STOP_REGISTER);
	if (read_user(&pc, sizeof(pc), sp + 128 + 176 + 8 + 32 * 8))
		return stop(w, STOP_MEMORY);
	if (read_user(w->regs, 32 * 8, sp + 128 + 176 + 8))
		return stop(w, STOP_MEMORY);
	w->pc = pc;
	w->known = 0xffffffff;
	w->lazy = 0;
	w->flags = 0;
	return STEP_FRAME;
}

#endif

/*
 * Sets the caller's value of register n from where the rule says that it was saved. If it is lost,
 * that matters only where a rule needs it.
 */
INLINE void restore(struct walk *w, __u32 n, __u32 kind, __u64 cfa, __s64 offset)
{
	__u64 fp;

	switch (kind) {
	case SAVE_AT_CFA:
		set_reg_lazy(w, n, cfa + offset);
		break;
	case SAVE_AT_FP:
		if (get_reg(w, REG_FP, &fp))
			w->known &= ~(1u << n);
		else
			set_reg_lazy(w, n, fp + offset);
		break;
	case SAVE_UNDEFINED:
		w->known &= ~(1u << n);
		break;
	}
}

INLINE int find_cfa(struct walk *w, const struct rule *r, __u64 *cfa)
{
	__u64 base;
	int err = get_reg(w, r->reg, &base);

	if (err)
		return err;
	base += r->offset;
	if (r->cfa == CFA_MEM) {
		if (read_user(&base, sizeof(base), base))
			return STOP_MEMORY;
		base += r->offset2;
	} else if (r->cfa == CFA_PLT && (__s64)(w->pc & 15) >= r->offset2) {
		base += 8;
	}
	*cfa = base;
	return 0;
}

/*
 * A step by a table's rule of the kinds that compute a CFA: STEP_GUESS if the register that it
 * needs is lost.
 */
INLINE int cfa_step(struct walk *w, const struct rule *r)
{
	__u32 kept = 1u << REG_SP | 1u << REG_FP;
	__u64 cfa, ra, sp = w->regs[REG_SP];
	int err = find_cfa(w, r, &cfa);

#if defined(__TARGET_ARCH_arm64)
	if (err == STOP_REGISTER && r->reg == REG_SP)
		return chain_step(w);
#endif
	if (err == STOP_REGISTER)
		return STEP_GUESS;
	if (err)
		return stop(w, err);
	/*
	 * Only a frame that nothing was called from yet may have pushed nothing. A CFA that was
	 * saved anywhere but below the frame pointer, where realigned stacks have it, may be on
	 * another stack.
	 */
	if ((cfa < sp || (cfa == sp && (w->flags & FRAME_RETURN))) &&
	    !(r->cfa == CFA_REG && r->offset2 == CFA_NOTE_OTHER_STACK) &&
	    !(r->cfa == CFA_MEM && r->reg != REG_FP))
		return stop(w, STOP_NO_PROGRESS);

	if (r->ra == RA_REG && (err = get_reg(w, r->ra_offset, &ra)))
		return stop(w, err);
	/* rbx first: its place may be relative to this frame's fp, which the caller's replaces next
	 */
#ifdef REG_BX
	kept |= 1u << REG_BX;
	restore(w, REG_BX, r->save >> 4, cfa, 8 * (__s64)r->bx_offset);
#endif
	if (r->ra_offset == -1 && r->fp_offset == -2 && (r->save & 15) == SAVE_AT_CFA &&
	    r->ra == RA_AT_CFA) {
		__u64 pair[2];

		if (read_stack(w, &pair[0], cfa - 16))
			set_reg_lazy(w, REG_FP, cfa - 16);
		else
			set_reg(w, REG_FP, pair[0]);
		if (read_stack(w, &pair[1], cfa - 8))
			return stop(w, STOP_MEMORY);
		ra = pair[1];
	} else {
		if (r->ra == RA_AT_CFA && read_stack(w, &ra, cfa + 8 * (__s64)r->ra_offset))
			return stop(w, STOP_MEMORY);
		restore(w, REG_FP, r->save & 15, cfa, 8 * (__s64)r->fp_offset);
	}
	w->known &= kept;
	set_reg(w, REG_SP, cfa);
	w->pc = strip_pac(ra);
	w->flags = FRAME_RETURN;
	if (r->cfa == CFA_REG && r->offset2 == CFA_NOTE_INTERRUPTED) {
#if defined(__TARGET_ARCH_arm64)
		set_reg_lazy(w, REG_LR, cfa - 16);
#endif
		w->flags = 0;
	}
	return STEP_FRAME;
}

#endif
