/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0) */
/*
 * Steps through code without unwind information: what a JIT compiler made, assembler, files that
 * can't be read. The order of the tries and why is in
 * docs/decisions/0021-code-without-unwind-information.md; internal/unwind/reference does the same.
 */
#ifndef HOSTPROFILES_GUESS_H
#define HOSTPROFILES_GUESS_H

#include "exits.h"
#include "grade.h"
#include "steps.h"

/* Reads the words at addr for a scan, up to the end of their page if the next one can't be read. */
INLINE __u32 read_words(struct scratch *s, __u64 addr)
{
	__u32 len = 4096 - (addr & 4095);

	if (!read_user(s->guess.words, sizeof(s->guess.words), addr))
		return GUESS_WORDS;
	if (len >= sizeof(s->guess.words))
		return 0;
	opaque(len);
	len &= sizeof(s->guess.words) - 1;
	if (read_user(s->guess.words, len, addr))
		return 0;
	return len / 8;
}

/* Finds those of the n words that are addresses behind a call: the first GUESS_TRIES of them. */
GUESS_PART int find_returns(struct scratch *s, __u32 n)
{
	struct guess *g;

	if (!s)
		return 0;
	g = &s->guess;
	g->found = 0;
	for (__u32 i = 0; i < GUESS_WORDS; i++) {
		__u64 ra = strip_pac(g->words[i]);
		__u32 at;

		forget();
		at = g->found;
		if (i >= n || at >= GUESS_TRIES)
			break;
		g->number = search_mapping(&s->walk, ra - 1, &g->bounds);
		forget();
		if (g->number || find_call(s, ra) == CALL_NONE)
			continue;
		g->places[at & (GUESS_RETURNS - 1)] = i;
		g->found = at + 1;
	}
	return 0;
}

/*
 * Makes w describe the caller that ra, at slot, returns to. Nobody knows what became of the
 * registers: the frame pointer is taken for untouched if it may be one.
 */
INLINE void step_to(struct walk *w, __u64 slot, __u64 ra)
{
	__u64 fp, sp = slot + 8;
	int lost = get_reg(w, REG_FP, &fp) || (fp & 7) || fp < sp || fp - sp >= GUESS_NEAR;

	w->known = 0;
	w->lazy = 0;
	if (!lost)
		set_reg(w, REG_FP, fp);
	set_reg(w, REG_SP, sp);
#if defined(__TARGET_ARCH_arm64)
	w->known &= ~(1u << REG_SP); /* saved anywhere in the frame: a lower bound only */
#endif
	w->pc = ra;
	w->flags = FRAME_RETURN | FRAME_GUESSED;
}

/*
 * Looks for a return address from the stack pointer on. Below limit, where the frame pointer is
 * known to lead on, only a strong one counts that does not contradict it.
 */
INLINE int scan(struct scratch *s)
{
	struct walk *w = &s->walk;
	struct guess *g = &s->guess;

	g->cursor = w->regs[REG_SP];
	g->limit = g->sound ? g->fp + 8 : ~0ull;
	if (g->cursor & 7)
		return 0;
	for (int c = 0; c < GUESS_CHUNKS; c++) {
		forget();
		g->words_read = read_words(s, g->cursor);
		forget();
		find_returns(s, g->words_read);
		for (__u32 t = 0; t < GUESS_TRIES; t++) {
			__u32 i;
			__u64 slot, ra;

			forget();
			if (t >= g->found)
				break;
			i = g->places[t] & (GUESS_WORDS - 1);
			slot = g->cursor + 8 * (__u64)i;
			if (slot >= g->limit)
				return 0;
			ra = strip_pac(g->words[i]);
			g->grading = grade(s, slot, ra, g->fp, 0);
			forget();
			if (g->sound ? g->grading == GRADE_STRONG && g->cfa < g->limit
				     : g->grading) {
				step_to(w, slot, ra);
				return 1;
			}
		}
		if (g->words_read < GUESS_WORDS)
			break;
		g->cursor += sizeof(g->words);
	}
	return 0;
}

#if defined(__TARGET_ARCH_x86)

/* How far above the stack pointer the return address is, by the instruction at pc; negative if it
 * does not tell. */
INLINE int return_slot(const struct guess *g, __u64 pc)
{
	__u32 v = 0;
	__u8 before = 0;

	if (read_user(&v, sizeof(v), pc) && read_user(&v, 1, pc))
		return -1;
	if ((v & 0xff) == 0x55 || v == 0xfa1e0ff3) /* push %rbp; endbr64 */
		return 0;
	if ((v & 0xff) == 0xc3 || (v & 0xff) == 0xc2 || (v & 0xffff) == 0xc3f3) /* ret */
		return 0;
	v &= 0xffffff;
	if ((v == 0xe58948 || v == 0xec8b48) && pc > g->start && /* mov %rsp, %rbp */
	    !read_user(&before, 1, pc - 1) && before == 0x55)
		return 8;
	return -1;
}

/* Where an exit says that the return address is; false if it is nowhere. */
INLINE int read_slot(struct scratch *s, __u32 i)
{
	struct guess *g = &s->guess;
	__u64 sp = s->walk.regs[REG_SP];
	__s64 above = (__s64)g->exit[i].size - g->pushed;

	g->kind = g->exit[i].kind;
	g->caller_fp = g->fp;
	g->restored = 0;
	if (g->kind == EXIT_BY_FP) {
		g->slot = g->fp + 8;
		g->ra = g->pair[1];
		g->caller_fp = g->pair[0];
		g->restored = 1;
		return !g->framing && g->record;
	}
	g->slot = sp + above;
	if (above < 0 || above >= GUESS_NEAR || read_user(&g->ra, sizeof(g->ra), g->slot))
		return 0;
	above = (__s64)g->exit[i].fp_at - g->pushed;
	if (above < 0)
		return 1;
	g->restored = 1;
	return !read_user(&g->caller_fp, sizeof(g->caller_fp), sp + above);
}

/* Makes w describe the caller if the return address is where an exit says. */
INLINE int exit_step(struct scratch *s, __u32 i)
{
	struct walk *w = &s->walk;
	struct guess *g = &s->guess;

	g->grading = read_slot(s, i);
	forget();
	if (!g->grading)
		return 0;
	g->grading =
	    grade(s, g->slot, g->ra, g->caller_fp, g->kind == EXIT_BY_SP || g->kind == EXIT_BY_FP);
	forget();
	if (!g->grading || (g->kind == EXIT_LEAF && (g->grading != GRADE_STRONG || g->cfa > g->fp)))
		return 0;
	w->known = 0;
	w->lazy = 0;
	if (g->has_fp || g->restored)
		set_reg(w, REG_FP, g->caller_fp);
	set_reg(w, REG_SP, g->slot + 8);
	w->pc = g->ra;
	w->flags = FRAME_RETURN | FRAME_GUESSED;
	return 1;
}

/* A step by what the code at pc tells. A leaf may also have no frame. */
INLINE int code_step(struct scratch *s)
{
	struct walk *w = &s->walk;
	struct guess *g = &s->guess;

	g->exact = !(w->flags & FRAME_RETURN);
	g->offset = g->exact ? return_slot(g, w->pc) : -1;
	forget();
	g->exits = 0;
	g->pushed = 0;
	g->bare = 0;
	if (g->offset >= 0)
		add_exit(g, g->offset, -1, EXIT_BY_SP);
	forget();
	find_exits(s);
	forget();
	if (g->offset >= 0) /* this is from the stack pointer as it is now */
		g->exit[0].size = g->offset + g->pushed;
	else if (g->bare)
		add_exit(g, 0, -1, EXIT_BARE);
	else if (g->exact)
		add_exit(g, g->pushed, -1, EXIT_LEAF);
	for (__u32 i = 0; i < GUESS_EXITS; i++) {
		forget();
		if (i >= g->exits)
			break;
		if (exit_step(s, i))
			return 1;
	}
	return 0;
}

#else

/* Whether the return address is in the link register, by the instruction at pc: stp x29, x30, [sp,
 * #-n]!, ret and its forms that authenticate, paciasp, pacibsp, bti c. */
INLINE int link_is_there(__u32 v)
{
	return (v & 0xffc07fff) == 0xa9807bfd || v == 0xd65f03c0 || v == 0xd65f0bff ||
	       v == 0xd65f0fff || v == 0xd503233f || v == 0xd503237f || v == 0xd503245f;
}

/* Where a function begins or ends, the code tells. */
INLINE int code_step(struct scratch *s)
{
	struct walk *w = &s->walk;
	__u64 ra, sp = w->regs[REG_SP], pair[2];
	__u32 v[2] = {};

	if (w->flags & FRAME_RETURN)
		return 0;
	if (read_user(&v[1], sizeof(v[1]), w->pc))
		return 0;
	if (link_is_there(v[1])) {
		if (get_reg(w, REG_LR, &ra))
			return 0;
		ra = strip_pac(ra);
		s->guess.exact_sp = 1;
		if (!grade(s, sp - 8, ra, s->guess.fp, 0)) {
			s->guess.exact_sp = 0;
			return 0;
		}
		step_to(w, sp - 8, ra);
		set_reg(w, REG_SP, sp);
		return 1;
	}
	/* mov x29, sp behind the stp */
	if (v[1] != 0x910003fd || w->pc <= s->guess.start ||
	    read_user(&v[0], sizeof(v[0]), w->pc - 4) || (v[0] & 0xffc07fff) != 0xa9807bfd ||
	    read_user(pair, sizeof(pair), sp))
		return 0;
	ra = strip_pac(pair[1]);
	if (!grade(s, sp + 8, ra, pair[0], 1))
		return 0;
	step_to(w, sp + 8, ra);
	return 1;
}

#endif

/*
 * Whether the frame pointer leads to a frame of the same mapping: such code keeps a chain of them.
 * This is what most JIT compilers' frames are like, and needs no search.
 */
INLINE int chained(struct walk *w, const __u64 pair[2], __u64 fp)
{
	__u64 ra = strip_pac(pair[1]), target;
	int call;

	if (w->mapping.flags & MAPPING_TABLE || ra - 1 < w->mapping.start ||
	    ra - 1 >= w->mapping.end || pair[0] <= fp || pair[0] - fp >= GUESS_NEAR)
		return 0;
	call = call_before(w->mapping.start, ra, &target);
	if (call == CALL_DIRECT)
		return target >= w->mapping.start && target <= w->pc && saves_fp(target);
	return call != CALL_NONE;
}

/* Whether the code that a record returns to is there at all, if nothing better is found. */
INLINE int returns_to_code(struct scratch *s, __u64 ra)
{
	return code_rule(s, ra - 1) && find_call(s, ra) != CALL_NONE;
}

/* What the frame pointer is, and the record that it points to. */
INLINE void look_at_fp(struct scratch *s)
{
	struct walk *w = &s->walk;
	struct guess *g = &s->guess;
	__u64 fp = 0, pair[2] = {};

	g->has_fp = !get_reg(w, REG_FP, &fp);
	g->record = g->has_fp && fp && !read_record(w, pair, fp);
	g->chain = g->record && chained(w, pair, fp);
	g->fp = fp;
	g->pair[0] = pair[0];
	g->pair[1] = pair[1];
	forget();
}

/* What a step from the frame at pc, which was pushed, needs to know; w->mapping is the code's. */
INLINE void begin_guess(struct scratch *s)
{
	struct guess *g = &s->guess;
	struct walk *w = &s->walk;

	g->start = w->mapping.start;
	g->end = w->mapping.end;
	g->table = w->mapping.flags & MAPPING_TABLE;
	g->exact_sp = 0;
	g->sound = GRADE_NONE;
	look_at_fp(s);
}

/*
 * One step from the frame at pc, in code without unwind information. First by what is cheap or
 * certain: STEP_GUESS if that does not lead on.
 */
INLINE int guess_by_code(struct scratch *s)
{
	struct guess *g = &s->guess;
	struct walk *w = &s->walk;

	begin_guess(s);
	if (g->chain && w->flags & FRAME_RETURN)
		return record_step(w, g->pair, g->fp);
	if (w->known & (1u << REG_SP) && code_step(s))
		return STEP_FRAME;
	forget();
	if (g->chain)
		return record_step(w, g->pair, g->fp);
	return STEP_GUESS;
}

/* By the frame pointer's record, as nothing better was found; or the end. */
INLINE int guess_by_fp(struct scratch *s)
{
	struct guess *g = &s->guess;
	struct walk *w = &s->walk;

	if (g->record && (g->sound || returns_to_code(s, strip_pac(g->pair[1]))))
		return record_step(w, g->pair, g->fp);
	if (g->reason)
		return stop(w, g->reason);
	/* the end of a chain of frame pointers, if it is known to be one */
	if (g->has_fp && (!g->fp || (g->record && !strip_pac(g->pair[1]))) &&
	    (g->table || w->flags & FRAME_GUESSED))
		return stop(w, STOP_ROOT);
	return stop(w, g->table ? STOP_NO_RULE : STOP_NO_UNWIND_INFO);
}

/* Then by what lies on the stack, which is searched GUESS_SEARCHES times at most: stacks can be
 * made so that each frame's search is long. */
INLINE int guess_by_stack(struct scratch *s)
{
	struct guess *g = &s->guess;
	struct walk *w = &s->walk;

	if (g->record && g->fp - w->regs[REG_SP] < GUESS_NEAR)
		g->sound = grade(s, g->fp + 8, strip_pac(g->pair[1]), g->pair[0], 1);
	forget();
#if defined(__TARGET_ARCH_arm64)
	if (g->sound)
		return record_step(w, g->pair, g->fp);
#endif
	if (w->known & (1u << REG_SP) && w->searches < GUESS_SEARCHES) {
		w->searches++;
		if (scan(s))
			return STEP_FRAME;
	}
	forget();
	return guess_by_fp(s);
}

/* What is left of a guess where the verifier refuses the rest. */
INLINE int do_guess_plainly(struct scratch *s)
{
	begin_guess(s);
	return guess_by_fp(s);
}

#ifdef VARIANT_LOOP
GUESS_PART int guess_step(struct scratch *s)
{
	int ret;

	if (!s)
		return STEP_STOP;
	ret = guess_by_code(s);
	return ret == STEP_GUESS ? guess_by_stack(s) : ret;
}

GUESS_PART int guess_plainly(struct scratch *s)
{
	if (!s)
		return STEP_STOP;
	return do_guess_plainly(s);
}
#endif

#endif
